#!/usr/bin/env python3
"""gate: key check, gate and charge inside one backend, beside an empty C function.

All of it happens in one session: for each round the loop of gate/loop.sql runs
with nothing in it, with the key check, with the gate too, and with the charge
too.  What a step costs is the difference within a round; CPU time of that
backend, so that other programs of the machine disturb it little.
"""

import argparse
import os
import sys

import common
import database
from common import say, spread
from load import BenchError

STEPS = ["empty function", "key check", "key check + gate", "key check + gate + charge"]
BAR_US = 5.0
ROUNDS = 9
WARM_UP_TURNS = 5000


def measure(key, rounds, turns):
    """[[us per turn of each of STEPS]] of every round"""
    script = ["CALL bench.turns(:'key', %d, %d);" % (i, WARM_UP_TURNS)
              for i in range(len(STEPS))]
    script += ["CALL bench.turns(:'key', %d, %d);" % (i, turns)
               for _ in range(rounds) for i in range(len(STEPS))]
    values = [float(x) for x in database.psql("\n".join(script), key=key).split()]
    values = values[len(STEPS):]
    return [values[i:i + len(STEPS)] for i in range(0, len(values), len(STEPS))]


def requests():
    """the tenant's usage; proves that charges were real"""
    return int(database.psql(
        "SELECT coalesce(sum(quantity), 0) FROM mortar.usage(:'t') "
        "WHERE meter = 'requests';", t="bench"))


def report(runs, turns):
    rows = []
    say("\ngate: CPU time inside one backend, %d transactions a run, %d interleaved rounds"
        % (turns, len(runs)))
    say("%s, PostgreSQL %s\n" % (common.machine(), database.settings()["server_version"]))
    say("%-28s %26s %30s %8s" % ("each transaction does", "us/transaction", "us above the empty function",
                                 "bar"))
    for i, name in enumerate(STEPS):
        us = spread([r[i] for r in runs])
        above = spread([r[i] - r[0] for r in runs])
        last = i == len(STEPS) - 1
        verdict = ("met" if above[1] <= BAR_US else "MISSED") if last else ""
        say("%-28s %26s %30s %8s  %s" % (
            name, "%.2f (%.2f-%.2f)" % (us[1], us[0], us[2]),
            "%.2f (%.2f-%.2f)" % (above[1], above[0], above[2]) if i else "-",
            "<= %.1f" % BAR_US if last else "", verdict))
        rows.append({"kind": "target", "name": name, "rounds": len(runs), "turns": turns,
                     "value": us[1], "value_q1": us[0], "value_q3": us[2],
                     "above": above[1], "above_q1": above[0], "above_q3": above[2],
                     "bar": BAR_US if last else "", "verdict": verdict})
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--duration", type=int, default=5, help="10,000 transactions each")
    p.add_argument("--rounds", type=int, default=ROUNDS)
    p.add_argument("--library", required=True, help="bench_gate.so")
    o = p.parse_args()
    key, turns, rounds = os.environ["BENCH_MORTAR_KEY"], 10000 * o.duration, max(o.rounds, ROUNDS)
    try:
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "gate/loop.sql"),
                  encoding="utf-8") as f:
            database.psql(f.read(), library=o.library)
        before = requests()
        runs = measure(key, rounds, turns)
        moved, wanted = requests() - before, turns * rounds + WARM_UP_TURNS
        if moved != wanted:
            raise BenchError("%d charges were made, but usage moved by %d" % (wanted, moved))
    except (BenchError, OSError) as problem:
        say("bench: %s" % problem)
        return 1
    common.save("gate", report(runs, turns),
                [dict(zip(["round"] + STEPS, [n] + r)) for n, r in enumerate(runs, 1)],
                database.settings())
    return 0


if __name__ == "__main__":
    sys.exit(main())
