# 024_stop_files.pl
#   What a start makes of the files in pg_stat/.  Those of clean stops keep nobody
#   waiting in a database for which they hold nothing, whether a flusher comes or not.
#   Others tell of epochs in which none came, so that a crash is on record.

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

# ---- files that cannot be right ----
# CRC-32C of the bytes, as the last four bytes of a file have it
sub checksum {
  my ($bytes) = @_;
  my $crc = 0xFFFFFFFF;
  for my $byte (unpack('C*', $bytes)) {
    $crc ^= $byte;
    $crc = $crc & 1 ? ($crc >> 1) ^ 0x82F63B78 : $crc >> 1 for 1 .. 8;
  }
  return pack('L', $crc ^ 0xFFFFFFFF);
}
# with some bytes replaced, and the checksum that belongs to it
sub changed {
  my ($bytes, $offset, $by) = @_;
  my $body = substr($bytes, 0, -4);
  substr($body, $offset, length($by)) = $by;
  return $body . checksum($body);
}
sub write_file { open(my $file, '>:raw', $_[0]) or die "$_[0]: $!"; print {$file} $_[1]; close($file) or die "$_[0]: $!"; return; }

my $already = counted('mortar');
break_flush('mortar');
record('mortar', 4);
$node->stop('fast');
my ($genuine) = $idle->();
my $bytes = slurp_file($genuine);
my ($header, $record) = (64, 328);
is(length($bytes), $header + 2 * $record + 4, 'a file of two records: usage, and who has paid for it');
my $burn = $header + $record;
is(changed($bytes, 0, ''), $bytes, '... whose checksum we know');
# offsets are those of MtrStopHeader and MtrStopRecord
my %wrong = (
  'empty' => '',
  'cut in its header' => substr($bytes, 0, $header - 34),
  'cut behind its header' => substr($bytes, 0, $header),
  'cut in a record' => substr($bytes, 0, $header + 100),
  'without its checksum' => substr($bytes, 0, -4),
  'with another checksum' => substr($bytes, 0, -1) . chr(ord(substr($bytes, -1)) ^ 1),
  'noise' => pack('C*', map { $_ * 7919 % 251 } 1 .. length($bytes)),
  'not a stop file' => changed($bytes, 0, pack('Q', 1)),
  'of another version' => changed($bytes, 8, pack('L', 1)),
  'of another database' => changed($bytes, 12, pack('L', 1)),
  'of another system' => changed($bytes, 40, pack('Q', 1)),
  'of another machine' => changed($bytes, 52, pack('L', $record + 8)),
  'too few records' => changed($bytes, 56, pack('Q', 3)),
  'a tenant without end' => changed($bytes, $header, 'x' x 64),
  'a meter without end' => changed($bytes, $header + 72, 'x' x 32),
  'a route without end' => changed($bytes, $header + 104, 'x' x 128),
  'a price below nothing' => changed($bytes, $header + 264, pack('q', -1)),
  'a price for no units' => changed($bytes, $header + 272, pack('q', 0)),
  'from below nothing' => changed($bytes, $header + 280, pack('q', -1)),
  'from where it ends' => changed($bytes, $header + 280, substr($bytes, $header + 288, 8)),
  # unpriced, or its cost would be out of range
  'an end out of range' => changed(changed($bytes, $header + 248, "\0" x 32), $header + 288, pack('q', 2**61)),
  'of a third kind' => changed($bytes, $header + 64, pack('l', 2)),
  'paid by a grant without a name' => changed($bytes, $burn + 296, "\0" x 16),
  'paid by nobody' => changed($bytes, $burn + 312, pack('q', 7)),
  'paid with nothing' => changed($bytes, $burn + 320, pack('q', 0)),
  'paid with more than there can be' => changed($bytes, $burn + 320, pack('q', 2**61)),
);
my @paths = grep { $_ ne $genuine } map { my $n = sprintf('%02x', $_); $genuine =~ s/..(?=\.stop$)/$n/r } 0 .. keys %wrong;
my %path;
@path{ sort keys %wrong } = @paths;
write_file($path{$_}, $wrong{$_}) for keys %wrong;
$node->start;
mend_flush('mortar');
journal_is('mortar', $already + 4, 'the genuine file is entered');
ok($node->poll_query_until('mortar', q{SELECT count(*) = 0 FROM pg_ls_dir('pg_stat') f WHERE f LIKE 'mortar-%.stop'}), 'no other one is left');
ok(-e "$path{$_}.bad" && slurp_file("$path{$_}.bad") eq $wrong{$_}, "set aside, as it was: $_") for sort keys %path;
is(counted('mortar'), $already + 4, '... and nothing of them is counted');
books_agree('mortar', '... and the books agree');
unlink(glob($node->data_dir . '/pg_stat/mortar-*.bad'));

