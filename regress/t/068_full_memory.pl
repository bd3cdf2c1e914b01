# 068_full_memory.pl
#   Shared memory has room for eight tenants and for sixteen usage slots, and there are
#   more.  Nothing that is not in tables is thrown out, and nothing is dropped: whoever
#   finds no room is refused before anything has happened, in SQL with 53400, over HTTP
#   with 503, and served when there is room again.  And a disk that is full when usage is
#   flushed loses nothing.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Mortar;
use Session;
use Test::More;

my $tenants = 20;
my $node = Mortar::node('main', conf => "mortar.max_tenants = 8\nmortar.max_usage_slots = 16\nmortar.flush_interval = '20ms'\n");
sub admin { return Mortar::admin($node, $_[0]); }
sub super { return $node->safe_psql($Mortar::database, $_[0]); }
sub error {
  my (undef, undef, $err) = $node->psql($Mortar::database, "\\set VERBOSITY sqlstate\n$_[0]");
  return $err =~ /ERROR:  (\w+)/ ? $1 : $err;
}
sub adds_up {
  is(admin('SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'), '', $_[0]);
  return;
}
sub journal_is {
  my ($quantity, $what) = @_;
  ok($node->poll_query_until($Mortar::database, "SELECT coalesce(sum(upto_qty - from_qty), 0) = $quantity FROM mortar.usage_journal WHERE meter = 'requests'"), $what);
  return;
}

my @name = map { "t-$_" } 1 .. $tenants;
my %key = map { $_ => Mortar::tenant($node, $_, credits => 1) } @name;
admin("SELECT mortar.set_price('requests', 1, 1)");
my $gateway = Mortar::gateway($node);
my $total = 0;
my %spent = map { $_ => 0 } @name;
sub spend { my ($tenant) = @_; admin("SELECT mortar.charge('$tenant', 7, 'c$spent{$tenant}'), mortar.record_usage('$tenant', 'requests', 3)"); $spent{$tenant} += 10; $total += 3; return; }
sub balances {
  my ($what) = @_;
  is(join(' ', map { admin("SELECT available_uc FROM mortar.balance('$_')") } @name), join(' ', map { 1_000_000 - $spent{$_} } @name), $what);
  return;
}

# ---- one after the other there is room for any number ----
for (1 .. 2) { spend($_) for @name; }
balances('twenty tenants take turns in eight places');
cmp_ok(super('SELECT count(*) FROM mortar.slots'), '<=', 8, 'eight are in memory');
journal_is($total, 'and all of their usage is in tables');

# ---- nine at once ----
my @open = map { Session->new($node, user => 'mortar_test_admin') } 1 .. 8;
$open[$_]->run("BEGIN; SELECT mortar.charge('$name[$_]', 7, 'open')") for 0 .. 7;
is(error("SELECT mortar.charge('t-9', 7, 'ninth')"), '53400', 'eight transactions hold all places: the ninth tenant is refused');
is(error("SELECT mortar.hold('t-9', 7, '1 hour', 'ninth')"), '53400', '... its hold');
is(error("SELECT mortar.record_usage('t-9', 'requests', 1)"), '53400', '... its usage');
is(error("BEGIN; SELECT mortar.create_tenant('t-new')"), '53400', '... and a new one');
my $answer = $gateway->request('GET', '/v1/t-9/db/tables', key => $key{'t-9'});
is("$answer->{status} $answer->{headers}{'retry-after'}", '503 1', '... its calls with 503');
is($gateway->request('GET', '/v1/t-1/db/tables', key => $key{'t-1'})->{status}, 200, 'who is in memory is served');
$spent{'t-1'}++;
$total++;
is(super("SELECT count(*) FROM mortar.credit_ledger WHERE tenant_id = 't-9' AND kind <> 'grant'"), 2, 'nothing has happened to the ninth');
$open[0]->run('COMMIT');
$spent{'t-1'} += 7;
$open[$_]->run('ROLLBACK') for 1 .. 7;
is(error("SELECT mortar.charge('t-9', 7, 'ninth')"), '', 'when one of them has ended it is served');
$spent{'t-9'} += 7;
is($gateway->request('GET', '/v1/t-9/db/tables', key => $key{'t-9'})->{status}, 200, '... so are its calls');
$spent{'t-9'}++;
$total++;
balances('each has what it should');
journal_is($total, 'and all usage is in tables');

