# 011_exact.pl
#   Prices are exact in any mix of concurrency and aborts: calls of 1,000 bytes
#   at 0.3 credits a GB, from 8 sessions, 5 % of them rolled back, cost exactly
#   floor(kept bytes * 300000 / 10^9) micro-credits, in memory and in tables.
#
#   100,000 calls; MORTAR_LONG=1 makes it 1,000,000.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Mortar;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

my $sessions = 8;
my $calls = $ENV{MORTAR_LONG} ? 125_000 : 12_500;    # of each session
my $granted = 1_000_000_000;

my $node = Mortar::node('main');
sub admin { return Mortar::admin($node, $_[0]); }

admin("SELECT mortar.create_tenant('exact');"
  . "SELECT mortar.grant_credits('exact', $granted, 'grant');"
  . "SELECT mortar.set_price('egress_bytes', 300000, 1000000000)");

# pgbench counts the transactions of each script (exactly so with one thread
# only): 95 % are kept, 3 % end in
# ROLLBACK, 1 % in an error, and 1 % keep one call and roll back another
my $record = "SELECT mortar.record_usage('exact', 'egress_bytes', 1000)";
my %script = (
  keep => [ 95, "$record;" ],
  rollback => [ 3, "BEGIN\\; $record\\; ROLLBACK;" ],
  failure => [ 1, "BEGIN;\n$record;\nSELECT public.swallow();\nROLLBACK;" ],
  savepoint => [ 1, "BEGIN\\; $record\\; SAVEPOINT s\\; $record\\; ROLLBACK TO s\\; COMMIT;" ]);
$node->safe_psql($Mortar::database, <<'SQL');
CREATE FUNCTION public.swallow() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM mortar.record_usage('exact', 'egress_bytes', 1000);
  RAISE EXCEPTION 'taken back';
EXCEPTION WHEN raise_exception THEN
END
$$;
SQL
my @files;
for my $name (sort keys %script) {
  my $path = $node->basedir . "/$name.sql";
  append_to_file($path, "$script{$name}[1]\n");
  push @files, '-f', "$path\@$script{$name}[0]";
}
# nothing can be flushed while this lock is held
my $lock = Session->new($node);
$lock->run('BEGIN; LOCK TABLE mortar.usage_marks IN SHARE MODE');

my ($out, $err) = run_command(
  [ 'pgbench', '-n', '-c', $sessions, '-j', 1, '-t', $calls, @files,
    '-U', 'mortar_test_admin', $node->connstr($Mortar::database) ]);
is($err =~ /error|abort/i ? $err : '', '', 'all sessions run to their end');

my %done;
$done{$1} = $2 while $out =~ m{SQL script \d+: \S+/(\w+)\.sql\n - weight: .*\n - (\d+) transactions}g;
is($done{keep} + $done{rollback} + $done{failure} + $done{savepoint}, $sessions * $calls,
  "pgbench made all of its calls: keep $done{keep}, rollback $done{rollback}, failure $done{failure}, savepoint $done{savepoint}");

my $bytes = 1000 * ($done{keep} + $done{savepoint});
my $cost = int($bytes * 3 / 10_000);    # floor(bytes * 300000 / 10^9)
my $left = $granted - $cost;

# exact(WHERE): the same figures, wherever they come from
sub exact {
  my ($where) = @_;
  is(admin("SELECT quantity, cost_uc FROM mortar.usage('exact')"), "$bytes|$cost",
    "$where: usage() has the kept bytes at exactly their price");
  is(admin("SELECT available_uc FROM mortar.balance('exact')"), $left,
    'balance() is what was granted less exactly that');
  is(admin("SELECT string_agg(check_name, ', ') FROM mortar.verify_ledger() WHERE NOT ok"), '',
    'everything adds up');
  return;
}

is(admin("SELECT unflushed_uc FROM mortar.balance('exact')"), $cost, 'memory holds all of it');
exact('before the flush');

$lock->run('ROLLBACK');
$lock->end;
$node->poll_query_until($Mortar::database,
  "SELECT sum(upto_qty - from_qty) = $bytes FROM mortar.usage_journal WHERE tenant_id = 'exact'")
  or die 'usage is not flushed';
is(admin("SELECT sum(cost_uc) FROM mortar.usage_journal WHERE tenant_id = 'exact'"), $cost,
  'the rows of the journal cost exactly that together');
exact('after the flush');

$node->restart;
exact('after a restart');
done_testing();
