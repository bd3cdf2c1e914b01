# 066_promote_under_load.pl
#   A primary is killed while clients charge, hold, capture and let holds expire, and
#   its standby, which others have been reading all along, is promoted.  What clients
#   were told is there; nobody can spend from a balance that was read before; holds go
#   on, those that have expired are free, and each is resolved once.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use IPC::Run;
use Mortar;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Race;
use Session;
use Test::More;

my $granted = 1_000_000;
my $clients = 6;
my $database = $Mortar::database;
my $node = Mortar::node('main', conf => "mortar.flush_interval = '20ms'\nmax_connections = 60\n", init => [ allows_streaming => 1 ]);
Mortar::admin($node, "SELECT mortar.create_tenant(t), mortar.grant_credits(t, $granted, 'grant') FROM unnest('{acme,last}'::text[]) t");
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
# whoever is told that something is done is told when the standby has it
$node->append_conf('postgresql.conf', "synchronous_standby_names = '*'\nsynchronous_commit = 'remote_write'\n");
$node->reload;
$node->poll_query_until('postgres', "SELECT sync_state = 'sync' FROM pg_stat_replication") or die 'the standby is not synchronous';

sub on { my ($server, $sql) = @_; return Mortar::admin($server, $sql); }
sub error {
  my ($sql) = @_;
  my (undef, undef, $err) = $standby->psql($database, "\\set VERBOSITY sqlstate\n$sql", extra_params => [ '-U', 'mortar_test_admin' ]);
  return $err =~ /ERROR:  (\w+)/ ? $1 : $err;
}

# ---- load ----
# each client writes down what it was told: psql prints a row when it is committed
my @work = (
  charge => "SELECT 'charge', mortar.charge('acme', 3, '%s')",
  hold => "SELECT 'hold', mortar.hold('acme', 5, '1 hour', '%s')",
  brief => "SELECT 'brief', mortar.hold('acme', 7, '1 millisecond', '%s')",
  capture => "SELECT 'capture', mortar.capture('acme', mortar.hold('acme', 11, '1 hour', 'h %s'), 8, '%1\$s')",
  undone => "BEGIN; SELECT mortar.charge('acme', 1000, '%s'); SELECT mortar.hold('acme', 1000, '1 hour', 'h %1\$s'); ROLLBACK");
my %clients;
for my $client (1 .. $clients) {
  my $file = $node->basedir . "/client-$client.sql";
  my $text = "\\set QUIET on\n";
  for my $n (1 .. 20_000) {
    my ($name, $sql) = @work[ 2 * ($n % 5), 2 * ($n % 5) + 1 ];
    $text .= sprintf($sql, "$client-$n") . ";\n";
  }
  Mortar::write_file($file, $text);
  my $out = $node->basedir . "/client-$client.out";
  $clients{$out} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-U', 'mortar_test_admin', '-f', $file,
      '-d', $node->connstr($database) ], '<', \undef, '>', $out, '2>', "$out.err");
}
$node->poll_query_until($database, "SELECT count(*) > 300 FROM mortar.credit_ledger WHERE kind = 'charge'") or die 'no load';

