# 020_restart.pl
#   What a stop of the server does to usage that is still in memory: a clean stop
#   loses nothing, whatever state it catches the flusher in; any other end is on
#   record in mortar.epochs.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Copy;
use IPC::Run;
use Mortar;
use PostgreSQL::Test::Utils;
use Test::More;

my $clients = 4;
my $node = Mortar::node('main', 
  conf => "max_prepared_transactions = 2\nrestart_after_crash = on\n");
Mortar::tenant($node, 'acme', credits => 1000, prices => 1);

sub admin { return Mortar::admin($node, @_); }
sub super { return $node->safe_psql($Mortar::database, @_); }
sub stop_files { my @files = glob($node->data_dir . '/pg_stat/mortar-*.stop'); return @files; }
sub epoch { return super('SELECT epoch_id FROM mortar.epochs ORDER BY started_at DESC LIMIT 1'); }
sub record { return "SELECT mortar.record_usage('acme', 'requests', $_[0]);"; }

# all that was ever counted, as a user sees it
sub counted {
  return admin("SELECT quantity FROM mortar.usage('acme') WHERE meter = 'requests'") || 0;
}

# the same as the journal has it, once the flusher has had its turn
sub journal_is {
  my ($quantity, $what) = @_;
  ok($node->poll_query_until($Mortar::database,
      "SELECT sum(upto_qty - from_qty) = $quantity FROM mortar.usage_journal "
        . "WHERE meter = 'requests'"), $what);
  return;
}

sub ledger_is_right {
  is(admin("SELECT string_agg(check_name || ': ' || detail, '; ') "
        . 'FROM mortar.verify_ledger() WHERE NOT ok'), '', $_[0]);
  return;
}

sub epoch_is {
  my ($epoch, $clean, $what) = @_;
  ok($node->poll_query_until($Mortar::database, "SELECT clean IS NOT DISTINCT FROM $clean "
        . "FROM mortar.epochs WHERE epoch_id = '$epoch'"), $what);
  return;
}

# A transaction that outlives its session and a restart, and lets nobody write to
# the journal.
sub lock_journal {
  super("BEGIN; LOCK TABLE mortar.usage_journal IN EXCLUSIVE MODE; PREPARE TRANSACTION 'lock'");
  return;
}
sub unlock_journal { super("ROLLBACK PREPARED 'lock'"); return; }

# ---- a stop right after a commit ----
admin(record(1));
my $first = epoch();
$node->stop('fast');
$node->start;
is(counted(), 1, 'a fast stop right after a commit: usage is there');
journal_is(1, '... and in the journal');
epoch_is($first, 'true', '... and the epoch ended clean');
epoch_is(epoch(), 'NULL', '... and the new one is open');
is(scalar(() = stop_files()), 0, '... and no file is left');

# ---- under load ----
my ($out, $err) = ('', '');
my $load = $node->basedir . '/load.sql';
append_to_file($load, record(1) . "\n");
my $pgbench = IPC::Run::start(
  [ 'pgbench', '-n', '-c', $clients, '-T', 600, '-f', $load,
    '-h', $node->host, '-p', $node->port, '-U', 'mortar_test_admin', $Mortar::database ],
  '<', \undef, '>', \$out, '2>', \$err);
ok($node->poll_query_until($Mortar::database, 'SELECT count(*) > 3 FROM mortar.usage_journal'),
  'load is running');
$node->stop('fast');
$pgbench->finish;
my ($answered) = $out =~ /number of transactions actually processed: (\d+)/;
$node->start;
my $after = counted();
cmp_ok($answered, '>', 0, 'calls were answered until the stop');
# a client that was told to go while it waited cannot know whether it committed
cmp_ok($after, '>=', $answered + 1, 'every answered call was counted');
cmp_ok($after, '<=', $answered + 1 + $clients, '... and none twice');
journal_is($after, 'the journal has exactly that');
ledger_is_right('and the ledger agrees');

# ---- the flusher cannot write before the stop, nor at once after it ----
lock_journal();
admin(record(7) . record(5));
my $locked = epoch();
is(counted(), $after + 12, 'usage is visible while the journal is locked');
my $balance = admin("SELECT available_uc FROM mortar.balance('acme')");
$node->stop('fast');
my @files = stop_files();
is(scalar(@files), 1, 'a stop that could not flush leaves a file');
like($files[0], qr/mortar-\d+-\Q$locked\E\.stop$/, '... named after database and epoch');
my $copy = $node->basedir . '/kept.stop';
copy($files[0], $copy) or die "copy: $!";

$node->start;
my ($code, undef, $stderr) = $node->psql($Mortar::database,
  "\\set VERBOSITY sqlstate\nSELECT mortar.record_usage('acme', 'requests', 1)");
isnt($code, 0, 'until the file is entered no slot is loaded');
like($stderr, qr/55P03/, '... and the error says to try again');
($code, undef, $stderr) = $node->psql($Mortar::database, "SELECT * FROM mortar.balance('acme')");
like($stderr, qr/usage from before the last stop .* has not been entered yet/, '... and what is awaited');
unlock_journal();
journal_is($after + 12, 'the file is entered when the lock is gone');
epoch_is($locked, 'true', '... and its epoch ended clean');
is(admin("SELECT available_uc FROM mortar.balance('acme')"), $balance, 'the balance is the same');
is(counted(), $after + 12, 'so is the usage');
ledger_is_right('and the ledger agrees');

