# 035_shutdown.pl
#   How a gateway ends, and how it refuses to begin: SIGTERM leaves no accepted
#   request unanswered, and whatever is wrong at the start is said in one sentence.

use strict;
use warnings;
use Fcntl qw(S_IMODE);
use FindBin;
use lib $FindBin::Bin;
use Faults;
use IO::Socket::INET;
use IPC::Run;
use Mortar;
use PostgreSQL::Test::Utils;
use Test::More;
use Wire;

my $node = Mortar::node('main', conf => "mortar.tenant_statement_timeout = '60s'\n");
my $key = Mortar::tenant($node, 'acme', credits => 100, prices => 1);
Faults::install($node);
my $rows = '/v1/acme/db/rows/notes';
my $gateway = Mortar::gateway($node, args => [qw(--threads 2 --connections 2 --drain-timeout 10min --queue-timeout 10min
    --call-timeout 10min)]);
$gateway->request('POST', '/v1/acme/db/tables', key => $key, json => { name => 'notes' });

sub count_rows { return $node->safe_psql($Mortar::database, 'SELECT count(*) FROM mortar.doc_rows'); }
sub ask {
  my ($wire, $doc) = @_;
  return $wire->ask('POST', $rows, key => $key, json => $doc);
}

# run_gateway(ARGUMENT...): exit code, stdout, stderr of one that ends by itself
my %env = (PGHOST => $node->host, PGPORT => $node->port, PGUSER => 'mortar_test_gateway', PGDATABASE => $Mortar::database);
sub run_gateway {
  my (@args) = @_;
  my ($out, $err) = ('', '');
  local @ENV{ keys %env } = values %env;
  my $timeout = IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default);
  IPC::Run::run([ Mortar::gateway_program(), @args ], '<', \undef, '>', \$out, '2>', \$err, $timeout);
  return ($? >> 8, $out, $err);
}

# refuses(CODE, PATTERN, WHAT, ENV, ARGUMENT...): exit code, and one sentence
sub refuses {
  my ($code, $pattern, $what, $env, @args) = @_;
  subtest $what => sub {
    local @env{ keys %$env } = values %$env;
    my ($exit, $out, $err) = run_gateway(@args);
    is($exit, $code, "exit code $code");
    is($out, '', 'nothing on stdout');
    like($err, $pattern, 'the sentence says it');
    like($err, qr/\Amortar-gateway: [^\n]+\n\z/, 'it is one, and says whose');
  };
  return;
}

# -- SIGTERM under load -------------------------------------------------------

my @idle = map { Wire->new($gateway)->ask('OPTIONS', $rows) } 1 .. 3;
is($_->answer->{status}, 204, 'an idle connection') for @idle;
my @asking = map { Wire->new($gateway)->ask('OPTIONS', $rows) } 1 .. 3;
is($_->answer->{status}, 204, 'a connection that will ask once more') for @asking;
my $gate = Faults::close_gate($node, 1);
my @running = map { ask(Wire->new($gateway), { gate => 1, n => $_ }) } 1 .. 4;
Faults::wait_at_gate($node, 1, 1);

# The gateway is stopped while more requests arrive, then told to end, then let go
# on: it learns of the requests and of the signal at the same time.  They wait at the
# gate, too, so that none is answered before every thread has read the signal, which
# the closed door tells: each thread has a listener of its own.
$gateway->signal('STOP');
my @knocking = map { Wire->new($gateway) } 1 .. 5;
ask($knocking[ $_ - 1 ], { gate => 1, n => 10 + $_ }) for 1 .. 5;
ask($asking[ $_ - 1 ], { gate => 1, n => 20 + $_ }) for 1 .. 3;
my $silent = Wire->new($gateway);
$gateway->signal('TERM');
$gateway->signal('CONT');
$gateway->wait_for_log(qr/stopping/);
$gateway->until('a closed door', sub {
  !IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $gateway->port, Timeout => 1);
});
pass('nobody new is let in');
ok($_->is_closed, 'an idle connection is ended without a word') for @idle, $silent;
my @accepted = (@running, @knocking, @asking);
is((grep { $_->is_silent } @accepted), 12, 'what is under way is waited for');
$gate->end;
for my $wire (@accepted) {
  my $answer = $wire->answer or fail('an accepted request has no answer'), next;
  is($answer->{status}, 201, 'an accepted request is done');
  is($answer->{headers}{connection}, 'close', 'as the last one of its connection');
  ok($wire->is_closed, 'and answered once');
}
is($gateway->wait_exit, 0, 'exit code 0');
like($gateway->log, qr/stopped\n\z/, 'which the log says');
unlike($gateway->log, qr/not finished/, 'with nothing left over');
is(count_rows(), 12, 'each request ran');
is($node->safe_psql($Mortar::database, "SELECT count(DISTINCT doc->'n') FROM mortar.doc_rows"), 12, 'once');
is($node->safe_psql($Mortar::database, "SELECT quantity FROM mortar.usage('acme') WHERE meter = 'requests'"),
  13, 'and is counted');

