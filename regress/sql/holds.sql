-- Holds: credits that are set aside, and then captured, voided, or free by
-- themselves.  The balance moves once, whatever is tried again.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin, regress_app;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
CREATE ROLE regress_app LOGIN IN ROLE mortar_tenant;
\c - regress_admin
SET client_min_messages = warning;
SELECT mortar.set_price('requests', 1, 1) IS NOT NULL AS priced;
SELECT mortar.set_price('egress_bytes', 0, 1) IS NOT NULL AS free;
CREATE FUNCTION pg_temp.balance(tenant text, OUT available int8, OUT held int8) LANGUAGE sql
    AS 'SELECT available_uc, held_uc FROM mortar.balance(tenant)';
-- the rows of a movement, first to last
CREATE FUNCTION pg_temp.rows(movement uuid) RETURNS text LANGUAGE sql AS
    $$SELECT string_agg(format('%s %s>%s %s', kind, from_account, to_account, amount_uc), ', ' ORDER BY entry_id)
        FROM mortar.credit_ledger WHERE movement_id = movement$$;
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
CREATE FUNCTION pg_temp.counts(tenant text, OUT entries int8, OUT holds int8, OUT keys int8) LANGUAGE sql AS
    $$SELECT (SELECT count(*) FROM mortar.credit_ledger WHERE tenant_id = tenant),
        (SELECT count(*) FROM mortar.credit_holds WHERE tenant_id = tenant),
        (SELECT count(*) FROM mortar.idempotency WHERE tenant_id = tenant)$$;

-- ---- 5000 is enough for five holds of 1000, and the sixth is refused at once ----
SELECT mortar.create_tenant('hol_a');
SELECT mortar.grant_credits('hol_a', 5000, 'g') IS NOT NULL AS granted;
SELECT count(DISTINCT mortar.hold('hol_a', 1000, '1 hour', 'h' || n)) AS holds FROM generate_series(1, 5) n;
SELECT * FROM pg_temp.balance('hol_a');
SELECT pg_temp.error($$SELECT mortar.hold('hol_a', 1000, '1 hour', 'h6')$$);
SELECT mortar.hold('hol_a', 1, '1 hour', 'h7');
SELECT mortar.charge('hol_a', 1, 'c1');
SELECT mortar.record_usage('hol_a', 'requests', 1);
SELECT * FROM pg_temp.balance('hol_a'), pg_temp.counts('hol_a');
-- what was refused has not burnt its key
SELECT mortar.grant_credits('hol_a', 1000, 'g2') IS NOT NULL AS topped_up;
SELECT mortar.hold('hol_a', 1000, '1 hour', 'h6') IS NOT NULL AS held;
SELECT count(*), sum(held) FROM mortar.open_holds WHERE tenant_id = 'hol_a';

-- ---- capture, twice by the same key, and void after it ----
SELECT mortar.create_tenant('hol_b');
SELECT mortar.grant_credits('hol_b', 1000, 'g') IS NOT NULL AS granted;
SELECT mortar.hold('hol_b', 400, '1 hour', 'h1', '{"order": 1}') AS h1 \gset
SELECT mortar.hold('hol_b', 400, '1 hour', 'h1', '{"order": 1}') = :'h1' AS same_result;
SELECT mortar.hold('hol_b', 400, '60 minutes', 'h1', '{ "order":1 }') = :'h1' AS same_meaning;
SELECT pg_temp.rows(:'h1'), * FROM pg_temp.balance('hol_b');
SELECT held, meta, expires_at BETWEEN now() + interval '59 minutes' AND now() + interval '61 minutes' AS in_an_hour
    FROM mortar.open_holds WHERE tenant_id = 'hol_b';
