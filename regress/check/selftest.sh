#!/bin/bash
# The checks themselves: each passes on a small tree that is in order, and fails
# when one thing in it is broken.
set -u
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d) || exit 2
trap 'rm -rf "$tree"' EXIT
failed=0

fresh() {
  rm -rf "${tree:?}"/* "$tree/.ci"
  mkdir -p "$tree"/{.ci,extension/core,gateway,bench,sql/parts,regress/{check,sql,specs,expected,unit,fuzz}}
  cp "$here/../../.clang-format" "$tree/"
  printf '/*\n * a.c\n *\t\tA file in order.\n */\n#include "a.h"\n\nint\nplain(void)\n{\n\treturn 0;\n}\n' |
    tee "$tree/extension/core/a.c" "$tree/extension/b.c" "$tree/gateway/c.c" >/dev/null
  printf '/*\n * a.h\n *\t\tIts header.\n */\nextern int plain(void);\n' |
    tee "$tree/extension/core/a.h" "$tree/gateway/a.h" >/dev/null
  printf '// SOURCES: gateway/c.c\n' >"$tree/regress/unit/gw_c.c"
  touch "$tree/Makefile" "$tree/regress/sql/t.sql" "$tree/regress/expected/t.out" "$tree/sql/parts/10.sql"
  touch "$tree"/.ci/run "$tree"/regress/{cluster,install-packages}.sh
  chmod +x "$tree"/.ci/run "$tree"/regress/*.sh
}

# broken CHECK FILE TEXT: CHECK must fail once TEXT is appended to FILE
broken() {
  fresh
  bash "$here/$1.sh" "$tree" >"$tree/out" 2>&1 || { echo "$1 fails on a tree in order:"; cat "$tree/out"; failed=1; }
  printf '%b' "$3" >>"$tree/$2"
  ! bash "$here/$1.sh" "$tree" >/dev/null 2>&1 || { echo "$1 does not see in $2: $3"; failed=1; }
}

many() { printf "$1%.0s" $(seq "$2"); }

broken layers extension/core/a.c '#include "postgres.h"\n'
broken layers extension/core/a.h '# include <h2o.h>\n'
broken layers extension/b.c '#include <libpq-fe.h>\n'
broken layers extension/b.c '#include "../gateway/a.h"\n'
broken layers gateway/c.c '#include "postgres.h"\n'
broken layers gateway/c.c '#include "core/a.h"\n'
broken layers gateway/c.c '#include <h2o.h>\n'
broken banned extension/b.c 'x = strcpy(a, b);\n'
broken banned gateway/c.c '\tsprintf (a, b);\n'
broken banned extension/b.c '#if PG_VERSION_NUM > 1\n'
broken banned sql/parts/10.sql 'CREATE OR REPLACE FUNCTION f() ...\n'
broken format gateway/c.c 'int  x ;\n'
broken shape extension/b.c "$(many '/* */\\n' 500)"
broken shape gateway/c.c "int\nlong_one(void)\n{\n$(many '\\tx++;\\n' 71)}\n"
broken shape gateway/new.h 'int x;\nint y;\nint z;\n'
broken complete Makefile 'see ../shar''ed/x\n'
broken complete Makefile 'see /wo''rk/x\n'
broken complete regress/sql/u.sql 'SELECT 1;\n'
broken complete regress/expected/v.out 'x\n'
broken complete regress/specs/t.spec 'x\n'
broken scripts regress/x.sh 'if\n'
exit $failed
