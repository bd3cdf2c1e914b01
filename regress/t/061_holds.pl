# 061_holds.pl
#   Holds, reversals and frozen tenants where SQL in one session cannot show them:
#   over HTTP, in many sessions, across restarts, and when a backend dies.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Faults;
use Mortar;
use Race;
use Session;
use Test::More;
use Wire;

my $node = Mortar::node('main', conf => "max_connections = 100\nmax_locks_per_transaction = 10\n"
  . "mortar.flush_interval = '20ms'\n");

sub admin { return Mortar::admin($node, $_[0]); }

sub tenant {
  my ($tenant, $uc) = @_;
  admin("SELECT mortar.create_tenant('$tenant'); SELECT mortar.grant_credits('$tenant', $uc, 'grant')");
  return $tenant;
}

# available, held, and how many rows the ledger and the holds have
sub state_of {
  my ($tenant) = @_;
  return admin("SELECT available_uc, held_uc, (SELECT count(*) FROM mortar.credit_ledger WHERE tenant_id = '$tenant'),"
    . " (SELECT count(*) FROM mortar.credit_holds WHERE tenant_id = '$tenant') FROM mortar.balance('$tenant')");
}

# -- many sessions ------------------------------------------------------------

for my $level ('read committed', 'repeatable read') {
  my $tenant = tenant('five-' . substr($level, 0, 4), 5000);
  my $race = Race::run($node, 50, "SELECT mortar.hold('$tenant', 1000, '1 hour', 'client :client_id')", isolation => $level);
  is_deeply([ $race->{finished}, $race->{errors} ], [ 5, { 'Not enough credits.' => 45 } ],
    "50 sessions, 5000, holds of 1000, $level: exactly five succeed, and none fails otherwise");
  is(state_of($tenant), '0|5000|6|5', 'nothing is left, and five are held');
}
{
  my $tenant = tenant('five-serializable', 5000);
  my $race = Race::run($node, 50, "SELECT mortar.hold('$tenant', 1000, '1 hour', 'client :client_id')", isolation => 'serializable');
  my %other = %{ $race->{errors} };
  delete $other{$_} for grep { /^Not enough credits|^could not serialize access/ } keys %other;
  is_deeply(\%other, {}, 'serializable: refused for lack of credits, or told to retry, nothing else');
  cmp_ok($race->{finished}, '<=', 5, 'no more than five succeed');
  is(state_of($tenant), 5000 - 1000 * $race->{finished} . '|' . 1000 * $race->{finished} . '|' . (1 + $race->{finished}) . "|$race->{finished}",
    'what the others took has come back');
}

# 60 of 100, twice at once: one of them
{
  my $tenant = tenant('sixty', 100);
  my $race = Race::run($node, 2, "SELECT mortar.charge('$tenant', 60, 'client :client_id')");
  is_deeply([ $race->{finished}, $race->{errors} ], [ 1, { 'Not enough credits.' => 1 } ], 'two sessions charge 60 of 100: one does');
  is(state_of($tenant), '40|0|2|0', 'and 40 are left');
}

# one key in 50 sessions is one hold, one capture, one reversal
{
  my $tenant = tenant('one-key', 1000);
  my $race = Race::run($node, 50, "SELECT mortar.hold('$tenant', 100, '1 hour', 'h')");
  is_deeply([ $race->{finished}, $race->{errors} ], [ 50, {} ], 'one key in 50 sessions: all hold');
  is(state_of($tenant), '900|100|2|1', '... once');
  my $hold = admin("SELECT hold_id FROM mortar.credit_holds WHERE tenant_id = '$tenant'");
  $race = Race::run($node, 50, "SELECT mortar.capture('$tenant', '$hold', 60, 'c')");
  is_deeply([ $race->{finished}, $race->{errors} ], [ 50, {} ], 'all capture');
  is(state_of($tenant), '940|0|4|1', '... once');
  my $capture = admin("SELECT result FROM mortar.idempotency WHERE tenant_id = '$tenant' AND key = 'c'");
  $race = Race::run($node, 50, "SELECT mortar.reverse('$tenant', '$capture', 'r')");
  is_deeply([ $race->{finished}, $race->{errors} ], [ 50, {} ], 'all reverse');
  is(state_of($tenant), '1000|0|5|1', '... once');
}
# and with keys of their own only one of them does
{
  my $tenant = tenant('own-keys', 1000);
  my $hold = admin("SELECT mortar.hold('$tenant', 100, '1 hour', 'h')");
  my $race = Race::run($node, 50, "SELECT mortar.void_hold('$tenant', '$hold', 'client :client_id')");
  is_deeply([ $race->{finished}, $race->{errors} ], [ 1, { 'the hold is already resolved: it was voided' => 49 } ],
    '50 sessions void one hold: one does, the others are told');
  my $charge = admin("SELECT mortar.charge('$tenant', 100, 'c')");
  $race = Race::run($node, 50, "SELECT mortar.reverse('$tenant', '$charge', 'r client :client_id', 10)", isolation => 'repeatable read');
  is_deeply([ $race->{finished}, $race->{errors} ], [ 10, { 'nothing left to reverse' => 40 } ],
    '50 sessions reverse a tenth of a charge: ten do');
  is(state_of($tenant), '1000|0|14|1', 'and it has all come back');
}

