# 053_durability.pl
#   Usage with durability sync and group: no end of the server takes what was
#   acknowledged, whatever synchronous_commit says; it is exact beside buffered
#   usage, aborts and flushes; it is seen once, and all the time, while the flusher
#   moves it to the journal; without a flusher it is seen and paid all the same; a
#   dump has what waits, and a standby shows it; it goes with the extension and with
#   its database.  023_crash_matrix.pl has the crashes under load.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use IPC::Run;
use Mortar;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

my $granted = 1_000_000_000;
my $node = Mortar::node('main', conf => <<'CONF');
max_prepared_transactions = 4
restart_after_crash = on
wal_writer_delay = '10s'
mortar.flush_interval = '10ms'
CONF
my $key = Mortar::tenant($node, 'acme', credits => 1000, prices => 1);
my $gateway = Mortar::gateway($node);

sub admin { return Mortar::admin($node, @_); }
sub super { return $node->safe_psql($Mortar::database, @_); }
sub until_true {
  my ($sql, $what) = @_;
  ok($node->poll_query_until($Mortar::database, $sql), $what);
  return;
}
sub queue { return super("SELECT count(*) FROM mortar.usage_sync WHERE tenant_id = '$_[0]'"); }
# moved, and rounding booked to the last micro-credit
sub drained {
  until_true('SELECT NOT EXISTS (SELECT FROM mortar.usage_sync) AND NOT EXISTS (SELECT FROM mortar.cells WHERE unflushed_uc <> 0)', $_[0]);
  return;
}

# a transaction that outlives its session and a restart, and lets nobody flush
sub lock_journal { super("BEGIN; LOCK TABLE mortar.usage_journal IN EXCLUSIVE MODE; PREPARE TRANSACTION 'lock'"); return; }
sub unlock_journal { super("ROLLBACK PREPARED 'lock'"); return; }

sub ledger_is_right {
  my ($what, $where, $database) = @_;
  is(Mortar::admin($where // $node, "SELECT string_agg(check_name || ': ' || detail, '; ') FROM mortar.verify_ledger() WHERE NOT ok",
      database => $database), '', $what);
  return;
}

# account(TENANT): all that there is to know of its usage and credits
sub account {
  my ($tenant, $where, %with) = @_;
  return Mortar::admin($where // $node, "SELECT quantity, cost_uc FROM mortar.usage('$tenant') WHERE meter = 'egress_bytes';"
    . "SELECT available_uc, debt_uc FROM mortar.balance('$tenant')", %with);
}

sub tenant {
  my ($tenant) = @_;
  admin("SELECT mortar.create_tenant('$tenant');"
    . "SELECT mortar.grant_credits('$tenant', 700, 'small', priority => 1), mortar.grant_credits('$tenant', $granted - 700, 'large')");
  return;
}

# pgbench(CLIENTS, CALLS, NAME => [WEIGHT, SQL]): how often each was done
sub pgbench {
  my ($clients, $calls, %script) = @_;
  my @files;
  for my $name (sort keys %script) {
    my $path = $node->basedir . "/$name.sql";
    Mortar::write_file($path, "$script{$name}[1]\n");
    push @files, '-f', "$path\@$script{$name}[0]";
  }
  my ($out, $err) = run_command(
    [ 'pgbench', '-n', '-c', $clients, '-j', 1, '-t', $calls, @files, '-U', 'mortar_test_admin', $node->connstr($Mortar::database) ]);
  is($err =~ /error|abort/i ? $err : '', '', "$clients sessions run to their end");
  my %done;
  $done{$1} = $2 while $out =~ m{SQL script \d+: \S+/(\w+)\.sql\n(?: - weight: .*\n)? - (\d+) transactions}g;
  return %done;
}

sub record {
  my ($tenant, $durability) = @_;
  return "SELECT mortar.record_usage('$tenant', 'egress_bytes', 777, " . ($durability ? "'$durability'" : 'NULL') . ')';
}

