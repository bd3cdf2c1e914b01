-- Modes and overdraft: what a tenant may spend beyond its credits, who repays it,
-- and that tables say so.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
\c - regress_admin
SET client_min_messages = warning;
SELECT mortar.set_price('requests', 1, 1) IS NOT NULL AS priced;
SELECT mortar.set_price('egress_bytes', 0, 1) IS NOT NULL AS free;
CREATE PROCEDURE pg_temp.flushed(tenant text) LANGUAGE plpgsql AS $$BEGIN
    FOR i IN 1 .. 3000 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM mortar.cells c WHERE c.tenant_id = tenant AND c.unflushed_uc <> 0)
            AND (SELECT unflushed_uc = 0 FROM mortar.balance(tenant));
        PERFORM pg_sleep(0.01);
        COMMIT;
    END LOOP;
END$$;
CREATE FUNCTION pg_temp.paid(entry uuid) RETURNS text LANGUAGE sql AS
    $$SELECT string_agg(format('%s %s', l.from_account, l.amount_uc), ', ' ORDER BY l.entry_id)
        FROM mortar.credit_ledger l WHERE l.movement_id = entry$$;
\set balance 'SELECT available_uc, debt_uc, held_uc FROM mortar.balance'
\set burned 'SELECT from_account, sum(amount_uc) AS uc FROM mortar.credit_burns WHERE tenant_id ='
\set by_account 'GROUP BY from_account ORDER BY from_account'

-- ---- hard, with an overdraft: at, below and above the floor ----
SELECT mortar.create_tenant('deb_a');
SELECT mortar.set_limit('deb_a', 'hard', 50);
SELECT mortar.grant_credits('deb_a', 100, 'g1') IS NOT NULL AS granted;
SELECT mortar.charge('deb_a', 151, 'c1');
SELECT pg_temp.paid(mortar.charge('deb_a', 149, 'c2'));
:balance('deb_a');
SELECT mortar.charge('deb_a', 2, 'c3');
SELECT pg_temp.paid(mortar.charge('deb_a', 1, 'c4'));
SELECT mortar.charge('deb_a', 1, 'c5');
SELECT mortar.record_usage('deb_a', 'requests', 1);
:balance('deb_a');
-- a grant repays debt before anything can be spent of it
SELECT mortar.grant_credits('deb_a', 20, 'g2') IS NOT NULL AS granted;
:balance('deb_a');
SELECT mortar.grant_credits('deb_a', 100, 'g3') IS NOT NULL AS granted;
:balance('deb_a');
CALL pg_temp.flushed('deb_a');
:burned 'deb_a' :by_account;
SELECT remaining_uc FROM mortar.grants WHERE tenant_id = 'deb_a' ORDER BY grant_id;
-- an overdraft that is taken away lets what was spent be, and nothing more
SELECT mortar.charge('deb_a', 100, 'c6') IS NOT NULL AS charged;
SELECT mortar.set_limit('deb_a', 'hard', 0);
:balance('deb_a');
SELECT mortar.charge('deb_a', 1, 'c7');
SELECT mortar.grant_credits('deb_a', 41, 'g4') IS NOT NULL AS granted;
SELECT pg_temp.paid(mortar.charge('deb_a', 1, 'c7'));
-- a limit holds for its own transaction at once, with its savepoints
BEGIN;
SELECT mortar.set_limit('deb_a', 'hard', 10);
SELECT pg_temp.paid(mortar.charge('deb_a', 6, 'c8'));
SAVEPOINT one;
SELECT mortar.set_limit('deb_a', 'hard', 20);
SELECT pg_temp.paid(mortar.charge('deb_a', 14, 'c9'));
ROLLBACK TO one;
SELECT mortar.charge('deb_a', 15, 'c9', on_short => 'return');
SELECT pg_temp.paid(mortar.charge('deb_a', 14, 'c9'));
ROLLBACK;
:balance('deb_a');
SELECT mortar.charge('deb_a', 11, 'c8');

