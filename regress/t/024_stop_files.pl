# 024_stop_files.pl
#   What a start makes of the files that earlier stops have left, and whom they keep
#   waiting: nobody of a database for which they hold nothing, whether a flusher
#   comes or not.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Mortar;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = Mortar::node('main');
my $key = Mortar::tenant($node, 'acme', credits => 1000, prices => 1);
Mortar::make_database($node, 'stuck');
Mortar::tenant($node, 'acme', credits => 1000, prices => 1, database => 'stuck');

sub on { my ($database, $sql) = @_; return $node->safe_psql($database, $sql); }
sub record { on($_[0], "SELECT mortar.record_usage('acme', 'requests', $_[1])"); return; }
sub counted { return on($_[0], q{SELECT sum(quantity) FROM mortar.usage('acme') WHERE meter = 'requests'}); }
sub journal { return q{SELECT coalesce(sum(upto_qty - from_qty), 0) FROM mortar.usage_journal WHERE meter = 'requests'}; }
sub journal_is {
  my ($database, $quantity, $what) = @_;
  ok($node->poll_query_until($database, 'SELECT (' . journal() . ") = $quantity"), $what);
  return;
}
# from now on no flush of the database succeeds, and again
sub break_flush { on($_[0], 'ALTER TABLE mortar.usage_journal ADD CONSTRAINT broken CHECK (false) NOT VALID'); return; }
sub mend_flush { on($_[0], 'ALTER TABLE mortar.usage_journal DROP CONSTRAINT broken'); return; }
sub workers { $node->append_conf('postgresql.conf', "max_worker_processes = $_[0]\n"); return; }
sub file_of {
  my ($database, $ending) = @_;
  my $oid = on('postgres', "SELECT oid FROM pg_database WHERE datname = '$database'");
  return sub { my @files = glob($node->data_dir . "/pg_stat/mortar-$oid-*.$ending"); return @files; };
}
sub sqlstate {
  my ($database, $sql) = @_;
  my (undef, undef, $stderr) = $node->psql($database, "\\set VERBOSITY sqlstate\n$sql");
  return $stderr =~ /ERROR:\s+(\w+)/ ? $1 : '';
}
sub books_agree {
  my ($database, $what) = @_;
  is(on($database, q{SELECT string_agg(check_name || ': ' || detail, '; ') FROM mortar.verify_ledger() WHERE NOT ok}), '', $what);
  return;
}

# ---- no worker is free after a clean stop ----
record('mortar', 3);
journal_is('mortar', 3, 'one database is flushed');
break_flush('stuck');
record('stuck', 5);
my ($idle, $waiting) = (file_of('mortar', 'stop'), file_of('stuck', 'stop'));
workers(2);    # two are always there
$node->stop('fast');
my ($nothing, $something) = map { -s ($_->())[0] } $idle, $waiting;
is($nothing, 68, 'its file of a clean stop has a header and a checksum');
cmp_ok($something, '>', 68, '... that of another one has usage');

$node->start;
is(sqlstate('mortar', "SELECT * FROM mortar.balance('acme')"), '', 'a file without usage keeps nobody waiting');
record('mortar', 2);
is(counted('mortar'), 5, '... usage is recorded');
my $gateway = Mortar::gateway($node);
is($gateway->request('GET', '/v1/acme/db/tables', key => $key)->{status}, 200, '... requests are served');
$gateway->stop;
is(sqlstate('stuck', "SELECT * FROM mortar.balance('acme')"), '55P03', 'usage that waits to be entered does');
$node->wait_for_log(qr/no background worker is free to flush usage/);
is(on('mortar', journal()), 3, '... and there was no flusher all the time');
is(scalar($idle->()), 1, '... to remove the file');

# a second one, of this epoch, does not change that
$node->restart('fast');
is(scalar(my @two = $waiting->()), 2, 'a file of each stop');
is(sqlstate('stuck', "SELECT * FROM mortar.balance('acme')"), '55P03', 'the older one is waited for');

workers(8);
$node->restart('fast');
journal_is('mortar', 6, 'all is entered when there are workers');
mend_flush('stuck');
journal_is('stuck', 5, '... of both');
books_agree($_, "the books of $_ agree") for qw(mortar stuck);

ok(slurp_file($node->logfile) !~ qr/PANIC|TRAP|"mortar flusher" \(PID \d+\) exited with/, 'no flusher ended by an error');
done_testing();