# readers of the standby: at the moment of promotion one is between two transactions,
# one in the middle of one, and one has a snapshot
my %reader = map { $_ => Session->new($standby, user => 'mortar_test_admin') } qw(idle open snapshot);
my $ask = "SELECT available_uc > 0 FROM mortar.balance('acme')";
is($reader{idle}->run($ask), 't', 'the standby answers under load');
$reader{open}->run('BEGIN');
$reader{snapshot}->run('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($reader{$_}->run($ask), 't', "... in a transaction ($_)") for qw(open snapshot);
is(on($standby, "SELECT available_uc, held_uc FROM mortar.balance('last')"), "$granted|0", '... of another tenant, too');

# a hold that expires before the promotion, one at about that time, one after it
my %hold = map { my ($name, $ttl) = @$_; $name => on($node, "SELECT mortar.hold('last', 1000, '$ttl', '$name')") }
  [ past => '1 millisecond' ], [ soon => '3 seconds' ], [ later => '1 hour' ], [ voided => '1 hour' ];
on($node, "SELECT mortar.charge('last', $granted - 4000 - 10, 'nearly all')");
my $more = on($standby, "SELECT count(*) FROM mortar.credit_ledger WHERE tenant_id = 'acme'") + 200;
$standby->poll_query_until($database, "SELECT count(*) > $more FROM mortar.credit_ledger WHERE tenant_id = 'acme'") or die 'the load has ended';

$node->stop('immediate');
$standby->promote;
IPC::Run::finish($_) for values %clients;

# ---- what clients were told ----
my %told;
for my $out (keys %clients) {
  like(slurp_file("$out.err"), qr/server closed the connection|terminating connection|the database system is/, 'a client was at work to the end');
  my $text = slurp_file($out);
  push @{ $told{$1} }, $2 while $text =~ /^(\w+)\|([-0-9a-f]{36})$/mg;
}
for my $kind (qw(charge hold brief capture)) {
  my $table = $kind =~ /hold|brief/ ? 'credit_holds WHERE hold_id' : 'credit_ledger WHERE entry_id';
  my $ids = join(',', @{ $told{$kind} });
  is($standby->safe_psql($database, "SELECT count(*) FROM mortar.$table = ANY ('{$ids}')"), scalar(@{ $told{$kind} }),
    "the standby has each $kind of which a client was told: " . @{ $told{$kind} });
}

# ---- one balance, whoever asks ----
# tables alone, added up by hand: what was granted less charges, captures and what is
# held of holds that have neither been resolved nor expired
my $books = $standby->safe_psql($database, "SELECT $granted - sum(amount_uc) FILTER (WHERE kind IN ('charge', 'capture')) - h.held, h.held
  FROM mortar.credit_ledger, (SELECT coalesce(sum(amount_uc), 0) AS held FROM mortar.credit_holds h WHERE tenant_id = 'acme' AND amount_uc <> 7
    AND NOT EXISTS (SELECT FROM mortar.credit_ledger l WHERE l.reverses = h.hold_id)) h WHERE tenant_id = 'acme' GROUP BY h.held");
$ask = "SELECT available_uc, held_uc FROM mortar.balance('acme')";
for (1 .. 2) {
  is($reader{$_}->run($ask), $books, "promoted, a session ($_) sees what tables say") for qw(idle open snapshot);
  is(on($standby, $ask), $books, '... as a new one does');
  $reader{$_}->run('COMMIT') for qw(open snapshot);
}
is($standby->safe_psql($database, q{SELECT count(*) FROM mortar.credit_ledger WHERE amount_uc = 1000 AND tenant_id = 'acme'}), 0, 'what was rolled back is nowhere');

# ---- nobody spends what was there before ----
# whether the second hold has expired by now or not
$reader{idle}->run("SELECT mortar.charge('last', 2011, 'more than there is', on_short => 'return')");
is(error("SELECT mortar.charge('last', 2011, 'more than there is')"), 'MT402', 'a tenant has ten micro-credits, and what holds give back');
$standby->poll_query_until($database, "SELECT clock_timestamp() > expires_at FROM mortar.credit_holds WHERE hold_id = '$hold{soon}'");
my $race = Race::run($standby, 32, q{SELECT mortar.charge('last', 201, ':client_id')});
# who waits for another that is releasing a hold may be told to try again
delete $race->{errors}{$_} for 'Not enough credits.', 'credits of tenant "last" are about to come back';
is_deeply($race->{errors}, {}, '32 sessions that charge 201 each: refused, or served');
for (0 .. 31) { on($standby, "SELECT mortar.charge('last', 201, '$_', on_short => 'return')"); }
is(on($standby, "SELECT available_uc, held_uc, (SELECT count(*) FROM mortar.credit_ledger WHERE tenant_id = 'last' AND amount_uc = 201) FROM mortar.balance('last')"),
  '0|2000|10', '... ten of them: of 2,010, which two holds that expired have given back');
is(error("SELECT mortar.capture('last', '$hold{$_}', 1, 'k $_')"), 'MT409', "the hold that has expired cannot be captured ($_)") for qw(past soon);
is(on($standby, "SELECT mortar.capture('last', '$hold{later}', 990, 'c') IS NOT NULL"), 't', 'one that goes on can');
is(error("SELECT mortar.void_hold('last', '$hold{later}', 'v')"), 'MT409', '... once');
is(on($standby, "SELECT mortar.void_hold('last', '$hold{voided}', 'v') IS NOT NULL"), 't', '... or be voided');
is(on($standby, "SELECT available_uc, held_uc FROM mortar.balance('last')"), '1010|0', 'and what is left of both is there');
is(on($standby, 'SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'), '', 'everything adds up');
# keys of the old primary
my ($charge) = $standby->safe_psql($database, q{SELECT key || ' ' || result FROM mortar.idempotency JOIN mortar.credit_ledger ON entry_id = result
  WHERE kind = 'charge' AND idempotency.tenant_id = 'acme' LIMIT 1}) =~ /^(.*)$/;
my ($key, $id) = split / /, $charge;
is(on($standby, "SELECT mortar.charge('acme', 3, '$key')"), $id, 'a charge that was made on the old primary is known by its key');
is(on($standby, $ask), $books, '... and not made again');
$standby->restart;
is(on($standby, $ask), $books, 'after a restart all is the same');
is(on($standby, 'SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'), '', 'and adds up');
done_testing();
