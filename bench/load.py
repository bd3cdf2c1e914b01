"""One target, and how load is put on it.

wrk keeps `connections` keep-alive connections busy: throughput at saturation.
Latency percentiles are not taken from such a run, because a client that waits
for each answer before it asks again hides every delay.
"""

import dataclasses
import json
import os
import resource
import socket
import subprocess
import time
import urllib.parse

import procs

HERE = os.path.dirname(os.path.abspath(__file__))


class BenchError(Exception):
    """The figures would not mean what they say."""


@dataclasses.dataclass
class Target:
    """name: as printed; url: what is requested; key: sent as `apikey`;
    setting: a value of mortar.egress_mode to set before each run, or None;
    body: JSON text to POST, or None for a GET; settle_s: until buffered work
    has reached its tables."""

    name: str
    url: str
    key: str
    setting: str = None
    body: str = None
    settle_s: float = 0.4
    script: str = "measure.lua"  # and what it takes after the first two arguments
    script_args: list = dataclasses.field(default_factory=list)
    body_bytes: int = 0
    response_bytes: int = 0
    pids: list = dataclasses.field(default_factory=list)

    @property
    def address(self):
        parts = urllib.parse.urlsplit(self.url)
        return parts.hostname, parts.port or 80

    @property
    def path(self):
        return urllib.parse.urlsplit(self.url).path

    @property
    def status(self):
        return 201 if self.body else 200

    def measure(self, postmaster, connections, seconds):
        return measure(self, postmaster, connections, seconds)


def fetch(target, path=None):
    """One request over a fresh socket, the target's own or a GET of `path`:
    (status, body, bytes of the response)."""
    host, port = target.address
    send = target.body if path is None else None
    request = "%s %s HTTP/1.1\r\nHost: %s:%d\r\napikey: %s\r\n" % (
        "POST" if send else "GET", path or target.path, host, port, target.key)
    if send:
        request += ("Content-Type: application/json\r\nPrefer: return=representation"
                    "\r\nContent-Length: %d\r\n\r\n%s" % (len(send), send))
    else:
        request += "\r\n"
    data = b""
    with socket.create_connection((host, port), timeout=10) as sock:
        sock.sendall(request.encode("ascii"))
        while True:
            head, mark, body = data.partition(b"\r\n\r\n")
            if mark:
                length = [line.split(b":")[1] for line in head.split(b"\r\n")
                          if line.lower().startswith(b"content-length:")]
                if not length:
                    raise BenchError("%s: no Content-Length" % target.name)
                if len(body) >= int(length[0]):
                    break
            piece = sock.recv(65536)
            if not piece:
                raise BenchError("%s: the connection was closed before the "
                                 "response was complete" % target.name)
            data += piece
    return int(head.split()[1]), body, len(data)


def probe(target):
    """Learns or checks the target's response."""
    status, body, size = fetch(target)
    if status != target.status:
        raise BenchError("%s: %s answers %d: %s" % (
            target.name, target.url, status, body[:300].decode("utf-8", "replace")))
    slack = 14 if target.body else 0  # see wrk/check.lua
    if target.body_bytes and abs(len(body) - target.body_bytes) > slack:
        raise BenchError("%s: the body has %d bytes, it had %d before" % (
            target.name, len(body), target.body_bytes))
    if not target.body_bytes:
        target.body_bytes, target.response_bytes = len(body), size
    return body


def _wrk(target, script, connections, seconds):
    threads = max(1, min(connections, len(os.sched_getaffinity(0)) // 2))
    done = subprocess.run(
        ["wrk", "-t%d" % threads, "-c%d" % connections, "-d%ds" % seconds,
         "-H", "apikey: " + target.key,
         "-s", os.path.join(HERE, "wrk", script), target.url, "--"]
        + [str(a) for a in (target.body_bytes, target.status)]
        + ([target.body] if target.body else [str(a) for a in target.script_args]),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    lines = [l[7:] for l in done.stdout.splitlines() if l.startswith("result ")]
    if done.returncode != 0 or not lines:
        raise BenchError("wrk on %s failed:\n%s" % (target.name, done.stdout))
    return json.loads(lines[0])


def warm_up(target, connections, seconds):
    """Unmeasured; every single response is compared with the probed one."""
    probe(target)
    r = _wrk(target, "check.lua", connections, seconds)
    if r["bad"] or r["lost"] or not r["requests"]:
        raise BenchError(
            "%s: of %d responses %d were not a %d with %d bytes (one was: %s); "
            "%d were lost" % (target.name, r["requests"], r["bad"],
                              target.status, target.body_bytes, r["example"], r["lost"]))


def _check(target, r):
    if r["bad"] or r["lost"] or not r["requests"]:
        raise BenchError("%s: of %d responses %d were refused and %d lost" % (
            target.name, r["requests"], r["bad"], r["lost"]))
    # headers such as a remaining balance may change by a few digits
    mean = r["bytes"] / r["requests"]
    if abs(mean - target.response_bytes) > 32 + 0.01 * target.response_bytes:
        raise BenchError("%s: a response had %.0f bytes on average instead of "
                         "%d" % (target.name, mean, target.response_bytes))


def measure(target, postmaster, connections, seconds):
    """A measured run.  The wait after it lets buffered work reach
    its tables, so that its CPU time is counted where it belongs."""
    def read():
        try:
            return (procs.tree_cpu_s(postmaster) if postmaster else 0.0,
                    sum(procs.tree_cpu_s(pid) for pid in target.pids),
                    procs.machine_busy_s())
        except FileNotFoundError as problem:
            raise BenchError("%s: a server ended during the run" % target.name) from problem

    probe(target)
    load0 = resource.getrusage(resource.RUSAGE_CHILDREN)
    pg0, front0, busy0 = read()
    r = _wrk(target, target.script, connections, seconds)
    known_s = sum(read()[:2]) - pg0 - front0
    busy_s = procs.machine_busy_s() - busy0
    time.sleep(target.settle_s)
    pg1, front1, _ = read()
    load1 = resource.getrusage(resource.RUSAGE_CHILDREN)
    _check(target, r)
    probe(target)

    n = r["requests"]
    load_s = (load1.ru_utime + load1.ru_stime) - (load0.ru_utime + load0.ru_stime)
    out = {"requests": n, "seconds": r["us"] / 1e6, "req_per_s": n / (r["us"] / 1e6),
           "body_bytes": target.body_bytes, "load_cpu_us": load_s / n * 1e6,
           "pg_cpu_us": None, "front_cpu_us": None, "server_cpu_us": None,
           "foreign_share": None}
    if postmaster and target.pids:
        out["pg_cpu_us"] = (pg1 - pg0) / n * 1e6
        out["front_cpu_us"] = (front1 - front0) / n * 1e6
        out["server_cpu_us"] = out["pg_cpu_us"] + out["front_cpu_us"]
        out["foreign_share"] = max(0.0, busy_s - known_s - load_s) / max(busy_s, 0.01)
    return out
