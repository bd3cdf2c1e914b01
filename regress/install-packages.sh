#!/bin/bash
# Installs the Debian packages that a job needs, only those that are missing:
#   install-packages.sh run | test | bench
# As root directly, as anyone else through sudo.
set -u
. "$(dirname "$0")/lib.sh"

run_packages="gcc libc6-dev make curl postgresql-15 postgresql-client-15
  postgresql-server-dev-15 libpq-dev libssl-dev libh2o-evloop-dev"
test_packages="$run_packages libcmocka-dev clang-14 libclang-rt-14-dev
  clang-format-14 perl libipc-run-perl postgresql-15-pgtap
  libtap-parser-sourcehandler-pgtap-perl"
bench_packages="$run_packages wrk golang-go golang-github-jackc-pgx-v4-dev
  python3 gnuplot-nox"

job=${1:-run}
case $job in
  run) wanted=$run_packages ;;
  test) wanted=$test_packages ;;
  bench) wanted=$bench_packages ;;
  *) die "install-packages.sh knows run, test and bench, not $job" ;;
esac

missing=
for package in $wanted; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)
  [ "$status" = installed ] || missing="$missing $package"
done
missing=${missing# }
[ -n "$missing" ] || exit 0

command -v apt-get >/dev/null ||
  die "these packages of Debian 12 are missing and there is no apt-get here: $missing"
sudo=
if ! is_root; then
  command -v sudo >/dev/null ||
    die "these packages are missing: install them as root with: apt-get install $missing"
  sudo=sudo
  [ -t 0 ] || sudo="sudo -n"
  $sudo true ||
    die "these packages are missing and sudo is refused: install them as root with: apt-get install $missing"
fi

log=$(mktemp /tmp/mortar-apt.XXXXXX)
say "Packages to install: $missing"

# apt WORD...: apt-get, quiet but for a line at every tenth of the way.  apt
# reports progress as lines kind:item:percent:text on descriptor 3.
apt() {
  $sudo env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 sh -c \
    'log=$1; shift; exec apt-get -qq -o Dpkg::Use-Pty=0 -o APT::Status-Fd=3 -o DPkg::Lock::Timeout=300 "$@" 3>&1 >>"$log" 2>&1' \
    sh "$log" "$@" | awk -F: -v what="$1" '
      { kind = ($1 == "dlstatus") ? "download" : "unpack and set up"
        tenth = int($3 / 10)
        if ($1 ~ /^(dlstatus|pmstatus)$/ && (kind != last || tenth > seen)) {
          if (what == "install" && tenth > 0) printf "  %s %d %%\n", kind, tenth * 10
          last = kind; seen = tenth; fflush() } }'
  return "${PIPESTATUS[0]}"
}

# The server's package makes and starts a cluster "main" when it is installed.
# Nobody asked for that: it is switched off while we install, and whatever the
# configuration said before is put back.
conf=/etc/postgresql-common/createcluster.conf
no_main_cluster() {
  trap put_back EXIT
  [ -f "$conf.mortar" ] || $sudo cp -p "$conf" "$conf.mortar" || return
  grep -qx 'create_main_cluster = false' "$conf" ||
    echo 'create_main_cluster = false' | $sudo tee -a "$conf" >/dev/null
}
put_back() { [ ! -f "$conf.mortar" ] || $sudo mv -f "$conf.mortar" "$conf"; }

# What a Ctrl-C left half done, apt refuses to go on from.
mend_dpkg() {
  [ -n "$(dpkg --audit 2>/dev/null)$(ls /var/lib/dpkg/updates 2>/dev/null)" ] || return 0
  say "  an interrupted installation is completed first"
  $sudo env DEBIAN_FRONTEND=noninteractive dpkg --configure -a >>"$log" 2>&1
}

install_missing() {
  case " $missing " in
    *" postgresql-15 "*)
      if [ ! -f "$conf" ]; then
        mend_dpkg && apt install --no-install-recommends -y postgresql-common || return
      fi
      no_main_cluster || return
      ;;
  esac
  # shellcheck disable=SC2086
  mend_dpkg && apt install --no-install-recommends -y $missing
}

# The lists may be absent, or older than what the mirror still has.
[ -n "$(find /var/lib/apt/lists -name '*_Packages*' -mtime -1 -print -quit 2>/dev/null)" ] || apt update
if ! install_missing; then
  apt update
  install_missing || {
    tail -n 15 "$log" >&2
    die "apt-get could not install the packages: $missing (its whole output: $log)"
  }
fi
rm -f "$log"
