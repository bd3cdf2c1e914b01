# 036_gateway_fixes.pl
#   Faults that the gateway once had, one test each.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Faults;
use IPC::Run;
use Mortar;
use PostgreSQL::Test::Utils;
use Proxy;
use Test::More;
use Wire;

my $node = Mortar::node('main', conf => "mortar.tenant_statement_timeout = '60s'\n");
my $key = Mortar::tenant($node, 'acme', credits => 100, prices => 1);
my $tables = '/v1/acme/db/tables';
my $rows = '/v1/acme/db/rows/notes';

# count_rows(NAME): rows of notes whose member "name" is NAME
sub count_rows {
  my ($name) = @_;
  return $node->safe_psql($Mortar::database, "SELECT count(*) FROM mortar.doc_rows WHERE doc->>'name' = '$name'");
}

sub sql { return $node->safe_psql($Mortar::database, $_[0]); }

# ask_at_once(GATEWAY, WIRES, REQUEST...): the same of all, in one turn of the
#   gateway's loop, so that the calls stand behind each other on few connections
sub ask_at_once {
  my ($gateway, $wires, @request) = @_;
  $gateway->signal('STOP');
  $_->ask(@request) for @$wires;
  $gateway->signal('CONT');
  return;
}

# -- the unsent rest of a call is not sent any more when it is sent elsewhere ---

{
  my $proxy = Proxy->new($node, 'STALL');
  my $gateway = Mortar::gateway($proxy, args => [qw(--threads 1 --connections 2 --call-timeout 3s --queue-timeout 10min)]);
  $gateway->request('POST', $tables, key => $key, json => { name => 'notes' });
  my $pad = 'x' x int(1.08 * Proxy::buffer_size());
  my $wire = Wire->new($gateway)->ask('POST', $rows, key => $key, json => { name => 'STALL', pad => $pad });
  $proxy->wait_full;
  $gateway->wait_for_log(qr/no answer within the call timeout/);
  is($wire->answer->{status}, 201, 'a call that a slow server has not read is sent on another connection');
  unlike($proxy->go_on, qr/S\0\0\0\x04/, 'and nothing of it any more on the first one');
  is(count_rows('STALL'), 1, 'so there is one row');
  is($gateway->stop, 0, 'the gateway ends cleanly');
}

# -- a statement that cannot be executed any more -------------------------------

Faults::install($node);
my $gateway = Mortar::gateway($node, args => [qw(--threads 1 --connections 3 --queue-timeout 10min --call-timeout 10min)]);
my @wires = map { Wire->new($gateway) } 1 .. 10;
# a connection takes many calls only after it has answered some quickly
for (1 .. 4) {
  ask_at_once($gateway, \@wires, 'GET', $tables, key => $key);
  $_->answer for @wires;
}
my $gate = Faults::close_gate($node, 1);
ask_at_once($gateway, \@wires, 'POST', $rows, key => $key, json => { name => 'stale', gate => 1 });
Faults::wait_at_gate($node, 1, 2);
# as an update of the extension may: another name for a column of the result
sql('BEGIN; ALTER TYPE mortar.http_answer RENAME ATTRIBUTE next TO following;'
    . ' ALTER FUNCTION mortar.http COST 2; COMMIT');
$gate->end;
is(join(' ', map { $_->answer->{status} } @wires), join(' ', (201) x 10),
  'all calls in a pipeline whose statement went stale are done');
is(count_rows('stale'), 10, 'once');
like($gateway->log, qr/cannot be executed any more, connecting again: cached plan must not change/, 'the log says why');
sql('ALTER TYPE mortar.http_answer RENAME ATTRIBUTE following TO next; ALTER FUNCTION mortar.http COST 1');
is($gateway->request('GET', $rows, key => $key)->{status}, 200, 'and back');
is($gateway->stop, 0, 'the gateway ends cleanly');

