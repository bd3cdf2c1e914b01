#!/bin/bash
# Runs the unit tests named as arguments (binaries in .build/), then the simulator
# from a few fixed seeds.  Output is TAP: one "ok" or "not ok" line for each test.
set -u
. "$(dirname "$0")/lib.sh"

[ $# -gt 0 ] || die "there are no unit tests in regress/unit/"
failed=0
for name; do
  echo "# $name"
  CMOCKA_MESSAGE_OUTPUT=TAP "./.build/$name" || { failed=1; echo "not ok - $name ended with status $?"; }
done
# seeds that together reach every branch of the purse but its limits
for seed in 1 4 8 37 38 54 91 142 155; do
  if ./.build/simulate-checked $seed 30000; then
    echo "ok - simulate $seed"
  else
    failed=1
    echo "not ok - simulate $seed"
  fi
done
exit $failed
