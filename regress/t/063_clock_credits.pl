# 063_clock_credits.pl
#   The server's clock is set back by an hour and forward by a day, and right again.
#   Grants and holds end when the clock says so, and no sooner; a key that was used is
#   known whatever time it is; and at each of these times memory says what tables say:
#   it can be thrown away without changing an answer.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Clock;
use Mortar;
use Reserve;
use PostgreSQL::Test::Cluster;
use Test::More;

my $node = Clock::node('main', init => [ allows_streaming => 1 ]);
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
Clock::start(sub { $standby->start; });

# what memory holds is no longer current: the next call of each tenant loads it
sub forget { super("UPDATE mortar.tenants SET name = 'changed by hand' WHERE tenant_id = 'busy'"); return; }
sub super { return $node->safe_psql($Mortar::database, @_); }
sub error {
  my (undef, undef, $err) = $node->psql($Mortar::database, "\\set VERBOSITY sqlstate\n$_[0]");
  return $err =~ /ERROR:  (\w+)/ ? $1 : $err;
}
sub balance { return super("SELECT available_uc, held_uc FROM mortar.balance('$_[0]')"); }

# One tenant moves credits at every time, the other one is only looked at.
my (%entry, %grant, %hold);
for my $tenant (qw(busy idle)) {
  super("SELECT mortar.create_tenant('$tenant'); SELECT mortar.grant_credits('$tenant', 1000, 'for ever', priority => 99)");
  super("SELECT mortar.grant_credits('$tenant', 100, 'half a day', priority => 1, expires_at => now() + interval '12 hours')");
  super("SELECT mortar.grant_credits('$tenant', 200, 'a week', priority => 2, expires_at => now() + interval '7 days')");
  super("SELECT mortar.grant_credits('$tenant', 5000, 'tomorrow', priority => 3, effective_at => now() + interval '20 hours')");
  $hold{$tenant} = super("SELECT mortar.hold('$tenant', 30, '6 hours', 'short')");
  $hold{"$tenant long"} = super("SELECT mortar.hold('$tenant', 40, '3 days', 'long')");
  $entry{$tenant} = super("SELECT mortar.charge('$tenant', 10, 'charge')");
  is(balance($tenant), '1220|70', "$tenant: 1300 that are in force, less 70 held and 10 charged");
}

Reserve::install($node);
super("SELECT mortar.create_tenant('sending'); SELECT mortar.grant_credits('sending', 1000, 'for ever')");
super("SELECT mortar.grant_credits('sending', 1000, 'tomorrow', effective_at => now() + interval '20 hours')");
super("SELECT mortar.set_price('requests', 1, 1, tenant => 'sending')");

# at each time: what is there, in memory that was loaded before, and loaded again
sub is_right {
  my ($when, %expected) = @_;
  for my $round ('in memory', 'loaded again') {
    is(balance($_), $expected{$_}, "$when, $round: what $_ has") for qw(busy idle);
    is(super('SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'), '', '... and the books agree');
    for my $tenant (qw(busy idle)) {
      is(super("SELECT mortar.charge('$tenant', 10, 'charge')"), $entry{$tenant}, '... a charge is known by its key');
      is(super("SELECT mortar.hold('$tenant', 30, '6 hours', 'short')"), $hold{$tenant}, '... so is a hold');
    }
    is(error("SELECT mortar.charge('busy', 11, 'charge')"), 'MT422', '... and a key that was used otherwise');
    forget();
  }
  balance($_) for qw(busy idle);
  $node->wait_for_catchup($standby, 'replay', $node->lsn('flush'));
  is($standby->safe_psql($Mortar::database, "SELECT available_uc, held_uc FROM mortar.balance('$_')"), $expected{$_}, "$when: what a standby says of $_")
    for qw(busy idle);
  is($standby->safe_psql($Mortar::database, 'SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'), '', '... and of the books');
  return;
}
is_right('at first', busy => '1220|70', idle => '1220|70');

Clock::set(-3600);
is(super("SELECT mortar.charge('busy', 1, 'an hour back') IS NOT NULL"), 't', 'back by an hour it charges');
is_right('back by an hour', busy => '1219|70', idle => '1220|70');

# half a day's grant has ended, and with it what was held of it for six hours;
# tomorrow's is in force
Clock::set(86400);
is_right('forward by a day', busy => '6200|40', idle => '6200|40');
is(super("SELECT mortar.charge('busy', 1, 'a day ahead') IS NOT NULL"), 't', 'forward by a day it charges');
is(error("SELECT mortar.capture('idle', '$hold{idle}', 1, 'late')"), 'MT409', 'a hold that has ended cannot be captured');
is_right('forward by a day', busy => '6199|40', idle => '6200|40');

# an answer that is being sent keeps its tenant in memory, which is served all the same
my $answer = super(Reserve::reserve_sql('sending', 'requests', 100));
Clock::set(0);
is(super(Reserve::settle_sql('sending', $answer, 40)), 't', 'right again, an answer that is being sent goes on');
is(balance('sending'), '1900|0', '... its tenant is served');
super(Reserve::release_sql('sending', $answer));
is(balance('sending'), '960|0', '... and when it has ended, memory says what tables say: what was sent is paid, tomorrow is to come');

# who has entries from the future stays there until the clock has caught up; who was
# only looked at has lost nothing
is_right('right again', busy => '6199|40', idle => '1220|70');
is(super("SELECT mortar.capture('idle', '$hold{idle}', 30, 'in time') IS NOT NULL"), 't', 'and a hold that goes on can be captured');
is(balance('idle'), '1220|40', '... of which 30 were held');
done_testing();
