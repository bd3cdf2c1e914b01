# 069_reserve_storm.pl
#   Answers in pieces, all at once: whatever sessions reserve, settle, release, record
#   and roll back, what was sent and recorded is counted, costs what its price says, and
#   is paid once; the rest comes back.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use IPC::Run;
use Mortar;
use Reserve;
use Test::More;

my $node = Mortar::node('main', conf => "max_connections = 50\nmortar.flush_interval = '20ms'\n");

sub super { return $node->safe_psql($Mortar::database, $_[0]); }
sub admin { return Mortar::admin($node, $_[0]); }
sub unverified { return admin('SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'); }

sub tenant {
  my ($tenant, $uc, $limits) = @_;
  admin("SELECT mortar.create_tenant('$tenant'); SELECT mortar.grant_credits('$tenant', $uc, 'grant');"
    . ($limits ? "SELECT mortar.set_limit('$tenant', $limits)" : ''));
  return;
}

Reserve::install($node);
admin(q{SELECT mortar.set_price('egress_bytes', 70000, 1000000000)});
my @storm = qw(storm-hard storm-soft storm-unlimited);
super(<<'SQL');
CREATE TABLE reserved (tenant text, id text);
CREATE TABLE recorded (tenant text, qty int8);
CREATE SEQUENCE e_mt402; CREATE SEQUENCE e_22003; CREATE SEQUENCE e_53400; CREATE SEQUENCE e_55p03;
CREATE FUNCTION step(tenant text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    ttl int8 := CASE WHEN random() < 0.4 THEN 3600000 ELSE 1 + random() * 200 END;
    n int8 := 1 + random() * 20;
    id text;
BEGIN
    SELECT r.id INTO id FROM (SELECT * FROM reserved r WHERE r.tenant = step.tenant ORDER BY ctid DESC LIMIT 8) r
        ORDER BY random() LIMIT 1;
    CASE (random() * 9)::int4
    WHEN 0, 1, 2 THEN
        INSERT INTO reserved SELECT tenant, reserve_test.reserve(tenant, 'egress_bytes', (random() * 60000)::int8 + 1, ttl);
    WHEN 3, 4, 5 THEN
        -- no rollback takes a sequence back, either
        IF reserve_test.settle(tenant, id, 1000 * n, ttl) THEN
            PERFORM nextval(tenant) FROM generate_series(1, n);
        END IF;
    WHEN 6 THEN PERFORM reserve_test.release(tenant, id);
    ELSE
        PERFORM mortar.record_usage(tenant, 'egress_bytes', n * 777, CASE WHEN random() < 0.3 THEN 'sync' END);
        INSERT INTO recorded VALUES (tenant, n * 777);
    END CASE;
EXCEPTION WHEN OTHERS THEN
    -- 22003: more than is left; 53400: no reservation is free, or too many grants
    IF SQLSTATE NOT IN ('MT402', '22003', '53400', '55P03') THEN RAISE; END IF;
    PERFORM nextval('e_' || lower(SQLSTATE));
END
$$;
CREATE PROCEDURE storm(tenant text) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. (random() * 4)::int4 LOOP
        BEGIN
            PERFORM step(tenant), step(tenant);
            IF random() < 0.2 THEN RAISE 'taken back' USING ERRCODE = 'ZZ000'; END IF;
        EXCEPTION WHEN SQLSTATE 'ZZ000' THEN NULL;
        END;
    END LOOP;
    IF random() < 0.2 THEN ROLLBACK; END IF;
END
$$;
SQL
my %granted = ('storm-hard' => 350, 'storm-soft' => 500, 'storm-unlimited' => 500);
for my $t (@storm) {
  tenant($t, $granted{$t} - 5 * 40, $t eq 'storm-hard' ? undef : "'" . substr($t, 6) . "'");
  super("CREATE SEQUENCE \"$t\"; SELECT mortar.grant_credits('$t', 40, 'g' || g, priority => g) FROM generate_series(1, 5) g");
}
my $script = $node->basedir . '/storm.sql';
Mortar::write_file($script, "\\set n random(1, 3)\nCALL storm((ARRAY['" . join("', '", @storm) . "'])[:n]);\n");
{
  my ($out, $err) = ('', '');
  IPC::Run::run([ 'pgbench', '-n', '-c', 12, '-j', 2, '-t', 200, '-f', $script, $node->connstr($Mortar::database) ],
    '>', \$out, '2>', \$err);
  unlike($err, qr/ERROR|PANIC|FATAL/, 'in a storm nothing fails but what is due') or diag($err);
}
cmp_ok(super("SELECT last_value FROM \"$_\""), '>', 100, "pieces of $_ were sent") for @storm;
note("$_: " . super("SELECT last_value FROM e_$_")) for qw(22003 53400 55p03);
cmp_ok(super('SELECT last_value FROM e_mt402'), '>', 1, 'some were refused for lack of credits');
is(unverified(), '', 'it adds up while some are live');
super('SELECT reserve_test.release(tenant, id) FROM reserved');
is(admin("SELECT tenant_id FROM mortar.slots WHERE reservations <> 0 OR reserved_uc <> 0"), '', 'all of them end');
$node->poll_query_until($Mortar::database, q{SELECT NOT EXISTS (SELECT FROM mortar.cells WHERE unflushed_uc <> 0)
  AND NOT EXISTS (SELECT FROM mortar.slots WHERE pins <> 0 OR queued <> 0 OR unflushed_uc <> 0)}) or die 'not flushed';
is(unverified(), '', 'it adds up');
for my $when ('', ', and after a restart') {
  for my $t (@storm) {
    my $used = super("SELECT last_value * 1000 + (SELECT sum(qty) FROM recorded WHERE tenant = '$t') FROM \"$t\"");
    my $cost = super("SELECT div($used * 70000::numeric, 1000000000)");
    is(admin("SELECT quantity || ' ' || cost_uc FROM mortar.usage('$t')"), "$used $cost", "$t: what was sent or recorded is usage$when");
    is(admin("SELECT available_uc FROM mortar.balance('$t')"), $granted{$t} - ($t eq 'storm-unlimited' ? 0 : $cost),
      "... and is paid for$when");
  }
  $node->restart;
}
is(unverified(), '', 'it adds up');

done_testing();