SELECT mortar.capture('hol_b', :'h1', 400, 'k') AS c1 \gset
SELECT * FROM pg_temp.balance('hol_b');
SELECT mortar.capture('hol_b', :'h1', 400, 'k') = :'c1' AS same_result, pg_temp.rows(:'c1');
SELECT pg_temp.error(format($$SELECT mortar.capture('hol_b', %L, 400, 'k2')$$, :'h1'));
SELECT pg_temp.error(format($$SELECT mortar.void_hold('hol_b', %L, 'k2')$$, :'h1'));
SELECT * FROM pg_temp.balance('hol_b');
SELECT count(*) FROM mortar.open_holds WHERE tenant_id = 'hol_b';
-- a hold that was refused, or never was, or is another tenant's, is no hold
SELECT pg_temp.error($$SELECT mortar.capture('hol_b', '00000000-0000-7000-8000-000000000000', 1, 'k2')$$);
SELECT mortar.create_tenant('hol_other');
SELECT pg_temp.error(format($$SELECT mortar.void_hold('hol_other', %L, 'k2')$$, :'h1'));
-- nor is a charge
SELECT mortar.charge('hol_b', 1, 'c') AS c \gset
SELECT pg_temp.error(format($$SELECT mortar.void_hold('hol_b', %L, 'k2')$$, :'c'));

-- ---- void ----
SELECT mortar.hold('hol_b', 300, '1 hour', 'h2') AS h2 \gset
SELECT mortar.void_hold('hol_b', :'h2', 'v') AS v \gset
SELECT mortar.void_hold('hol_b', :'h2', 'v') = :'v' AS same_result, pg_temp.rows(:'v'), * FROM pg_temp.balance('hol_b');
SELECT pg_temp.error(format($$SELECT mortar.void_hold('hol_b', %L, 'v2')$$, :'h2'));
SELECT pg_temp.error(format($$SELECT mortar.capture('hol_b', %L, 1, 'v2')$$, :'h2'));

-- ---- less than the hold: the rest is free again ----
SELECT mortar.hold('hol_b', 300, '1 hour', 'h3') AS h3 \gset
SELECT pg_temp.rows(mortar.capture('hol_b', :'h3', 1, 'c3'));
SELECT * FROM pg_temp.balance('hol_b');
SELECT pg_temp.error(format($$SELECT mortar.capture('hol_b', %L, 1, 'c3b')$$, :'h3'));
-- more than the hold: the excess comes from what is available, or nothing happens
SELECT mortar.hold('hol_b', 300, '1 hour', 'h4') AS h4 \gset
SELECT * FROM pg_temp.balance('hol_b'), pg_temp.counts('hol_b');
SELECT pg_temp.error(format($$SELECT mortar.capture('hol_b', %L, 599, 'c4')$$, :'h4'));
SELECT * FROM pg_temp.balance('hol_b'), pg_temp.counts('hol_b');
SELECT pg_temp.rows(mortar.capture('hol_b', :'h4', 598, 'c4'));
SELECT * FROM pg_temp.balance('hol_b');

-- ---- which grants: used up from the first on, given back from the last on ----
SELECT mortar.create_tenant('hol_c');
SELECT mortar.grant_credits('hol_c', 100, 'g' || n, n) IS NOT NULL AS granted FROM generate_series(1, 3) n;
CREATE FUNCTION pg_temp.left_of(tenant text) RETURNS text LANGUAGE sql AS
    $$SELECT string_agg(format('%s: %s', priority, remaining_uc), ', ' ORDER BY priority)
        FROM mortar.grants WHERE tenant_id = tenant$$;
SELECT mortar.hold('hol_c', 250, '1 hour', 'h1') AS h1 \gset
SELECT pg_temp.rows(:'h1'), pg_temp.left_of('hol_c');
SELECT mortar.capture('hol_c', :'h1', 120, 'c1') AS c1 \gset
SELECT pg_temp.rows(:'c1'), pg_temp.left_of('hol_c');
SELECT mortar.hold('hol_c', 100, '1 hour', 'h2') AS h2 \gset
SELECT pg_temp.rows(mortar.capture('hol_c', :'h2', 180, 'c2')), pg_temp.left_of('hol_c');

