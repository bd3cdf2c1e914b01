# 034_limits_queue.pl
#   More calls than the pool and the queue can take: the surplus is refused at
#   once, the rest is done, other tenants are served, and the database never sees
#   more connections than the pool has.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Faults;
use Mortar;
use PostgreSQL::Test::Utils;
use Test::More;
use Wire;

my $node = Mortar::node('main', conf => <<'CONF');
mortar.tenant_statement_timeout = '60s'
log_connections = on
CONF
my $key = Mortar::tenant($node, 'acme', credits => 100, prices => 1);
my $key_of_other = Mortar::tenant($node, 'other', credits => 1);
Faults::install($node);
my $rows = '/v1/acme/db/rows/notes';
my $gateway;

sub count_rows { return $node->safe_psql($Mortar::database, 'SELECT count(*) FROM mortar.doc_rows'); }
# all connections that the gateways have opened so far
sub connections {
  return scalar(() = slurp_file($node->logfile) =~ /connection authorized: user=mortar_test_gateway/g);
}
sub ask { return Wire->new($gateway)->ask('POST', $rows, key => $key, json => $_[0]); }
sub ask_other { return Wire->new($gateway)->ask('POST', '/v1/other/db/rows/notes', key => $key_of_other, json => $_[0]); }
sub other { return Wire->new($gateway)->ask('GET', '/v1/other/db/tables', key => $key_of_other); }

# answered(N, WIRES): waits until N of them are; returns those, then the others
sub answered {
  my ($count, @wires) = @_;
  my (@done, @open);
  $gateway->until("$count answers", sub {
    @done = grep { !$_->is_silent } @wires;
    @open = grep { $_->is_silent } @wires;
    return @done >= $count;
  });
  return (\@done, \@open);
}

# -- a full queue -------------------------------------------------------------

# three connections that take one call each, of which a tenant gets two, and four
# places to wait
$gateway = Mortar::gateway($node,
  args => [qw(--threads 1 --connections 3 --depth 1 --queue 4 --queue-timeout 10min --call-timeout 10min)]);
$gateway->request('POST', '/v1/acme/db/tables', key => $key, json => { name => 'notes' });
my $gate = Faults::close_gate($node, 1);
Faults::wait_connected($gateway);
my @running = map { ask({ gate => 1, n => $_ }) } 1 .. 2;
Faults::wait_at_gate($node, 1, 2);
my @crowd = map { ask({ gate => 1, n => $_ }) } 3 .. 20;
my ($refused, $waiting) = answered(14, @crowd);
is(@$refused, 14, 'of eighteen calls beyond the pool, fourteen are refused');
for my $wire (@$refused) {
  my $answer = $wire->answer;
  subtest 'refused' => sub {
    is($answer->{status}, 503, 'by 503');
    is($answer->{json}{code}, 'unavailable', 'with a code');
    like($answer->{headers}{'retry-after'}, qr/^[1-9]\d*$/, 'and Retry-After');
    is($answer->{headers}{'content-type'}, 'application/problem+json', 'as a problem');
    is($wire->ask('OPTIONS', 'http://test/live')->answer->{status}, 404, 'on a connection that lives');
  };
}
is((grep { $_->is_silent } @running, @$waiting), 6, 'two run and four wait, while the refusals are out');
is(connections(), 4, 'on no more than three connections, after the one that looked at the database at the start');
is($gateway->ops('GET', '/ready')->{status}, 200, 'the gateway is ready: a full queue is no loss of the database');
is(other()->answer->{status}, 200, 'another tenant is served all the same');
$gate->end;
is(join(' ', map { $_->answer->{status} } @running, @$waiting), '201 201 201 201 201 201', 'all six are done');
is(count_rows(), 6, 'once, and none of the refused');
is(other()->answer->{status}, 200, 'and there is room again');
is($node->safe_psql($Mortar::database, "SELECT count(DISTINCT doc->'n') FROM mortar.doc_rows"), 6, 'each is its own');

