#!/bin/bash
# Benchmarks: private servers, interleaved runs, a table of ratios.  README.md
# here says what is compared with what, and how to measure a running installation.
#
#   SCENARIO     names from README.md, default: list list-metering insert gate
#   DURATION     seconds of one run, default 5; of spend-hot 2
#   SIZE         what the scenario varies: tables in a list (10), connections of
#                idle (1000), requests of soak (1000000), most tenants of tenants
#                (100000), ledger entries of history (100000), tenants of
#                spend-hot (1000)
#   CONNECTIONS  keep-alive connections, default 64; sessions of spend-hot, 32
#   ROUNDS       least number of rounds, default 5
#   GATEWAY_FLAGS, SEED_FLAGS   given to mortar-gateway and the limits, to seed-go
#   MORTAR_URL   base address of an installation that exists; with MORTAR_TENANT
#                (demo), MORTAR_KEY, and PGHOST ... of its server
#
# Ownership: what this script starts it ends, and it removes the directory with
# the private cluster, on every way out.
set -u
. "$(dirname "$0")/../regress/cluster.sh"

here=$top/bench
scenarios=${SCENARIO:-list list-metering insert gate}
duration=${DURATION:-5} size=${SIZE:-} connections=${CONNECTIONS:-64} rounds=${ROUNDS:-5}
dir=
pids=()

for number in "$duration" "$connections" "$rounds"; do
  [[ $number =~ ^[1-9][0-9]{0,4}$ ]] ||
    die "DURATION, CONNECTIONS and ROUNDS must be numbers from 1 to 99999, not $number"
done
[[ ${size:-1} =~ ^[1-9][0-9]{0,8}$ ]] || die "SIZE must be a number from 1, not $size"

# program SCENARIO: what runs it
program() {
  case $1 in
    gate) echo gate.py ;;
    idle | soak) echo memory.py ;;
    tenants | history) echo growth.py ;;
    spend-hot) echo spend.py ;;
    *) echo compare.py ;;
  esac
}

# tables: how many the lists have; SIZE means something else to other programs
tables=10
for scenario in $scenarios; do
  [ "$(program "$scenario")" = compare.py ] || continue
  [ "${size:-10}" -le 100 ] || die "SIZE is at most 100, the first page of a list"
  tables=${size:-10}
done

# servers_of SCENARIO: the names of those that it needs
servers_of() {
  case $(program "$1") in
    compare.py) python3 "$here/compare.py" --targets "$1" ;;
    *) echo mortar ;;
  esac
}

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

# start_gateway NAME PROGRAM [FLAG...]: ours, or a limit, which is the same but for
# one file
start_gateway() {
  local port
  port=$(free_ports) || exit 1
  # shellcheck disable=SC2086
  serve "$1" "$port" PGHOST="$PGHOST" PGPORT="$PGPORT" PGDATABASE="$PGDATABASE" \
    PGUSER=bench_gateway "$2" --port "$port" "${@:3}" ${GATEWAY_FLAGS:-}
  url=http://127.0.0.1:$port/v1/bench/db/tables
}

start_mortar() {
  say "- the gateway, $tables tables"
  psql -XqAt -v ON_ERROR_STOP=1 -c 'CREATE EXTENSION mortar' \
    -c 'CREATE ROLE bench_gateway LOGIN IN ROLE mortar_gateway' >/dev/null ||
    die "the extension could not be created"
  start_gateway mortar "$dir/install/usr/local/bin/mortar-gateway"
  mortar_url=$url
  mortar_key=$(python3 "$here/setup.py" mortar "$url" "$tables") || exit 1
  target mortar "$url" "$mortar_key"
  # as many connections as the pool of seed-go
  ! wanted mortar-20 || {
    start_gateway mortar-20 "$dir/install/usr/local/bin/mortar-gateway" --threads 2 --connections 10
    target mortar-20 "$url" "$mortar_key"
  }
}

