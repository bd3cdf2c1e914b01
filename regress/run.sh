#!/bin/bash
# From a bare Debian 12 to a served request:
#   run.sh run         everything, in the foreground; Ctrl-C ends it cleanly
#   run.sh start       the same in the background
#   run.sh stop        ends what start began
#   run.sh clean-run   stops, and removes the cluster with its data
# PORT is the gateway's (8080), its operations listener is on PORT + 1.
#
# State lives in .run/, which links to a directory under /var/tmp when the
# server's user cannot enter the checkout (below root's home) or when a socket's
# path would be too long there.  Ownership: whatever run started it also ends,
# on every way out; start leaves both servers in sessions of their own.
set -u
. "$(dirname "$0")/cluster.sh"

# The caller may have sourced the demo.env of another server.
for name in ${!PG*} MORTAR_URL MORTAR_TENANT MORTAR_KEY; do
  [ "$name" = PG_CONFIG ] || unset "$name"
done

run=$top/.run
gateway_port=${PORT:-8080}
marks=
gateway_child=

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# step TEXT: says what is going on;  mark NAME: remembers how long it took
step() { say "- $*"; }
mark() {
  local now
  now=$(now_ms)
  marks="$marks${marks:+, }$1 $(seconds $((now - last)))"
  last=$now
}
seconds() { printf '%d.%d s' $(($1 / 1000)) $(($1 % 1000 / 100)); }

# ---- where state lives -----------------------------------------------------

# check_owner: whoever made the cluster is the only one who can see into its
# directory, so for anybody else it would look as if there were none.
check_owner() {
  local owner
  dir=$(readlink -f "$run") && [ -d "$dir" ] || return 0
  owner=$(stat -c %U "$dir")
  case $owner in
    "$(id -un)") return 0 ;;
    "$server_user") ! is_root || return 0; owner=root ;;
  esac
  die "the cluster in $dir belongs to $owner: use make as $owner"
}

# find_state: sets dir to the directory behind .run; fails when there is none
find_state() {
  dir=$(readlink -f "$run") && [ -d "$dir" ] || return 1
  [ ! -L "$run" ] || [ "$(cat "$dir/checkout" 2>/dev/null)" = "$top" ] || return 1
}

# make_state: finds it, or makes it where the server can use it.  A link may
# have lost its directory, or have been copied with the checkout.
make_state() {
  if ! find_state; then
    [ ! -L "$run" ] || rm -f "$run"
    if socket_fits "$run" && as_server test -x "$top" && [[ $run =~ ^[A-Za-z0-9_./+-]+$ ]]; then
      dir=$run
      mkdir -p "$dir" || die "$top cannot be written to"
    else
      dir=$(mktemp -d /var/tmp/mortar-run.XXXXXX) || die "/var/tmp cannot be written to"
      echo "$top" >"$dir/checkout"
      ln -s "$dir" "$run" || { rm -rf "$dir"; die "$top cannot be written to"; }
      say "  data and sockets live in $dir, to which .run links"
    fi
  fi
  make_private "$dir"
}

# ---- gateway ---------------------------------------------------------------

# gateway_pid: its pid; fails when it does not run
gateway_pid() {
  local pid
  read -r pid 2>/dev/null <"$dir/gateway.pid" || return 1
  [[ $(readlink "/proc/$pid/exe" 2>/dev/null) == "$dir/install/"* ]] || return 1
  echo "$pid"
}

check_ports() {
  local port
  [[ $gateway_port =~ ^[0-9]+$ ]] && [ "$gateway_port" -ge 1 ] && [ "$gateway_port" -le 65534 ] ||
    die "PORT must be a number from 1 to 65534, not $gateway_port"
  for port in "$gateway_port" $((gateway_port + 1)); do
    ! listening "$port" ||
      die "port $port is in use by another program (operations take PORT + 1): choose another one, as in: make $command PORT=9080"
  done
}

