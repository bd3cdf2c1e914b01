# Race.pm
#   Many sessions that do the same thing at the same moment.
#
#     my $race = Race::run($node, 64, "SELECT mortar.charge('t', 1, 'k:client_id')");
#     is($race->{finished}, 10, 'ten of them succeed');
#     is_deeply($race->{errors}, { 'Not enough credits.' => 54 }, 'the others are refused');
#
#   The sessions are clients of pgbench, members of mortar_admin.  Each waits at
#   a lock, and only when all of them wait there is it released.

package Race;

use strict;
use warnings;
use IPC::Run;
use Mortar;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

my $barrier = 4711;

# run(NODE, SESSIONS, SQL, isolation => LEVEL): what became of them, { finished =>
#   number of sessions, errors => { message => number } }
sub run {
  my ($node, $sessions, $sql, %with) = @_;
  my $script = $node->basedir . '/race.sql';
  my $isolation = $with{isolation} // 'read committed';
  Mortar::write_file($script, "SET default_transaction_isolation = '$isolation';\n"
    . "SELECT pg_advisory_xact_lock_shared($barrier);\n$sql;\n");

  my $gate = Session->new($node);
  $gate->run("SELECT pg_advisory_lock($barrier)");
  my ($out, $err) = ('', '');
  my $pgbench = IPC::Run::start(
    [ 'pgbench', '-n', '-c', $sessions, '-j', 2, '-t', 1, '-f', $script,
      '-U', 'mortar_test_admin', $node->connstr($Mortar::database) ],
    '<', \undef, '>', \$out, '2>', \$err,
    IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
  $node->poll_query_until('postgres',
    "SELECT count(*) = $sessions FROM pg_locks WHERE locktype = 'advisory' AND objid = $barrier AND NOT granted")
    or die "not all of $sessions sessions came to the barrier: $err";
  $gate->end;
  IPC::Run::finish($pgbench);

  my %errors;
  $errors{$1}++ while $err =~ /ERROR:  (.*)/g;
  my ($finished) = $out =~ m{number of transactions actually processed: (\d+)/};
  die "pgbench: $out $err" unless defined $finished;
  return { finished => $finished, errors => \%errors };
}

1;
