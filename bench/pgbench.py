"""Load by pgbench: sessions that run one prepared statement after another.

Figures are taken from a window within the run: from when all sessions are
connected and have warmed up, until before the first of them ends.  pgbench logs
when each transaction ended, so those of the window can be counted, and the CPU
time of connecting is in no figure.
"""

import glob
import os
import re
import subprocess
import tempfile
import time

import procs
from load import BenchError

WARM_UP_S = 0.8  # connecting included


def _read(postmaster, pid):
    return (time.time(), procs.tree_cpu_s(postmaster), procs.tree_cpu_s(pid),
            procs.machine_busy_s())


def _ended_within(prefix, begin, end):
    """transactions of the logs: client, number, us, script, seconds, microseconds"""
    count = 0
    for path in glob.glob(prefix + ".*"):
        with open(path, encoding="ascii") as f:
            for line in f:
                fields = line.split()
                count += begin < int(fields[4]) + int(fields[5]) / 1e6 <= end
    return count


def _total(report):
    """transactions of the whole run, connecting and ending included"""
    done = re.search(r"^number of transactions actually processed: (\d+)", report, re.M)
    failed = re.search(r"^number of failed transactions: (\d+)", report, re.M)
    if not done or done.group(1) == "0" or not failed or failed.group(1) != "0":
        raise BenchError("pgbench had transactions that failed, or none:\n" + report)
    return int(done.group(1))


def run(statement, postmaster, sessions, seconds, user=None):
    """The figures of a run, as load.measure gives them, and `transactions`: those
    of the whole run."""
    with tempfile.TemporaryDirectory() as directory:
        script, log = (os.path.join(directory, name) for name in ("script.sql", "log"))
        with open(script, "w", encoding="utf-8") as f:
            f.write(statement)
        command = ["pgbench", "-n", "-M", "prepared", "-c", str(sessions), "-j",
                   str(min(sessions, 2)), "-T", str(seconds + 1), "-l",
                   "--log-prefix", log, "-f", script]
        with subprocess.Popen(command + (["-U", user] if user else []), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            time.sleep(WARM_UP_S)
            began = _read(postmaster, child.pid) if child.poll() is None else None
            time.sleep(seconds)
            ended = _read(postmaster, child.pid) if child.poll() is None else None
            report, problem = child.communicate()
        if child.returncode != 0 or not began:
            raise BenchError("pgbench failed: " + problem[-300:])
        if not ended:
            raise BenchError("pgbench ended before it was measured: the machine is too busy")
        count = _ended_within(log, began[0], ended[0])
    if not count:
        raise BenchError("no transaction ended within %d s" % seconds)
    wall, cpu, client, busy = (b - a for a, b in zip(began, ended))
    return {"requests": count, "seconds": wall, "req_per_s": count / wall, "body_bytes": 0,
            "load_cpu_us": client / count * 1e6, "pg_cpu_us": cpu / count * 1e6,
            "front_cpu_us": 0.0, "server_cpu_us": cpu / count * 1e6,
            "foreign_share": max(0.0, busy - cpu - client) / max(busy, 0.01),
            "transactions": _total(report)}
