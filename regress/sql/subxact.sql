-- ROLLBACK gives credits back, whatever it rolls back: a savepoint, a block of
-- PL/pgSQL, a transaction, one that was to be prepared.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
\c - regress_admin
SELECT mortar.set_price('egress_bytes', 1, 10) IS NOT NULL AS priced;
SELECT mortar.create_tenant('sub_a');
SELECT mortar.create_tenant('sub_b');
SELECT mortar.grant_credits('sub_a', 1000, 'g') IS NOT NULL AS granted;
CREATE FUNCTION pg_temp.available(tenant text DEFAULT 'sub_a') RETURNS int8 LANGUAGE sql
    AS 'SELECT available_uc FROM mortar.balance(tenant)';

-- a charge of a savepoint
BEGIN;
SELECT mortar.charge('sub_a', 100, 'c1') IS NOT NULL AS charged;
SAVEPOINT s;
SELECT mortar.charge('sub_a', 200, 'c2') IS NOT NULL AS charged;
SELECT pg_temp.available() AS before_rollback_to;
ROLLBACK TO s;
SELECT pg_temp.available() AS after_rollback_to;
COMMIT;
SELECT pg_temp.available() AS committed;

-- nested: what a released savepoint did goes with the one around it
BEGIN;
SAVEPOINT outer_one;
SELECT mortar.charge('sub_a', 1, 'n1') IS NOT NULL AS charged;
SAVEPOINT inner_one;
SELECT mortar.charge('sub_a', 10, 'n2') IS NOT NULL AS charged;
RELEASE inner_one;
SAVEPOINT inner_two;
SELECT mortar.charge('sub_a', 100, 'n3') IS NOT NULL AS charged;
ROLLBACK TO inner_two;
SELECT pg_temp.available() AS inner_two_is_back;
ROLLBACK TO outer_one;
SELECT pg_temp.available() AS all_is_back;
COMMIT;
SELECT pg_temp.available() AS committed;

-- a grant of a savepoint, and what was paid with it
BEGIN;
SAVEPOINT s;
SELECT mortar.grant_credits('sub_a', 5000, 'g2') IS NOT NULL AS granted;
SELECT mortar.charge('sub_a', 5500, 'c3') IS NOT NULL AS charged;
SELECT pg_temp.available() AS of_both;
ROLLBACK TO s;
SELECT pg_temp.available() AS as_before;
SELECT mortar.charge('sub_a', 901, 'c3', on_short => 'return') IS NULL AS cannot_be_spent;
COMMIT;
SELECT pg_temp.available() AS committed;
-- a grant outside, spent inside: the spending is taken back, the grant is not
BEGIN;
SELECT mortar.grant_credits('sub_a', 50, 'g3') IS NOT NULL AS granted;
SAVEPOINT s;
SELECT mortar.charge('sub_a', 950, 'c4') IS NOT NULL AS charged;
ROLLBACK TO s;
SELECT mortar.charge('sub_a', 50, 'c4') IS NOT NULL AS charged;
COMMIT;
SELECT pg_temp.available() AS committed;

-- usage of a savepoint neither counts nor costs when it is rolled back
BEGIN;
SELECT mortar.record_usage('sub_a', 'egress_bytes', 25);
SAVEPOINT s;
SELECT mortar.record_usage('sub_a', 'egress_bytes', 1000);
SELECT pg_temp.available() AS before_rollback_to;
ROLLBACK TO s;
SELECT pg_temp.available() AS after_rollback_to;
SELECT mortar.record_usage('sub_a', 'egress_bytes', 25);
COMMIT;
SELECT quantity, cost_uc, pg_temp.available() FROM mortar.usage('sub_a');

-- an exception that PL/pgSQL catches
DO $$BEGIN
    FOR i IN 1 .. 100 LOOP
        BEGIN
            PERFORM mortar.charge('sub_a', 3, 'x' || i);
            PERFORM mortar.record_usage('sub_a', 'egress_bytes', 30);
            PERFORM 1 / (i % 2);
        EXCEPTION WHEN division_by_zero THEN
        END;
    END LOOP;
END$$;
-- 50 of the 100 stayed: 150 for charges, 150 for usage
SELECT quantity, cost_uc, pg_temp.available() FROM mortar.usage('sub_a');

-- an MT402 in a block leaves what came before it
DO $$BEGIN
    PERFORM mortar.charge('sub_a', 5, 'y1');
    BEGIN
        PERFORM mortar.charge('sub_a', 5, 'y2');
        PERFORM mortar.charge('sub_a', 1000000, 'y3');
    EXCEPTION WHEN SQLSTATE 'MT402' THEN
    END;
