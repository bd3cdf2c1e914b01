# Clock.pm
#   A server whose time of day the test sets, and nobody else's on this machine.
#
#     my $node = Clock::node('main');
#     Clock::set(-3600);                      # it is an hour earlier there
#     Clock::set_to('2028-02-29 23:59:30');   # or then, in UTC
#
#   The monotonic clock is left alone, as it is when an administrator sets the time
#   (regress/modules/shift_clock.c).

package Clock;

use strict;
use warnings;
use FindBin;
use Mortar;
use PostgreSQL::Test::Utils;
use Time::Local qw(timegm);

my $clock = PostgreSQL::Test::Utils::tempdir() . '/clock';

# node(NAME, ...): as Mortar::node
sub node {
  set(0);
  local $ENV{SHIFT_CLOCK} = $clock;
  local $ENV{LD_PRELOAD} = "$FindBin::Bin/../modules/shift_clock.so";
  return Mortar::node(@_);
}

# set(SECONDS): by so much the server's clock differs from the machine's
sub set {
  my ($seconds) = @_;
  open(my $file, '+>>', $clock) or die "$clock: $!";
  close($file) or die "$clock: $!";
  open($file, '+<:raw', $clock) or die "$clock: $!";
  syswrite($file, pack('q', $seconds)) == 8 or die "$clock: $!";
  close($file) or die "$clock: $!";
  return;
}

# set_to(TIME): it goes on from there
sub set_to {
  my ($year, $month, $day, $hour, $minute, $second) = $_[0] =~ /^(\d+)-(\d+)-(\d+) (\d+):(\d+):(\d+)$/ or die "no time: $_[0]";
  set(timegm($second, $minute, $hour, $day, $month - 1, $year) - time);
  return;
}

1;
