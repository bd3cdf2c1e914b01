#!/bin/bash
# Benchmarks: private servers, interleaved runs, a table of ratios.  README.md
# here says what is compared with what, and how to measure a running installation.
#
#   SCENARIO     names from compare.py, default: list list-metering
#   DURATION     seconds of one run, default 5
#   SIZE         tables in the list, default 10
#   CONNECTIONS  keep-alive connections, default 64
#   ROUNDS       least number of rounds, default 5
#   GATEWAY_FLAGS, SEED_FLAGS   given to mortar-gateway and limit-sql, to seed-go
#   MORTAR_URL   base address of an installation that exists; with MORTAR_TENANT
#                (demo), MORTAR_KEY, and PGHOST ... of its server
#
# Ownership: what this script starts it ends, and it removes the directory with
# the private cluster, on every way out.
set -u
. "$(dirname "$0")/../regress/cluster.sh"

here=$top/bench
scenarios=${SCENARIO:-list list-metering}
duration=${DURATION:-5} size=${SIZE:-10} connections=${CONNECTIONS:-64} rounds=${ROUNDS:-5}
dir=
pids=()

for number in "$duration" "$size" "$connections" "$rounds"; do
  [[ $number =~ ^[1-9][0-9]{0,4}$ ]] ||
    die "DURATION, SIZE, CONNECTIONS and ROUNDS must be numbers from 1 to 99999, not $number"
done
[ "$size" -le 100 ] || die "SIZE is at most 100, the first page of a list"

wanted() { [[ " $needed " == *" $1 "* ]]; }

clean_up() {
  local status=$? pid
  trap - EXIT
  trap '' INT TERM HUP
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null; done
  wait
  if [ -n "$dir" ]; then
    [ "$status" -eq 0 ] || show_logs
    cluster_stop "$dir"
    rm -rf "$dir"
  fi
  exit "$status"
}