# -- when a backend dies ------------------------------------------------------

{
  my $tenant = tenant('dies', 1000);
  my $hold = admin("SELECT mortar.hold('$tenant', 100, '1 hour', 'h')");
  my $charge = admin("SELECT mortar.charge('$tenant', 100, 'c')");
  my $before = state_of($tenant);
  for my $work ("SELECT mortar.hold('$tenant', 300, '1 hour', 'h2')", "SELECT mortar.capture('$tenant', '$hold', 200, 'k')",
    "SELECT mortar.capture('$tenant', '$hold', 20, 'k')", "SELECT mortar.void_hold('$tenant', '$hold', 'k')",
    "SELECT mortar.reverse('$tenant', '$charge', 'k', 40)",
    "SELECT mortar.void_grant('$tenant', grant_id, 'k', 'x') FROM mortar.credit_grants WHERE tenant_id = '$tenant'") {
    my ($code, undef, $err) = $node->psql($Mortar::database, "BEGIN; $work; SELECT pg_terminate_backend(pg_backend_pid())");
    like($err, qr/FATAL: +terminating connection/, "$work, and then the backend ends");
    is(state_of($tenant), $before, '... nothing has happened');
  }
  is(admin("SELECT mortar.void_hold('$tenant', '$hold', 'k') IS NOT NULL"), 't', 'and its key is free');
}

# -- expiry, across restarts --------------------------------------------------

{
  my $tenant = tenant('expires', 1000);
  my $long = admin("SELECT mortar.hold('$tenant', 200, '1 hour', 'long')");
  my $short = admin("SELECT mortar.hold('$tenant', 700, '3 seconds', 'short')");
  $node->restart;
  is(state_of($tenant), '100|900|3|2', 'after a restart both holds are open');
  $node->poll_query_until($Mortar::database, "SELECT clock_timestamp() > expires_at FROM mortar.credit_holds WHERE hold_id = '$short'");
  is(state_of($tenant), '800|200|3|2', 'one expires, and nobody has written anything');
  is(admin("SELECT held FROM mortar.open_holds WHERE tenant_id = '$tenant'"), '0.000200', 'one is open');
  $node->restart;
  is(state_of($tenant), '800|200|3|2', 'after another restart it still has expired');
  $node->stop('immediate');
  $node->start;
  is(state_of($tenant), '800|200|3|2', 'and after a crash');
  my ($code, undef, $err) = $node->psql($Mortar::database, "SELECT mortar.capture('$tenant', '$short', 1, 'k')");
  like($err, qr/the hold has expired/, 'it cannot be captured');
  my $race = Race::run($node, 8, "SELECT mortar.charge('$tenant', 100, 'client :client_id')");
  is_deeply([ $race->{finished}, $race->{errors} ], [ 8, {} ], '8 sessions that need it: all have it');
  is(state_of($tenant), '0|200|12|2', 'and it was released once');
  admin("SELECT mortar.capture('$tenant', '$long', 150, 'k')");
  $node->restart;
  is(state_of($tenant), '50|0|14|2', 'after a restart a capture is what it was');
}

