-- Usage that no crash may take: durability group and sync, by tenant and by call.
-- Nobody can flush until the end, so that what waits in usage_sync can be seen.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
DROP ROLE IF EXISTS regress_monitor;
CREATE ROLE regress_monitor LOGIN IN ROLE mortar_monitor;
BEGIN;
LOCK TABLE mortar.usage_journal IN EXCLUSIVE MODE;
PREPARE TRANSACTION 'mortar_no_flush';
\c - regress_admin
SET client_min_messages = warning;
SELECT mortar.set_price('requests', 1, 2) IS NOT NULL AS priced;
SELECT mortar.set_price('egress_bytes', 0, 1) IS NOT NULL AS free;
SELECT count(mortar.create_tenant('dur_' || t)) FROM unnest('{a,b,c,d,e,f,g,h}'::text[]) t;
SELECT mortar.grant_credits('dur_a', 4, 'g1', priority => 1) IS NOT NULL AS granted;
SELECT mortar.grant_credits('dur_a', 1000, 'g2', priority => 2) IS NOT NULL AS granted;
\set queue 'SELECT meter, qty, cost_uc, from_accounts, amounts_uc FROM mortar.usage_sync WHERE tenant_id = '
\set in_order 'ORDER BY sync_id'
\set state 'SELECT b.available_uc, b.unflushed_uc, b.debt_uc, (SELECT quantity FROM mortar.usage(tenant_id) WHERE meter = ''requests'') AS requests, (SELECT cost_uc FROM mortar.usage(tenant_id) WHERE meter = ''requests'') AS cost_uc, durability, queued FROM mortar.slots s, mortar.balance(tenant_id) b WHERE tenant_id = '

-- ---- by call ----
SELECT mortar.record_usage('dur_a', 'requests', 3);
SELECT mortar.record_usage('dur_a', 'requests', 3, 'sync');
SELECT mortar.record_usage('dur_a', 'requests', 7, 'group');
SELECT mortar.record_usage('dur_a', 'egress_bytes', 9, 'sync');
SELECT mortar.record_usage('dur_a', 'requests', 0, 'sync');
-- the second row is paid by two grants; what is buffered is not here
:queue 'dur_a' :in_order;
:state 'dur_a';
SELECT meter, key_id, route, bucket IS NOT NULL AS minute, quantity, cost_uc FROM mortar.usage('dur_a', by => '{meter,key,route,minute}');
SELECT * FROM mortar.usage('dur_a', until => now() - interval '1 day');
SELECT priority, amount_uc, remaining_uc FROM mortar.grants WHERE tenant_id = 'dur_a' ORDER BY priority;
SELECT kind, from_account, amount_uc, priority, what->0->>'quantity' AS quantity FROM mortar.lineage WHERE tenant_id = 'dur_a' ORDER BY movement_id, priority;
SELECT mortar.record_usage('dur_a', 'requests', 1, 'SYNC');
SELECT mortar.record_usage('dur_a', 'requests', 1, '');

-- ---- by tenant ----
SELECT mortar.set_limit('dur_b', durability => 'sync');
SELECT mortar.set_limit('dur_b', durability => 'always');
SELECT mortar.set_limit('dur_b', durability => NULL);
SELECT mortar.grant_credits('dur_b', 100, 'g') IS NOT NULL AS granted;
SELECT mortar.record_usage('dur_b', 'requests', 2);
SELECT mortar.record_usage('dur_b', 'requests', 2, NULL);
SELECT mortar.record_usage('dur_b', 'requests', 2, 'buffered');
:queue 'dur_b' :in_order;
:state 'dur_b';
-- in its own transaction at once; what is rolled back did not happen
BEGIN;
SELECT mortar.set_limit('dur_b', durability => 'buffered');
SELECT mortar.record_usage('dur_b', 'requests', 2);
SAVEPOINT one;
SELECT mortar.set_limit('dur_b', durability => 'group');
SELECT mortar.record_usage('dur_b', 'requests', 20);
ROLLBACK TO one;
SELECT mortar.record_usage('dur_b', 'requests', 2);
COMMIT;
:queue 'dur_b' :in_order;
:state 'dur_b';
SELECT mortar.set_limit('dur_b', durability => 'group');
SELECT durability FROM mortar.limits WHERE tenant_id = 'dur_b';