# start_limit NAME: limit-sql or limit-http
start_limit() {
  say "- peer $1"
  submake -f bench/bench.mk "$1" || die "$1 could not be built"
  cp "$top/.build/peers/$1" "$dir/$1" || exit 1
  start_gateway "$1" "$dir/$1"
  target "$1" "$url" "$mortar_key"
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
  made=$(python3 "$here/setup.py" seed "$tables" ${mortar_url:+"$mortar_url" "$mortar_key"}) || exit 1
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
  local settings=(fsync=on synchronous_commit=on)
  [[ " $scenarios " != *" tenants "* ]] || settings+=(
    mortar.max_tenants=200000 mortar.max_keys=200000 mortar.max_usage_slots=600000)
  [[ " $scenarios " != *" history "* ]] || settings+=(autovacuum=off)
  [[ " $scenarios " != *" spend-hot "* ]] ||
    settings+=(autovacuum=off track_wal_io_timing=on checkpoint_timeout=1h max_wal_size=4GB)
  connect=$("$top/regress/cluster.sh" start "$dir" "${settings[@]}") || exit 1
  eval "$connect"
  psql -XqAt -v ON_ERROR_STOP=1 -c 'CREATE DATABASE bench' || exit 1
  export PGDATABASE=bench
  [[ $needed != *mortar* && $needed != *limit-* ]] || start_mortar
  ! wanted limit-sql || start_limit limit-sql
  ! wanted limit-http || start_limit limit-http
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
for program in python3 wrk gnuplot psql pgbench; do
  command -v "$program" >/dev/null || die "$program is missing; Debian has it"
done
needed=
for scenario in $scenarios; do
  servers=$(servers_of "$scenario") || exit 1
  needed="$needed $servers"
  case $scenario in
    list | list-metering | idle) ;;
    *) [ -z "${MORTAR_URL:-}" ] || die "$scenario makes data of its own: run it without MORTAR_URL" ;;
  esac
done
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP
trap clean_up EXIT
if [ -n "${MORTAR_URL:-}" ]; then use_existing; else start_private; fi

BENCH_COMMIT=$(git -C "$top" rev-parse --short HEAD 2>/dev/null)
export BENCH_COMMIT
# plot SCRIPT CSV SETTING...: results/SCENARIO.svg
plot() {
  local script=$1 csv=$2 args pair
  shift 2
  args="csv='$here/results/$csv'; svg='$here/results/$scenario.svg'"
  for pair; do args+="; ${pair%%=*}='${pair#*=}'"; done
  gnuplot -e "$args" "$here/$script" || die "the plot of $scenario failed"
  say "plot: $here/results/$scenario.svg"
  say
}

# gate_library: built for this server, and put where it can read it
gate_library() {
  submake -f bench/bench.mk gate || die "the library of gate could not be built"
  cp "$top/.build/peers/bench_gate.so" "$dir/bench_gate.so" || exit 1
}

# run_scenario: $scenario, its tables and its plot
run_scenario() {
  local load=(--duration "$duration" --connections "$connections" --rounds "$rounds")
  case $scenario in
    gate)
      gate_library
      python3 "$here/gate.py" --duration "$duration" --rounds "$rounds" \
        --library "$dir/bench_gate.so" || exit 1
      plot bars.gp gate.csv "title=gate: CPU time inside the backend" \
        "unit=microseconds per transaction"
      ;;
    idle | soak)
      python3 "$here/memory.py" "$scenario" ${size:+--size "$size"} \
        --connections "$connections" || exit 1
      if [ "$scenario" = idle ]; then
        plot lines.gp idle-runs.csv "title=idle: memory of the gateway" x=connections \
          a=rss_mib b=anonymous_mib
      else
        plot lines.gp soak-runs.csv "title=soak: private memory" x=requests \
          a=gateway_mib b=largest_backend_mib
      fi
      ;;
    tenants | history)
      python3 "$here/growth.py" "$scenario" "${load[@]}" ${size:+--size "$size"} || exit 1
      local part
      for part in "$here/results/$scenario".csv "$here/results/$scenario"-{list,insert,charge}.csv; do
        [ -f "$part" ] || continue
        scenario=$(basename "$part" .csv)
        plot plot.gp "$scenario.csv" "title=$scenario"
      done
      ;;
    spend-hot)
      python3 "$here/spend.py" spend-hot ${size:+--size "$size"} --rounds "$rounds" \
        --connections "${CONNECTIONS:-32}" --duration "${DURATION:-2}" || exit 1
      plot plot.gp spend-hot.csv "title=spend-hot: ${CONNECTIONS:-32} sessions"
      ;;
    *)
      python3 "$here/compare.py" "$scenario" "${load[@]}" || exit 1
      plot plot.gp "$scenario.csv" "title=$scenario: $connections keep-alive connections"
      ;;
  esac
}

for scenario in $scenarios; do
  say "- $scenario"
  run_scenario
done
say "The whole took $((SECONDS - began)) s."
