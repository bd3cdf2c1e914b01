#!/usr/bin/env python3
"""What must not cost more when the installation grows: tenants and history.

tenants   lists of 10, 1,000 and 100,000 tenants that are all in use
history   list, insert and charge of a tenant with a long ledger beside one
          with an empty one

Both use compare.py's interleaved runs; here are their data and their targets.
"""

import argparse
import os
import socket
import sys
import tempfile
import time

import compare
import database
import memory
import pgbench
import procs
import setup
from common import say
from compare import Ratio, Scenario
from load import BenchError, Target

MOST_TENANTS, ENTRIES = 100_000, 100_000
CHUNK = 200          # tenants made in one transaction
LEDGER_CHUNK = 100_000
HISTORY_BAR = 1.05
CHARGE_SESSIONS = 8
STATEMENT_TIMEOUT = "5s"  # that of the gateway's sessions


def base_url():
    return os.environ["BENCH_MORTAR_URL"].partition("/v1/")[0]


def mortar_target(name, tenant, key):
    target = Target(name, "%s/v1/%s/db/tables" % (base_url(), tenant), key)
    target.pids = procs.listeners(target.address[1])
    return target


def make_tenant(tenant):
    """with credits that no run exhausts; returns its key"""
    return database.psql(
        "SELECT mortar.create_tenant(:'t', 'Growth') \\g /dev/null\n"
        "SELECT mortar.grant_credits(:'t', :c, 'growth') \\g /dev/null\n"
        "SELECT mortar.create_key(:'t', 'growth');", t=tenant, c=setup.CREDITS_UC)


class Growth(compare.Runner):
    """A Runner whose targets are given.  What is written is compared here with
    1.05, and a run pays for pages that an earlier one has filled or that a
    checkpoint has made clean: so each begins after a checkpoint, and every other
    round goes backwards."""

    def __init__(self, scenario, options, targets):
        self.given = {t.name: t for t in targets}
        database.require_rls(["mortar.doc_tables", "mortar.doc_rows"],
                             ["mortar_tenant", "mortar_gateway"])
        super().__init__(scenario, options)

    def _target(self, name):
        return self.given[name]

    def _order(self, number):
        return self.targets if number % 2 else self.targets[::-1]

    def _prepare(self, target):
        super()._prepare(target)
        database.psql("CHECKPOINT;")

    def _count_rows(self):
        pass

    def warm_up(self):
        for target in self.targets:
            say("  warm-up  %s" % target.name)
            target.measure(self.postmaster, self.options.connections, compare.WARM_UP_S)


# ---- tenants ---------------------------------------------------------------

