# 031_connection_loss.pl
#   Database connections that end with calls in flight: each caller gets one
#   answer, a call that may have been executed is not executed again, and the
#   gateway comes back by itself.

use strict;
use warnings;
use FindBin;
use IO::Select;
use lib $FindBin::Bin;
use Faults;
use List::Util qw(sum0);
use Mortar;
use POSIX ();
use Test::More;
use Wire;

my $node = Mortar::node('main', conf => <<'CONF');
mortar.flush_interval = '50ms'
mortar.tenant_statement_timeout = '60s'
CONF
my $key = Mortar::tenant($node, 'acme', credits => 100, prices => 1);
Faults::install($node);
my $gateway = Mortar::gateway($node, args => [qw(--threads 1 --connections 1 --queue-timeout 60s)]);
my $rows = '/v1/acme/db/rows/notes';
$gateway->request('POST', '/v1/acme/db/tables', key => $key, json => { name => 'notes' });

sub count_rows { return $node->safe_psql($Mortar::database, 'SELECT count(*) FROM mortar.doc_rows'); }
sub requests {
  return Mortar::admin($node, "SELECT quantity FROM mortar.usage('acme') WHERE meter = 'requests'");
}

# how many calls the gateway says it lost, in how many connections
sub losses {
  my @lost = $gateway->log =~ /connection lost with (\d+) calls in flight/g;
  return (sum0(@lost), scalar @lost);
}

# ask_all(N, DOCUMENT): that many POSTs at once.  The gateway is stopped while
#   they are written, so that it finds all of them in one turn of its loop.
sub ask_all {
  my ($count, $doc) = @_;
  my @wires = map { Wire->new($gateway) } 1 .. $count;
  # a connection that has had an answer is surely accepted
  is($_->ask('OPTIONS', $rows)->answer->{status}, 204, 'connected') for @wires;
  $gateway->signal('STOP');
  for my $n (0 .. $#wires) {
    $wires[$n]->ask('POST', $rows, key => $key, json => $doc, headers => [ 'x-request-id', "call-$n" ]);
  }
  $gateway->signal('CONT');
  return @wires;
}

# check_answers(WHAT, WIRES): every one has one answer, its own; returns how many
#   there are of each status
sub check_answers {
  my ($what, @wires) = @_;
  my %count;
  subtest $what => sub {
    for my $n (0 .. $#wires) {
      my $answer = $wires[$n]->answer or return fail("call $n has no answer");
      is($answer->{headers}{'x-request-id'}, "call-$n", "call $n is answered");
      $count{ $answer->{status} }++;
      if ($answer->{status} != 201) {
        is($answer->{json}{code}, 'unavailable', 'by a problem');
        ok($answer->{headers}{'retry-after'}, 'with Retry-After');
      }
    }
    $gateway->wait_ready;
    for my $n (0 .. $#wires) {
      is($wires[$n]->ask('GET', '/v1/acme/usage/me', key => $key)->answer->{status}, 200,
        "call $n is answered once, and its connection lives");
    }
  };
  return \%count;
}

# -- one connection, several calls --------------------------------------------