END$$;
SELECT pg_temp.available();
SELECT key FROM mortar.idempotency WHERE tenant_id = 'sub_a' AND key LIKE 'y_';

-- a key that was used in a rolled-back savepoint is free in its transaction
BEGIN;
SAVEPOINT s;
SELECT mortar.charge('sub_a', 7, 'z') IS NOT NULL AS charged;
ROLLBACK TO s;
SELECT mortar.charge('sub_a', 8, 'z') IS NOT NULL AS charged_otherwise;
COMMIT;
SELECT pg_temp.available();

-- a failing statement takes back the whole transaction
BEGIN;
SELECT mortar.charge('sub_a', 100, 'f1') IS NOT NULL AS charged;
SELECT mortar.grant_credits('sub_b', 100, 'f2') IS NOT NULL AS granted;
SELECT mortar.record_usage('sub_a', 'egress_bytes', 100);
SELECT 1 / 0;
COMMIT;
SELECT pg_temp.available(), pg_temp.available('sub_b');

-- PREPARE TRANSACTION is refused for what changed credits, keys, prices,
-- tenants or usage, and takes it back
BEGIN;
SELECT mortar.charge('sub_a', 100, 'p1') IS NOT NULL AS charged;
PREPARE TRANSACTION 'mortar_p1';
\echo :LAST_ERROR_MESSAGE
SELECT pg_temp.available();
BEGIN;
SELECT mortar.grant_credits('sub_a', 100, 'p2') IS NOT NULL AS granted;
PREPARE TRANSACTION 'mortar_p2';
BEGIN;
SELECT mortar.record_usage('sub_a', 'egress_bytes', 100);
PREPARE TRANSACTION 'mortar_p3';
BEGIN;
SELECT mortar.create_tenant('sub_prepared');
PREPARE TRANSACTION 'mortar_p4';
BEGIN;
SELECT mortar.set_price('egress_bytes', 100, 1) IS NOT NULL AS priced;
PREPARE TRANSACTION 'mortar_p5';
BEGIN;
SELECT mortar.create_key('sub_a', 'never') IS NOT NULL AS made;
PREPARE TRANSACTION 'mortar_p7';
SELECT mortar.create_key('sub_a', 'prepared') IS NOT NULL AS made;
BEGIN;
SELECT mortar.revoke_key('sub_a', key_id) FROM mortar.keys WHERE name = 'prepared';
PREPARE TRANSACTION 'mortar_p6';
SELECT mortar.charge('sub_a', 3, 'to reverse') AS charge, mortar.hold('sub_a', 3, '1 hour', 'to capture') AS hold \gset
SELECT grant_id AS grant FROM mortar.credit_grants WHERE tenant_id = 'sub_a' ORDER BY grant_id LIMIT 1 \gset
BEGIN;
SELECT mortar.reverse('sub_a', :'charge', 'p8') IS NOT NULL AS reversed;
PREPARE TRANSACTION 'mortar_p8';
BEGIN;
SELECT mortar.capture('sub_a', :'hold', 3, 'p9') IS NOT NULL AS captured;
PREPARE TRANSACTION 'mortar_p9';
BEGIN;
SELECT mortar.hold('sub_a', 3, '1 hour', 'p10') IS NOT NULL AS held;
PREPARE TRANSACTION 'mortar_p10';
BEGIN;
SELECT mortar.void_grant('sub_a', :'grant', 'p11', 'reason') IS NOT NULL AS voided;
PREPARE TRANSACTION 'mortar_p11';
BEGIN;
SELECT mortar.freeze('sub_a');
PREPARE TRANSACTION 'mortar_p12';
BEGIN;
SELECT mortar.suspend_tenant('sub_a', 'reason');
PREPARE TRANSACTION 'mortar_p13';
SELECT mortar.capture('sub_a', :'hold', 2, 'c') IS NOT NULL AND mortar.reverse('sub_a', :'charge', 'r') IS NOT NULL AS nothing_has_happened;
SELECT gid AS was_prepared FROM pg_prepared_xacts WHERE gid LIKE 'mortar%';
SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts WHERE gid LIKE 'mortar%' \gexec
SELECT pg_temp.available();
SELECT quantity FROM mortar.usage('sub_a');

SELECT * FROM mortar.verify_ledger() WHERE NOT ok;
SELECT mortar.set_price('egress_bytes', 0, 1) IS NOT NULL AS free;
DISCARD TEMP;
\c - :super
DROP ROLE regress_admin;
