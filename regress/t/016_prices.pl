# 016_prices.pl
#   Prices of routes, tenants and times, on a server at work: they come into force
#   by themselves in every session and gateway, change under load, go on across
#   restarts, are more than a tenant's slot has counters for; and each of them
#   costs exactly floor(quantity * price).

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use IPC::Run;
use Mortar;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

my $node = Mortar::node('main', conf => "mortar.flush_interval = '10ms'\n");
my $database = $Mortar::database;
sub admin { return Mortar::admin($node, $_[0]); }
sub super { return $node->safe_psql($database, $_[0]); }
sub until_true {
  my ($sql, $what) = @_;
  ok($node->poll_query_until($database, $sql), $what);
  return;
}
sub adds_up {
  is(admin("SELECT string_agg(check_name || ': ' || detail, '; ') FROM mortar.verify_ledger() WHERE NOT ok"), '', $_[0]);
  return;
}
my %granted;
sub tenant {
  my ($tenant) = @_;
  $granted{$tenant} = 1_000_000_000_000;
  admin("SELECT mortar.create_tenant('$tenant'), mortar.grant_credits('$tenant', $granted{$tenant}, 'grant')");
  return admin("SELECT mortar.create_key('$tenant', 'key')");
}

# is_exact(TENANT, WHAT): what was paid is the sum of floor(quantity * price) over
#   all prices, as usage() shows it and, later, as the journal has it
my $by_price = "SELECT sum(cost), bool_and(cost = coalesce(div(qty * num_uc, per_units), 0)), count(*) FROM (
  SELECT price_id, sum(upto_qty - from_qty) AS qty, sum(cost_uc) AS cost FROM mortar.usage_journal WHERE tenant_id = '%s'
  GROUP BY price_id) j LEFT JOIN mortar.prices USING (price_id)";
