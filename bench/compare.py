#!/usr/bin/env python3
"""Runs one scenario: interleaved runs of its targets, and what follows from them.

Targets take turns (A B C A B C ...), so that whatever else happens on the
machine meets all of them alike.  A ratio is formed within each round and the
median and quartiles of the rounds' ratios are what counts.  Ratios that lie
within 10 % of 1 are repeated until there are nine.

run.sh starts the servers and describes them in environment variables; see
README.md, which also says how to measure an installation that exists.
"""

import argparse
import dataclasses
import json
import os
import statistics
import sys
import time

import common
import database
import load
import procs
import setup
from common import say, spread
from load import BenchError, Target

ROUNDS = 5
ROUNDS_NEAR_ONE = 9
NEAR_ONE = 0.10
FOREIGN_LIMIT = 0.10
WARM_UP_S = 3
MORTAR_FLUSH_S = 0.4  # twice mortar.flush_interval
SEED_FLUSH_S = 1.2    # a little more than the peer's own interval


@dataclasses.dataclass
class Ratio:
    """a / b of a figure; `least` or `most` is the bar, `aim` what we hope for."""

    a: str
    b: str
    figure: str
    least: float = None
    most: float = None
    aim: float = None


@dataclasses.dataclass
class Scenario:
    title: str
    targets: list
    ratios: list
    insert: bool = False  # POST a row instead
    sessions: str = "keep-alive connections"
    more: list = dataclasses.field(default_factory=list)  # figures to save, too
    syncs: bool = False  # count how often the WAL is synced


# about 100 bytes, as a small record of an application
ROW = json.dumps({"customer": "c-10017", "amount": 129.5, "currency": "EUR",
                  "paid": True, "tags": ["web", "spring"]})

SCENARIOS = {
    "list": Scenario(
        "GET db/tables, {size} rows", ["mortar", "limit-http", "limit-sql", "seed-go"],
        [Ratio("mortar", "limit-http", "req_per_s"),
         Ratio("mortar", "limit-sql", "req_per_s", least=0.60, aim=0.90),
         Ratio("mortar", "seed-go", "req_per_s", least=5.0, aim=10.0)]),
    "list-metering": Scenario(
        "GET db/tables, {size} rows, metering", ["mortar:off", "mortar:buffered"],
        [Ratio("mortar:buffered", "mortar:off", "server_cpu_us", most=1.03, aim=1.01)]),
    "durability": Scenario(
        "GET db/tables, {size} rows, metering that a crash loses, or not",
        ["mortar:off", "mortar:buffered", "mortar:group", "mortar:sync", "mortar-20:group",
         "mortar-20:sync", "seed-go-noop", "seed-go", "seed-go-sync"],
        [Ratio("mortar:off", "seed-go-noop", "req_per_s"),
         Ratio("mortar:buffered", "seed-go", "req_per_s"),
         Ratio("mortar:sync", "seed-go-sync", "req_per_s"),
         Ratio("mortar-20:sync", "mortar:sync", "req_per_s"),
         Ratio("mortar-20:group", "mortar-20:sync", "req_per_s"),
         Ratio("mortar-20:group", "seed-go-sync", "req_per_s"),
         Ratio("mortar-20:sync", "seed-go-sync", "req_per_s"),
         Ratio("mortar-20:sync", "seed-go-sync", "server_cpu_us"),
         Ratio("mortar-20:group", "mortar:off", "server_cpu_us"),
         Ratio("mortar-20:sync", "mortar:off", "server_cpu_us")], syncs=True),
    "list-metering-seed": Scenario(
        "GET db/tables, {size} rows, the seed's metering",
        ["seed-go-noop", "seed-go", "seed-go-sync"],
        [Ratio("seed-go", "seed-go-noop", "server_cpu_us"),
         Ratio("seed-go-sync", "seed-go-noop", "server_cpu_us")]),
    "insert": Scenario(
        "POST db/rows/{{t}}, one row of %d bytes" % len(ROW),
        ["mortar:off", "mortar:buffered", "seed-go"],
        [Ratio("mortar:buffered", "mortar:off", "server_cpu_us", most=1.05, aim=1.01),
         Ratio("mortar:buffered", "seed-go", "req_per_s"),
         Ratio("mortar:buffered", "seed-go", "server_cpu_us")], insert=True),
    "pool-seed": Scenario(
        "GET db/tables, {size} rows, pool size of the peer",
        ["seed-go", "seed-go-4", "seed-go-10", "seed-go-40"],
        [Ratio("seed-go-4", "seed-go", "req_per_s"),
         Ratio("seed-go-10", "seed-go", "req_per_s"),
         Ratio("seed-go-40", "seed-go", "req_per_s")]),
}