# one transaction releases a hold that has expired, and stays open: others wait for it
for my $end ('COMMIT', 'ROLLBACK') {
  my $tenant = tenant('meanwhile-' . lc $end, 1000);
  admin("SELECT mortar.hold('$tenant', 1000, '1 millisecond', 'h'), pg_sleep(0.01)");
  my $first = Session->new($node, user => 'mortar_test_admin');
  $first->run("BEGIN; SELECT mortar.charge('$tenant', 100, 'first')");
  is(admin("SELECT mortar.charge('$tenant', 1001, 'too much', on_short => 'return') IS NULL"), 't',
    'what there is not is refused all the same');
  my (undef, undef, $err) = $node->psql($Mortar::database, "SELECT mortar.charge('$tenant', 900, 'second')");
  like($err, qr/credits of tenant "$tenant" are about to come back.*HINT:  Try again/s, 'who has waited for long is told to try again');
  my ($out, $answer) = ('', '');
  my $second = IPC::Run::start([ 'psql', '-XAtq', '-U', 'mortar_test_admin', '-d', $node->connstr($Mortar::database), '-c',
      "SELECT mortar.charge('$tenant', 900, 'second') IS NOT NULL" ], '>', \$out, '2>', \$answer);
  $node->poll_query_until($Mortar::database, "SELECT count(*) = 1 FROM pg_stat_activity"
    . " WHERE wait_event_type = 'Extension' AND query LIKE '%mortar.charge%' AND pid <> pg_backend_pid()");
  $first->run($end);
  IPC::Run::finish($second);
  is("$out$answer", "t\n", "$end: who waits is served");
  is(state_of($tenant), $end eq 'COMMIT' ? '0|0|5|1' : '100|0|4|1', 'and it was released once');
}

# a hold that expires while it is captured is not released to pay for its own capture
{
  my $tenant = tenant('itself', 100);
  admin("SELECT mortar.hold('$tenant', 10, '1 millisecond', 'gone')");
  my $hold = admin("SELECT mortar.hold('$tenant', 50, '1.5 seconds', 'h')");
  my $lock = Session->new($node);
  $lock->run('BEGIN; LOCK TABLE mortar.credit_grants IN ACCESS EXCLUSIVE MODE');
  my $unlock = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr($Mortar::database), '-c',
      "DO \$\$ BEGIN WHILE clock_timestamp() < (SELECT expires_at FROM mortar.credit_holds WHERE hold_id = '$hold') LOOP"
        . " PERFORM pg_sleep(0.05); END LOOP; PERFORM pg_terminate_backend(pid) FROM pg_locks"
        . " WHERE relation = 'mortar.credit_grants'::regclass AND mode = 'AccessExclusiveLock' AND granted; END \$\$" ]);
  my (undef, undef, $err) = $node->psql($Mortar::database, "SELECT mortar.capture('$tenant', '$hold', 120, 'k')");
  IPC::Run::finish($unlock);
  like($err, qr/Not enough credits/, 'a capture of more than there is, during which the hold expires, is refused');
  is(admin("SELECT available_uc, held_uc FROM mortar.balance('$tenant')"), '100|0', 'and nothing has moved');
  is(admin("SELECT check_name, detail FROM mortar.verify_ledger('$tenant') WHERE NOT ok"), '', 'and it adds up');
}

# who makes a hold releases one that has expired, also when nobody needs its credits, or
# nobody can have them any more
{
  my $tenant = tenant('tidy', 1000);
  admin("SELECT mortar.grant_credits('$tenant', 10, 'ends', priority => 0, expires_at => clock_timestamp() + interval '400 milliseconds')");
  admin("SELECT mortar.hold('$tenant', 10, '1 millisecond', 'of what ends'), mortar.hold('$tenant', 20, '1 millisecond', 'gone'), pg_sleep(0.5)");
  my $expired = "SELECT count(*) FROM mortar.credit_ledger WHERE tenant_id = '$tenant' AND meta ? 'expired'";
  is(admin($expired), '0', 'two holds have expired');
  for my $n (1, 2, 2) {
    admin("SELECT mortar.hold('$tenant', 1, '1 hour', gen_random_uuid()::text)");
    is(admin($expired), $n, "a new hold, and $n are released");
  }
  is(admin("SELECT available_uc, held_uc FROM mortar.balance('$tenant')"), '997|3', 'the rest is there');
}

