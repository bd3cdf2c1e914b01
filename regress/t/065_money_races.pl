# 065_money_races.pl
#   What one tenant's credits go through at one instant, and at the wrong one: 50
#   sessions that use one key, 64 that hold the last credits, backends that end in the
#   middle, usage that is flushed when its grant has ended, a server that crashes under
#   a hold, and the largest amounts, while another tenant's usage goes on being flushed.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Mortar;
use Race;
use Session;
use Test::More;

my $node = Mortar::node('main', conf => "max_connections = 120\nmortar.flush_interval = '20ms'\n");

sub admin { return Mortar::admin($node, $_[0]); }
sub super { return $node->safe_psql($Mortar::database, $_[0]); }
sub tenant {
  my ($tenant, $uc) = @_;
  admin("SELECT mortar.create_tenant('$tenant')");
  admin("SELECT mortar.grant_credits('$tenant', $uc, 'grant')") if $uc;
  return $tenant;
}
sub balance { return admin("SELECT available_uc, held_uc, debt_uc FROM mortar.balance('$_[0]')"); }
sub error {
  my (undef, undef, $err) = $node->psql($Mortar::database, "\\set VERBOSITY sqlstate\n$_[0]");
  return $err =~ /ERROR:  (\w+)/ ? $1 : $err;
}
sub adds_up {
  is(admin('SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'), '', $_[0]);
  return;
}
sub until_time { $node->poll_query_until('postgres', "SELECT clock_timestamp() > '$_[0]'") or die 'time stands still'; return; }

# ---- one key, 50 sessions, every function that takes one ----
super('CREATE TABLE public.results (race text, client int, result uuid); GRANT INSERT ON public.results TO PUBLIC');
my %call = (    # what is done, and the rows that it makes
  charge => [ "mortar.charge('%s', 100, 'same')", 'credit_ledger', "kind = 'charge' AND amount_uc = 100" ],
  grant_credits => [ "mortar.grant_credits('%s', 100, 'same')", 'credit_grants', 'amount_uc = 100' ],
  hold => [ "mortar.hold('%s', 100, '1 hour', 'same')", 'credit_holds', 'amount_uc = 100' ],
  capture => [ "mortar.capture('%s', '%s', 7, 'same')", 'credit_ledger', "kind = 'capture'", "mortar.hold('%s', 7, '1 hour', 'h')" ],
  void_hold => [ "mortar.void_hold('%s', '%s', 'same')", 'credit_ledger', "kind = 'release'", "mortar.hold('%s', 7, '1 hour', 'h')" ],
  reverse => [ "mortar.reverse('%s', '%s', 'same', 5)", 'credit_ledger', "kind = 'reversal'", "mortar.charge('%s', 7, 'c')" ],
  void_grant => [ "mortar.void_grant('%s', '%s', 'same', 'reason')", 'credit_ledger', "kind = 'void'", "mortar.grant_credits('%s', 7, 'g')" ]);
my %after = (charge => '900|0|0', grant_credits => '1100|0|0', hold => '900|100|0', capture => '993|0|0', void_hold => '1000|0|0',
  reverse => '998|0|0', void_grant => '1000|0|0');

for my $level ('read committed', 'repeatable read', 'serializable') {
  for my $function ($level eq 'serializable' ? qw(capture charge hold) : sort keys %call) {
    my ($sql, $table, $rows, $first) = @{ $call{$function} };
    my $tenant = tenant(substr("$function $level", 0, 60) =~ tr/ /-/r, 1000);
    $sql = sprintf $sql, $tenant, $first ? admin('SELECT ' . sprintf $first, $tenant) : ();
    my $race = Race::run($node, 50, "INSERT INTO public.results SELECT '$tenant', :client_id, $sql", isolation => $level);
    my %errors = %{ $race->{errors} };
    if ($level eq 'serializable') {
      # statements that read tables may be told to try again, and then are
      delete $errors{$_} for grep { /^could not serialize access/ } keys %errors;
      cmp_ok($race->{finished}, '>', 0, "$function, 50 sessions with one key, $level: some succeed");
      $race = Race::run($node, 10, "INSERT INTO public.results SELECT '$tenant', 100 + :client_id, $sql");
      is($race->{finished}, 10, '... and whoever tries again');
    } else {
      is($race->{finished}, 50, "$function, 50 sessions with one key, $level: all succeed");
    }
    is_deeply(\%errors, {}, '... nobody fails otherwise');
    is(super("SELECT count(DISTINCT result) FROM public.results WHERE race = '$tenant'"), 1, '... with one result');
    is(super("SELECT count(*) FROM mortar.$table WHERE tenant_id = '$tenant' AND $rows"), 1, '... it is done once');
    is(balance($tenant), $after{$function}, '... and moves the balance once');
  }
}

