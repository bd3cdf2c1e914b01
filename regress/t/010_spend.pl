# 010_spend.pl
#   Concurrent spenders never spend what is not there, whatever the isolation
#   level, and are never told to try again: the gate needs no row lock.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Mortar;
use Race;
use Test::More;

my $node = Mortar::node('main', conf => "max_connections = 100\n");

sub admin { return Mortar::admin($node, $_[0]); }

sub tenant {
  my ($tenant, $credits) = @_;
  admin("SELECT mortar.create_tenant('$tenant');"
    . "SELECT mortar.grant_credits('$tenant', mortar.credits($credits), 'grant')");
  return $tenant;
}

# what is left, and how many charges the ledger has
sub state_of {
  my ($tenant) = @_;
  return admin("SELECT available_uc, (SELECT count(*) FROM mortar.credit_ledger"
    . " WHERE tenant_id = '$tenant' AND kind = 'charge') FROM mortar.balance('$tenant')");
}

sub charge { return "SELECT mortar.charge('$_[0]', mortar.credits(1), 'client :client_id')"; }

for my $level ('read committed', 'repeatable read') {
  my $tenant = tenant('ten-' . substr($level, 0, 4), 10);
  my $race = Race::run($node, 64, charge($tenant), isolation => $level);
  is($race->{finished}, 10, "64 sessions, 10 credits, $level: exactly 10 charges of 1 succeed");
  is_deeply($race->{errors}, { 'Not enough credits.' => 54 },
    '54 are refused for lack of credits, and none fails otherwise');
  is(state_of($tenant), '0|10', 'nothing is left, and the ledger has 10 charges');
}

# Here the statements around the gate may be serialised away; the gate itself
# still lets nobody spend too much, and gives back what they gave up.
{
  my $tenant = tenant('ten-serializable', 10);
  my $race = Race::run($node, 64, charge($tenant), isolation => 'serializable');
  my %other = %{ $race->{errors} };
  delete $other{$_} for grep { /^Not enough credits|^could not serialize access/ } keys %other;
  is_deeply(\%other, {}, 'serializable: refused for lack of credits, or told to retry, nothing else');
  cmp_ok($race->{finished}, '<=', 10, 'no more than 10 charges succeed');
  is(state_of($tenant), (10 - $race->{finished}) * 1_000_000 . "|$race->{finished}",
    'what the others took has come back');
}

# one idempotency key in 50 sessions is one charge
{
  my $tenant = tenant('one-key', 10);
  my $race = Race::run($node, 50, "SELECT mortar.charge('$tenant', mortar.credits(1), 'the same')");
  is_deeply([ $race->{finished}, $race->{errors} ], [ 50, {} ], '50 sessions with one key all succeed');
  is(state_of($tenant), '9000000|1', 'and charge once');
}

# Tenants that nobody has touched since the server started: sessions that come
# first find no tenant in memory, one of them loads it.
my @cold = map { tenant("cold-$_", 1) } 1 .. 8;
$node->restart;
is(admin("SELECT count(*) FROM mortar.slots WHERE tenant_id LIKE 'cold-%'"), '0', 'no tenant is in memory');
for my $tenant (@cold) {
  my $race = Race::run($node, 8, charge($tenant));
  is_deeply([ $race->{finished}, $race->{errors} ], [ 1, { 'Not enough credits.' => 7 } ],
    "$tenant: of 8 sessions that touch it first, exactly one spends the last credit");
  is(state_of($tenant), '0|1', 'and nothing is left');
}

# usage is charged by the same gate
{
  my $tenant = tenant('usage', 1);
  admin("SELECT mortar.set_price('requests', 100000, 1)");
  my $race = Race::run($node, 64, "SELECT mortar.record_usage('$tenant', 'requests', 1)");
  is_deeply([ $race->{finished}, $race->{errors} ], [ 10, { 'Not enough credits.' => 54 } ],
    '64 sessions record usage of 0.1 credits each: 1 credit pays for exactly 10');
  is(admin("SELECT quantity, cost_uc FROM mortar.usage('$tenant')"), '10|1000000', 'and usage is 10');
}

is(admin('SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'), '', 'everything adds up');
$node->restart;
is(admin("SELECT sum(b.available_uc) FROM mortar.tenants t, mortar.balance(t.tenant_id) b WHERE tenant_id LIKE 'cold-%'"),
  '0', 'and does so after a restart');
done_testing();
