# 013_dump_matrix.pl
#   A database that is brought to a cluster which knows nothing of Mortar but its
#   library and a copy of the pepper: by each way of dumping and restoring, and by
#   pg_upgrade.  Every tenant, key, entry and row is there, the books agree, a key of
#   the old database opens the new one, by SQL and through a gateway, and a dump of
#   the new database is the old one's.
#
#   `make dump-matrix` prints the table, and tries more ways and more rows.

use strict;
use warnings;
use Cwd;
use File::Copy;
use FindBin;
use lib $FindBin::Bin;
use Matrix;
use Mortar;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $database = $Mortar::database;
my $rows = Matrix::long() ? 200 : 40;    # of each of 501 tenants
my $node = Mortar::node('main', conf => "mortar.flush_interval = '20ms'\n");

# enough rows that jobs which run at once do so for a while; the largest tables
# are those that refer to others
my $key = Mortar::tenant($node, 'acme', credits => 10, prices => 1);
Mortar::admin($node, <<'SQL');
SELECT count(mortar.create_tenant('tenant-' || i, 'Tenant ' || i)) FROM generate_series(1, 500) i;
SELECT count(mortar.grant_credits('tenant-' || i, 1000, 'g')) FROM generate_series(1, 500) i;
SELECT count(mortar.create_key('tenant-' || i, 'k' || j)) FROM generate_series(1, 500) i, generate_series(1, 4) j;
SELECT mortar.revoke_key(tenant_id, key_id) FROM mortar.keys WHERE tenant_id = 'tenant-7';
SELECT mortar.record_usage('tenant-' || i, 'requests', i % 5) FROM generate_series(1, 500) i;
SELECT mortar.record_usage('acme', 'egress_bytes', 12345678);
SELECT mortar.set_limit('acme', max_unflushed_uc => 5000000);
SELECT mortar.set_price('requests', 20, 1, 'GET /db/tables', 'acme');
SELECT mortar.set_price('requests', 30, 1, tenant => 'acme', valid_from => now() + interval '1 year');
SELECT mortar.set_price('egress_bytes', 40, 1048576, 'GET /db/rows/{t}');
SQL
for my $batch (1 .. 8) {    # a transaction takes a bounded number of idempotency keys
  Mortar::admin($node, "SELECT count(mortar.charge('tenant-' || i, 1, 'c$batch')) FROM generate_series(1, 500) i");
}
# documents, and a table of the product's own under tenant isolation
$node->safe_psql($database, <<"SQL");
INSERT INTO mortar.doc_tables (tenant_id, name) SELECT tenant_id, 'notes' FROM mortar.tenants;
INSERT INTO mortar.doc_rows (tenant_id, table_name, row_id, doc)
  SELECT tenant_id, 'notes', gen_random_uuid(), jsonb_build_object('n', i, 'text', repeat('x', 100))
  FROM mortar.tenants, generate_series(1, $rows) i;
CREATE TABLE public.orders (tenant_id text COLLATE "C" NOT NULL DEFAULT mortar.tenant_id(), n int, PRIMARY KEY (tenant_id, n));
INSERT INTO public.orders SELECT tenant_id, i FROM mortar.tenants, generate_series(1, 3) i;
ALTER TABLE public.orders ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON public.orders USING (tenant_id = (SELECT mortar.tenant_id()));
GRANT SELECT, INSERT ON public.orders TO mortar_tenant;
SQL
$node->poll_query_until($database, 'SELECT bool_and(unflushed_uc = 0) FROM mortar.slots') or die 'usage is not flushed';

# the tables but for epochs, which the new database's flusher adds to
my @tables = ('public.orders', split /\n/, $node->safe_psql($database, q{SELECT oid::regclass FROM pg_class
  WHERE relnamespace = 'mortar'::regnamespace AND relkind = 'r' AND relname <> 'epochs'}));

# rows and a checksum of each table
sub contents {
  my ($at) = @_;
  return { map { $_ => $at->safe_psql($database,
    "SELECT count(*), md5(string_agg(t::text, E'\\n' ORDER BY t::text)) FROM $_ t") } @tables };
}

