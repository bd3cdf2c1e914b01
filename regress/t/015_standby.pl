# 015_standby.pl
#   A hot standby knows no balances and no keys, and says so.  Promoted, it starts
#   from the tables: what was spent stays spent, a revoked key stays dead.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Mortar;
use PostgreSQL::Test::Cluster;
use Test::More;

my $node = Mortar::node('main', conf => "mortar.flush_interval = '20ms'\nmax_connections = 20\n",
  init => [ allows_streaming => 1 ]);
my $database = $Mortar::database;
my $revoked = Mortar::tenant($node, 'acme', credits => 1, prices => 1);
my $key = Mortar::admin($node, "SELECT mortar.create_key('acme', 'stays')");
$node->safe_psql($database, 'CREATE ROLE regress_app LOGIN IN ROLE mortar_tenant');

$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby, 'replay', $node->lsn('flush'));

# on_standby(USER, SQL): what it answers; for errors the SQLSTATE
sub on_standby {
  my ($user, $sql) = @_;
  my ($code, $out, $err) = $standby->psql($database, "\\set VERBOSITY sqlstate\n$sql",
    extra_params => [ '-U', $user ]);
  return $code == 0 ? $out : $err =~ s/.*ERROR:  (\w+).*/$1/sr;
}

my $login = "BEGIN; SELECT mortar.login('%s'); COMMIT;";
my $http = "SELECT h.status FROM mortar.http('acme', 'GET', '/db/tables', NULL, ARRAY['apikey', '%s'], NULL, '127.0.0.1', 'r') h";

is(on_standby('mortar_test_admin', "SELECT amount_uc FROM mortar.credit_ledger"), '1000000', 'a standby shows tables');
my %refused = (
  balance => "SELECT * FROM mortar.balance('acme')",
  charge => "SELECT mortar.charge('acme', 1, 'on standby')",
  grant_credits => "SELECT mortar.grant_credits('acme', 1, 'on standby')",
  record_usage => "SELECT mortar.record_usage('acme', 'requests', 1)",
  create_tenant => "SELECT mortar.create_tenant('other')",
  create_key => "SELECT mortar.create_key('acme', 'on standby')",
  set_price => "SELECT mortar.set_price('requests', 1, 1)");
is(on_standby('mortar_test_admin', $refused{$_}), '25006', "it refuses $_") for sort keys %refused;
is(on_standby('regress_app', sprintf($login, $key)), '25006', 'it lets nobody log in');
is(on_standby('mortar_test_gateway', sprintf($http, $key)), '503', 'it answers requests with 503');

# meanwhile, on the primary
is($node->safe_psql($database, sprintf($login, $revoked), extra_params => [ '-U', 'regress_app' ]), 'acme',
  'the primary knows the key');
Mortar::admin($node, "SELECT mortar.charge('acme', 400000, 'spent')");
Mortar::admin($node, "SELECT mortar.record_usage('acme', 'requests', 20000)");
Mortar::admin($node, "SELECT mortar.revoke_key('acme', key_id) FROM mortar.keys WHERE name = 'test'");
Mortar::admin($node, "SELECT mortar.set_price('requests', 50, 1)");
$node->poll_query_until($database, 'SELECT bool_and(unflushed_uc = 0) FROM mortar.slots') or die 'usage is not flushed';
is(Mortar::admin($node, "SELECT available_uc FROM mortar.balance('acme')"), '400000', 'of 1 credit 0.4 are left');
$node->wait_for_catchup($standby, 'replay', $node->lsn('flush'));
$node->stop;
$standby->promote;

is(Mortar::admin($standby, "SELECT available_uc FROM mortar.balance('acme')"), '400000',
  'promoted, it knows what is left');
is(on_standby('mortar_test_admin', "SELECT mortar.charge('acme', 400001, 'too much')"), 'MT402',
  'and lets nobody spend twice');
is(Mortar::admin($standby, "SELECT mortar.charge('acme', 400000, 'spent') IS NOT NULL"), 't',
  'a charge of the old primary is known by its key');
is(Mortar::admin($standby, "SELECT available_uc FROM mortar.balance('acme')"), '400000', 'and not made again');
is(on_standby('regress_app', sprintf($login, $revoked)), '28000', 'a revoked key stays dead');
is(on_standby('mortar_test_gateway', sprintf($http, $revoked)), '401', 'also for requests');
is(on_standby('mortar_test_gateway', sprintf($http, $key)), '200', 'the other key is good');
Mortar::admin($standby, "SELECT mortar.record_usage('acme', 'requests', 10)");
is(Mortar::admin($standby, "SELECT available_uc FROM mortar.balance('acme')"), 400000 - 50 - 500,
  'the last price of the old primary is in force');
is(Mortar::admin($standby, 'SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'), '', 'everything adds up');
done_testing();
