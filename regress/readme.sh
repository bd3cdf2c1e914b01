#!/bin/bash
# Follows the README into a PostgreSQL of this machine, and out of it again, as
# root: readme.sh CHECKOUT.  Output is TAP.
#
# The lines are those of the chapters named below, block by block, exactly as they
# stand there.  They act on a cluster that pg_createcluster makes for this, under a
# name and port that nobody uses, and on a copy of the checkout.  What they put into
# the system itself (the installed files, the gateway's user) they also remove; if
# they fail half way, we do.
#
# Ownership: a system where any of that exists already belongs to somebody, and is
# left alone; then the test fails.  One such test runs at a time: it holds
# mortar-system.lock, which tests of a server without the library share.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

chapters=("Into your own PostgreSQL" "Backup, restore, upgrade and removal")
checkout=$1
failed=0
work= made_cluster= may_clean=

ok() { say "ok - $*"; }
not_ok() { say "not ok - $*"; failed=1; }
check() { local what=$1; shift; if "$@"; then ok "$what"; else not_ok "$what"; fi; }

# installed: what of ours is in the system
installed() {
  local libraries extensions
  libraries=$("$(pg_bin)/pg_config" --pkglibdir)
  extensions=$("$(pg_bin)/pg_config" --sharedir)/extension
  find "$libraries" "$extensions" /usr/local/bin \( -name 'mortar.*' -o -name 'mortar--*' -o -name mortar-gateway \
    -o -path '*/bitcode/mortar' \) 2>/dev/null
  getent passwd mortar-gateway
}

clean_up() {
  local process
  if [ -n "$made_cluster" ]; then
    for process in /proc/[0-9]*; do
      [ "$(readlink "$process/cwd")" = "$work/src" ] && [[ $(readlink "$process/exe") == */mortar-gateway* ]] &&
        kill -KILL "${process#/proc/}"
    done 2>/dev/null
    pg_dropcluster --stop 15 "$CLUSTER"
  fi
  if [ -n "$may_clean" ] && [ -n "$(installed)" ]; then
    make -s -C "$work/src" uninstall
    ! getent passwd mortar-gateway >/dev/null || userdel mortar-gateway
  fi
  [ -z "$work" ] || rm -rf "$work"
  [ -z "${backup:-}" ] || rm -rf "$backup"
}

# blocks_of CHAPTER: its fenced blocks, to files that sort in their order
blocks_of() {
  awk -v chapter="## $1" -v out="$work/block-$2-" '
    /^## / { inside = ($0 == chapter); next }
    inside && /^```/ {
      if (file != "") { close(file); file = "" }
      else if ($0 == "```sh") file = sprintf("%s%02d", out, ++n)
      else { print "not ok - a fence that is not sh: " $0; exit 1 }
      next }
    file != "" { print > file }' "$checkout/README.md"
}

# what must hold after some of the blocks, beyond that each line has succeeded
after() {
  case $1 in
    *--check*)
      check "the gateway is welcome" grep -q 'is welcome: database "app"' "$out"
      ;;
    *"create_tenant('acme', 'ACME Inc.')"*)
      check "the first answer is 200" grep -q '^HTTP/1.1 200 ' "$out"
      check "... and is paid" [ "$(biller -d app -At -c "SELECT available_uc FROM mortar.balance('acme')")" = 24999990 ]
      ;;
    *second_gateway=*)
      check "the second database answers 200" grep -q '^HTTP/1.1 200 ' "$out"
      check "... from its own credits" [ "$(biller -d second -At -c "SELECT available_uc FROM mortar.balance('acme')")" = 1000000 ]
      check "... to its own keys" [ "$(curl -s -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $key" \
        "http://127.0.0.1:$second_port/v1/acme/db/tables")" = 401 ]
      check "... and the first one still answers" [ "$(curl -s -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $key" \
        "http://127.0.0.1:$MORTAR_PORT/v1/acme/db/tables")" = 200 ]
      check "usage is flushed, and can be dumped" flushed
      ;;
    *verify_ledger*)
      check "the restored books agree" [ "$(grep -c ' | t  *| ' "$out")" -gt 5 ]
      check "... every one of them" [ "$(grep -c ' | f  *| ' "$out")" = 0 ]
      check "... on the same balance" [ "$(biller -d restored -At -c "SELECT available_uc FROM mortar.balance('acme')")" = \
        "$(biller -d app -At -c "SELECT available_uc FROM mortar.balance('acme')")" ]
      check "the old key opens the copy" [ "$(sql -d restored -At -c 'BEGIN' -c "SELECT mortar.login('$key')")" = acme ]
      ;;
    *"ALTER EXTENSION"*)
      check "the ledger has lived through the upgrade" [ "$(biller -d app -At -c \
        'SELECT count(*) FROM mortar.verify_ledger() WHERE NOT ok')" = 0 ]
      ;;
    *"-size +68c"*)
      check "a clean stop has nothing that pg_upgrade would leave behind" [ "$(grep -c '/mortar-' "$out")" = 0 ]
      # and if it had, the same lines would tell
      sql -d app -c 'ALTER TABLE mortar.usage_journal ADD CONSTRAINT broken CHECK (false) NOT VALID'
      biller -d app -o /dev/null -c "SELECT mortar.record_usage('acme', 'requests', 1)"
      . "$block" >"$out" 2>&1
      check "... what it could not flush is named" grep -qE '/mortar-[0-9]+-.*\.stop$' "$out"
      sql -d app -c 'ALTER TABLE mortar.usage_journal DROP CONSTRAINT broken'
      check "... until the next start has entered it" entered
      ;;
    *"make uninstall"*)
      check "nothing of ours is left in the system" [ -z "$(installed)" ]
      check "the server does without it" [ "$(sql -At -c "SHOW shared_preload_libraries")" = "" ]
      check "... and has none of its roles" [ "$(sql -At -c "SELECT count(*) FROM pg_roles WHERE rolname ~ '^mortar'")" = 0 ]
      ;;
  esac
}