# ---- the last ten credits, through holds ----
for my $level ('read committed', 'repeatable read') {
  my $tenant = tenant('ten-held-' . substr($level, 0, 4), 10_000_000);
  my $race = Race::run($node, 64, "SELECT mortar.capture('$tenant', mortar.hold('$tenant', 1000000, '1 hour', 'h :client_id'), 1000000,"
      . " 'c :client_id')", isolation => $level);
  is_deeply([ $race->{finished}, $race->{errors} ], [ 10, { 'Not enough credits.' => 54 } ],
    "64 sessions hold 1 credit of 10 and capture it, $level: exactly ten do");
  is(balance($tenant), '0|0|0', 'and nothing is left, or held');
}
# what is held cannot be charged, what is charged cannot be held
{
  my $tenant = tenant('both', 10_000_000);
  my $race = Race::run($node, 64, "SELECT CASE :client_id % 2 WHEN 0 THEN mortar.charge('$tenant', 1000000, ':client_id')"
      . " ELSE mortar.hold('$tenant', 1000000, '1 hour', ':client_id') END");
  is_deeply([ $race->{finished}, $race->{errors} ], [ 10, { 'Not enough credits.' => 54 } ],
    'of 64 sessions that charge or hold 1 credit of 10 exactly ten do');
  is(admin("SELECT available_uc, held_uc + (SELECT sum(amount_uc) FILTER (WHERE kind = 'charge') FROM mortar.credit_ledger"
        . " WHERE tenant_id = '$tenant') FROM mortar.balance('$tenant')"), '0|10000000', 'and all of it is held or charged');
}
# one hold, captured by many with keys of their own, in different amounts
{
  my $tenant = tenant('one-hold', 1000);
  my $hold = admin("SELECT mortar.hold('$tenant', 100, '1 hour', 'h')");
  my $race = Race::run($node, 50, "SELECT mortar.capture('$tenant', '$hold', 1 + :client_id * 4, 'client :client_id')");
  is_deeply([ $race->{finished}, $race->{errors} ], [ 1, { 'the hold is already resolved: it was captured' => 49 } ],
    '50 sessions capture one hold, as much, less or more: one does, the others are told');
  is(admin("SELECT available_uc + (SELECT sum(amount_uc) FROM mortar.credit_ledger WHERE tenant_id = '$tenant' AND kind = 'capture'),"
        . " held_uc FROM mortar.balance('$tenant')"), '1000|0', '... and what it has captured is what is gone');
}
adds_up('everything adds up');

# ---- a backend that ends in the middle ----
{
  my $tenant = tenant('dies', 1000);
  admin("SELECT mortar.set_price('requests', 1, 1)");
  admin("SELECT count(mortar.grant_credits('$tenant', 10, 'g' || i, priority => i)) FROM generate_series(1, 20) i");
  my $before = balance($tenant);
  my $rows = "SELECT (SELECT count(*) FROM mortar.credit_ledger), (SELECT count(*) FROM mortar.idempotency), (SELECT count(*) FROM mortar.tenants)";
  my $there = super($rows);
  for my $work ("mortar.charge('$tenant', 300, 'k')", "mortar.charge('$tenant', 155, 'many grants')", "mortar.record_usage('$tenant', 'requests', 60)",
    "mortar.grant_credits('$tenant', 500, 'k')", "mortar.capture('$tenant', mortar.hold('$tenant', 300, '1 hour', 'h'), 310, 'k')",
    "mortar.set_limit('$tenant', 'soft')", "mortar.freeze('$tenant')", "mortar.create_tenant('ghost')") {
    for my $savepoint ('', 'SAVEPOINT one;') {
      my ($code, undef, $err) = $node->psql($Mortar::database, "BEGIN; $savepoint SELECT $work; SELECT pg_terminate_backend(pg_backend_pid())");
      like($err, qr/FATAL: +terminating connection/, "$savepoint $work, and then the backend ends");
      is(balance($tenant) . super($rows), $before . $there, '... nothing has happened');
    }
  }
  is(error("SELECT mortar.charge('$tenant', 1201, 'limit')"), 'MT402', 'nor has its limit changed');
  is(admin("SELECT mortar.charge('$tenant', 1200, 'k') IS NOT NULL"), 't', 'the key is free, and all of it is there');
  is(error("SELECT mortar.balance('ghost')"), 'MT404', 'and there is no ghost');
}
# one that waits for another's key, and is ended there
{
  my $tenant = tenant('waits', 1000);
  my $first = Session->new($node, user => 'mortar_test_admin');
  $first->run("BEGIN; SELECT mortar.charge('$tenant', 100, 'k')");
  my $second = IPC::Run::start([ 'psql', '-Xq', '-d', $node->connstr($Mortar::database), '-c',
      "BEGIN; SELECT mortar.charge('$tenant', 200, 'other'); SELECT mortar.charge('$tenant', 100, 'k')" ], '<', \undef, '>', \my $out, '2>', \my $err);
  my $waits = "FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
  $node->poll_query_until($Mortar::database, "SELECT count(*) = 1 $waits") or die 'nobody waits';
  is(balance($tenant), '700|0|0', 'two sessions have charged 100 and 200, and one waits');
  super("SELECT pg_terminate_backend(pid) $waits");
  IPC::Run::finish($second);
  like($err, qr/terminating connection/, 'it is ended');
  is(balance($tenant), '900|0|0', '... and what it has charged is back');
  $first->run('COMMIT');
  $first->end;
  is(balance($tenant), '900|0|0', '... the other one\'s stays');
}