-- ---- more grants than memory has cells for ----
SELECT mortar.create_tenant('hol_many');
SELECT count(mortar.grant_credits('hol_many', 10, 'g' || n, n)) FROM generate_series(1, 40) n;
SELECT mortar.hold('hol_many', 75, '1 hour', 'h1') AS h1 \gset
-- one transaction spends of eight grants at most
SELECT format('SELECT mortar.charge(%L, 40, %L) IS NOT NULL AS charged', 'hol_many', 'c' || n) FROM generate_series(1, 7) n \gexec
SELECT * FROM pg_temp.balance('hol_many');
SELECT mortar.capture('hol_many', :'h1', 5, 'k') IS NOT NULL AS captured;
SELECT * FROM pg_temp.balance('hol_many');
SELECT sum(remaining_uc) FILTER (WHERE priority <= 8) AS of_the_hold, sum(remaining_uc) FROM mortar.grants WHERE tenant_id = 'hol_many';
SELECT format('SELECT mortar.charge(%L, 23, %L) IS NOT NULL AS charged', 'hol_many', 'd' || n) FROM generate_series(1, 5) n \gexec
SELECT * FROM pg_temp.balance('hol_many');

-- ---- expiry: nobody has to do anything for it ----
SELECT mortar.create_tenant('hol_d');
SELECT mortar.grant_credits('hol_d', 1000, 'g') IS NOT NULL AS granted;
SELECT mortar.hold('hol_d', 600, '2 seconds', 'h1') AS h1 \gset
SELECT mortar.hold('hol_d', 300, '1 hour', 'h2') AS h2 \gset
SELECT * FROM pg_temp.balance('hol_d');
SELECT mortar.charge('hol_d', 101, 'c1', on_short => 'return') IS NULL AS short;
SELECT pg_sleep(2.1) IS NULL AS slept;
SELECT count(*) FROM mortar.open_holds WHERE tenant_id = 'hol_d';
SELECT * FROM pg_temp.balance('hol_d'), pg_temp.counts('hol_d');
SELECT pg_temp.error(format($$SELECT mortar.capture('hol_d', %L, 1, 'k')$$, :'h1'));
SELECT pg_temp.error(format($$SELECT mortar.void_hold('hol_d', %L, 'k')$$, :'h1'));
-- a charge that has enough without it leaves it alone, one that has not releases it
SELECT mortar.charge('hol_d', 100, 'c1') IS NOT NULL AS charged;
SELECT * FROM pg_temp.balance('hol_d'), pg_temp.counts('hol_d');
-- not if that would not do either; but it is told what there is
SELECT pg_temp.error($$SELECT mortar.charge('hol_d', 601, 'c2')$$);
SELECT mortar.charge('hol_d', 601, 'c2', on_short => 'return') IS NULL AS short;
SELECT * FROM pg_temp.balance('hol_d'), pg_temp.counts('hol_d');
BEGIN;
SELECT pg_temp.rows(mortar.charge('hol_d', 600, 'c2'));
SELECT * FROM pg_temp.balance('hol_d'), pg_temp.counts('hol_d');
ROLLBACK;
SELECT * FROM pg_temp.balance('hol_d'), pg_temp.counts('hol_d');
SELECT pg_temp.rows(mortar.charge('hol_d', 500, 'c2'));
SELECT * FROM pg_temp.balance('hol_d'), pg_temp.counts('hol_d');
SELECT kind, amount_uc, meta FROM mortar.credit_ledger WHERE tenant_id = 'hol_d' AND reverses = :'h1';
SELECT pg_temp.error(format($$SELECT mortar.void_hold('hol_d', %L, 'k')$$, :'h1'));
SELECT mortar.capture('hol_d', :'h2', 400, 'k') IS NOT NULL AS captured;
SELECT * FROM pg_temp.balance('hol_d');
-- usage, a capture and a hold are let in likewise
SELECT mortar.create_tenant('hol_e');
SELECT mortar.grant_credits('hol_e', 90, 'g') IS NOT NULL AS granted;
SELECT mortar.hold('hol_e', 30, '1 millisecond', 'h' || n) IS NOT NULL AS held FROM generate_series(1, 3) n;
SELECT pg_sleep(0.01) IS NULL AS slept;
SELECT mortar.record_usage('hol_e', 'requests', 31);
SELECT count(*) FROM mortar.credit_ledger WHERE tenant_id = 'hol_e' AND kind = 'release';
SELECT mortar.hold('hol_e', 59, '1 hour', 'h') AS h \gset
SELECT * FROM pg_temp.balance('hol_e');
SELECT mortar.hold('hol_e', 1, '1 hour', 'i');
SELECT mortar.void_hold('hol_e', :'h', 'v') IS NOT NULL AS voided;
SELECT mortar.hold('hol_e', 50, '1 millisecond', 'j') IS NOT NULL AS held;
SELECT mortar.hold('hol_e', 5, '1 hour', 'k') AS k \gset
SELECT pg_sleep(0.01) IS NULL AS slept;
SELECT pg_temp.rows(mortar.capture('hol_e', :'k', 59, 'l'));
SELECT * FROM pg_temp.balance('hol_e');
-- in one transaction, too
BEGIN;
SELECT mortar.grant_credits('hol_e', 10, 'own') IS NOT NULL AS granted;
SELECT mortar.hold('hol_e', 10, '1 millisecond', 'own hold') IS NOT NULL AS held;
SELECT pg_sleep(0.01) IS NULL AS slept;
SELECT * FROM pg_temp.balance('hol_e');
SELECT pg_temp.rows(mortar.charge('hol_e', 10, 'own charge'));
SELECT * FROM pg_temp.balance('hol_e');
COMMIT;
SELECT * FROM pg_temp.balance('hol_e');
-- a read-only transaction releases nothing, and still sees it
SELECT mortar.grant_credits('hol_e', 10, 'ro') IS NOT NULL AS granted;
SELECT mortar.hold('hol_e', 10, '1 millisecond', 'ro hold') IS NOT NULL AS held;
SELECT pg_sleep(0.01) IS NULL AS slept;
BEGIN READ ONLY;
SELECT * FROM pg_temp.balance('hol_e');
SELECT mortar.record_usage('hol_e', 'requests', 1);
ROLLBACK;
-- credits of a grant that has ended meanwhile are gone, when a hold is voided or expires
SELECT mortar.create_tenant('hol_f');
SELECT mortar.grant_credits('hol_f', 100, 'g1', expires_at => clock_timestamp() + interval '2 seconds') IS NOT NULL AS granted;
SELECT mortar.hold('hol_f', 40, '1 hour', 'h1') AS h1 \gset
SELECT mortar.hold('hol_f', 30, '1 millisecond', 'h2') AS h2 \gset
SELECT mortar.grant_credits('hol_f', 5, 'g2') IS NOT NULL AS granted;
SELECT pg_sleep(2.1) IS NULL AS slept;
SELECT * FROM pg_temp.balance('hol_f');
SELECT pg_temp.rows(mortar.void_hold('hol_f', :'h1', 'v'));
SELECT * FROM pg_temp.balance('hol_f');
SELECT mortar.charge('hol_f', 6, 'c');
-- but what is captured was held when it was in force
SELECT mortar.create_tenant('hol_g');
SELECT mortar.grant_credits('hol_g', 100, 'g1', expires_at => clock_timestamp() + interval '1 second') IS NOT NULL AS granted;
SELECT mortar.hold('hol_g', 100, '1 hour', 'h1') AS h1 \gset
SELECT pg_sleep(1.1) IS NULL AS slept;
SELECT pg_temp.rows(mortar.capture('hol_g', :'h1', 60, 'c'));
SELECT * FROM pg_temp.balance('hol_g');