# one transaction resolves more of them than the server has room for locks
{
  my $tenant = tenant('many', 6000);
  my $n = 3000;
  my $hold = "PERFORM mortar.hold('$tenant', 1, '%s', 'h%s' || i)";
  my $all = "DO \$\$ BEGIN FOR i IN 1 .. $n LOOP %s; END LOOP; END \$\$";
  my $rows = "DO \$\$ BEGIN PERFORM %s FROM %s WHERE tenant_id = '$tenant' %s; END \$\$";
  admin(sprintf($all, sprintf($hold, '1 hour', 'a')));
  admin(sprintf($rows, "mortar.capture('$tenant', hold_id, 1, 'c' || hold_id)", 'mortar.credit_holds', ''));
  is(admin("SELECT available_uc, held_uc FROM mortar.balance('$tenant')"), '3000|0', "$n holds are captured in one transaction");
  admin(sprintf($rows, "mortar.reverse('$tenant', entry_id, 'r' || entry_id)", 'mortar.credit_ledger', "AND kind = 'capture'"));
  is(admin("SELECT available_uc, held_uc FROM mortar.balance('$tenant')"), '6000|0', '... and reversed');
  admin(sprintf($all, sprintf($hold, '1 hour', 'b')));
  admin(sprintf($rows, "mortar.void_hold('$tenant', hold_id, 'v' || hold_id)", 'mortar.open_holds', ''));
  is(admin("SELECT available_uc, held_uc FROM mortar.balance('$tenant')"), '6000|0', "... $n are voided");
  admin(sprintf($all, sprintf($hold, '1 millisecond', 'd')));
  admin("SELECT pg_sleep(0.01), mortar.charge('$tenant', 6000, 'all')");
  is(admin("SELECT available_uc, held_uc FROM mortar.balance('$tenant')"), '0|0', '... and released');
  is(admin("SELECT check_name, detail FROM mortar.verify_ledger('$tenant') WHERE NOT ok"), '', 'and it adds up');
}

# what has ever been spent may be more than an int8 holds
{
  my $all = '2305843009213693951';
  my $tenant = tenant('volume', $all);
  admin("DO \$\$ DECLARE e uuid; BEGIN FOR i IN 1 .. 6 LOOP e := mortar.charge('$tenant', $all, 'c' || i);"
    . " PERFORM mortar.reverse('$tenant', e, 'r' || i); COMMIT; END LOOP; END \$\$");
  my $before = state_of($tenant);
  $node->restart;
  is(state_of($tenant), $before, 'spent and given back six times, all of it is there after a restart');
}

# and so may what is counted where no credit moves
{
  my $all = '2305843009213693951';
  my $tenant = tenant('counted', 100);
  admin("SELECT mortar.set_limit('$tenant', 'unlimited')");
  admin("SELECT mortar.charge('$tenant', $all, 'c$_')") for 1 .. 5;
  admin("SELECT mortar.hold('$tenant', $all, '1 hour', 'h')");
  admin("SELECT mortar.void_hold('$tenant', hold_id, 'v'), mortar.charge('$tenant', 1, 'c') FROM mortar.open_holds WHERE tenant_id = '$tenant'");
  is(state_of($tenant), '100|0|9|1', 'a tenant without limits is charged for as much as five times a balance');
}

# what a transaction has given itself: more grants than memory tells apart come back, and
# can be taken back, like others
{
  my $tenant = tenant('own', 5);
  my $out = admin("BEGIN; CREATE TEMP TABLE g ON COMMIT DROP AS SELECT i, mortar.grant_credits('$tenant', 10, 'g' || i, priority => i) AS id"
    . " FROM generate_series(1, 20) i; SELECT mortar.charge('$tenant', 190, 'c') AS charge \\gset\n"
    . "SAVEPOINT s; SELECT mortar.reverse('$tenant', :'charge', 'r') IS NOT NULL; ROLLBACK TO s;"
    . "SELECT available_uc FROM mortar.balance('$tenant'); SELECT mortar.reverse('$tenant', :'charge', 'r', 175) IS NOT NULL;"
    . "SELECT available_uc FROM mortar.balance('$tenant'); SELECT mortar.void_grant('$tenant', id, 'v', 'x') IS NOT NULL FROM g WHERE i = 18;"
    . "SELECT mortar.hold('$tenant', 170, '1 hour', 'h') AS hold \\gset\n"
    . "SELECT mortar.void_hold('$tenant', :'hold', 'vh') IS NOT NULL; COMMIT; SELECT available_uc FROM mortar.balance('$tenant')");
  is($out, "t\n15\nt\n190\nt\nt\n180", 'of twenty own grants a charge comes back, a grant is taken back, a hold freed');
  is(admin("SELECT check_name, detail FROM mortar.verify_ledger('$tenant') WHERE NOT ok"), '', 'and it adds up');
}

