# 052_first_touch.pl
#   Whoever asks first for a tenant that is not in memory loads it, for everybody,
#   and neither statement_timeout nor a client that has left ends that: a tenant
#   whose entries take longer to read than any statement may last is loaded by the
#   first call.  Others who want it are refused for the time being, by 503, other
#   tenants are served, and a DBA can still cancel it.
#
#   A load takes as long as the test wants: a policy on the ledger, the superuser's
#   own, lets nobody read entries of tenants named slow-... while a gate is closed.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Faults;
use IPC::Run;
use Mortar;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Wire;

my $gate_number = 1;
my $limit = '1s';
my $node = Mortar::node('main', conf => <<"CONF");
mortar.tenant_statement_timeout = '$limit'
client_connection_check_interval = '10ms'
CONF
my $key = Mortar::tenant($node, 'slow-http', credits => 1, prices => 1);
my $key_of_other = Mortar::tenant($node, 'other', credits => 1);

sub admin { return Mortar::admin($node, @_); }
sub super { return $node->safe_psql($Mortar::database, @_); }
sub until_true { return $node->poll_query_until($Mortar::database, $_[0]) || die "waited in vain for $_[0]"; }
sub in_memory { return super("SELECT count(*) FROM mortar.slots WHERE tenant_id = '$_[0]'"); }

# whatever memory holds is no longer current: the next call of each tenant loads it
sub make_stale { super("UPDATE mortar.tenants SET name = 'changed by hand' WHERE tenant_id = 'other'"); return; }

super(<<"SQL");
CREATE FUNCTION public.pass(tenant text) RETURNS bool LANGUAGE plpgsql AS \$\$
BEGIN
  WHILE tenant LIKE 'slow-%' AND NOT pg_catalog.pg_try_advisory_xact_lock_shared($gate_number) LOOP
    PERFORM pg_catalog.pg_sleep(0.01);
  END LOOP;
  RETURN true;
END \$\$;
ALTER POLICY owner_all ON mortar.credit_ledger USING (public.pass(tenant_id));
SQL

