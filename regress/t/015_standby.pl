# 015_standby.pl
#   A hot standby answers balance, usage, views and checks from its tables alone,
#   keeps nothing of them in memory, and refuses whatever writes or lets somebody
#   in.  Promoted, it starts from the tables: what was spent stays spent, a revoked
#   key stays dead, a suspended tenant suspended, also in sessions that read before.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Mortar;
use PostgreSQL::Test::Cluster;
use Session;
use Test::More;

my $node = Mortar::node('main', conf => "mortar.flush_interval = '20ms'\nmax_connections = 30\n",
  init => [ allows_streaming => 1 ]);
my $database = $Mortar::database;
my $revoked = Mortar::tenant($node, 'acme', credits => 1, prices => 1);
my $key = Mortar::admin($node, "SELECT mortar.create_key('acme', 'stays')");
my $key_of_other = Mortar::tenant($node, 'other', credits => 1);
# of two holds one expires at once
Mortar::tenant($node, 'holder', credits => 1);
Mortar::admin($node, "SELECT mortar.hold('holder', 300, '1 hour', 'h'), mortar.hold('holder', 200, '1 millisecond', 's')");
$node->safe_psql($database, "CREATE ROLE regress_$_ LOGIN IN ROLE mortar_$_") for qw(tenant service monitor);

$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
my $gateway = Mortar::gateway($standby);

# flushed(): all usage of the primary is in its tables, and they are the standby's
sub flushed {
  $node->poll_query_until($database, 'SELECT coalesce(bool_and(unflushed_uc = 0), true) FROM mortar.slots')
    or die 'usage is not flushed';
  $node->wait_for_catchup($standby, 'replay', $node->lsn('flush'));
  return;
}

# on_standby(USER, SQL): what it answers; for errors the SQLSTATE
sub on_standby {
  my ($user, $sql) = @_;
  my ($code, $out, $err) = $standby->psql($database, "\\set VERBOSITY sqlstate\n$sql",
    extra_params => [ '-U', $user ]);
  return $code == 0 ? $out : $err =~ s/.*ERROR:  (\w+).*/$1/sr;
}

my $login = "BEGIN; SELECT mortar.login('%s'); COMMIT;";
my $http = "SELECT h.status FROM mortar.http('acme', 'GET', '/db/tables', NULL, ARRAY['apikey', '%s'], NULL, '127.0.0.1', 'r') h";

# -- what it answers ----------------------------------------------------------

# everything that can be asked of a server at rest, the same on both
my @questions = (
  "SELECT available_uc, held_uc, unflushed_uc, debt_uc, next_expiry, state FROM mortar.balance('acme')",
  "SELECT * FROM mortar.usage('acme', by => '{meter,key,route,minute}')",
  "SELECT * FROM mortar.usage('acme', now() - interval '1 day', now() + interval '1 day', by => '{meter,day}')",
  "SELECT * FROM mortar.usage('other')",
  'SELECT t.tenant_id, t.state, t.state_reason, b.* FROM mortar.tenants t, mortar.balance(t.tenant_id) b ORDER BY 1',
  'SELECT * FROM mortar.balances ORDER BY 1',
  'SELECT * FROM mortar.open_holds',
  'SELECT * FROM mortar.keys ORDER BY key_id',
  'SELECT * FROM mortar.routes',
  'SELECT * FROM mortar.credit_ledger ORDER BY entry_id',
  "SELECT check_name, ok FROM mortar.verify_ledger() UNION ALL SELECT check_name, ok FROM mortar.verify_ledger('acme')");

# same_answers(WHAT): to all of them, under READ COMMITTED and REPEATABLE READ
sub same_answers {
  my ($what) = @_;
  flushed();
  for my $user (qw(mortar_test_admin regress_monitor)) {
    my (@primary, @standby);
    for (@questions) {
      push @primary, $node->safe_psql($database, $_, extra_params => [ '-U', $user ]);
      push @standby, on_standby($user, $_), on_standby($user, "BEGIN ISOLATION LEVEL REPEATABLE READ;$_");
    }
    is_deeply(\@standby, [ map { $_, $_ } @primary ], "$what: a standby answers $user as the primary does");
  }
  return;
}
same_answers('at first');
my $reader = Session->new($standby, user => 'mortar_test_admin');
is($reader->run("SELECT available_uc, state FROM mortar.balance('acme')"), '1000000|active', 'a session reads a balance');
Mortar::admin($node, "SELECT mortar.record_usage('acme', 'requests', 1000)");
Mortar::admin($node, "SELECT mortar.charge('acme', 90000, 'early')");
Mortar::admin($node, "SELECT mortar.suspend_tenant('other', 'unpaid')");
same_answers('after usage, a charge and a suspension');
is($reader->run("SELECT available_uc, state FROM mortar.balance('acme')"), '900000|active', 'and a newer one: nothing is cached');
is($reader->run("SELECT available_uc, state FROM mortar.balance('other')"), '1000000|suspended', 'so it is with a state');
is(on_standby('mortar_test_admin', "SELECT mortar.balance('absent')"), 'MT404', 'a tenant that is not there is MT404');
is(on_standby('mortar_test_admin', "SELECT * FROM mortar.usage('absent')"), 'MT404', 'for usage, too');
is(on_standby('regress_tenant', "SELECT mortar.balance('acme')"), '42501', 'a balance is nobody else\'s to read');
sub memory { return on_standby('regress_monitor', "SELECT count(*), (SELECT concat_ws(' ', state, pid, failures) FROM mortar.flusher) FROM mortar.slots"); }
is(memory(), '0|none 0', 'after all that no tenant is in memory, and there is no flusher');