my $entry = 'mortar.http(text, text, bytea, bytea, text[], bytea, inet, text)';
$gateway = Mortar::gateway($node, args => [qw(--threads 1 --connections 2 --queue-timeout 100ms)]);
is($gateway->request('GET', $rows, key => $key)->{status}, 200, 'the entry function is there');
sql("ALTER FUNCTION $entry RENAME TO gone");
my $answer = $gateway->request('GET', $rows, key => $key);
is($answer->{status}, 503, 'without its entry function the gateway is unavailable');
ok($answer->{headers}{'retry-after'}, 'for now');
$gateway->until('/ready says no', sub {
  $gateway->request('GET', $rows, key => $key);
  $gateway->ops('GET', '/ready')->{json}{connections} == 0;
});
is($gateway->ops('GET', '/ready')->{json}{status}, 'not ready', '/ready says so');
$gateway->wait_for_log(qr/lost with 0 calls in flight: the database has no mortar extension, or not all of it \(function mortar\.http\(/);
pass('the log names what is missing');
sql('ALTER FUNCTION ' . $entry =~ s/http/gone/r . ' RENAME TO http');
$gateway->wait_ready;
is($gateway->request('GET', $rows, key => $key)->{status}, 200, 'it serves again when the function is back');

sql("REVOKE EXECUTE ON FUNCTION $entry FROM mortar_gateway");
is($gateway->request('GET', $rows, key => $key)->{status}, 503, 'a right that the gateway lost is not the client\'s fault');
sql("GRANT EXECUTE ON FUNCTION $entry TO mortar_gateway");
$gateway->until('service', sub { $gateway->request('GET', $rows, key => $key)->{status} == 200 });
is($gateway->request('POST', $rows, key => $key, json => { fail => [ '42501', 'm', 'd' ] })->{status}, 403,
  'but what a call may not do is');
is($gateway->stop, 0, 'the gateway ends cleanly');

# -- what a browser must see of an answer that is no row ------------------------

# visible(STATUS, WHAT, REQUEST...): a problem that a page of another origin may read
my $origin = 'https://app.example';
sub visible {
  my ($status, $what, $method, $path, %with) = @_;
  subtest $what => sub {
    for my $with_origin (1, 0) {
      my $headers = { %{ $with{headers} // {} }, $with_origin ? (origin => $origin) : () };
      my $answer = $gateway->request($method, $path, %with, headers => $headers);
      is($answer->{status}, $status, "it is $status");
      is($answer->{json}{status}, $status, 'by a problem');
      is($answer->{headers}{'access-control-allow-origin'}, $with_origin ? '*' : undef,
        $with_origin ? 'that any origin may read' : 'and nothing is said of origins to who names none');
      my $exposed = $answer->{headers}{'access-control-expose-headers'} // '';
      is($exposed =~ /\bX-Request-Id\b.*\bRetry-After\b/ ? 1 : 0, $with_origin, $with_origin ? 'with its headers' : 'nor of headers');
      is($answer->{headers}{'cache-control'}, 'no-store', 'not to be stored');
      like($answer->{headers}{vary}, qr/\bAuthorization\b.*\bOrigin\b/, 'with Vary');
    }
  };
  return;
}

$gateway = Mortar::gateway($node, args => [qw(--threads 1 --max-body 2000 --max-uri 200)]);
visible(401, 'a row, for comparison', 'GET', $rows);
visible(404, 'an error of the extension', 'GET', "$tables/absent", key => $key);
visible(403, 'an error of the server', 'POST', $rows, key => $key, json => { fail => [ '42501', 'm', 'd' ] });
visible(404, 'outside of all routes', 'GET', '/elsewhere');
visible(414, 'too long a target', 'GET', '/v1/acme/' . 'x' x 200);
visible(400, 'a tenant that cannot be decoded', 'GET', '/v1/%zz/db/tables', key => $key);
visible(413, 'a body that libh2o refuses', 'POST', $rows, key => $key, body => 'x' x 3000);
my $row = $gateway->request('GET', $tables, key => $key, headers => { origin => $origin });
my $problem = $gateway->request('GET', "$tables/absent", key => $key, headers => { origin => $origin });
for my $name (qw(vary cache-control access-control-allow-origin access-control-expose-headers)) {
  is($problem->{headers}{$name}, $row->{headers}{$name}, "both halves say the same in $name");
}

# -- a tab is no control character of a header value ----------------------------

is(Wire->new($gateway)->ask('GET', $tables, key => $key, headers => [ 'x-tab', "a\tb" ])->answer->{status}, 200,
  'a tab within a header value');
is(Wire->new($gateway)->ask('GET', $tables, key => $key, headers => [ 'x-tab', "\ta\t" ])->answer->{status}, 200,
  'and around one');
is($gateway->stop, 0, 'the gateway ends cleanly');

# -- slow calls of one tenant, as many as it likes, and others ------------------

my $key_of_other = Mortar::tenant($node, 'other', credits => 1);
$gateway = Mortar::gateway($node, args => [qw(--threads 1 --connections 2 --queue 100 --queue-timeout 10s --call-timeout 10min)]);
@wires = map { Wire->new($gateway) } 1 .. 200;
for (1 .. 2) {
  ask_at_once($gateway, \@wires, 'GET', $tables, key => $key);
  $_->answer for @wires;
}
$gate = Faults::close_gate($node, 1);
ask_at_once($gateway, \@wires, 'POST', $rows, key => $key, json => { name => 'flood', gate => 1 });
Faults::wait_at_gate($node, 1, 1);
# the gate stays closed: each answer has come past the flood
for (1 .. 5) {
  is($gateway->request('GET', '/v1/other/db/tables', key => $key_of_other)->{status}, 200, 'another tenant is served');
}
$gateway->until('the surplus', sub { (grep { !$_->is_silent } @wires) >= 80 });
my %count;
for my $wire (grep { !$_->is_silent } @wires) {
  my $answer = $wire->answer;
  $count{ $answer->{status} }++;
  $count{hurried}++ unless $answer->{headers}{'retry-after'};
}
is(join(' ', %count), "503 $count{503}", 'the surplus is refused, with Retry-After');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE usename = 'mortar_test_gateway'"), 2,
  'on the connections of the pool');
$gate->end;
is($gateway->stop, 0, 'the gateway ends cleanly');

# -- no descriptor for another client -------------------------------------------

# descriptors(GATEWAY): how many it has open
sub descriptors { my @open = glob("/proc/$_[0]{pid}/fd/*"); return scalar @open; }

$gateway = Mortar::gateway($node, args => [qw(--threads 1 --connections 1)]);
my $old = Wire->new($gateway);
is($old->ask('OPTIONS', $rows)->answer->{status}, 204, 'a client that was there before');
my $limit = descriptors($gateway) + 2;
system_or_bail('prlimit', '--pid', $gateway->pid, "--nofile=$limit:$limit");
my $began = time;
my @many = map { Wire->new($gateway)->ask('OPTIONS', $rows) } 1 .. 6;
$gateway->wait_for_log(qr/cannot accept connections: Too many open files/);
is($old->ask('OPTIONS', $rows)->answer->{status}, 204, 'it is served while others find no descriptor') for 1 .. 50;
# cpu_ticks(GATEWAY): what it has used so far, in 1/100 s
sub cpu_ticks { my @stat = split / /, slurp_file("/proc/$_[0]{pid}/stat") =~ s/^.*\) //sr; return $stat[11] + $stat[12]; }
my $ticks = cpu_ticks($gateway);
sleep 2;
cmp_ok(cpu_ticks($gateway) - $ticks, '<=', 20, 'it does not try all the time');
my $lines = () = $gateway->log =~ /cannot accept/g;
cmp_ok($lines, '<=', 1 + (time - $began + 1) / 10, 'which the log does not repeat all the time');
for my $wire (@many) {
  is($wire->answer->{status}, 204, 'they are let in as soon as somebody leaves');
  $wire->close;
}
is($gateway->stop, 0, 'the gateway ends cleanly');

# -- what the gateway says of itself --------------------------------------------

# run_gateway(ARGUMENT...): stdout and stderr of one that ends by itself
sub run_gateway {
  my ($out, $err) = ('', '');
  IPC::Run::run([ Mortar::gateway_program(), @_ ], '<', \undef, '>', \$out, '2>', \$err,
    IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
  return $out . $err;
}
for my $conninfo ('postgresql://u:secretpw@[::1/x', 'user=u password=secretpw host', "password='secretpw") {
  my $said = run_gateway('--check', '--database', $conninfo);
  like($said, qr/connection string .* is malformed/, "a malformed connection string");
  unlike($said, qr/secret/, 'is not shown');
}
$gateway = Mortar::gateway($node, args => [ qw(--threads 1 --connections 1 --access-log), $node->basedir . '/access.log' ]);
my $said = run_gateway('--port', 0, '--ops-port', $gateway->port, '--database',
  'dbname=mortar user=mortar_test_gateway port=' . $node->port . ' host=' . $node->host);
like($said, qr/in use by another program: stop it, or choose another --ops-port$/, 'a busy ops port names its flag');

$answer = $gateway->ops('POST', '/live', body => '');
is("$answer->{status} $answer->{headers}{allow}", '405 GET, HEAD', '405 of the ops listener has Allow');

# times in the access log are finer than a turn of the loop
$gateway->request('POST', $rows, key => $key, json => { name => 'timed' }) for 1 .. 5;
my $access = '';
$gateway->until('five lines', sub { (() = ($access = slurp_file($node->basedir . '/access.log')) =~ /"method":"POST"/g) >= 5 });
my @us = map { /"us":(\d+)/ ? $1 : 0 } grep { /"method":"POST"/ } split /\n/, $access;
is((grep { $_ > 0 } @us), 5, 'a call takes some microseconds') or diag($access);

# -- functions of the product that leave something behind -----------------------

sql(<<'SQL');
CREATE FUNCTION public.leave() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE NOTICE 'for the author only';
  PERFORM set_config('client_encoding', 'LATIN1', false);
  IF NEW.doc ? 'raise' THEN
    RAISE EXCEPTION USING ERRCODE = 'MT422', MESSAGE = U&'caf\00e9', DETAIL = U&'{"caf\00e9": 1}';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER leave BEFORE INSERT ON mortar.doc_rows FOR EACH ROW WHEN (NEW.doc ? 'leave') EXECUTE FUNCTION public.leave();
SQL
$answer = $gateway->request('POST', $rows, key => $key, json => { leave => 1, raise => 1 });
is($answer->{status}, 422, 'an error in another encoding');
is($answer->{json}{detail}, 'A value in the body is not valid.', 'is a problem all the same, without its words')
  or diag($answer->{content});
is($gateway->request('POST', $rows, key => $key, json => { leave => 1 })->{status}, 201, 'a call that changes the encoding');
$gateway->wait_for_log(qr/a call changed client_encoding, connecting again/);
$answer = $gateway->request('POST', $rows, key => $key, json => { fail => [ 'MT422', "caf\x{e9}", '{}' ] });
is($answer->{json}{detail}, "caf\x{e9}", 'is not in the way of the next one');
unlike($gateway->log, qr/author/, 'a notice of a function is not in the log');

# -- why a connection was lost --------------------------------------------------

my $kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'mortar_test_gateway'";
my $its_pid = "SELECT pid FROM pg_stat_activity WHERE usename = 'mortar_test_gateway'";
my $old_pid = $node->safe_psql('postgres', $its_pid);
is($node->safe_psql('postgres', $kill), 1, 'an idle connection is terminated');
$gateway->wait_for_log(qr/database says: terminating connection due to administrator command/);
# the server's last words arrive before its end: only the next connection is safe
$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM ($its_pid) t WHERE pid <> $old_pid")
  or die 'the gateway did not connect again';
$gateway->wait_ready;
$gate = Faults::close_gate($node, 1);
my $waiter = Wire->new($gateway)->ask('POST', $rows, key => $key, json => { gate => 1 });
Faults::wait_at_gate($node, 1, 1);
is($node->safe_psql('postgres', $kill), 1, 'and one with a call');
is($waiter->answer->{status}, 503, 'whose client learns it');
like($gateway->log, qr/lost with 1 calls in flight: terminating connection due to administrator command/, 'and the log why');
$gate->end;
is($gateway->stop, 0, 'the gateway ends cleanly');

# -- many bodies that do not end ------------------------------------------------

$gateway = Mortar::gateway($node, args => [qw(--threads 1 --max-body 1M --body-memory 4M --request-timeout 10min)]);
my $size = 1_000_000;
my $half = 'x' x ($size - 100_000);
my @uploads = map { Wire->new($gateway) } 1 .. 12;
for my $wire (@uploads) {
  $wire->send(Wire::request_text('POST', $rows, headers => [ 'content-length', $size ]) . $half);
}
$gateway->wait_for_log(qr/bodies took more memory than a thread's part of --body-memory, 4194304 bytes: \d+ uploads were ended/);
my @ended;
$gateway->until('an end of uploads', sub {
  @ended = grep { !$_->is_silent } @uploads;
  return @ended >= 8;
});
my $told = 0;
for my $wire (@ended) {
  my $farewell = eval { $wire->answer };
  $told++ if $farewell && $farewell->{status} == 503 && $farewell->{json}{code} eq 'unavailable' && $farewell->{headers}{'retry-after'};
}
cmp_ok($told, '>', 0, 'who is ended is told why, if it listens');
is(@uploads - @ended, 4, 'as many go on as the memory allows');
is($gateway->request('GET', $tables, key => $key)->{status}, 200, 'requests without a large body are served meanwhile');
for my $wire (grep { $_->is_silent } @uploads) {
  $wire->send('x' x 100_000);
  is($wire->answer->{status}, 401, 'who may go on gets an answer');
}
is($gateway->request('POST', $rows, key => $key, json => { pad => 'x' x 500_000 })->{status}, 201, 'then there is room again');
is($gateway->stop, 0, 'the gateway ends cleanly');

# -- SIGHUP: settings of the server ---------------------------------------------

# the timeout of a call is read when a session begins
sub slow_call { return $gateway->request('POST', $rows, key => $key, json => { gate => 1 })->{status}; }
$gateway = Mortar::gateway($node, args => [qw(--threads 2 --connections 2)]);
my $pids = "SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE usename = 'mortar_test_gateway'";
$gateway->until('all connections', sub { $gateway->ops('GET', '/ready')->{json}{connections} == 4 });
my %before = map { $_ => 1 } split / /, $node->safe_psql('postgres', $pids);
$node->safe_psql('postgres', "ALTER SYSTEM SET mortar.tenant_statement_timeout = '100ms'");
$node->reload;
$node->poll_query_until($Mortar::database, 'SHOW mortar.tenant_statement_timeout', '100ms') or die 'no reload';
$gateway->signal('HUP');
$gateway->until('other connections', sub {
  my @now = split / /, $node->safe_psql('postgres', $pids);
  return @now == 4 && !grep { $before{$_} } @now;
});
$gate = Faults::close_gate($node, 1);
is(slow_call(), 504, 'after SIGHUP a new setting of the server holds');
$gate->end;
is($gateway->stop, 0, 'the gateway ends cleanly');

# -- draining: whoever has calls, the ops listener answers ----------------------

$node->safe_psql('postgres', "ALTER SYSTEM RESET mortar.tenant_statement_timeout");
$node->reload;
$node->poll_query_until($Mortar::database, 'SHOW mortar.tenant_statement_timeout', '1min') or die 'no reload';
for my $round (1 .. 4) {
  $gateway = Mortar::gateway($node, args => [qw(--threads 4 --drain-timeout 10min --call-timeout 10min)]);
  $gate = Faults::close_gate($node, 1);
  my $last = Wire->new($gateway)->ask('POST', $rows, key => $key, json => { gate => 1 });
  Faults::wait_at_gate($node, 1, 1);
  $gateway->signal('TERM');
  $gateway->wait_for_log(qr/stopping/);
  $gateway->until('three threads to end', sub {
    $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE usename = 'mortar_test_gateway'") <= 6;
  });
  is($gateway->ops('GET', '/live')->{status}, 200, '/live while the last thread drains');
  is($gateway->ops('GET', '/ready')->{json}{status}, 'draining', '/ready says so');
  $gate->end;
  is($last->answer->{status}, 201, 'it has its answer');
  is($gateway->wait_exit, 0, 'and the process ends');
}

done_testing();
