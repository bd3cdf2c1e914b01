# 036_gateway_fixes.pl
#   Faults that the gateway once had, one test each.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Faults;
use Mortar;
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

done_testing();
