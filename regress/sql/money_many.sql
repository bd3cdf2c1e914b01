-- A movement that more grants pay than memory has cells for: at once, bit by bit, undone,
-- with grants of its own; and usage, which cannot be paid like that.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
\c - regress_admin
SET client_min_messages = warning;
SELECT mortar.set_price('requests', 1, 1) IS NOT NULL AS priced;
SELECT mortar.set_price('egress_bytes', 0, 1) IS NOT NULL AS free;
CREATE FUNCTION pg_temp.give(tenant text, first int4, last int4, amount int8) RETURNS void LANGUAGE sql AS
    $$SELECT mortar.grant_credits(tenant, amount, 'grant ' || i, priority => i % 100) FROM generate_series(first, last) i$$;
-- what a movement took: how many grants, and how much
CREATE FUNCTION pg_temp.paid(entry uuid) RETURNS text LANGUAGE sql AS
    $$SELECT format('%s grants, %s', count(DISTINCT grant_id), sum(amount_uc)) || coalesce(', debt ' || sum(amount_uc) FILTER (WHERE from_account = 'debt'), '')
        FROM mortar.credit_ledger WHERE movement_id = entry$$;
-- of how many grants how much is left, the first to burn first
CREATE FUNCTION pg_temp.left_of(tenant text) RETURNS text LANGUAGE sql AS
    $$SELECT string_agg(g.remaining_uc::text, ' ' ORDER BY c.priority, c.grant_id) FROM mortar.grants g JOIN mortar.credit_grants c USING (tenant_id, grant_id)
        WHERE g.tenant_id = tenant$$;
CREATE FUNCTION pg_temp.available(tenant text) RETURNS int8 LANGUAGE sql AS
    $$SELECT available_uc FROM mortar.balance(tenant)$$;

-- ---- twenty grants of 1 credit ----
SELECT mortar.create_tenant('man_a');
SELECT pg_temp.give('man_a', 1, 20, 1000000);
BEGIN;
SELECT pg_temp.paid(mortar.charge('man_a', 15000000, 'c1'));
SELECT pg_temp.available('man_a'), pg_temp.left_of('man_a');
ROLLBACK;
SELECT pg_temp.available('man_a'), pg_temp.left_of('man_a');
SELECT mortar.charge('man_a', 20000001, 'c1');
SELECT mortar.charge('man_a', 20000001, 'c1', on_short => 'return');
SELECT pg_temp.available('man_a');
SELECT pg_temp.paid(mortar.charge('man_a', 15500000, 'c1'));
SELECT pg_temp.available('man_a'), pg_temp.left_of('man_a');
SELECT pg_temp.paid(mortar.charge('man_a', 4500000, 'c2'));
SELECT mortar.charge('man_a', 1, 'c3');

-- ---- in one transaction, bit by bit; what a savepoint takes back is there again ----
SELECT mortar.create_tenant('man_b');
SELECT pg_temp.give('man_b', 1, 30, 10);
BEGIN;
SELECT count(mortar.charge('man_b', 5, 'c' || i)) FROM generate_series(1, 41) i;
SELECT pg_temp.available('man_b'), pg_temp.left_of('man_b');
SAVEPOINT one;
SELECT pg_temp.paid(mortar.charge('man_b', 65, 'd1'));
SAVEPOINT two;
SELECT pg_temp.paid(mortar.charge('man_b', 30, 'd2'));
SELECT mortar.charge('man_b', 1, 'd3', on_short => 'return');
ROLLBACK TO two;
SELECT pg_temp.available('man_b');
SELECT pg_temp.paid(mortar.charge('man_b', 29, 'd2'));
ROLLBACK TO one;
SELECT pg_temp.available('man_b'), pg_temp.left_of('man_b');
SELECT pg_temp.paid(mortar.charge('man_b', 15, 'd1'));
-- more than there is, after some of it was taken
SELECT mortar.charge('man_b', 81, 'd2', on_short => 'return');
SELECT pg_temp.available('man_b');
SELECT pg_temp.paid(mortar.charge('man_b', 75, 'd2'));
COMMIT;
SELECT pg_temp.available('man_b'), pg_temp.left_of('man_b');
SELECT pg_temp.paid(mortar.charge('man_b', 5, 'd3'));
SELECT pg_temp.available('man_b'), grants FROM mortar.slots WHERE tenant_id = 'man_b';

-- ---- half of a grant is taken before a savepoint, half after it ----
SELECT mortar.create_tenant('man_c');
SELECT pg_temp.give('man_c', 1, 12, 10);
BEGIN;
SELECT pg_temp.paid(mortar.charge('man_c', 5, 'c1'));
SAVEPOINT one;
SELECT pg_temp.paid(mortar.charge('man_c', 100, 'c2'));
ROLLBACK TO one;
SELECT pg_temp.available('man_c');
SELECT pg_temp.paid(mortar.charge('man_c', 10, 'c3'));
SELECT pg_temp.left_of('man_c');
SELECT pg_temp.paid(mortar.charge('man_c', 105, 'c4'));
ROLLBACK;
SELECT pg_temp.available('man_c'), pg_temp.left_of('man_c');
SELECT pg_temp.paid(mortar.charge('man_c', 119, 'c5'));
SELECT pg_temp.left_of('man_c');

