# 023_crash_matrix.pl
#   Every way for a server to end while clients are at work, and every way for
#   usage to stay in memory: what the clients were told was done, beside what the
#   tables hold afterwards.  No row, charge or grant that was acknowledged is ever
#   gone.  Usage may be, and then only what was acknowledged after the last flush
#   began: the number of that is the bound.  In mortar.epochs the end is on record.
#
#   With durability sync or group nothing is lost, however the server ends.
#
#   The bound depends on no speed: each call carries the moment at which it began,
#   the epoch those at which it and its last flush began, and that flush wrote
#   whatever was committed before it.  At that moment each client may have had one
#   call in flight.
#
#   `make crash-matrix` prints the table, and does every case five times.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Load;
use Matrix;
use Mortar;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $rounds = Matrix::long() ? 5 : 1;
my $counting_clients = 2;    # whose calls are usage: of each kind that counts
my $node = Mortar::node('main',
  conf => "fsync = on\nrestart_after_crash = on\nmax_prepared_transactions = 2\nmortar.tenant_statement_timeout = 0\n");
my $key = Mortar::tenant($node, 'acme', credits => 1000, prices => 1);
my $gateway = Mortar::gateway($node, args => [qw(--threads 1 --connections 1)]);
$gateway->request('POST', '/v1/acme/db/tables', key => $key, json => { name => 'notes' });

sub super { return $node->safe_psql($Mortar::database, $_[0]); }
sub until_true { return $node->poll_query_until($Mortar::database, $_[0]) || die "in vain: $_[0]"; }
sub epoch { return super('SELECT epoch_id FROM mortar.credit_ledger ORDER BY posted_at DESC LIMIT 1'); }
sub pid_of { return super("SELECT min(pid) FROM pg_stat_activity WHERE $_[0]"); }
sub flusher { return pid_of("backend_type = 'mortar flusher'"); }
sub nothing_waits {
  return until_true('SELECT coalesce(bool_and(unflushed_uc = 0), true) AND NOT EXISTS (SELECT FROM mortar.usage_sync) FROM mortar.slots');
}

# units of usage that the two kinds of counting clients have in the tables
sub journal {
  return super(q{SELECT coalesce(sum(upto_qty - from_qty), 0) FROM mortar.usage_journal
    WHERE meter = 'requests' AND route IN ('', 'POST /db/rows/{t}')});
}

sub set { $node->append_conf('postgresql.conf', "$_[0]\n"); return; }
sub lock_journal { super("BEGIN; LOCK TABLE mortar.usage_journal IN EXCLUSIVE MODE; PREPARE TRANSACTION 'lock'"); return; }
sub unlock_journal { super("ROLLBACK PREPARED 'lock'"); return; }

# kills a process of the server; the postmaster then ends all, and starts anew
sub crash {
  my ($pid) = @_;
  my $from = -s $node->logfile;
  kill('KILL', $pid) == 1 or die "kill $pid: $!";
  $node->wait_for_log(qr/all server processes terminated; reinitializing/, $from);
  return;
}

