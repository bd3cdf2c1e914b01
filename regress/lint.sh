#!/bin/bash
# Runs every check in regress/check/ over the checkout; each is one "ok" line.
# A check takes the directory to look at and prints what it finds.
set -u
. "$(dirname "$0")/lib.sh"

failed=0
for check in "$top"/regress/check/*.sh; do
  name=$(basename "$check" .sh)
  if bash "$check" "$top"; then
    echo "ok - $name"
  else
    failed=1
    echo "not ok - $name"
  fi
done
exit $failed
