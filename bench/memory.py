#!/usr/bin/env python3
"""Memory of the servers' processes: idle and soak.

idle    the gateway's resident memory while many keep-alive connections wait
soak    the gateway's and its backends' private memory over many requests

Resident memory (Rss) is what the kernel has given a process, libraries that it
shares with others included.  For the soak that would mislead: a backend's Rss
grows until it has touched all of PostgreSQL's shared buffers once.  So there
it is the Anonymous part, what the process has allocated by itself.
"""

import argparse
import os
import resource
import socket
import statistics
import sys
import time

import common
import compare
import database
import load
import procs
import setup
from common import say
from load import BenchError, Target

MIB = 1 << 20
IDLE_CONNECTIONS, IDLE_BAR_MIB, IDLE_S = 1000, 40.0, 3
SOAK_REQUESTS, SOAK_SLICE_S, SOAK_BAR = 1_000_000, 2, 1.05


def mortar(body=None):
    url = os.environ["BENCH_MORTAR_URL"]
    target = Target("mortar", url, os.environ["BENCH_MORTAR_KEY"])
    if body:
        target.url = url.replace("/db/tables", "/db/rows/" + setup.table_name(1))
        target.body = body
    target.pids = procs.listeners(target.address[1])
    if not target.pids:
        raise BenchError("the gateway does not run on this machine")
    return target


# ---- idle ------------------------------------------------------------------

class Waiting:
    """Keep-alive connections, each of which has had one answer."""

    def __init__(self, target):
        self.target = target
        self.sockets = []
        self.request = ("GET %s HTTP/1.1\r\nHost: bench\r\napikey: %s\r\n\r\n"
                        % (target.path, target.key)).encode("ascii")

    def ask(self, sock):
        sock.sendall(self.request)
        data, length = b"", None
        while length is None or len(data) < length:
            piece = sock.recv(65536)
            if not piece:
                raise BenchError("the gateway has closed a waiting connection")
            data += piece
            if length is None and b"\r\n\r\n" in data:
                head, _, _ = data.partition(b"\r\n\r\n")
                if not head.startswith(b"HTTP/1.1 200"):
                    raise BenchError("a request was refused: %r" % head[:80])
                lengths = [int(l.split(b":")[1]) for l in head.lower().split(b"\r\n")
                           if l.startswith(b"content-length:")]
                length = len(head) + 4 + lengths[0]

    def grow(self, count):
        while len(self.sockets) < count:
            self.sockets.append(socket.create_connection(self.target.address, timeout=10))
            self.ask(self.sockets[-1])

    def ask_all(self):
        for sock in self.sockets:
            self.ask(sock)

    def close(self):
        for sock in self.sockets:
            sock.close()


def memory_mib(pids, field):
    return sum(procs.memory_bytes(pid, field) for pid in pids) / MIB


