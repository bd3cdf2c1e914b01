# 021_flusher.pl
#   The life of a flusher: it comes when there is something to flush, and leaves
#   again; it is killed, cancelled, locked out; one tenant cannot be flushed; no
#   worker is free.  Usage is visible all along and reaches the journal once.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use IPC::Run;
use Mortar;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = Mortar::node('main', conf => "max_prepared_transactions = 4\n");
Mortar::tenant($node, 'acme', credits => 1000, prices => 1);
Mortar::tenant($node, 'bolt', credits => 1000);
Mortar::tenant($node, 'core', credits => 1000);

sub admin { return Mortar::admin($node, @_); }
sub super { return $node->safe_psql($Mortar::database, @_); }
sub record {
  my ($tenant, $quantity) = @_;
  admin("SELECT mortar.record_usage('$tenant', 'requests', $quantity)");
  return;
}
sub counted {
  my ($tenant) = @_;
  return admin("SELECT quantity FROM mortar.usage('$tenant') WHERE meter = 'requests'") || 0;
}
sub until_true {
  my ($sql, $what) = @_;
  ok($node->poll_query_until($Mortar::database, $sql), $what);
  return;
}
sub journal { return "(SELECT coalesce(sum(upto_qty - from_qty), 0) FROM mortar.usage_journal WHERE tenant_id = '$_[0]')"; }
sub journal_is {
  my ($tenant, $quantity, $what) = @_;
  until_true('SELECT ' . journal($tenant) . " = $quantity", $what);
  return;
}
sub pid_of {
  return "(SELECT min(pid) FROM pg_stat_activity WHERE backend_type = 'mortar $_[0]')";
}
sub prepared { super("BEGIN; $_[1]; PREPARE TRANSACTION '$_[0]'"); return; }
sub forget { super("ROLLBACK PREPARED '$_'") for @_; return; }
sub ledger_is_right {
  is(admin("SELECT string_agg(check_name || ': ' || detail, '; ') "
        . 'FROM mortar.verify_ledger() WHERE NOT ok'), '', $_[0]);
  return;
}

# ---- coming and going ----
record('acme', 100);
is(counted('acme'), 100, 'usage is visible at once');
journal_is('acme', 100, '... and in the journal soon');
until_true('SELECT ' . pid_of('flusher') . ' IS NULL', 'a flusher with nothing to do leaves');
record('acme', 1);
journal_is('acme', 101, '... and the next usage brings another one');
is(super('SELECT count(*) FROM mortar.epochs WHERE last_flush_at IS NOT NULL'), 1,
  'the epoch says when it was flushed last');

# ---- the journal is locked ----
prepared('lock', 'LOCK TABLE mortar.usage_journal IN EXCLUSIVE MODE');
record('acme', 10);
$node->wait_for_log(qr/usage could not be flushed: .*lock timeout/);
is(counted('acme'), 111, 'usage is visible while it cannot be flushed');
is(super('SELECT ' . journal('acme')), 101, '... and is not in the journal');

# ---- the flusher is ended and cancelled meanwhile ----
my $old = super('SELECT ' . pid_of('flusher'));
super("SELECT pg_cancel_backend($old)");
super("SELECT pg_terminate_backend($old)");
until_true('SELECT ' . pid_of('flusher') . " <> $old", 'a flusher that is ended has a successor');
$old = super('SELECT ' . pid_of('launcher'));
super("SELECT pg_terminate_backend($old)");
until_true('SELECT ' . pid_of('launcher') . " <> $old", 'so has the launcher');
is(counted('acme'), 111, 'nothing of it is seen in the usage');
forget('lock');
journal_is('acme', 111, 'the lock gone, usage reaches the journal once');

# ---- a table that a load needs is locked ----
prepared('lock', 'LOCK TABLE mortar.burn_marks IN ACCESS EXCLUSIVE MODE');
super("UPDATE mortar.tenants SET name = 'C' WHERE tenant_id = 'core'");    # all are read again
my (undef, undef, $busy) = $node->psql($Mortar::database,
  "\\set VERBOSITY verbose\nSET statement_timeout = '60s';\nSELECT * FROM mortar.balance('core')");
like($busy, qr/ERROR:  55P03/, 'a load does not wait for ever');
forget('lock');