# later(SQL...): a psql that does this now and tells later what came of it; the last
#   statement's time is limited
sub later {
  my (@sql) = @_;
  my $last = pop @sql;
  my $self = { out => '', err => '' };
  $self->{psql} = IPC::Run::start(
    [ 'psql', '-XAtq', '-d', $node->connstr($Mortar::database),
      map({ ('-c', $_) } @sql, "SET statement_timeout = '$limit'", $last) ],
    '<', \undef, '>', \$self->{out}, '2>', \$self->{err},
    IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
  return $self;
}
sub result {
  my ($self) = @_;
  IPC::Run::finish($self->{psql});
  return $self->{out} . $self->{err};
}

# loads that are held by the gate, in statements whose time is up already
my $held = "wait_event = 'PgSleep' AND state = 'active' AND backend_type = 'client backend'";
my $overdue = "$held AND clock_timestamp() - query_start > '$limit'::interval * 1.2";
sub wait_held { return until_true("SELECT count(*) >= $_[0] FROM pg_stat_activity WHERE $held"); }
sub wait_overdue { return until_true("SELECT count(*) >= $_[0] FROM pg_stat_activity WHERE $overdue"); }
# the backend that loads: between two naps at the gate it is not seen to sleep
sub loader {
  wait_held(1);
  for (1 .. 1000) {
    my $pid = super("SELECT pid FROM pg_stat_activity WHERE $held");
    return $pid if $pid ne '';
  }
  die 'nobody is held by the gate';
}

# -- every function that may be the first to touch a tenant ---------------------

my %first = (
  balance => 'SELECT available_uc FROM %s',
  usage => "SELECT 'none' FROM %s HAVING count(*) = 0",
  charge => 'SELECT %s IS NOT NULL',
  record_usage => 'SELECT %s',
  grant_credits => 'SELECT %s IS NOT NULL',
  set_limit => 'SELECT %s',
  suspend_tenant => 'SELECT %s',
  create_key => 'SELECT %s IS NOT NULL',
  enter => 'SELECT %s');
my %more = (charge => ", 1, 'key'", record_usage => ", 'requests', 1", grant_credits => ", 1, 'key'",
  suspend_tenant => ", 'unpaid'", create_key => ", 'name'");
my %expected = (balance => "1000000\n", usage => "none\n", record_usage => "\n", set_limit => "\n", enter => "\n");
my %tenant = map { my $name = $_; $name =~ tr/_/-/; ($_ => "slow-$name") } keys %first;
Mortar::tenant($node, $tenant{$_}, credits => 1) for sort keys %tenant;

$node->restart;
my $gate = Faults::close_gate($node, $gate_number);
my %call = map {
  # a session that has loaded some tenant already begins with this one at once
  $_ => later("SELECT FROM mortar.balance('other')", 'BEGIN',
    sprintf($first{$_}, "mortar.$_('$tenant{$_}'" . ($more{$_} // '') . ')'));
} sort keys %first;
wait_overdue(scalar keys %first);
is(super("SELECT count(*) FROM mortar.slots WHERE tenant_id LIKE 'slow-%'"), 0, 'all tenants are being loaded, in statements whose time is up');
$gate->end;
is(result($call{$_}), $expected{$_} // "t\n", "$_() loads its tenant all the same, and goes on") for sort keys %call;
is(super("SELECT count(*) FROM mortar.slots WHERE tenant_id LIKE 'slow-%'"), scalar keys %first, 'all of them are in memory');

# -- the statement's time runs on behind the load -------------------------------

sub do_block { return "DO \$\$ BEGIN $_[0] END \$\$"; }
my $cut = qr/ERROR:  canceling statement due to statement timeout/;

make_stale();
$gate = Faults::close_gate($node, $gate_number);
my $call = later(do_block("PERFORM mortar.balance('slow-usage'); RAISE NOTICE 'loaded'; PERFORM pg_sleep(600);"));
wait_overdue(1);
$gate->end;
like(result($call), qr/loaded\n$cut/, 'a stale slot is loaded like an absent one; what comes after it is cut');
$call = later(do_block("PERFORM mortar.balance('slow-charge'); RAISE NOTICE 'loaded'; PERFORM pg_sleep(600);"));
like(result($call), qr/loaded\n$cut/, '... also after a load that was short');
$call = later(do_block("LOOP UPDATE mortar.tenants SET name = 'again' WHERE tenant_id = 'other'; COMMIT; "
  . "PERFORM mortar.balance('other'); END LOOP;"));
like(result($call), $cut, '... and among many short ones');

# an error in the load, of a lock that somebody keeps
make_stale();
my $locker = Session->new($node);
$locker->run('BEGIN; LOCK TABLE mortar.credit_ledger');
$call = later("SET lock_timeout = '1500ms'",
  do_block("BEGIN PERFORM mortar.balance('slow-charge'); EXCEPTION WHEN lock_not_available THEN RAISE NOTICE 'locked'; END; "
    . 'PERFORM pg_sleep(600);'));
like(result($call), qr/locked\n(?s:.*)$cut/, 'a lock ends the load by lock_timeout, not before; the time runs on after an error, too');
$locker->end;
is(admin("SELECT available_uc FROM mortar.balance('slow-charge')"), 1_000_000, 'the next call loads it');

# -- a DBA ends it ----------------------------------------------------------------

make_stale();
$gate = Faults::close_gate($node, $gate_number);
for my $end (qw(cancel terminate)) {
  $call = later("SELECT available_uc FROM mortar.balance('slow-usage')");
  wait_held(1);
  super("SELECT pg_${end}_backend(" . loader() . ')');
  like(result($call), qr/ERROR:  canceling statement due to user request|FATAL:  terminating connection due to administrator command/,
    "pg_${end}_backend() ends a load");
}
$call = later("SELECT available_uc FROM mortar.balance('slow-usage')");
wait_overdue(1);
my (undef, undef, $err) = $node->psql($Mortar::database, "\\set VERBOSITY verbose\nSET statement_timeout = '$limit';"
    . "SELECT mortar.charge('slow-usage', 1, 'waits')");
like($err, qr/ERROR:  55P03: tenant "slow-usage" is still being loaded/, 'who comes second in SQL is told so, before his time is up');
is(admin("SELECT available_uc FROM mortar.balance('other')"), 1_000_000, 'other tenants are not concerned');
$gate->end;
is(result($call), "1000000\n", 'the next caller loads it');

# -- over HTTP --------------------------------------------------------------------

my $tables = '/v1/slow-http/db/tables';
my $gateway = Mortar::gateway($node, args => [qw(--threads 1 --connections 3)]);
Faults::wait_connected($gateway);
sub get { return $gateway->request('GET', $tables, key => $key); }
sub other { return $gateway->request('GET', '/v1/other/db/tables', key => $key_of_other); }
is(other()->{status}, 200, 'a gateway serves');
make_stale();
$gate = Faults::close_gate($node, $gate_number);
my $first = Wire->new($gateway)->ask('GET', $tables, key => $key);
wait_overdue(1);
my $errors = () = slurp_file($node->logfile) =~ / ERROR: /g;
for my $answer (get(), map { $_->answer } map { Wire->new($gateway)->ask('GET', $tables, key => $key) } 1 .. 3) {
  is_deeply([ $answer->{status}, $answer->{json}{code}, $answer->{headers}{'retry-after'} ], [ 503, 'unavailable', 1 ],
    'while a call loads the tenant, others of it are refused, with Retry-After');
}
is(other()->{status}, 200, 'other tenants are served');
is($first->is_silent, 1, '... while the load goes on');
is(scalar(() = slurp_file($node->logfile) =~ / ERROR: /g), $errors, 'no refusal was an error');
$gate->end;
is($first->answer->{status}, 200, 'the call that loads it is served, though its time was up');
is(get()->{status}, 200, 'and so are the next ones');
is($gateway->stop, 0, 'the gateway ends');

# The gateway waits no longer for an answer, and its connection is gone.  A session
# that has loaded a tenant, and then loses its client, shows that the server sees
# such things, and has seen that one by then.
$gateway = Mortar::gateway($node, args => [qw(--threads 1 --connections 3 --call-timeout 1s)]);
Faults::wait_connected($gateway);
make_stale();
$gate = Faults::close_gate($node, $gate_number);
$first = Wire->new($gateway)->ask('GET', $tables, key => $key);
wait_held(1);
my $loader = loader();
is($first->answer->{status}, 503, 'a gateway gives up the call');
my $other = later('SET statement_timeout = 0; '
  . do_block("PERFORM mortar.balance('other'); PERFORM pg_advisory_lock($gate_number);"));
Faults::wait_at_gate($node, $gate_number, 1);
IPC::Run::kill_kill($other->{psql});
until_true("SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory' AND objid = $gate_number AND NOT granted");
is(loader(), $loader, 'the load goes on without it');
is(in_memory('slow-http'), 0, '... as long as it takes');
$gate->end;
until_true("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $loader");
$gate = Faults::close_gate($node, $gate_number);
is(get()->{status}, 200, 'it was not in vain: the next call finds the tenant in memory');
$gate->end;
is($gateway->stop, 0, 'the gateway ends');

# -- few entries and many ---------------------------------------------------------

# 100,000 and more are read another way; the first entry is the grant
my @sizes = (99_999 .. 100_001);
for my $size (@sizes) {
  Mortar::tenant($node, "with-$size", credits => 1);
  super("INSERT INTO mortar.credit_ledger (tenant_id, entry_id, movement_id, kind, from_account, to_account, amount_uc, grant_id, "
    . "effective_at, epoch_id) SELECT 'with-$size', id, id, 'charge', 'available', 'consumed', 1 + i % 3, grant_id, now(), epoch_id "
    . "FROM (SELECT i, gen_random_uuid() AS id FROM generate_series(2, $size) i) e, (SELECT epoch_id FROM mortar.epochs LIMIT 1) p, "
    . "(SELECT grant_id FROM mortar.credit_grants WHERE tenant_id = 'with-$size') g");
}
sub sums {
  return join ' ', map { super("SELECT count(*) || ':' || sum(CASE kind WHEN 'grant' THEN amount_uc ELSE -amount_uc END) "
    . "FROM mortar.credit_ledger WHERE tenant_id = 'with-$_'") } @sizes;
}
sub balances { return join ' ', map { "$_:" . super("$_[0]SELECT available_uc FROM mortar.balance('with-$_')") } @sizes; }
for my $mode ('auto', 'force_generic_plan') {
  make_stale();
  is(balances("SET plan_cache_mode = $mode; "), sums(), "the balance of all entries, with plan_cache_mode $mode");
}
super('VACUUM ANALYZE mortar.credit_ledger');
make_stale();
is(balances('SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; '),
  sums(), '... also in parallel');
is(admin('SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'), '', 'everything adds up');
done_testing();