gateway_start() {
  local pid
  setsid "${server_prefix[@]}" env -u PORT PGHOST="$dir/socket" PGPORT="$(cat "$dir/port")" \
    PGUSER=mortar_demo_gateway PGDATABASE=mortar \
    "$dir/install/usr/local/bin/mortar-gateway" --port "$gateway_port" \
    </dev/null >>"$dir/gateway.log" 2>&1 &
  pid=$! gateway_child=$!
  echo "$pid" >"$dir/gateway.pid"
  for _ in {1..300}; do
    [ "$(http "$ops_url/ready")" != 200 ] || return 0
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  tail -n 8 "$dir/gateway.log" >&2
  die "the gateway did not become ready; its log is $dir/gateway.log"
}

# gateway_stop: lets it finish what is in flight; silent when it does not run.
# One that this script has just begun may not have become the gateway yet.
gateway_stop() {
  local pid
  if pid=$(gateway_pid) || pid=$gateway_child && [ -n "$pid" ]; then
    kill -TERM "$pid" 2>/dev/null
    for _ in {1..300}; do
      lives "$pid" || break
      sleep 0.1
    done
    if lives "$pid"; then
      say "The gateway did not stop within 30 s and is killed."
      kill -KILL "$pid"
    fi
  elif [ -f "$dir/gateway.pid" ]; then
    say "  a stale pid file is left over: no gateway runs as process $(cat "$dir/gateway.pid") ($dir/gateway.pid)"
  fi
  rm -f "$dir/gateway.pid"
}

# lives PID: false for a zombie, which has no program any more
lives() { readlink "/proc/$1/exe" >/dev/null 2>&1; }

# http CURL-ARGUMENT...: the status, 000 when nothing answers
http() { curl --noproxy '*' -s -o "$dir/answer" -m 30 -w '%{http_code}' "$@"; }

# ---- database --------------------------------------------------------------

superuser_psql() {
  as_server env PGHOST="$dir/socket" PGPORT="$(cat "$dir/port")" PGUSER=postgres \
    "$bin/psql" -X -q -A -t -v ON_ERROR_STOP=1 "$@"
}

# The script of an unreleased version may change under a cluster that was made
# from an older one: that must be said, not found out.
check_versions() {
  local wanted sum installed
  wanted=$(sed -n "s/^default_version *= *'\(.*\)'/\1/p" "$top/mortar.control")
  sum=$(sha256sum <"$top/sql/mortar--$wanted.sql")
  installed=$(superuser_psql -d mortar -c "SELECT extversion FROM pg_extension WHERE extname = 'mortar'") || exit 1
  if [ -n "$installed" ] && [ "$installed" != "$wanted" ]; then
    superuser_psql -d mortar -c 'ALTER EXTENSION mortar UPDATE' ||
      die "the extension could not be updated from $installed to $wanted"
  elif [ -n "$installed" ] && [ -f "$dir/sql.sum" ] && [ "$sum" != "$(cat "$dir/sql.sum")" ]; then
    die "the SQL of version $wanted has changed since this cluster was made: make clean-run removes the cluster and its data"
  fi
  echo "$sum" >"$dir/sql.sum"
}

make_database() {
  [ -n "$(superuser_psql -d postgres -c "SELECT 1 FROM pg_database WHERE datname = 'mortar'")" ] ||
    superuser_psql -d postgres -c 'CREATE DATABASE mortar' || die "the database could not be created"
  check_versions
  superuser_psql -d mortar <"$top/regress/demo.sql" >"$dir/demo.log" 2>&1 ||
    { cat "$dir/demo.log" >&2; die "the demo tenant could not be made"; }
}

# A key is shown once, so it is made only when demo.env does not hold it.
make_key() {
  key=$(sed -n 's/^export MORTAR_KEY=//p' "$dir/demo.env" 2>/dev/null)
  [ -n "$key" ] || key=$(superuser_psql -d mortar -c "SELECT mortar.create_key('demo', 'demo key')") ||
    die "the demo key could not be made"
  (
    umask 077
    cat >"$dir/demo.env.new" <<END
export MORTAR_URL=$url
export MORTAR_TENANT=demo
export MORTAR_KEY=$key
export PGHOST=$dir/socket
export PGPORT=$(cat "$dir/port")
export PGDATABASE=mortar
export PGUSER=mortar_demo_admin
END
  ) && mv -f "$dir/demo.env.new" "$dir/demo.env" || die "$dir/demo.env could not be written"
}

