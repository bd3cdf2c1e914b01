#!/bin/bash
# A private PostgreSQL cluster that has the checkout's extension preloaded.
#
#   cluster.sh start DIR [NAME=VALUE...]    build, install into DIR, start; the
#                                           pairs are server settings
#   cluster.sh restart DIR [NAME=VALUE...]  the same, after a stop
#   cluster.sh env DIR                      print the lines to connect with
#   cluster.sh stop DIR
#
# Nothing of it is installed into the system: DIR/install holds the extension and
# the gateway, and the server is told to look there.  DIR/data is the cluster,
# DIR/socket its socket, the only way in without a password; DIR and the socket's
# directory are closed to other users.  run.sh and test.sh source this file.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# 107 bytes is what the kernel allows for a socket's path
socket_fits() {
  local path="$1/socket/.s.PGSQL.65535.lock"
  [ ${#path} -le 107 ]
}

# cluster_pid DIR: the postmaster's pid; fails when it does not run.  A pid file
# outlives a crash, and its number may belong to something else by now.
cluster_pid() {
  local pid
  read -r pid 2>/dev/null <"$1/data/postmaster.pid" || return 1
  [ "$(readlink "/proc/$pid/cwd" 2>/dev/null)" = "$(readlink -f "$1/data")" ] || return 1
  echo "$pid"
}

cluster_env() {
  printf 'export PGHOST=%q PGPORT=%q PGUSER=postgres PGDATABASE=postgres\n' \
    "$1/socket" "$(cat "$1/port")"
}

# cluster_install DIR: what `make install` would put into the system
cluster_install() {
  submake all || die "the build failed"
  submake install DESTDIR="$1/install" >"$1/install.log" 2>&1 ||
    { cat "$1/install.log" >&2; die "the installation into $1/install failed"; }
}

cluster_init() {
  local dir=$1
  rm -rf "$dir/data.new" # of an attempt that was interrupted
  as_server "$bin/initdb" -D "$dir/data.new" -U postgres --encoding=UTF8 --locale=C.UTF-8 \
    --auth-local=trust --auth-host=scram-sha-256 >"$dir/initdb.log" 2>&1 ||
    { cat "$dir/initdb.log" >&2; die "initdb failed"; }
  echo "include 'mortar.conf'" >>"$dir/data.new/postgresql.conf"
  mv "$dir/data.new" "$dir/data"
}

# cluster_configure DIR [NAME=VALUE...]: written anew before each start, so that
# a moved directory or another port needs no editing
cluster_configure() {
  local dir=$1 pair pkglib
  shift
  pkglib=$("$bin/pg_config" --pkglibdir)
  {
    echo "# written by cluster.sh at each start"
    echo "extension_destdir = '$dir/install'"
    echo "dynamic_library_path = '$dir/install$pkglib:\$libdir'"
    echo "shared_preload_libraries = 'mortar'"
    echo "mortar.pepper_file = '$dir/pepper'"
    echo "unix_socket_directories = '$dir/socket'"
    echo "listen_addresses = ''"
    echo "port = $(cat "$dir/port")"
    for pair; do echo "${pair%%=*} = '${pair#*=}'"; done
  } >"$dir/data/mortar.conf"
}

# cluster_forget DIR: removes the traces of a server that was killed.  The server
# itself would refuse to start if a new process had the old one's number.  Its
# last processes may still be leaving: each of them works in DIR/data.
cluster_forget() {
  local data pid
  data=$(readlink -f "$1/data")
  read -r pid <"$data/postmaster.pid"
  say "  a stale pid file is left over: no server runs as process $pid ($data/postmaster.pid)"
  for _ in {1..100}; do
    readlink /proc/[0-9]*/cwd 2>/dev/null | grep -Fqx "$data" || break
    sleep 0.1
  done
  rm -f "$data/postmaster.pid" "$1"/socket/.s.PGSQL.*
}

# cluster_start DIR [NAME=VALUE...]: needs cluster_install first
cluster_start() {
  local dir=$1 port
  bin=$(pg_bin) || exit 1
  make_private "$dir" "$dir/socket"
  if [ ! -f "$dir/pepper" ]; then
    as_server "$dir/install/usr/local/bin/mortar-gateway" --make-pepper "$dir/pepper" >/dev/null ||
      die "mortar-gateway could not make the pepper file $dir/pepper"
  fi
  [ -f "$dir/data/PG_VERSION" ] || cluster_init "$dir"
  [ ! -f "$dir/data/postmaster.pid" ] || cluster_forget "$dir"
  for _ in 1 2 3; do
    port=$(cat "$dir/port" 2>/dev/null)
    if [ -z "$port" ] || listening "$port"; then
      port=$(free_port) || exit 1
      echo "$port" >"$dir/port"
    fi
    cluster_configure "$@"
    as_server "$bin/pg_ctl" start -D "$dir/data" -l "$dir/postgres.log" -w -s >"$dir/pg_ctl.log" 2>&1 && return
    case $(tail -n 12 "$dir/postgres.log" 2>/dev/null) in
      *"Address already in use"*) rm -f "$dir/port" ;;
      *) break ;;
    esac
  done
  tail -n 12 "$dir/postgres.log" >&2
  die "PostgreSQL did not start; its log is $dir/postgres.log"
}

# cluster_stop DIR: a clean stop; silent when it does not run
cluster_stop() {
  cluster_pid "$1" >/dev/null || return 0
  as_server "$(pg_bin)/pg_ctl" stop -D "$1/data" -m fast -w -s ||
    die "PostgreSQL did not stop; its log is $1/postgres.log"
}

cluster_main() {
  local command=${1:-} dir=${2:-}
  [ -n "$dir" ] || { sed -n '2,8p' "$0"; exit 2; }
  shift 2
  dir=$(realpath -m "$dir")
  case $command in
    start | restart)
      [ "$command" = start ] || cluster_stop "$dir"
      if ! cluster_pid "$dir" >/dev/null; then
        socket_fits "$dir" || die "$dir is too long a path for a socket"
        make_private "$dir"
        as_server test -x "$dir" || die "the user $server_user cannot enter $dir"
        cluster_install "$dir"
        cluster_start "$dir" "$@" >&2
      fi
      cluster_env "$dir"
      ;;
    env) cluster_env "$dir" ;;
    stop) cluster_stop "$dir" ;;
    *) die "cluster.sh knows start, restart, env and stop, not $command" ;;
  esac
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then cluster_main "$@"; fi
