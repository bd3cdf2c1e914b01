# 032_errors.pl
#   What a client sees of an error, wherever in a call it happens: never the row
#   that came before it, never the server's words, and nothing written or paid.
#
#   Faults.pm has the documents that make an insert fail.

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
log_statement = 'none'
log_checkpoints = off
mortar.tenant_statement_timeout = '1s'
CONF
my $key = Mortar::tenant($node, 'acme', credits => 1, prices => 1);
my $poor = Mortar::tenant($node, 'poor');
Faults::install($node);
my $gateway = Mortar::gateway($node, args => [qw(--threads 1 --connections 1)]);
my $tables = '/v1/acme/db/tables';
my $rows = '/v1/acme/db/rows/notes';
$gateway->request('POST', $tables, key => $key, json => { name => 'notes' });

# sentinels that must not leave the server
my $message = 'secret-message';
my $detail = 'secret-detail';

sub insert { return $gateway->request('POST', $rows, key => $key, json => $_[0]); }

sub state_of_things {
  return $node->safe_psql($Mortar::database, "SELECT (SELECT count(*) FROM mortar.doc_rows), available_uc,"
      . " (SELECT sum(quantity) FROM mortar.usage('acme')) FROM mortar.balance('acme')");
}

# unlogged(CODE): runs it; what the server's log has gained meanwhile, but for
#   what the server tells about itself
sub unlogged {
  my ($code) = @_;
  my $at = -s $node->logfile;
  $code->();
  return join '', grep { !/ LOG:  / } slurp_file($node->logfile, $at) =~ /^.*\n/mg;
}

# refused(DOCUMENT, STATUS, CODE, WHAT, words => TEXT): the insert is answered by
#   this problem, in the words of the error or in none of the server's, and leaves
#   nothing
sub refused {
  my ($doc, $status, $code, $what, %with) = @_;
  my $before = state_of_things();
  my $answer = insert($doc);
  subtest $what => sub {
    is($answer->{status}, $status, "status $status");
    is($answer->{json}{code}, $code, "code $code");
    is($answer->{json}{detail}, $with{words}, "the error's own words") if defined $with{words};
    my $all = join "\n", $answer->{content}, %{ $answer->{headers} };
    unlike($all, qr/secret-detail|hint-of-the-server|PL.pgSQL|INSERT/, 'and nothing from inside');
    unlike($all, qr/$message/, 'nor its message') unless defined $with{words};
    unlike($all, qr/location/, 'nothing of the row');
    is(state_of_things(), $before, 'nothing is written, counted or paid');
    like($gateway->log, qr/request \Q$answer->{headers}{'x-request-id'}\E: $status for SQLSTATE .*$message/,
      "the gateway's log has the rest, by request id") unless defined $with{words};
  };
  return $answer;
}

# -- after the row ------------------------------------------------------------

refused({ late => [ '23505', $message, $detail ] }, 409, 'conflict', 'a conflict at commit');
refused({ late => [ 'XX000', $message, $detail ] }, 500, 'internal_error', 'an unknown error at commit');
refused({ late => [ '53100', $message, $detail ] }, 503, 'unavailable', 'a full disk at commit');
refused({ late => [ 'MT409', 'in flight', '{"code":"busy"}' ] }, 409, 'busy', 'an error of ours at commit',
  words => 'in flight');
is(insert({ fine => 1 })->{status}, 201, 'and the next insert is done');

# -- deferred constraints -----------------------------------------------------

is(insert({ defer => ['00000'] })->{status}, 201, 'a deferred trigger runs');
is($node->safe_psql($Mortar::database, 'SELECT * FROM public.deferred'), 'mortar_tenant|acme',
  "inside the call, with the tenant's role and context");
refused({ defer => [ '23505', $message ] }, 409, 'conflict', 'one that raises');
refused([ { fine => 2 }, { defer => [ '23503', $message ] }, { fine => 3 } ], 409, 'conflict', 'one of three rows');

# -- in the handler -----------------------------------------------------------

refused({ fail => [ 'XX001', $message, $detail ] }, 500, 'internal_error', 'an unknown error');
refused({ fail => [ '42601', $message, $detail ] }, 500, 'internal_error', 'a syntax error in a function');
refused({ fail => [ '23514', $message, $detail ] }, 422, 'validation_failed', 'a check constraint');
refused({ fail => [ '22012', $message, $detail ] }, 422, 'validation_failed', 'a division by zero, with a body');
refused({ fail => [ '42501', $message, $detail ] }, 403, 'forbidden', 'a missing right');
refused({ fail => [ '57014', $message, $detail ] }, 504, 'timeout', 'a cancelled statement');
refused({ fail => [ 'MT422', 'no such colour', '{"code":"bad_colour","errors":[{"pointer":"/colour"}]}' ] },
  422, 'bad_colour', 'an error of class MT', words => 'no such colour');