# demo_call METHOD PATH STATUS [BODY]: a request that must be answered so
demo_call() {
  local status
  status=$(http -X "$1" "$url/v1/demo$2" -H "Authorization: Bearer $key" ${4:+-H 'Content-Type: application/json' -d "$4"})
  [ "$status" = "$3" ] ||
    die "$1 $2 was answered with $status instead of $3: $(cat "$dir/answer" 2>/dev/null)"
}

# Ten tables, so that a list shows ten, and a few rows; through the front door.
make_samples() {
  local table
  demo_call GET /db/tables 200
  [ "$(cat "$dir/answer")" = '[]' ] || return 0
  for table in articles carts customers events invoices orders products reviews tickets notes; do
    demo_call POST /db/tables 201 "{\"name\":\"$table\"}"
  done
  demo_call POST /db/rows/notes 201 \
    '[{"title":"first","done":true},{"title":"second","done":false},{"title":"third","tags":["a","b"]}]'
  demo_call POST /db/rows/customers 201 '[{"name":"Ada"},{"name":"Linus"}]'
  demo_call GET /db/tables 200
}

# ---- the four jobs ---------------------------------------------------------

show() {
  cat <<END

$1

  . .run/demo.env && curl -H "Authorization: Bearer \$MORTAR_KEY" "\$MORTAR_URL/v1/demo/db/tables"
  . .run/demo.env && psql -c "SELECT * FROM mortar.balance('demo')"

Logs: .run/gateway.log and .run/postgres.log; superuser: . .run/demo.env && psql -U postgres
END
}

bring_up() {
  local began
  began=$(now_ms) last=$began
  if find_state && gateway_pid >/dev/null && cluster_pid "$dir" >/dev/null; then
    [ "$command" = start ] || die "Mortar already runs here: Ctrl-C where it was started, or make stop, ends it"
    show "Mortar already runs: $(sed -n 's/^export MORTAR_URL=//p' "$dir/demo.env"); make stop ends it."
    exit 0
  fi
  if find_state; then gateway_stop; fi
  check_ports
  "$top/regress/install-packages.sh" run || exit 1
  mark packages
  make_state
  bin=$(pg_bin) || exit 1
  cluster_stop "$dir"
  step "building"
  cluster_install "$dir"
  mark build
  trap 'exit 130' INT
  trap 'exit 143' TERM
  trap 'exit 129' HUP
  trap bring_down EXIT
  step "starting PostgreSQL"
  cluster_start "$dir" listen_addresses=127.0.0.1
  make_database
  mark database
  step "starting the gateway"
  url=http://127.0.0.1:$gateway_port ops_url=http://127.0.0.1:$((gateway_port + 1))
  gateway_start
  make_key
  make_samples
  mark gateway
  show "Mortar serves $url, operations on $((gateway_port + 1)). First 200 after $(seconds $((last - began))): $marks."
}

# bring_down: gateway first, so that every answer it owes can still be given
bring_down() {
  local status=$?
  trap - EXIT
  trap '' INT TERM HUP
  say
  step "stopping the gateway, then PostgreSQL"
  gateway_stop
  cluster_stop "$dir"
  exit "$status"
}

command=${1:-run}
check_owner
case $command in
  run)
    bring_up
    say "Ctrl-C stops both."
    trap 'exit 0' INT
    wait "$gateway_child"
    [ -f "$dir/gateway.pid" ] || exit 0 # make stop was faster
    tail -n 8 "$dir/gateway.log" >&2
    die "the gateway ended by itself; its log is $dir/gateway.log"
    ;;
  start)
    bring_up
    trap - EXIT INT TERM HUP
    say "make stop ends it."
    ;;
  stop | clean-run)
    if find_state; then
      gateway_stop
      cluster_stop "$dir"
      say "Mortar has stopped."
      [ "$command" = stop ] || rm -rf "$dir" || die "$dir could not be removed"
    fi
    [ "$command" = stop ] || rm -rf "$run"
    ;;
  *) die "run.sh knows run, start, stop and clean-run, not $command" ;;
esac
