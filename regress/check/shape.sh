#!/bin/bash
# Sizes that a reader can hold: 500 lines a file, 70 lines a function (from the
# brace at the left edge to its end; a table of data is none); C files open by saying what they are for.
set -u
cd "$1" || exit 2
failed=0

while IFS= read -r -d '' file; do
  lines=$(wc -l <"$file")
  [ "$lines" -le 500 ] || { echo "$file: $lines lines, more than 500"; failed=1; }
done < <(find extension gateway regress bench sql Makefile -type f \
  \( -name '*.[ch]' -o -name '*.sql' -o -name '*.sh' -o -name '*.p[lm]' -o -name '*.go' \
  -o -name '*.py' -o -name '*.lua' -o -name '*.spec' -o -name Makefile \) \
  ! -path 'sql/mortar--*' -not -path '*/.*' -print0)

while IFS= read -r -d '' file; do
  awk -v file="$file" '
    /^\{/ && last !~ /=$/ { start = NR }
    { last = $0 }
    /^\}/ && start { if (NR - start - 1 > 70) {
        printf "%s:%d: a function of %d lines, more than 70\n", file, start, NR - start - 1; bad = 1 }
      start = 0 }
    END { exit bad }' "$file" || failed=1
done < <(find extension gateway regress bench -name '*.c' -not -path '*/.*' -print0)

while IFS= read -r -d '' file; do
  head -n 3 "$file" | grep -qE '^(/\*| \*)' || { echo "$file: does not open with its purpose"; failed=1; }
done < <(find extension gateway -name '*.[ch]' -print0)
exit $failed