# a queue that one tenant has filled, when the last connection is taken as well
$gate = Faults::close_gate($node, 1);
my $gate_of_other = Faults::close_gate($node, 2);
$gateway->request('POST', '/v1/other/db/tables', key => $key_of_other, json => { name => 'notes' });
@running = map { ask({ gate => 1 }) } 1 .. 2;
Faults::wait_at_gate($node, 1, 2);
push @running, ask_other({ gate => 2 });
Faults::wait_at_gate($node, 2, 1);
($refused, $waiting) = answered(1, map { ask({ gate => 1 }) } 1 .. 5);
is($refused->[0]->answer->{status}, 503, 'the queue is full');
my $guest = other();
($refused, $waiting) = answered(1, @$waiting);
is(join(' ', map { $_->answer->{status} } @$refused), '503', 'one call of a tenant that fills it gives way to another tenant');
$gate_of_other->end;
is($guest->answer->{status}, 200, 'which is served as soon as it can be');
is((grep { $_->is_silent } @$waiting), 3, 'before those that came earlier');
$gate->end;
is(join(' ', map { $_->answer->{status} } @running, @$waiting), '201 201 201 201 201 201', 'all others are done');
$node->safe_psql($Mortar::database, "DELETE FROM mortar.doc_rows WHERE NOT doc ? 'n'");

# -- waiting too long ---------------------------------------------------------

is($gateway->stop, 0, 'the gateway ends cleanly');
$gateway = Mortar::gateway($node,
  args => [qw(--threads 1 --connections 1 --depth 1 --queue 2 --queue-timeout 200ms --call-timeout 10min)]);
$gate = Faults::close_gate($node, 1);
my $first = ask({ gate => 1 });
Faults::wait_at_gate($node, 1, 1);
my @late = map { ask({ n => $_ }) } 1 .. 2;
is(join(' ', map { $_->answer->{status} } @late), '503 503', 'who waits too long for a connection is refused');
ok($first->is_silent, 'while the call that has one goes on');
$gate->end;
is($first->answer->{status}, 201, 'and is done');
is(count_rows(), 7, 'alone');

# -- no answer at all ---------------------------------------------------------

is($gateway->stop, 0, 'the gateway ends cleanly');
$gateway = Mortar::gateway($node, args => [qw(--threads 1 --connections 1 --call-timeout 300ms)]);
$gate = Faults::close_gate($node, 1);
my $stuck = ask({ gate => 1 })->answer;
is($stuck->{status}, 503, 'a connection that does not answer is given up');
$gateway->wait_ready;
is(other()->answer->{status}, 200, 'and replaced');
$gate->end;

# -- one slow call among others -----------------------------------------------

is($gateway->stop, 0, 'the gateway ends cleanly');
$gateway = Mortar::gateway($node, args => [qw(--threads 1 --connections 2 --queue-timeout 10min --call-timeout 10min)]);
$gate = Faults::close_gate($node, 2);
Faults::wait_connected($gateway);
my $slow = ask({ gate => 2 });
Faults::wait_at_gate($node, 2, 1);
is(other()->answer->{status}, 200, 'a slow call does not delay another tenant') for 1 .. 20;
ok($slow->is_silent, 'it is still under way');
$gate->end;
is($slow->answer->{status}, 201, 'and is done');

# -- one tenant with more slow calls than there are connections ---------------

$gate = Faults::close_gate($node, 2);
my $connections = connections();
my @flood = map { ask({ gate => 2 }) } 1 .. 40;
Faults::wait_at_gate($node, 2, 1);
my $fast = other();
# the gate stays closed, so an answer shows that the flood is not in its way
my $served = eval {
  local $SIG{ALRM} = sub { die "still waiting\n" };
  alarm 10;
  my $answer = $fast->answer;
  alarm 0;
  $answer->{status};
};
is($served, 200, 'a flood of slow calls of one tenant leaves room for another');
is(connections(), $connections, 'on the connections that were there');
$gate->end;
is(join(' ', map { $_->answer->{status} } @flood), join(' ', (201) x 40), 'the flood is done in the end');

is($gateway->stop, 0, 'the gateway ends cleanly');
is(Mortar::admin($node, 'SELECT count(*) FROM mortar.verify_ledger() WHERE NOT ok'), 0, 'the books are in order');
done_testing();
