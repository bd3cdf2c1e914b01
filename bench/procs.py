"""Which processes serve, and how much CPU they have used.

A server's CPU time is read from /proc/<pid>/stat.  For PostgreSQL that is the
postmaster, all its living children, and what the postmaster has collected from
children that exited (cutime, cstime): so no backend or worker is forgotten,
whenever it ended.  The kernel keeps these figures exactly and shows them in
ticks of 10 ms; a run must be long enough for that.
"""

import os
import re

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
TCP_LISTEN = "0A"


def _stat(pid):
    """(parent pid, own CPU seconds, CPU seconds of collected children)"""
    with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as f:
        fields = f.read().rpartition(")")[2].split()
    ticks = [int(x) for x in fields[11:15]]
    return int(fields[1]), sum(ticks[:2]) * TICK_S, sum(ticks[2:]) * TICK_S


def _pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def parent(pid):
    return _stat(pid)[0]


def name(pid):
    with open("/proc/%d/comm" % pid, encoding="utf-8", errors="replace") as f:
        return f.read().strip()


def tree_cpu_s(root):
    """CPU seconds of a process and its children, living and collected."""
    _, own, collected = _stat(root)
    total = own + collected
    for pid in _pids():
        try:
            ppid, own, collected = _stat(pid)
        except OSError:
            continue  # ended since the listing: the parent collects it
        if ppid == root:
            total += own + collected
    return total


def memory_bytes(pid, field):
    """A line of /proc/PID/smaps_rollup, such as Rss or Anonymous."""
    with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as f:
        for line in f:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise KeyError(field)


def machine_busy_s():
    """CPU seconds that all processors of the machine were not idle."""
    with open("/proc/stat", encoding="ascii") as f:
        fields = [int(x) for x in f.readline().split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) * TICK_S


def _listening_inodes(port):
    wanted = ":%04X" % port
    found = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(path, encoding="ascii") as f:
                lines = f.read().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[1].endswith(wanted) and fields[3] == TCP_LISTEN:
                found.add("socket:[%s]" % fields[9])
    return found


def listeners(port):
    """Pids of the processes of this machine that listen on a TCP port."""
    inodes = _listening_inodes(port)
    found = set()
    for pid in _pids():
        try:
            fds = os.listdir("/proc/%d/fd" % pid)
        except OSError:
            continue  # another user's, or ended
        for fd in fds:
            try:
                if os.readlink("/proc/%d/fd/%s" % (pid, fd)) in inodes:
                    found.add(pid)
            except OSError:
                continue  # closed meanwhile
    return sorted(found)


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
        match = re.search(r"^model name\s*:\s*(.+)$", f.read(), re.M)
    return match.group(1).strip() if match else "unknown"
