#!/usr/bin/env python3
"""spend-hot: many sessions that spend the credits of one tenant.

mortar-hot   mortar.charge on one tenant, an idempotency key of its own per call
mortar-many  the same load, spread over 1,000 tenants
ledger-sql   transfers from one account by peers/ledger-sql, in plain SQL and
             without idempotency keys; ledger-sql-8 with eight sessions only, as
             behind a pool, since those who wait for a row lock cost something

After each run the balance must be what was given less what was charged, exactly.
"""

import argparse
import os
import sys

import compare
import database
import pgbench
import setup
from common import say, spread
from compare import Ratio, Scenario
from growth import CHUNK
from load import BenchError, HERE

TENANTS = 1000
HOT = "hot"
POOLED = 8
USER = "bench_app"  # bypasses no row-level security
CREDITS_UC = setup.CREDITS_UC // 10 ** 3
WAL_FIGURES = ["wal_bytes", "wal_bytes_no_fpi", "wal_syncs", "wal_sync_ms"]
NOTE = """mortar stores an idempotency key with each charge, so that a call that is repeated
charges once; ledger-sql has none.  Sharing a flush between commits is PostgreSQL's
own group commit: charges can use it because no lock of theirs lasts until then
that another key's charge waits for."""


class Wal:
    """What the server writes to its log from here to figures()."""

    def __init__(self):
        self.syncs, self.sync_ms, self.lsn = self._read()

    @staticmethod
    def _read():
        # a backend reports what it did before it is gone; all of it is flushed, as
        # what others insert beyond need not be, and then cannot be read
        out = database.psql(
            "DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_stat_activity "
            "WHERE application_name = 'pgbench') LOOP PERFORM pg_sleep(0.01), "
            "pg_stat_clear_snapshot(); END LOOP; END $$;\n"
            "SELECT wal_sync, wal_sync_time, pg_current_wal_flush_lsn() "
            "FROM pg_stat_wal;").split("|")
        return int(out[0]), float(out[1]), out[2]

    def figures(self, transactions):
        syncs, sync_ms, lsn = self._read()
        total, images = (int(x) for x in database.psql(
            "SELECT pg_wal_lsn_diff(:'b', :'a'), sum(fpi_size)::int8 "
            "FROM pg_get_wal_stats(:'a', :'b');", a=self.lsn, b=lsn).split("|"))
        syncs -= self.syncs
        return {"wal_bytes": total / transactions,
                "wal_bytes_no_fpi": (total - images) / transactions,
                "wal_syncs": syncs / transactions,
                "wal_sync_ms": (sync_ms - self.sync_ms) / max(syncs, 1)}


class Pgbench:
    """A target of compare.Runner; check(n) raises unless n units are gone."""

    setting = None

    def __init__(self, name, statement, check, sessions=None):
        self.name, self.statement, self.check = name, statement, check
        self.sessions = sessions
        self.spent = 0

    def measure(self, postmaster, connections, seconds):
        wal = Wal()
        result = pgbench.run(self.statement, postmaster, self.sessions or connections,
                             seconds, USER)
        result.update(wal.figures(result["transactions"]))
        self.spent += result["transactions"]
        self.check(self.spent)
        return result


def require(what, found, wanted):
    if found != wanted:
        raise BenchError("%s: %s, but it must be %s" % (what, found, wanted))


def verify_ledger(tenant):
    bad = database.psql("SELECT check_name, detail FROM mortar.verify_ledger(nullif(:'t', '')) "
                        "WHERE NOT ok;", t=tenant or "")
    if bad:
        raise BenchError("verify_ledger finds: " + bad)


# ---- mortar ----------------------------------------------------------------

CHECK_MORTAR = """
SELECT (SELECT sum(b.available_uc) FROM mortar.tenants t, mortar.balance(t.tenant_id) b
            WHERE t.tenant_id ~ :'like'),
       (SELECT sum(amount_uc) FROM mortar.credit_ledger
            WHERE tenant_id ~ :'like' AND kind = 'charge'),
       (SELECT count(*) FROM mortar.idempotency
            WHERE tenant_id ~ :'like' AND key LIKE 'order-%');
"""


def check_mortar(pattern, tenants, spent):
    """memory, ledger and stored keys agree with what pgbench has done"""
    out = database.psql(CHECK_MORTAR, like=pattern).split("|")
    require("balance, charges and idempotency keys of " + pattern,
            [int(x or 0) for x in out], [tenants * CREDITS_UC - spent, spent, spent])
    if tenants == 1:
        verify_ledger(HOT)


def make_mortar(many):
    allowed = int(database.psql("SHOW mortar.max_tenants;"))
    if many > allowed - 100:
        raise BenchError("mortar.max_tenants is %d, too few for %d" % (allowed, many))
    make = ("SELECT mortar.create_tenant(t), mortar.grant_credits(t, %d, 'given') "
            "FROM (SELECT %%s) x (t) \\g /dev/null\n" % CREDITS_UC)
    database.psql(make % ("'%s'::text" % HOT) + "".join(
        make % ("'many-' || generate_series(%d, %d)" % (first, min(first + CHUNK - 1, many)))
        for first in range(1, many + 1, CHUNK)))
    charge = "SELECT mortar.charge(%s, 1, 'order-' || gen_random_uuid());\n"
    return [
        Pgbench("mortar-hot", charge % ("'%s'" % HOT),
                lambda n: check_mortar("^%s$" % HOT, 1, n)),
        Pgbench("mortar-many", "\\set i random(1, %d)\n" % many + charge % "'many-' || :i",
                lambda n: check_mortar("^many-", many, n))]


