#!/bin/bash
# Includes point one way: extension/core is plain C, the extension knows neither
# h2o nor libpq, the gateway knows nothing of the server.  sql/contract.h is the
# only file that both halves include.
set -u
cd "$1" || exit 2
failed=0

# forbid PATTERN REASON FILE...: no #include of these files may match
forbid() {
  local pattern=$1 reason=$2
  shift 2
  if [ $# -gt 0 ] && grep -nHE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]($pattern)" "$@"; then
    echo "  $reason"
    failed=1
  fi
}

# own DIRECTORY FILE...: whatever is included in quotes lies in DIRECTORY
own() {
  local directory=$1 file name
  shift
  for file; do
    while read -r name; do
      [ -f "$directory/$name" ] || [ "$name" = contract.h ] || [ -f "$(dirname "$directory")/$name" ] && continue
      echo "$file: includes \"$name\", which is not of $directory"
      failed=1
    done < <(sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"([^"]+)".*/\1/p' "$file")
  done
}

shopt -s nullglob
core=(extension/core/*.[ch]) server=(extension/*.[ch] extension/core/*.[ch]) gateway=(gateway/*.[ch])

forbid 'postgres|c\.h|fmgr|h2o|libpq' 'extension/core is plain C: pass in what it needs' "${core[@]}"
forbid 'h2o|libpq-fe|\.\./gateway|gateway/' 'the extension knows neither h2o nor libpq' "${server[@]}"
forbid 'postgres\.h|fmgr|server/|\.\./extension|extension/' 'the gateway knows nothing of the server' "${gateway[@]}"
own extension/core "${core[@]}"
own gateway "${gateway[@]}"

# what a unit test or a fuzzer of the gateway links must need neither library,
# unless the test says that it links them too
pure=()
for test in regress/unit/gw_*.c regress/fuzz/fuzz_gw_*.c; do
  ! grep -q '\bLIBS:.*-lh2o' "$test" || continue
  for file in $(sed -n 's|.*\bSOURCES: *||p' "$test"); do
    case $file in gateway/*) pure+=("$file" "${file%.c}".[h]) ;; esac
  done
done
mapfile -t pure < <(printf '%s\n' "${pure[@]}" | sort -u | grep .)
forbid 'h2o|libpq' 'it is linked into unit tests, so it must stay plain C' "${pure[@]}"
exit $failed
