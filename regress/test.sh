#!/bin/bash
# Every check, from a machine where nothing of ours is installed to one last line
# "N passed, N failed".
#
# The checkout is copied to a directory under /var/tmp, built there with warnings
# as errors and assertions on, and tested there, as a user who is not root: so it
# works below root's home and under any path, disturbs no build in the checkout,
# and many can run beside each other.  The directory is kept when a test fails.
#
# One part, readme, is different: it follows the README's way into this machine's
# PostgreSQL, as root (see readme.sh), and takes everything out again.
#
# PARTS names a subset, in order; TAP names files of the part tap; SANITIZED=1
# (make asan) builds the gateway with AddressSanitizer and both halves with UBSan;
# MATRIX=long (make crash-matrix, make dump-matrix) makes the tests that end with a
# table do more, and shows the table.
set -u
. "$(dirname "$0")/cluster.sh"

all_parts="build lint unit fuzz regress isolation pgtap tap readme"

# ---- outside: prepare, become nobody special, clean up ----------------------

outside() {
  local work status
  "$top/regress/install-packages.sh" test || exit 1
  work=$(mktemp -d /var/tmp/mortar-test.XXXXXX) || die "/var/tmp cannot be written to"
  mkdir "$work/src" "$work/log" "$work/home" "$work/cluster"
  tar -C "$top" -cf - --exclude=.git --exclude=./.run --exclude=./.build --exclude='./.build.lock' \
    --exclude='*.o' --exclude='*.d' --exclude='*.bc' --exclude='*.so' --exclude=./tmp_check \
    --exclude=./gateway/mortar-gateway . | tar -C "$work/src" -xf - || die "the checkout could not be copied"
  case " ${PARTS:-$all_parts} " in *" readme "*) follow_readme "$work" ;; esac
  if is_root; then chown -R "$server_user:" "$work"; fi
  as_server env -i PATH="$(pg_bin):$PATH" HOME="$work/home" LC_ALL=C.UTF-8 TZ=UTC \
    PG_CONFIG="$(pg_bin)/pg_config" PG_TEST_TIMEOUT_DEFAULT=60 SANITIZED="${SANITIZED:-}" FUZZ_RUNS="${FUZZ_RUNS:-20000}" \
    MATRIX="${MATRIX:-}" TAP="${TAP:-}" PARTS="${PARTS:-$all_parts}" bash "$work/src/regress/test.sh" inside "$work"
  status=$?
  [ $status -ne 0 ] || rm -rf "$work"
  exit $status
}

# follow_readme DIR: needs root, so it runs out here, before all other parts; its
# result is counted inside
follow_readme() {
  local sudo=
  if ! is_root; then
    sudo=sudo
    [ -t 0 ] || sudo="sudo -n"
  fi
  $sudo env -i PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" HOME=/root LC_ALL=C.UTF-8 \
    bash "$1/src/regress/readme.sh" "$1/src" >"$1/log/readme.first" 2>&1 </dev/null
  echo $? >"$1/log/readme.status"
}

# ---- inside: the parts ------------------------------------------------------

passed=0
failed=0

# part NAME COMMAND...: runs it, counts the tests that it reports, shows why it
# failed.  One that reports none, or ends badly without naming a failure, counts
# as a failure; a skipped test is one, too.
part() {
  local name=$1 log=$work/log/$1 status good bad began=$SECONDS
  shift
  "$@" >"$log" 2>&1 </dev/null
  status=$?
  # TAP says "ok" at the line's start, pg_regress "... ok" at its end; a file
  # that prove could not read to its end hides tests that did not run
  good=$(grep -cE '^ok (-|[0-9]).*|^(test| {4,}).*\.\.\. ok +[0-9]+ ms' "$log")
  bad=$(grep -ciE '^not ok (-|[0-9])|^(test| {4,}).*\.\.\. failed|^ok .*# *skip|^  Parse errors:|^[^ ].*\.\. skipped:' "$log")
  good=$((good - $(grep -ciE '^ok .*# *skip' "$log")))
  [ "$bad" -gt 0 ] || { [ $status -eq 0 ] && [ "$good" -gt 0 ]; } || bad=1
  passed=$((passed + good))
  failed=$((failed + bad))
  say "== $name: $good passed, $bad failed ($((SECONDS - began)) s)"
  [ -z "$MATRIX" ] || sed -n 's/^# |/|/p' "$log"
  [ "$bad" -eq 0 ] || explain "$name" "$log"
}

# explain NAME LOG: what somebody needs who sees only this output
explain() {
  local diffs=$work/src/regress/regression.diffs test
  case $1 in
    regress | isolation) [ ! -s "$diffs" ] || { head -n 150 "$diffs"; return; } ;;
    unit | pgtap | tap) grep -nE -A 12 '^not ok|^# +Failed|ERROR: ' "$2" | head -n 150 ;;
  esac
  [ "$1" != tap ] || for test in $(sed -nE 's|^regress/t/([^ ]+)\.pl +\(Wstat.*|\1|p' "$2"); do
    say "-- $test, the end of its log"
    tail -n 25 "$work/src/tmp_check/log/regress_log_$test"
  done
  tail -n 40 "$2"
}

make_here() { env -u MAKEFLAGS make -s -C "$top" with_llvm=no "$@"; }

build() {
  make_here -j "$(nproc)" all build-unit build-fuzz && make_here install DESTDIR="$work/cluster/install" &&
    { [ -n "${SANITIZED:-}" ] || make_here -j "$(nproc)" -f bench/bench.mk limit-sql limit-http gate; } &&
    echo "ok - everything compiles without a warning"
}

# server: the one that pg_regress and pgTAP talk to; started by the first of them
server() {
  cluster_pid "$work/cluster" >/dev/null || {
    cluster_start "$work/cluster" fsync=off max_prepared_transactions=10 max_connections=120 \
      log_min_messages=warning || return
  }
  eval "$(cluster_env "$work/cluster")"
}

readme() { cat "$work/log/readme.first" && return "$(cat "$work/log/readme.status")"; }

check_sql() { server && make_here "check-$1"; }

pgtap() {
  server || return
  psql -Xq -v ON_ERROR_STOP=1 -c 'DROP DATABASE IF EXISTS mortar_pgtap' -c 'CREATE DATABASE mortar_pgtap' &&
    psql -Xq -v ON_ERROR_STOP=1 -d mortar_pgtap -c 'CREATE EXTENSION mortar' -c 'CREATE EXTENSION pgtap' &&
    PGDATABASE=mortar_pgtap make_here check-pgtap
}

inside() {
  local name
  work=$1
  cd "$work/src" || exit 1
  export WERROR=1 ASSERTS=1 MORTAR_DESTDIR="$work/cluster/install"
  export LSAN_OPTIONS="suppressions=$work/src/regress/lsan.supp:print_suppressions=0"
  trap 'cluster_stop "$work/cluster"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  for name in $PARTS; do
    case $name in
      build) part build build ;;
      lint | unit | fuzz) part "$name" make_here "$name" ;;
      regress | isolation) part "$name" check_sql "$name" ;;
      pgtap | readme) part "$name" "$name" ;;
      tap) part tap make_here check-tap ${TAP:+PROVE_TESTS="$TAP"} ;;
      *) die "PARTS knows $all_parts, not $name" ;;
    esac
  done
  [ $failed -eq 0 ] || say "The logs of all parts, and the servers' logs, are kept in $work."
  say "$passed passed, $failed failed"
  [ $failed -eq 0 ]
}

if [ "${1:-}" = inside ]; then inside "$2"; else outside; fi