# -- what it refuses ----------------------------------------------------------

my $id = Mortar::admin($node, "SELECT key_id FROM mortar.keys WHERE name = 'test' AND tenant_id = 'acme'");
my %refused = (
  charge => "SELECT mortar.charge('acme', 1, 'on standby')",
  'charge again' => "SELECT mortar.charge('acme', 90000, 'early')",
  grant_credits => "SELECT mortar.grant_credits('acme', 1, 'on standby')",
  record_usage => "SELECT mortar.record_usage('acme', 'requests', 1)",
  create_tenant => "SELECT mortar.create_tenant('new')",
  suspend_tenant => "SELECT mortar.suspend_tenant('acme', 'r')",
  resume_tenant => "SELECT mortar.resume_tenant('other')",
  close_tenant => "SELECT mortar.close_tenant('acme')",
  create_key => "SELECT mortar.create_key('acme', 'on standby')",
  revoke_key => "SELECT mortar.revoke_key('acme', '$id')",
  set_price => "SELECT mortar.set_price('requests', 1, 1)");
for (sort keys %refused) {
  is(on_standby('mortar_test_admin', $refused{$_}), '25006', "it refuses $_");
  my (undef, undef, $err) = $standby->psql($database, $refused{$_});
  like($err, qr/Mortar cannot do this on a standby.*HINT:  Ask the primary/s, 'and says why');
}
is(on_standby('regress_tenant', sprintf($login, $key)), '25006', 'it lets nobody log in');
is(on_standby('regress_tenant', sprintf($login, 'no key')), '25006', 'whatever they come with');
is(on_standby('regress_service', "BEGIN; SELECT mortar.enter('acme'); COMMIT;"), '25006', 'nor a service enter');
is(on_standby('mortar_test_gateway', sprintf($http, $key)), '503', 'it answers requests with 503');
my $answer = $gateway->request('GET', '/v1/acme/db/tables', key => $key);
is("$answer->{status} $answer->{json}{code} $answer->{headers}{'retry-after'}", '503 unavailable 1', 'also through a gateway');
is(memory(), '0|none 0', 'and has nothing in memory after all that');

# -- what it does not know any better when it is promoted ---------------------

$reader->run('BEGIN');
is($reader->run("SELECT available_uc FROM mortar.balance('acme')"), '900000', 'a transaction reads a balance');
my $writer = Session->new($standby, user => 'mortar_test_admin');
is($writer->run("SELECT available_uc FROM mortar.balance('acme')"), '900000', 'so does a session');
is($node->safe_psql($database, sprintf($login, $revoked), extra_params => [ '-U', 'regress_tenant' ]), 'acme',
  'the primary knows the key');
Mortar::admin($node, "SELECT mortar.charge('acme', 300000, 'spent')");
Mortar::admin($node, "SELECT mortar.record_usage('acme', 'requests', 20000)");
Mortar::admin($node, "SELECT mortar.revoke_key('acme', '$id')");
Mortar::admin($node, "SELECT mortar.set_price('requests', 50, 1)");
flushed();
is(Mortar::admin($node, "SELECT available_uc FROM mortar.balance('acme')"), '400000', 'of 1 credit 0.4 are left');
$node->stop;
$standby->promote;

is($reader->run("SELECT available_uc FROM mortar.balance('acme')"), '400000',
  'promoted, it knows what is left, also in a transaction that began before');
$reader->run('COMMIT');
is($writer->run("SELECT mortar.charge('acme', 400001, 'too much', on_short => 'return') IS NULL"), 't',
  'and lets nobody spend twice, also in a session that began before');
is(on_standby('mortar_test_admin', "SELECT mortar.charge('acme', 400001, 'too much')"), 'MT402', 'nor in a new one');
is(Mortar::admin($standby, "SELECT mortar.charge('acme', 300000, 'spent') IS NOT NULL"), 't',
  'a charge of the old primary is known by its key');
is(Mortar::admin($standby, "SELECT available_uc FROM mortar.balance('acme')"), '400000', 'and not made again');
is(on_standby('regress_tenant', sprintf($login, $revoked)), '28000', 'a revoked key stays dead');
is(on_standby('mortar_test_gateway', sprintf($http, $revoked)), '401', 'also for requests');
is(on_standby('mortar_test_gateway', sprintf($http, $key)), '200', 'the other key is good');
is($gateway->request('GET', '/v1/other/db/tables', key => $key_of_other)->{json}{code}, 'tenant_suspended',
  'a suspended tenant stays suspended');
is($gateway->request('GET', '/v1/acme/db/tables', key => $key)->{status}, 200, 'the gateway serves the others');
Mortar::admin($standby, "SELECT mortar.record_usage('acme', 'requests', 8)");
is(Mortar::admin($standby, "SELECT available_uc FROM mortar.balance('acme')"), 400000 - 2 * 50 - 8 * 50,
  'the last price of the old primary is in force');
is(Mortar::admin($standby, "SELECT sum(quantity) FROM mortar.usage('acme') WHERE meter = 'requests'"), 21010, 'and usage goes on');
is(Mortar::admin($standby, 'SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'), '', 'everything adds up');
done_testing();
