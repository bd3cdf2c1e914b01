#!/bin/bash
# Runs each fuzz target for a bounded number of inputs from a fixed seed, so that
# a failure can be repeated: fuzz.sh RUNS TARGET...  Seeds are read from
# regress/fuzz/corpus/TARGET; what a run adds stays in .build/.
set -u
. "$(dirname "$0")/lib.sh"

runs=$1; shift
[ $# -gt 0 ] || die "there are no fuzz targets in regress/fuzz/"
failed=0
for name; do
  seeds=regress/fuzz/corpus/${name#fuzz_}
  work=.build/corpus-$name
  mkdir -p "$work"
  dirs=("$work")
  [ ! -d "$seeds" ] || dirs+=("$seeds")
  if "./.build/$name" -seed=1 -runs="$runs" -max_total_time=60 -timeout=10 \
    -rss_limit_mb=1024 -print_final_stats=0 -verbosity=0 \
    -artifact_prefix=".build/$name-" "${dirs[@]}" >".build/$name.log" 2>&1
  then
    echo "ok - $name, $runs inputs"
  else
    failed=1
    cat ".build/$name.log"
    echo "not ok - $name: the input is in .build/$name-*"
  fi
done
exit $failed