# a transaction has to do with any number of tenants, and lets go of all of them
{
  admin("SELECT mortar.create_tenant('crowd' || i), mortar.set_limit('crowd' || i, 'soft'), mortar.charge('crowd' || i, 50, 'c')"
    . " FROM generate_series(1, 70) i");
  admin("SELECT mortar.reverse(tenant_id, entry_id, 'r') FROM mortar.credit_ledger WHERE tenant_id LIKE 'crowd%' AND kind = 'charge'");
  is(admin("SELECT count(*), sum(pins) FROM mortar.cells WHERE tenant_id LIKE 'crowd%' AND from_account = 'debt'"), '70|0',
    'debt of 70 tenants is given back in one transaction, which keeps none of them');
}

# limits are set while others spend what they get back: nobody sees a limit in between
{
  my $tenant = tenant('between', 1_000_100);
  admin("SELECT mortar.charge('$tenant', 1000000, 'c'), mortar.set_price('requests', 1, 1, tenant => '$tenant')");
  my $busy_err = '';
  my $busy = IPC::Run::start([ 'psql', '-XAtq', '-U', 'mortar_test_admin', '-d', $node->connstr($Mortar::database), '-c',
      "DO \$\$ DECLARE e uuid := (SELECT entry_id FROM mortar.credit_ledger WHERE tenant_id = '$tenant' AND kind = 'charge');"
        . " BEGIN PERFORM mortar.reverse('$tenant', e, 'r'); FOR i IN 1 .. 900000 LOOP"
        . " PERFORM mortar.record_usage('$tenant', 'requests', 1); END LOOP; ROLLBACK; END \$\$" ], '2>', \$busy_err);
  $node->poll_query_until($Mortar::database, "SELECT pins > 0 FROM mortar.slots WHERE tenant_id = '$tenant'");
  admin("DO \$\$ BEGIN FOR i IN 1 .. 3000 LOOP PERFORM mortar.set_limit('$tenant'); COMMIT;"
    . " PERFORM mortar.charge('$tenant', 100, 'x'); ROLLBACK; END LOOP; END \$\$");
  IPC::Run::finish($busy);
  is($busy_err, '', 'neither who spends nor who charges after setting limits is refused');
}

# the first touch of a tenant is a hold, by many
{
  my $tenant = tenant('cold', 1000);
  $node->restart;
  is(admin("SELECT count(*) FROM mortar.slots WHERE tenant_id = '$tenant'"), '0', 'the tenant is not in memory');
  my $race = Race::run($node, 8, "SELECT mortar.hold('$tenant', 1000, '1 hour', 'client :client_id')");
  is_deeply([ $race->{finished}, $race->{errors} ], [ 1, { 'Not enough credits.' => 7 } ], 'of 8 sessions one holds all');
  is(state_of($tenant), '0|1000|2|1', 'and nothing is left');
}

# what was used, or held, before a grant began does not burn it, whenever it is written
{
  my $tenant = tenant('early', 100);
  admin("SELECT mortar.set_price('requests', 1, 1)");
  my $lock = Session->new($node);
  $lock->run('BEGIN; LOCK TABLE mortar.usage_journal IN EXCLUSIVE MODE');
  admin("SELECT mortar.grant_credits('$tenant', 100, 'later', priority => 0, effective_at => clock_timestamp() + interval '1 second')");
  admin("SELECT mortar.record_usage('$tenant', 'requests', 10), mortar.hold('$tenant', 20, '1 hour', 'h')");
  $node->poll_query_until($Mortar::database, "SELECT clock_timestamp() > max(effective_at) FROM mortar.credit_grants WHERE tenant_id = '$tenant'");
  my $hold = admin("SELECT hold_id FROM mortar.credit_holds WHERE tenant_id = '$tenant'");
  admin("SELECT mortar.capture('$tenant', '$hold', 20, 'k')");
  $lock->run('ROLLBACK');
  $node->poll_query_until($Mortar::database, "SELECT unflushed_uc = 0 FROM mortar.balance('$tenant')");
  is(admin("SELECT string_agg(priority || ': ' || remaining_uc, ', ' ORDER BY priority) FROM mortar.grants WHERE tenant_id = '$tenant'"),
    '0: 100, 50: 70', 'a grant that began later than usage and a hold has paid neither');
}