-- ---- rollback and savepoints ----
SELECT mortar.create_tenant('hol_h');
SELECT mortar.grant_credits('hol_h', 1000, 'g') IS NOT NULL AS granted;
SELECT mortar.hold('hol_h', 300, '1 hour', 'h0') AS h0 \gset
BEGIN;
SELECT mortar.hold('hol_h', 100, '1 hour', 'h1') IS NOT NULL AS held;
-- holds, then charges; both count at once
SELECT mortar.charge('hol_h', 600, 'c1') IS NOT NULL AS charged, * FROM pg_temp.balance('hol_h');
SELECT mortar.charge('hol_h', 1, 'c2', on_short => 'return') IS NULL AS short;
SAVEPOINT s;
SELECT mortar.capture('hol_h', :'h0', 100, 'k0') IS NOT NULL AS captured;
-- the rest may be spent by its own transaction at once
SELECT * FROM pg_temp.balance('hol_h');
SAVEPOINT s2;
SELECT pg_temp.rows(mortar.charge('hol_h', 200, 'c2'));
SELECT mortar.charge('hol_h', 1, 'c3', on_short => 'return') IS NULL AS short;
SELECT * FROM pg_temp.balance('hol_h');
ROLLBACK TO s2;
SELECT * FROM pg_temp.balance('hol_h');
SELECT mortar.record_usage('hol_h', 'requests', 150);
SELECT * FROM pg_temp.balance('hol_h');
ROLLBACK TO s;
SELECT * FROM pg_temp.balance('hol_h');
SELECT mortar.void_hold('hol_h', :'h0', 'k0') IS NOT NULL AS voided;
SELECT * FROM pg_temp.balance('hol_h');
SELECT mortar.hold('hol_h', 250, '1 hour', 'h2') IS NOT NULL AS held;
SELECT * FROM pg_temp.balance('hol_h');
ROLLBACK;
SELECT * FROM pg_temp.balance('hol_h'), pg_temp.counts('hol_h');
BEGIN;
SELECT mortar.void_hold('hol_h', :'h0', 'k0') IS NOT NULL AS voided;
SELECT mortar.hold('hol_h', 900, '1 hour', 'h3') AS h3 \gset
SELECT mortar.record_usage('hol_h', 'requests', 60);
SELECT * FROM pg_temp.balance('hol_h');
COMMIT;
SELECT * FROM pg_temp.balance('hol_h'), pg_temp.counts('hol_h');
SELECT pg_temp.rows(:'h3');
-- what a block of PL/pgSQL catches did not happen
DO $$
BEGIN
    PERFORM mortar.hold('hol_h', 40, '1 hour', 'caught');
    RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN NULL;