# ---- a commit that would not wait for the disk ----
tenant('fast');
lock_journal();
for my $durability (qw(sync group)) {
  my $before = admin("SELECT coalesce(sum(quantity), 0) FROM mortar.usage('fast')");
  my $session = Session->new($node);
  $session->run('SET synchronous_commit = off');
  my $pid = $session->run('SELECT pg_backend_pid()');
  $session->run(record('fast', $durability));
  my $from = -s $node->logfile;
  kill('KILL', $pid) == 1 or die "kill: $!";
  $node->wait_for_log(qr/all server processes terminated; reinitializing/, $from);
  eval { $session->end };
  $gateway->wait_ready;
  is(admin("SELECT quantity FROM mortar.usage('fast')"), $before + 777, "$durability is on disk, with synchronous_commit off");
}
is(queue('fast'), 2, '... and waits for the flusher');
unlock_journal();
drained('... who moves it, though nobody has asked for the tenant');
ledger_is_right('the ledger agrees');

# ---- HTTP: the tenant's durability, or the server's if that is stronger ----
$gateway->request('POST', '/v1/acme/db/tables', key => $key, json => { name => 'notes' });
lock_journal();
my $rows = 0;
for my $case ([ 'buffered', 'buffered', 0 ], [ 'sync', 'buffered', 2 ], [ 'buffered', 'group', 2 ], [ 'group', 'sync', 2 ], [ 'sync', 'off', 0 ]) {
  my ($own, $all, $more) = @$case;
  admin("SELECT mortar.set_limit('acme', durability => '$own')");
  super($_) for "ALTER SYSTEM SET mortar.egress_mode = '$all'", 'SELECT pg_reload_conf()';
  $node->poll_query_until($Mortar::database, "SELECT current_setting('mortar.egress_mode') = '$all'");
  my $answer = $gateway->request('GET', '/v1/acme/db/tables', key => $key);
  is($answer->{status}, 200, "tenant $own, server $all");
  is(queue('acme'), $rows + $more, "... $more rows wait");
  $rows = queue('acme');
}
is(super("SELECT string_agg(DISTINCT meter || ' ' || route, ', ' ORDER BY meter || ' ' || route) FROM mortar.usage_sync WHERE tenant_id = 'acme' AND key_id <> '00000000-0000-0000-0000-000000000000'"),
  'egress_bytes GET /db/tables, requests GET /db/tables', 'one for each meter, with key and route');
is(super("SELECT sum(cost_uc) FROM mortar.usage_sync WHERE tenant_id = 'acme' AND meter = 'requests'"), 30, '... and what it has paid');
super($_) for "ALTER SYSTEM RESET mortar.egress_mode", 'SELECT pg_reload_conf()';
unlock_journal();
drained('the flusher moves them');
is(admin("SELECT sum(quantity) FROM mortar.usage('acme') WHERE meter = 'requests'"), 5, 'each call was counted once, but for that with metering off');
ledger_is_right('the ledger agrees');

# ---- exact, beside buffered usage and aborts, while the flusher runs ----
tenant('mixed');
my ($sync, $group, $buffered) = map { record('mixed', $_) } qw(sync group buffered);
my %done = pgbench(6, 1_500,
  sync => [ 4, "$sync;" ], group => [ 3, "$group;" ], buffered => [ 5, "$buffered;" ],
  rollback => [ 1, "BEGIN\\; $sync\\; $buffered\\; ROLLBACK;" ],
  savepoint => [ 1, "BEGIN\\; $buffered\\; $sync\\; SAVEPOINT s\\; $group\\; $buffered\\; ROLLBACK TO s\\; $group\\; COMMIT;" ]);
my $bytes = 777 * ($done{sync} + $done{group} + $done{buffered} + 3 * $done{savepoint});
my $cost = int($bytes * 3 / 10_000);
my $exact = "$bytes|$cost\n" . ($granted - $cost) . '|0';
is(account('mixed'), $exact, "usage and balance have each kept call once, and its exact price ($done{sync} sync, $done{group} group, $done{buffered} buffered)");
drained('all of it reaches the journal');
until_true("SELECT bool_and(queued = 0 AND unflushed_uc = 0) FROM mortar.slots", '... and memory knows');
is(account('mixed'), $exact, '... nothing has changed by that');
is(admin("SELECT sum(cost_uc) FROM mortar.usage_journal WHERE tenant_id = 'mixed'"), $cost, 'the rows of the journal cost exactly that together');
until_true("SELECT bool_and(unflushed_uc = 0) FROM mortar.cells WHERE tenant_id = 'mixed'", 'and who has paid is booked to the last micro-credit');
is(admin("SELECT remaining_uc FROM mortar.grants WHERE tenant_id = 'mixed' ORDER BY priority"), "0\n" . ($granted - $cost), '... the grants in their order');
ledger_is_right('the ledger agrees');

