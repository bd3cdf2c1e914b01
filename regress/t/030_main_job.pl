# 030_main_job.pl
#   The whole job over real sockets: tables and rows, refusals, credits that run
#   out and come back, a key revoked for two gateways, exact metering that SQL
#   shows at once, and a clean stop that loses nothing.
#
#   After its first flush the flusher sleeps for a minute, so most of what SQL
#   shows comes from shared memory until the server stops.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Faults;
use Mortar;
use Session;
use Test::More;
use Wire;

my $node = Mortar::node('main', conf => "mortar.flush_interval = '60s'\n");
my $key = Mortar::tenant($node, 'demo', credits => 1, prices => 1);
my $key_of_other = Mortar::tenant($node, 'other', credits => 1);
my $gateway = Mortar::gateway($node, args => [qw(--threads 1 --connections 3)]);
my $second = Mortar::gateway($node);
my $tables = '/v1/demo/db/tables';
my $rows = '/v1/demo/db/rows/notes';

# What the answers so far must have been metered as, by what the client saw.
my %seen = (requests => 0, egress_bytes => 0);

# call(GATEWAY, METHOD, PATH, ...): a call whose handler runs and commits
sub call {
  my ($through, $method, $path, %with) = @_;
  $with{key} = $key unless $with{headers}{apikey};
  my $answer = $through->request($method, $path, %with);
  $answer->{content} //= '';
  $seen{requests}++;
  $seen{egress_bytes} += $answer->{headers}{'content-length'}
    unless $method eq 'HEAD' || $answer->{status} == 204;
  return $answer;
}

sub usage {
  my ($tenant) = @_;
  return { map { split /\|/ } split /\n/,
    Mortar::admin($node, "SELECT meter, quantity FROM mortar.usage('$tenant')") };
}

sub available {
  my ($tenant) = @_;
  return Mortar::admin($node, "SELECT available_uc FROM mortar.balance('$tenant')");
}

sub count_rows {
  return $node->safe_psql($Mortar::database, 'SELECT count(*) FROM mortar.doc_rows');
}

# problem(ANSWER, STATUS, CODE, WHAT): a problem document, and the right one
sub problem {
  my ($answer, $status, $code, $what) = @_;
  subtest $what => sub {
    is($answer->{status}, $status, "status $status");
    is($answer->{headers}{'content-type'}, 'application/problem+json', 'a problem document');
    is($answer->{json}{status}, $status, 'whose status is the same');
    is($answer->{json}{code}, $code, "code $code");
    is($answer->{json}{type}, "urn:mortar:problem:$code", 'and type');
    is($answer->{json}{request_id}, $answer->{headers}{'x-request-id'}, 'and request id');
    is($answer->{json}{message}, $answer->{json}{detail}, 'and its detail twice');
  };
  return;
}

# -- tables and rows ----------------------------------------------------------

my $answer = call($gateway, 'GET', $tables);
is($answer->{status}, 200, 'GET tables: 200');
is_deeply($answer->{json}, [], 'of none');

$answer = call($gateway, 'POST', $tables, json => { name => 'notes' });
is($answer->{status}, 201, 'POST tables: 201');
is($answer->{headers}{location}, "$tables/notes", 'with its Location');
$answer = call($second, 'GET', $answer->{headers}{location});
is($answer->{json}{name}, 'notes', 'where another gateway finds it at once');

$answer = call($second, 'POST', $rows, json => { title => 'a', n => 1 });
is($answer->{status}, 201, 'POST a row: 201');
is($answer->{content}, '', 'without a body');
my $row = $answer->{headers}{location};
like($row, qr{^$rows/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-}, 'with its Location');
$answer = call($gateway, 'GET', $row);
is($answer->{status}, 200, 'where it is found');
is_deeply([ @{ $answer->{json} }{qw(title n)} ], [ 'a', 1 ], 'as it was sent');
is(call($gateway, 'GET', $rows)->{json}[0]{title}, 'a', 'and in the list');
$answer = call($gateway, 'POST', $rows, json => [ { title => 'b' }, { title => 'c' } ],
  headers => { prefer => 'return=representation' });
is_deeply([ map { $_->{title} } @{ $answer->{json} } ], [qw(b c)], 'rows come back when asked for');

