# 070_ended_refund.pl
#   What comes back to a grant that has ended is gone, but for what the grant has got
#   back already: another grant has paid that, and gets it.  So it is whether memory
#   knows the grant or not, and whoever else gives back to it meanwhile.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Clock;
use Mortar;
use Session;
use Test::More;

my $node = Clock::node('main', conf => "mortar.flush_interval = '20ms'\n");
my $other = Session->new($node);

sub super { return $node->safe_psql($Mortar::database, $_[0]); }
sub balance { return super("SELECT available_uc, debt_uc FROM mortar.balance('$_[0]')"); }
sub give_back { return "SELECT mortar.reverse('$_[0]', '$_[1]', 'back $_[1]') IS NOT NULL"; }

sub flushed {
  my ($tenant) = @_;
  $node->poll_query_until($Mortar::database,
    "SELECT NOT EXISTS (SELECT FROM mortar.cells WHERE tenant_id = '$tenant' AND unflushed_uc <> 0)"
    . " AND (SELECT unflushed_uc = 0 FROM mortar.balance('$tenant')) AND (SELECT failures = 0 FROM mortar.flusher)")
    or die 'it is not flushed';
  return;
}

# memory loads the tenant again, without grants that have ended
sub forget { super("UPDATE mortar.tenants SET name = 'changed by hand' WHERE tenant_id = '$_[0]'"); return; }

# a while after grants were read last; a call reads them if it is wanted
sub look_again { super("SELECT pg_sleep(0.3); SELECT mortar.charge('$_[0]', 1, '$_[1]')"); return; }

sub adds_up {
  my ($tenant, $expected, $what) = @_;
  is(balance($tenant), $expected, $what);
  flushed($tenant);
  is(super('SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'), '', '... and the books agree');
  forget($tenant);
  is(balance($tenant), $expected, '... so it is when it is loaded again');
  return;
}

# 10 of the first grant are spent, and 5 have come back to it, when it ends: usage that
# was debt is undone when the second grant has repaid it.  Returns the charges, 6 and 4.
sub tenant {
  my ($tenant) = @_;
  super("SELECT mortar.create_tenant('$tenant'); SELECT mortar.set_limit('$tenant', 'soft', 0)");
  super("SELECT mortar.grant_credits('$tenant', 10, 'first', priority => 100, expires_at => now() + interval '12 hours')");
  my @charges = map { super("SELECT mortar.charge('$tenant', $_, 'charge $_')") } 6, 4;
  $other->run('BEGIN');
  $other->run("SELECT mortar.record_usage('$tenant', 'requests', 5)");
  super("SELECT mortar.grant_credits('$tenant', 20, 'second', priority => 1)");
  $other->run('ROLLBACK');
  is(balance($tenant), '20|0', "$tenant: what debt was repaid with comes back to the grant that burns last");
  flushed($tenant);
  return @charges;
}

super("SELECT mortar.set_price('requests', 1, 1)");
my %charge = map { $_ => [ tenant($_) ] } qw(known unknown read together undone);
Clock::set(86400);
is(balance($_), '15|0', "$_: the first grant has ended") for sort keys %charge;

# ---- memory knows it ----
super(give_back('known', $_)) for @{ $charge{known} };
adds_up('known', '20|0', 'known: 10 come back, of which 5 have come back before');

# each of the others is loaded again, without it
forget($_) for sort keys %charge;
is(balance($_), '15|0', "$_: and is not read any more") for grep { $_ ne 'known' } sort keys %charge;

# ---- memory does not: tables say what it is good for ----
$other->run('BEGIN');
$other->run(give_back('unknown', $_)) for @{ $charge{unknown} };
$other->run('COMMIT');
look_again('unknown', 'look');
adds_up('unknown', '19|0', 'unknown: so it is when nobody knows the grant');

# ---- it gets known by the second ----
super(give_back('read', $_)) for @{ $charge{read} };
adds_up('read', '20|0', 'read: so it is when the one that comes back later reads what the first has done');

# ---- it would get known while one is under way ----
$other->run('BEGIN');
$other->run(give_back('together', $charge{together}[1]));
super(give_back('together', $charge{together}[0]));
look_again('together', 'meanwhile');
$other->run('COMMIT');
look_again('together', 'look');
adds_up('together', '18|0', 'together: so it is when two come back at one time');

# ---- and that is undone ----
$other->run('BEGIN');
$other->run(give_back('undone', $charge{undone}[1]));
super(give_back('undone', $charge{undone}[0]));
look_again('undone', 'meanwhile');
$other->run('ROLLBACK');
look_again('undone', 'look');
adds_up('undone', '14|0', 'undone: of the 6 that have come back one was too much');
$other->end;
done_testing();