# ---- one tenant cannot be flushed ----
record('bolt', 1);
record('core', 1);
journal_is('core', 1, 'three tenants');
journal_is('bolt', 1, '... with marks');
prepared('row', "SELECT 1 FROM mortar.usage_marks WHERE tenant_id = 'bolt' FOR UPDATE");
record($_, 5) for qw(acme bolt core);
journal_is('acme', 116, 'a tenant whose mark is locked does not hold up another');
journal_is('core', 6, '... or a third');
record($_, 5) for qw(acme bolt core);
journal_is('core', 11, '... nor later ones');
is(super('SELECT ' . journal('bolt')), 1, 'its own usage waits');
is(counted('bolt'), 11, '... visible');
forget('row');
journal_is('bolt', 11, '... and is flushed in the end');
ledger_is_right('the ledger agrees');

# ---- somebody else writes to the journal while usage is unflushed ----
prepared('row', "SELECT 1 FROM mortar.usage_marks WHERE tenant_id = 'bolt' FOR UPDATE");
record('bolt', 2);
super("WITH j AS (INSERT INTO mortar.usage_journal (tenant_id, meter, key_id, route, price_id, from_qty, upto_qty, minute,
      cost_uc, movement_id, epoch_id)
    SELECT tenant_id, meter, key_id, route, price_id, upto_qty, upto_qty + 4, minute, 40, gen_random_uuid(), epoch_id
    FROM mortar.usage_journal WHERE tenant_id = 'bolt' ORDER BY from_qty DESC LIMIT 1 RETURNING tenant_id, movement_id, epoch_id)
    INSERT INTO mortar.credit_burns (tenant_id, movement_id, from_account, grant_id, amount_uc, epoch_id)
    SELECT j.tenant_id, j.movement_id, 'available', g.grant_id, 40, j.epoch_id FROM j JOIN mortar.credit_grants g USING (tenant_id)");
forget('row');
super("UPDATE mortar.usage_marks SET upto_qty = upto_qty + 4, cost_uc = cost_uc + 40 WHERE tenant_id = 'bolt'");
super("UPDATE mortar.burn_marks SET burned_uc = burned_uc + 40 WHERE tenant_id = 'bolt'");
journal_is('bolt', 17, 'usage goes behind what a restore has put there');
is(counted('bolt'), 17, '... and all is counted');
until_true("SELECT available_uc = 1000000000 - 170 FROM mortar.balance('bolt')", '... and paid');
ledger_is_right('the ledger agrees');

# ---- settings of the database do not reach the flusher ----
until_true('SELECT ' . pid_of('flusher') . ' IS NULL', 'the flusher is gone');
$node->safe_psql('postgres', "ALTER DATABASE $Mortar::database SET $_") for (
  'default_transaction_read_only = on', "default_transaction_isolation = 'serializable'",
  'synchronous_commit = off', "search_path = 'nowhere'");
admin("BEGIN READ WRITE; SELECT mortar.record_usage('core', 'requests', 1); COMMIT");
journal_is('core', 12, 'usage is flushed whatever the database sets');
$node->stop('fast');

# ---- no worker is free: two are always there ----
my $poor = Mortar::node('poor', conf => "max_worker_processes = 2\n");
Mortar::tenant($poor, 'acme', credits => 1000, prices => 1);
Mortar::admin($poor, "SELECT mortar.record_usage('acme', 'requests', 9)");
$poor->wait_for_log(qr/no background worker is free to flush usage/);
is(Mortar::admin($poor, "SELECT quantity FROM mortar.usage('acme')"), 9, 'without a free worker usage is visible');
is($poor->safe_psql($Mortar::database, 'SELECT count(*) FROM mortar.usage_journal'), 0, '... and stays in memory');

# nobody clears memory up after a DROP EXTENSION either
$poor->safe_psql('postgres', 'CREATE DATABASE dropped');
$poor->safe_psql('dropped', 'CREATE EXTENSION mortar');
for my $round (1, 2) {
  $poor->safe_psql('dropped', "SELECT mortar.create_tenant('acme')");
  is($poor->safe_psql('dropped', "SELECT count(*) FROM mortar.usage('acme')"), 0, "extension $round begins at nothing");
  $poor->safe_psql('dropped', "SELECT mortar.record_usage('acme', 'requests', 8)");
  $poor->safe_psql('dropped', 'DROP EXTENSION mortar; CREATE EXTENSION mortar');
}
my ($status, undef, $stderr) = $poor->psql('dropped',
  "BEGIN; DROP EXTENSION mortar; CREATE EXTENSION mortar; SELECT mortar.create_tenant('acme')");