def idle(count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count + 100:
        raise BenchError("this shell allows %d open files: ulimit -Hn" % hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 100), hard))
    target, runs = mortar(), []
    waiting = Waiting(target)
    for n in sorted({0, count // 10, count // 4, count // 2, count}):
        waiting.grow(n)
        time.sleep(1)
        runs.append({"connections": n, "rss_mib": memory_mib(target.pids, "Rss"),
                     "anonymous_mib": memory_mib(target.pids, "Anonymous")})
        say("  %5d connections  %6.1f MiB resident" % (n, runs[-1]["rss_mib"]))
    cpu = sum(procs.tree_cpu_s(pid) for pid in target.pids)
    time.sleep(IDLE_S)
    cpu = (sum(procs.tree_cpu_s(pid) for pid in target.pids) - cpu) / IDLE_S
    waiting.ask_all()  # all of them are still there
    waiting.close()
    rss, first = runs[-1]["rss_mib"], runs[0]["rss_mib"]
    each = (rss - first) * 1024 / count
    verdict = "met" if rss <= IDLE_BAR_MIB else "MISSED"
    say("\nidle: the gateway with %d keep-alive connections, each used once before" % count)
    say("%s\n" % common.machine())
    say("resident memory      %6.1f MiB   bar <= %.0f MiB   %s" % (rss, IDLE_BAR_MIB, verdict))
    say("without connections  %6.1f MiB" % first)
    say("one connection       %6.1f KiB" % each)
    say("CPU while all wait   %6.2f %%" % (100 * cpu))
    common.save("idle", [{"kind": "target", "name": "gateway", "connections": count,
                          "value": rss, "empty": first, "kib_each": each, "cpu_share": cpu,
                          "bar": "<= %.0f" % IDLE_BAR_MIB, "verdict": verdict}],
                runs, database.settings())


# ---- soak ------------------------------------------------------------------

def backends():
    return sorted(int(x) for x in database.psql(
        "SELECT pid FROM pg_stat_activity WHERE usename = 'bench_gateway';").split())


def sample(target, pids, done):
    values = [memory_mib([pid], "Anonymous") for pid in pids]
    return {"requests": done, "gateway_mib": memory_mib(target.pids, "Anonymous"),
            "backends_mib": sum(values), "largest_backend_mib": max(values)}


def soak(requests, connections):
    targets = [mortar(), mortar(compare.ROW)]
    runs, done, inserted, n = [], 0, 0, 0
    for target in targets:
        load.warm_up(target, connections, compare.WARM_UP_S)
    pids = backends()
    if not pids:
        raise BenchError("the gateway has no backends on this server")
    runs.append(sample(targets[0], pids, 0))
    while done < requests or len(runs) < 8:
        r = load.measure(targets[n % 2], None, connections, SOAK_SLICE_S)
        done, inserted, n = done + r["requests"], inserted + r["requests"] * (n % 2), n + 1
        if backends() != pids:
            raise BenchError("the gateway has changed its database connections")
        runs.append(sample(targets[0], pids, done))
        say("  %8d requests  gateway %6.2f MiB  %d backends %7.2f MiB"
            % (done, runs[-1]["gateway_mib"], len(pids), runs[-1]["backends_mib"]))
    report_soak(runs, inserted, len(pids), connections)


def report_soak(runs, inserted, count, connections):
    """The mean of the last quarter beside that of the second: caches fill and
    buffers find their size in the first."""
    done = runs[-1]["requests"]
    second = [r for r in runs if done * 0.25 <= r["requests"] <= done * 0.5] or runs[1:3]
    last = [r for r in runs if r["requests"] >= done * 0.75]
    rows = []
    say("\nsoak: %d requests at %d connections, %d of them inserts, %d backends"
        % (done, connections, inserted, count))
    say("%s\n" % common.machine())
    say("%-18s %14s %14s %18s %8s %8s" % ("private memory", "2nd quarter", "last quarter",
                                         "bytes per request", "ratio", "bar"))
    for name, field in (("gateway", "gateway_mib"), ("all backends", "backends_mib"),
                        ("largest backend", "largest_backend_mib")):
        a, b = (statistics.mean(r[field] for r in part) for part in (second, last))
        between = (statistics.mean(r["requests"] for r in last)
                   - statistics.mean(r["requests"] for r in second))
        slope = (b - a) * MIB / max(between, 1)
        verdict = "met" if b / a <= SOAK_BAR else "MISSED"
        say("%-18s %10.2f MiB %10.2f MiB %18.3f %8.3f  <= %.2f  %s" % (
            name, a, b, slope, b / a, SOAK_BAR, verdict))
        rows.append({"kind": "target", "name": name, "requests": done, "value": b,
                     "second_quarter": a, "bytes_per_request": slope, "ratio": b / a,
                     "bar": "<= %.2f" % SOAK_BAR, "verdict": verdict})
    common.save("soak", rows, runs, database.settings(), connections=connections)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("scenario", choices=["idle", "soak"])
    p.add_argument("--size", type=int, help="connections of idle, requests of soak")
    p.add_argument("--connections", type=int, default=64, help="of soak")
    o = p.parse_args()
    try:
        if o.scenario == "idle":
            idle(o.size or IDLE_CONNECTIONS)
        else:
            soak(o.size or SOAK_REQUESTS, o.connections)
    except (BenchError, OSError) as problem:
        say("bench: %s" % problem)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