# ---- what is not in tables is not thrown out ----
my $lock = Session->new($node);
$lock->run('BEGIN; LOCK TABLE mortar.usage_journal IN EXCLUSIVE MODE');
spend($_) for @name[ 0 .. 7 ];
is(error("SELECT mortar.record_usage('t-9', 'requests', 1)"), '53400', 'eight tenants have usage that is not in tables: there is no place for a ninth');
is(error("SELECT mortar.balance('t-9')"), '53400', '... nor can it be asked');
is(join(' ', map { admin("SELECT available_uc FROM mortar.balance('$_')") } @name[ 0 .. 7 ]), join(' ', map { 1_000_000 - $spent{$_} } @name[ 0 .. 7 ]),
  'the eight are served');
$lock->run('ROLLBACK');
$node->poll_query_until($Mortar::database, 'SELECT bool_and(unflushed_uc = 0) FROM mortar.slots') or die 'usage is not flushed';
spend('t-9');
balances('when it is in tables all twenty are');
journal_is($total, '... each request once');

# ---- usage slots: two meters of six tenants need twelve, eight tenants sixteen, nine more ----
$lock->run('BEGIN; LOCK TABLE mortar.usage_journal IN EXCLUSIVE MODE');
sub both { return "SELECT mortar.record_usage('$_[0]', 'requests', 1), mortar.record_usage('$_[0]', 'egress_bytes', 5)"; }
my $served = 0;
for my $tenant (@name[ 0 .. 7 ]) {
  my $before = admin("SELECT available_uc FROM mortar.balance('$tenant')");
  my $state = error(both($tenant));
  if ($state eq '') { $served++; $spent{$tenant}++; $total++; next; }
  is("$state " . admin("SELECT available_uc FROM mortar.balance('$tenant')"), "53400 $before", "no slot for $tenant: it is refused and pays nothing");
}
cmp_ok($served, '>=', 6, "usage slots are used up to the last ($served tenants of 8)");
$lock->run('ROLLBACK');
$lock->end;
journal_is($total, 'all that was served is in tables, and nothing else');
is(error(both($_)), '', 'and there is room again') for @name;
$total += $tenants;
$spent{$_}++ for @name;
balances('each has paid for what was served');

# ---- the disk is full ----
super(<<'SQL');
CREATE FUNCTION public.full_disk() RETURNS trigger LANGUAGE plpgsql AS
  $$BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END$$;
CREATE TRIGGER full_disk BEFORE INSERT ON mortar.usage_journal FOR EACH ROW EXECUTE FUNCTION public.full_disk();
ALTER TABLE mortar.usage_journal ENABLE ALWAYS TRIGGER full_disk;
SQL
spend($_) for @name[ 0 .. 3 ];
$node->wait_for_log(qr/usage could not be flushed: could not extend file: No space left on device/);
is(join(' ', map { admin("SELECT sum(quantity) FROM mortar.usage('$_') WHERE meter = 'requests'") } @name[ 0 .. 3 ]),
  join(' ', map { admin("SELECT sum(upto_qty - from_qty) + 3 FROM mortar.usage_journal WHERE tenant_id = '$_' AND meter = 'requests'") } @name[ 0 .. 3 ]),
  'a disk is full when usage is flushed: it is seen all the same');
super('DROP TRIGGER full_disk ON mortar.usage_journal');
journal_is($total, 'there is room again, and usage is in tables, once');
balances('and paid for, once');
adds_up('everything adds up');
$_->end for @open;
is($gateway->stop, 0, 'the gateway ends cleanly');
$node->restart;
balances('after a restart, too');
done_testing();