like($stderr, qr/this transaction has dropped the extension "mortar"/,
  'the new extension can be used after COMMIT, not before');
$poor->stop('fast');
$poor->append_conf('postgresql.conf', 'max_worker_processes = 8');
$poor->start;
ok($poor->poll_query_until($Mortar::database, 'SELECT sum(upto_qty) = 9 FROM mortar.usage_journal'),
  '... until the server is started with more');

# ---- one worker for three databases, of which one is always busy ----
$poor->append_conf('postgresql.conf', 'max_worker_processes = 3');
$poor->restart('fast');
my @turns = qw(first second);
for my $database (@turns) {
  $poor->safe_psql('postgres', "CREATE DATABASE $database");
  $poor->safe_psql($database, $_) for 'CREATE EXTENSION mortar', "SELECT mortar.create_tenant('acme')";
}
my $load = $poor->basedir . '/load.sql';
append_to_file($load, "SELECT mortar.record_usage('acme', 'requests', 1);\n");
my ($out, $err) = ('', '');
my $pgbench = do {
  local $ENV{PGOPTIONS} = '-c log_statement=none';
  IPC::Run::start(
    [ 'pgbench', '-n', '-c', 2, '-R', 2000, '-T', 600, '-f', $load, '-h', $poor->host, '-p', $poor->port, $Mortar::database ],
    '<', \undef, '>', \$out, '2>', \$err);
};
ok($poor->poll_query_until($Mortar::database, 'SELECT sum(upto_qty - from_qty) > 20 FROM mortar.usage_journal'), 'a busy database');
for my $round (1, 2) {
  $poor->safe_psql($_, "SELECT mortar.record_usage('acme', 'requests', 1)") for @turns;
  for my $database (@turns) {
    my %served;    # of the busy one, the flushers that were there meanwhile
    for (1 .. $PostgreSQL::Test::Utils::timeout_default * 10) {
      last if $poor->safe_psql($database, "SELECT sum(upto_qty - from_qty) = $round FROM mortar.usage_journal") eq 't';
      $served{$_}++ for split(/\n/, $poor->safe_psql($Mortar::database,
        q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'mortar flusher' AND datname = current_database()}));
      usleep(100_000);
    }
    is($poor->safe_psql($database, 'SELECT sum(upto_qty - from_qty) FROM mortar.usage_journal'), $round,
      "... does not keep the worker from the $database, round $round");
    cmp_ok(scalar(keys %served), '<=', 2, '... longer than its turn is');
  }
}
my $flushed = $poor->safe_psql($Mortar::database, 'SELECT sum(upto_qty - from_qty) FROM mortar.usage_journal');
ok($poor->poll_query_until($Mortar::database, "SELECT sum(upto_qty - from_qty) > $flushed FROM mortar.usage_journal"),
  '... and is flushed itself');
ok($poor->poll_query_until($Mortar::database, "SELECT count(DISTINCT flushed_at) > 3 FROM mortar.usage_journal, pg_stat_activity
    WHERE backend_type = 'mortar flusher' AND datname = current_database() AND flushed_at > backend_start"),
  '... by a worker that stays as long as nobody else wants it');
$pgbench->signal('TERM');
$pgbench->finish;

# ---- an extension that no flusher has seen, and a crash ----
$poor->append_conf('postgresql.conf', 'max_worker_processes = 2');
$poor->restart('fast');
$poor->safe_psql('postgres', 'CREATE DATABASE crashed');
$poor->safe_psql('crashed', $_) for 'CREATE EXTENSION mortar', "SELECT mortar.create_tenant('acme')",
  "SELECT mortar.record_usage('acme', 'requests', 3)";
my $epoch = $poor->safe_psql('crashed', 'SELECT epoch_id FROM mortar.epochs WHERE clean IS NULL');
isnt($epoch, '', 'CREATE EXTENSION enters the epoch');
$poor->stop('immediate');
$poor->append_conf('postgresql.conf', 'max_worker_processes = 8');
$poor->start;
ok($poor->poll_query_until('crashed', "SELECT NOT clean FROM mortar.epochs WHERE epoch_id = '$epoch'"),
  '... so that a crash before the first flush is on record');
$poor->stop('fast');

ok(slurp_file($_->logfile) !~ qr/PANIC|TRAP|"mortar flusher" \(PID \d+\) exited with/, 'no flusher ended by an error')
  for ($node, $poor);

done_testing();