# nothing but an empty file tells of a stop: the disk was full, say
break_flush('mortar');
record('mortar', 4);
my $emptied = on('mortar', 'SELECT epoch_id FROM mortar.epochs ORDER BY started_at DESC LIMIT 1');
$node->stop('fast');
($genuine) = $idle->();
like($genuine, qr/\Q$emptied\E/, 'the file of the last epoch');
truncate($genuine, 0) or die "$genuine: $!";
workers(2);
$node->start;
is(sqlstate('mortar', "SELECT * FROM mortar.balance('acme')"), '55P03', 'a file that cannot be read may hold usage');
mend_flush('mortar');
workers(8);
$node->restart('fast');
ok($node->poll_query_until('mortar', "SELECT NOT clean AND max_loss_uc = 1000000 FROM mortar.epochs WHERE epoch_id = '$emptied'"),
  'an empty file is no clean stop');
is(counted('mortar'), $already + 4, '... and what it should have held is lost');
books_agree('mortar', '... and the books agree');
unlink(glob($node->data_dir . '/pg_stat/mortar-*.bad'));

# ---- a crash that no flusher has seen, before it or after it ----
sub epoch { return on($_[0], q{SELECT epoch_id FROM mortar.credit_ledger ORDER BY posted_at DESC LIMIT 1}); }
sub grant { on($_[0], "SELECT mortar.grant_credits('acme', 1, '$_[1]')"); return epoch($_[0]); }
sub epochs_are {
  my ($database, $expected, $what) = @_;
  my $oid = on('postgres', "SELECT oid FROM pg_database WHERE datname = '$database'");
  my $all = "SELECT string_agg(coalesce(clean::text, 'open'), ' ' ORDER BY started_at) FROM mortar.epochs WHERE database_id = $oid";
  ok($node->poll_query_until($database, "SELECT ($all) = '$expected'"), $what) or diag(on($database, $all));
  return;
}
sub kill_checkpointer {
  my $from = -s $node->logfile;
  my $pid = on('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'});
  kill('KILL', $pid) == 1 or die "kill: $!";
  $node->wait_for_log(qr/all server processes terminated; reinitializing/, $from);
  Mortar::until_up($node);
  return;
}
$node->append_conf('postgresql.conf', "restart_after_crash = on\n");
for my $database (qw(quiet former removed)) {
  Mortar::make_database($node, $database);
  Mortar::tenant($node, 'acme', database => $database);
  epochs_are($database, 'open', "$database begins with one epoch");
}
my $before = on('mortar', 'SELECT string_agg(clean::text, $$ $$ ORDER BY started_at) FROM mortar.epochs WHERE clean IS NOT NULL');
workers(2);
$node->restart('fast');
my %open = map { $_ => file_of($_, 'open') } qw(mortar quiet former removed);
sub is_open { my ($database, $epoch) = @_; return scalar(grep { /-\Q$epoch\E\.open$/ } $open{$database}->()); }
my @lost = grant('mortar', 'first life');
grant($_, 'first life') for qw(former removed);
is(is_open('mortar', $lost[0]), 1, 'an epoch without a flusher is on record in a file');
is(is_open('former', $lost[0]), 1, '... of each database that is used in it');
is(is_open('quiet', $lost[0]), 0, '... and of no other');
kill_checkpointer();
push @lost, grant('mortar', 'second life');
is(is_open('mortar', $_), 1, 'both are after a crash') for @lost;
grant('former', 'second life');
on('former', 'DROP EXTENSION mortar; CREATE EXTENSION mortar');
on('former', q{SELECT mortar.create_tenant('acme')});
on('postgres', 'DROP DATABASE removed');
is(scalar($open{removed}->()), 0, 'DROP DATABASE takes the file along');
$node->stop('immediate');
workers(8);
$node->start;
epochs_are('mortar', "$before true false false open", 'a flusher enters both epochs when it comes at last');
is(on('mortar', q{SELECT count(*) FROM mortar.epochs WHERE NOT clean AND max_loss_uc = 1000000 AND epoch_id IN ('} . join(q{','}, @lost) . q{')}), 2,
  '... with what may have been lost');
ok($node->poll_query_until('mortar', q{SELECT count(*) = 0 FROM pg_ls_dir('pg_stat') f WHERE f LIKE 'mortar-%'}), '... and no file is left');
epochs_are('quiet', 'true open', 'a database that was not used in them has lost nothing');
epochs_are('former', 'true true false open', 'an extension that was created in the second one has not lived through the first');
$node->restart('fast');
epochs_are('mortar', "$before true false false true open", 'and all that stays as it is');

ok(slurp_file($node->logfile) !~ qr/PANIC|TRAP|"mortar flusher" \(PID \d+\) exited with/, 'no flusher ended by an error');
done_testing();
