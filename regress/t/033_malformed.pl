# 033_malformed.pl
#   Bytes that no client should send.  Whatever they are, the gateway answers or
#   closes, goes on serving, and runs no request that hides behind another one:
#   the one that hides here inserts a row, and rows are counted at the end.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Faults;
use Mortar;
use PostgreSQL::Test::Utils;
use Test::More;
use Wire;

my $node = Mortar::node('main');
my $key = Mortar::tenant($node, 'acme', credits => 100, prices => 1);
Faults::install($node);
my $cap = 65536;
my $gateway = Mortar::gateway($node, args => [ qw(--threads 1 --connections 3 --max-body), $cap ]);
my $tables = '/v1/acme/db/tables';
my $rows = '/v1/acme/db/rows/notes';
$gateway->request('POST', $tables, key => $key, json => { name => 'notes' });

my $auth = "host: test\r\nauthorization: Bearer $key\r\n";
my $json = "content-type: application/json\r\n";
my $hidden = Wire::request_text('POST', $rows, key => $key, json => { hidden => 1 });

sub count_rows {
  my ($member) = @_;
  return $node->safe_psql($Mortar::database, "SELECT count(*) FROM mortar.doc_rows WHERE doc ? '$member'");
}
sub serves { return $gateway->request('GET', $tables, key => $key)->{status} == 200; }

# closes(BYTES, STATUS, WHAT): the answer has this status, and then the connection
#   is closed without another byte
sub closes {
  my ($bytes, $status, $what) = @_;
  subtest $what => sub {
    my $wire = Wire->new($gateway);
    $wire->send($bytes);
    my $answer = $wire->answer or return fail('it is answered');
    is($answer->{status}, $status, "status $status");
    is($answer->{headers}{connection}, 'close', 'and announces the end');
    ok($wire->is_closed, 'which comes, and nothing else');
    ok(serves(), 'the gateway serves');
  };
  return;
}

# answers(STATUS, CODE, WHAT, REQUEST...): a problem, and the connection lives
sub answers {
  my ($status, $code, $what, @request) = @_;
  subtest $what => sub {
    my $wire = Wire->new($gateway);
    my $answer = $wire->ask(@request)->answer;
    is($answer->{status}, $status, "status $status");
    is($answer->{json}{code}, $code, "code $code");
    is($wire->ask('GET', $tables, key => $key)->answer->{status}, 200, 'the connection lives');
  };
  return;
}

is(do { my $open = Wire->new($gateway); $open->send($hidden); $open->answer('POST')->{status} }, 201,
  'in the open, the hidden request inserts a row');

# -- framing: one request that could be two -----------------------------------

sub post { return join "\r\n", "POST $rows HTTP/1.1", @_, '', ''; }
my @post = ("host: test", "authorization: Bearer $key", 'content-type: application/json');
my $chunked = 'transfer-encoding: chunked';
my $braces = "2\r\n{}\r\n0\r\n\r\n"; # a good body, if read in chunks