-- ---- a key that another call has used; an error behind the charge ----
SELECT mortar.create_tenant('man_d');
SELECT pg_temp.give('man_d', 1, 20, 1);
SELECT mortar.charge('man_d', 12, 'key') AS first \gset
SELECT mortar.charge('man_d', 12, 'key') = :'first' AS replayed;
SELECT mortar.charge('man_d', 8, 'key');
DO $$BEGIN PERFORM mortar.charge('man_d', 8, 'k2'); PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN END$$;
SELECT pg_temp.available('man_d'), pg_temp.left_of('man_d');
SELECT pg_temp.paid(mortar.charge('man_d', 8, 'k3'));

-- ---- grants of its own, more than there are cells ----
SELECT mortar.create_tenant('man_e');
SELECT pg_temp.give('man_e', 1, 12, 10);
BEGIN;
SELECT pg_temp.give('man_e', 21, 40, 10);
SELECT pg_temp.available('man_e');
SELECT pg_temp.paid(mortar.charge('man_e', 155, 'c1'));
SELECT pg_temp.available('man_e');
SAVEPOINT one;
SELECT pg_temp.paid(mortar.charge('man_e', 45, 'c2'));
SELECT pg_temp.give('man_e', 41, 43, 10);
SELECT pg_temp.paid(mortar.charge('man_e', 25, 'c3'));
SELECT pg_temp.available('man_e');
ROLLBACK TO one;
SELECT pg_temp.available('man_e');
-- then others', all of them
SELECT pg_temp.paid(mortar.charge('man_e', 160, 'c4'));
SELECT pg_temp.available('man_e');
SELECT mortar.charge('man_e', 6, 'c5', on_short => 'return');
COMMIT;
SELECT pg_temp.available('man_e');
SELECT sum(remaining_uc), count(*) FILTER (WHERE remaining_uc > 0) AS open FROM mortar.grants WHERE tenant_id = 'man_e';
SELECT pg_temp.paid(mortar.charge('man_e', 5, 'c5'));
-- a tenant that is made, given and charged at once; and undone
BEGIN;
SELECT mortar.create_tenant('man_f');
SELECT pg_temp.give('man_f', 1, 20, 10);
SELECT pg_temp.paid(mortar.charge('man_f', 195, 'c1'));
SELECT mortar.charge('man_f', 6, 'c2', on_short => 'return');
SAVEPOINT one;
SELECT pg_temp.paid(mortar.charge('man_f', 5, 'c2'));
ROLLBACK TO one;
COMMIT;
SELECT pg_temp.available('man_f');
BEGIN;
SELECT pg_temp.give('man_f', 31, 50, 10);
SELECT pg_temp.paid(mortar.charge('man_f', 200, 'c3'));
ROLLBACK;
SELECT pg_temp.available('man_f'), grants FROM mortar.slots WHERE tenant_id = 'man_f';

-- ---- the floor: an overdraft counts from the start, and debt comes last ----
SELECT mortar.create_tenant('man_g');
SELECT pg_temp.give('man_g', 1, 20, 10);
SELECT mortar.set_limit('man_g', 'hard', 30);
SELECT mortar.charge('man_g', 231, 'c1', on_short => 'return');
BEGIN;
SELECT pg_temp.paid(mortar.charge('man_g', 230, 'c1'));
SELECT mortar.charge('man_g', 1, 'c2', on_short => 'return');
ROLLBACK;
SELECT pg_temp.available('man_g'), pg_temp.left_of('man_g');
SELECT mortar.set_limit('man_g', 'soft');
SELECT pg_temp.paid(mortar.charge('man_g', 300, 'c1'));
SELECT pg_temp.available('man_g');
-- own grants do not pay while others' debt is below the floor
SELECT mortar.set_limit('man_g', 'hard', 0);
BEGIN;
SELECT pg_temp.give('man_g', 31, 50, 10);
SELECT mortar.charge('man_g', 101, 'c2', on_short => 'return');
SELECT pg_temp.paid(mortar.charge('man_g', 100, 'c2'));
COMMIT;
SELECT pg_temp.available('man_g');

-- ---- usage burns by cells: too many grants for one call, or one transaction, is an error ----
SELECT mortar.create_tenant('man_h');
SELECT pg_temp.give('man_h', 1, 20, 10);
\set VERBOSITY default
SELECT mortar.record_usage('man_h', 'requests', 85);
\set VERBOSITY sqlstate
SELECT pg_temp.available('man_h');
SELECT mortar.record_usage('man_h', 'requests', 201);
DO $$BEGIN FOR i IN 1 .. 20 LOOP PERFORM mortar.record_usage('man_h', 'requests', 10); END LOOP; END$$;
SELECT pg_temp.available('man_h');
-- what is charged makes room for it
BEGIN;
SELECT pg_temp.paid(mortar.charge('man_h', 100, 'c1'));
SELECT mortar.record_usage('man_h', 'requests', 55);
SELECT pg_temp.paid(mortar.charge('man_h', 45, 'c2'));
SELECT pg_temp.available('man_h');
ROLLBACK;
-- but usage holds every cell that it has
BEGIN;
SELECT mortar.record_usage('man_h', 'requests', 75);
SELECT pg_temp.paid(mortar.charge('man_h', 5, 'c1'));
SELECT mortar.charge('man_h', 1, 'c2');
ROLLBACK;
SELECT pg_temp.available('man_h'), pg_temp.left_of('man_h');
BEGIN;
SELECT mortar.record_usage('man_h', 'requests', 15);
SELECT pg_temp.paid(mortar.charge('man_h', 180, 'c1'));
SELECT pg_temp.available('man_h');
COMMIT;
BEGIN;
SELECT pg_temp.give('man_h', 31, 50, 10);
SELECT pg_temp.available('man_h');
SELECT mortar.record_usage('man_h', 'requests', 150);
ROLLBACK;

