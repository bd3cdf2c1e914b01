#!/bin/bash
# The tree is complete in itself: no text refers to places that exist only on
# some machines, and no test lacks its expectation or the other way round.
set -u
cd "$1" || exit 2
failed=0

# a class of one letter keeps this file from finding itself
if grep -rnIE '\b[s]hared/|\b[D]ESIGN\.md|/[w]ork/|/[r]oot/' . --exclude-dir=.git --exclude-dir=.build \
  --exclude-dir=.run --exclude-dir=results --exclude-dir=output_iso --exclude-dir=tmp_check \
  --exclude='*.[od]' --exclude='*.bc' --exclude='*.so' --exclude='regression.*'; then
  echo "  a clone has no such place: say the thing itself"
  failed=1
fi

names=$(for file in regress/sql/*.sql regress/specs/*.spec; do
  [ ! -e "$file" ] || basename "${file%.*}"
done | sort)
twice=$(uniq -d <<<"$names")
[ -z "$twice" ] || { echo "regress/sql and regress/specs share expected/, and both have: $twice"; failed=1; }
for name in $names; do
  [ -f "regress/expected/$name.out" ] || { echo "regress/expected/$name.out is missing"; failed=1; }
done
for file in regress/expected/*.out; do
  [ -e "$file" ] || continue
  name=$(basename "$file" .out)
  # name_1.out is an alternative of name.out
  grep -qxE "$name|${name%_[0-9]}" <<<"$names" || { echo "$file belongs to no test"; failed=1; }
done
exit $failed
