-- max_unflushed_uc: what a crash may lose of a tenant's usage.  While nothing can
-- be flushed, usage is charged up to the bound and not beyond it.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin, regress_monitor;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
CREATE ROLE regress_monitor LOGIN IN ROLE mortar_monitor;
\c - regress_admin
SELECT mortar.create_tenant('lim_' || t) FROM unnest('{a,b,c,d,e}'::text[]) t;
SELECT count(mortar.grant_credits('lim_' || t, 100000, 'g')) FROM unnest('{a,b,c,e}'::text[]) t;
SELECT mortar.grant_credits('lim_d', 15, 'g') IS NOT NULL AS granted;
SELECT mortar.set_price('requests', 10, 1) IS NOT NULL AS priced;
SELECT mortar.set_price('egress_bytes', 0, 1) IS NOT NULL AS free;
\set bound 'SELECT tenant_id, b.unflushed_uc, b.max_unflushed_uc, s.max_unflushed_uc AS in_memory FROM mortar.loss_bound b LEFT JOIN mortar.slots s USING (tenant_id) WHERE tenant_id = '
\set row 'SELECT tenant_id, max_unflushed_uc, changed_at > now() - interval ''1 hour'' AS changed FROM mortar.limits WHERE tenant_id LIKE ''lim\\_%'' ORDER BY 1;'

-- ---- setting it ----
-- 1 credit unless it was set
:bound 'lim_a';
SELECT mortar.set_limit('lim_a', max_unflushed_uc => 100);
:bound 'lim_a';
SELECT mortar.set_limit('lim_a');
:bound 'lim_a';
:row
-- what is rolled back did not happen
BEGIN;
SELECT mortar.set_limit('lim_a', max_unflushed_uc => 1);
ROLLBACK;
:bound 'lim_a';
BEGIN;
SAVEPOINT one;
SELECT mortar.set_limit('lim_a', max_unflushed_uc => 2);
SAVEPOINT two;
SELECT mortar.set_limit('lim_a', max_unflushed_uc => 3);
ROLLBACK TO two;
RELEASE one;
SAVEPOINT three;
SELECT mortar.set_limit('lim_a', max_unflushed_uc => 4);
ROLLBACK TO three;
COMMIT;
:bound 'lim_a';
:row
-- created and limited at once
BEGIN;
SELECT mortar.create_tenant('lim_new');
SELECT mortar.set_limit('lim_new', max_unflushed_uc => 7);
COMMIT;
:bound 'lim_new';
BEGIN;
SELECT mortar.create_tenant('lim_never');
SELECT mortar.set_limit('lim_never', max_unflushed_uc => 7);
ROLLBACK;
SELECT mortar.create_tenant('lim_never');
:bound 'lim_never';
BEGIN;
SELECT mortar.set_limit('lim_a', max_unflushed_uc => 5);
PREPARE TRANSACTION 'mortar_limit';
:bound 'lim_a';

-- ---- arguments ----
SELECT mortar.set_limit('lim_absent', max_unflushed_uc => 1);
SELECT mortar.set_limit(NULL, max_unflushed_uc => 1);
SELECT mortar.set_limit('Not One', max_unflushed_uc => 1);
SELECT mortar.set_limit('lim_a', max_unflushed_uc => -1);
SELECT mortar.set_limit('lim_a', max_unflushed_uc => 2305843009213693952);
:bound 'lim_a';
SELECT mortar.set_limit('lim_a', max_unflushed_uc => 2305843009213693951);
:bound 'lim_a';
SELECT mortar.set_limit('lim_a', max_unflushed_uc => 0);
:bound 'lim_a';
-- how far it may spend (money_debt.sql shows what it does)
SELECT mortar.set_limit('lim_a', mode => 'firm');
\echo :LAST_ERROR_MESSAGE
SELECT mortar.set_limit('lim_a', mode => NULL);
SELECT mortar.set_limit('lim_a', overdraft_uc => -1);
SELECT mortar.set_limit('lim_a', overdraft_uc => 2305843009213693952);
SELECT mortar.set_limit('lim_a', overdraft_uc => NULL);
SELECT mortar.set_limit('lim_a', 'soft', 1);
SELECT mortar.set_limit('lim_a', 'unlimited', 1);
SELECT mortar.set_limit('lim_a', 'hard', 2305843009213693951);
SELECT mode, overdraft_uc, max_unflushed_uc FROM mortar.limits WHERE tenant_id = 'lim_a';
SELECT mortar.set_limit('lim_a', durability => 'always');
SELECT mortar.set_limit('lim_a', durability => NULL);
SELECT mortar.set_limit('lim_a', 'hard', 0, 100, 'buffered');
:bound 'lim_a';

-- ---- who may ----
\c - regress_monitor
SELECT mortar.set_limit('lim_a');
:bound 'lim_a';
SELECT flush_interval = current_setting('mortar.flush_interval')::interval AS same FROM mortar.loss_bound WHERE tenant_id = 'lim_a';

