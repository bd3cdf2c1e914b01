# 051_bound.pl
#   What a crash may lose of a tenant's usage is bounded.  While the flusher is kept
#   from its table, calls are served up to the bound and not one beyond it, however
#   many come at once; then 503, until usage is flushed again.  And mortar.epochs says
#   what a crash may have lost.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Mortar;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

my $node = Mortar::node('main', conf => "restart_after_crash = on\n");
my $key = Mortar::tenant($node, 'acme', credits => 10, prices => 1);
Mortar::tenant($node, $_, credits => 10) for qw(bolt core dusk);
my $gateway = Mortar::gateway($node);

sub admin { return Mortar::admin($node, @_); }
sub limit { admin("SELECT mortar.set_limit('$_[0]', max_unflushed_uc => $_[1])"); return; }
sub bound { return admin("SELECT unflushed_uc, max_unflushed_uc FROM mortar.loss_bound WHERE tenant_id = '$_[0]'"); }
sub available { return admin("SELECT available_uc FROM mortar.balance('$_[0]')"); }
sub get { return $gateway->request('GET', '/v1/acme/db/tables', key => $key); }
sub record { return "SELECT mortar.record_usage('$_[0]', 'requests', 1)"; }
sub refused {
  my ($tenant, $what) = @_;
  my (undef, undef, $stderr) = $node->psql($Mortar::database, "\\set VERBOSITY verbose\n" . record($tenant));
  like($stderr, qr/ERROR:  53400: tenant "$tenant" has as much unflushed usage/, $what);
  return;
}
sub is_flushed {
  my ($what) = @_;
  ok($node->poll_query_until($Mortar::database, 'SELECT bool_and(unflushed_uc = 0) FROM mortar.loss_bound'), $what);
  return;
}
sub epoch { return admin('SELECT epoch_id FROM mortar.epochs ORDER BY started_at DESC LIMIT 1'); }

# ---- the flusher is kept from its table ----
limit('acme', 100);
limit('bolt', 200);
my $locker = Session->new($node);
$locker->run('BEGIN; LOCK TABLE mortar.usage_journal IN EXCLUSIVE MODE');

is(join(' ', map { get()->{status} } 1 .. 10), join(' ', (200) x 10), 'calls are served up to the bound');
is(bound('acme'), '100|100', '... which is reached');
my $answer = get();
is($answer->{status}, 503, 'the next one waits, and is refused');
is($answer->{json}{code}, 'unavailable', '... with a problem document');
ok($answer->{headers}{'retry-after'}, '... that says when to come again');
refused('acme', '... in SQL with 53400');
is(available('acme'), 10_000_000 - 100, '... and takes nothing');
is($gateway->request('GET', '/v1/acme/usage/me', key => $key)->{status}, 200, 'what costs nothing is answered');

# ---- many at once ----
my $script = $node->basedir . '/record.sql';
append_to_file($script, record('bolt') . ";\n");
my ($out, $err) = run_command([ 'pgbench', '-n', '-c', 8, '-t', 100, '-f', $script, '-h', $node->host, '-p', $node->port, $Mortar::database ]);
unlike($err, qr/ERROR:  (?!tenant "bolt" has as much unflushed usage)/, 'eight sessions meet no other error');
is(bound('bolt'), '200|200', '... and reach the bound together');
is(admin("SELECT quantity FROM mortar.usage('bolt')"), 20, '... with exactly the calls that fit');

# ---- another bound holds from the commit on ----
my $other = Session->new($node, user => 'mortar_test_admin');
$other->run("BEGIN; SELECT mortar.set_limit('bolt', max_unflushed_uc => 210)");
refused('bolt', 'a higher bound does not hold before its commit');
$other->run('COMMIT');
admin(record('bolt'));
is(bound('bolt'), '210|210', '... and then it does');
refused('bolt', '... to its end');

# ---- a call in flight counts ----
limit('core', 30);
$other->run('BEGIN; ' . record('core') . '; ' . record('core'));
is(bound('core'), '0|30', 'what is not committed cannot be lost');
admin(record('core'));
refused('core', '... but takes its place');
$other->run('ROLLBACK');
admin(record('core'));
is(bound('core'), '20|30', '... until it is rolled back');

# ---- the lock is gone ----
$locker->run('ROLLBACK');
$gateway->until('a call to be served again', sub { get()->{status} == 200 });
is_flushed('all is flushed');
admin(record('bolt'));
is(admin("SELECT string_agg(check_name || ': ' || detail, '; ') FROM mortar.verify_ledger() WHERE NOT ok"), '', 'the ledger agrees');
$_->end for ($other, $locker);

# ---- one call after the other is served by a flusher that is woken ----
limit('acme', 0);
is(join(' ', map { get()->{status} } 1 .. 5), join(' ', (200) x 5), 'with a bound of 0 each call waits for the one before');
limit('acme', 100);

# ---- a clean stop loses nothing, and says so ----
my $stopped = epoch();
$gateway->stop;
admin("SELECT mortar.close_tenant('dusk')");
$node->restart('fast');
ok($node->poll_query_until($Mortar::database, "SELECT clean AND max_loss_uc = 0 FROM mortar.epochs WHERE epoch_id = '$stopped'"),
  'after a clean stop nothing is lost');
is(bound('bolt'), '0|210', 'a bound outlives it');

# ---- a crash ----
my $crashed = epoch();
is(admin("SELECT max_loss_uc IS NULL AND clean IS NULL FROM mortar.epochs WHERE epoch_id = '$crashed'"), 't', 'an epoch that runs has no loss yet');
is_flushed('nothing is unflushed');
my $before = available('bolt');
$locker = Session->new($node);
$locker->run('BEGIN; LOCK TABLE mortar.usage_journal IN EXCLUSIVE MODE');
admin(record('bolt')) for 1 .. 21;
refused('bolt', 'a tenant at its bound');
is(available('bolt'), $before - 210, '... has paid for it');
$node->stop('immediate');
eval { $locker->end };
$node->start;
ok($node->poll_query_until($Mortar::database, "SELECT NOT clean FROM mortar.epochs WHERE epoch_id = '$crashed'"), 'a crash');
is(available('bolt'), $before, '... loses what was not flushed, in favour of the tenant');
is(admin("SELECT max_loss_uc FROM mortar.epochs WHERE epoch_id = '$crashed'"), 100 + 210 + 30,
  '... and the epoch has the sum of all bounds, without the tenant that was closed long ago');
is(admin("SELECT string_agg(check_name || ': ' || detail, '; ') FROM mortar.verify_ledger() WHERE NOT ok"), '', 'the ledger agrees');

done_testing();