closes(post(@post, 'content-length: 2', 'content-length: ' . length $hidden) . "{}$hidden", 400, 'two Content-Length');
closes(post(@post, 'content-length: 2', 'content-length: 2') . "{}$hidden", 400, 'two Content-Length that agree');
closes(post(@post, 'content-length: 2, 2') . "{}$hidden", 400, 'a list of Content-Length');
closes(post(@post, 'content-length: 5', $chunked) . "$braces$hidden", 400, 'Content-Length, then Transfer-Encoding');
closes(post(@post, $chunked, 'content-length: 5') . "$braces$hidden", 400, 'Transfer-Encoding, then Content-Length');
closes(post(@post, 'transfer-encoding : chunked') . "$braces$hidden", 400, 'a space before the colon');
closes(post(@post, "transfer-encoding:\x0bchunked") . "$braces$hidden", 400, 'a vertical tab after it');
closes(post(@post, $chunked, $chunked) . "$braces$hidden", 400, 'two Transfer-Encoding');
closes(post(@post, 'transfer-encoding: gzip, chunked') . "$braces$hidden", 400, 'gzip, chunked');
closes(post(@post, 'transfer-encoding: identity', 'content-length: 2') . "{}$hidden", 400, 'identity');
closes(post(@post, 'transfer-encoding: xchunked') . "$braces$hidden", 400, 'xchunked');
closes(post(@post, 'transfer-encoding:', ' chunked') . "$braces$hidden", 400, 'a folded line');
closes(post(@post, 'content-length: +2') . "{}$hidden", 400, 'Content-Length: +2');
closes(post(@post, 'content-length: 0x2') . "{}$hidden", 400, 'Content-Length: 0x2');
closes(post(@post, 'content-length: -1') . "{}$hidden", 400, 'Content-Length: -1');
closes(post(@post, 'content-length:') . $hidden, 400, 'an empty Content-Length');
closes(post(@post, 'host: other', 'content-length: 2') . "{}$hidden", 400, 'two Host');
closes("GET $tables HTTP/1.1\r\nauthorization: Bearer $key\r\n\r\n$hidden", 400, 'no Host');
closes("GET $tables HTTP/1.1\n${auth}\r\n$hidden", 400, 'a bare LF after the request line');
closes("GET $tables HTTP/1.1\r\nhost: test\nauthorization: Bearer $key\r\n\r\n$hidden", 400, 'a bare LF after a header');
closes("GET $tables HTTP/1.1\r\n${auth}\n$hidden", 400, 'a bare LF at the end of the head');
closes(join("\r\n", "POST $rows HTTP/1.0", @post, $chunked, '', "$braces$hidden"), 400, 'chunks in HTTP/1.0');

# -- chunks -------------------------------------------------------------------

my $head = post(@post, $chunked);
my $wire = Wire->new($gateway);
$wire->send("${head}7\r\n{\"chunk\r\n6;x=y\r\ned\":1}\r\n0\r\n\r\n");
is($wire->answer('POST')->{status}, 201, 'a chunked body is read');
ok($wire->is_closed, 'and ends the connection');
is(count_rows('chunked'), 1, 'its row is there');
closes("${head}2\r\n{}\r\n0\r\n\r\n$hidden", 201, 'nothing can hide behind one');

# lenient(BYTES, WHAT): the parser may take the chunk or not, but the connection
#   ends with it
sub lenient {
  my ($chunks, $what) = @_;
  $wire = Wire->new($gateway);
  $wire->send($head . $chunks . $hidden);
  my $answer = $wire->answer('POST');
  ok(!defined $answer || ($answer->{status} =~ /^(201|4\d\d)$/ && $wire->is_closed), "$what ends the connection");
  ok(serves(), 'and nothing else');
  return;
}
lenient("2\n{}\r\n0\r\n\r\n", 'a chunk size that ends in a bare LF');
lenient("2\r\n{}\n0\r\n\r\n", 'a chunk that ends in a bare LF');
lenient("2;\n\r\n{}\r\n0\r\n\r\n", 'a bare LF in a chunk extension');
lenient("2\r\n{}\r\n0\n\n", 'a last chunk that ends in bare LFs');
lenient("2 \r\n{}\r\n0\r\n\r\n", 'a space after a chunk size');
lenient("0x2\r\n{}\r\n0\r\n\r\n", 'a chunk size with 0x');
lenient("-2\r\n{}\r\n0\r\n\r\n", 'a negative chunk size');
lenient("10000000000000002\r\n{}\r\n0\r\n\r\n", 'a chunk size of 17 digits');
lenient("ffffffffffffffff\r\n" . ' ' x $cap, 'a chunk size of 2^64 - 1');
lenient("zz\r\n{}\r\n0\r\n\r\n", 'a chunk size that is no number');
lenient("2\r\n{}X\r\n0\r\n\r\n", 'a chunk longer than its size');

# -- not even a request -------------------------------------------------------