# ---- used before a grant ends, flushed two seconds after it ----
{
  my $tenant = tenant('late', 100);
  my $lock = Session->new($node);
  $lock->run('BEGIN; LOCK TABLE mortar.usage_journal IN EXCLUSIVE MODE');
  my $ends = admin("SELECT clock_timestamp() + interval '4 seconds'");
  admin("SELECT mortar.grant_credits('$tenant', 100, 'ends', priority => 0, expires_at => '$ends')");
  my $open = Session->new($node, user => 'mortar_test_admin');
  my $undone = Session->new($node, user => 'mortar_test_admin');
  admin("SELECT mortar.record_usage('$tenant', 'requests', 10)");
  $open->run("BEGIN; SELECT mortar.record_usage('$tenant', 'requests', 20)");
  $undone->run("BEGIN; SELECT mortar.record_usage('$tenant', 'requests', 5), mortar.charge('$tenant', 6, 'c'), mortar.hold('$tenant', 7, '1 hour', 'h')");
  my $left = super("SELECT remaining_uc FROM mortar.cells c JOIN mortar.credit_grants g USING (tenant_id, grant_id) WHERE tenant_id = '$tenant' AND priority = 0");
  is($left, 52, 'before it ends a grant pays for usage of 10 and 20, and for 5, a charge of 6 and a hold of 7') if super("SELECT clock_timestamp() < '$ends'") eq 't';
  until_time(super("SELECT '$ends'::timestamptz + interval '2 seconds'"));
  is(balance($tenant), '100|7|0', 'it ends, and with it what was left of it');
  $undone->run('ROLLBACK');
  is(balance($tenant), '100|0|0', 'what comes back to it is gone');
  $open->run('COMMIT');
  admin("SELECT mortar.record_usage('$tenant', 'requests', 1)");
  $lock->run('ROLLBACK');
  $_->end for $open, $undone, $lock;
  $node->poll_query_until($Mortar::database, "SELECT sum(upto_qty - from_qty) = 31 FROM mortar.usage_journal WHERE tenant_id = '$tenant'") or die 'no flush';
  is(admin("SELECT string_agg(priority || ': ' || amount_uc, ', ' ORDER BY priority) FROM (SELECT priority, sum(amount_uc) AS amount_uc"
        . " FROM mortar.lineage WHERE tenant_id = '$tenant' GROUP BY 1) l"), '0: 30, 50: 1', 'flushed later, it is booked to the grant that paid');
  is(balance($tenant), '99|0|0', '... and the other one pays what came after its end');
}
adds_up('everything adds up');

# ---- a hold, a crash, and its end ----
{
  my $tenant = tenant('crash', 1000);
  my $brief = admin("SELECT mortar.hold('$tenant', 300, '6 seconds', 'brief')");
  my $down = admin("SELECT mortar.hold('$tenant', 50, '3 seconds', 'ends while the server is down')");
  my $long = admin("SELECT mortar.hold('$tenant', 200, '1 hour', 'long')");
  my $open = Session->new($node, user => 'mortar_test_admin');
  $open->run("BEGIN; SELECT mortar.hold('$tenant', 100, '1 hour', 'open hold'), mortar.capture('$tenant', '$long', 150, 'open capture')");
  is(admin("SELECT held_uc FROM mortar.balance('$tenant')"), 650, 'four holds, of which one is not committed');
  $node->stop('immediate');
  my $ends = time + 3;
  1 until time > $ends || select(undef, undef, undef, 0.1);
  $node->start;
  is(balance($tenant) =~ /^(500\|500|800\|200)\|0$/ ? 'right' : balance($tenant), 'right', 'after a crash the committed ones go on, without the one that has ended');
  is(admin("SELECT count(*) FROM mortar.credit_ledger WHERE tenant_id = '$tenant' AND reverses IS NOT NULL"), 0, '... nothing was captured, or written');
  $node->poll_query_until($Mortar::database, "SELECT clock_timestamp() > expires_at FROM mortar.credit_holds WHERE hold_id = '$brief'");
  is(balance($tenant), '800|200|0', 'the next one ends, by itself');
  is(error("SELECT mortar.capture('$tenant', '$brief', 1, 'k')") . error("SELECT mortar.void_hold('$tenant', '$down', 'k')"), 'MT409MT409', '... and for good');
  is(admin("SELECT mortar.charge('$tenant', 800, 'all of it') IS NOT NULL"), 't', 'what they held can be spent');
  is(admin("SELECT mortar.capture('$tenant', '$long', 200, 'k') IS NOT NULL"), 't', '... and the one that goes on captured');
  is(balance($tenant), '0|0|0', 'and nothing is left');
}
adds_up('everything adds up');

