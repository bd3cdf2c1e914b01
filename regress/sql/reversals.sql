-- Reversals: what was charged is given back once, to the grants that paid; and
-- grants that are taken back.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin, regress_app;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
CREATE ROLE regress_app LOGIN IN ROLE mortar_tenant;
\c - regress_admin
SET client_min_messages = warning;
SELECT mortar.set_price('requests', 1, 1) IS NOT NULL AS priced;
CREATE FUNCTION pg_temp.available(tenant text) RETURNS int8 LANGUAGE sql
    AS 'SELECT available_uc FROM mortar.balance(tenant)';
CREATE FUNCTION pg_temp.rows(movement uuid) RETURNS text LANGUAGE sql AS
    $$SELECT string_agg(format('%s %s>%s %s', kind, from_account, to_account, amount_uc), ', ' ORDER BY entry_id)
        FROM mortar.credit_ledger WHERE movement_id = movement$$;
CREATE FUNCTION pg_temp.left_of(tenant text) RETURNS text LANGUAGE sql AS
    $$SELECT string_agg(format('%s: %s', priority, remaining_uc), ', ' ORDER BY priority)
        FROM mortar.grants WHERE tenant_id = tenant$$;
CREATE FUNCTION pg_temp.error(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    d text;
BEGIN
    EXECUTE statement;
    RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL;
    RETURN concat_ws(' ', SQLSTATE, SQLERRM, d);
END
$$;

-- ---- charge 1; reverse k1, again k1, then k2 ----
SELECT mortar.create_tenant('rev_a');
SELECT mortar.grant_credits('rev_a', mortar.credits(5), 'g') AS g \gset
SELECT mortar.charge('rev_a', mortar.credits(1), 'c1') AS c1 \gset
SELECT mortar.reverse('rev_a', :'c1', 'k1') AS r1 \gset
SELECT mortar.reverse('rev_a', :'c1', 'k1') = :'r1' AS same_result, pg_temp.available('rev_a');
SELECT pg_temp.error(format($$SELECT mortar.reverse('rev_a', %L, 'k2')$$, :'c1'));
SELECT pg_temp.available('rev_a'), pg_temp.rows(:'r1');
SELECT reverses = :'c1' AS of_the_charge FROM mortar.credit_ledger WHERE entry_id = :'r1';
-- two partial ones both count, and no more than is left
SELECT mortar.charge('rev_a', 100, 'c2') AS c2 \gset
SELECT mortar.reverse('rev_a', :'c2', 'p1', 30) IS NOT NULL AS reversed;
SELECT pg_temp.error(format($$SELECT mortar.reverse('rev_a', %L, 'p2', 71)$$, :'c2'));
SELECT mortar.reverse('rev_a', :'c2', 'p2', 69) IS NOT NULL AS reversed;
SELECT mortar.reverse('rev_a', :'c2', 'p3') AS p3 \gset
SELECT pg_temp.rows(:'p3'), pg_temp.available('rev_a');
SELECT pg_temp.error(format($$SELECT mortar.reverse('rev_a', %L, 'p4', 1)$$, :'c2'));
-- other arguments
SELECT mortar.reverse('rev_a', :'c2', 'p1', 31);
SELECT mortar.reverse('rev_a', :'c2', 'p1');
SELECT mortar.reverse('rev_a', :'c1', 'p1', 30);
SELECT mortar.charge('rev_a', 30, 'p1');
-- what is no charge
SELECT kind, pg_temp.error(format($$SELECT mortar.reverse('rev_a', %L, 'n')$$, entry_id))
    FROM mortar.credit_ledger WHERE tenant_id = 'rev_a' AND kind IN ('grant', 'reversal') AND entry_id <> :'p3' ORDER BY entry_id LIMIT 2;
SELECT pg_temp.error(format($$SELECT mortar.reverse('rev_a', %L, 'n')$$, :'g'));
SELECT mortar.create_tenant('rev_other');
SELECT pg_temp.error(format($$SELECT mortar.reverse('rev_other', %L, 'n')$$, :'c2'));
SELECT mortar.reverse('rev_a', NULL, 'n');
SELECT mortar.reverse('rev_a', :'c2', NULL);
SELECT mortar.reverse('rev_a', :'c2', 'n', 0);
SELECT mortar.reverse('rev_a', :'c2', 'n', -1);
SELECT mortar.reverse('rev_a', :'c2', 'n', 2305843009213693952);
SELECT mortar.reverse('rev_absent', :'c2', 'n');

-- ---- of a charge that several grants paid: from the last on; any of its rows names it ----
SELECT mortar.create_tenant('rev_b');
SELECT mortar.grant_credits('rev_b', 100, 'g' || n, n) IS NOT NULL AS granted FROM generate_series(1, 3) n;
SELECT mortar.charge('rev_b', 250, 'c1') AS c1 \gset
SELECT entry_id AS last FROM mortar.credit_ledger WHERE movement_id = :'c1' ORDER BY entry_id DESC LIMIT 1 \gset
SELECT pg_temp.left_of('rev_b');
SELECT pg_temp.rows(mortar.reverse('rev_b', :'last', 'r1', 20)), pg_temp.left_of('rev_b');
SELECT pg_temp.rows(mortar.reverse('rev_b', :'c1', 'r2', 100)), pg_temp.left_of('rev_b');
SELECT pg_temp.rows(mortar.reverse('rev_b', :'last', 'r3')), pg_temp.left_of('rev_b');
SELECT pg_temp.left_of('rev_b'), pg_temp.available('rev_b');

-- ---- of a capture: what was held and what came beside it, not what was released ----
SELECT mortar.create_tenant('rev_c');
SELECT mortar.grant_credits('rev_c', 100, 'g' || n, n) IS NOT NULL AS granted FROM generate_series(1, 2) n;
SELECT mortar.hold('rev_c', 120, '1 hour', 'h1') AS h1 \gset
SELECT mortar.capture('rev_c', :'h1', 110, 'c1') AS c1 \gset
SELECT entry_id AS released FROM mortar.credit_ledger WHERE movement_id = :'c1' AND kind = 'release' \gset
SELECT pg_temp.error(format($$SELECT mortar.reverse('rev_c', %L, 'n', 111)$$, :'c1'));
SELECT pg_temp.rows(mortar.reverse('rev_c', :'released', 'r1', 15)), pg_temp.left_of('rev_c');
SELECT pg_temp.error(format($$SELECT mortar.reverse('rev_c', %L, 'n')$$, :'h1'));
SELECT mortar.hold('rev_c', 50, '1 hour', 'h2') AS h2 \gset
SELECT mortar.capture('rev_c', :'h2', 105, 'c2') AS c2 \gset
SELECT pg_temp.rows(:'c2'), pg_temp.left_of('rev_c');
SELECT pg_temp.rows(mortar.reverse('rev_c', :'c2', 'r2')), pg_temp.left_of('rev_c');

-- ---- modes: debt and nothing come back as what they were ----
SELECT mortar.create_tenant('rev_soft');
SELECT mortar.set_limit('rev_soft', 'soft');
SELECT mortar.grant_credits('rev_soft', 100, 'g') IS NOT NULL AS granted;
SELECT mortar.charge('rev_soft', 150, 'c1') AS c1 \gset
SELECT mortar.hold('rev_soft', 30, '1 hour', 'h1') AS h1 \gset
SELECT mortar.capture('rev_soft', :'h1', 40, 'k1') AS k1 \gset
SELECT pg_temp.rows(:'c1'), pg_temp.rows(:'k1'), pg_temp.available('rev_soft');
SELECT pg_temp.rows(mortar.reverse('rev_soft', :'k1', 'r1')), pg_temp.available('rev_soft');
-- a grant has repaid the debt meanwhile: it gets that back
SELECT mortar.grant_credits('rev_soft', 70, 'g2') IS NOT NULL AS granted;
SELECT pg_temp.rows(mortar.reverse('rev_soft', :'c1', 'r2', 60));
SELECT available_uc, debt_uc FROM mortar.balance('rev_soft');
SELECT pg_temp.rows(mortar.reverse('rev_soft', :'c1', 'r3')), pg_temp.available('rev_soft');
SELECT mortar.create_tenant('rev_un');
SELECT mortar.set_limit('rev_un', 'unlimited');
SELECT mortar.grant_credits('rev_un', 10, 'g') IS NOT NULL AS granted;
SELECT mortar.charge('rev_un', 500, 'c1') AS c1 \gset
SELECT mortar.hold('rev_un', 30, '1 hour', 'h1') AS h1 \gset
SELECT mortar.capture('rev_un', :'h1', 30, 'k1') AS k1 \gset
SELECT pg_temp.rows(mortar.reverse('rev_un', :'c1', 'r1', 100)), pg_temp.available('rev_un');
SELECT mortar.set_limit('rev_un', 'hard');
SELECT pg_temp.rows(mortar.reverse('rev_un', :'c1', 'r2')), pg_temp.rows(mortar.reverse('rev_un', :'k1', 'r3')), pg_temp.available('rev_un');

-- ---- what comes back to a grant that has ended is gone ----
SELECT mortar.create_tenant('rev_d');
SELECT mortar.grant_credits('rev_d', 100, 'g1', expires_at => clock_timestamp() + interval '1 second') IS NOT NULL AS granted;
SELECT mortar.grant_credits('rev_d', 100, 'g2') IS NOT NULL AS granted;
SELECT mortar.charge('rev_d', 150, 'c1') AS c1 \gset
SELECT pg_sleep(1.1) IS NULL AS slept;
SELECT pg_temp.rows(mortar.reverse('rev_d', :'c1', 'r1')), pg_temp.available('rev_d');
SELECT mortar.charge('rev_d', 101, 'c2');
SELECT mortar.charge('rev_d', 100, 'c2') IS NOT NULL AS charged;

-- ---- inside a transaction ----
SELECT mortar.create_tenant('rev_e');
SELECT mortar.grant_credits('rev_e', 100, 'g') IS NOT NULL AS granted;
SELECT mortar.charge('rev_e', 100, 'c0') AS c0 \gset
BEGIN;
SELECT mortar.reverse('rev_e', :'c0', 'r', 60) IS NOT NULL AS reversed, pg_temp.available('rev_e');
-- it may spend that itself at once, and no more
SELECT mortar.charge('rev_e', 61, 'c1', on_short => 'return') IS NULL AS short;
SELECT mortar.charge('rev_e', 40, 'c1') AS c1 \gset
SELECT mortar.record_usage('rev_e', 'requests', 5);
SELECT pg_temp.available('rev_e');
SAVEPOINT s;
SELECT mortar.hold('rev_e', 15, '1 hour', 'h') IS NOT NULL AS held, pg_temp.available('rev_e');
SELECT mortar.record_usage('rev_e', 'requests', 1);
ROLLBACK TO s;
SELECT pg_temp.available('rev_e');
-- what it charged itself it can reverse, too
SELECT mortar.reverse('rev_e', :'c1', 'r1') IS NOT NULL AS reversed, pg_temp.available('rev_e');
SELECT mortar.charge('rev_e', 55, 'c2') IS NOT NULL AS charged, pg_temp.available('rev_e');
SELECT mortar.record_usage('rev_e', 'requests', 1);
ROLLBACK;
SELECT pg_temp.available('rev_e');
BEGIN;
SELECT mortar.reverse('rev_e', :'c0', 'r', 60) IS NOT NULL AS reversed;
SELECT mortar.record_usage('rev_e', 'requests', 25);
SELECT mortar.charge('rev_e', 30, 'c3') IS NOT NULL AS charged, pg_temp.available('rev_e');
COMMIT;
SELECT pg_temp.available('rev_e');
-- a savepoint that is rolled back takes its reversal with it, and the key
BEGIN;
SAVEPOINT s;
SELECT mortar.reverse('rev_e', :'c0', 'r2') IS NOT NULL AS reversed, pg_temp.available('rev_e');
ROLLBACK TO s;
SELECT pg_temp.available('rev_e');
SELECT mortar.reverse('rev_e', :'c0', 'r2', 10) IS NOT NULL AS reversed, pg_temp.available('rev_e');
COMMIT;
SELECT pg_temp.available('rev_e');
-- granted, spent, reversed and granted to itself: all in one
BEGIN;
SELECT mortar.create_tenant('rev_own');
SELECT mortar.grant_credits('rev_own', 50, 'g') IS NOT NULL AS granted;
SELECT mortar.charge('rev_own', 50, 'c') AS c \gset
SELECT mortar.reverse('rev_own', :'c', 'r', 20) IS NOT NULL AS reversed, pg_temp.available('rev_own');
SELECT mortar.charge('rev_own', 15, 'c2') IS NOT NULL AS charged, pg_temp.available('rev_own');
COMMIT;
SELECT pg_temp.available('rev_own');
-- with an overdraft: what comes back to debt counts for its own transaction
SELECT mortar.create_tenant('rev_over');
SELECT mortar.set_limit('rev_over', 'hard', 50);
SELECT mortar.charge('rev_over', 50, 'c') AS c \gset
BEGIN;
SELECT mortar.reverse('rev_over', :'c', 'r', 20) IS NOT NULL AS reversed, pg_temp.available('rev_over');
SELECT mortar.charge('rev_over', 21, 'c2', on_short => 'return') IS NULL AS short;
SELECT mortar.charge('rev_over', 20, 'c2') IS NOT NULL AS charged, pg_temp.available('rev_over');
COMMIT;
SELECT pg_temp.available('rev_over');

-- ---- the largest amounts ----
SELECT mortar.create_tenant('rev_max');
SELECT mortar.grant_credits('rev_max', 2305843009213693951, 'g') IS NOT NULL AS granted;
SELECT mortar.charge('rev_max', 2305843009213693951, 'c') AS c \gset
SELECT mortar.reverse('rev_max', :'c', 'r1', 2305843009213693950) IS NOT NULL AS reversed;
SELECT mortar.grant_credits('rev_max', 1, 'g2') IS NOT NULL AS granted;
-- it would come to more than a balance may be
SELECT mortar.reverse('rev_max', :'c', 'r2');
SELECT mortar.charge('rev_max', 1, 'c2') IS NOT NULL AS charged;
SELECT mortar.reverse('rev_max', :'c', 'r2') IS NOT NULL AS reversed, pg_temp.available('rev_max');

-- ---- void_grant: what is neither spent nor held ----
SELECT mortar.create_tenant('rev_void');
SELECT mortar.grant_credits('rev_void', 100, 'g1', 1) AS g1 \gset
SELECT mortar.grant_credits('rev_void', 100, 'g2', 2) AS g2 \gset
SELECT mortar.charge('rev_void', 30, 'c') AS c \gset
SELECT mortar.hold('rev_void', 20, '1 hour', 'h') AS h \gset
SELECT mortar.void_grant('rev_void', :'g1', 'v1', 'chargeback "A"') AS v1 \gset
SELECT mortar.void_grant('rev_void', :'g1', 'v1', 'chargeback "A"') = :'v1' AS same_result;
SELECT pg_temp.rows(:'v1'), pg_temp.left_of('rev_void'), pg_temp.available('rev_void');
SELECT meta, grant_id = :'g1' AS of_the_grant FROM mortar.credit_ledger WHERE entry_id = :'v1';
SELECT pg_temp.error(format($$SELECT mortar.void_grant('rev_void', %L, 'v2', 'again')$$, :'g1'));
SELECT pg_temp.error($$SELECT mortar.void_grant('rev_void', '00000000-0000-7000-8000-000000000000', 'v2', 'x')$$);
SELECT pg_temp.error(format($$SELECT mortar.void_grant('rev_other', %L, 'v2', 'x')$$, :'g1'));
SELECT mortar.void_grant('rev_void', :'g1', 'v1', 'other reason');
SELECT mortar.void_grant('rev_void', :'g1', 'v2', NULL);
SELECT mortar.void_grant('rev_void', :'g1', 'v2', '');
SELECT mortar.void_grant('rev_void', NULL, 'v2', 'x');
SELECT mortar.void_grant('rev_void', :'g1', NULL, 'x');
-- what comes back to it later is there again, and can be voided again
SELECT mortar.void_hold('rev_void', :'h', 'vh') IS NOT NULL AND mortar.reverse('rev_void', :'c', 'r', 10) IS NOT NULL AS came_back;
SELECT pg_temp.left_of('rev_void'), pg_temp.available('rev_void');
SELECT pg_temp.rows(mortar.void_grant('rev_void', :'g1', 'v3', 'again'));
SELECT pg_temp.available('rev_void');
-- rolled back
BEGIN;
SELECT mortar.void_grant('rev_void', :'g2', 'v4', 'x') IS NOT NULL AS voided, pg_temp.available('rev_void');
SELECT mortar.charge('rev_void', 1, 'c2', on_short => 'return') IS NULL AS short;
ROLLBACK;
SELECT pg_temp.available('rev_void');
-- one that begins later, one that has ended, one's own
SELECT mortar.grant_credits('rev_void', 50, 'g3', effective_at => now() + interval '1 day') AS g3 \gset
SELECT pg_temp.rows(mortar.void_grant('rev_void', :'g3', 'v5', 'x'));
SELECT mortar.grant_credits('rev_void', 50, 'g4', effective_at => '2020-01-01', expires_at => '2020-01-02') AS g4 \gset
SELECT pg_temp.error(format($$SELECT mortar.void_grant('rev_void', %L, 'v6', 'x')$$, :'g4'));
BEGIN;
SELECT mortar.grant_credits('rev_void', 50, 'g5') AS g5 \gset
SELECT pg_temp.rows(mortar.void_grant('rev_void', :'g5', 'v6', 'x')), pg_temp.available('rev_void');
COMMIT;
SELECT pg_temp.available('rev_void');
-- one that has no cell in memory; it is counted once
SELECT mortar.create_tenant('rev_many');
SELECT count(mortar.grant_credits('rev_many', 10, 'g' || n, n)) FROM generate_series(1, 30) n;
SELECT grant_id AS late FROM mortar.credit_grants WHERE tenant_id = 'rev_many' AND priority = 25 \gset
SELECT pg_temp.rows(mortar.void_grant('rev_many', :'late', 'v1', 'x')), pg_temp.available('rev_many');
SELECT format('SELECT mortar.charge(%L, 29, %L) IS NOT NULL AS charged', 'rev_many', 'c' || n) FROM generate_series(1, 10) n \gexec
SELECT mortar.charge('rev_many', 1, 'd');
SELECT pg_temp.available('rev_many'), (SELECT sum(remaining_uc) FROM mortar.grants WHERE tenant_id = 'rev_many');

-- ---- nobody but an admin; not of a closed tenant ----
SELECT mortar.create_key('rev_a', 'k') AS key_a \gset
\c - regress_app
BEGIN;
SELECT mortar.login(:'key_a');
SAVEPOINT s;
SELECT mortar.reverse('rev_a', :'c2', 'by tenant');
ROLLBACK TO s;
SELECT mortar.void_grant('rev_a', :'g', 'by tenant', 'x');
ROLLBACK;
\c - regress_admin
SELECT mortar.suspend_tenant('rev_b', 'test');
SELECT grant_id AS g1 FROM mortar.credit_grants WHERE tenant_id = 'rev_b' AND priority = 1 \gset
SELECT mortar.void_grant('rev_b', :'g1', 'v1', 'fraud') IS NOT NULL AS voided;
SELECT mortar.close_tenant('rev_b');
SELECT mortar.void_grant('rev_b', :'g1', 'v2', 'fraud');
SELECT mortar.reverse('rev_b', (SELECT entry_id FROM mortar.credit_ledger WHERE tenant_id = 'rev_b' AND kind = 'charge' LIMIT 1), 'v2');

DO $$BEGIN
    FOR i IN 1 .. 3000 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM mortar.cells WHERE unflushed_uc <> 0);
        PERFORM pg_sleep(0.01);
        COMMIT;
    END LOOP;
END$$;
SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok;
SELECT mortar.set_price('requests', 0, 1) IS NOT NULL AS free;
\c - :super
DROP OWNED BY regress_admin, regress_app;
DROP ROLE regress_admin, regress_app;