-- ---- what is written behind Mortar's back counts too, and has to make sense ----
\c - :super
UPDATE mortar.limits SET max_unflushed_uc = 90 WHERE tenant_id = 'lim_a';
SELECT available_uc FROM mortar.balance('lim_a');
:bound 'lim_a';
UPDATE mortar.limits SET max_unflushed_uc = -1 WHERE tenant_id = 'lim_a';
UPDATE mortar.limits SET max_unflushed_uc = 2305843009213693952 WHERE tenant_id = 'lim_a';
UPDATE mortar.limits SET max_unflushed_uc = 100 WHERE tenant_id = 'lim_a';
DELETE FROM mortar.limits WHERE tenant_id = 'lim_new';
SELECT t, (mortar.balance('lim_' || t)).available_uc FROM unnest('{a,new}'::text[]) t;
:bound 'lim_a';
:bound 'lim_new';

-- ---- nobody can flush, until the lock is gone ----
BEGIN;
LOCK TABLE mortar.usage_journal IN EXCLUSIVE MODE;
PREPARE TRANSACTION 'mortar_no_flush';
\c - regress_admin
-- up to the bound, and not a request more
SELECT mortar.record_usage('lim_a', 'requests', 5);
SELECT mortar.record_usage('lim_a', 'requests', 5);
:bound 'lim_a';
SELECT mortar.record_usage('lim_a', 'requests', 1);
\echo :LAST_ERROR_MESSAGE
SELECT available_uc, unflushed_uc FROM mortar.balance('lim_a');
SELECT quantity FROM mortar.usage('lim_a');
-- what costs nothing lifts nothing
SELECT mortar.record_usage('lim_a', 'requests', 0);
SELECT mortar.record_usage('lim_a', 'egress_bytes', 1000);
-- the wait can be cancelled
SET statement_timeout = '100ms';
SELECT mortar.record_usage('lim_a', 'requests', 1);
RESET statement_timeout;
-- charges are rows, not buffered usage
SELECT mortar.charge('lim_a', 1000, 'c') IS NOT NULL AS charged;
-- a higher bound holds at once for the transaction, for others at its commit
BEGIN;
SELECT mortar.set_limit('lim_a', max_unflushed_uc => 120);
SELECT mortar.record_usage('lim_a', 'requests', 1);
COMMIT;
:bound 'lim_a';
SELECT mortar.record_usage('lim_a', 'requests', 1);
:bound 'lim_a';
-- what is rolled back makes room again, with a savepoint, too
SELECT mortar.set_limit('lim_a', max_unflushed_uc => 140);
BEGIN;
SELECT mortar.record_usage('lim_a', 'requests', 2);
ROLLBACK;
BEGIN;
SAVEPOINT one;
SELECT mortar.record_usage('lim_a', 'requests', 2);
ROLLBACK TO one;
SELECT mortar.record_usage('lim_a', 'requests', 1);
COMMIT;
:bound 'lim_a';
SELECT mortar.record_usage('lim_a', 'requests', 2);
SELECT mortar.record_usage('lim_a', 'requests', 1);
:bound 'lim_a';
-- a lower bound refuses what comes, and takes back nothing
SELECT mortar.set_limit('lim_a', max_unflushed_uc => 50);
:bound 'lim_a';
-- a call dearer than the bound is charged when nothing is unflushed
SELECT mortar.set_limit('lim_b', max_unflushed_uc => 0);
SELECT mortar.record_usage('lim_b', 'requests', 3);
SELECT mortar.record_usage('lim_b', 'requests', 1);
:bound 'lim_b';
-- a transaction is one call in this
SELECT mortar.set_limit('lim_c', max_unflushed_uc => 50);
BEGIN;
SELECT count(mortar.record_usage('lim_c', 'requests', 4)) FROM generate_series(1, 5);
COMMIT;
:bound 'lim_c';
BEGIN;
SELECT mortar.record_usage('lim_c', 'requests', 1);
COMMIT;
-- who cannot pay is told so at once
SELECT mortar.set_limit('lim_d', max_unflushed_uc => 10);
SELECT mortar.record_usage('lim_d', 'requests', 1);
SELECT mortar.record_usage('lim_d', 'requests', 1);
SELECT available_uc FROM mortar.balance('lim_d');
-- another tenant has nothing to do with it
SELECT mortar.record_usage('lim_e', 'requests', 100);

-- ---- and then all goes on ----
\c - :super
ROLLBACK PREPARED 'mortar_no_flush';
DO $$BEGIN
    FOR i IN 1 .. 6000 LOOP
        EXIT WHEN (SELECT bool_and(unflushed_uc = 0) FROM mortar.loss_bound WHERE tenant_id LIKE 'lim\_%');
        PERFORM pg_sleep(0.01);
        COMMIT;
    END LOOP;
END$$;
\c - regress_admin
SELECT tenant_id, unflushed_uc FROM mortar.loss_bound WHERE tenant_id LIKE 'lim\_%' ORDER BY 1;
SELECT mortar.record_usage('lim_' || t, 'requests', 1) FROM unnest('{a,b,c}'::text[]) t;
SELECT t, (mortar.balance('lim_' || t)).available_uc, (SELECT sum(quantity) FROM mortar.usage('lim_' || t) u WHERE u.meter = 'requests') AS requests
    FROM unnest('{a,b,c,d,e}'::text[]) t;
SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok;
SELECT mortar.set_price('requests', 0, 1) IS NOT NULL AS free;
\c - :super
DROP ROLE regress_admin, regress_monitor;