class Metering:
    """Proves that the setting under test was in force: the tenant's own usage
    must have moved by the requests of a run, or not at all."""

    def __init__(self, target):
        self.target = target
        self.path = target.path.partition("/db/")[0] + "/usage/me"

    def requests(self):
        status, body, _ = load.fetch(self.target, self.path)
        if status != 200:
            raise BenchError("%s answers %d" % (self.path, status))
        return json.loads(body)["requests"]

    def require(self, before, result, connections):
        moved = self.requests() - before
        if self.target.setting == "off":
            if moved:
                raise BenchError("metering is off, but usage moved by %d" % moved)
        elif not result["requests"] <= moved <= result["requests"] + connections + 4:
            raise BenchError("%d requests were answered, but usage moved by %d"
                             % (result["requests"], moved))


class Runner:
    def __init__(self, scenario, options):
        self.scenario = scenario
        self.options = options
        self.postmaster = database.postmaster()
        self.settings = database.settings()
        self.targets = [self._target(name) for name in scenario.targets]
        self.targets = [t for t in self.targets if t]
        switched = any(t.setting for t in self.targets)
        self.mode = database.EgressMode() if switched else None
        self.runs = []
        self.syncs = {}  # of a request, by the target's name
        self._require_rls()
        if not self.targets:
            raise BenchError("none of this scenario's targets is running: "
                             + " ".join(scenario.targets))

    def _require_rls(self):
        names = " ".join(t.name for t in self.targets)
        if "mortar" in names:
            database.require_rls(["mortar.doc_tables", "mortar.doc_rows"],
                                 ["mortar_tenant", "mortar_gateway"])
        if "seed-go" in names:
            database.require_rls(["seed.app_tables", "seed.app_rows"], ["seed_app"])

    def _target(self, name):
        """BENCH_<NAME>_URL and _KEY, as run.sh set them; None when absent"""
        server, _, setting = name.partition(":")
        prefix = "BENCH_" + server.upper().replace("-", "_")
        url = os.environ.get(prefix + "_URL")
        if not url:
            return None
        target = Target(name, url, os.environ.get(prefix + "_KEY", ""), setting or None,
                        settle_s=SEED_FLUSH_S if name.startswith("seed")
                        else MORTAR_FLUSH_S)
        if self.scenario.insert:
            target.url = url.replace("/db/tables", "/db/rows/" + setup.table_name(1))
            target.body = ROW
        target.pids = procs.listeners(target.address[1])
        return target

    def _count_rows(self):
        """The size that counts is what is listed, by every list alike."""
        if self.scenario.insert:
            return
        sizes = {t.name: len(json.loads(load.probe(t))) for t in self.targets
                 if not t.name.startswith("limit-")}
        if len(set(sizes.values())) > 1:
            raise BenchError("the lists differ in length: %s" % sizes)
        for size in sizes.values():
            self.options.size = size

    def _prepare(self, target):
        if self.scenario.insert:
            # every run begins with empty tables and no checkpoint under way
            database.psql("TRUNCATE mortar.doc_rows;\n"
                          + ("TRUNCATE seed.app_rows;\n" if any(
                              t.name.startswith("seed") for t in self.targets) else "")
                          + "CHECKPOINT;")
        if self.mode and target.setting:
            self.mode.set(target.setting)
            time.sleep(0.3)  # until the flusher has written what came before

    def warm_up(self):
        self._count_rows()
        for target in self.targets:
            say("  warm-up  %-18s every response is checked" % target.name)
            self._prepare(target)
            load.warm_up(target, self.options.connections, WARM_UP_S)

    def _run(self, number, target):
        self._prepare(target)
        metering = Metering(target) if target.setting else None
        before = metering.requests() if metering else None
        r = target.measure(self.postmaster, self.options.connections,
                           self.options.duration)
        if metering:
            metering.require(before, r, self.options.connections)
        r.update(round=number, target=target.name)
        self.runs.append(r)
        cpu = r["server_cpu_us"]
        say("  round %-2d %-18s %8.0f req/s  %s%s" % (
            number, target.name, r["req_per_s"],
            "%7.1f us server CPU per request" % cpu if cpu else "",
            "  (other programs used %.0f %% of the CPU time)"
            % (100 * r["foreign_share"])
            if (r["foreign_share"] or 0) > FOREIGN_LIMIT else ""))

    def ratios(self):
        """[(Ratio, [one value per round])] of those that could be measured"""
        out = []
        for ratio in self.scenario.ratios:
            a, b = ([r[ratio.figure] for r in self.runs if r["target"] == name]
                    for name in (ratio.a, ratio.b))
            if a and b and None not in a + b:
                out.append((ratio, [x / y for x, y in zip(a, b)]))
        return out

    def _near_one(self):
        """names of the targets that are to be compared more often"""
        names = set()
        for ratio, values in self.ratios():
            bar = ratio.most or ratio.least or 0
            if min(abs(statistics.median(values) - 1), abs(bar - 1)) <= NEAR_ONE:
                names.update((ratio.a, ratio.b))
        return names

    def _order(self, number):
        return self.targets

    def count_syncs(self):
        """One more run of each target, from when all sessions have reported what
        they did before until they have reported it."""
        time.sleep(database.STATS_S)
        for target in self.targets:
            self._prepare(target)
            before = database.wal_syncs()
            r = target.measure(self.postmaster, self.options.connections,
                               self.options.duration)
            time.sleep(database.STATS_S)
            self.syncs[target.name] = (database.wal_syncs() - before) / r["requests"]
            say("  counted  %-18s %8.3f syncs of the WAL per request"
                % (target.name, self.syncs[target.name]))

    def run(self):
        self.warm_up()
        least = max(self.options.rounds, ROUNDS)
        for number in range(1, max(least, ROUNDS_NEAR_ONE) + 1):
            near = self._near_one() if number > least else set()
            for target in self._order(number):
                if number <= least or target.name in near:
                    self._run(number, target)
        if self.scenario.syncs:
            self.count_syncs()


