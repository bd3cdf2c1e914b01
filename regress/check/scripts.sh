#!/bin/bash
# Shell scripts parse; those that people call by name may be executed.
set -u
cd "$1" || exit 2
failed=0
while IFS= read -r -d '' file; do
  bash -n "$file" || failed=1
done < <(find regress bench .ci -type f \( -name '*.sh' -o -path .ci/run \) -not -path '*/.build/*' -print0)
for file in .ci/run regress/cluster.sh regress/install-packages.sh; do
  [ -x "$file" ] || { echo "$file: is not executable"; failed=1; }
done
exit $failed
