# 022_databases.pl
#   Commands that nobody may be connected for, and those that take the extension
#   away, while usage is unflushed.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Mortar;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = Mortar::node('main');
Mortar::tenant($node, 'acme', credits => 1000, prices => 1);
my $spaces = $node->basedir . '/space';
mkdir($spaces) or die "mkdir: $!";

sub on { my ($database, $sql) = @_; return $node->safe_psql($database, $sql); }
sub root { return on('postgres', $_[0]); }
sub record { on($_[0], "SELECT mortar.record_usage('acme', 'requests', $_[1])"); return; }
sub counted { return on($_[0], "SELECT coalesce(sum(quantity), 0) FROM mortar.usage('acme')"); }
sub journal { return 'SELECT coalesce(sum(upto_qty - from_qty), 0) FROM mortar.usage_journal'; }
sub fresh { root("CREATE DATABASE $_[0]"); on($_[0], 'CREATE EXTENSION mortar'); on($_[0], "SELECT mortar.create_tenant('acme')"); return; }
# from now on no flush of the database succeeds, and again
sub break_flush { on($_[0], 'ALTER TABLE mortar.usage_journal ADD CONSTRAINT broken CHECK (false) NOT VALID'); return; }
sub mend_flush { on($_[0], 'ALTER TABLE mortar.usage_journal DROP CONSTRAINT broken'); return; }
sub ledger_is_right {
  my ($database, $what) = @_;
  is(on($database, "SELECT string_agg(check_name || ': ' || detail, '; ') "
        . 'FROM mortar.verify_ledger() WHERE NOT ok'), '', $what);
  return;
}

# ---- every command, with a flusher at work ----
record('mortar', 3);
root('CREATE DATABASE copied TEMPLATE mortar');
is(on('copied', journal()), 3, 'a copy of a database has what was counted before it');
is(counted('copied'), 3, '... and counts it once');
record('copied', 2);
root('ALTER DATABASE copied RENAME TO renamed');
is(counted('renamed'), 5, 'a database is renamed');
ok($node->poll_query_until('renamed', 'SELECT (' . journal() . ') = 5'), '... and flushed');
root("CREATE TABLESPACE elsewhere LOCATION '$spaces'");
record('renamed', 2);
root('ALTER DATABASE renamed SET TABLESPACE elsewhere');
is(counted('renamed'), 7, 'a database is moved');
ledger_is_right('renamed', '... and its ledger agrees');
record('renamed', 1);
root('DROP DATABASE renamed');
pass('a database with unflushed usage is dropped');
is(counted('mortar'), 3, 'the one it was copied from has not noticed');

# ---- what pg_regress does, over and over ----
for my $round (1 .. 3) {
  fresh('again');
  record('again', $round);
  is(counted('again'), $round, "round $round begins at nothing");
  root('DROP DATABASE again');
}
fresh('forced');
record('forced', 1);
root('DROP DATABASE forced WITH (FORCE)');
pass('DROP DATABASE ... WITH (FORCE)');

# ---- a flush that fails forbids nothing ----
fresh('broken');
break_flush('broken');
record('broken', 1);
$node->wait_for_log(qr/usage could not be flushed: .*violates check constraint/);

# but who may not run such a command does not send the flusher away
root('CREATE ROLE nobody LOGIN; CREATE ROLE maker LOGIN CREATEDB');
my $flusher = on('broken', 'SELECT pid FROM mortar.flusher');
isnt($flusher, '', 'a flusher tries again and again');
for my $command ('nobody DROP DATABASE broken', 'nobody ALTER DATABASE broken RENAME TO other',
  'nobody ALTER DATABASE broken SET TABLESPACE elsewhere', 'nobody CREATE DATABASE other TEMPLATE broken',
  'maker CREATE DATABASE other TEMPLATE broken', 'maker DROP DATABASE broken') {
  my ($role, $sql) = split(/ /, $command, 2);
  my ($code) = $node->psql('postgres', $sql, extra_params => [ '-U', $role ]);
  isnt($code, 0, "$role: $sql");
}
is(on('broken', 'SELECT pid FROM mortar.flusher'), $flusher, 'it is still the same one');
root('ALTER DATABASE broken RENAME TO still_broken');
root('CREATE DATABASE broken_copy TEMPLATE still_broken');
is(counted('still_broken'), 1, 'commands succeed while flushing fails, and usage stays');
root("DROP DATABASE $_") for qw(broken_copy still_broken);
pass('such a database is dropped, too');

