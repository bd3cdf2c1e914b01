# Reserve.pm
#   Answers in pieces, by the tests' own library: nothing else calls that interface.
#
#     Reserve::install($node);
#     my $id = $node->safe_psql('mortar', Reserve::reserve_sql('acme', 'requests', 50));
#     $node->safe_psql('mortar', Reserve::settle_sql('acme', $id, 20));    # t
#     $node->safe_psql('mortar', Reserve::release_sql('acme', $id));
#
#   A time to live, in milliseconds, may follow the quantity; it is an hour else.

package Reserve;

use strict;
use warnings;
use FindBin;
use Mortar;

my $hour = 3600000;

# install(NODE, DATABASE)
sub install {
  my ($node, $database) = @_;
  my $library = "$FindBin::Bin/../modules/reserve_test";
  my $text = 'CREATE SCHEMA reserve_test;';
  for ([ 'reserve', 'text, text, int8, int8', 'text' ], [ 'settle', 'text, text, int8, int8', 'bool' ],
    [ 'release', 'text, text', 'void' ], [ 'valid', 'text, text', 'bool' ]) {
    my ($name, $arguments, $result) = @$_;
    $text .= "CREATE FUNCTION reserve_test.$name($arguments) RETURNS $result LANGUAGE c STRICT"
      . " AS '$library', 'reserve_test_$name';";
  }
  $node->safe_psql($database // $Mortar::database, $text);
  return;
}

sub reserve_sql { my ($tenant, $meter, $qty, $ttl) = @_; return "SELECT reserve_test.reserve('$tenant', '$meter', $qty, " . ($ttl // $hour) . ')'; }
sub settle_sql { my ($tenant, $id, $qty, $ttl) = @_; return "SELECT reserve_test.settle('$tenant', '$id', $qty, " . ($ttl // $hour) . ')'; }
sub release_sql { my ($tenant, $id) = @_; return "SELECT reserve_test.release('$tenant', '$id')"; }

1;