END $$;
SELECT * FROM pg_temp.balance('hol_h');
-- PREPARE is refused
BEGIN;
SELECT mortar.void_hold('hol_h', :'h3', 'p') IS NOT NULL AS voided;
PREPARE TRANSACTION 'mortar_hold';
SELECT * FROM pg_temp.balance('hol_h');

-- ---- modes ----
-- soft: what is missing is debt, and comes back as such
SELECT mortar.create_tenant('hol_soft');
SELECT mortar.set_limit('hol_soft', 'soft');
SELECT mortar.grant_credits('hol_soft', 100, 'g') IS NOT NULL AS granted;
SELECT mortar.hold('hol_soft', 150, '1 hour', 'h1') AS h1 \gset
SELECT pg_temp.rows(:'h1'), * FROM pg_temp.balance('hol_soft');
SELECT pg_temp.rows(mortar.capture('hol_soft', :'h1', 120, 'c1'));
SELECT available_uc, held_uc, debt_uc FROM mortar.balance('hol_soft');
SELECT mortar.hold('hol_soft', 10, '1 hour', 'h2') AS h2 \gset
SELECT pg_temp.rows(mortar.capture('hol_soft', :'h2', 25, 'c2'));
SELECT available_uc, held_uc, debt_uc FROM mortar.balance('hol_soft');
-- a grant that has come meanwhile repaid it, and gets it back
SELECT mortar.hold('hol_soft', 50, '1 hour', 'h3') AS h3 \gset
SELECT mortar.grant_credits('hol_soft', 200, 'g2') IS NOT NULL AS granted;
SELECT available_uc, held_uc, debt_uc FROM mortar.balance('hol_soft');
SELECT pg_temp.rows(mortar.void_hold('hol_soft', :'h3', 'v3'));
SELECT available_uc, held_uc, debt_uc FROM mortar.balance('hol_soft');
-- an expired hold pays before debt does
SELECT mortar.hold('hol_soft', 155, '1 millisecond', 'h4') IS NOT NULL AS held;
SELECT pg_sleep(0.01) IS NULL AS slept;
SELECT pg_temp.rows(mortar.charge('hol_soft', 100, 'c4'));
SELECT mortar.record_usage('hol_soft', 'requests', 50);
SELECT pg_temp.rows(mortar.charge('hol_soft', 6, 'c5'));
SELECT available_uc, held_uc, debt_uc FROM mortar.balance('hol_soft');
-- for usage, too, whose cost is more than what is left
SELECT mortar.create_tenant('hol_use');
SELECT mortar.set_limit('hol_use', 'soft');
SELECT mortar.grant_credits('hol_use', 100, 'g') IS NOT NULL AS granted;
SELECT mortar.hold('hol_use', 99, '1 millisecond', 'h') IS NOT NULL AS held;
SELECT pg_sleep(0.01) IS NULL AS slept;
SELECT mortar.record_usage('hol_use', 'requests', 40);
SELECT available_uc, held_uc, debt_uc FROM mortar.slots WHERE tenant_id = 'hol_use';
-- hard with an overdraft: at, below and above it
SELECT mortar.create_tenant('hol_over');
SELECT mortar.set_limit('hol_over', 'hard', 50);
SELECT mortar.grant_credits('hol_over', 100, 'g') IS NOT NULL AS granted;
SELECT pg_temp.error($$SELECT mortar.hold('hol_over', 151, '1 hour', 'h')$$);
SELECT pg_temp.rows(mortar.hold('hol_over', 149, '1 hour', 'h'));
SELECT mortar.hold('hol_over', 2, '1 hour', 'i');
SELECT mortar.hold('hol_over', 1, '1 hour', 'i') AS i \gset
SELECT available_uc, held_uc, debt_uc FROM mortar.balance('hol_over');
SELECT mortar.capture('hol_over', :'i', 2, 'c');
SELECT mortar.void_hold('hol_over', :'i', 'v') IS NOT NULL AS voided;
SELECT available_uc, held_uc, debt_uc FROM mortar.balance('hol_over');
-- unlimited: counted, and no credit moves
SELECT mortar.create_tenant('hol_un');
SELECT mortar.set_limit('hol_un', 'unlimited');
SELECT mortar.grant_credits('hol_un', 10, 'g') IS NOT NULL AS granted;
SELECT mortar.hold('hol_un', 500, '1 hour', 'h1') AS h1 \gset
SELECT pg_temp.rows(:'h1'), * FROM pg_temp.balance('hol_un');
SELECT pg_temp.rows(mortar.capture('hol_un', :'h1', 600, 'c1'));
SELECT * FROM pg_temp.balance('hol_un');
SELECT mortar.hold('hol_un', 500, '1 hour', 'h2') AS h2 \gset
SELECT mortar.set_limit('hol_un', 'hard');
SELECT mortar.hold('hol_un', 11, '1 hour', 'h3');
SELECT pg_temp.rows(mortar.capture('hol_un', :'h2', 100, 'c2'));
SELECT * FROM pg_temp.balance('hol_un');

