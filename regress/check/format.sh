#!/bin/bash
# All C is formatted by .clang-format.  Versions of the tool differ in details:
# 14 is Debian 12's.
set -u
cd "$1" || exit 2
tool=$(command -v clang-format-14 || command -v clang-format) ||
  { echo "clang-format-14 is missing: regress/install-packages.sh test installs it"; exit 1; }
find extension gateway regress bench sql -name '*.[ch]' -not -path '*/.*' -print0 |
  xargs -0 -r "$tool" --dry-run -Werror
