# 012_visible.pl
#   Usage is visible at once: usage() and balance() have it from the commit on,
#   exactly once, while the flusher moves it from memory to tables.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use IPC::Run;
use Mortar;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

my $node = Mortar::node('main', conf => "mortar.flush_interval = '10ms'\n");
my $granted = 1_000_000_000;
sub admin { return Mortar::admin($node, $_[0]); }

sub tenant {
  my ($tenant) = @_;
  admin("SELECT mortar.create_tenant('$tenant');"
    . "SELECT mortar.grant_credits('$tenant', $granted, 'grant')");
  return;
}

# usage that the tables have
sub journal {
  my ($tenant) = @_;
  return admin("SELECT coalesce(sum(upto_qty - from_qty), 0) FROM mortar.usage_journal WHERE tenant_id = '$tenant'");
}

admin("SELECT mortar.set_price('requests', 3, 2)");
tenant($_) for qw(alone crowd healed);

# One session records, and after each commit reads what must be exactly there;
# until the flusher has run often, so that every reading may meet a flush.
my $session = Session->new($node, user => 'mortar_test_admin');
is($session->run(<<'SQL'), '', 'after each of many commits, usage() and balance() are exact, also during flushes');
CREATE PROCEDURE pg_temp.count_up() LANGUAGE plpgsql AS $$
DECLARE
  n int8 := 0;
  seen record;
BEGIN
  LOOP
    PERFORM mortar.record_usage('alone', 'requests', 1);
    COMMIT;
    n := n + 1;
    SELECT u.quantity, u.cost_uc, b.available_uc INTO seen
      FROM mortar.usage('alone') u, mortar.balance('alone') b;
    IF seen.quantity <> n OR seen.cost_uc <> n * 3 / 2 OR seen.available_uc <> 1000000000 - n * 3 / 2 THEN
      RAISE EXCEPTION 'after % commits: %', n, seen;
    END IF;
    SELECT u.quantity INTO seen FROM mortar.usage('alone', by => '{meter,key,route}') u;
    IF seen.quantity <> n THEN
      RAISE EXCEPTION 'broken down, after % commits: %', n, seen;
    END IF;
    EXIT WHEN n % 100 = 0 AND (SELECT count(*) >= 50 FROM mortar.usage_journal WHERE tenant_id = 'alone');
  END LOOP;
END
$$;
CALL pg_temp.count_up()
SQL
$session->end;
cmp_ok(admin("SELECT count(*) FROM mortar.usage_journal WHERE tenant_id = 'alone'"), '>=', 50, 'and there were many flushes');

# Writers beside readers: what a reader sees never falls, never exceeds what has
# been paid for, and has all that the reader itself has recorded.
my $script = $node->basedir . '/writer.sql';
append_to_file($script, "SELECT mortar.record_usage('crowd', 'requests', 1);\n");
my ($out, $err) = ('', '');
my ($writers, $calls) = (3, 5_000);
my $pgbench = IPC::Run::start(
  [ 'pgbench', '-n', '-c', $writers, '-j', 1, '-t', $calls, '-f', $script,
    '-U', 'mortar_test_admin', $node->connstr($Mortar::database) ],
  '<', \undef, '>', \$out, '2>', \$err);

my @readers = map { Session->new($node, user => 'mortar_test_admin') } 1 .. 2;
$readers[1]->run("SET default_transaction_isolation = 'repeatable read'");
my $watch = <<'SQL';
DO $$
DECLARE
  own int8 := 0;
  quantity int8 := 0;
  available int8 := 1000000000;
  seen record;
  after_it int8;
BEGIN
  FOR i IN 1 .. 200 LOOP
    PERFORM mortar.record_usage('crowd', 'requests', 1);
    COMMIT;
    own := own + 1;
    SELECT u.quantity, u.cost_uc INTO seen FROM mortar.usage('crowd') u;
    SELECT b.available_uc INTO after_it FROM mortar.balance('crowd') b;
    IF seen.quantity < quantity + 1 THEN
      RAISE EXCEPTION 'usage fell: % after %', seen.quantity, quantity;
    ELSIF after_it > available THEN
      RAISE EXCEPTION 'balance rose: % after %', after_it, available;
    ELSIF seen.cost_uc > 1000000000 - after_it THEN
      RAISE EXCEPTION 'usage shows % uc, and % were paid', seen.cost_uc, 1000000000 - after_it;
    ELSIF seen.cost_uc <> seen.quantity * 3 / 2 THEN
      RAISE EXCEPTION '% requests cost %', seen.quantity, seen.cost_uc;
    ELSIF seen.quantity < own THEN
      RAISE EXCEPTION 'own usage is missing: % of %', seen.quantity, own;
    END IF;
    quantity := seen.quantity;
    available := after_it;
  END LOOP;
END
$$
SQL
my ($rounds, $wrong) = (0, '');
do {
  $wrong .= $_->run($watch) for @readers;
  $rounds++;
} while (IPC::Run::pumpable($pgbench) && IPC::Run::pump_nb($pgbench));
$_->end for @readers;
IPC::Run::finish($pgbench) or die "pgbench: $err";
is($wrong, '', "readers beside $writers writers see usage that only grows, each request once, none unpaid");
my $total = $writers * $calls + 400 * $rounds;
is(admin("SELECT quantity, cost_uc FROM mortar.usage('crowd')"), $total . '|' . int($total * 3 / 2),
  'and in the end all of it');
is(admin("SELECT available_uc FROM mortar.balance('crowd')"), $granted - int($total * 3 / 2), 'paid for exactly');

# A flush that fails loses nothing and doubles nothing.
my $lock = Session->new($node);
$lock->run('BEGIN; LOCK TABLE mortar.usage_marks IN SHARE MODE');
admin("SELECT mortar.record_usage('healed', 'requests', 1) FROM generate_series(1, 100)");
$node->poll_query_until($Mortar::database, 'SELECT failures > 0 FROM mortar.flusher') or die 'no flush has failed';
is(admin("SELECT quantity FROM mortar.usage('healed')"), '100', 'usage shows 100 while flushes fail');
is(journal('healed'), '0', 'and the journal has none of it');
is($node->safe_psql($Mortar::database, "SELECT last_error IS NOT NULL FROM mortar.flusher"), 't', 'the DBA sees why');
$lock->run('ROLLBACK');
$lock->end;
$node->poll_query_until($Mortar::database,
  "SELECT sum(upto_qty - from_qty) >= 100 FROM mortar.usage_journal WHERE tenant_id = 'healed'") or die 'no flush after the lock';
is(journal('healed'), '100', 'once the lock is gone the journal has 100, once');
is(admin("SELECT quantity FROM mortar.usage('healed')"), '100', 'and usage still shows 100');
is(admin('SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'), '', 'everything adds up');
done_testing();
