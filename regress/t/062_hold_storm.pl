# 062_hold_storm.pl
#   Many sessions do everything that moves credits at once, on tenants in each
#   mode, and on one whose mode changes: with grants and holds that expire meanwhile, savepoints and transactions
#   that are rolled back.  Whatever they did, it adds up.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Mortar;
use Test::More;

my $node = Mortar::node('main', conf => "max_connections = 60\nmortar.flush_interval = '20ms'\n");

sub admin { return Mortar::admin($node, $_[0]); }

my %mode = (hard => "'hard', 0", overdraft => "'hard', 3000", soft => "'soft'", unlimited => "'unlimited'",
  flip => "'hard', 500");
admin("SELECT mortar.set_price('requests', 7, 3)");
for my $tenant (sort keys %mode) {
  admin("SELECT mortar.create_tenant('$tenant'); SELECT mortar.set_limit('$tenant', $mode{$tenant});"
    . "SELECT mortar.grant_credits('$tenant', 2000, 'first')");
}

# Ids are picked among the latest, so that sessions meet at the same ones.  Only
# what is due is allowed to fail; anything else fails the test.
$node->safe_psql($Mortar::database, <<'SQL');
CREATE FUNCTION step(tenant text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    id uuid;
    k text := gen_random_uuid();
    n int8 := 1 + (random() * 400)::int8;
BEGIN
    CASE (random() * 12)::int4
    WHEN 0 THEN
        -- more of them than memory tells apart would make sessions wait
        IF random() < 0.3 THEN
            PERFORM mortar.grant_credits(tenant, 6 * n, k, (random() * 3)::int4,
                CASE WHEN random() < 0.5 THEN 'promo' ELSE 'paid' END,
                clock_timestamp() + (random() - 0.7) * interval '300 milliseconds',
                CASE WHEN random() < 0.8 THEN clock_timestamp() + interval '310 milliseconds' + random() * interval '1 second' END);
        END IF;
    WHEN 1 THEN PERFORM mortar.charge(tenant, n, k);
    WHEN 2 THEN PERFORM mortar.record_usage(tenant, 'requests', n / 4);
    WHEN 3, 4 THEN PERFORM mortar.hold(tenant, n, random() * interval '600 milliseconds' + interval '1 millisecond', k);
    WHEN 5, 6 THEN
        SELECT hold_id INTO id FROM (SELECT hold_id FROM mortar.credit_holds h WHERE h.tenant_id = tenant
            ORDER BY hold_id DESC LIMIT 8) x ORDER BY random() LIMIT 1;
        IF random() < 0.5 THEN PERFORM mortar.capture(tenant, id, n, k);
        ELSE PERFORM mortar.void_hold(tenant, id, k); END IF;
    WHEN 7, 8 THEN
        SELECT entry_id INTO id FROM (SELECT entry_id FROM mortar.credit_ledger l WHERE l.tenant_id = tenant
            AND kind IN ('charge', 'capture') ORDER BY entry_id DESC LIMIT 8) x ORDER BY random() LIMIT 1;
        PERFORM mortar.reverse(tenant, id, k, CASE WHEN random() < 0.5 THEN n / 2 + 1 END);
    WHEN 10 THEN
        IF tenant = 'flip' AND random() < 0.3 THEN
            PERFORM mortar.set_limit(tenant, 'hard', n * 5, n * 3);
        ELSIF tenant = 'flip' AND random() < 0.3 THEN
            PERFORM mortar.set_limit(tenant, (ARRAY['hard', 'soft', 'unlimited'])[1 + (random() * 2)::int4]);
        ELSIF tenant = 'flip' AND random() < 0.1 THEN PERFORM mortar.freeze(tenant);
        ELSIF tenant = 'flip' THEN PERFORM mortar.unfreeze(tenant);
        END IF;
    WHEN 11 THEN
        -- more own grants than memory tells apart are spent, and come back
        IF random() < 0.1 THEN
            PERFORM mortar.grant_credits(tenant, 10, k || i, (random() * 3)::int4,
                expires_at => clock_timestamp() + interval '1 millisecond' + random() * interval '700 milliseconds')
                FROM generate_series(1, 15) i;
            id := mortar.charge(tenant, n, k);
            PERFORM mortar.reverse(tenant, id, k || 'r', n / 2 + 1);
            id := mortar.hold(tenant, n, '300 milliseconds', k || 'h');
            IF random() < 0.5 THEN PERFORM mortar.capture(tenant, id, n / 2 + 1, k || 'c'); END IF;
            IF random() < 0.3 THEN PERFORM mortar.record_usage(tenant, 'requests', n / 4); END IF;
        END IF;
    ELSE
        SELECT grant_id INTO id FROM (SELECT grant_id FROM mortar.credit_grants g WHERE g.tenant_id = tenant
            ORDER BY grant_id DESC LIMIT 5) x ORDER BY random() LIMIT 1;
        IF random() < 0.2 THEN PERFORM mortar.void_grant(tenant, id, k, 'storm'); END IF;
    END CASE;
EXCEPTION WHEN OTHERS THEN
    -- 53400: usage of one transaction that more than eight grants would have to pay
    IF SQLSTATE NOT IN ('MT402', 'MT404', 'MT409', 'MT422', 'MT423', '55P03', '53400', '22004') THEN RAISE; END IF;
END
$$;
CREATE PROCEDURE storm(tenant text) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. (random() * 4)::int4 LOOP
        IF random() < 0.8 THEN
            PERFORM step(tenant);
        ELSE
            BEGIN
                PERFORM step(tenant), step(tenant);
                RAISE 'taken back' USING ERRCODE = 'ZZ000';
            EXCEPTION WHEN SQLSTATE 'ZZ000' THEN NULL;
            END;
        END IF;
    END LOOP;
    IF random() < 0.2 THEN ROLLBACK; END IF;
END
$$;
SQL

my $script = $node->basedir . '/storm.sql';
Mortar::write_file($script, "\\set n random(1, 5)\n"
  . "CALL storm((ARRAY['hard', 'overdraft', 'soft', 'unlimited', 'flip'])[:n]);\n");

sub settled {
  $node->poll_query_until($Mortar::database, "SELECT NOT EXISTS (SELECT FROM mortar.cells WHERE unflushed_uc <> 0)"
    . " AND NOT EXISTS (SELECT FROM mortar.slots WHERE pins <> 0 OR unflushed_uc <> 0)");
  # grants and holds that will expire have done so
  select(undef, undef, undef, 2.5);
  admin('SELECT * FROM mortar.balances');
  $node->poll_query_until($Mortar::database, "SELECT NOT EXISTS (SELECT FROM mortar.cells WHERE unflushed_uc <> 0)");
  return;
}

for my $round (1 .. 3) {
  my ($out, $err) = ('', '');
  IPC::Run::run([ 'pgbench', '-n', '-c', 16, '-j', 2, '-t', 120, '-f', $script, '-U', 'mortar_test_admin',
      $node->connstr($Mortar::database) ], '>', \$out, '2>', \$err);
  unlike($err, qr/ERROR|PANIC|FATAL/, "round $round: nothing failed but what was due") or diag($err);
  settled();
  is(admin('SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok'), '', 'it adds up');
  like(admin("SELECT detail FROM mortar.verify_ledger() WHERE check_name LIKE 'memory%'"), qr/^ok, 5 tenants/,
    'and memory agrees with tables, for all five tenants');
  my $before = admin('SELECT tenant_id, available, held, debt FROM mortar.balances ORDER BY 1');
  $node->restart;
  is(admin('SELECT tenant_id, available, held, debt FROM mortar.balances ORDER BY 1'), $before,
    'after a restart every tenant has what it had');
}
cmp_ok(admin("SELECT count(*) FROM mortar.credit_ledger WHERE kind = '$_'"), '>', 10, "there was a $_")
  for qw(capture release reversal hold);
is(admin("SELECT count(*) > 0 FROM mortar.credit_ledger WHERE meta ? 'expired'"), 't', 'and holds expired');
is(admin("SELECT available FROM mortar.balances WHERE tenant_id = 'hard'") < 0 ? 1 : 0, 0, 'who may not owe does not');
is(admin("SELECT available < -0.003 FROM mortar.balances WHERE tenant_id = 'overdraft'"), 'f', 'nor more than it may');
done_testing();
