# 025_clock.pl
#   The server's clock is set back by an hour and forward by a day while usage waits
#   to be flushed.  How long anybody waits is measured by another clock, so usage
#   reaches the tables as if nothing had happened, and the books stay in order.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Clock;
use Mortar;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = Clock::node('main');
Mortar::tenant($node, 'acme', credits => 1000, prices => 1);

sub super { return $node->safe_psql($Mortar::database, @_); }
sub record { super("SELECT mortar.record_usage('acme', 'requests', $_[0])"); return; }
sub until_true { ok($node->poll_query_until($Mortar::database, $_[0]), $_[1]); return; }
sub journal_is {
  my ($quantity, $what) = @_;
  until_true("SELECT sum(upto_qty - from_qty) = $quantity FROM mortar.usage_journal WHERE tenant_id = 'acme'", $what);
  return;
}
sub break_flush { super('ALTER TABLE mortar.usage_journal ADD CONSTRAINT broken CHECK (false) NOT VALID'); return; }
sub mend_flush { super('ALTER TABLE mortar.usage_journal DROP CONSTRAINT broken'); return; }
sub charge { return super("SELECT mortar.charge('acme', 1, '$_[0]')"); }
# seconds by which the server's clock differs from the test's, to the quarter of an hour
sub differs { return super('SELECT 900 * round((extract(epoch FROM clock_timestamp()) - ' . time . ') / 900)'); }

# what has failed once is tried again after a while
my $total = 0;
my @entries = charge('before');
for my $case ([ -3600, 'back by an hour' ], [ 86400, 'forward by a day' ], [ 0, 'back by a day' ]) {
  my ($seconds, $name) = @$case;
  break_flush();
  record(7);
  $total += 7;
  until_true('SELECT failures > 0 FROM mortar.flusher', "a flush has failed, then the clock is set $name");
  Clock::set($seconds);
  is(differs(), $seconds, '... for the server');
  mend_flush();
  journal_is($total, '... and usage is flushed in the end');
  push @entries, charge($name);
  record(1);
  $total += 1;
  journal_is($total, '... so is later usage');
  until_true(q{SELECT state = 'none' FROM mortar.flusher}, '... and the flusher leaves');
  is(super("SELECT quantity FROM mortar.usage('acme') WHERE meter = 'requests'"), $total, '... and all of it is counted');
}

is(super("SELECT bool_and(posted_at >= earlier), count(*) FROM
    (SELECT posted_at, lag(posted_at) OVER (ORDER BY n) AS earlier FROM mortar.credit_ledger
      JOIN unnest('{" . join(',', @entries) . "}'::uuid[]) WITH ORDINALITY AS made (id, n) ON entry_id = id) e"),
  't|4', 'no entry is posted earlier than one before it');
is(super(q{SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok}), '', 'the books agree');
$node->stop('fast');
ok(slurp_file($node->logfile) !~ qr/PANIC|TRAP|"mortar flusher" \(PID \d+\) exited with/, 'no flusher ended by an error');
done_testing();
