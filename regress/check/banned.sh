#!/bin/bash
# Calls and words that have a safer form, or one place where they belong.
set -u
cd "$1" || exit 2
failed=0

# ban PATTERN REASON FILE...
ban() {
  local pattern=$1 reason=$2
  shift 2
  if [ $# -gt 0 ] && grep -nHP "$pattern" "$@"; then
    echo "  $reason"
    failed=1
  fi
}

mapfile -t code < <(find extension gateway regress bench sql -name '*.[ch]' -not -path '*/.*')
mapfile -t versioned < <(find extension gateway -name '*.[ch]' ! -path extension/compat.h)
mapfile -t parts < <(find sql/parts -name '*.sql')

ban '(?<![\w])(v?sprintf|strcpy|stpcpy|strcat|strncat|strncpy|strtok|atoi|atol|atoll|gets|alloca)\s*\(' \
  'use the form that is told the size: snprintf, strlcpy, memcpy, strtol' "${code[@]}"
ban '\bPG_VERSION_NUM\b' 'differences between servers belong into extension/compat.h' "${versioned[@]}"
ban '(?i)^\s*create\s+or\s+replace\b' \
  'an install script must fail on an object that somebody made before it' "${parts[@]}"
exit $failed