# SIGINT, with nothing to do
$gateway = Mortar::gateway($node);
$gateway->signal('INT');
is($gateway->wait_exit, 0, 'SIGINT does the same');

# Of many threads, one has a call left; most likely it is not the one that listens
# for operations.
$gateway = Mortar::gateway($node, args => [qw(--threads 16 --connections 1 --drain-timeout 10min)]);
$gate = Faults::close_gate($node, 1);
my $last = ask(Wire->new($gateway), { gate => 1 });
Faults::wait_at_gate($node, 1, 1);
$gateway->signal('TERM');
$gateway->until('draining', sub { ($gateway->ops('GET', '/ready')->{json}{status} // '') eq 'draining' });
pass('/ready says that it is draining');
is($gateway->ops('GET', '/ready')->{status}, 503, 'by 503') for 1 .. 3;
is($gateway->ops('GET', '/live')->{status}, 200, 'and /live that it lives');
$gate->end;
is($last->answer->{status}, 201, 'until the last call is done');
is($gateway->wait_exit, 0, 'exit code 0');

# a call that never ends
$gateway = Mortar::gateway($node, args => [qw(--threads 1 --drain-timeout 200ms)]);
$gate = Faults::close_gate($node, 1);
my $stuck = ask(Wire->new($gateway), { gate => 1 });
Faults::wait_at_gate($node, 1, 1);
is($gateway->stop, 0, 'when time is up, the exit code is still 0');
like($gateway->log, qr/1 requests? w\w+ not finished in time/, 'the log tells what was left');
my $answer = $stuck->answer;
is($answer && $answer->{status}, 503, 'and the caller learns it, too');
$gate->end;

# SIGHUP and the access log
my $access = $node->basedir . '/access.log';
$gateway = Mortar::gateway($node, args => [ '--access-log', $access ]);
$gateway->request('GET', "$rows?limit=1", key => $key, headers => { 'x-request-id' => 'first' });
$gateway->until('a line', sub { slurp_file($access) =~ /"request_id":"first"/ });
rename $access, "$access.1" or die "rename: $!";
$gateway->signal('HUP');
$gateway->until('the file', sub { -e $access });
$gateway->request('GET', '/v1/acme/usage/me', key => $key, headers => { 'x-request-id' => 'second' });
$gateway->until('a line', sub { slurp_file($access) =~ /"request_id":"second"/ });
unlike(slurp_file($access), qr/first/, 'SIGHUP begins a new access log');
my $line = JSON::PP::decode_json(slurp_file("$access.1") =~ /^(.*"first".*)$/m ? $1 : '');
is(join(' ', @$line{qw(method path status)}), "GET $rows 200", 'whose lines are JSON');
unlike(slurp_file($access) . slurp_file("$access.1"), qr/\Q$key\E/, 'without keys');

# -- refusing to begin --------------------------------------------------------

my $port = $gateway->port;
refuses(1, qr/port $port on 127\.0\.0\.1 is in use by another program/, 'a busy port', {}, '--port', $port, '--ops-port', 0);
refuses(1, qr/port $port on 127\.0\.0\.1 is in use by another program/, 'a busy ops port', {}, '--port', 0, '--ops-port', $port);
is($gateway->request('GET', $rows, key => $key)->{status}, 200, 'who has the port keeps it');
is($gateway->stop, 0, 'the gateway ends cleanly');

$node->safe_psql('postgres', 'CREATE DATABASE plain; CREATE DATABASE latin TEMPLATE template0 ENCODING LATIN1 LOCALE "C";'
    . ' CREATE ROLE nobody LOGIN');
$node->safe_psql('latin', 'CREATE EXTENSION mortar');
my $serve = [ '--port', 0 ];
for my $how ($serve, ['--check']) {
  my @how = @$how;
  refuses(1, qr/database "absent" does not exist/, "@how: a wrong database", { PGDATABASE => 'absent' }, @how);
  refuses(1, qr/no mortar extension\b.*run CREATE EXTENSION mortar/, "@how: no extension", { PGDATABASE => 'plain' }, @how);
  refuses(1, qr/encoding UTF8, and this one has LATIN1/, "@how: a wrong encoding", { PGDATABASE => 'latin' }, @how);
  refuses(1, qr/role may not serve as a gateway .*GRANT mortar_gateway/, "@how: a role without the right", { PGUSER => 'nobody' }, @how);
  refuses(1, qr/role "absent" does not exist/, "@how: no such role", { PGUSER => 'absent' }, @how);
  refuses(1, qr/No such file or directory.*Is the server running/, "@how: no server", { PGPORT => 1 }, @how);
}

# another contract: what the extension says of one, and that the gateway repeats it
my $hello = 'SELECT refusal FROM mortar.gateway_hello';
my ($older, $newer) = map { $node->safe_psql($Mortar::database, "$hello($_, '9.9')") } 0, 2;
like($older, qr/mortar-gateway 9\.9 speaks contract 0 .*speaks contract 1: upgrade mortar-gateway\./, 'an older gateway is to be upgraded');
like($newer, qr/speaks contract 2 .*speaks contract 1: upgrade the extension mortar\./, 'with a newer one, the extension is');
is($node->safe_psql($Mortar::database, "$hello(1, '9.9')"), '', 'the same contract is welcome in any version');
$node->safe_psql('plain', <<"SQL");
CREATE SCHEMA mortar;
GRANT USAGE ON SCHEMA mortar TO PUBLIC;
CREATE FUNCTION mortar.gateway_hello(int4, text, OUT refusal text, OUT settings text[])
  LANGUAGE sql AS \$\$ SELECT 'the gateway is of contract ' || \$1 || ', upgrade it.', NULL::text[] \$\$;
SQL
refuses(1, qr/: the gateway is of contract 1, upgrade it\.$/, "@$_: the wrong contract", { PGDATABASE => 'plain' }, @$_)
  for $serve, ['--check'];

refuses(2, qr/unknown argument "--nonsense"/, 'an unknown option', {}, '--nonsense');
refuses(2, qr/unknown argument "nonsense"/, 'an unknown word', {}, 'nonsense');
refuses(2, qr/no value after "--port"/, 'an option without its value', {}, '--port');
refuses(2, qr/--port must be from 0 to 65535, not "$_"/, "port $_", {}, '--port', $_) for qw(-1 65536 80x), '', '99999999999999999999';
refuses(2, qr/MORTAR_QUEUE_TIMEOUT must be from 1 to 600000 ms, not "0"/, 'a wrong variable', { MORTAR_QUEUE_TIMEOUT => '0' }, '--check');
refuses(2, qr/--max-body must be from 0 to 67108864 bytes, not "65M"/, 'a size beyond its limit', {}, '--max-body', '65M');
refuses(1, qr/"localhost" is not a numeric address/, 'a name as an address', {}, '--listen', 'localhost', '--port', 0);
refuses(1, qr{cannot open the access log "/absent/log": No such file}, 'an access log without its directory', {}, '--port', 0, '--access-log', '/absent/log');

# -- --check, --version, --help -----------------------------------------------

my ($exit, $out, $err) = run_gateway('--check');
is("$exit|$err", '0|', '--check of a good database succeeds');
like($out, qr/\Amortar-gateway 1\.0 \(contract 1\) is welcome: database "mortar", mortar 1\.0, PostgreSQL 15\.[^\n]+\n\z/, 'in one line');
{
  local $env{PGDATABASE} = 'absent';
  is((run_gateway('--check', '--database', "dbname=$Mortar::database"))[0], 0, '--database wins over PGDATABASE');
}
($exit, $out, $err) = run_gateway('--version');
is("$exit|$out|$err", "0|mortar-gateway 1.0 (contract 1)\n|", '--version');
($exit, $out, $err) = run_gateway('--help');
is("$exit|$err", '0|', '--help');
like($out, qr/--$_ /, "which names --$_") for qw(port database check make-pepper drain-timeout);

# -- --make-pepper ------------------------------------------------------------

my $pepper = $node->basedir . '/new-pepper';
umask 0;
($exit, $out, $err) = run_gateway('--make-pepper', $pepper);
is("$exit|$err", '0|', '--make-pepper makes one');
is(sprintf('%04o', S_IMODE((stat $pepper)[2])), '0600', 'that nobody else may read');
my $secret = slurp_file($pepper);
like($secret, qr/\A1 [0-9a-f]{64}\n\z/, 'of 32 random bytes');
unlike($out, qr/[0-9a-f]{64}/, 'which it does not print');
refuses(1, qr/"\Q$pepper\E" exists and was left alone/, 'a second one is refused', {}, '--make-pepper', $pepper);
is(slurp_file($pepper), $secret, 'and the first one is what it was');
is((run_gateway('--make-pepper', $pepper, '--add'))[0], 0, '--add adds a version');
like(slurp_file($pepper), qr/\A\Q$secret\E2 [0-9a-f]{64}\n\z/, 'behind the first');
is(sprintf('%04o', S_IMODE((stat $pepper)[2])), '0600', 'with the same mode');
refuses(1, qr/No such file/, 'a pepper in no directory', {}, '--make-pepper', '/absent/pepper');
refuses(1, qr/No such file/, '--add to no file', {}, '--make-pepper', "$pepper-absent", '--add');
refuses(1, qr/is not a pepper file/, '--add to another file', {}, '--make-pepper', $access, '--add');
refuses(2, qr/--add belongs to --make-pepper/, '--add alone', {}, '--add');
is(join(' ', grep { !/^(new-pepper|pepper|access\.log(\.1)?|pgdata|archives|backup)$/ }
    map { s{.*/}{}r } glob($node->basedir . '/*')), '', 'no temporary file is left behind');

done_testing();