sub is_exact {
  my ($tenant, $what) = @_;
  my $paid = $granted{$tenant} - admin("SELECT available_uc FROM mortar.balance('$tenant')");
  is(admin("SELECT sum(cost_uc) FROM mortar.usage('$tenant')"), $paid, "$what: what is paid is what usage() shows");
  $node->poll_query_until($database, "SELECT (SELECT sum(quantity) FROM mortar.usage('$tenant'))
    = (SELECT sum(upto_qty - from_qty) FROM mortar.usage_journal WHERE tenant_id = '$tenant')") or die 'usage is not flushed';
  my ($cost, $exact, $prices) = split /\|/, super(sprintf $by_price, $tenant);
  is("$cost $exact", "$paid t", "... and the exact sum of $prices prices");
  return $prices;
}

# ---- at one instant, everywhere ----
my $key = tenant('acme');
admin("SELECT mortar.set_price('requests', 1, 1), mortar.set_price('egress_bytes', 0, 1)");
my $gateway = Mortar::gateway($node);
my @sessions = map { Session->new($node, user => 'mortar_test_admin') } 1 .. 2;

# the price that each of them pays now, the gateway last
sub prices_paid {
  my @paid;
  my $left = sub { return admin("SELECT available_uc FROM mortar.balance('acme')"); };
  for my $session (@sessions, undef) {
    my $before = $left->();
    if ($session) { $session->run("SELECT mortar.record_usage('acme', 'requests', 1)"); }
    else { is($gateway->request('GET', '/v1/acme/db/tables', key => $key)->{status}, 200, 'a call'); }
    push @paid, $before - $left->();
  }
  return join ' ', @paid;
}
is(prices_paid(), '1 1 1', 'two sessions and a gateway pay the price in force');
admin("SELECT mortar.set_price('requests', 5, 1, valid_from => clock_timestamp() + interval '1 year')");
admin("SELECT mortar.set_price('requests', 3, 1, valid_from => clock_timestamp() + interval '2 seconds')");
my $begins = "(SELECT valid_from FROM mortar.prices WHERE num_uc = 3)";
my $paid = prices_paid();
is($paid, '1 1 1', '... and go on to, after one was set for later') if admin("SELECT clock_timestamp() < $begins") eq 't';
until_true("SELECT clock_timestamp() >= $begins", 'its time comes');
is(prices_paid(), '3 3 3', '... and it is in force, without anybody\'s doing');
is(admin("SELECT count(*) FROM mortar.prices WHERE valid_from > set_at"), 2, '... no row was added');
super("INSERT INTO mortar.prices (price_id, meter, tenant_id, num_uc, per_units, xid) VALUES (gen_random_uuid(), 'requests', 'acme', 4, 1, '3')");
is(prices_paid(), '4 4 4', 'a row that a restore brings holds at once, too');
super("BEGIN; INSERT INTO mortar.prices (price_id, meter, tenant_id, num_uc, per_units) VALUES (gen_random_uuid(), 'requests', 'acme', 5, 1); ROLLBACK");
my $open = Session->new($node, user => 'mortar_test_admin');
$open->run("BEGIN; SELECT mortar.set_price('requests', 6, 1, tenant => 'acme')");
is(prices_paid(), '4 4 4', 'one that is not committed does not');
$open->run('COMMIT');
is(prices_paid(), '6 6 6', '... until it is');
$_->end for @sessions, $open;
$node->restart;
is_exact('acme', 'after a restart');

# ---- 1,000 bytes at a time, by two routes with prices of their own, and a restart in the middle ----
my $bytes = tenant('bytes');
admin("SELECT mortar.set_price('requests', 0, 1, tenant => 'bytes'), mortar.set_price('egress_bytes', 0, 1, tenant => 'bytes'),
  mortar.set_price('egress_bytes', 300000, 1000000000, 'GET /db/rows/{t}/{id}', 'bytes'),
  mortar.set_price('egress_bytes', 700000, 1000000000, 'GET /db/rows/{t}', 'bytes')");
my %path = (one => '/v1/bytes/db/rows/one', list => '/v1/bytes/db/rows/list');
for my $table (qw(one list)) {
  $gateway->request('POST', '/v1/bytes/db/tables', key => $bytes, json => { name => $table });
  my $row = $gateway->request('POST', $path{$table}, key => $bytes, json => { pad => '' });
  my $url = $row->{headers}{location};
  my $get = $table eq 'one' ? $url : $path{$table};
  # the first millisecond digits of the times may differ in number, so it is tried
  for (1 .. 20) {
    my $have = length($gateway->request('GET', $get, key => $bytes)->{content});
    last if $have == 1000;
    my $pad = ($path{pad} // 0) + 1000 - $have;
    $path{pad} = $pad;
    $gateway->request('PUT', $url, key => $bytes, json => { pad => 'x' x $pad });
  }
  delete $path{pad};
  $path{$table} = $get;
  is(length($gateway->request('GET', $get, key => $bytes)->{content}), 1000, "an answer of 1,000 bytes ($table)");
}
for my $half (1, 2) {
  my $sizes = 0;
  for (1 .. 100) { $sizes += length($gateway->request('GET', $path{$_}, key => $bytes)->{content}) for qw(one list); }
  is($sizes, 200_000, "half $half of the answers have 1,000 bytes each");
  is_exact('bytes', "half $half");
  $node->restart if $half == 1;
}
my $rows = admin("SELECT string_agg(concat_ws(' ', route, quantity % 1000, cost_uc = div(quantity * n, 1000000000)), '; ' ORDER BY route)
  FROM (VALUES ('GET /db/rows/{t}', 700000), ('GET /db/rows/{t}/{id}', 300000)) p (route, n)
  JOIN mortar.usage('bytes', by => '{meter,route}') USING (route) WHERE meter = 'egress_bytes'");
like($rows, qr{^GET /db/rows/\{t\} \d+ t; GET /db/rows/\{t\}/\{id\} \d+ t$}, 'each route by its own price');

# ---- prices change under load ----
tenant('load');
my @change = map { "SELECT mortar.set_price('egress_bytes', 300000 + $_, 1000000000" } 1 .. 8;
my $record = "SELECT mortar.record_usage('load', 'egress_bytes', 1000)";
my %script = (keep => [ 9, "$record;" ], rollback => [ 1, "BEGIN\\; $record\\; ROLLBACK;" ],
  savepoint => [ 1, "BEGIN;\n$record;\nSAVEPOINT s;\n$record;\nROLLBACK TO s;\nCOMMIT;" ]);
my @files;
for my $name (sort keys %script) {
  my $file = $node->basedir . "/$name.sql";
  append_to_file($file, "$script{$name}[1]\n");
  push @files, '-f', "$file\@$script{$name}[0]";
}
my ($out, $err) = ('', '');
my $load = IPC::Run::start([ 'pgbench', '-n', '-c', 4, '-j', 1, '-T', 600, @files, '-U', 'mortar_test_admin', $node->connstr($database) ],
  '<', \undef, '>', \$out, '2>', \$err);
for my $i (0 .. $#change) {
  # the first one is general, and then the tenant has its own
  admin($change[$i] . ($i ? ", tenant => 'load')" : ')'));
  my $whose = $i ? "tenant_id = 'load'" : 'tenant_id IS NULL AND route IS NULL';
  until_true("SELECT count(*) > 0 FROM mortar.usage_journal WHERE tenant_id = 'load' AND price_id =
    (SELECT price_id FROM mortar.prices WHERE meter = 'egress_bytes' AND $whose ORDER BY valid_from DESC LIMIT 1)",
    'price ' . ($i + 1) . ' is used');
}
$node->stop('fast');
$load->finish;
is($err =~ /(PANIC|XX000.*)/ ? $1 : '', '', 'and a stop of the server comes in between');
$node->start;
admin("$record FROM generate_series(1, 777)");
cmp_ok(is_exact('load', 'after changes under load and a restart'), '>=', 8, 'of several prices');

# ---- more prices than a slot has counters ----
my $many = tenant('many');
admin("SELECT count(mortar.set_price(m, 300001 + route, CASE m WHEN 'requests' THEN 1000000 ELSE 10000000 END, method || ' ' || path, 'many'))
  FROM mortar.routes, unnest('{requests,egress_bytes}'::text[]) m WHERE gated");
admin("SELECT mortar.set_price(m, 5, 3, tenant => 'many') FROM unnest('{requests,egress_bytes}'::text[]) m");
my $http = sub {
  my ($method, $path, $body) = @_;
  return "SELECT status FROM mortar.http('many', '$method', convert_to('$path', 'UTF8'), NULL, ARRAY['apikey', '$many', 'content-type', 'application/json', "
    . "'prefer', 'return=representation'], " . ($body ? "convert_to('$body', 'UTF8')" : 'NULL') . ", NULL, 'r');\n";
};
my $routes = $node->basedir . '/routes.sql';
append_to_file($routes, "\\set n random(100000, 999999)\n"
  . join('', map { s/ID/00000000-0000-7000-8000-000000:n/gr }
    $http->('POST', '/db/tables', '{"name":"t:client_id"}'),
    $http->('GET', '/db/tables'), $http->('GET', '/db/tables/t:client_id'), $http->('POST', '/db/rows/t:client_id', '{"a":1}'),
    $http->('GET', '/db/rows/t:client_id'), $http->('PUT', '/db/rows/t:client_id/ID', '{"n":1}'),
    $http->('GET', '/db/rows/t:client_id/ID'), $http->('DELETE', '/db/rows/t:client_id/ID'), $http->('DELETE', '/db/tables/t:client_id')));
append_to_file($node->basedir . '/direct.sql', join '', map { "SELECT mortar.record_usage('many', '$_', 7);\n" } qw(requests egress_bytes));
($out, $err) = ('', '');
$load = IPC::Run::start([ 'pgbench', '-n', '-c', 4, '-j', 1, '-t', 250, '-f', $routes, '-f', $node->basedir . '/direct.sql', $node->connstr($database) ],
  '<', \undef, '>', \$out, '2>', \$err);
my $reader = Session->new($node, user => 'mortar_test_admin');
my ($rounds, $wrong) = (0, '');
do {
  # every reading has each price's exact cost, whatever is in memory, in tables or on its way
  $wrong .= $reader->run(<<'SQL');
SELECT u.meter, u.route, u.quantity, u.cost_uc FROM mortar.usage('many', by => '{meter,route}') u
  LEFT JOIN mortar.prices p ON (p.tenant_id, p.meter) = ('many', u.meter) AND p.route IS NOT DISTINCT FROM u.route
  WHERE u.cost_uc IS DISTINCT FROM div(u.quantity::numeric * p.num_uc, p.per_units)
SQL
  $rounds++;
} while (IPC::Run::pumpable($load) && IPC::Run::pump_nb($load));
$reader->end;
$load->finish;
is($err =~ /(.*(?:ERROR|error).*)/ ? $1 : '', '', 'four clients call all routes');
cmp_ok($rounds, '>', 1, "somebody reads meanwhile, $rounds times");
is($wrong, '', '... and each time each price has cost exactly what it should');
cmp_ok(is_exact('many', 'after many recycled counters'), '>', 16, 'of more prices than there are counters');
$node->restart;
is_exact('many', 'after a restart');

# ---- the largest numbers: a refusal for that tenant, and a flush for all others ----
tenant($_) for qw(edge bystander);
admin("SELECT mortar.create_tenant('vast')");
admin("SELECT mortar.set_price('requests', 2305843009213693951, 1, tenant => 'vast'), mortar.set_price('requests', 2305843009213693951, 1, tenant => 'edge')");
sub refused {
  my ($sql, $state, $what) = @_;
  my (undef, undef, $stderr) = $node->psql($database, "\\set VERBOSITY sqlstate\n$sql");
  like($stderr, qr/ERROR:  $state/, $what);
  return;
}
my $seen = 0;
sub bystander {
  admin("SELECT mortar.record_usage('bystander', 'requests', 1)");
  $seen++;
  until_true("SELECT sum(upto_qty - from_qty) = $seen FROM mortar.usage_journal WHERE tenant_id = 'bystander'", "... $_[0]");
  return;
}
refused("SELECT mortar.record_usage('edge', 'requests', 1)", 'MT402', 'one request costs 2^61 - 1: nobody else\'s balance reaches that far');
refused("SELECT mortar.record_usage('edge', 'requests', 2305843009213693951)", 'MT402', '... nor that of any number of them');
bystander('and another tenant\'s usage is flushed');
for my $i (1 .. 4) {
  admin("SELECT mortar.grant_credits('vast', 2305843009213693951, 'grant $i')");
  refused("SELECT mortar.record_usage('vast', 'requests', 2)", 'MT402', "2^61 - 1 credits pay for one request, not for two ($i)");
  admin("SELECT mortar.record_usage('vast', 'requests', 1)");
  bystander('a flush takes it along with others\'');
}
admin("SELECT mortar.grant_credits('vast', 2305843009213693951, 'grant 5')");
refused("SELECT mortar.record_usage('vast', 'requests', 1)", '22003', 'what one price has ever charged stays within int8');
bystander('and others go on');
is(admin("SELECT quantity, cost_uc FROM mortar.usage('vast')"), '4|9223372036854775804', '... up to there it is counted');
admin("SELECT mortar.set_price('requests', 1, 1, tenant => 'vast')");
admin("SELECT mortar.record_usage('vast', 'requests', 2)");
until_true("SELECT sum(upto_qty - from_qty) = 6 FROM mortar.usage_journal WHERE tenant_id = 'vast'", 'another price goes on');
is(super('SELECT failures FROM mortar.flusher'), 0, 'no flush has failed');
adds_up('everything adds up');
done_testing();