-- ---- arguments: at, below and above the limits ----
SELECT mortar.create_tenant('hol_max');
SELECT mortar.grant_credits('hol_max', 2305843009213693951, 'g') IS NOT NULL AS granted;
SELECT mortar.hold('hol_max', 0, '1 hour', 'k');
SELECT mortar.hold('hol_max', -1, '1 hour', 'k');
SELECT mortar.hold('hol_max', NULL, '1 hour', 'k');
SELECT mortar.hold('hol_max', 2305843009213693952, '1 hour', 'k');
SELECT mortar.hold('hol_max', 9223372036854775807, '1 hour', 'k');
SELECT mortar.hold('hol_max', 1, NULL, 'k');
SELECT mortar.hold('hol_max', 1, '0', 'k');
SELECT mortar.hold('hol_max', 1, '-1 second', 'k');
SELECT mortar.hold('hol_max', 1, '366 days 1 microsecond', 'k');
SELECT mortar.hold('hol_max', 1, '13 months', 'k');
SELECT mortar.hold('hol_max', 1, '1000000 years', 'k');
SELECT mortar.hold('hol_max', 1, '1 hour', NULL);
SELECT mortar.hold('hol_max', 1, '1 hour', '');
SELECT mortar.hold('hol_absent', 1, '1 hour', 'k');
SELECT mortar.hold(NULL, 1, '1 hour', 'k');
SELECT mortar.hold('hol_max', 1, '366 days', 'k1', NULL) IS NOT NULL AND mortar.hold('hol_max', 1, '1 microsecond', 'k2') IS NOT NULL AS at_limits;
SELECT meta FROM mortar.credit_holds WHERE tenant_id = 'hol_max' AND hold_id = (SELECT result FROM mortar.idempotency WHERE tenant_id = 'hol_max' AND key = 'k1');
-- the largest hold, of all there is
SELECT mortar.hold('hol_max', 2305843009213693949, '1 hour', 'most') AS m \gset
SELECT * FROM pg_temp.balance('hol_max');
SELECT mortar.grant_credits('hol_max', 5, 'g2') IS NOT NULL AS granted;
-- as much may be held and no more
SELECT mortar.hold('hol_max', 2, '1 hour', 'over');
SELECT mortar.capture('hol_max', :'m', 2305843009213693952, 'c');
SELECT mortar.capture('hol_max', :'m', 0, 'c');
SELECT mortar.capture('hol_max', :'m', NULL, 'c');
SELECT mortar.capture('hol_max', NULL, 1, 'c');
SELECT mortar.void_hold('hol_max', NULL, 'c');
SELECT mortar.capture('hol_max', :'m', 1, NULL);
SELECT mortar.capture('hol_max', :'m', 2305843009213693951, 'c') IS NOT NULL AS captured;
SELECT * FROM pg_temp.balance('hol_max');
-- what a hold gives back may not pass the limit, together with what has come since
SELECT mortar.create_tenant('hol_full');
SELECT mortar.grant_credits('hol_full', 2305843009213693951, 'g') IS NOT NULL AS granted;
SELECT mortar.hold('hol_full', 2305843009213693951, '1 hour', 'all') AS a \gset
SELECT mortar.grant_credits('hol_full', 2305843009213693951, 'g2') IS NOT NULL AS granted;
SELECT mortar.void_hold('hol_full', :'a', 'v');
SELECT mortar.charge('hol_full', 2305843009213693951, 'c') IS NOT NULL AS charged;
SELECT mortar.void_hold('hol_full', :'a', 'v') IS NOT NULL AS voided;
SELECT * FROM pg_temp.balance('hol_full');