# ---- the largest amounts, while another tenant's usage is flushed ----
{
  my $most = 2305843009213693951;
  my $above = '9223372036854775807';
  my $seen = 0;
  tenant('bystander', 1_000_000);
  tenant('edge', 0);
  my @steps = (
    [ 'a grant', "mortar.grant_credits('edge', $most, 'g')", '' ], [ 'another', "mortar.grant_credits('edge', 1, 'g2')", '22003' ],
    [ 'a grant above', "mortar.grant_credits('edge', $above, 'g3')", '22003' ], [ 'a charge above', "mortar.charge('edge', $above, 'c')", '22003' ],
    [ 'a hold', "mortar.hold('edge', $most, '1 hour', 'h')", '' ], [ 'a hold above', "mortar.hold('edge', $above, '1 hour', 'h2')", '22003' ],
    [ 'usage without credits', "mortar.record_usage('edge', 'requests', 1)", 'MT402' ],
    [ 'usage above', "mortar.record_usage('edge', 'requests', $above)", '22003' ],
    [ 'a capture above', "mortar.capture('edge', (SELECT hold_id FROM mortar.credit_holds WHERE tenant_id = 'edge'), $above, 'k')", '22003' ],
    [ 'a capture', "mortar.capture('edge', (SELECT hold_id FROM mortar.credit_holds WHERE tenant_id = 'edge'), $most, 'k')", '' ],
    [ 'a reversal above', "mortar.reverse('edge', (SELECT result FROM mortar.idempotency WHERE tenant_id = 'edge' AND key = 'k'), 'r', $above)", '22003' ],
    [ 'a reversal', "mortar.reverse('edge', (SELECT result FROM mortar.idempotency WHERE tenant_id = 'edge' AND key = 'k'), 'r', $most)", '' ],
    [ 'a charge', "mortar.charge('edge', $most, 'c')", '' ],
    [ 'an overdraft above', "mortar.set_limit('edge', 'hard', $above)", '22003' ], [ 'an overdraft', "mortar.set_limit('edge', 'hard', $most)", '' ],
    [ 'debt', "mortar.charge('edge', $most, 'c2')", '' ], [ 'more', "mortar.charge('edge', 1, 'c3')", 'MT402' ],
    [ 'a price', "mortar.set_price('requests', $most, 1, tenant => 'edge')", '' ], [ 'a price above', "mortar.set_price('requests', $above, 1, tenant => 'edge')", '22023' ],
    [ 'dear usage without credits', "mortar.record_usage('edge', 'requests', 1)", 'MT402' ],
    [ 'a grant that repays all debt', "mortar.grant_credits('edge', $most, 'g4')", '' ],
    [ 'a grant to pay with', "mortar.grant_credits('edge', $most, 'g5')", '' ],
    [ 'the dearest usage', "mortar.record_usage('edge', 'requests', 1)", '' ],
    [ '... once more, on credit', "mortar.record_usage('edge', 'requests', 1)", '' ],
    [ '... and not again', "mortar.record_usage('edge', 'requests', 1)", 'MT402' ]);
  for my $step (@steps) {
    my ($name, $sql, $state) = @$step;
    $node->poll_query_until($Mortar::database, "SELECT coalesce(bool_and(unflushed_uc = 0), true) FROM mortar.cells WHERE tenant_id = 'edge'") or die 'edge is not flushed';
    is(error("SELECT $sql"), $state, "the largest amounts: $name");
    admin("SELECT mortar.record_usage('bystander', 'requests', 1)");
    $seen++;
    ok($node->poll_query_until($Mortar::database, "SELECT sum(upto_qty - from_qty) = $seen FROM mortar.usage_journal WHERE tenant_id = 'bystander'"),
      '... and another tenant\'s usage is flushed');
  }
  $node->poll_query_until($Mortar::database, "SELECT unflushed_uc = 0 FROM mortar.balance('edge')") or die 'edge is not flushed';
  is(balance('edge'), "-$most|0|$most", 'all of it is counted');
  adds_up('everything adds up');
  $node->restart;
  is(balance('edge') . ' ' . balance('bystander'), "-$most|0|$most " . (1_000_000 - $seen) . '|0|0', 'after a restart, too');
  adds_up('everything adds up');
}
done_testing();