def verdict(ratio, q1, median, q3):
    """Met, by the median; within 10 % of 1 it is enough that the quartile
    range touches the bar."""
    if ratio.least is None and ratio.most is None:
        return ""
    near = abs(median - 1) <= NEAR_ONE
    if ratio.least is not None:
        met = (q3 if near else median) >= ratio.least
    else:
        met = (q1 if near else median) <= ratio.most
    return "met" if met else "MISSED"


FIGURES = {"req_per_s": "throughput", "server_cpu_us": "server CPU per request",
           "wal_bytes": "bytes of WAL", "wal_bytes_no_fpi": "the same less page images"}


def bar_text(ratio):
    if ratio.least is not None:
        return ">= %.2f" % ratio.least
    return "<= %.2f" % ratio.most if ratio.most is not None else "-"


def report(runner):
    o, s = runner.options, runner.settings
    title = runner.scenario.title.format(size=o.size)
    say()
    say("%s: %s" % (o.scenario, title))
    say("%d %s, %d s a run, %d interleaved rounds, row-level security on"
        % (o.connections, runner.scenario.sessions, o.duration,
           max(r["round"] for r in runner.runs)))
    say("%s shared by load generator, servers and PostgreSQL %s" % (
        common.machine(), s["server_version"].split()[0]))
    say("  ".join("%s=%s" % (k, v) for k, v in s.items() if k != "server_version"))
    say()
    say("%-18s %26s %26s %9s %7s %7s %6s" % (
        "target", "req/s", "server CPU us/request", "PostgreSQL", "front", "client", "body"))
    say("%-18s %26s %26s%s" % ("", "median (quartiles)", "median (quartiles)",
                               "%43s" % "WAL syncs/request" if runner.syncs else ""))
    for row in summary_rows(runner):
        cpu = row["server_cpu_us"]
        say("%-18s %26s %26s %9s %7s %7.1f %6d%s" % (
            row["name"], "%.0f (%.0f-%.0f)" % (row["req_per_s"], row["req_per_s_q1"],
                                              row["req_per_s_q3"]),
            "%.1f (%.1f-%.1f)" % (cpu, row["server_cpu_us_q1"], row["server_cpu_us_q3"])
            if cpu else "not on this machine",
            "%.1f" % row["pg_cpu_us"] if cpu else "-",
            "%.1f" % row["front_cpu_us"] if cpu else "-",
            row["load_cpu_us"], row["body_bytes"],
            "%10.3f" % row["wal_syncs"] if runner.syncs else ""))
    if runner.ratios():
        say()
        say("%-54s %22s %8s %6s" % ("ratio", "median (quartiles)", "bar", "aim"))
    for ratio, values in runner.ratios():
        q1, median, q3 = spread(values)
        say("%-54s %22s %8s %6s  %s" % (
            "%s / %s, %s" % (ratio.a, ratio.b, FIGURES[ratio.figure]),
            "%.3f (%.3f-%.3f)" % (median, q1, q3), bar_text(ratio),
            "%.2f" % ratio.aim if ratio.aim else "-",
            verdict(ratio, q1, median, q3)))
    noisy = [r for r in runner.runs if (r["foreign_share"] or 0) > FOREIGN_LIMIT]
    if noisy:
        say("\nIn %d of %d runs other programs used more than %.0f %% of the CPU time: "
            "repeat this on a quiet machine." % (len(noisy), len(runner.runs),
                                                 100 * FOREIGN_LIMIT))