-- ---- a key that was used for something else ----
SELECT mortar.grant_credits('hol_b', 100, 'g2') IS NOT NULL AS granted;
SELECT mortar.hold('hol_b', 1, '1 hour', 'idem') AS i \gset
SELECT mortar.hold('hol_b', 2, '1 hour', 'idem');
SELECT mortar.hold('hol_b', 1, '2 hours', 'idem');
SELECT mortar.hold('hol_b', 1, '1 hour', 'idem', '{"a": 1}');
SELECT mortar.charge('hol_b', 1, 'idem');
SELECT mortar.void_hold('hol_b', :'i', 'idem');
SELECT mortar.capture('hol_b', :'i', 1, 'idem2') IS NOT NULL AS captured;
SELECT mortar.capture('hol_b', :'i', 2, 'idem2');
SELECT mortar.capture('hol_b', :'h1', 1, 'idem2');
SELECT mortar.void_hold('hol_b', :'i', 'idem2');

-- ---- nobody but an admin ----
SELECT mortar.create_key('hol_b', 'k') AS key_b \gset
\c - regress_app
BEGIN;
SELECT mortar.login(:'key_b');
SAVEPOINT s;
SELECT mortar.hold('hol_b', 1, '1 hour', 'by tenant');
ROLLBACK TO s;
SELECT mortar.capture('hol_b', '00000000-0000-7000-8000-000000000000', 1, 'by tenant');
ROLLBACK TO s;
SELECT mortar.void_hold('hol_b', '00000000-0000-7000-8000-000000000000', 'by tenant');
ROLLBACK TO s;
SELECT held_uc FROM mortar.balance('hol_b');
COMMIT;
\c - regress_admin
-- a closed tenant's holds stay as they are, a suspended one's go on
SELECT mortar.hold('hol_b', 1, '1 hour', 'z') AS z \gset
SELECT mortar.hold('hol_b', 1, '1 hour', 'y') AS y \gset
SELECT mortar.suspend_tenant('hol_b', 'test');
SELECT mortar.void_hold('hol_b', :'z', 'zz') IS NOT NULL AS voided;
SELECT mortar.close_tenant('hol_b');
SELECT mortar.void_hold('hol_b', :'y', 'yy');
SELECT mortar.capture('hol_b', :'y', 1, 'yy');
SELECT mortar.hold('hol_b', 1, '1 hour', 'yy');
-- but what was done is told again
SELECT mortar.void_hold('hol_b', :'z', 'zz') IS NOT NULL AS replayed;