is_deeply(insert({ fail => [ 'MT422', 'x', '{"errors":[{"pointer":"/colour"}]}' ] })->{json}{errors},
  [ { pointer => '/colour' } ], 'whose members are merged');
refused({ fail => [ 'MT422', 'no JSON', 'no JSON' ] }, 422, 'validation_failed', 'one whose detail is no JSON',
  words => 'no JSON');
is(insert({ fail => [ '55P03', 'x', 'x' ] })->{status}, 503, 'a lock that was not to be had in time is 503');
is(insert({ fail => [ '55000', 'x', 'x' ] })->{status}, 500, 'any other state is 500');

# -- retries ------------------------------------------------------------------

sub tries { return $node->safe_psql($Mortar::database, 'SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM public.flaky'); }
sub try_flaky {
  my ($failures) = @_;
  $node->safe_psql($Mortar::database, 'ALTER SEQUENCE public.flaky RESTART');
  return insert({ flaky => $failures });
}
is(try_flaky(2)->{status}, 201, 'a serialization failure is tried again');
is(tries(), 3, 'twice at most');
my $before = state_of_things();
my $answer = try_flaky(1000);
is($answer->{status}, 503, 'then it is 503');
is($answer->{json}{code}, 'retry_later', 'to be retried later');
like($answer->{headers}{'retry-after'}, qr/^\d+$/, 'Retry-After says when');
is(tries(), 3, 'after three tries');
is(state_of_things(), $before, 'nothing is written, counted or paid');
$node->safe_psql($Mortar::database, 'ALTER SEQUENCE public.flaky RESTART');
$before = state_of_things();
is(insert([ { flaky => 1, n => 1 }, { n => 2 } ])->{status}, 201, 'a bulk insert is repeated');
is((split /\|/, state_of_things())[0], (split /\|/, $before)[0] + 2, 'as a whole');

# -- the statement timeout ----------------------------------------------------

my $gate = Faults::close_gate($node, 3);
$before = state_of_things();
$answer = insert({ gate => 3 });
is($answer->{status}, 504, 'a call that takes too long is 504');
is($answer->{json}{code}, 'timeout', 'with its code');
is(state_of_things(), $before, 'and is undone');
is($gateway->request('GET', $rows, key => $key)->{status}, 200, 'the next call on the same connection is not disturbed');
# one connection: the second call starts when the first one's time is up
my $slow = Wire->new($gateway)->ask('POST', $rows, key => $key, json => { gate => 3 });
my $fast = Wire->new($gateway)->ask('GET', '/v1/poor/usage/me', key => $poor);
is($slow->answer->{status}, 504, 'one times out');
is($fast->answer->{status}, 200, 'and the one behind it does not');
$gate->end;

# -- the server's log ---------------------------------------------------------

my @got;
my $gained = unlogged(sub {
  @got = map { $_->{status} } map { $gateway->request(@$_) }
    [ 'GET', $tables ],
    [ 'GET', $tables, key => 'mortar_sk_nonsense' ],
    [ 'GET', $tables, key => "${key}x" ],
    [ 'GET', '/v1/poor/db/tables', key => $key ],
    [ 'GET', '/v1/poor/db/tables', key => $poor ],
    [ 'PUT', $tables, key => $key ],
    [ 'GET', '/v1/acme/no/such', key => $key ],
    [ 'GET', "$rows/%FF", key => $key ],
    [ 'GET', '/v1/acme/db/tables/absent', key => $key ],
    [ 'POST', $tables, key => $key, json => { name => 'notes' } ],
    [ 'POST', $rows, key => $key, json => { id => 1 } ],
    [ 'POST', $rows, key => $key, body => '{', headers => { 'content-type' => 'application/json' } ],
    [ 'POST', $rows, key => $key, body => '{}', headers => { 'content-type' => 'text/plain' } ],
    [ 'GET', "$rows?limit=-1", key => $key ];
});
is("@got", '401 401 401 403 402 405 404 400 404 409 422 400 415 400', 'refusals of every kind');
is($gained, '', 'leave nothing in the server log');
like(unlogged(sub { insert({ fail => [ 'XX001', $message, $detail ] }) }), qr/ERROR:  $message/,
  'an error that is none of ours does');
$node->append_conf('postgresql.conf', 'mortar.log_refusals = on');
$node->reload;
$gateway->until('a logged refusal', sub {
  unlogged(sub { $gateway->request('GET', '/v1/acme/db/tables/absent', key => $key) }) =~ /ERROR:  /;
});
pass('with mortar.log_refusals they are logged');

is(Mortar::admin($node, 'SELECT count(*) FROM mortar.verify_ledger() WHERE NOT ok'), 0, 'the books are in order');
is($gateway->stop, 0, 'the gateway ends cleanly');
done_testing();