# ---- the peer --------------------------------------------------------------

CHECK_PEER = """
SELECT a.balance, r.balance,
       (SELECT count(*) FROM ledger_sql.transfers
            WHERE (from_account, to_account, amount) = (a.id, r.id, 1)),
       (SELECT count(*) FROM ledger_sql.entries
            WHERE account_id IN (a.id, r.id) AND balance_before + amount = balance_after)
  FROM ledger_sql.accounts a, ledger_sql.accounts r
 WHERE a.name = :'payer' AND r.name = 'revenue of ' || :'payer';
"""


def check_peer(payer, spent):
    out = database.psql(CHECK_PEER, payer=payer).split("|")
    require("balances, transfers and entries of ledger-sql", [int(x) for x in out],
            [CREDITS_UC - spent, spent, spent, 2 * spent])


def make_peer(name, sessions=None):
    """a target of its own two accounts"""
    payer, payee = database.psql(
        "INSERT INTO ledger_sql.accounts (name, balance, allow_negative) "
        "VALUES (:'n', :c, false), ('revenue of ' || :'n', 0, true) RETURNING id;",
        n=name, c=CREDITS_UC).split()
    return Pgbench(name, "SELECT ledger_sql.transfer(%s, %s, 1);\n" % (payer, payee),
                   lambda n: check_peer(name, n), sessions)


def make_peers():
    with open(os.path.join(HERE, "peers/ledger-sql/schema.sql"), encoding="utf-8") as f:
        database.psql(f.read())
    database.psql("GRANT USAGE ON SCHEMA ledger_sql TO :\"u\";\n"
                  "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA ledger_sql TO :\"u\";",
                  u=USER)
    return [make_peer("ledger-sql"), make_peer("ledger-sql-8", POOLED)]


# ---- the scenario ----------------------------------------------------------

class Spend(compare.Runner):
    """Each run begins after a checkpoint: whatever full-page images it writes are
    its own, and are told apart."""

    def __init__(self, scenario, options, targets):
        self.given = {t.name: t for t in targets}
        super().__init__(scenario, options)

    def _require_rls(self):
        database.require_rls(["mortar.credit_ledger", "mortar.idempotency"], [USER])

    def _target(self, name):
        return self.given[name]

    def _order(self, number):
        return self.targets if number % 2 else self.targets[::-1]

    def _prepare(self, target):
        database.psql("CHECKPOINT;")

    def warm_up(self):
        """each run warms up its own sessions"""


def report_wal(runner):
    say()
    say("%-12s %28s %20s %14s %14s %14s" % (
        "target", "bytes of WAL per charge", "without full-page", "WAL flushes",
        "charges", "ms"))
    say("%-12s %28s %20s %14s %14s %14s" % (
        "", "median (quartiles)", "images", "per charge", "per flush", "per flush"))
    for target in runner.targets:
        q1, median, q3 = spread([r["wal_bytes"] for r in runner.runs
                                 if r["target"] == target.name])
        bare, syncs, ms = (spread([r[figure] for r in runner.runs
                                   if r["target"] == target.name])[1]
                           for figure in WAL_FIGURES[1:])
        say("%-12s %28s %20s %14s %14s %14s" % (
            target.name, "%.0f (%.0f-%.0f)" % (median, q1, q3), "%.0f" % bare,
            "%.3f" % syncs, "%.1f" % (1 / syncs if syncs else 0), "%.2f" % ms))
    say("\n" + NOTE)


def spend_hot(o):
    many = o.size or TENANTS
    database.psql("CREATE ROLE :\"u\" LOGIN IN ROLE mortar_admin;\n"
                  "CREATE EXTENSION pg_walinspect;", u=USER)
    targets = [*make_mortar(many), *make_peers()]
    database.psql("VACUUM ANALYZE;")
    runner = Spend(Scenario(
        "one tenant, beside {size} of them, and beside a ledger in SQL",
        [t.name for t in targets],
        [Ratio("mortar-hot", "mortar-many", "req_per_s", least=0.90),
         Ratio("mortar-many", "mortar-hot", "server_cpu_us", least=0.90),
         Ratio("mortar-hot", "ledger-sql", "req_per_s", least=5.0),
         Ratio("mortar-hot", "ledger-sql-8", "req_per_s"),
         Ratio("mortar-hot", "ledger-sql", "server_cpu_us"),
         Ratio("mortar-hot", "ledger-sql-8", "server_cpu_us"),
         Ratio("mortar-hot", "ledger-sql", "wal_bytes"),
         Ratio("mortar-hot", "ledger-sql", "wal_bytes_no_fpi")],
        sessions="sessions of pgbench, prepared statements", more=WAL_FIGURES), o, targets)
    o.size = many
    runner.run()
    verify_ledger(None)
    compare.report(runner)
    report_wal(runner)
    say("\nAfter each run balance = credits given - charges, in memory and in tables, and one\n"
        "stored key per charge; verify_ledger found nothing at the end.")
    compare.save(runner)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("scenario", choices=["spend-hot"])
    p.add_argument("--size", type=int, help="tenants that the load is spread over")
    p.add_argument("--connections", type=int, default=32)
    p.add_argument("--duration", type=int, default=2)
    p.add_argument("--rounds", type=int, default=compare.ROUNDS)
    o = p.parse_args()
    try:
        spend_hot(o)
    except (BenchError, OSError) as problem:
        say("bench: %s" % problem)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