# ---- many databases, few workers: all are looked at after a start ----
my @many = map { "many$_" } 1 .. 40;
fresh('many1');
root("CREATE DATABASE $_ TEMPLATE many1") for @many[1 .. $#many];
record($_, 1) for @many;
$node->restart('fast');
my $entered = 'SELECT bool_or(clean) AND bool_or(clean IS NULL) FROM mortar.epochs '
  . 'WHERE database_id = (SELECT oid FROM pg_database WHERE datname = current_database())';
# the last one first: they are entered quickly, not one after the other
ok($node->poll_query_until($_, $entered), "$_ has the new epoch") for reverse @many;
is(counted($_), 1, "$_ has its usage") for @many;
root("DROP DATABASE $_") for @many;

# ---- a database that is closed to clients is flushed all the same ----
fresh('closed');
on('closed', "SELECT mortar.record_usage('acme', 'requests', 4)");
root('ALTER DATABASE closed ALLOW_CONNECTIONS false');
$node->restart('fast');
root('ALTER DATABASE closed ALLOW_CONNECTIONS true');
ok($node->poll_query_until('closed', 'SELECT (' . journal() . ') = 4'), 'usage of a closed database');
root('DROP DATABASE closed');

# ---- DROP EXTENSION takes what is unflushed with it ----
my %drop = (
  'DROP EXTENSION' => 'DROP EXTENSION mortar',
  'DROP SCHEMA CASCADE' => 'DROP SCHEMA mortar CASCADE',
);
for my $name (sort keys %drop) {
  fresh('dropped');
  on('dropped', "SELECT mortar.set_price('requests', 1, 1)");
  on('dropped', "SELECT mortar.grant_credits('acme', 1000, 'first')");
  break_flush('dropped');
  record('dropped', 8);
  on('dropped', "BEGIN; $drop{$name}; CREATE EXTENSION mortar; COMMIT");
  on('dropped', "SELECT mortar.create_tenant('acme')");
  is(counted('dropped'), 0, "$name: created anew, nothing was counted");
  record('dropped', 2);
  is(counted('dropped'), 2, '... the next usage is');
  ok($node->poll_query_until('dropped', 'SELECT (' . journal() . ') = 2'), '... and only that is flushed');
  is(on('dropped', "SELECT available_uc FROM mortar.balance('acme')"), 0, '... at no price, for there is none');
  ledger_is_right('dropped', '... and its ledger agrees');
  on('dropped', $drop{$name});
  root('DROP DATABASE dropped');
}

# a rolled back DROP EXTENSION takes nothing
fresh('kept');
break_flush('kept');
record('kept', 8);
on('kept', 'BEGIN; DROP EXTENSION mortar; ROLLBACK');
on('kept', 'BEGIN; SAVEPOINT s; DROP EXTENSION mortar; ROLLBACK TO s; COMMIT');
is(counted('kept'), 8, 'a DROP EXTENSION that is rolled back drops no usage');
mend_flush('kept');
ok($node->poll_query_until('kept', 'SELECT (' . journal() . ') = 8'), '... and it is flushed');
root('DROP DATABASE kept');

# ---- a file of a clean stop waits to be entered ----
sub files_of {
  my $oid = root("SELECT oid FROM pg_database WHERE datname = '$_[0]'");
  my @files = glob($node->data_dir . "/pg_stat/mortar-$oid-*.stop");
  return @files;
}
fresh($_) for qw(renamed reborn);
break_flush($_) for qw(renamed reborn);
record($_, 50) for qw(renamed reborn);
$node->restart('fast');
$node->wait_for_log(qr/usage of a clean stop could not be entered: .*violates check constraint/);
is(scalar(files_of('reborn')), 1, 'a constraint does not make the file hopeless');

# the flusher is sent away, and comes back
root('ALTER DATABASE renamed RENAME TO waiting');
mend_flush('waiting');
ok($node->poll_query_until('waiting', 'SELECT (' . journal() . ') = 50'), 'it is entered when the constraint is gone');
is(counted('waiting'), 50, '... and counted');
root('DROP DATABASE waiting');

# another extension has nothing to do with it
on('reborn', 'DROP EXTENSION mortar');
on('reborn', 'CREATE EXTENSION mortar');
on('reborn', "SELECT mortar.create_tenant('acme')");
ok($node->poll_query_until('reborn', "SELECT count(*) = 0 FROM pg_database d, pg_ls_dir('pg_stat') f "
  . "WHERE d.datname = current_database() AND f LIKE 'mortar-' || d.oid || '-%.stop%'"), 'the file of an extension that was dropped is removed');
is(on('reborn', journal()), 0, '... and not entered into the next one');
record('reborn', 2);
is(counted('reborn'), 2, '... which counts its own');
ledger_is_right('reborn', '... and has its own ledger');

# ---- a dump is restored where it was made, in the same epoch ----
my $dump = $node->basedir . '/dump.sql';
ok($node->poll_query_until('reborn', 'SELECT (' . journal() . ') = 2'), 'usage is flushed');
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('reborn') ], 'pg_dump');
on('reborn', 'DROP SCHEMA mortar CASCADE');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $node->connstr('reborn') ], 'psql restores it');
is(counted('reborn'), 2, 'usage is there');
is(on('reborn', 'SELECT count(*) FROM mortar.epochs WHERE clean IS NULL'), 1, '... and one epoch runs');
ledger_is_right('reborn', '... and the ledger agrees');
root('DROP DATABASE reborn');

# ---- a database without the extension is none of Mortar's, whatever was there ----
fresh('former');
record('former', 1);
ok($node->poll_query_until('former', 'SELECT (' . journal() . ') = 1'), 'a database was flushed');
break_flush('former');
record('former', 1);
ok($node->poll_query_until('former', 'SELECT state = \'running\' AND failures > 0 FROM mortar.flusher'),
  '... and its flusher is at work in vain');
on('former', 'DROP EXTENSION mortar');
my $former = root("SELECT oid FROM pg_database WHERE datname = 'former'");
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'former'"),
  'it leaves when the extension is dropped');
fresh('next');
is(on('next', 'SELECT state, pid, last_flush, flushed_rows, failures, last_error, last_error_at FROM mortar.flusher'), 'none|||0|0||',
  'the database that takes its place in memory begins with nothing of it');
record('next', 6);
ok($node->poll_query_until('next', 'SELECT (' . journal() . ') = 6'), '... and is flushed');
ok($node->poll_query_until('next', 'SELECT failures = 0 AND flushed_rows = 1 FROM mortar.flusher'), '... by itself');
$node->stop('fast');
is_deeply([ glob($node->data_dir . "/pg_stat/mortar-$former-*") ], [], '... and a stop has nothing to say of that database');

ok(slurp_file($node->logfile) !~ qr/PANIC|TRAP|"mortar flusher" \(PID \d+\) exited with/, 'no flusher ended by an error');

done_testing();