# what pg_dump writes with these flags, the rows of each table sorted; without the lines that are
# random, and without the epochs of the server itself when it is another's dump
sub dump_of {
  my ($at, %with) = @_;
  my $file = $at->basedir . '/second.sql';
  run_log([ 'pg_dump', @{ $with{flags} // [] }, '-f', $file, $at->connstr($database) ]) or die 'pg_dump';
  my $own = $with{restored} ? $at->safe_psql('postgres', 'SELECT system_identifier FROM pg_control_system()') : '-';
  my (@lines, $copied);
  for my $line (split /\n/, slurp_file($file)) {
    next if $line =~ /^\\(un)?restrict /;
    if ($line eq '\\.') { push @lines, sort @$copied; undef $copied; }
    if ($copied) { push @$copied, $line unless (split /\t/, $line)[2] // '' eq $own; }
    else { push @lines, $line; }
    $copied = [] if $line =~ /^COPY .* FROM stdin;$/;
  }
  return \@lines;
}

my $balances = "SELECT t.tenant_id, b.* FROM mortar.tenants t, mortar.balance(t.tenant_id) b ORDER BY 1";
my $usage = "SELECT t.tenant_id, u.* FROM mortar.tenants t, mortar.usage(t.tenant_id, by => '{meter,key,route}') u ORDER BY 1, 2";
my %original = (contents => contents($node),
  balances => Mortar::admin($node, $balances), usage => Mortar::admin($node, $usage));

# dumps, and ways to restore them
my $base = $node->basedir;
my $from = $node->connstr($database);
my @psql = qw(psql -Xq -v ON_ERROR_STOP=1 -f);
my @ways = (
  { name => 'pg_dump, psql', dump => [ 'pg_dump', '-f', "$base/dump.sql", $from ], restore => [ @psql, "$base/dump.sql", '-d' ] },
  { name => 'pg_dump, psql -1', restore => [ @psql, "$base/dump.sql", '-1', '-d' ] },
  { name => 'pg_dump -Fc, pg_restore -1', dump => [ 'pg_dump', '-Fc', '-f', "$base/dump.custom", $from ],
    restore => [ 'pg_restore', '-1', "$base/dump.custom", '-d' ] },
  { name => 'pg_dump -Fc, pg_restore -j 4', restore => [ 'pg_restore', '-e', '-j', 4, "$base/dump.custom", '-d' ] },
  { name => 'pg_dumpall, psql', dump => [ 'pg_dumpall', '-f', "$base/all.sql", '-d', $from ],
    restore => [ @psql, "$base/all.sql", '-d' ], all => 1 });
push @ways, (
  { name => 'pg_dump -Fd -j 4, pg_restore -j 4', dump => [ 'pg_dump', '-Fd', '-j', 4, '-f', "$base/dump.dir", $from ],
    restore => [ 'pg_restore', '-e', '-j', 4, "$base/dump.dir", '-d' ] },
  { name => 'pg_dump --column-inserts, psql -1', dump => [ 'pg_dump', '--column-inserts', '-f', "$base/inserts.sql", $from ],
    restore => [ @psql, "$base/inserts.sql", '-1', '-d' ] },
  { name => 'pg_dump -O -x, psql -1', dump => [ 'pg_dump', '-O', '-x', '-f', "$base/bare.sql", $from ],
    restore => [ @psql, "$base/bare.sql", '-1', '-d' ], flags => [ '-O', '-x' ] },
) if Matrix::long();

my $matrix = Matrix->new('way', 'errors', 'tables', 'second dump', 'key, SQL', 'key, HTTP', 'balances', 'usage',
  'verify_ledger', 'goes on');

# A cluster with the library, the old pepper, and nothing else of ours.
sub other_cluster {
  my ($name) = @_;
  my $other = PostgreSQL::Test::Cluster->new($name);
  $other->init(extra => [ '-U', 'postgres', '--encoding=UTF8', '--locale=C.UTF-8' ]);
  copy($node->basedir . '/pepper', $other->basedir . '/pepper') or die "copy: $!";
  chmod(0600, $other->basedir . '/pepper') or die "chmod: $!";
  $other->append_conf('postgresql.conf', Mortar::server_settings($other, 1));
  return $other;
}

sub login_roles {
  my ($at) = @_;
  for my $role (qw(admin gateway)) {
    next if $at->safe_psql('postgres', "SELECT 1 FROM pg_roles WHERE rolname = 'mortar_test_$role'");
    $at->safe_psql('postgres', "CREATE ROLE mortar_test_$role LOGIN IN ROLE mortar_$role");
  }
  return;
}

sub forget_all {
  my ($at) = @_;
  $at->safe_psql('postgres', "DROP DATABASE $database");
  my $roles = $at->safe_psql('postgres', q{SELECT string_agg(rolname, ',') FROM pg_roles WHERE rolname ~ '^mortar'});
  $at->safe_psql('postgres', "DROP ROLE $roles");
  return;
}

# pg_dumpall creates the superuser, whom every cluster has
sub leave_out_superuser {
  my ($path) = @_;
  return Mortar::write_file($path, slurp_file($path) =~ s/^CREATE ROLE postgres;\n//mr);
}

sub wrong { return Mortar::admin($_[0], 'SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'); }

# compare(WAY, SERVER, ERRORS): everything that must be as it was; a row of the table
sub compare {
  my ($way, $at, $errors) = @_;
  my @cells;
  my $cell = sub { my ($ok, $what) = @_; push @cells, $ok ? 'ok' : 'WRONG'; return ok($ok, $what); };
  $cell->($errors eq '', 'no error') or diag($errors);
  $cell->(is_deeply(contents($at), $original{contents}, 'every table has every row'), '... of all tables');
  $cell->(is_deeply(dump_of($at, restored => 1, flags => $way->{flags}), $way->{first}, 'a second dump is the first one'),
    '... line by line');

  login_roles($at);
  # a dump without rights lacks those of the product's own tables
  $at->safe_psql($database, 'GRANT SELECT, INSERT ON public.orders TO mortar_tenant');
  my $login = "SET ROLE mortar_tenant; BEGIN; SELECT mortar.login('$key'); SELECT count(*) FROM mortar.doc_rows;"
    . ' SELECT count(*) FROM public.orders; COMMIT;';
  $cell->(is($at->safe_psql($database, $login), "acme\n$rows\n3", 'login: the key opens its tenant'), '... and no other');
  my $gateway = Mortar::gateway($at);
  my $answer = $gateway->request('GET', '/v1/acme/usage/me', key => $key);
  $cell->($answer->{status} == 200 && $answer->{json}{egress_bytes} == 12345678, 'the key opens the gateway')
    or diag("$answer->{status} $answer->{content}");
  # that call is free, and counted
  $cell->(is(Mortar::admin($at, $balances), $original{balances}, 'balances are the same'), '... of all tenants');
  my $free = 'GET /usage/me';
  $cell->(is(join("\n", grep { !/\Q$free\E/ } split /\n/, Mortar::admin($at, $usage)), $original{usage}, 'usage is the same'),
    '... of all tenants');
  $cell->(is(wrong($at), '', 'everything adds up'), '... by verify_ledger');

  my ($code) = $at->psql($database, q{SELECT mortar.charge('tenant-1', 1, 'c1')}, on_error_stop => 1);
  Mortar::admin($at, "SELECT mortar.charge('acme', 1, 'new'); SELECT mortar.record_usage('acme', 'egress_bytes', 1000)");
  my $insert = $gateway->request('POST', '/v1/acme/db/rows/notes', key => $key, json => { n => 0 });
  $cell->($code == 0 && $insert->{status} == 201 && wrong($at) eq '',
    'and life goes on: old idempotency keys are known, what is new adds up');
  is($gateway->stop, 0, 'the gateway ends cleanly');
  $matrix->row($way->{name}, @cells);
  return;
}

my $other = other_cluster('other');
$other->start;
for my $way (@ways) {
  subtest $way->{name} => sub {
    $node->command_ok($way->{dump}, "$way->{dump}[0] writes a dump") if $way->{dump};
    is($other->safe_psql('postgres', q{SELECT count(*) FROM pg_roles WHERE rolname ~ '^mortar'}), 0, 'there is no role of ours');
    $other->safe_psql('postgres', "CREATE DATABASE $database") unless $way->{all};
    leave_out_superuser("$base/all.sql") if $way->{all};
    my ($out, $err) = run_command([ @{ $way->{restore} }, $other->connstr($way->{all} ? 'postgres' : $database) ]);
    $way->{first} = dump_of($node, flags => $way->{flags});
    compare($way, $other, $err);
    forget_all($other);
  };
}
$other->stop;
is_deeply(contents($node), $original{contents}, 'the original has not changed');

# pg_upgrade, to a server of the same version: what it refuses in an old cluster does
# not depend on that, and it goes the whole way
my $first = dump_of($node);
$node->stop;
my $upgraded = other_cluster('upgraded');
my $bin = $node->config_data('--bindir');
my @upgrade = ('pg_upgrade', '-U', 'postgres', '-b', $bin, '-B', $bin, '-d', $node->data_dir, '-D', $upgraded->data_dir,
  '-s', $node->host, '-p', $node->port, '-P', $upgraded->port);
subtest 'pg_upgrade' => sub {
  my $here = getcwd();
  chdir($upgraded->basedir) or die "chdir: $!";    # it writes a script there
  my $checked = ok(run_log([ @upgrade, '--check' ]), 'pg_upgrade --check finds nothing');
  my $done = ok(run_log(\@upgrade), 'pg_upgrade goes through');
  chdir($here) or die "chdir: $!";
  $upgraded->start;
  compare({ name => 'pg_upgrade', first => $first }, $upgraded, $checked && $done ? '' : 'see the log');
  $upgraded->stop;
};
$matrix->print;
done_testing();
