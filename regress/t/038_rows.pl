# 038_rows.pl
#   Rows through gateways: pages that go on at another gateway, after a restart
#   and with a new pepper; PUT; bulk inserts; names that need encoding.

use strict;
use warnings;
use utf8;
use FindBin;
use lib $FindBin::Bin;
use Mortar;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = Mortar::node('main');
my $key = Mortar::tenant($node, 'acme', credits => 100, prices => 1);
my @gateways = map { Mortar::gateway($node, args => [qw(--threads 1 --connections 1)]) } 0 .. 1;
my $pepper = $node->basedir . '/pepper';

sub ask {
  my ($number, $method, $path, %with) = @_;
  return $gateways[$number]->request($method, $path, key => $key, %with);
}

# next_page(ANSWER): where its Link leads, undef on the last page
sub next_page {
  my ($answer) = @_;
  return undef unless defined $answer->{headers}{link};
  return $answer->{headers}{link} =~ m{^<(/v1/acme/[!-~]+)>; rel="next"$} ? $1 : die "Link: $answer->{headers}{link}";
}

sub members { my ($answer, $name) = @_; return [ map { $_->{$name} } @{ $answer->{json} } ]; }

# -- a table with any name, at once known to the other gateway -------------------

my $created = ask(0, 'POST', '/v1/acme/db/tables', json => { name => 'заметки & "x, y" 📦' });
is($created->{status}, 201, 'a table named in several scripts');
my $table = $created->{headers}{location};
like($table, qr{^/v1/acme/db/tables/[A-Za-z0-9%._~-]+$}, 'whose Location is encoded');
is(ask(1, 'GET', $table)->{json}{name}, 'заметки & "x, y" 📦', 'and leads to it');
(my $rows = $table) =~ s{/tables/}{/rows/};
is(ask(1, 'POST', $rows, json => [ map { { n => $_, 'имя' => "№ $_" } } 1 .. 7 ])->{status}, 201, 'rows, through the other gateway');

# -- pages ----------------------------------------------------------------------

my $page = ask(0, 'GET', "$rows?limit=2");
is_deeply(members($page, 'n'), [ 1, 2 ], 'the first page');
is($page->{headers}{'content-range'}, '0-1/*', 'says what it is');
my $second = next_page($page);
$page = ask(1, 'GET', $second);
is_deeply(members($page, 'имя'), [ '№ 3', '№ 4' ], 'the second one, at the other gateway');
my $third = next_page($page);
$node->restart;
$_->wait_ready for @gateways;
$page = ask(0, 'GET', $third);
is_deeply(members($page, 'n'), [ 5, 6 ], 'the third one, after a restart');
$page = ask(1, 'GET', next_page($page));
is_deeply(members($page, 'n'), [7], 'the last one');
is(next_page($page), undef, 'has no Link');
my $elsewhere = ask(0, 'GET', "$rows?limit=2", headers => { origin => 'https://example.com' });
like($elsewhere->{headers}{'access-control-expose-headers'}, qr/\bLink\b/, 'a page of another origin may read the Link');

# a changed one, and one of another list
(my $changed = $second) =~ s/(.)$/$1 eq 'A' ? 'B' : 'A'/e;
for my $case ([ $changed, 'changed' ], [ "/v1/acme/db/tables?" . ($second =~ /(cursor=.*)/)[0], 'of another list' ]) {
  my $refused = ask(0, 'GET', $case->[0]);
  is($refused->{status}, 400, "a cursor $case->[1]");
  is($refused->{json}{code}, 'invalid_cursor', 'is named so');
  is($refused->{json}{errors}[0]{parameter}, 'cursor', 'with its parameter');
}

# a new pepper: what was given out stays good as long as the old one is there
append_to_file($pepper, '2 ' . '5a' x 32 . "\n");
$node->reload;
for my $number (0, 1) {
  $gateways[$number]->until('the new pepper', sub { next_page(ask($number, 'GET', "$rows?limit=2")) ne $second });
}
is_deeply(members(ask(0, 'GET', $second), 'n'), [ 3, 4 ], 'a cursor made with the older of two peppers');
my $newer = next_page(ask(0, 'GET', "$rows?limit=2"));
is_deeply(members(ask(0, 'GET', $newer), 'n'), [ 3, 4 ], 'and one made with the newer');
my $new_key = Mortar::admin($node, "SELECT mortar.create_key('acme', 'newer')");
Mortar::write_file($pepper, join('', grep { /^2 / } split /^/, slurp_file($pepper)));
$node->reload;
for my $number (0, 1) {
  $gateways[$number]->until('the old pepper to go', sub { ask($number, 'GET', $second, key => $new_key)->{status} == 400 });
}
is(ask(0, 'GET', $second, key => $new_key)->{json}{code}, 'invalid_cursor', 'one whose pepper is gone is not');
is_deeply(members(ask(0, 'GET', $newer, key => $new_key), 'n'), [ 3, 4 ], 'the newer one is');
$key = $new_key;

# -- PUT --------------------------------------------------------------------------

my $row = "$rows/9b2f4f0e-6c1d-4d5a-8f0e-0123456789ab";
my $put = ask(0, 'PUT', $row, json => { 'a.b,c"d' => 'é', '📦' => 1 });
is($put->{status}, 201, 'PUT of a new row');
is($put->{headers}{location}, $row, 'says where it is');
is($put->{content}, '', 'and no more');
is(ask(1, 'GET', $put->{headers}{location})->{json}{'a.b,c"d'}, 'é', 'where it is found');
$put = ask(1, 'PUT', $row, json => { id => '9b2f4f0e-6c1d-4d5a-8f0e-0123456789ab', n => 8 }, headers => { prefer => 'return=representation' });
is($put->{status}, 200, 'PUT of an old row');
is($put->{headers}{location}, undef, 'has no Location');
is_deeply([ sort keys %{ $put->{json} } ], [qw(created_at id n updated_at)], 'replaces all of it');
is_deeply(ask(0, 'GET', $row)->{json}, $put->{json}, 'and shows what a GET shows');
is(ask(0, 'PUT', "$rows/eight", json => {})->{json}{code}, 'invalid_id', 'an id that is none');
like(ask(0, 'OPTIONS', $row)->{headers}{allow}, qr/\bPUT\b/, 'OPTIONS tells of PUT');

# -- many rows: all or nothing ------------------------------------------------------

my $before = members(ask(0, 'GET', $rows), 'id');
my $bulk = ask(0, 'POST', $rows, body => '[{"n":1},{"deep":{"a/b":[0,1e131072]}},{}]', headers => { 'content-type' => 'application/json' });
is($bulk->{status}, 422, 'a number that cannot be stored');
is($bulk->{json}{code}, 'number_out_of_range', 'is named so');
is($bulk->{json}{errors}[0]{pointer}, '/1/deep/a~1b/1', 'with its place');
is(ask(0, 'POST', $rows, json => [ {}, {}, { id => 1 } ])->{json}{errors}[0]{pointer}, '/2/id', 'a member that is not the client\'s, too');
is_deeply(members(ask(0, 'GET', $rows), 'id'), $before, 'and nothing was stored');

is($_->stop, 0, 'a gateway ends cleanly') for @gateways;
done_testing();