-- ---- transactions ----
BEGIN;
SELECT mortar.record_usage('dur_b', 'requests', 2);
-- not before the commit, like all usage
SELECT quantity FROM mortar.usage('dur_b');
SELECT current_setting('commit_delay') AS delay;
SAVEPOINT one;
SELECT mortar.record_usage('dur_b', 'requests', 10, 'sync');
SELECT mortar.record_usage('dur_b', 'requests', 3, 'buffered');
ROLLBACK TO one;
SELECT mortar.record_usage('dur_b', 'requests', 1, 'sync');
COMMIT;
SELECT current_setting('commit_delay') AS delay;
BEGIN;
SELECT mortar.record_usage('dur_b', 'requests', 50, 'sync');
ROLLBACK;
BEGIN;
SELECT mortar.record_usage('dur_b', 'requests', 1, 'sync');
PREPARE TRANSACTION 'mortar_sync';
BEGIN READ ONLY;
SELECT mortar.record_usage('dur_b', 'requests', 1, 'sync');
ROLLBACK;
BEGIN READ ONLY;
SELECT mortar.record_usage('dur_b', 'requests', 1, 'buffered');
COMMIT;
:queue 'dur_b' :in_order;
:state 'dur_b';

-- ---- the gate is the same: all or nothing, debt, no credit at all ----
SELECT mortar.record_usage('dur_c', 'requests', 2, 'sync');
BEGIN;
SELECT mortar.grant_credits('dur_c', 2, 'own') IS NOT NULL AS granted;
SELECT mortar.record_usage('dur_c', 'requests', 2, 'sync');
COMMIT;
SELECT mortar.record_usage('dur_c', 'requests', 4, 'sync');
SELECT mortar.set_limit('dur_c', 'soft');
SELECT mortar.record_usage('dur_c', 'requests', 4, 'sync');
SELECT mortar.set_limit('dur_c', 'unlimited');
SELECT mortar.record_usage('dur_c', 'requests', 10, 'sync');
:queue 'dur_c' :in_order;
:state 'dur_c';
-- a grant repays debt of rows that are not in the journal yet
SELECT mortar.set_limit('dur_c');
SELECT mortar.grant_credits('dur_c', 10, 'more') IS NOT NULL AS granted;
:state 'dur_c';

-- ---- no crash can take it: it has no bound, and does not count in that of others ----
SELECT mortar.grant_credits('dur_d', 10000, 'g') IS NOT NULL AS granted;
SELECT mortar.set_limit('dur_d', max_unflushed_uc => 10);
SELECT mortar.record_usage('dur_d', 'requests', 18);
SELECT mortar.record_usage('dur_d', 'requests', 2000, 'sync');
SELECT mortar.record_usage('dur_d', 'requests', 2, 'buffered');
SELECT mortar.record_usage('dur_d', 'requests', 2, 'buffered');
:state 'dur_d';
SELECT unflushed_uc, max_unflushed_uc FROM mortar.loss_bound WHERE tenant_id = 'dur_d';

-- ---- what is undone beside durable usage leaves not a micro-credit unflushed ----
-- whatever the order, so that the bound stays exact; a price of 1 for 2 rounds
SELECT mortar.grant_credits('dur_h', 1000, 'g') IS NOT NULL AS granted;
SELECT mortar.set_limit('dur_h', max_unflushed_uc => 10);
CREATE FUNCTION pg_temp.undone(one text, other text) RETURNS void LANGUAGE plpgsql AS $$BEGIN
    FOR i IN 1 .. 20 LOOP
        BEGIN
            PERFORM mortar.record_usage('dur_h', 'requests', 1, d) FROM unnest(ARRAY[one, other, one]) d;
            RAISE 'undo' USING ERRCODE = 'ZZ000';
        EXCEPTION WHEN SQLSTATE 'ZZ000' THEN NULL;
        END;
    END LOOP;
