# 064_calendar.pl
#   Usage that is recorded on Feb 29, at a month's end, and in the hours in which the
#   clocks of Berlin and Lord Howe are changed, is counted where it belongs, whether it
#   is still in memory or in tables: the expected figures are counted by hand.  Each
#   call has a quantity of its own, a power of two, so that a sum says which calls it has.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Clock;
use Mortar;
use Session;
use Test::More;

my $node = Clock::node('main', conf => "mortar.flush_interval = '20ms'\n");
sub super { return $node->safe_psql($Mortar::database, @_); }
super("SELECT mortar.create_tenant('$_')") for qw(all first second third);

my @calls = (
  [ '2028-02-28 23:59:30', 1 ],        # Berlin: Feb 29, 00:59
  [ '2028-02-29 22:59:30', 2 ],        # Berlin: Feb 29, 23:59
  [ '2028-02-29 23:00:30', 4 ],        # Berlin: Mar 1, 00:00
  [ '2028-02-29 23:59:30', 8 ],
  [ '2028-03-01 00:00:30', 16 ],
  [ '2028-03-26 00:59:30', 32 ],       # Berlin: 01:59, and then
  [ '2028-03-26 01:00:30', 64 ],       # 03:00: there is no 02:30
  [ '2028-03-31 21:59:30', 128 ],      # Berlin: Mar 31, 23:59
  [ '2028-03-31 22:00:30', 256 ],      # Berlin: Apr 1, 00:00
  [ '2028-03-31 23:59:30', 512 ],
  [ '2028-04-01 14:30:30', 1024 ],     # Lord Howe: Apr 2, 01:30, +11
  [ '2028-04-01 15:00:30', 2048 ],     # Lord Howe: Apr 2, 01:30 again, +10:30
  [ '2028-10-29 00:30:30', 4096 ],     # Berlin: 02:30, and
  [ '2028-10-29 01:30:30', 8192 ],     # 02:30 again, an hour later
  [ '2028-10-29 23:00:30', 16384 ]);   # Berlin: Oct 30, 00:00

# the buckets of a hand-counted list that these calls are in, and how much of it
my $mask;
sub counted {
  return join(', ', map { /^(.*) (\d+)$/ or die $_; $2 & $mask ? "$1 " . ($2 & $mask) : () } split(/, /, $_[0]));
}

# buckets and quantities, as a tenant's customer in that time zone reads them
my $tenant;
sub usage {
  my ($by, $tz, $since, $until) = @_;
  return super("SELECT string_agg(to_char(bucket AT TIME ZONE '$tz', 'MM-DD HH24:MI') || ' ' || quantity, ', ' ORDER BY bucket)"
      . " FROM mortar.usage('$tenant', '$since', '$until', by => '{$by}', tz => '$tz')");
}
my @year = ('2028-01-01 00:00Z', '2029-01-01 00:00Z');

sub is_counted {
  ($tenant, $mask, my $where) = @_;
  my $is = sub { is($_[0], counted($_[1]), "$where: $_[2]"); };
  $is->(usage('day', 'UTC', '2028-02-28 00:00Z', '2028-03-02 00:00Z'), '02-28 00:00 1, 02-29 00:00 14, 03-01 00:00 16',
    'days around Feb 29 in UTC');
  $is->(usage('day', 'Europe/Berlin', '2028-02-28 00:00Z', '2028-03-02 00:00Z'), '02-29 00:00 3, 03-01 00:00 28', '... in Berlin');
  $is->(usage('minute', 'UTC', '2028-02-29 23:00Z', '2028-03-01 01:00Z'), '02-29 23:00 4, 02-29 23:59 8, 03-01 00:00 16', '... by the minute');
  $is->(usage('month', 'UTC', @year), '02-01 00:00 15, 03-01 00:00 1008, 04-01 00:00 3072, 10-01 00:00 28672', 'months in UTC');
  $is->(usage('month', 'Europe/Berlin', @year), '02-01 00:00 3, 03-01 00:00 252, 04-01 00:00 3840, 10-01 00:00 28672', '... in Berlin');
  $is->(usage('hour', 'Europe/Berlin', '2028-03-26 00:00Z', '2028-03-27 00:00Z'), '03-26 01:00 32, 03-26 03:00 64',
    'an hour is left out in Berlin');
  $is->(super("SELECT string_agg(to_char(bucket AT TIME ZONE 'UTC', 'HH24') || ' ' || quantity, ', ' ORDER BY bucket)"
        . " FROM mortar.usage('$tenant', '2028-10-29 00:00Z', '2028-10-29 12:00Z', by => '{hour}', tz => 'Europe/Berlin')"),
    '00 4096, 01 8192', '... and one comes twice, and is two');
  $is->(usage('day', 'Europe/Berlin', '2028-10-28 22:00Z', '2028-10-30 23:00Z'), '10-29 00:00 12288, 10-30 00:00 16384',
    '... in a day of 25 hours');
  $is->(usage('day', 'Australia/Lord_Howe', '2028-04-01 13:00Z', '2028-04-02 13:30Z'), '04-02 00:00 3072',
    'both halves of an hour are in one day of Lord Howe');
  return;
}

# Memory tells seven minutes of a meter apart, so three tenants have five calls each
# in memory; a fourth one has all of them, and in the end all of that is in tables.
for my $part ([ first => 0 ], [ second => 5 ], [ third => 10 ]) {
  my ($name, $from) = @$part;
  my $lock = Session->new($node);
  $lock->run("BEGIN; LOCK TABLE mortar.usage_journal IN EXCLUSIVE MODE");
  my $sum = 0;
  for my $call (@calls[ $from .. $from + 4 ]) {
    Clock::set_to($call->[0]);
    super("SELECT mortar.record_usage(t, 'requests', $call->[1]) FROM unnest('{all,$name}'::text[]) t");
    $sum += $call->[1];
  }
  is(super("SELECT count(*) FROM mortar.usage_journal WHERE tenant_id = '$name'"), 0, "$name: nothing is in tables");
  is_counted($name, $sum, 'in memory');
  $lock->run('ROLLBACK');
  $lock->end;
  $node->poll_query_until($Mortar::database, "SELECT bool_and(unflushed_uc = 0) AND (SELECT sum(upto_qty - from_qty) = $sum"
      . " FROM mortar.usage_journal WHERE tenant_id = '$name') FROM mortar.slots") or die 'usage is not flushed';
  is_counted($name, $sum, 'in tables');
}
$node->poll_query_until($Mortar::database, q{SELECT sum(upto_qty - from_qty) = 32767 FROM mortar.usage_journal WHERE tenant_id = 'all'})
  or die 'usage is not flushed';
is_counted('all', 32767, 'all of it, in tables');
super("UPDATE mortar.tenants SET name = 'changed by hand'");
is_counted('all', 32767, '... and loaded again');
is(super('SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'), '', 'the books agree');
done_testing();