$answer = call($gateway, 'HEAD', $row);
is($answer->{status}, 200, 'HEAD of a row: 200');
is($answer->{content}, '', 'without a body');
is(call($gateway, 'DELETE', $row)->{status}, 204, 'DELETE: 204');
is($gateway->request('GET', $row, key => $key)->{status}, 404, 'and it is gone');

# -- metering -----------------------------------------------------------------

is(call($gateway, 'GET', '/v1/demo/usage/me')->{status}, 200, 'a tenant sees its usage');
is_deeply(usage('demo'), \%seen, 'usage is what was answered, to the byte, and no more');
cmp_ok($seen{egress_bytes}, '>', 500, 'which is something');
is(Mortar::admin($node, "SELECT sum(cost_uc) FROM mortar.usage('demo')") + available('demo'),
  1_000_000, 'cost and balance are what was granted');
# 10 a request; 0.3 of 1,000,000 for 1,000,000,000 bytes is less than one here
is(available('demo'), 1_000_000 - 10 * ($seen{requests} - 1), 'GET /usage/me is free, the rest is paid');
is(call($gateway, 'GET', $tables)->{headers}{'x-mortar-credits-remaining'},
  sprintf('%.6f', available('demo') / 1e6), 'an answer tells what is left');

# -- refusals -----------------------------------------------------------------

problem($gateway->request('GET', $tables, key => "${key}x"), 401, 'invalid_credential', 'a damaged key');
problem($gateway->request('GET', $tables, key => substr($key, 0, -1) . ($key =~ /A$/ ? 'B' : 'A')),
  401, 'invalid_credential', 'a key that differs in its last character');
problem($gateway->request('GET', $tables), 401, 'missing_credential', 'no key');
problem($gateway->request('GET', '/v1/nobody/db/tables'), 401, 'missing_credential',
  'no key on the path of a tenant that does not exist');
is(call($gateway, 'GET', $tables, headers => { apikey => $key })->{status}, 200, 'the header apikey does as well');

my @mismatch = map { $gateway->request('GET', "/v1/$_/db/tables", key => $key) } qw(other nobody);
problem($mismatch[0], 403, 'tenant_mismatch', "another tenant's path");
problem($mismatch[1], 403, 'tenant_mismatch', "nobody's path");
for my $one (@mismatch) {
  $one->{content} =~ s/"request_id":"[^"]*"/"request_id":""/;
  delete @{ $one->{headers} }{qw(x-request-id date)};
}
is($mismatch[0]{content}, $mismatch[1]{content}, 'the bodies tell nothing apart');
is_deeply($mismatch[0]{headers}, $mismatch[1]{headers}, 'nor do the headers');

$answer = $gateway->request('PUT', $tables, key => $key);
problem($answer, 405, 'method_not_allowed', 'a method that is not answered');
is($answer->{headers}{allow}, 'GET, HEAD, POST, OPTIONS', 'Allow names those that are');
$answer = $gateway->request('OPTIONS', $tables, headers => { origin => 'http://x.example' });
is($answer->{status}, 204, 'OPTIONS needs no key');
is($answer->{headers}{allow}, 'GET, HEAD, POST, OPTIONS', 'and says the same');
is($answer->{headers}{'access-control-allow-methods'}, $answer->{headers}{allow}, 'to browsers, too');
problem($gateway->request('GET', '/v1/demo/nothing', key => $key), 404, 'not_found', 'a path that is no route');
is_deeply(usage('demo'), \%seen, 'no refusal is metered');

# -- credits run out and come back --------------------------------------------

my $before = count_rows();
Mortar::admin($node, "SELECT mortar.charge('demo', " . available('demo') . ", 'all')");
$answer = $gateway->request('GET', $tables, key => $key);
problem($answer, 402, 'insufficient_credit', 'no credits left');
is_deeply([ @{ $answer->{json} }{qw(required_uc available_uc)} ], [ 1, 0 ], 'required_uc and available_uc say so');
problem($second->request('POST', $rows, key => $key, json => { title => 'unpaid' }),
  402, 'insufficient_credit', 'a POST, through the other gateway');
