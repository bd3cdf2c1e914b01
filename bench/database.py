"""What the benchmarks ask of PostgreSQL, through psql and the PG* variables."""

import ipaddress
import os
import re
import subprocess

import procs
from load import BenchError

SETTINGS = ("server_version", "fsync", "synchronous_commit", "full_page_writes",
            "shared_buffers", "max_wal_size", "jit")
MODE = "mortar.egress_mode"
STATS_S = 11  # an idle session reports what it did within 10 s


def psql(script, **variables):
    """Runs a script; `:'name'` in it is the quoted value of a variable."""
    args = ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1"]
    for name, value in variables.items():
        args += ["-v", "%s=%s" % (name, value)]
    done = subprocess.run(args, input=script, capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise BenchError("psql: " + done.stderr.strip())
    return done.stdout.strip()


def settings():
    """The settings that every result names; refuses a server that cheats."""
    values = {name: psql("SHOW %s;" % name) for name in SETTINGS}
    for name in ("fsync", "synchronous_commit"):
        if values[name] != "on":
            raise BenchError("%s is %s: figures of a server that does not keep "
                             "its commits are worth nothing" % (name, values[name]))
    return values


def require_rls(tables, roles):
    """Each table has row-level security on and forced, no role bypasses it."""
    for table in tables:
        if psql("SELECT relrowsecurity AND relforcerowsecurity FROM pg_class "
                "WHERE oid = :'t'::regclass;", t=table) != "t":
            raise BenchError("%s: row-level security is not on" % table)
    for role in roles:
        if psql("SELECT NOT rolsuper AND NOT rolbypassrls FROM pg_roles "
                "WHERE rolname = :'r';", r=role) != "t":
            raise BenchError("role %s bypasses row-level security" % role)


def postmaster():
    """Pid of the server's first process, or None when it runs elsewhere."""
    host = os.environ.get("PGHOST", "/var/run/postgresql")
    if not host.startswith("/") and host != "localhost":
        try:
            if not ipaddress.ip_address(host).is_loopback:
                return None
        except ValueError:
            return None
    out = psql("SELECT pg_backend_pid() AS pid \\gset\n"
               "\\setenv BENCH_PID :pid\n"
               "\\! cat /proc/$BENCH_PID/stat\n")
    match = re.match(r"\d+ \(postgres\) \S (\d+) ", out)
    if not match or procs.name(int(match.group(1))) != "postgres":
        return None
    return int(match.group(1))


def wal_syncs():
    """How often the WAL was synced, by sessions that have reported (STATS_S)."""
    return int(psql("SELECT wal_sync FROM pg_stat_wal;"))


class EgressMode:
    """Switches mortar.egress_mode, and puts the old value back at the end."""

    def __init__(self):
        if psql("SHOW is_superuser;") != "on":
            raise BenchError("switching %s needs a superuser: set PGUSER" % MODE)
        self.before = psql(
            "SELECT setting FROM pg_file_settings WHERE name = '%s' AND "
            "sourcefile LIKE '%%postgresql.auto.conf' AND applied;" % MODE)
        self.now = None

    def set(self, value):
        if value != self.now:
            psql("ALTER SYSTEM SET %s = :'v';\nSELECT pg_reload_conf();" % MODE,
                 v=value)
            self.now = value

    def restore(self):
        if self.before:
            self.set(self.before)
        elif self.now:
            psql("ALTER SYSTEM RESET %s;\nSELECT pg_reload_conf();" % MODE)