END$$;
SELECT mortar.record_usage('dur_h', 'requests', 2);
BEGIN;
SELECT pg_temp.undone('buffered', 'sync');
SELECT mortar.record_usage('dur_h', 'requests', 18);
SELECT mortar.record_usage('dur_h', 'requests', 2);
ROLLBACK;
BEGIN;
SELECT pg_temp.undone('sync', 'buffered');
SELECT mortar.record_usage('dur_h', 'requests', 18);
ROLLBACK;
:state 'dur_h';
SELECT mortar.record_usage('dur_h', 'requests', 18);
SELECT mortar.record_usage('dur_h', 'requests', 2);
:state 'dur_h';

-- ---- what a transaction gets back itself pays, too ----
SELECT mortar.grant_credits('dur_e', 5, 'g') IS NOT NULL AS granted;
SELECT mortar.charge('dur_e', 5, 'c') AS charge \gset
BEGIN;
SELECT mortar.reverse('dur_e', :'charge', 'r', 3) IS NOT NULL AS reversed;
SAVEPOINT one;
SELECT mortar.record_usage('dur_e', 'requests', 6, 'sync');
ROLLBACK TO one;
SELECT mortar.record_usage('dur_e', 'requests', 4, 'sync');
SELECT mortar.record_usage('dur_e', 'requests', 4, 'sync');
ROLLBACK;
BEGIN;
SELECT mortar.reverse('dur_e', :'charge', 'r', 3) IS NOT NULL AS reversed;
SELECT mortar.record_usage('dur_e', 'requests', 4, 'sync');
COMMIT;
:queue 'dur_e' :in_order;
:state 'dur_e';

-- ---- more prices than there are counters in memory ----
SELECT mortar.grant_credits('dur_f', 1000, 'g') IS NOT NULL AS granted;
CREATE PROCEDURE pg_temp.many_prices() LANGUAGE plpgsql AS $$BEGIN
    FOR i IN 1 .. 20 LOOP
        PERFORM mortar.set_price('requests', i, 2, tenant => 'dur_f');
        COMMIT;
        PERFORM mortar.record_usage('dur_f', 'requests', 1, 'sync');
        COMMIT;
        PERFORM mortar.record_usage('dur_f', 'requests', 1, 'group');
        COMMIT;
    END LOOP;
END$$;
CALL pg_temp.many_prices();
SELECT count(*), sum(qty), sum(cost_uc) FROM mortar.usage_sync WHERE tenant_id = 'dur_f';
:state 'dur_f';

-- ---- more rows than one flush moves, and soon enough for it ----
SELECT mortar.grant_credits('dur_g', 1000, 'g1', priority => 1), mortar.grant_credits('dur_g', 10000, 'g2') IS NOT NULL AS granted \gset
SELECT count(mortar.record_usage('dur_g', 'requests', 1, 'sync')) FROM generate_series(1, 12000);
:state 'dur_g';

-- ---- who may see it; nobody may write it ----
\c - regress_monitor
SELECT count(*) FROM mortar.usage_sync WHERE tenant_id LIKE 'dur\_%';
DELETE FROM mortar.usage_sync;
\c - regress_admin
DELETE FROM mortar.usage_sync;
INSERT INTO mortar.usage_sync DEFAULT VALUES;