-- ---- holds and reversals of many grants ----
SELECT mortar.create_tenant('man_i');
SELECT pg_temp.give('man_i', 1, 20, 10);
SELECT mortar.hold('man_i', 155, '1 day', 'h1') AS hold \gset
SELECT available_uc, held_uc FROM mortar.balance('man_i');
BEGIN;
SELECT pg_temp.paid(mortar.void_hold('man_i', :'hold', 'v1'));
SELECT pg_temp.left_of('man_i');
ROLLBACK;
SELECT available_uc, held_uc FROM mortar.balance('man_i');
SELECT pg_temp.paid(mortar.void_hold('man_i', :'hold', 'v1'));
SELECT available_uc, held_uc FROM mortar.balance('man_i');
SELECT pg_temp.paid(mortar.charge('man_i', 15, 'c1'));
SELECT pg_temp.left_of('man_i');
SELECT mortar.hold('man_i', 140, '1 day', 'h2') AS hold \gset
SELECT pg_temp.paid(mortar.capture('man_i', :'hold', 45, 'p2'));
SELECT available_uc, held_uc FROM mortar.balance('man_i');
SELECT pg_temp.left_of('man_i');
SELECT mortar.hold('man_i', 20, '1 day', 'h3') AS hold \gset
SELECT pg_temp.paid(mortar.capture('man_i', :'hold', 130, 'p3'));
SELECT pg_temp.available('man_i');
SELECT mortar.charge('man_i', 10, 'c2') AS last \gset
BEGIN;
SELECT mortar.charge('man_i', 1, 'c3', on_short => 'return');
SELECT pg_temp.paid(mortar.reverse('man_i', :'last', 'r2'));
SAVEPOINT one;
SELECT pg_temp.paid(mortar.reverse('man_i', (SELECT entry_id FROM mortar.credit_ledger WHERE tenant_id = 'man_i' AND kind = 'capture' AND amount_uc > 0 ORDER BY entry_id DESC LIMIT 1), 'r3'));
ROLLBACK TO one;
COMMIT;
SELECT pg_temp.available('man_i'), pg_temp.left_of('man_i');
SELECT mortar.grant_credits('man_i', 100, 'more') IS NOT NULL AS granted;
SELECT mortar.create_tenant('man_j');
SELECT pg_temp.give('man_j', 1, 25, 10);
SELECT mortar.charge('man_j', 245, 'c1') AS charge \gset
SELECT pg_temp.paid(mortar.reverse('man_j', :'charge', 'r1', 100));
SELECT pg_temp.available('man_j'), pg_temp.left_of('man_j');
SELECT pg_temp.paid(mortar.reverse('man_j', :'charge', 'r2'));
SELECT pg_temp.available('man_j'), pg_temp.left_of('man_j');
SELECT pg_temp.paid(mortar.charge('man_j', 15, 'c2'));
SELECT pg_temp.left_of('man_j');
-- charged and given back in one transaction, and charged again
BEGIN;
SELECT mortar.charge('man_j', 200, 'c3') AS charge \gset
SELECT pg_temp.paid(mortar.reverse('man_j', :'charge', 'r3'));
SELECT pg_temp.paid(mortar.charge('man_j', 30, 'c4'));
COMMIT;
SELECT pg_temp.available('man_j');
SELECT sum(remaining_uc) FROM mortar.grants WHERE tenant_id = 'man_j';
SELECT pg_temp.paid(mortar.charge('man_j', 205, 'c5'));

-- ---- and all of it adds up ----
CREATE PROCEDURE pg_temp.flushed(tenant text) LANGUAGE plpgsql AS $$BEGIN
    FOR i IN 1 .. 3000 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM mortar.cells c WHERE c.tenant_id = tenant AND c.unflushed_uc <> 0)
            AND (SELECT unflushed_uc = 0 FROM mortar.balance(tenant));
        PERFORM pg_sleep(0.01);
        COMMIT;
    END LOOP;
END$$;
CALL pg_temp.flushed('man_h');
SELECT pg_temp.available('man_h'), pg_temp.left_of('man_h');
SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok;
SELECT mortar.set_price('requests', 0, 1) IS NOT NULL AS free;
\c - :super
DROP OWNED BY regress_admin;
DROP ROLE regress_admin;