# ---- an undo is worth what durable usage of others has made of it since; the bound stays exact ----
{
  lock_journal();
  admin("SELECT mortar.create_tenant('undo'), mortar.grant_credits('undo', 100, 'g'), mortar.set_price('requests', 1, 2, tenant => 'undo')");
  admin("SELECT mortar.set_limit('undo', max_unflushed_uc => 10)");
  my $use = sub { return "SELECT mortar.record_usage('undo', 'requests', $_[0], '" . ($_[1] // 'buffered') . "')"; };
  admin($use->(2));
  my $session = Session->new($node, user => 'mortar_test_admin');
  $session->run('BEGIN; ' . $use->(1));
  admin($use->(1, 'sync'));
  $session->run('ROLLBACK');
  $session->end;
  admin($use->(18));
  is(admin("SELECT unflushed_uc FROM mortar.balance('undo')"), 10, 'after an undo the bound is reached');
  my (undef, undef, $stderr) = $node->psql($Mortar::database, "\\set VERBOSITY sqlstate\n" . $use->(2), extra_params => [ '-U', 'mortar_test_admin' ]);
  like($stderr, qr/53400/, '... and not a micro-credit later');
  unlock_journal();
  drained('... until all of it is moved');
}

# ---- seen all the time, each unit once ----
tenant('crowd');
my $writer = $node->basedir . '/writer.sql';
append_to_file($writer, record('crowd', 'sync') . ";\n");
append_to_file($writer, record('crowd', 'buffered') . ";\n");
my ($out, $err) = ('', '');
my ($writers, $calls) = (3, 1_000);
my $load = IPC::Run::start([ 'pgbench', '-n', '-c', $writers, '-j', 1, '-t', $calls, '-f', $writer, '-U', 'mortar_test_admin',
    $node->connstr($Mortar::database) ], '<', \undef, '>', \$out, '2>', \$err);
my $reader = Session->new($node, user => 'mortar_test_admin');
my $watch = <<"SQL";
DO \$\$
DECLARE
  own int8 := 0;
  quantity int8 := 0;
  available int8 := $granted;
  seen record;
  after_it int8;
BEGIN
  FOR i IN 1 .. 100 LOOP
    PERFORM mortar.record_usage('crowd', 'egress_bytes', 777, 'sync');
    COMMIT;
    own := own + 777;
    SELECT u.quantity, u.cost_uc INTO seen FROM mortar.usage('crowd') u;
    SELECT b.available_uc INTO after_it FROM mortar.balance('crowd') b;
    IF seen.quantity < quantity + 777 THEN
      RAISE EXCEPTION 'usage fell: % after %', seen.quantity, quantity;
    ELSIF after_it > available THEN
      RAISE EXCEPTION 'balance rose: % after %', after_it, available;
    ELSIF seen.cost_uc > $granted - after_it THEN
      RAISE EXCEPTION 'usage shows % uc, and % were paid', seen.cost_uc, $granted - after_it;
    ELSIF seen.cost_uc <> seen.quantity * 3 / 10000 THEN
      RAISE EXCEPTION '% bytes cost %', seen.quantity, seen.cost_uc;
    ELSIF seen.quantity < own THEN
      RAISE EXCEPTION 'own usage is missing: % of %', seen.quantity, own;
    END IF;
    quantity := seen.quantity;
    available := after_it;
  END LOOP;
END
\$\$
SQL
my ($rounds, $wrong) = (0, '');
do {
  $wrong .= $reader->run($watch);
  $rounds++;
} while (IPC::Run::pumpable($load) && IPC::Run::pump_nb($load));
$reader->end;
IPC::Run::finish($load) or die "pgbench: $err";
is($wrong, '', 'beside writers a reader sees usage that only grows, each call once, at its price, none unpaid');
my $moves = super("SELECT count(DISTINCT movement_id) FROM mortar.usage_journal WHERE tenant_id = 'crowd' AND durable");
cmp_ok($moves, '>', 10, "... while rows were moved $moves times");
$bytes = 777 * (2 * $writers * $calls + 100 * $rounds);
$cost = int($bytes * 3 / 10_000);
is(account('crowd'), "$bytes|$cost\n" . ($granted - $cost) . '|0', 'and in the end all of it');

# ---- rows that wait, and the ends of a server: the same answers, the same grants ----
tenant('waits');
lock_journal();
admin(record('waits', 'sync')) for 1 .. 9;
admin(record('waits', 'buffered')) for 1 .. 4;
admin(record('waits', 'group')) for 1 .. 8;
my $before = account('waits');
is($before, 777 * 21 . "|4\n" . ($granted - 4) . '|0', 'before the end');
$node->stop('fast');
$node->start;
$gateway->wait_ready;
unlock_journal();
drained('after a clean stop what waited is moved');
is(account('waits'), $before, '... and nothing is lost');
lock_journal();
admin(record('waits', $_)) for qw(sync sync group sync);
$before = account('waits');
admin(record('waits', 'buffered')) for 1 .. 4;
$node->stop('immediate');
$node->start;
$gateway->wait_ready;
is(account('waits'), $before, 'after an immediate stop only what was buffered is lost');
is(super("SELECT queued FROM mortar.slots WHERE tenant_id = 'waits'"), 4, '... memory knows what waits');
my $units = 21 + 4;

# goes_on(CALLS): each costs what its price says of all that was ever counted
sub goes_on {
  my ($calls, $what) = @_;
  my (@seen, @right);
  for (1 .. $calls) {
    admin(record('waits', qw(sync buffered)[ $_ % 2 ]));
    my $uc = int(777 * ++$units * 3 / 10_000);
    push @seen, account('waits');
    push @right, 777 * $units . "|$uc\n" . ($granted - $uc) . '|0';
  }
  is_deeply(\@seen, \@right, $what);
  return;
}
goes_on(6, '... and the price goes on from there');
$before = account('waits');
unlock_journal();
drained('... and it is moved');
is(account('waits'), $before, '... which changes nothing');
goes_on(6, '... not even by a micro-credit later');
ledger_is_right('the ledger agrees');

# ---- a dump has what waits ----
lock_journal();
admin(record('waits', 'sync')) for 1 .. 3;
$before = account('waits');
my $dump = $node->basedir . '/waits.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr($Mortar::database) ], 'pg_dump');
unlock_journal();
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->safe_psql('restored', "SET client_min_messages = error;\n\\i $dump");
is($node->safe_psql('restored', "SELECT count(*) FROM mortar.usage_sync WHERE tenant_id = 'waits'"), 3, 'what waited still waits in the restored database');
is(account('waits', $node, database => 'restored'), $before, '... where usage and balance are the same');
ok($node->poll_query_until('restored', 'SELECT NOT EXISTS (SELECT FROM mortar.usage_sync)'), '... until its own flusher moves it');
is(account('waits', $node, database => 'restored'), $before, '... and after that');
ledger_is_right('its ledger agrees', $node, 'restored');
# ---- DROP EXTENSION and DROP DATABASE take what waits with them ----
my $sync = "SELECT mortar.record_usage('acme', 'requests', 3, 'sync')";
my $fill = "SELECT mortar.create_tenant('acme'), mortar.set_price('requests', 10, 1); SELECT mortar.grant_credits('acme', 1000, 'g')";
sub on { return $node->safe_psql('dropped', "SET client_min_messages = error; $_[0]"); }

# rows that wait, in the table and as memory knows; credits; usage and its cost
sub state_of_dropped {
  return on("SELECT (SELECT count(*) FROM mortar.usage_sync) || ' ' || (SELECT sum(queued) FROM mortar.slots) || ' ' || available_uc || ' '"
    . " || coalesce((SELECT quantity || ' ' || cost_uc FROM mortar.usage('acme')), '-') FROM mortar.balance('acme')");
}
my %drop = (
  'DROP DATABASE' => sub { super($_) for 'DROP DATABASE dropped', 'CREATE DATABASE dropped'; on('CREATE EXTENSION mortar'); },
  'DROP EXTENSION' => sub { on('DROP EXTENSION mortar'); on('CREATE EXTENSION mortar'); },
  'DROP EXTENSION and CREATE at once' => sub { on('BEGIN; DROP EXTENSION mortar; CREATE EXTENSION mortar; COMMIT'); },
);
for my $way (sort keys %drop) {
  super('CREATE DATABASE dropped');
  on("CREATE EXTENSION mortar; $fill");
  on('ALTER TABLE mortar.usage_journal ADD CONSTRAINT broken CHECK (false) NOT VALID');
  on("$sync; $sync");
  is(state_of_dropped(), '2 2 940 6 60', "before $way rows wait for a flusher that fails");
  on('BEGIN; DROP EXTENSION mortar; ROLLBACK');
  on("BEGIN; $sync; SAVEPOINT s; DROP EXTENSION mortar; ROLLBACK TO s; COMMIT");
  is(state_of_dropped(), '3 3 910 9 90', '... one that is rolled back takes none');
  $drop{$way}->();
  on($fill);
  is(state_of_dropped(), '0 0 1000 -', "$way: a tenant of the same name has none of them");
  on($sync);
  ok($node->poll_query_until('dropped', 'SELECT NOT EXISTS (SELECT FROM mortar.usage_sync) AND NOT EXISTS (SELECT FROM mortar.slots WHERE queued <> 0)'),
    '... those that come now are moved');
  is(state_of_dropped(), '0 0 970 3 30', '... and are all that it has');
  ledger_is_right('... its ledger agrees', $node, 'dropped');
  super('DROP DATABASE dropped');
}

is($gateway->stop, 0, 'the gateway has lived through all of it');
$node->stop;

# ---- no flusher ever, and a standby ----
my $poor = Mortar::node('poor', conf => "max_worker_processes = 2\nmax_wal_senders = 4\nmax_prepared_transactions = 2\n", init => [ allows_streaming => 1 ]);
Mortar::tenant($poor, 'alone', credits => 1000, prices => 1);
Mortar::admin($poor, "SELECT mortar.set_limit('alone', max_unflushed_uc => 1, durability => 'sync')");
Mortar::admin($poor, join(';', (record('alone')) x 50));
my $all = 777 * 50 . "|11\n" . (1_000_000_000 - 11) . '|0';
is(account('alone', $poor), $all, 'without a flusher usage is seen and paid');
my $backup = $poor->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($poor, 'copy', has_streaming => 1);
$standby->start;
Mortar::admin($poor, record('alone')) for 1 .. 4;
$poor->wait_for_catchup($standby);
$all = 777 * 54 . "|12\n" . (1_000_000_000 - 12) . '|0';
is(account('alone', $poor), $all, 'more of it');
is(account('alone', $standby), $all, '... which a standby shows');
$standby->stop;
$poor->stop('immediate');
$poor->start;
is(account('alone', $poor), $all, 'after an immediate stop it is there, still without a flusher');
is($poor->safe_psql($Mortar::database, 'SELECT count(*), (SELECT count(*) FROM mortar.usage_journal) FROM mortar.usage_sync'), '54|0', '... in the queue');
Mortar::admin($poor, record('alone'));
is($poor->safe_psql($Mortar::database, 'SELECT count(*) FROM mortar.usage_sync'), 55, '... where the tenant\'s calls still go');
$poor->stop('fast');
$poor->append_conf('postgresql.conf', 'max_worker_processes = 8');
$poor->start;
ok($poor->poll_query_until($Mortar::database, 'SELECT NOT EXISTS (SELECT FROM mortar.usage_sync)'), 'with a worker it is moved, without a call');
is(account('alone', $poor), 777 * 55 . "|12\n" . (1_000_000_000 - 12) . '|0', '... all of it');
ledger_is_right('the ledger agrees', $poor);
$poor->stop;

unlike(slurp_file($_->logfile), qr/PANIC|TRAP/, 'nothing else broke') for ($node, $poor);
done_testing();