-- ---- tables that are read again: memory is what it was ----
\c - :super
SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok;
SELECT available_uc FROM mortar.balance('dur_c');
ROLLBACK PREPARED 'mortar_no_flush';
CREATE PROCEDURE pg_temp.flushed() LANGUAGE plpgsql AS $$BEGIN
    FOR i IN 1 .. 6000 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM mortar.usage_sync WHERE tenant_id LIKE 'dur\_%')
            AND NOT EXISTS (SELECT FROM mortar.cells c WHERE c.tenant_id LIKE 'dur\_%' AND c.unflushed_uc <> 0)
            AND (SELECT bool_and(unflushed_uc = 0 AND queued = 0) FROM mortar.slots WHERE tenant_id LIKE 'dur\_%');
        PERFORM pg_sleep(0.01);
        COMMIT;
    END LOOP;
END$$;
CALL pg_temp.flushed();
SELECT tenant_id, meter, durable, sum(upto_qty - from_qty) AS qty FROM mortar.usage_journal WHERE tenant_id LIKE 'dur\_%' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT tenant_id, sum(cost_uc) AS cost_uc, (SELECT sum(amount_uc) FROM mortar.credit_burns b WHERE b.tenant_id = j.tenant_id) AS burned_uc
    FROM mortar.usage_journal j WHERE tenant_id LIKE 'dur\_%' GROUP BY 1 ORDER BY 1;
SELECT tenant_id, from_account, sum(burned_uc) AS uc FROM mortar.burn_marks WHERE tenant_id LIKE 'dur\_%' GROUP BY 1, 2 HAVING sum(burned_uc) <> 0 ORDER BY 1, 2;
:state 'dur_a';
:state 'dur_b';
:state 'dur_c';
:state 'dur_d';
:state 'dur_e';
:state 'dur_f';
:state 'dur_g';
:state 'dur_h';
SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok;

-- ---- rows that somebody takes away by hand are usage no more, and it is given back ----
BEGIN;
LOCK TABLE mortar.usage_journal IN EXCLUSIVE MODE;
PREPARE TRANSACTION 'mortar_no_flush';
SELECT mortar.record_usage('dur_a', 'requests', 100, 'sync');
SELECT mortar.record_usage('dur_b', 'requests', 40, 'sync');
:state 'dur_a';
DELETE FROM mortar.usage_sync WHERE tenant_id = 'dur_a';
ROLLBACK PREPARED 'mortar_no_flush';
CALL pg_temp.flushed();
SELECT available_uc FROM mortar.balance('dur_a');
:state 'dur_a';
:state 'dur_b';
-- also all of them
BEGIN;
LOCK TABLE mortar.usage_journal IN EXCLUSIVE MODE;
PREPARE TRANSACTION 'mortar_no_flush';
SELECT mortar.record_usage('dur_a', 'requests', 100, 'sync');
TRUNCATE mortar.usage_sync;
-- and who writes one that makes no sense is found out
INSERT INTO mortar.usage_sync SELECT 'dur_d', gen_random_uuid(), meter, key_id, route, price_id, 2, now(), 1, '{debt}', ARRAY[key_id], '{2}', epoch_id
    FROM mortar.usage_journal WHERE tenant_id = 'dur_d' AND meter = 'requests' LIMIT 1;
SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok AND check_name NOT LIKE 'memory%';
DELETE FROM mortar.usage_sync;
ROLLBACK PREPARED 'mortar_no_flush';
CALL pg_temp.flushed();
SELECT t, (mortar.balance('dur_' || t)).available_uc FROM unnest('{a,b,c,d,e,f,g,h}'::text[]) t;
:state 'dur_a';
SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok;
-- nor does it stop the flusher, if it comes to that
INSERT INTO mortar.usage_sync SELECT 'dur_d', gen_random_uuid(), meter, key_id, route, price_id, 2, minute, 0, '{NULL}', '{NULL}', '{NULL}', epoch_id
    FROM mortar.usage_journal WHERE tenant_id = 'dur_d' AND meter = 'requests' LIMIT 1;
SELECT available_uc FROM mortar.balance('dur_d');
CALL pg_temp.flushed();
:state 'dur_d';
SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok;
SELECT mortar.set_price('requests', 0, 1) IS NOT NULL AS free;
DROP ROLE regress_admin, regress_monitor;