my $gate = Faults::close_gate($node, 5);
my ($rows_before, $requests_before) = (count_rows(), requests());
my @wires = ask_all(5, { gate => 5 });
Faults::wait_at_gate($node, 5, 1);
is((grep { $_->is_silent } @wires), 5, 'five calls are under way');
# a database that is away for the gateway: no new connection either
$node->safe_psql('postgres', 'ALTER ROLE mortar_test_gateway NOLOGIN');
is($node->safe_psql('postgres',
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'mortar_test_gateway'"),
  1, 'their only connection is terminated');
$gateway->until('/ready says no', sub { $gateway->ops('GET', '/ready')->{status} == 503 });
my $ready = $gateway->ops('GET', '/ready');
is_deeply($ready->{json}, { status => 'not ready', connections => 0, of => 1 }, '/ready says so');
is($gateway->ops('GET', '/live')->{status}, 200, '/live does not');
my $patient = Wire->new($gateway)->ask('GET', $rows, key => $key);
$gateway->until('a second refused attempt', sub { (losses())[1] >= 2 });
ok($patient->is_silent, 'a call that comes meanwhile waits');
$gate->end;
$node->safe_psql('postgres', 'ALTER ROLE mortar_test_gateway LOGIN');
is($patient->answer->{status}, 200, 'and is served when the database is back');
my $count = check_answers('five waiters, five answers', @wires);
my ($lost) = losses();
cmp_ok($lost, '>=', 1, 'calls were in flight');
is($count->{503} // 0, $lost, 'each of them is answered 503, and no other');
is($count->{201} // 0, 5 - $lost, 'what had not been sent is done later');
is(count_rows(), $rows_before + 5 - $lost, 'once');
# five questions afterwards, and the patient call
is(requests(), $requests_before + 5 - $lost + 6, 'what was lost in the middle is not counted');

# -- connections that die one by one ------------------------------------------

is($gateway->stop, 0, 'the gateway ends cleanly');
$gateway = Mortar::gateway($node, args => [qw(--threads 2 --connections 3 --queue-timeout 60s)]);
$gate = Faults::close_gate($node, 6);
Faults::wait_connected($gateway);
$rows_before = count_rows();
@wires = ask_all(12, { gate => 6 });
Faults::wait_at_gate($node, 6, 2);
is($node->safe_psql('postgres', 'SELECT pg_terminate_backend(pid) FROM pg_locks'
      . " WHERE locktype = 'advisory' AND objid = 6 AND NOT granted LIMIT 1"), 't', 'one of several is terminated');
$gateway->until('a lost connection', sub { (losses())[1] == 1 });
$gate->end;
$count = check_answers('twelve waiters, twelve answers', @wires);
($lost) = losses();
cmp_ok($lost, '>=', 1, 'one connection had calls in flight');
cmp_ok($lost, '<', 12, 'others had, too');
is($count->{503} // 0, $lost, 'those of the lost one are answered 503');
is($count->{201} // 0, 12 - $lost, 'the rest is done');
is(count_rows(), $rows_before + 12 - $lost, 'once');

# -- the server restarts under load -------------------------------------------

# Callers that go on for as long as the parent's pipe is open; each reports how
# many calls it made, and how they ended.
sub caller_loop {
  my ($stop, $report) = @_;
  my %count;
  my $wire = Wire->new($gateway);
  until (IO::Select->new($stop)->can_read(0)) {
    my $answer = $wire->ask('POST', $rows, key => $key, json => { load => 1 })->answer;
    $count{ defined $answer ? $answer->{status} : 'none' }++;
    last unless defined $answer;
  }
  print {$report} join(' ', map { "$_ $count{$_}" } sort keys %count), "\n";
  return;
}

$requests_before = requests();
my @callers;
pipe(my $stop, my $go) or die "pipe: $!";
for (1 .. 3) {
  pipe(my $reader, my $writer) or die "pipe: $!";
  my $pid = fork() // die "fork: $!";
  if ($pid == 0) {
    close $go;
    eval { caller_loop($stop, $writer); 1 } or print {$writer} "died: $@";
    close $writer;
    POSIX::_exit(0);
  }
  push @callers, { pid => $pid, reader => $reader };
}
close $stop;

# more_rows(N): waits for N more rows of the load
my $loaded = "SELECT count(*) FROM mortar.doc_rows WHERE doc ? 'load'";
sub more_rows {
  my ($more) = @_;
  my $now = $node->safe_psql($Mortar::database, $loaded);
  $node->poll_query_until($Mortar::database, "SELECT ($loaded) >= $now + $more") or die 'no load';
  return;
}
more_rows(20);
$node->restart('fast');
$gateway->wait_ready;
more_rows(20);
$node->restart('fast');
$gateway->wait_ready;
more_rows(20);
close $go;
my %total;
for my $caller (@callers) {
  my $said = readline $caller->{reader};
  waitpid($caller->{pid}, 0);
  chomp $said;
  note("a caller: $said");
  my %part = split / /, $said;
  $total{$_} += $part{$_} for keys %part;
}
my $done = $node->safe_psql($Mortar::database, $loaded);
is(join(' ', grep { !/^(201|503)$/ } sort keys %total), '', 'each call under load is answered, by 201 or 503');
cmp_ok($done, '>=', $total{201}, 'no row that was promised is missing');
cmp_ok($done, '<=', $total{201} + ($total{503} // 0), 'no call was executed twice');
my $counted = requests() - $requests_before;
is($counted, $done, 'and each row is counted: two clean restarts lost nothing');
is(Mortar::admin($node, 'SELECT count(*) FROM mortar.verify_ledger() WHERE NOT ok'), 0, 'the books are in order');
is(Mortar::admin($node, 'SELECT bool_and(clean) FROM mortar.epochs WHERE clean IS NOT NULL'), 't', 'both stops were clean');

is($gateway->stop, 0, 'the gateway ends cleanly');
done_testing();