# ---- the same file again ----
my $again = $files[0];
$node->stop('fast');
copy($copy, $again) or die "copy: $!";
$node->start;
ok($node->poll_query_until($Mortar::database,
    "SELECT count(*) = 0 FROM pg_ls_dir('pg_stat') f WHERE f LIKE 'mortar-%'"),
  'a file that was entered before is only removed');
is(counted(), $after + 12, '... and counts nothing twice');

# ---- a file without records keeps nobody waiting ----
$node->stop('fast');
is(scalar(() = stop_files()), 1, 'every clean stop leaves a file');
$node->start;
lock_journal();
$node->stop('fast');
$node->start;
is(admin("SELECT available_uc FROM mortar.balance('acme')"), $balance, 'but one that has no record is not waited for');
unlock_journal();

# ---- somebody else writes to the journal before the file is entered ----
super("BEGIN; SELECT 1 FROM mortar.usage_marks FOR UPDATE; PREPARE TRANSACTION 'lock'");
admin(record(6));
$node->restart('fast');
super("WITH j AS (INSERT INTO mortar.usage_journal (tenant_id, meter, key_id, route, price_id, from_qty, upto_qty, minute,
      cost_uc, movement_id, epoch_id)
    SELECT tenant_id, meter, key_id, route, price_id, upto_qty, upto_qty + 4, minute, 40, gen_random_uuid(), epoch_id
    FROM mortar.usage_journal ORDER BY from_qty DESC LIMIT 1 RETURNING tenant_id, movement_id, epoch_id)
    INSERT INTO mortar.credit_burns (tenant_id, movement_id, from_account, grant_id, amount_uc, epoch_id)
    SELECT j.tenant_id, j.movement_id, 'available', g.grant_id, 40, j.epoch_id FROM j JOIN mortar.credit_grants g USING (tenant_id)");
unlock_journal();
super('UPDATE mortar.usage_marks SET upto_qty = upto_qty + 4, cost_uc = cost_uc + 40');
super('UPDATE mortar.burn_marks SET burned_uc = burned_uc + 40');
$after += 10;
journal_is($after + 12, 'usage of the file goes behind what a restore has put there');
ok($node->poll_query_until($Mortar::database,
    "SELECT count(*) = 0 FROM pg_ls_dir('pg_stat') f WHERE f LIKE 'mortar-%'"), '... and nothing is set aside');
ledger_is_right('... and the ledger agrees');

# ---- a damaged file ----
lock_journal();
admin(record(3));
my $damaged = epoch();
$node->stop('fast');
($again) = stop_files();
copy($again, $copy) or die "copy: $!";
my $bytes = slurp_file($again);
substr($bytes, length($bytes) / 2, 1) ^= "\x01";
open(my $handle, '>:raw', $again) or die "open: $!";
print {$handle} $bytes;
close($handle) or die "close: $!";
$node->start;
unlock_journal();
ok($node->poll_query_until($Mortar::database,
    "SELECT count(*) = 1 FROM pg_ls_dir('pg_stat') f WHERE f LIKE 'mortar-%.stop.bad'"),
  'a damaged file is set aside');
$node->wait_for_log(qr/usage of a clean stop could not be entered: .*wrong checksum/);
epoch_is($damaged, 'false', '... and its epoch is not clean');
is(counted(), $after + 12, '... nor is anything of it counted');
admin(record(1));
journal_is($after + 13, 'the server goes on');

$node->stop('fast');
copy($copy, $again) or die "copy: $!";
$node->start;
$after += 3;
journal_is($after + 13, 'the file is entered when it was repaired');
epoch_is($damaged, 'true', '... and its epoch is clean then');
ledger_is_right('... and the ledger agrees');

# ---- a stop that is none ----
my $immediate = epoch();
$node->stop('immediate');
is(scalar(() = stop_files()), 0, 'an immediate stop leaves no file');
$node->start;
epoch_is($immediate, 'false', '... and its epoch is not clean');
is(counted(), $after + 13, 'what was flushed is there');
ledger_is_right('and the ledger agrees');

# ---- a backend that is killed takes shared memory with it ----
my $crashed = epoch();
my $pid = super("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
kill('KILL', $pid) or die "kill: $!";
$node->wait_for_log(qr/all server processes terminated; reinitializing/);
ok($node->poll_query_until($Mortar::database, "SELECT count(*) = 1 FROM mortar.epochs "
      . "WHERE epoch_id = '$crashed' AND NOT clean"), 'a crash ends an epoch, not clean');
admin(record(2));
journal_is($after + 15, 'and flushing goes on after it');

$node->stop('smart');
$node->start;
is(counted(), $after + 15, 'a smart stop loses nothing either');
$node->stop('fast');
ok(slurp_file($node->logfile) !~ qr/PANIC|TRAP|"mortar flusher" \(PID \d+\) exited with/, 'no flusher ended by an error');

done_testing();