-- ---- one that expires while it is captured does not pay for its own capture ----
SELECT mortar.create_tenant('hol_w');
SELECT mortar.grant_credits('hol_w', 200, 'g') IS NOT NULL AS granted;
SELECT mortar.hold('hol_w', 50, '2 seconds', 'b') AS b \gset
SELECT mortar.hold('hol_w', 100, '1 millisecond', 'a') AS a \gset
SELECT pg_sleep(0.01) IS NULL AS slept;
\c - :super
-- the release of a takes until b has expired, and what it brings is spent meanwhile
CREATE FUNCTION regress_slow() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$BEGIN
    PERFORM pg_sleep(extract(epoch FROM max(expires_at) - clock_timestamp()) + 0.01) FROM mortar.credit_holds WHERE tenant_id = 'hol_w';
    PERFORM mortar.charge('hol_w', 100, 'meanwhile');
    RETURN NEW;
END$$;
CREATE TRIGGER regress_slow BEFORE INSERT ON mortar.credit_ledger FOR EACH ROW
    WHEN (NEW.kind = 'release') EXECUTE FUNCTION regress_slow();
SELECT mortar.capture('hol_w', :'b', 110, 'c');
DROP TRIGGER regress_slow ON mortar.credit_ledger;
DROP FUNCTION regress_slow;
\c - regress_admin
SELECT available_uc, held_uc FROM mortar.balance('hol_w');
SELECT mortar.capture('hol_w', :'b', 50, 'd');
SELECT mortar.charge('hol_w', 200, 'e') IS NOT NULL AS all_of_it;

-- all tenants, in credits
SELECT tenant_id, available, held, debt, state FROM mortar.balances WHERE tenant_id LIKE 'hol\_%' ORDER BY 1;
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