# -- over HTTP ----------------------------------------------------------------

Faults::install($node);
my $key = Mortar::tenant($node, 'acme');
admin("SELECT mortar.set_price('requests', 1500, 1); SELECT mortar.grant_credits('acme', 1500, 'first')");
my @gateways = (Mortar::gateway($node, args => [qw(--threads 1 --connections 2)]), Mortar::gateway($node));
my $tables = '/v1/acme/db/tables';
my $rows = '/v1/acme/db/rows/notes';
is($gateways[0]->request('POST', $tables, key => $key, json => { name => 'notes' })->{status}, 201, 'a table costs all there is');
admin("SELECT mortar.grant_credits('acme', 2000, 'second')");

# both are admitted, and only one of them can pay
{
  my $gate = Faults::close_gate($node, 1);
  my @wires = map { Wire->new($gateways[$_])->ask('POST', $rows, key => $key, json => { gate => 1, n => $_ }) } 0, 1;
  Faults::wait_at_gate($node, 1, 2);
  $gate->end;
  my @status = sort map { $_->answer->{status} } @wires;
  is_deeply(\@status, [ 201, 402 ], 'two calls of 1500 at once, of 2000: one is answered, one is 402');
  is(admin("SELECT available_uc, debt_uc FROM mortar.balance('acme')"), '500|0', '500 are left, and no debt');
  is($node->safe_psql($Mortar::database, 'SELECT count(*) FROM mortar.doc_rows'), '1', 'and no row of the refused one');
}

# a hold leaves no room for calls until it expires, and then does
admin("SELECT mortar.grant_credits('acme', 2500, 'third')");
my $hold = admin("SELECT mortar.hold('acme', 3000, '2 seconds', 'h')");
my $refused = $gateways[0]->request('GET', $tables, key => $key);
is("$refused->{status} $refused->{json}{required_uc} $refused->{json}{available_uc}", '402 1 0', 'all is held: 402');
$node->poll_query_until($Mortar::database, "SELECT clock_timestamp() > expires_at FROM mortar.credit_holds WHERE hold_id = '$hold'");
is($gateways[1]->request('GET', '/v1/acme/usage/me', key => $key)->{json}{available_uc}, 3000, 'it expires, and all is there');
my $answer = $gateways[1]->request('GET', $tables, key => $key);
is($answer->{status}, 200, 'a call is served');
is($answer->{headers}{'x-mortar-credits-remaining'}, '0.001500', 'and says what is left');
is(admin("SELECT count(DISTINCT reverses) FROM mortar.credit_ledger WHERE tenant_id = 'acme' AND kind = 'release'"), '1', 'it has released the hold');

# frozen at the instant of commit, everywhere
sub both {
  return join ' ', map { my $a = $_->request($_[0], $_[1], key => $key);
    $a->{status} . (ref $a->{json} eq 'HASH' && $a->{json}{code} ? " $a->{json}{code}" : '') } @gateways;
}
my $session = Session->new($node, user => 'mortar_test_admin');
admin("SELECT mortar.set_price('requests', 1, 1)");
$session->run("BEGIN; SELECT mortar.freeze('acme')");
is(both('GET', $tables), '200 200', 'frozen in a transaction that is still open: it is served');
$session->run('COMMIT');
is(both('GET', $tables), '423 frozen 423 frozen', 'committed: 423 everywhere');
is(both('GET', '/v1/acme/usage/me'), '200 200', 'but for what is free');
my $books = state_of('acme');
$node->restart;
$_->wait_ready for @gateways;
is(both('GET', $tables), '423 frozen 423 frozen', 'after a restart, too');
is(state_of('acme'), $books, 'and nothing has moved');
$session = Session->new($node, user => 'mortar_test_admin');
$session->run("BEGIN; SELECT mortar.unfreeze('acme')");
is(both('GET', $tables), '423 frozen 423 frozen', 'not before the commit');
$session->run('COMMIT');
is(both('GET', $tables), '200 200', 'it is served again');

is($_->stop, 0, 'a gateway ends cleanly') for @gateways;
$node->poll_query_until($Mortar::database, 'SELECT bool_and(unflushed_uc = 0) FROM mortar.loss_bound');
is(admin('SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'), '', 'everything adds up');
done_testing();
