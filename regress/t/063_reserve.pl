# 063_reserve.pl
#   Answers in pieces: reserved in one transaction, settled and released in later
#   ones.  Nothing is sent unpaid, and nothing that was sent goes uncounted,
#   whatever becomes of the transactions, the server, memory or the extension.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Mortar;
use Reserve;
use Session;
use Test::More;

my $node = Mortar::node('main', conf => "max_prepared_transactions = 2\nrestart_after_crash = on\n"
  . "mortar.flush_interval = '20ms'\nmortar.max_reservations = 8\n");

sub super { return $node->safe_psql($Mortar::database, $_[0]); }
sub admin { return Mortar::admin($node, $_[0]); }

# the SQLSTATE of an error, '' for none
sub sqlstate {
  my ($sql, $database) = @_;
  my (undef, undef, $stderr) = $node->psql($database // $Mortar::database, "\\set VERBOSITY sqlstate\n$sql");
  return $stderr =~ /ERROR:\s+(\w+)/ ? $1 : '';
}

sub reserve_sql { return Reserve::reserve_sql(@_); }
sub settle_sql { return Reserve::settle_sql(@_); }
sub release_sql { return Reserve::release_sql(@_); }
sub reserve { return super(reserve_sql(@_)); }
sub settle { return super(settle_sql(@_)); }
sub release { super(release_sql(@_)); return; }
sub valid { my ($tenant, $id) = @_; return super("SELECT reserve_test.valid('$tenant', '$id')"); }

sub tenant {
  my ($tenant, $uc, $limits) = @_;
  admin("SELECT mortar.create_tenant('$tenant'); SELECT mortar.grant_credits('$tenant', $uc, 'grant');"
    . ($limits ? "SELECT mortar.set_limit('$tenant', $limits)" : ''));
  return $tenant;
}

# available, debt | reservations, what they keep | quantity and cost of requests
sub state_sql {
  my ($tenant) = @_;
  return "SELECT concat_ws(' ', available_uc, debt_uc) || ' | ' || coalesce((SELECT concat_ws(' ', reservations, reserved_uc)"
    . " FROM mortar.slots WHERE tenant_id = '$tenant'), '-') || ' | ' || coalesce((SELECT concat_ws(' ', quantity, cost_uc)"
    . " FROM mortar.usage('$tenant') WHERE meter = 'requests'), '-') FROM mortar.balance('$tenant')";
}
sub state_of { return admin(state_sql($_[0])); }
sub unverified { return admin('SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'); }
sub flushed { return $node->poll_query_until($Mortar::database, 'SELECT bool_and(unflushed_uc = 0) FROM mortar.slots') || die 'not flushed'; }

Reserve::install($node);

# ---- a meter without a price ----
{
  my $t = tenant('free', 10);
  my $id = reserve($t, 'requests', 1000);
  is(state_of($t), '10 0 | 1 0 | -', 'what is free is reserved for nothing');
  admin("SELECT mortar.freeze('$t')");
  is(settle($t, $id, 400), 't', '... is settled');
  is(state_of($t), '10 0 | 1 0 | 400 0', '... and counted');
  is(sqlstate(release_sql($t, reserve($t, 'requests', 5))), '', 'a frozen tenant may reserve it, too');
  release($t, $id);
  is(state_of($t), '10 0 | 0 0 | 400 0', 'released, that is all of it');
}
admin(q{SELECT mortar.set_price('requests', 10, 1); SELECT mortar.set_price('egress_bytes', 300000, 1000000000)});

# ---- its life ----
{
  my $t = tenant('life', 1000);
  my $id = reserve($t, 'requests', 50);
  is(state_of($t), '500 0 | 1 500 | -', 'reserved: taken, and not used');
  is(settle($t, $id, 20), 't', 'settled by another backend');
  is(state_of($t), '500 0 | 1 300 | 20 200', '... it is usage at once');
  flushed();
  is(admin("SELECT sum(upto_qty - from_qty) FROM mortar.usage_journal WHERE tenant_id = '$t'"), '20', '... and is flushed');
  is(settle($t, $id, 0), 't', 'nothing was sent for a while');
  is(sqlstate(settle_sql($t, $id, 31)), '22003', 'more than is left was sent');
  is(state_of($t), '500 0 | 1 300 | 20 200', '... nothing has changed');
  release($t, $id);
  is(state_of($t), '800 0 | 0 0 | 20 200', 'released: the rest is back');
  is(settle($t, $id, 1), 'f', 'nothing can be settled any more');
  release($t, $id);
  is(state_of($t), '800 0 | 0 0 | 20 200', 'and released again, nothing happens');

  $id = reserve($t, 'requests', 30);
  is(settle($t, $id, 30), 't', 'all of it was sent');
  is(state_of($t), '500 0 | 0 0 | 50 500', '... that is its end');
  is(valid($t, $id) . settle($t, $id, 0), 'ff', '... its id names nothing');

  is(sqlstate(reserve_sql($t, 'requests', 51)), 'MT402', 'more than is there: refused');
  is(state_of($t), '500 0 | 0 0 | 50 500', '... with nothing changed');
  $id = reserve($t, 'requests', 50);
  is(valid($t, $id), 't', 'all that is there: not');
  is(sqlstate("SELECT mortar.charge('$t', 1, 'k')"), 'MT402', '... and nobody else has it');
  release($t, $id);
  is(sqlstate(reserve_sql($t, 'requests', $_)), '22023', "a quantity of $_") for 0, -1;
  is(sqlstate(reserve_sql($t, 'requests', 1, $_)), '22023', "a time to live of $_") for 0, 86400001;
  is(sqlstate(settle_sql($t, '0:1', -1)), '22023', 'less than nothing was sent');
}

# ---- transactions ----
{
  my $t = tenant('xact', 1000);
  my ($session, $other) = map { Session->new($node) } 1, 2;
  $session->run('BEGIN');
  my $id = $session->run(reserve_sql($t, 'requests', 50));
  is($other->run(state_sql($t)), '500 0 | 1 500 | -', 'others see less before the commit');
  is($other->run(settle_sql($t, $id, 1)) . $session->run(settle_sql($t, $id, 1)), 'ff', 'nobody can settle before it');
  $other->run(release_sql($t, $id));
  is(state_of($t), '500 0 | 1 500 | -', 'nor release it, but its own transaction');
  $session->run('ROLLBACK');
  is(state_of($t), '1000 0 | 0 0 | -', 'given back by an abort');
  is(settle($t, $id, 1), 'f', '... it never was');

  $session->run('BEGIN');
  my $first = $session->run(reserve_sql($t, 'requests', 10));
  $session->run('SAVEPOINT s');
  my $second = $session->run(reserve_sql($t, 'requests', 20));
  $session->run('ROLLBACK TO s');
  is(state_of($t), '900 0 | 1 100 | -', 'a savepoint takes back what came after it');
  $session->run('COMMIT');
  is(valid($t, $first) . valid($t, $second), 'tf', '... and nothing else');

  $session->run('BEGIN');
  is($session->run(settle_sql($t, $first, 4)), 't', 'settled in a transaction');
  $session->run('ROLLBACK');
  is(state_of($t), '900 0 | 1 60 | 4 40', '... that aborts: it was sent all the same');
  $session->run('BEGIN');
  $session->run(release_sql($t, $first));
  $session->run('ROLLBACK');
  is(state_of($t), '960 0 | 0 0 | 4 40', 'released for good, too');

  $session->run('BEGIN');
  $first = $session->run(reserve_sql($t, 'requests', 10));
  $session->run('SAVEPOINT s');
  $second = $session->run(reserve_sql($t, 'requests', 10));
  $session->run(release_sql($t, $second));
  $session->run(release_sql($t, $second));
  $session->run('SAVEPOINT t');
  $session->run(release_sql($t, $first));
  $session->run('ROLLBACK TO t');
  is(state_of($t), '760 0 | 2 200 | 4 40', 'its own transaction releases one');
  $session->run('COMMIT');
  is(state_of($t), '860 0 | 1 100 | 4 40', '... with its commit, unless it takes that back');
  release($t, $first);

  $session->run('BEGIN');
  $id = $session->run(reserve_sql($t, 'requests', 1));
  is(sqlstate('BEGIN; ' . reserve_sql($t, 'requests', 1) . "; PREPARE TRANSACTION 'r'"), '0A000', 'it cannot be prepared');
  $session->run('ROLLBACK');
  $node->psql($Mortar::database, 'BEGIN; ' . reserve_sql($t, 'requests', 1) . "; SELECT pg_terminate_backend(pg_backend_pid())");
  is(state_of($t), '960 0 | 0 0 | 4 40', 'a backend that is terminated gives back');
  my $parallel = 'ALTER FUNCTION reserve_test.settle PARALLEL SAFE; SET force_parallel_mode = on; ' . settle_sql($t, '0:1', 1);
  is(sqlstate("BEGIN; $parallel; ROLLBACK"), '25000', 'not by a parallel worker');
  $_->end for $session, $other;
}

# ---- its own grants and refunds pay, before anybody else has them ----
{
  my $t = tenant('own', 100);
  my $session = Session->new($node);
  $session->run("BEGIN; SELECT mortar.grant_credits('$t', 50, 'own'); " . reserve_sql($t, 'requests', 12));
  $session->run('ROLLBACK');
  is(state_of($t), '100 0 | 0 0 | -', 'with an own grant, and back');
  $session->run("BEGIN; SELECT mortar.grant_credits('$t', 50, 'own2')");
  my $id = $session->run(reserve_sql($t, 'requests', 12));
  $session->run('COMMIT');
  is(state_of($t), '30 0 | 1 120 | -', '... committed');
  is(settle($t, $id, 7), 't', '... settled');
  release($t, $id);
  is(state_of($t), '80 0 | 0 0 | 7 70', '... released');

  my $charge = admin("SELECT mortar.charge('$t', 80, 'c')");
  my $reverse = "SELECT mortar.reverse('$t', '$charge', 'r', 70)";
  $session->run("BEGIN; $reverse; " . reserve_sql($t, 'requests', 6));
  $session->run('ROLLBACK');
  is(state_of($t), '0 0 | 0 0 | 7 70', 'with what comes back to it, and back');
  $session->run("BEGIN; $reverse");
  $id = $session->run(reserve_sql($t, 'requests', 6));
  $session->run('COMMIT');
  is(state_of($t), '10 0 | 1 60 | 7 70', '... committed');
  is(settle($t, $id, 2), 't', '... settled');
  release($t, $id);
  is(state_of($t), '50 0 | 0 0 | 9 90', '... released');
  $session->end;
  flushed();
  is(unverified(), '', 'all of it adds up');
}

# ---- what may and may not be reserved ----
{
  my $t = tenant('frozen', 1000);
  my $id = reserve($t, 'requests', 50);
  admin("SELECT mortar.freeze('$t')");
  is(sqlstate(reserve_sql($t, 'requests', 1)), 'MT423', 'a frozen tenant cannot reserve');
  is(settle($t, $id, 20), 't', '... what was sent counts');
  release($t, $id);
  is(state_of($t), '800 0 | 0 0 | 20 200', '... and the rest comes back');

  $t = tenant('soft', 100, "'soft'");
  $id = reserve($t, 'requests', 30);
  is(state_of($t), '-200 200 | 1 300 | -', 'a soft tenant reserves in debt');
  is(settle($t, $id, 15), 't', '... uses its credits first');
  admin("SELECT mortar.grant_credits('$t', 120, 'more')");
  release($t, $id);
  is(state_of($t), '70 0 | 0 0 | 15 150', '... and the rest of the debt is gone');
  $t = tenant('unlimited', 100, "'unlimited'");
  $id = reserve($t, 'requests', 30);
  is(settle($t, $id, 15), 't', 'an unlimited one moves no credit');
  release($t, $id);
  is(state_of($t), '100 0 | 0 0 | 15 150', '... and is counted');
}

# ---- it keeps the price's counter, and the cells of its grants ----
{
  my $t = tenant('price', 2000);
  my $id = reserve($t, 'requests', 50);
  super("SELECT mortar.set_price('requests', 10 + $_, 1, tenant => '$t')") && super("SELECT mortar.record_usage('$t', 'requests', 1)") for 1 .. 20;
  is(settle($t, $id, 20), 't', 'a piece, when there have been twenty other prices');
  is(state_of($t), '1090 0 | 1 300 | 40 610', '... costs what was reserved');
  release($t, $id);
  is(state_of($t), '1390 0 | 0 0 | 40 610', '... and so does the rest');

  $t = tenant('cells', 10);
  admin("SELECT mortar.grant_credits('$t', 10, 'g' || g) FROM generate_series(1, 9) g");
  is(sqlstate(reserve_sql($t, 'requests', 5)), '53400', 'five grants may not pay for what is being sent');
  is(state_of($t), '100 0 | 0 0 | -', '... nothing was taken');
  $id = reserve($t, 'requests', 4);
  is(state_of($t), '60 0 | 1 40 | -', 'four may');
  is(sqlstate(reserve_sql($t, 'requests', 1)), '53400', '... and no other beside them');
  my $six = "SELECT mortar.record_usage('$t', 'requests', 6)";
  is(sqlstate($six), '55P03', 'who needs more cells than are left cannot have them now');
  is(settle($t, $id, 0, 1), 't', '... until it expires');
  super('SELECT pg_sleep(0.01)');
  is(sqlstate($six), '', '... which is found then');
  is(state_of($t), '40 0 | 0 0 | 6 60', '... and the rest is back');

  $t = tenant('own-cells', 10);
  admin("SELECT mortar.grant_credits('$t', 10, 'g' || g) FROM generate_series(1, 4) g");
  my $charge = admin("SELECT mortar.charge('$t', 45, 'c')");
  is(sqlstate("BEGIN; SELECT mortar.reverse('$t', '$charge', 'r', 45); " . reserve_sql($t, 'requests', 5)),
    '53400', 'five grants may not, either, with what comes back to them');
  is(state_of($t), '5 0 | 0 0 | -', '... which then has not come');
}

# ---- ids ----
{
  my ($a, $b) = (tenant('id-a', 1000), tenant('id-b', 1000));
  my $id = reserve($a, 'requests', 50);
  my ($index, $serial) = split(/:/, $id);
  is(settle($b, $id, 1) . valid($b, $id), 'ff', 'another tenant cannot settle it');
  release($b, $id);
  is(settle($a, $_, 1) . valid($a, $_), 'ff', "no reservation: $_")
    for "$index:" . ($serial - 1), "-1:$serial", "8:$serial", "2147483647:$serial", ($index + 1) % 8 . ":$serial";
  release($a, "$index:" . ($serial + 1));
  is(state_of($a), '500 0 | 1 500 | -', 'nothing of it has moved');
  release($a, $id);
  my @all = map { reserve($b, 'requests', 1) } 1 .. 8;
  is(scalar(grep { /^$index:/ } @all), 1, 'its place is used again');
  is(settle($a, $id, 1) . settle($b, $id, 1), 'ff', '... but not by its name');

  # all places are taken
  is(sqlstate(reserve_sql($a, 'requests', 1)), '53400', 'no reservation is free');
  is(state_of($a), '1000 0 | 0 0 | -', '... and nothing was taken');
  is(settle($b, $all[3], 1, 1), 't', 'one will expire soon');
  super('SELECT pg_sleep(0.01)');
  release($a, reserve($a, 'requests', 1));
  pass('then there is room, for any tenant');
  is(settle($b, $all[3], 0), 'f', '... it has gone');
  release($b, $_) for @all;
  is(state_of($b), '990 0 | 0 0 | 1 10', 'and they end');
}

# ---- exact, in pieces of any size ----
{
  my $t = tenant('pieces', 1000);
  my $egress = "SELECT quantity || ' ' || cost_uc FROM mortar.usage('$t') WHERE meter = 'egress_bytes'";
  my $id = reserve($t, 'egress_bytes', 1000000);
  super("SELECT bool_and(reserve_test.settle('$t', '$id', 777, 3600000)) FROM generate_series(1, 1000)");
  is(admin($egress), '777000 233', 'a thousand pieces cost what all of them cost');
  release($t, $id);
  is(state_of($t), '767 0 | 0 0 | -', '... and the rest comes back');
  flushed();
  is(unverified(), '', 'it adds up');
}

# ---- DROP EXTENSION, and tables that were changed by others ----
{
  my $t = tenant('stale', 1000);
  my $id = reserve($t, 'requests', 50);
  is(settle($t, $id, 20), 't', 'a piece');
  super(q{INSERT INTO mortar.tenants (tenant_id) VALUES ('foreign')});
  is($node->poll_query_until($Mortar::database, "SELECT available_uc = 800 FROM mortar.balance('$t')"), 1,
    'loaded again, the tenant has what was not used');
  is(valid($t, $id) . settle($t, $id, 1), 'ff', '... its reservation is dropped');
  is(state_of($t), '800 0 | 0 0 | 20 200', '... and what was settled is not');

  Mortar::make_database($node, 'other');
  Reserve::install($node, 'other');
  my $on = sub { return $node->safe_psql('other', $_[0]); };
  my $again = q{SELECT mortar.create_tenant('d'); SELECT mortar.grant_credits('d', 1000, 'g'); SELECT mortar.set_price('requests', 10, 1);};
  $on->($again);
  $id = $on->(reserve_sql('d', 'requests', 10));
  is($on->(settle_sql('d', $id, 4)), 't', 'a piece in another database');
  is($node->psql('other', 'DROP EXTENSION mortar CASCADE'), 0, 'the extension is dropped');
  is(sqlstate(settle_sql('d', $id, 1), 'other'), '42P01', '... and nothing can be settled');
  $on->("CREATE EXTENSION mortar; $again");
  is($on->(settle_sql('d', $id, 1)), 'f', 'created anew, it knows of no reservation');
  $on->(reserve_sql('d', 'requests', 10)) for 1 .. 8;
  pass('and none is taken');
  $node->safe_psql('postgres', 'DROP DATABASE other');
  reserve($t, 'requests', 1, 1) for 1 .. 8;
  pass('nor after DROP DATABASE');
  super('SELECT pg_sleep(0.01)');
  is(state_of($t), '800 0 | 0 0 | 20 200', 'who looks finds them expired');
}

# ---- while nobody can flush: only what was sent is unflushed ----
{
  super("BEGIN; LOCK TABLE mortar.usage_journal IN EXCLUSIVE MODE; PREPARE TRANSACTION 'lock'");
  my $t = tenant('sent', 2000, 'max_unflushed_uc => 500');
  my $record = sub { return sqlstate("SELECT mortar.record_usage('$t', 'requests', $_[0])"); };
  my $id = reserve($t, 'requests', 40);
  is($record->(5) . settle($t, $id, 10), 't', 'a call and a piece, of 150');
  is($record->(35), '', '... leave just as much as the bound is above that');
  is($record->(1), '53400', '... and no more');
  release($t, $id);
  is(admin("SELECT unflushed_uc FROM mortar.balance('$t')"), '500', '... what is given back never counted');
  $t = tenant('dear', 1000, 'max_unflushed_uc => 100');
  $id = reserve($t, 'requests', 40);
  is($record->(20), '', 'a call dearer than the bound does not wait for what is only reserved');
  release($t, $id);
  super("ROLLBACK PREPARED 'lock'");
  flushed();
}

# ---- a clean stop ----
{
  my $t = tenant('stop', 1000);
  my $id = reserve($t, 'requests', 50);
  is(settle($t, $id, 20), 't', 'a piece before the stop');
  # of 1.5 micro-credits each: they cost 1 and 2, and half of the second has burned 1
  my $e = tenant('stop-uneven', 1000);
  my ($first, $second) = map { reserve($e, 'egress_bytes', 5000) } 1, 2;
  is(settle($e, $second, 2500), 't', 'another, whose cost is less than what it burns');
  flushed();
  $node->restart;
  is(state_of($t), '800 0 | 0 0 | 20 200', 'the piece is in the tables, the rest is back');
  is(settle($t, $id, 1), 'f', '... and gone');
  is(admin("SELECT available_uc FROM mortar.balance('$e')"), '1000', 'so it is of the other');
  flushed();
  is(admin("SELECT count(*) FROM mortar.burn_marks WHERE tenant_id = '$e' AND from_account = 'debt'"), '0', '... nothing was made even by debt');
  is(unverified(), '', 'it adds up');
}

# ---- a crash in the midst of it ----
{
  my $t = tenant('crash', 1000);
  my $session = Session->new($node);
  my $id = reserve($t, 'requests', 50);
  is(settle($t, $id, 20), 't', 'a piece');
  flushed();
  $session->run('BEGIN');
  my $pending = $session->run(reserve_sql($t, 'requests', 10));
  my $pid = $session->run('SELECT pg_backend_pid()');
  my $from = -s $node->logfile;
  kill('KILL', $pid) == 1 or die "kill $pid: $!";
  $node->wait_for_log(qr/all server processes terminated; reinitializing/, $from);
  $node->poll_query_until('postgres', 'SELECT true');
  is(state_of($t), '800 0 | 0 0 | 20 200', 'what was settled and flushed is charged, nothing else');
  is(settle($t, $_, 1), 'f', 'and no reservation is left') for $id, $pending;
  reserve($t, 'requests', 1) for 1 .. 8;
  pass('all places are free');
  is(unverified(), '', 'it adds up');
  $node->restart;
  my $before = reserve($t, 'requests', 1);
  $node->restart;
  is(settle($t, $before, 1), 'f', 'the first id since a start');
  reserve($t, 'requests', 1);
  is(settle($t, $before, 1), 'f', '... is not the first one since the next');
}

# ---- no worker is free: nobody sweeps ----
$node->append_conf('postgresql.conf', "max_worker_processes = 2\nmortar.max_tenants = 8\nmortar.max_usage_slots = 16\n");
$node->restart;
{
  my $t = tenant('expiry', 1000);
  my $id = reserve($t, 'requests', 100, 1);
  super('SELECT pg_sleep(0.01)');
  is(admin('SELECT state FROM mortar.flusher'), 'none', 'no flusher is there');
  admin("SELECT mortar.charge('$t', 600, 'k')");
  pass('who would be refused has what expired');
  is(settle($t, $id, 1), 'f', 'and it cannot be settled');
  $id = reserve($t, 'requests', 40, 1);
  super('SELECT pg_sleep(0.01)');
  is(admin("SELECT available_uc FROM mortar.balance('$t')"), '400', 'so has who asks for the balance');
  $id = reserve($t, 'requests', 40, 1);
  super('SELECT pg_sleep(0.01)');
  is(settle($t, $id, 1), 'f', 'nothing is settled after its time, though nobody has looked');
  is(state_of($t), '400 0 | 0 0 | -', '... it has ended');
  $id = reserve($t, 'requests', 40, 1);
  super('SELECT pg_sleep(0.01)');
  reserve($t, 'requests', 40);
  is(state_of($t), '0 0 | 1 400 | -', 'who reserves has it, too');

  $t = tenant('expiry-2', 200);
  reserve($t, 'requests', 10, 1);
  reserve($t, 'requests', 10, 200);
  super('SELECT pg_sleep(0.01)');
  admin("SELECT mortar.balance('$t')");
  super('SELECT pg_sleep(0.3)');
  admin("SELECT mortar.charge('$t', 200, 'k')");
  pass('two expire one after the other, and both are found');

  # one is left; nobody has looked at the others when it is wanted
  $t = tenant('expiry-3', 100);
  reserve($t, 'requests', 1, 1) for 1 .. 7;
  super('SELECT pg_sleep(0.01)');
  tenant('expiry-4', 10);
  $id = eval { reserve('expiry-4', 'requests', 1) };
  isnt($id, undef, 'who finds no place free has those that expired, of whichever tenant');
  release('expiry-4', $id) if defined $id;
  $id = reserve($t, 'requests', 10);
  admin("SELECT mortar.balance('$t')"); # who has looked knows when to look again
  is(settle($t, $id, 0, 1), 't', 'what was to live for an hour has a millisecond left');
  super('SELECT pg_sleep(0.01)');
  is(sqlstate("SELECT mortar.charge('$t', 100, 'k')"), '', '... and is found then');
  $t = tenant('expiry-5', 10);
  admin("SELECT mortar.grant_credits('$t', 10, 'g' || g) FROM generate_series(1, 4) g");
  reserve($t, 'requests', 4, 1);
  super('SELECT pg_sleep(0.01)');
  $id = eval { reserve($t, 'requests', 1) };
  isnt($id, undef, 'who needs a fifth grant has it when four were of one that expired');
  release($t, $id) if defined $id;
  $t = 'expiry';

  # what was sent is unflushed, and only that
  $t = tenant('bound', 1000, "max_unflushed_uc => 100");
  my $record = "SELECT mortar.record_usage('bound', 'requests', 5)";
  my $unflushed = "SELECT unflushed_uc FROM mortar.balance('bound')";
  $id = reserve($t, 'requests', 40);
  is(sqlstate($record), '', 'what is reserved does not count for max_unflushed_uc');
  is(settle($t, $id, 20), 't', 'nor does it keep anybody from settling');
  is(admin($unflushed), '250', '... that counts');
  is(sqlstate($record), '53400', '... and who comes next waits for the flusher, here in vain');
  release($t, $id);
  is(admin($unflushed), '250', 'what was not sent never counts');
  $t = 'expiry';

  # memory is short: tenants come and go, this one stays
  tenant("busy-$_", 100) for 1 .. 12;
  is(admin("SELECT reservations FROM mortar.slots WHERE tenant_id = '$t'"), '1', 'what reserves is not evicted');
  my @kept = map { [ "busy-$_", reserve("busy-$_", 'requests', 1) ] } 1 .. 6;
  is(sqlstate("SELECT mortar.balance('busy-8')"), '53400', 'eight tenants reserve: no ninth has room');
  release(@{ $kept[0] });
  is(admin("SELECT available_uc FROM mortar.balance('busy-8')"), '100', '... before one of them ends');
  is(join('', map { settle(@$_, 1) } @kept[ 1 .. 5 ]), 'ttttt', 'the others are settled');
  is(admin("SELECT unflushed_uc FROM mortar.balance('busy-2')"), '10', '... and what was sent is unflushed');

  # so do usage slots
  $id = reserve($kept[1][0], 'requests', 3);
  super("SELECT mortar.record_usage('$kept[1][0]', 'egress_bytes', 0)") for 1 .. 3;
  is(valid($kept[1][0], $id), 't', 'a usage slot stays for what is reserved');
  is(settle($kept[1][0], $id, 3), 't', '... and counts it');
  is(admin("SELECT quantity FROM mortar.usage('$kept[1][0]') WHERE meter = 'requests'"), '4', '... once');
}
$node->append_conf('postgresql.conf', "max_worker_processes = 8\n");
$node->restart;
is(admin("SELECT quantity FROM mortar.usage('busy-2') WHERE meter = 'requests'"), '4', 'a stop without a flusher loses nothing');
flushed();
{
  my $t = tenant('slots', 1000);
  my $id = reserve($t, 'requests', 5);
  for my $other (qw(busy-11 busy-12)) {
    for my $price (1 .. 12) {
      admin("SELECT mortar.set_price('requests', $price, 1, tenant => '$other')");
      admin("SELECT mortar.record_usage('$other', 'requests', 1)");
      flushed();
    }
  }
  is(settle($t, $id, 2), 't', '24 other usage slots, where 16 are');
  is(state_of($t), '950 0 | 1 30 | 2 20', '... have not taken the place of the one that is reserved');
}
is(unverified(), '', 'it adds up');

done_testing();