show_logs() {
  local log
  for log in "$dir"/*.serve.log; do
    [ ! -s "$log" ] || { say "--- the end of $(basename "$log")" && tail -n 5 "$log"; } >&2
  done
}

# serve NAME PORT COMMAND...: starts a server in the background as the server's
# user, and waits until it listens
serve() {
  local name=$1 port=$2 log=$dir/$1.serve.log
  shift 2
  "${server_prefix[@]}" env "$@" </dev/null >"$log" 2>&1 &
  local pid=$!
  pids+=("$pid")
  for _ in {1..150}; do
    ! listening "$port" || return 0
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  die "$name did not start"
}

# free_ports: the first of two free ports in a row; the gateway takes both
free_ports() {
  local port
  for _ in {1..100}; do
    port=$(free_port) || return 1
    listening $((port + 1)) || { echo "$port"; return; }
  done
  die "no two free ports in a row were found"
}

# target NAME URL KEY: what compare.py finds a target by
target() {
  local prefix
  prefix=BENCH_$(tr 'a-z-' 'A-Z_' <<<"$1")
  export "${prefix}_URL=$2" "${prefix}_KEY=$3"
}

# start_gateway NAME PROGRAM: ours, or limit-sql, which is the same but for one file
start_gateway() {
  local port
  port=$(free_ports) || exit 1
  # shellcheck disable=SC2086
  serve "$1" "$port" PGHOST="$PGHOST" PGPORT="$PGPORT" PGDATABASE="$PGDATABASE" \
    PGUSER=bench_gateway "$2" --port "$port" ${GATEWAY_FLAGS:-}
  url=http://127.0.0.1:$port/v1/bench/db/tables
}

start_mortar() {
  say "- the gateway, $size tables"
  psql -XqAt -v ON_ERROR_STOP=1 -c 'CREATE EXTENSION mortar' \
    -c 'CREATE ROLE bench_gateway LOGIN IN ROLE mortar_gateway' >/dev/null ||
    die "the extension could not be created"
  start_gateway mortar "$dir/install/usr/local/bin/mortar-gateway"
  mortar_url=$url
  mortar_key=$(python3 "$here/setup.py" mortar "$url" "$size") || exit 1
  target mortar "$url" "$mortar_key"
}

start_limit_sql() {
  say "- peer limit-sql"
  submake -f bench/bench.mk limit-sql || die "limit-sql could not be built"
  cp "$top/.build/peers/limit-sql" "$dir/limit-sql" || exit 1
  start_gateway limit-sql "$dir/limit-sql"
  target limit-sql "$url" "$mortar_key"
}

# start_seed NAME FLAGS...: one process per variant, on the same tables
start_seed() {
  local name=$1 port
  shift
  port=$(free_port) || exit 1
  # shellcheck disable=SC2086
  serve "$name" "$port" PGHOST="$PGHOST" PGPORT="$PGPORT" PGDATABASE="$PGDATABASE" \
    PGUSER=seed_app SEED_PEPPER="$seed_pepper" "$dir/seed-go" -listen "127.0.0.1:$port" \
    ${SEED_FLAGS:-} "$@"
  target "$name" "http://127.0.0.1:$port/v1/bench/db/tables" "$seed_key"
}

start_seeds() {
  local made
  say "- peer seed-go"
  submake -f bench/bench.mk seed-go || die "seed-go could not be built"
  cp "$top/.build/peers/seed-go" "$dir/seed-go" || exit 1
  made=$(python3 "$here/setup.py" seed "$size" ${mortar_url:+"$mortar_url" "$mortar_key"}) || exit 1
  read -r seed_key seed_pepper <<<"$made"
  ! wanted seed-go || start_seed seed-go -egress buffered
  ! wanted seed-go-noop || start_seed seed-go-noop -egress noop
  ! wanted seed-go-sync || start_seed seed-go-sync -egress sync
  local conns
  for conns in 4 10 40; do
    ! wanted "seed-go-$conns" || start_seed "seed-go-$conns" -egress buffered -conns "$conns"
  done
}

# start_private: a cluster of our own, and every server that the scenarios need
start_private() {
  dir=$(mktemp -d /var/tmp/mortar-bench.XXXXXX) || exit 1
  say "- building, and a private PostgreSQL cluster in $dir"
  local connect
  connect=$("$top/regress/cluster.sh" start "$dir" fsync=on synchronous_commit=on) || exit 1
  eval "$connect"
  psql -XqAt -v ON_ERROR_STOP=1 -c 'CREATE DATABASE bench' || exit 1
  export PGDATABASE=bench
  ! wanted mortar && ! wanted limit-sql || start_mortar
  ! wanted limit-sql || start_limit_sql
  [[ $needed != *seed-go* ]] || start_seeds
}

use_existing() {
  : "${MORTAR_KEY:?must be set together with MORTAR_URL}"
  target mortar "${MORTAR_URL%/}/v1/${MORTAR_TENANT:-demo}/db/tables" "$MORTAR_KEY"
  say "- measuring $MORTAR_URL; only the targets that run there take part"
}

began=$SECONDS
if [ -z "${MORTAR_URL:-}" ]; then
  "$top/regress/install-packages.sh" bench || exit 1
fi
for program in python3 wrk gnuplot psql; do
  command -v "$program" >/dev/null || die "$program is missing; Debian has it"
done
needed=$(python3 "$here/compare.py" --targets $scenarios) || exit 1
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP
trap clean_up EXIT
if [ -n "${MORTAR_URL:-}" ]; then use_existing; else start_private; fi

BENCH_COMMIT=$(git -C "$top" rev-parse --short HEAD 2>/dev/null)
export BENCH_COMMIT
for scenario in $scenarios; do
  say "- $scenario"
  python3 "$here/compare.py" "$scenario" --duration "$duration" \
    --connections "$connections" --rounds "$rounds" || exit 1
  gnuplot -e "csv='$here/results/$scenario.csv'; svg='$here/results/$scenario.svg'; \
title='$scenario: $connections keep-alive connections'" "$here/plot.gp" ||
    die "the plot of $scenario failed"
  say "plot: $here/results/$scenario.svg"
  say
done
say "The whole took $((SECONDS - began)) s."