# kills the postmaster; its children see that and go by themselves
sub kill_postmaster {
  my $pid = super('SELECT pg_read_file($$postmaster.pid$$)') =~ s/\n.*//sr;
  my $data = $node->data_dir;
  $node->kill9;
  for (1 .. $PostgreSQL::Test::Utils::timeout_default * 20) {
    last if !grep { (readlink("/proc/$_/cwd") // '') eq $data } $pid, map { m{(\d+)} } glob('/proc/[0-9]*');
    usleep(50_000);
  }
  # the number in it may be somebody else's by now
  unlink "$data/postmaster.pid", $node->host . '/.s.PGSQL.' . $node->port . '.lock';
  return;
}

# Afterwards no worker is free for a flusher.  All was flushed before, so the file
# of the clean stop keeps nobody waiting.
sub spare_no_worker { set('max_worker_processes = 2'); $node->stop('fast'); $node->start; return; }
sub spare_workers { set('max_worker_processes = 8'); $node->start; return; }

# A case: begin prepares, strike is the end, mend what follows when the clients are
# gone.  clean is what mortar.epochs must say of the epoch, 'open' if it goes on;
# calls => N is for cases in which the clients come to their end before the
# strike, and what is flushed until then must be nothing.  loses => 'none' or 'all' is
# what the case must lose, 'some' anything from nothing to the bound.
my @cases = (
  { name => 'crash between response and flush', clean => 'false', calls => 100, loses => 'all',
    begin => sub {
      super("SELECT mortar.record_usage('acme', 'requests', 1)");
      nothing_waits();
      # it holds no lock: it waits for something to do
      kill('STOP', flusher()) == 1 or die "kill: $!";
    },
    strike => sub { crash(pid_of("backend_type = 'checkpointer'")); } },
  { name => 'kill -9 of a backend', clean => 'false', loses => 'some',
    strike => sub { crash(pid_of("query LIKE '%mortar.charge%' AND pid <> pg_backend_pid()")); } },
  { name => 'kill -9 of the flusher', clean => 'false', loses => 'some', strike => sub { crash(flusher()); } },
  { name => 'kill -9 of the postmaster', clean => 'false', loses => 'some',
    strike => \&kill_postmaster, mend => sub { $node->start; } },
  { name => 'immediate stop', clean => 'false', loses => 'some',
    strike => sub { $node->stop('immediate'); }, mend => sub { $node->start; } },
  { name => 'clean stop under load', clean => 'true', loses => 'none',
    strike => sub { $node->stop('fast'); }, mend => sub { $node->start; } },
  { name => 'flusher cannot start, clean stop', clean => 'true', calls => 100, loses => 'none',
    begin => \&spare_no_worker, strike => sub { $node->stop('fast'); }, mend => \&spare_workers },
  { name => 'flusher cannot start, immediate stop', clean => 'false', calls => 100, loses => 'all',
    begin => \&spare_no_worker, strike => sub { $node->stop('immediate'); }, mend => \&spare_workers },
  { name => 'flusher cannot start, kill -9 of the postmaster', clean => 'false', calls => 100, loses => 'all',
    begin => \&spare_no_worker, strike => \&kill_postmaster, mend => \&spare_workers },
  { name => 'flusher cannot start, kill -9 of a process', clean => 'false', calls => 100, loses => 'all',
    begin => \&spare_no_worker, strike => sub { crash(pid_of("backend_type = 'checkpointer'")); },
    # a fast stop that meets PostgreSQL 15 in a crash's recovery waits for ever
    mend => sub { Mortar::until_up($node); $node->stop('fast'); spare_workers(); } },
  { name => 'flush fails and heals', clean => 'open', calls => 100, loses => 'none',
    begin => \&lock_journal, strike => \&unlock_journal },
  { name => 'flush fails, clean stop', clean => 'true', calls => 100, loses => 'none',
    begin => \&lock_journal, strike => sub { $node->stop('fast'); }, mend => sub { $node->start; unlock_journal(); } },
  { name => 'flush fails, immediate stop', clean => 'false', calls => 100, loses => 'all',
    begin => \&lock_journal, strike => sub { $node->stop('immediate'); }, mend => sub { $node->start; unlock_journal(); } },
);

# what loses usage that is buffered loses none of other durability
sub durable {
  my ($durability, @names) = @_;
  return map { { %$_, name => "$durability: $_->{name}", durability => $durability, loses => 'none' } }
    map { my $name = $_; grep { $_->{name} eq $name } @cases } @names;
}
push @cases, durable('sync', 'crash between response and flush', 'kill -9 of a backend', 'kill -9 of the flusher',
    'kill -9 of the postmaster', 'immediate stop', 'flusher cannot start, immediate stop', 'flush fails, immediate stop'),
  durable('group', 'kill -9 of a backend', 'kill -9 of the postmaster', 'flush fails, immediate stop');

# of ids that were acknowledged, the number that is not in the table
sub missing {
  my ($table, $column, @ids) = @_;
  return super("SELECT count(*) FROM unnest('{" . join(',', @ids) . "}'::uuid[]) i"
      . " WHERE NOT EXISTS (SELECT FROM mortar.$table WHERE tenant_id = 'acme' AND $column = i)");
}

# how many of these there are in the tables, acknowledged or not
sub in_tables {
  my ($tag) = @_;
  return {
    row => super("SELECT count(*) FROM mortar.doc_rows WHERE doc->>'tag' = '$tag'"),
    map { $_ => super("SELECT count(*) FROM mortar.idempotency WHERE key LIKE '$tag-$_-%'") } qw(charge grant) };
}

my $matrix = Matrix->new('case', (map { "told: $_" } qw(rows charges grants usage)),
  (map { "held: $_" } qw(rows charges grants usage)), 'lost: usage', 'bound', 'ms unflushed', 'epoch clean', 'books');

# the load of a case, and the end of its epoch; both
sub run_load {
  my ($case, $tag) = @_;
  my $epoch;
  my $load = Load->start($node, $gateway, key => $key, tag => $tag, calls => $case->{calls});
  if ($case->{calls}) {
    ok($load->end, 'every call was answered');
    is(super(q{SELECT u.quantity - (SELECT sum(upto_qty - from_qty) FROM mortar.usage_journal WHERE meter = 'requests')
        FROM mortar.usage('acme') u WHERE meter = 'requests'}), 2 * $case->{calls},
      'its usage is seen, and not in the tables');
    $epoch = epoch();
  } else {
    $load->wait(50);
    $epoch = epoch();
    until_true("SELECT last_flush_at IS NOT NULL FROM mortar.epochs WHERE epoch_id = '$epoch'");
  }
  $case->{strike}->();
  ok($load->end, 'every client was at work to the end') unless $case->{calls};
  $case->{mend}->() if $case->{mend};
  return ($load, $epoch);
}

# what mortar.epochs says of an epoch; when its last flush and its successor began
sub epoch_tells {
  my ($epoch, $clean) = @_;
  my $row = "FROM mortar.epochs e WHERE e.epoch_id = '$epoch'";
  until_true("SELECT clean IS NOT NULL $row") if $clean =~ /true|false/;
  my $tells = super("SELECT coalesce(e.clean::text, 'open'), coalesce(extract(epoch FROM e.last_flush_at), 0),
    (SELECT coalesce(extract(epoch FROM min(n.started_at)), 'infinity') FROM mortar.epochs n
      WHERE n.started_at > e.started_at) $row");
  my ($says, @times) = split /\|/, $tells;
  is($says, $clean, "mortar.epochs says clean: $clean");
  return ($says, @times);
}

# for the reader of the table: from the last flush to the last call of the epoch
sub unflushed_ms {
  my ($load, $from, $to) = @_;
  my ($last) = sort { $b <=> $a } grep { $_ < $to } map { $_->[1] } map { @{ $load->{answers}{$_} } } @Load::kinds;
  return $from == 0 ? 'never flushed' : $last > $from ? int(1000 * ($last - $from)) : 0;
}

sub run_case {
  my ($case, $tag) = @_;
  $gateway->wait_ready;
  super("SELECT mortar.set_limit('acme', durability => '" . ($case->{durability} // 'buffered') . "')");
  $case->{begin}->() if $case->{begin};
  $gateway->wait_ready;
  nothing_waits();
  my $before = journal();
  my ($load, $epoch) = run_load($case, $tag);
  my ($clean, @from_to) = epoch_tells($epoch, $case->{clean});
  nothing_waits();

  my %told = map { $_ => scalar(@{ $load->{answers}{$_} }) } @Load::kinds;
  my $held = in_tables($tag);
  is(missing('doc_rows', 'row_id', $load->ids('row')), 0, 'no row that was acknowledged is missing');
  is(missing('credit_ledger', 'entry_id', $load->ids('charge')), 0, '... no charge');
  is(missing('credit_grants', 'grant_id', $load->ids('grant')), 0, '... no grant');
  cmp_ok($held->{$_}, '<=', $told{$_} + 1, "... and there is at most one more $_, which was in flight") for qw(row charge grant);

  my $told = $told{usage} + $told{row};
  my $there = journal() - $before;
  my $lost = $told > $there ? $told - $there : 0;
  my $bound = $case->{loses} eq 'none' ? 0 : $load->sent_between(@from_to) + $counting_clients;
  $bound = $told if $bound > $told;
  cmp_ok($lost, '<=', $bound, "usage: $lost of $told lost, at most $bound may be");
  is($lost, $told, '... and all of it is: nothing was flushed') if $case->{loses} eq 'all';
  cmp_ok($there, '<=', $told + $counting_clients, '... and none is counted twice');
  my $wrong = Mortar::admin($node, 'SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok');
  is($wrong, '', 'the books agree');
  $matrix->row($case->{name}, @told{qw(row charge grant)}, $told, @{$held}{qw(row charge grant)}, $there, $lost,
    $bound, unflushed_ms($load, @from_to), $clean, $wrong eq '' ? 'agree' : 'WRONG');
  return;
}

for my $round (1 .. $rounds) {
  my $number = 0;
  for my $case (@cases) {
    my $tag = "r$round-" . ++$number;
    subtest "$case->{name}, round $round" => sub { run_case($case, $tag); };
  }
}
is($gateway->stop, 0, 'the gateway has lived through all of it');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, 'and nothing else broke in the server');
$matrix->print;
done_testing();
