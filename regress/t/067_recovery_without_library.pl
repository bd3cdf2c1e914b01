# 067_recovery_without_library.pl
#   Recovery over all that Mortar does, on servers that do not preload the library: to
#   the end after a crash, and from a base backup to a point in time.  It completes,
#   tables can be read by a superuser, and what Mortar's functions say with the library
#   back is what was true at that point.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Mortar;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $database = $Mortar::database;
my $node = Mortar::node('main', conf => "mortar.flush_interval = '20ms'\n", init => [ allows_streaming => 1, has_archiving => 1 ]);
my $key = Mortar::tenant($node, 'acme', credits => 10, prices => 1);
my $gateway = Mortar::gateway($node);

sub admin { my ($server, $sql) = @_; return Mortar::admin($server, $sql); }
sub flushed {
  $node->poll_query_until($database, 'SELECT bool_and(unflushed_uc = 0) FROM mortar.loss_bound') or die 'usage is not flushed';
  return;
}

# some of everything; holds of each: one that stays, one captured, one voided, one expired
my $round = 0;
my %entry;
sub traffic {
  my $r = ++$round;
  my $tables = '/v1/acme/db/tables';
  is($gateway->request('POST', $tables, key => $key, json => { name => "t$r" })->{status}, 201, "round $r: a table");
  is($gateway->request('POST', "/v1/acme/db/rows/t$r", key => $key, json => [ map { { n => $_ } } 1 .. 50 ])->{status}, 201, '... and rows');
  admin($node, "SELECT mortar.create_tenant('tenant-$r'); SELECT mortar.grant_credits('acme', 1000, 'g $r', priority => $r, expires_at => now() + interval '1 day')");
  $entry{$r} = admin($node, "SELECT mortar.charge('acme', 700, 'c $r')");
  admin($node, "SELECT mortar.reverse('acme', '$entry{$r}', 'r $r', 200)");
  admin($node, "SELECT mortar.hold('acme', 30, '1 hour', 'stays $r'), mortar.capture('acme', mortar.hold('acme', 30, '1 hour', 'h $r'), 20, 'k $r'),"
      . " mortar.void_hold('acme', mortar.hold('acme', 30, '1 hour', 'i $r'), 'v $r'), mortar.hold('acme', 30, '1 millisecond', 'brief $r')");
  admin($node, "SELECT mortar.set_limit('tenant-$r', 'soft'), mortar.record_usage('tenant-$r', 'requests', 7), mortar.freeze('tenant-$r')");
  admin($node, "BEGIN; SELECT mortar.charge('acme', 5000, 'undone'); ROLLBACK");
  flushed();
  return;
}

my @questions = (
  "SELECT available_uc, held_uc, debt_uc, state FROM mortar.balance('acme')",
  "SELECT meter, quantity, cost_uc FROM mortar.usage('acme') ORDER BY 1",
  'SELECT t.tenant_id, b.available_uc, b.debt_uc, b.state FROM mortar.tenants t, mortar.balance(t.tenant_id) b ORDER BY 1',
  "SELECT grant_id, remaining_uc FROM mortar.grants ORDER BY 1",
  'SELECT entry_id, kind, amount_uc FROM mortar.credit_ledger ORDER BY 1',
  'SELECT count(*) FROM mortar.doc_rows');
sub answers { my ($server) = @_; return [ map { admin($server, $_) } @questions ]; }

# recovered(SERVER, WHAT): it runs without the library; what a superuser reads
sub reads_without_library {
  my ($server, $rows, $what) = @_;
  is($server->safe_psql($database, 'SHOW shared_preload_libraries'), '', "$what: the library is not preloaded");
  is($server->safe_psql($database, 'SELECT count(*) FROM mortar.credit_ledger'), $rows, '... a superuser reads the ledger');
  is($server->safe_psql($database, 'SELECT count(*) > 0 FROM mortar.usage_journal'), 't', '... and the journal');
  is($server->safe_psql($database, 'SELECT count(DISTINCT doc) FROM mortar.doc_rows'), 50, '... and documents');
  my (undef, undef, $err) = $server->psql($database, "SELECT mortar.charge('acme', 1, 'without')");
  like($err, qr/shared_preload_libraries/, '... and nothing is charged');
  return;
}
sub adds_up {
  my ($server, $what) = @_;
  is(admin($server, 'SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'), '', $what);
  return;
}
my $without = "shared_preload_libraries = ''\n";

traffic();
$node->backup('backup');
traffic();
my $then = answers($node);
my $rows_then = $node->safe_psql($database, 'SELECT count(*) FROM mortar.credit_ledger');
# usage that is on its way at that point is flushed after it
my $point = $node->safe_psql($database, "SELECT pg_create_restore_point('then')");
traffic();
my $last = answers($node);
my $rows_last = $node->safe_psql($database, 'SELECT count(*) FROM mortar.credit_ledger');
isnt($rows_then, $rows_last, 'there was traffic after the point in time');
$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
$node->poll_query_until('postgres', "SELECT last_archived_wal >= pg_walfile_name('$point') FROM pg_stat_archiver") or die 'WAL is not archived';

# ---- to a point in time ----
my $past = PostgreSQL::Test::Cluster->new('past');
$past->init_from_backup($node, 'backup', has_restoring => 1, standby => 0);
$past->append_conf('postgresql.conf', "${without}recovery_target_name = 'then'\nrecovery_target_action = 'promote'\narchive_mode = off\n");
$past->start;
$past->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'recovery does not end';
like(slurp_file($past->logfile), qr/recovery stopping at restore point "then"/, 'recovery to a point in time completes');
reads_without_library($past, $rows_then, 'at that point');
$past->append_conf('postgresql.conf', "shared_preload_libraries = 'mortar'\n");
$past->restart;
is_deeply(answers($past), $then, 'with the library back everything is as it was then');
adds_up($past, 'and adds up');
is(admin($past, "SELECT mortar.charge('acme', 700, 'c 2')"), $entry{2}, 'a charge from before it is known by its key');
isnt(admin($past, "SELECT mortar.charge('acme', 700, 'c 3')"), $entry{3}, 'one from after it has not happened');
my $hold = admin($past, q{SELECT hold_id FROM mortar.credit_holds JOIN mortar.idempotency ON hold_id = result WHERE key = 'stays 2'});
is(admin($past, "SELECT mortar.capture('acme', '$hold', 30, 'captured there') IS NOT NULL"), 't', 'a hold goes on');
admin($past, "SELECT mortar.record_usage('acme', 'requests', 3)");
$past->poll_query_until($database, 'SELECT bool_and(unflushed_uc = 0) FROM mortar.loss_bound') or die 'usage is not flushed';
adds_up($past, 'and so does usage, which adds up');

# ---- after a crash ----
$node->stop('immediate');
$node->append_conf('postgresql.conf', $without);
$node->start;
reads_without_library($node, $rows_last, 'after a crash');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'mortar'\n");
$node->restart;
is_deeply(answers($node), $last, 'with the library back everything is as it was');
adds_up($node, 'and adds up');
done_testing();
