"""What all scenarios print and write alike."""

import csv
import os
import statistics

import load
import procs

RESULTS = os.path.join(load.HERE, "results")


def say(text=""):
    print(text, flush=True)


def spread(values):
    """(first quartile, median, third quartile)"""
    return statistics.quantiles(values, n=4, method="inclusive")


def machine():
    return "%d CPUs (%s)" % (len(os.sched_getaffinity(0)), procs.cpu_model())


def write_csv(path, rows, common):
    names = list(dict.fromkeys(k for row in rows for k in row))
    names += [k for k in common if k not in names]
    with open(path, "w", newline="", encoding="utf-8") as f:
        out = csv.DictWriter(f, names, lineterminator="\n")
        out.writeheader()
        for row in rows:
            out.writerow({k: "%.4g" % v if isinstance(v, float) and abs(v) < 1000
                          else "%.0f" % v if isinstance(v, float) else v
                          for k, v in {**common, **row}.items()})


def save(scenario, rows, runs, settings, **more):
    """results/SCENARIO.csv, with machine and settings in every row, and
    SCENARIO-runs.csv"""
    common = {"scenario": scenario, "commit": os.environ.get("BENCH_COMMIT", ""),
              "cpus": len(os.sched_getaffinity(0)), "cpu": procs.cpu_model(),
              **more, **settings}
    os.makedirs(RESULTS, exist_ok=True)
    base = os.path.join(RESULTS, scenario)
    write_csv(base + ".csv", rows, common)
    write_csv(base + "-runs.csv", runs, {"scenario": scenario})
    say("\nfigures: %s.csv, each run: %s-runs.csv" % (base, base))