is(count_rows(), $before, 'leaves no row');
is(call($gateway, 'GET', '/v1/demo/usage/me')->{json}{available_uc}, 0, 'usage can still be read');
is($gateway->request('GET', '/v1/other/db/tables', key => $key_of_other)->{status}, 200, 'other tenants go on');
Mortar::admin($node, "SELECT mortar.grant_credits('demo', mortar.credits(1), 'second')");
is(call($gateway, 'GET', $tables)->{status}, 200, 'a grant helps at once');
is(call($second, 'GET', $tables)->{status}, 200, 'everywhere');

# -- revocation ---------------------------------------------------------------

my $doomed = Mortar::admin($node, "SELECT mortar.create_key('demo', 'doomed')");
my $id = Mortar::admin($node, "SELECT key_id FROM mortar.keys WHERE name = 'doomed'");
sub both { return join ' ', map { $_->request('HEAD', $tables, key => $doomed)->{status} } $gateway, $second; }
is(both(), '200 200', 'a second key works at two gateways');
my $session = Session->new($node, user => 'mortar_test_admin');
$session->run('BEGIN');
is($session->run("SELECT mortar.revoke_key('demo', '$id')"), 't', 'it is revoked in a transaction');
is(both(), '200 200', 'that is still open: the key works');
$session->run('COMMIT');
is(both(), '401 401', 'committed: it works nowhere');
$session->end;
$seen{requests} += 4;
is(call($gateway, 'GET', $tables)->{status}, 200, 'the other key does');

# -- a clean stop -------------------------------------------------------------

is_deeply(usage('demo'), \%seen, 'usage is complete');
cmp_ok(Mortar::admin($node, "SELECT coalesce(sum(upto_qty - from_qty), 0) FROM mortar.usage_journal WHERE meter = 'requests'"),
  '<', $seen{requests}, 'though not all of it has been flushed');
my $balance = available('demo');
$node->stop('fast');
$node->start;
is_deeply(usage('demo'), \%seen, 'and it still is after a clean stop');
is(available('demo'), $balance, 'as is the balance');
is(Mortar::admin($node, 'SELECT count(*) FROM mortar.verify_ledger() WHERE NOT ok'), 0, 'the books are in order');
is(Mortar::admin($node, 'SELECT count(*) FROM mortar.epochs WHERE clean'), 1, 'the stop was clean');
$_->wait_ready for $gateway, $second;
is($gateway->request('GET', $row, key => $doomed)->{status}, 401, 'the revoked key stays revoked');
is(call($second, 'GET', $rows)->{status}, 200, 'and calls are served again');
is_deeply(usage('demo'), \%seen, 'and counted on top');

# -- two calls, credits for one -----------------------------------------------

Faults::install($node);
Mortar::admin($node, "SELECT mortar.set_price('requests', 1500, 1)");
Mortar::admin($node, "SELECT mortar.charge('demo', " . (available('demo') - 2000) . ", 'but 2000')");
$before = count_rows();
my $gate = Faults::close_gate($node, 1);
Faults::wait_connected($gateway);
my @wires = map { Wire->new($gateway)->ask('POST', $rows, key => $key, json => { gate => 1 }) } 1 .. 2;
Faults::wait_at_gate($node, 1, 2);
$gate->end;
my ($paid, $short) = sort { $a->{status} <=> $b->{status} } map { $_->answer } @wires;
is($paid->{status}, 201, 'of two calls at once, with credits for one, one is served');
problem($short, 402, 'insufficient_credit', 'the other is not');
is_deeply([ @{ $short->{json} }{qw(required_uc available_uc)} ], [ 1500, 500 ], 'and learns why');
is(count_rows(), $before + 1, 'it leaves no row');
is(Mortar::admin($node, "SELECT available_uc || ' ' || debt_uc FROM mortar.balance('demo')"), '500 0', 'and no debt');
is(Mortar::admin($node, 'SELECT count(*) FROM mortar.verify_ledger() WHERE NOT ok'), 0, 'the books are in order');

# -- secrets ------------------------------------------------------------------

my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile);
like($log, qr/execute mortar_http: SELECT \* FROM mortar\.http/, "the server's log has every statement");
unlike($log, qr/\Q$key\E/, 'and no key that came over HTTP');
unlike($gateway->log, qr/\Q$key\E/, "nor has the gateway's");

is($_->stop, 0, 'a gateway ends cleanly') for $gateway, $second;
done_testing();
