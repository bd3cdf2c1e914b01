# Shell functions that the scripts here share; to be sourced.
#
# Server programs refuse to run as root, so whoever is root uses the user that
# Debian's packages create for them.  Everyone else runs them as themselves.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
server_user=postgres
umask 022 # what root installs must be readable for the server's user

say() { printf '%s\n' "$*"; }
die() { printf 'mortar: %s\n' "$*" >&2; exit 1; }

is_root() { [ "$(id -u)" -eq 0 ]; }

# as_server COMMAND...: as the user that may run server programs, from a
# directory that this user can read.  Paths must be absolute.
if is_root; then
  server_prefix=(setpriv "--reuid=$server_user" "--regid=$server_user" --clear-groups --
    env -C / -u TMPDIR HOME=/)
else
  server_prefix=(env -C /)
fi
as_server() { "${server_prefix[@]}" "$@"; }

# make_private DIR...: directories that only the server's user can enter
make_private() {
  mkdir -p "$@" && chmod 0700 "$@" || exit 1
  if is_root; then chown "$server_user:" "$@" || exit 1; fi
}

# pg_bin: the directory of initdb, pg_ctl and postgres
pg_bin() {
  local config=${PG_CONFIG:-/usr/lib/postgresql/15/bin/pg_config}
  command -v "$config" >/dev/null || config=pg_config
  "$config" --bindir 2>/dev/null ||
    die "pg_config is missing: regress/install-packages.sh installs it"
}

# submake ARGUMENT...: make in the checkout, one at a time, apart from the make
# that may have called this script
submake() {
  flock "$top/.build.lock" \
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES \
    make -s -C "$top" -j "$(nproc)" with_llvm=no "$@"
}

# listening PORT: does something accept connections there on loopback?
listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_port: a loopback port on which nobody listens, below the range from which
# the kernel takes ports of outgoing connections
free_port() {
  local port
  for _ in {1..100}; do
    port=$((20000 + RANDOM % 10000))
    listening "$port" || { echo "$port"; return; }
  done
  die "no free loopback port was found between 20000 and 30000"
}
