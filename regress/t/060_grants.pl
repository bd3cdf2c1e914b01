# 060_grants.pl
#   Which grant pays is decided in memory, and tables follow: over a restart in the
#   middle of more grants than memory has cells for, over what a clean stop could not
#   flush, and over a crash.  And under load, with sessions that take things back,
#   all of it adds up, and a transaction that stays open is in nobody's way.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Mortar;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

my $node = Mortar::node('main', conf => "max_prepared_transactions = 2\n");

sub admin { return Mortar::admin($node, @_); }
sub super { return $node->safe_psql($Mortar::database, @_); }
sub record { return "SELECT mortar.record_usage('$_[0]', 'requests', $_[1])"; }
sub balance { return admin("SELECT available_uc, debt_uc FROM mortar.balance('$_[0]')"); }
sub lock_burns { super("BEGIN; LOCK TABLE mortar.burn_marks IN EXCLUSIVE MODE; PREPARE TRANSACTION 'lock'"); return; }
sub unlock_burns { super("ROLLBACK PREPARED 'lock'"); return; }

sub tenant {
  my ($tenant, @grants) = @_;
  admin("SELECT mortar.create_tenant('$tenant');"
    . join('', map { "SELECT mortar.grant_credits('$tenant', $grants[$_], 'grant $_', priority => $_);" } 0 .. $#grants));
  return;
}

# what is left of a tenant's grants, in the order in which they were given
sub left_of {
  my ($tenant) = @_;
  return admin("SELECT string_agg(remaining_uc::text, ' ' ORDER BY priority, grant_id) FROM mortar.grants WHERE tenant_id = '$tenant'");
}

sub is_flushed {
  my ($tenant) = @_;
  $node->poll_query_until($Mortar::database,
    "SELECT coalesce(bool_and(unflushed_uc = 0), true) FROM mortar.cells WHERE tenant_id = '$tenant'") or die 'usage is not flushed';
  return;
}

sub ledger_is_right {
  is(admin("SELECT string_agg(check_name || ': ' || detail, '; ') FROM mortar.verify_ledger() WHERE NOT ok"), '', $_[0]);
  return;
}

admin("SELECT mortar.set_price('requests', 1, 1)");

# ---- twenty grants, and a restart after every few ----
tenant('acme', (10) x 20);
my $spent = 0;
for my $round (1 .. 4) {
  admin("SELECT mortar.charge('acme', 25, 'charge $round')");
  admin(record('acme', 12));
  admin(record('acme', 12));
  $spent += 49;
  is(balance('acme'), 200 - $spent . '|0', "round $round: spent");
  $node->restart('fast') if $round < 4;
  is(balance('acme'), 200 - $spent . '|0', '... and known after the restart') if $round < 4;
  is_flushed('acme');
  my $whole = int((200 - $spent) / 10);
  my $part = (200 - $spent) % 10;
  is(left_of('acme'), join(' ', (0) x (20 - $whole - ($part ? 1 : 0)), $part ? $part : (), (10) x $whole),
    '... grant by grant, in their order');
}
is(admin("SELECT mortar.charge('acme', 5, 'too much', on_short => 'return')"), '', 'more than the rest is refused');
admin("SELECT mortar.charge('acme', 4, 'the rest')");
is(balance('acme'), '0|0', 'and the rest is there');
ledger_is_right('the ledger agrees');

# ---- what a clean stop could not flush: usage, and debt that a grant repaid ----
tenant('bolt', 10, 10);
tenant('core');
admin("SELECT mortar.set_limit('core', 'soft')");
admin(record('core', 30));
is_flushed('core');
lock_burns();
admin(record('bolt', 15));
admin("SELECT mortar.grant_credits('core', 50, 'grant')");
is(balance('bolt'), '5|0', 'usage is paid for in memory');
is(balance('core'), '20|0', '... and debt repaid');
is(left_of('bolt') . ',' . left_of('core'), '10 10,50', '... which tables do not know');
$node->restart('fast');
is(admin("SELECT count(*) FROM mortar.credit_burns WHERE tenant_id = 'core' AND from_account = 'available'"), '0', 'nor after the stop');
unlock_burns();
$node->poll_query_until($Mortar::database, "SELECT count(*) = 2 FROM mortar.credit_burns WHERE tenant_id = 'bolt'")
  or die 'the file is not entered';
is(left_of('bolt') . ',' . left_of('core'), '0 5,20', 'what the stop wrote to a file is booked, grant by grant');
is(balance('bolt') . ',' . balance('core'), '5|0,20|0', '... and loaded');
is(admin("SELECT sum(amount_uc) FROM mortar.credit_burns WHERE tenant_id = 'core' AND from_account = 'debt'"), '0', '... debt, too');
ledger_is_right('the ledger agrees');

# ---- a crash takes usage and what it burned, and nothing else ----
tenant('dusk', 10, 100);
admin("SELECT mortar.charge('dusk', 5, 'charge')");
lock_burns();
admin(record('dusk', 20));
admin("SELECT mortar.charge('dusk', 7, 'another charge')");
is(balance('dusk'), '78|0', 'charged and used');
$node->stop('immediate');
$node->start;
unlock_burns();
is(balance('dusk'), '98|0', 'after a crash the usage is gone, and what it took is back');
is(left_of('dusk'), '5 93', '... in the grants that paid');
ledger_is_right('the ledger agrees');

# ---- a transaction that stays open is in nobody's way ----
tenant('echo', (10) x 12);
my $open = Session->new($node, user => 'mortar_test_admin');
$open->run('BEGIN');
$open->run("SELECT mortar.charge('echo', 5, 'open')");
admin("SELECT mortar.charge('echo', 10, 'charge $_')") for 1 .. 11;
is(balance('echo'), '5|0', 'others burn grants that had no cell, while it holds one');
$open->run('ROLLBACK');
is(balance('echo'), '10|0', 'what it gives back is there');
is(left_of('echo'), join(' ', 5, (0) x 10, 5), '... in its grant');
admin("SELECT mortar.charge('echo', 10, 'the rest')");
$open->end;
ledger_is_right('the ledger agrees');

# ---- one movement that many grants pay: a crash in the middle, a restart behind it ----
tenant('gild', (10) x 20);
my $many = Session->new($node, user => 'mortar_test_admin');
$many->run('BEGIN');
$many->run("SELECT mortar.charge('gild', 155, 'undone')");
is(balance('gild'), '45|0', 'fifteen grants pay, and half of one more');
$node->stop('immediate');
$node->start;
is(balance('gild'), '200|0', 'a crash undoes it');
is(left_of('gild'), join(' ', (10) x 20), '... grant by grant');
admin("SELECT mortar.charge('gild', 155, 'charge')");
$node->restart;
is(balance('gild'), '45|0', 'what is charged is charged');
is(left_of('gild'), join(' ', (0) x 15, 5, (10) x 4), '... grant by grant');
admin("BEGIN; SELECT mortar.charge('gild', 5, 'bit ' || i) FROM generate_series(1, 9) i; COMMIT");
is(balance('gild'), '0|0', 'and the rest is there, bit by bit');
ledger_is_right('the ledger agrees');

# ---- a hundred thousand grants of one micro-credit ----
admin("SELECT mortar.create_tenant('heap')");
super("WITH g AS (INSERT INTO mortar.credit_grants (tenant_id, grant_id, amount_uc, priority, category, effective_at)"
    . " SELECT 'heap', gen_random_uuid(), 1, 50, 'paid', now() - interval '1 hour' FROM generate_series(1, 100000)"
    . " RETURNING tenant_id, grant_id, amount_uc, gen_random_uuid() AS id, effective_at)"
    . " INSERT INTO mortar.credit_ledger (tenant_id, entry_id, movement_id, kind, from_account, to_account, amount_uc, grant_id, effective_at, posted_at, epoch_id, meta)"
    . " SELECT tenant_id, id, id, 'grant', 'issued', 'available', amount_uc, grant_id, effective_at, now(),"
    . " (SELECT epoch_id FROM mortar.epochs LIMIT 1), '{}' FROM g");
admin("SELECT mortar.charge('heap', 50, 'charge')");
is(admin("SELECT count(*), count(DISTINCT grant_id) FROM mortar.credit_ledger WHERE tenant_id = 'heap' AND kind = 'charge'"), '50|50',
  'fifty of a hundred thousand grants pay');
is(balance('heap'), '99950|0', '... and the others are there');

# ---- under load, with grants that come and end, at a price that rounds ----
tenant('flux', (1000) x 10);
admin("SELECT mortar.set_limit('flux', 'soft', 0, 10000000)");
admin("SELECT mortar.set_price('requests', 7, 3)");
my %script = (
  keep => [ 80, record('flux', 1) . ";" ],
  charge => [ 4, "\\set n random(1, 1000000000000)\nSELECT mortar.charge('flux', 3, 'c :n');" ],
  rollback => [ 10, 'BEGIN\\; ' . record('flux', 2) . '\\; ' . record('flux', 5) . '\\; ROLLBACK;' ],
  savepoint => [ 4, 'BEGIN\\; ' . record('flux', 1) . '\\; SAVEPOINT s\\; ' . record('flux', 4) . '\\; ROLLBACK TO s\\; COMMIT;' ],
  grant => [ 2, "\\set n random(1, 1000000000000)\n\\set p random(0, 20)\nSELECT mortar.grant_credits('flux', 100, 'g :n', :p,"
      . " expires_at => clock_timestamp() + CASE WHEN :p < 10 THEN interval '100 milliseconds' END);" ]);
my @files;
for my $name (sort keys %script) {
  my $path = $node->basedir . "/$name.sql";
  append_to_file($path, "$script{$name}[1]\n");
  push @files, '-f', "$path\@$script{$name}[0]";
}
my ($out, $err) = run_command(
  [ 'pgbench', '-n', '-c', 8, '-j', 1, '-t', 2500, @files, '-U', 'mortar_test_admin', $node->connstr($Mortar::database) ]);
is($err =~ /error|abort/i ? $err : '', '', 'all sessions run to their end');
my %done;
$done{$1} = $2 while $out =~ m{SQL script \d+: \S+/(\w+)\.sql\n - weight: .*\n - (\d+) transactions}g;
my $cost = int(7 * ($done{keep} + $done{savepoint}) / 3);
is_flushed('flux');
is(admin("SELECT sum(cost_uc) FROM mortar.usage('flux')"), $cost, 'usage costs exactly its price');
is(admin("SELECT sum(amount_uc) FROM mortar.credit_burns WHERE tenant_id = 'flux'"), $cost, '... and exactly that was paid');
is(admin("SELECT sum(amount_uc) FROM mortar.lineage WHERE tenant_id = 'flux' AND kind = 'charge'"), 3 * $done{charge}, 'so were the charges');
ledger_is_right('grant by grant, memory agrees with tables');
my $before = balance('flux');
$node->restart;
is(balance('flux'), $before, 'and after a restart');
ledger_is_right('... likewise');
done_testing();