sub never_served {
  my ($bytes, $what) = @_;
  $wire = Wire->new($gateway);
  $wire->send($bytes);
  my $answer = $wire->answer;
  ok(!defined $answer || $answer->{status} == 400, "$what: 400 or nothing");
  ok($wire->is_closed && serves(), 'and the end of that connection');
  return;
}
never_served("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" . "\x00" x 500, 'a TLS greeting');
never_served("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 'an HTTP/2 preface');
never_served("GET $tables\r\n\r\n", 'HTTP/0.9');
never_served("GET $tables HTTP/1.1 HTTP/1.1\r\n$auth\r\n", 'a space in the target');
never_served("GET $tables HTTP/3.7\r\n$auth\r\n", 'a version from the future');
never_served("GET $tables HTTP/1.1\r\n$auth: x\r\n\r\n", 'a header without a name');
never_served("GET $tables HTTP/1.1\r\n${auth}x y: z\r\n\r\n", 'a header name with a space');
never_served("GET $tables HTTP/1.1\r\n${auth}nocolon\r\n\r\n", 'a line without a colon');
never_served("GET $tables HTTP/1.1\r\n${auth}x: a\x00b\r\n\r\n", 'NUL in a header');
never_served("GET $tables HTTP/1.1\r\n${auth}x: a\x01b\r\n\r\n", 'a control character in a header');
never_served("GET $tables HTTP/1.1\r\n${auth}x: a\x7fb\r\n\r\n", 'DEL in a header');
never_served("GET $tables HTTP/1.1\r\n${auth}x: a\rb\r\n\r\n", 'a bare CR in a header');
never_served("GET $tables\x00 HTTP/1.1\r\n$auth\r\n", 'NUL in the target');
never_served("G\x00T $tables HTTP/1.1\r\n$auth\r\n", 'NUL in the method');
never_served("G(T $tables HTTP/1.1\r\n$auth\r\n", 'a method that is no token');
never_served("\r\n\r\n\r\nGET $tables HTTP/1.1\r\n$auth\r\n", 'empty lines before a request');

# -- encodings ----------------------------------------------------------------

for my $bad (qw(%00 a%00b %FF %C0%80 %ED%A0%80 %F4%90%80%80 % %4 %zz .. %2e%2e . %2E a%2Fb)) {
  answers(400, 'invalid_encoding', "$bad as a table", 'GET', "/v1/acme/db/rows/$bad", key => $key);
  answers(400, 'invalid_encoding', "$bad as a tenant", 'GET', "/v1/$bad/db/tables", key => $key);
}
answers(400, 'invalid_encoding', "$_ in the query", 'GET', "$rows?limit=$_", key => $key) for qw(%00 %FF %C0%80);
answers(400, 'invalid_encoding', 'a raw byte 0xFF in the target', 'GET', "$rows/\xff", key => $key);
answers(400, 'invalid_encoding', 'a header that is not UTF-8', 'GET', $tables, key => $key, headers => [ 'x-a', "a\xffb" ]);
is(Wire->new($gateway)->ask('GET', $tables, key => $key, headers => [ 'x-a', $$_[0] ])->answer->{status}, 200,
  "$$_[1] in a header is fine") for [ "\xc3\xa9", 'UTF-8' ], [ "a\tb", 'a tab' ], [ '', 'nothing' ];
answers(400, 'invalid_encoding', 'a body that is not UTF-8', 'POST', $rows, key => $key,
  headers => [ 'content-type', 'application/json' ], body => "{\"a\":\"\xff\"}");

# -- targets ------------------------------------------------------------------

answers(404, 'not_found', "$_ is no path", 'GET', $_, key => $key)
  for qw(/ /v1 /v1/ /v1//db/tables //v1/acme/db/tables /v1/acme /v1/acme/ /v1/acme//tables /v1/acme/db/tables/
  /v1/acme/db/../db/tables /v2/acme/db/tables /V1/acme/db/tables * acme http://test https://test/ /live /ready);
my $absolute = "http://elsewhere.example$tables?limit=1";
is(Wire->new($gateway)->ask('GET', $absolute, key => $key)->answer->{status}, 200, 'an absolute target is served');
is(Wire->new($gateway)->ask('GET', "HTTP://x$tables", key => $key)->answer->{status}, 200, 'in capitals, too');
answers(404, 'not_found', 'what an authority has of a path is none', 'GET', "http:/$tables", key => $key);
answers(404, 'not_found', 'CONNECT', 'CONNECT', 'test:443', key => $key);

# -- methods ------------------------------------------------------------------

answers(405, 'method_not_allowed', "method $_", $_, $tables, key => $key)
  for 'get', 'Get', 'TRACE', 'BREW', 'X' x 300, q{!#$%&'*+-.^_`|~};

# -- sizes --------------------------------------------------------------------

# statuses(LIMIT, MAKE): the statuses just below, at and above it
sub statuses {
  my ($limit, $make) = @_;
  return join ' ', map { Wire->new($gateway)->ask($make->($limit + $_))->answer->{status} } -1, 0, 1;
}
sub target_of { my ($n) = @_; return "$rows/" . 'x' x ($n - length "$rows/"); }
is(statuses(8192, sub { ('GET', target_of($_[0]), key => $key) }), '404 404 414', 'a target has at most 8192 bytes');
my $bare = length Wire::request_text('GET', $tables, key => $key, headers => [ 'x-a', '' ]);
is(statuses(16384, sub { ('GET', $tables, key => $key, headers => [ 'x-a', 'x' x ($_[0] - $bare) ]) }),
  '200 200 431', 'a head has at most 16384 bytes');
closes("GET $tables HTTP/1.1\r\n${auth}x: " . 'x' x 20000 . "\r\n\r\n$hidden", 431, 'a head of 20000 bytes');
closes('GET ' . target_of(9000) . " HTTP/1.1\r\n$auth\r\n$hidden", 414, 'a target of 9000 bytes');
never_served("GET $tables HTTP/1.1\r\n$auth" . "x: y\r\n" x 200 . "\r\n", '200 headers');
never_served("GET $tables HTTP/1.1\r\n${auth}x: " . 'x' x 600_000 . "\r\n\r\n", 'a head of 600 kB');

my @body = (key => $key, headers => [ 'content-type', 'application/json' ]);
is(statuses($cap, sub { ('POST', $rows, @body, body => ' ' x ($_[0] - 2) . '{}') }), '201 201 413',
  'a body has at most the bytes that the configuration says');
closes(post(@post, 'content-length: ' . ($cap + 1)), 413, 'a Content-Length beyond, before the body');
closes(post(@post, 'content-length: 999999999999999999999999'), 400, 'a Content-Length beyond all numbers');
lenient(sprintf("%x\r\n%s", $cap + 1, ' ' x ($cap + 1)), 'chunks beyond');

# -- Expect -------------------------------------------------------------------

$wire = Wire->new($gateway);
$wire->send(post(@post, 'expect: 100-continue', 'content-length: 14'));
is($wire->answer->{status}, 100, 'a client that waits for 100 gets it');
$wire->send('{"expected":1}');
is($wire->answer('POST')->{status}, 201, 'and then its answer');
is($wire->ask('GET', $tables, key => $key)->answer->{status}, 200, 'on a connection that lives');
closes(post(@post, 'expect: 100-continue', 'content-length: ' . ($cap + 1)), 413, 'no 100 for a body beyond the cap');
closes(post(@post, 'expect: 200-ok', 'content-length: 2'), 400, 'another expectation is refused');

# -- clients that leave -------------------------------------------------------

my $before = $gateway->request('GET', '/v1/acme/usage/me', key => $key)->{json}{requests};
for my $leave (qw(close reset)) {
  for my $bytes ('', 'GE', "GET $tables HTTP/1.1\r\nhost: te", post(@post, 'content-length: 14'),
    post(@post, 'content-length: 14') . '{"half":', "${head}e\r\n{\"half\":") {
    $wire = Wire->new($gateway);
    $wire->send($bytes);
    $wire->$leave;
  }
}
ok(serves(), 'clients that leave half way disturb nobody');
is(count_rows('half'), 0, 'and half a request is none');
my $gate = Faults::close_gate($node, 9);
Faults::wait_connected($gateway);
for my $leave (qw(close reset)) {
  $wire = Wire->new($gateway)->ask('POST', $rows, key => $key, json => { gate => 9, left => $leave });
  Faults::wait_at_gate($node, 9, $leave eq 'close' ? 1 : 2);
  $wire->$leave;
}
$gate->end;
$node->poll_query_until($Mortar::database, "SELECT count(*) = 2 FROM mortar.doc_rows WHERE doc ? 'left'")
  or die 'calls were lost with their clients';
pass('a call whose client leaves is finished');
ok(serves(), 'and its connection to the database goes on');
is($gateway->request('GET', '/v1/acme/usage/me', key => $key)->{json}{requests}, $before + 4 + 1,
  'calls that were cut off before they began are not counted');

$wire = Wire->new($gateway);
$wire->send(Wire::request_text('POST', $rows, key => $key, json => { half_close => 1 }));
shutdown($wire->{socket}, 1);
is($wire->answer('POST')->{status}, 201, 'a client that only stops sending gets its answer');

# -- several requests on one connection ---------------------------------------

$wire = Wire->new($gateway);
$wire->send(join '', map { Wire::request_text('POST', $rows, key => $key, json => { piped => $_ },
    headers => [ 'x-request-id', "piped-$_" ]) } 1 .. 5);
is(join(' ', map { my $a = $wire->answer('POST'); "$a->{headers}{'x-request-id'} $a->{status}" } 1 .. 5),
  join(' ', map { "piped-$_ 201" } 1 .. 5), 'pipelined requests are answered in order');
is(count_rows('piped'), 5, 'and each runs once');
$wire = Wire->new($gateway);
$wire->send(Wire::request_text('GET', $tables, key => $key, headers => [ 'connection', 'close' ]) . $hidden);
is($wire->answer->{headers}{connection}, 'close', 'Connection: close is heeded');
ok($wire->is_closed, 'and what comes after is not run');
is(Wire->new($gateway)->ask('GET', $tables, key => $key,
    headers => [ 'connection', 'Upgrade, HTTP2-Settings', 'upgrade', 'h2c', 'http2-settings', 'AAMAAABkAAQAAP__' ])
    ->answer->{status}, 200, 'nobody is upgraded to HTTP/2');

# -- request ids, credentials -------------------------------------------------

sub id_for {
  my ($id) = @_;
  return Wire->new($gateway)->ask('GET', $tables, headers => [ 'x-request-id', $id ])->answer->{headers}{'x-request-id'};
}
is(id_for($_), $_, length($_) . ' characters are a request id') for 'a', 'A_b-9', 'x' x 64;
like(id_for($_), qr/^[0-9a-f]{32}$/, "\"$_\" is none, and replaced") for 'x' x 65, 'a b', 'a.b', '', "caf\xc3\xa9";
answers(401, 'invalid_credential', 'two different keys', 'GET', $tables, key => $key,
  headers => [ 'authorization', "Bearer ${key}x" ]);

# -- deadline -----------------------------------------------------------------

is($gateway->stop, 0, 'the gateway ends cleanly');
$gateway = Mortar::gateway($node, args => [qw(--threads 1 --request-timeout 200ms)]);
for my $bytes ("GET $tables HTTP/1.1\r\nhost: te", post(@post, 'content-length: 14') . '{"half":') {
  $wire = Wire->new($gateway);
  $wire->send($bytes);
  my $answer = $wire->answer;
  ok(!defined $answer || $answer->{status} =~ /^4/, 'a request that does not go on is ended');
  ok(!defined $answer || $wire->is_closed, 'with its connection');
}
ok(serves(), 'others are served');

is(count_rows('hidden'), 1, 'hidden, it never ran');
is(count_rows('half'), 0, 'nor half of one');
is(Mortar::admin($node, 'SELECT count(*) FROM mortar.verify_ledger() WHERE NOT ok'), 0, 'the books are in order');
unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC/, 'no backend crashed');
is($gateway->stop, 0, 'the gateway ends cleanly');
done_testing();