flushed() {
  for _ in {1..300}; do
    [ "$(biller -d app -At -c 'SELECT sum(unflushed_uc) FROM mortar.slots')" != 0 ] || return 0
    sleep 0.1
  done
  return 1
}

entered() {
  for _ in {1..300}; do
    [ -n "$(find "$(pg_conftool -s 15 "$CLUSTER" show data_directory)/pg_stat" -name 'mortar-*.stop')" ] || return 0
    sleep 0.1
  done
  return 1
}

# four_ports: the first of four in a row that are free, two for each gateway
four_ports() {
  local port
  for _ in {1..100}; do
    port=$(free_port) || return
    listening $((port + 1)) || listening $((port + 2)) || listening $((port + 3)) || { echo "$port"; return; }
  done
  return 1
}

# ---- a place of our own -----------------------------------------------------

is_root || { not_ok "the README's way into a PostgreSQL of this machine needs root"; exit 1; }
# servers that it starts must not inherit the lock
[ -n "${MORTAR_LOCKED:-}" ] || MORTAR_LOCKED=1 exec flock -o /var/tmp/mortar-system.lock bash "$0" "$@"
found=$(installed)
if [ -n "$found" ]; then
  not_ok "Mortar is installed in this system, and is left alone (make uninstall, userdel mortar-gateway remove it)"
  say "$found"
  exit 1
fi
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
work=$(mktemp -d /var/tmp/mortar-readme.XXXXXX) || exit 1
chmod 0755 "$work"
mkdir "$work/src" && tar -C "$checkout" -cf - --exclude=.git --exclude=./.run --exclude=./tmp_check . | tar -C "$work/src" -xf - --no-same-owner || exit 1
cd "$work/src" || exit 1

export CLUSTER=mortar_readme_$$ MORTAR_PORT
MORTAR_PORT=$(four_ports) || { not_ok "there are no free ports"; exit 1; }
made_cluster=1
pg_createcluster 15 "$CLUSTER" >"$work/log" 2>&1 && pg_ctlcluster 15 "$CLUSTER" start >>"$work/log" 2>&1 ||
  { cat "$work/log"; not_ok "pg_createcluster has made no server"; exit 1; }
may_clean=1
for i in "${!chapters[@]}"; do blocks_of "${chapters[$i]}" "$i" || { failed=1; exit 1; }; done

# ---- every line ------------------------------------------------------------

# The blocks share this shell, as they would share a reader's.  It must run them at
# its outermost level: within a condition no failing line would be noticed.
exec 8>&1
line_failed() {
  say "not ok - a line of the README fails in ${block##*/}: $1"
  sed 's/^/# /' "$out"
  exit 1
}
for block in "$work"/block-*; do
  out=$work/out-${block##*-}
  set -eE
  trap 'line_failed "$BASH_COMMAND" >&8 2>&1' ERR
  . "$block" >"$out" 2>&1
  trap - ERR
  set +eE
  ok "${block##*/}: $(head -n 1 "$block")"
  after "$(cat "$block")"
done
check "the unit starts what make install puts there" \
  grep -q '^ExecStart=/usr/local/bin/mortar-gateway$' gateway/mortar-gateway.service
exit $failed