def make_tenants(count, path):
    """count tenants t1 ...; writes their keys into a file"""
    script = [
        "SELECT mortar.create_tenant('t' || i), mortar.grant_credits('t' || i, %d, 'g'), "
        "'line t' || i || ' ' || mortar.create_key('t' || i, 'k') "
        "FROM generate_series(%d, %d) i;" % (
            setup.CREDITS_UC // 10 ** 6, first, min(first + CHUNK - 1, count))
        for first in range(1, count + 1, CHUNK)]
    began = time.monotonic()
    out = database.psql("\n".join(script))
    lines = [l.partition("line ")[2] for l in out.splitlines() if "line " in l]
    if len(lines) != count:
        raise BenchError("%d tenants were made, not %d" % (len(lines), count))
    with open(path, "w", encoding="ascii") as f:
        f.write("\n".join(lines) + "\n")
    say("  %d tenants with credits and a key each: made in %.0f s"
        % (count, time.monotonic() - began))


def touch_all(path, postmaster, gateway):
    """One request for each tenant; server CPU microseconds of a first touch."""
    with open(path, encoding="ascii") as f:
        keys = [line.split() for line in f]
    waiting = memory.Waiting(mortar_target("", *keys[0]))
    sock = socket.create_connection(waiting.target.address, timeout=10)

    def cpu():
        return procs.tree_cpu_s(postmaster) + sum(procs.tree_cpu_s(p) for p in gateway)

    before, began = cpu(), time.monotonic()
    for tenant, key in keys:
        waiting.request = ("GET /v1/%s/db/tables HTTP/1.1\r\nHost: bench\r\napikey: %s"
                           "\r\n\r\n" % (tenant, key)).encode("ascii")
        waiting.ask(sock)
    sock.close()
    time.sleep(compare.MORTAR_FLUSH_S)
    us = (cpu() - before) / len(keys) * 1e6
    say("  first touch of all: %.0f us of server CPU each, flush included (%.0f s)"
        % (us, time.monotonic() - began))


def tenants(o):
    most = o.size or MOST_TENANTS
    steps = [n for n in (10, 1000, 100_000) if n < most] + [most]
    allowed = int(database.psql("SHOW mortar.max_tenants;"))
    if most > allowed // 2:
        raise BenchError("mortar.max_tenants is %d, too few for %d" % (allowed, most))
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as f:
        make_tenants(most, f.name)
        targets = []
        for n in steps:
            for form in ("uniform", "zipf"):
                t = mortar_target("tenants-%d-%s" % (n, form), "t1", "")
                with open(f.name, encoding="ascii") as keys:
                    t.key = keys.readline().split()[1]
                t.script, t.script_args = "tenants.lua", [f.name, n, form]
                targets.append(t)
        touch_all(f.name, database.postmaster(), targets[0].pids)
        ratios = [Ratio("tenants-%d-%s" % (n, form), "tenants-%d-%s" % (steps[0], form),
                        "server_cpu_us") for form in ("uniform", "zipf") for n in steps[1:]]
        run("tenants", Scenario("GET db/tables of tenants without tables",
                                [t.name for t in targets], ratios), o, targets)
    say("\nshared memory of the extension: %s" % database.psql(
        "SELECT pg_size_pretty(sum(allocated_size)) FROM pg_shmem_allocations "
        "WHERE name ILIKE '%mortar%';"))


# ---- history ---------------------------------------------------------------

LEDGER = """
INSERT INTO mortar.credit_ledger (tenant_id, entry_id, movement_id, kind,
        from_account, to_account, amount_uc, grant_id, effective_at, posted_at,
        epoch_id)
    SELECT :'t', i.id, i.id, 'charge', 'available', 'consumed', 1, g.grant_id,
           i.at, i.at, e.epoch_id
      FROM (SELECT ('0189' || lpad(to_hex(n), 8, '0') || '7'
                    || lpad(to_hex(n % 4096), 3, '0') || '8000'
                    || lpad(to_hex(n), 12, '0'))::uuid AS id,
                   now() - interval '400 days' + n * interval '3 seconds' AS at
              FROM generate_series(:first::int8, :last::int8) n) i,
           (SELECT epoch_id FROM mortar.epochs LIMIT 1) e,
           (SELECT grant_id FROM mortar.credit_grants WHERE tenant_id = :'t'
             ORDER BY amount_uc DESC LIMIT 1) g;
INSERT INTO mortar.idempotency (tenant_id, key, fingerprint, result)
    SELECT :'t', 'past-' || i, '\\x00', gen_random_uuid()
      FROM generate_series(:first::int8, :last::int8) i;
"""


def write_history(tenant, entries):
    """Charges of the past, each with its idempotency key, as rows: the
    functions would take a transaction each."""
    began = time.monotonic()
    for first in range(1, entries + 1, LEDGER_CHUNK):
        database.psql(LEDGER, t=tenant, first=first,
                      last=min(first + LEDGER_CHUNK - 1, entries))
    database.psql("VACUUM ANALYZE mortar.credit_ledger, mortar.idempotency;\nCHECKPOINT;")
    written = int(database.psql(
        "SELECT count(*) FROM mortar.credit_ledger WHERE tenant_id = :'t' "
        "AND kind = 'charge';", t=tenant))
    if written != entries:
        raise BenchError("%d ledger entries were written, not %d" % (written, entries))
    say("  %d ledger entries written in %.0f s" % (entries, time.monotonic() - began))


def first_touch(tenant):
    """Milliseconds until the balance is known: rows that were written by hand
    make every slot stale, so the tenant is read from its tables again."""
    out = database.psql("SET statement_timeout = '%s';\n\\timing on\n"
                        "SELECT available_uc FROM mortar.balance(:'t');\n" % STATEMENT_TIMEOUT,
                        t=tenant)
    return float(out.split("Time:")[1].split()[0])


class Charge(Target):
    """mortar.charge by pgbench; there is no gateway, so no front.  `key` is the
    tenant."""

    def measure(self, postmaster, connections, seconds):
        return pgbench.run("SELECT mortar.charge('%s', 1, 'bench-' || gen_random_uuid());\n"
                           % self.key, postmaster, connections, seconds)


def history(o):
    entries = o.size or ENTRIES
    names = {"empty": "hist-0", "long": "hist-%d" % entries}
    keys = {k: make_tenant(t) for k, t in names.items()}
    targets = {k: mortar_target(k, t, keys[k]) for k, t in names.items()}
    for t in targets.values():
        for i in range(1, 11):
            setup.post_table(t.url, t.key, setup.table_name(i))
    write_history(names["long"], entries)
    took = first_touch(names["long"])
    say("  first touch of %d entries: %.0f ms; of an empty ledger: %.1f ms"
        % (entries, took, first_touch(names["empty"])))

    for what in ("list", "insert", "charge"):
        made = []
        if what == "charge":
            o.connections = CHARGE_SESSIONS
        for k in ("empty", "long"):
            if what == "charge":
                t = Charge(k, targets[k].url, names[k])
            else:
                t = mortar_target(k, names[k], keys[k])
            if what == "insert":
                t.url = t.url.replace("/db/tables", "/db/rows/" + setup.table_name(1))
                t.body = compare.ROW
            made.append(t)
        run("history-" + what, Scenario(
            "%s of a tenant with %d ledger entries, and with none" % (what, entries),
            ["empty", "long"], [Ratio("long", "empty", "server_cpu_us", most=HISTORY_BAR)],
            insert=what == "insert",
            sessions="sessions of pgbench" if what == "charge" else Scenario.sessions),
            o, made)


def run(name, scenario, o, targets):
    o.scenario = name
    runner = Growth(scenario, o, targets)
    runner.run()
    compare.report(runner)
    compare.save(runner)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("scenario", choices=["tenants", "history"])
    p.add_argument("--size", type=int, help="most tenants; ledger entries")
    p.add_argument("--connections", type=int, default=64)
    p.add_argument("--duration", type=int, default=5)
    p.add_argument("--rounds", type=int, default=compare.ROUNDS)
    o = p.parse_args()
    try:
        (tenants if o.scenario == "tenants" else history)(o)
    except (BenchError, OSError) as problem:
        say("bench: %s" % problem)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
