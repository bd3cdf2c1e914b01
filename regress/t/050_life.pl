# 050_life.pl
#   A suspended tenant is refused by every gateway from the instant of commit on,
#   and served again from the instant it is resumed; a closed one never again.
#   Its ledger stays as it was, through restarts, too.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Faults;
use Mortar;
use Session;
use Test::More;
use Wire;

my $node = Mortar::node('main', conf => "mortar.flush_interval = '20ms'\n");
my $key = Mortar::tenant($node, 'acme', credits => 1, prices => 1);
my $key_of_other = Mortar::tenant($node, 'other', credits => 1);
my @gateways = (Mortar::gateway($node, args => [qw(--threads 1 --connections 2)]), Mortar::gateway($node));
my $tables = '/v1/acme/db/tables';
my $rows = '/v1/acme/db/rows/notes';

sub admin { return Mortar::admin($node, $_[0]); }

# what both gateways answer: status, and the code of a problem
sub both {
  my ($method, $path, %with) = @_;
  $with{key} //= $key;
  return join ' ', map {
    my $answer = $_->request($method, $path, %with);
    $answer->{status} . (ref $answer->{json} eq 'HASH' && $answer->{json}{code} ? " $answer->{json}{code}" : '')
  } @gateways;
}

# balance, entries, usage and rows: all that a refused call must not touch
sub books {
  return admin("SELECT b.available_uc, (SELECT count(*) FROM mortar.credit_ledger WHERE tenant_id = 'acme'),"
      . " (SELECT string_agg(meter || quantity || cost_uc, ' ' ORDER BY meter) FROM mortar.usage('acme'))"
      . " FROM mortar.balance('acme') b")
    . ' ' . $node->safe_psql($Mortar::database, "SELECT count(*) FROM mortar.doc_rows");
}
my $suspended = '403 tenant_suspended 403 tenant_suspended';
my $closed = '403 tenant_closed 403 tenant_closed';

# -- suspended at the instant of commit ---------------------------------------

is($gateways[0]->request('POST', $tables, key => $key, json => { name => 'notes' })->{status}, 201, 'a tenant makes a table');
is(both('GET', $tables), '200 200', 'and both gateways serve it');
my $session = Session->new($node, user => 'mortar_test_admin');
$session->run('BEGIN');
is($session->run("SELECT mortar.suspend_tenant('acme', 'unpaid')"), 't', 'it is suspended in a transaction');
is(both('GET', $tables), '200 200', 'that is still open: it is served');
$session->run('ROLLBACK');
is(both('GET', $tables), '200 200', 'or was rolled back');
$session->run("BEGIN; SELECT mortar.suspend_tenant('acme', 'unpaid')");
my $before = books();
$session->run('COMMIT');
is(both('GET', $tables), $suspended, 'committed: it is served nowhere');
is(both('POST', $rows, json => { title => 'a' }), $suspended, 'whatever it asks for');
is(both('GET', '/v1/acme/usage/me'), $suspended, 'also what is free');
is(both('GET', '/v1/acme/nothing'), $suspended, 'and what is no route');
is(both('GET', $tables, key => "${key}x"), '401 invalid_credential 401 invalid_credential', 'a bad key is a bad key');
is(both('GET', $tables, key => $key_of_other), '403 tenant_mismatch 403 tenant_mismatch',
  "another tenant's key does not learn of it");
is(both('GET', '/v1/other/db/tables', key => $key_of_other), '200 200', 'other tenants are served');
is(books(), $before, 'no refused call has touched the ledger, usage or a row');
is(admin("SELECT state FROM mortar.balance('acme')"), 'suspended', 'balance() tells the state');
is(admin("SELECT state, state_reason FROM mortar.tenants WHERE tenant_id = 'acme'"), 'suspended|unpaid', 'the table why');

# -- it lasts, and ends at the instant of commit ------------------------------

$node->restart;
$_->wait_ready for @gateways;
is(both('GET', $tables), $suspended, 'after a restart it still is suspended: it is read from the table');
is(books(), $before, 'and its ledger is as it was');
admin("SELECT mortar.grant_credits('acme', mortar.credits(1), 'second')");
is(both('GET', $tables), $suspended, 'credits help nothing');
$session = Session->new($node, user => 'mortar_test_admin');
$session->run("BEGIN; SELECT mortar.resume_tenant('acme')");
is(both('GET', $tables), $suspended, 'nor does a resumption that is not committed');
$session->run('COMMIT');
is(both('GET', $tables), '200 200', 'committed: it is served everywhere');

# Each of these commits is followed by calls at once: none may be answered by the
# state before it.
my %wrong;
for my $round (1 .. 40) {
  $session->run("SELECT mortar.suspend_tenant('acme', 'round $round')");
  my $answer = both('HEAD', $tables);
  $wrong{$answer}++ if $answer ne '403 403';
  $session->run("SELECT mortar.resume_tenant('acme')");
  $answer = both('HEAD', $tables);
  $wrong{$answer}++ if $answer ne '200 200';
}
is_deeply(\%wrong, {}, '40 times suspended and resumed: every call is answered by the last commit');

# -- a call in flight ---------------------------------------------------------

Faults::install($node);
my $gate = Faults::close_gate($node, 1);
my $wire = Wire->new($gateways[0])->ask('POST', $rows, key => $key, json => { gate => 1 });
Faults::wait_at_gate($node, 1, 1);
$session->run("SELECT mortar.suspend_tenant('acme', 'in flight')");
is($gateways[1]->request('GET', $tables, key => $key)->{status}, 403, 'suspended while a call is in flight: the next one is refused');
$gate->end;
is($wire->answer->{status}, 201, 'the one that was admitted before ends as it began');
is(both('POST', $rows, json => { title => 'b' }), $suspended, 'no further one is');
is($node->safe_psql($Mortar::database, 'SELECT count(*) FROM mortar.doc_rows'), '1', 'there is its row and no other');

# -- closed -------------------------------------------------------------------

$before = books();
$session->run("BEGIN; SELECT mortar.close_tenant('acme')");
is(both('GET', $tables), $suspended, 'a closing that is not committed closes nothing');
$session->run('COMMIT');
is(both('GET', $tables), $closed, 'committed: closed everywhere');
my ($code, undef, $err) = $node->psql($Mortar::database, "SELECT mortar.resume_tenant('acme')");
like($err, qr/The tenant is closed/, 'it cannot be resumed');
$node->restart;
$_->wait_ready for @gateways;
is(both('GET', $tables), $closed, 'after a restart it is closed');
is(books(), $before, 'and everything it had is kept');
is(admin('SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'), '', 'everything adds up');
is($_->stop, 0, 'a gateway ends cleanly') for @gateways;
done_testing();
