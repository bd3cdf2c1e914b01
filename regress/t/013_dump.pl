# 013_dump.pl
#   A dump restored elsewhere brings back every tenant, key, entry and row, the
#   books agree, and a key of the old database opens the new one: with psql, with
#   psql in one transaction, and with four jobs at once.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Mortar;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = Mortar::node('main', conf => "mortar.flush_interval = '20ms'\n");

# enough rows that jobs which run at once do so for a while; the largest tables
# are those that refer to others
my $key = Mortar::tenant($node, 'acme', credits => 10, prices => 1);
Mortar::admin($node, <<'SQL');
SELECT count(mortar.create_tenant('tenant-' || i, 'Tenant ' || i)) FROM generate_series(1, 500) i;
SELECT count(mortar.grant_credits('tenant-' || i, 1000, 'g')) FROM generate_series(1, 500) i;
SELECT count(mortar.create_key('tenant-' || i, 'k' || j)) FROM generate_series(1, 500) i, generate_series(1, 4) j;
SELECT mortar.revoke_key(tenant_id, key_id) FROM mortar.keys WHERE tenant_id = 'tenant-7';
SELECT mortar.record_usage('tenant-' || i, 'requests', i % 5) FROM generate_series(1, 500) i;
SELECT mortar.record_usage('acme', 'egress_bytes', 12345678);
SELECT mortar.set_limit('acme', max_unflushed_uc => 5000000);
SQL
for my $batch (1 .. 8) {    # a transaction takes a bounded number of idempotency keys
  Mortar::admin($node, "SELECT count(mortar.charge('tenant-' || i, 1, 'c$batch')) FROM generate_series(1, 500) i");
}
$node->safe_psql($Mortar::database, <<'SQL');
INSERT INTO mortar.doc_tables (tenant_id, name) SELECT tenant_id, 'notes' FROM mortar.tenants;
INSERT INTO mortar.doc_rows (tenant_id, table_name, row_id, doc)
  SELECT tenant_id, 'notes', gen_random_uuid(), jsonb_build_object('n', i, 'text', repeat('x', 100))
  FROM mortar.tenants, generate_series(1, 40) i;
SQL
$node->poll_query_until($Mortar::database,
  'SELECT bool_and(unflushed_uc = 0) FROM mortar.slots') or die 'usage is not flushed';

# the tables but for epochs, which the new database's flusher adds to
my @tables = qw(tenants limits api_keys credit_grants credit_ledger idempotency prices
  usage_journal usage_marks doc_tables doc_rows);

# rows and a checksum of each table
sub contents {
  my ($database) = @_;
  return { map { $_ => $node->safe_psql($database,
    "SELECT count(*), md5(string_agg(t::text, E'\\n' ORDER BY t::text)) FROM mortar.$_ t") } @tables };
}
my $original = contents($Mortar::database);
my $balances = "SELECT t.tenant_id, b.* FROM mortar.tenants t, mortar.balance(t.tenant_id) b ORDER BY 1";
my $usage = "SELECT t.tenant_id, u.* FROM mortar.tenants t, mortar.usage(t.tenant_id, by => '{meter,key,route}') u ORDER BY 1, 2";

my $plain = $node->basedir . '/dump.sql';
my $custom = $node->basedir . '/dump.custom';
$node->command_ok([ 'pg_dump', '-f', $plain, $node->connstr($Mortar::database) ], 'pg_dump writes SQL');
$node->command_ok([ 'pg_dump', '-Fc', '-f', $custom, $node->connstr($Mortar::database) ], 'and its own format');

my %restore = (
  'psql' => [ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $plain, '-d' ],
  'psql in one transaction' => [ 'psql', '-Xq1', '-v', 'ON_ERROR_STOP=1', '-f', $plain, '-d' ],
  'pg_restore' => [ 'pg_restore', '--exit-on-error', $custom, '-d' ],
  'pg_restore with four jobs' => [ 'pg_restore', '-j', 4, $custom, '-d' ]);
my $count = 0;
for my $how (sort keys %restore) {
  my $database = 'restored' . ++$count;
  $node->safe_psql('postgres', "CREATE DATABASE $database");
  my ($out, $err) = run_command([ @{ $restore{$how} }, $node->connstr($database) ]);
  is($err, '', "$how: no error");
  is_deeply(contents($database), $original, 'every table has every row');
  is(Mortar::admin($node, 'SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok', database => $database),
    '', 'everything adds up');
  is(Mortar::admin($node, $balances, database => $database), Mortar::admin($node, $balances), 'balances are the same');
  is(Mortar::admin($node, $usage, database => $database), Mortar::admin($node, $usage), 'usage is the same');

  # and life goes on there
  my $login = $node->safe_psql($database,
    "SET ROLE mortar_tenant; BEGIN; SELECT mortar.login('$key'); SELECT count(*) FROM mortar.doc_rows; COMMIT;");
  is($login, "acme\n40", 'the key opens its tenant and no other');
  my ($code) = $node->psql($database, q{SELECT mortar.charge('tenant-1', 1, 'c1')}, on_error_stop => 1);
  is($code, 0, 'an idempotency key of the old database is known');
  Mortar::admin($node, "SELECT mortar.charge('acme', 1, 'new'); SELECT mortar.record_usage('acme', 'egress_bytes', 1000)",
    database => $database);
  is(Mortar::admin($node, 'SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok', database => $database),
    '', 'and what is new adds up, too');
}
is_deeply(contents($Mortar::database), $original, 'the original has not changed');
done_testing();