def summary_rows(runner):
    rows = []
    for target in runner.targets:
        runs = [r for r in runner.runs if r["target"] == target.name]
        row = {"kind": "target", "name": target.name, "rounds": len(runs)}
        for figure in ("req_per_s", "server_cpu_us"):
            values = [r[figure] for r in runs]
            if None in values:
                values = [None] * 3
            else:
                values = spread(values)
            row[figure + "_q1"], row[figure], row[figure + "_q3"] = values
        for figure in ["pg_cpu_us", "front_cpu_us", "load_cpu_us", "body_bytes",
                       *runner.scenario.more]:
            values = [r[figure] for r in runs]
            row[figure] = None if None in values else statistics.median(values)
        if runner.syncs:
            row["wal_syncs"] = runner.syncs[target.name]
        rows.append(row)
    return rows


def ratio_rows(runner):
    rows = []
    for ratio, values in runner.ratios():
        q1, median, q3 = spread(values)
        rows.append({"kind": "ratio", "name": "%s / %s" % (ratio.a, ratio.b),
                     "rounds": len(values), "figure": ratio.figure,
                     "ratio": median, "ratio_q1": q1, "ratio_q3": q3,
                     "bar": bar_text(ratio), "aim": ratio.aim,
                     "verdict": verdict(ratio, q1, median, q3)})
    return rows


def save(runner):
    o = runner.options
    common.save(o.scenario, summary_rows(runner) + ratio_rows(runner), runner.runs,
                runner.settings, connections=o.connections, keep_alive="on", rls="on",
                size=o.size, run_s=o.duration)


def options():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("scenarios", nargs="+", choices=sorted(SCENARIOS),
                   metavar="scenario", help=", ".join(sorted(SCENARIOS)))
    p.add_argument("--targets", action="store_true",
                   help="only print the servers that the scenarios need")
    p.add_argument("--connections", type=int, default=64)
    p.add_argument("--duration", type=int, default=5, help="seconds of a run")
    p.add_argument("--rounds", type=int, default=ROUNDS,
                   help="least number of rounds, at least %d" % ROUNDS)
    o = p.parse_args()
    if not o.targets and len(o.scenarios) != 1:
        p.error("one scenario at a time")
    o.scenario = o.scenarios[0]
    o.size = 0  # counted later
    return o


def main():
    o = options()
    runner = None
    if o.targets:
        names = [t for s in o.scenarios for t in SCENARIOS[s].targets]
        say(" ".join(dict.fromkeys(n.partition(":")[0] for n in names)))
        return 0
    try:
        runner = Runner(SCENARIOS[o.scenario], o)
        runner.run()
    except (BenchError, OSError) as problem:
        say("bench: %s" % problem)
        return 1
    finally:
        if runner and runner.mode:
            runner.mode.restore()
    report(runner)
    save(runner)
    return 0


if __name__ == "__main__":
    sys.exit(main())
