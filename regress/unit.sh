#!/bin/bash
# Runs the unit tests named as arguments (binaries in .build/) and ends with
# their sum.  Output is TAP: one "ok" or "not ok" line for each test.
set -u
. "$(dirname "$0")/lib.sh"

[ $# -gt 0 ] || die "there are no unit tests in regress/unit/"
failed=0
for name; do
  echo "# $name"
  CMOCKA_MESSAGE_OUTPUT=TAP "./.build/$name" || { failed=1; echo "not ok - $name ended with status $?"; }
done
exit $failed