-- ---- soft: always served ----
SELECT mortar.create_tenant('deb_b');
SELECT mortar.set_limit('deb_b', 'soft');
SELECT mortar.record_usage('deb_b', 'requests', 30);
SELECT mortar.grant_credits('deb_b', 50, 'g1') IS NOT NULL AS granted;
SELECT mortar.record_usage('deb_b', 'requests', 30);
SELECT pg_temp.paid(mortar.charge('deb_b', 7, 'c1'));
:balance('deb_b');
CALL pg_temp.flushed('deb_b');
:burned 'deb_b' :by_account;
-- undone: debt goes first; a grant that came meanwhile has it back
BEGIN;
SELECT mortar.record_usage('deb_b', 'requests', 5);
SELECT pg_temp.paid(mortar.charge('deb_b', 5, 'c2'));
:balance('deb_b');
ROLLBACK;
:balance('deb_b');
BEGIN;
SELECT mortar.charge('deb_b', 10, 'c2') IS NOT NULL AS charged;
SELECT mortar.grant_credits('deb_b', 100, 'g2') IS NOT NULL AS granted;
SELECT pg_temp.paid(mortar.charge('deb_b', 10, 'c3'));
COMMIT;
:balance('deb_b');
CALL pg_temp.flushed('deb_b');
:burned 'deb_b' :by_account;
SELECT sum(remaining_uc) FROM mortar.grants WHERE tenant_id = 'deb_b';

-- ---- unlimited: counted, and no credit moves ----
SELECT mortar.create_tenant('deb_c');
SELECT mortar.grant_credits('deb_c', 10, 'g1') IS NOT NULL AS granted;
SELECT mortar.set_limit('deb_c', 'unlimited');
SELECT mortar.record_usage('deb_c', 'requests', 30);
SELECT pg_temp.paid(mortar.charge('deb_c', 7, 'c1'));
BEGIN;
SELECT mortar.record_usage('deb_c', 'requests', 30);
SELECT mortar.charge('deb_c', 7, 'c2') IS NOT NULL AS charged;
ROLLBACK;
:balance('deb_c');
CALL pg_temp.flushed('deb_c');
SELECT quantity, cost_uc FROM mortar.usage('deb_c');
:burned 'deb_c' :by_account;
SELECT mortar.set_limit('deb_c', 'hard');
SELECT mortar.charge('deb_c', 11, 'c3');
SELECT pg_temp.paid(mortar.charge('deb_c', 10, 'c3'));

-- ---- a grant that begins later repays what was spent before ----
SELECT mortar.create_tenant('deb_d');
SELECT mortar.set_limit('deb_d', 'soft');
SELECT mortar.grant_credits('deb_d', 100, 'g1', effective_at => clock_timestamp() + interval '1 second') IS NOT NULL AS granted;
SELECT mortar.record_usage('deb_d', 'requests', 30);
:balance('deb_d');
SELECT pg_sleep(1.1) IS NULL AS slept;
-- to look is enough
:balance('deb_d');
CALL pg_temp.flushed('deb_d');
:burned 'deb_d' :by_account;

-- ---- the largest amounts ----
SELECT mortar.create_tenant('deb_e');
SELECT mortar.set_limit('deb_e', 'hard', 2305843009213693951);
SELECT mortar.charge('deb_e', 2305843009213693951, 'c1') IS NOT NULL AS charged;
:balance('deb_e');
SELECT mortar.charge('deb_e', 1, 'c2');
SELECT mortar.set_limit('deb_e', 'soft');
SELECT mortar.charge('deb_e', 1, 'c2');
SELECT mortar.grant_credits('deb_e', 2305843009213693951, 'g1') IS NOT NULL AS granted;
:balance('deb_e');
-- what is not in tables yet would be debt again after a crash, so there is no room before
CALL pg_temp.flushed('deb_e');
SELECT mortar.grant_credits('deb_e', 2305843009213693951, 'g2') IS NOT NULL AS granted;
SELECT mortar.grant_credits('deb_e', 1, 'g3', effective_at => now() + interval '1 day');
:burned 'deb_e' :by_account;

SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok;
SELECT mortar.set_price('requests', 0, 1) IS NOT NULL AS free;
\c - :super
DROP OWNED BY regress_admin;
DROP ROLE regress_admin;
