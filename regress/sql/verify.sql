-- verify_ledger() finds what does not add up, and names the tenant: each kind
-- of damage is done on purpose, found, and taken back by ROLLBACK.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_monitor;
CREATE ROLE regress_monitor LOGIN IN ROLE mortar_monitor;
SELECT mortar.set_price('requests', 3, 2) IS NOT NULL AS priced;
SELECT mortar.set_price('egress_bytes', 0, 1) IS NOT NULL AS free;
SELECT mortar.create_tenant('ver_a');
SELECT mortar.create_tenant('ver_b');
SELECT mortar.grant_credits('ver_a', 1000, 'g') IS NOT NULL AS granted;
SELECT mortar.grant_credits('ver_a', 500, 'g2') IS NOT NULL AS granted;
SELECT mortar.grant_credits('ver_b', 1000, 'g') IS NOT NULL AS granted;
SELECT mortar.charge('ver_a', 100, 'c') IS NOT NULL AS charged;
SELECT mortar.record_usage('ver_a', 'requests', 7);
DO $$BEGIN
    FOR i IN 1 .. 3000 LOOP
        EXIT WHEN (SELECT sum(upto_qty - from_qty) = 7 FROM mortar.usage_journal WHERE tenant_id = 'ver_a')
            AND (SELECT unflushed_uc = 0 FROM mortar.balance('ver_a'));
        PERFORM pg_sleep(0.01);
        COMMIT;
    END LOOP;
END$$;

-- an intact ledger: every check, as a monitor sees it
\c - regress_monitor
SELECT check_name, ok FROM mortar.verify_ledger();
SELECT check_name, ok, detail FROM mortar.verify_ledger('ver_a');
SELECT count(*) AS checks, bool_and(ok) AS ok FROM mortar.verify_ledger('ver_absent');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT check_name, ok, detail FROM mortar.verify_ledger('ver_a') WHERE detail <> 'ok';
COMMIT;

\c - :super
SET client_min_messages = warning;
CREATE FUNCTION found(tenant text DEFAULT NULL) RETURNS SETOF text LANGUAGE sql AS
    $$SELECT check_name || ': ' || detail FROM mortar.verify_ledger(tenant) WHERE NOT ok$$;
\pset tuples_only on
\pset format unaligned

-- an entry whose accounts are the same
BEGIN;
ALTER TABLE mortar.credit_ledger DISABLE TRIGGER USER;
ALTER TABLE mortar.credit_ledger DROP CONSTRAINT credit_ledger_check;
UPDATE mortar.credit_ledger SET from_account = 'consumed' WHERE tenant_id = 'ver_a' AND kind = 'charge';
SELECT found();
ROLLBACK;
-- one that its kind does not make, one without its grant, one with a grant that it has not
BEGIN;
ALTER TABLE mortar.credit_ledger DISABLE TRIGGER USER;
ALTER TABLE mortar.credit_ledger DROP CONSTRAINT credit_ledger_check;
UPDATE mortar.credit_ledger SET kind = 'hold' WHERE tenant_id = 'ver_a' AND kind = 'charge';
SELECT found() LIKE 'entries balance: wrong for: ver_a' LIMIT 1;
ROLLBACK;
BEGIN;
ALTER TABLE mortar.credit_ledger DISABLE TRIGGER USER;
ALTER TABLE mortar.credit_ledger DROP CONSTRAINT credit_ledger_check;
UPDATE mortar.credit_ledger SET grant_id = NULL WHERE tenant_id = 'ver_a' AND kind = 'charge';
SELECT found() LIKE 'entries balance: wrong for: ver_a' LIMIT 1;
ROLLBACK;
BEGIN;
ALTER TABLE mortar.credit_ledger DISABLE TRIGGER USER;
ALTER TABLE mortar.credit_ledger DROP CONSTRAINT credit_ledger_check;
UPDATE mortar.credit_ledger SET from_account = 'debt' WHERE tenant_id = 'ver_a' AND kind = 'charge';
SELECT found() LIKE 'entries balance: wrong for: ver_a' LIMIT 1;
ROLLBACK;

-- a charge that was made smaller: memory knows better
BEGIN;
ALTER TABLE mortar.credit_ledger DISABLE TRIGGER USER;
UPDATE mortar.credit_ledger SET amount_uc = 99 WHERE tenant_id = 'ver_a' AND kind = 'charge';
SELECT found();
SELECT found('ver_b');
ROLLBACK;

-- a charge that was removed: its idempotency key stays behind
BEGIN;
ALTER TABLE mortar.credit_ledger DISABLE TRIGGER USER;
DELETE FROM mortar.credit_ledger WHERE tenant_id = 'ver_a' AND kind = 'charge';
SELECT found();
ROLLBACK;

-- a tenant that was removed
BEGIN;
ALTER TABLE mortar.tenants DISABLE TRIGGER USER;
DELETE FROM mortar.tenants WHERE tenant_id = 'ver_b';
SELECT found();
ROLLBACK;

-- a grant without its entry, an entry without its grant, one of another amount
BEGIN;
ALTER TABLE mortar.credit_ledger DISABLE TRIGGER USER;
DELETE FROM mortar.credit_ledger WHERE tenant_id = 'ver_b' AND kind = 'grant';
SELECT found();
ROLLBACK;
BEGIN;
ALTER TABLE mortar.credit_grants DISABLE TRIGGER USER;
DELETE FROM mortar.credit_grants WHERE tenant_id = 'ver_b';
SELECT found();
ROLLBACK;
BEGIN;
ALTER TABLE mortar.credit_grants DISABLE TRIGGER USER;
UPDATE mortar.credit_grants SET amount_uc = 1001 WHERE tenant_id = 'ver_b';
SELECT found();
ROLLBACK;

-- more spent than was ever given
BEGIN;
ALTER TABLE mortar.credit_ledger DISABLE TRIGGER USER;
UPDATE mortar.credit_ledger SET amount_uc = 1001 WHERE tenant_id = 'ver_a' AND kind = 'charge';
SELECT found();
ROLLBACK;

-- or by a tenant to whom nothing was given
BEGIN;
SELECT mortar.create_tenant('ver_c');
INSERT INTO mortar.usage_journal (tenant_id, meter, key_id, route, price_id, from_qty, upto_qty, minute, cost_uc, movement_id, epoch_id)
    SELECT 'ver_c', meter, key_id, route, price_id, from_qty, upto_qty, minute, cost_uc, movement_id, epoch_id
    FROM mortar.usage_journal WHERE tenant_id = 'ver_a';
INSERT INTO mortar.usage_marks SELECT 'ver_c', meter, key_id, route, price_id, upto_qty, cost_uc
    FROM mortar.usage_marks WHERE tenant_id = 'ver_a';
SELECT found('ver_c');
ROLLBACK;

-- burns: of a grant that is none, more than a grant, another sum than the usage's
-- cost, another than in the marks
BEGIN;
ALTER TABLE mortar.credit_burns DISABLE TRIGGER USER;
ALTER TABLE mortar.burn_marks DISABLE TRIGGER USER;
UPDATE mortar.credit_burns SET grant_id = '11111111-1111-1111-1111-111111111111' WHERE tenant_id = 'ver_a';
UPDATE mortar.burn_marks SET grant_id = '11111111-1111-1111-1111-111111111111' WHERE tenant_id = 'ver_a';
SELECT regexp_replace(found(), 'grant [0-9a-f]{8}-[-0-9a-f]+', 'grant');
ROLLBACK;
BEGIN;
ALTER TABLE mortar.credit_burns DISABLE TRIGGER USER;
ALTER TABLE mortar.burn_marks DISABLE TRIGGER USER;
UPDATE mortar.credit_burns SET amount_uc = amount_uc + 1000 WHERE tenant_id = 'ver_a';
UPDATE mortar.burn_marks SET burned_uc = burned_uc + 1000 WHERE tenant_id = 'ver_a';
SELECT found();
ROLLBACK;
BEGIN;
ALTER TABLE mortar.burn_marks DISABLE TRIGGER USER;
UPDATE mortar.burn_marks SET burned_uc = burned_uc - 1 WHERE tenant_id = 'ver_a';
SELECT found();
ROLLBACK;
BEGIN;
ALTER TABLE mortar.credit_burns DISABLE TRIGGER USER;
DELETE FROM mortar.credit_burns WHERE tenant_id = 'ver_a';
SELECT found();
ROLLBACK;
-- debt that was repaid and never was
BEGIN;
ALTER TABLE mortar.burn_marks DISABLE TRIGGER USER;
INSERT INTO mortar.burn_marks VALUES ('ver_b', 'debt', '00000000-0000-0000-0000-000000000000', -1);
SELECT found();
ROLLBACK;
-- a charge that another grant has paid: the sums are right, the grants are not
BEGIN;
ALTER TABLE mortar.credit_ledger DISABLE TRIGGER USER;
UPDATE mortar.credit_ledger SET grant_id = (SELECT grant_id FROM mortar.credit_grants WHERE tenant_id = 'ver_a' AND amount_uc = 500)
    WHERE tenant_id = 'ver_a' AND kind = 'charge';
SELECT regexp_replace(found(), 'grant [0-9a-f]{8}-[-0-9a-f]+', 'grant', 'g');
ROLLBACK;
-- half of a movement
BEGIN;
ALTER TABLE mortar.credit_ledger DISABLE TRIGGER USER;
UPDATE mortar.credit_ledger SET movement_id = gen_random_uuid() WHERE tenant_id = 'ver_a' AND kind = 'charge';
SELECT found();
ROLLBACK;

-- holds and reversals: of another amount, resolved twice or in part, too much
SELECT mortar.hold('ver_b', 10, '1 hour', 'h1') AS h1 \gset
SELECT mortar.hold('ver_b', 10, '1 hour', 'h2') AS h2 \gset
SELECT mortar.capture('ver_b', :'h1', 7, 'k1') IS NOT NULL AS captured;
SELECT mortar.charge('ver_b', 10, 'c1') AS c1 \gset
SELECT mortar.reverse('ver_b', :'c1', 'r1', 4) IS NOT NULL AS reversed;
SELECT found('ver_b');
BEGIN;
ALTER TABLE mortar.credit_holds DISABLE TRIGGER USER;
UPDATE mortar.credit_holds SET amount_uc = 11 WHERE hold_id = :'h2';
SELECT found();
DELETE FROM mortar.credit_holds WHERE hold_id = :'h2';
SELECT found();
ROLLBACK;
BEGIN;
ALTER TABLE mortar.credit_ledger DISABLE TRIGGER USER;
DELETE FROM mortar.credit_ledger WHERE reverses = :'h1' AND kind = 'release';
SELECT found('ver_b');
ROLLBACK;
BEGIN;
INSERT INTO mortar.credit_ledger (tenant_id, entry_id, movement_id, kind, from_account, to_account, amount_uc, effective_at, reverses, epoch_id)
    SELECT tenant_id, id, id, kind, 'held', 'consumed', 10, now(), reverses, epoch_id
    FROM mortar.credit_ledger, gen_random_uuid() id WHERE reverses = :'h1' AND kind = 'capture';
SELECT found('ver_b');
ROLLBACK;
BEGIN;
ALTER TABLE mortar.credit_ledger DISABLE TRIGGER USER;
UPDATE mortar.credit_ledger SET amount_uc = 11 WHERE reverses = :'c1';
SELECT found('ver_b');
ROLLBACK;

-- usage that is missing from the journal, or counted differently in the marks
BEGIN;
ALTER TABLE mortar.usage_journal DISABLE TRIGGER USER;
UPDATE mortar.usage_journal SET from_qty = 1 WHERE tenant_id = 'ver_a' AND from_qty = 0;
SELECT found();
ROLLBACK;
BEGIN;
ALTER TABLE mortar.usage_journal DISABLE TRIGGER USER;
UPDATE mortar.usage_journal SET cost_uc = cost_uc + 1 WHERE tenant_id = 'ver_a';
SELECT found();
ROLLBACK;
BEGIN;
ALTER TABLE mortar.usage_marks DISABLE TRIGGER USER;
UPDATE mortar.usage_marks SET upto_qty = upto_qty + 1 WHERE tenant_id = 'ver_a';
SELECT found();
ROLLBACK;
BEGIN;
ALTER TABLE mortar.usage_marks DISABLE TRIGGER USER;
DELETE FROM mortar.usage_marks WHERE tenant_id = 'ver_a';
SELECT found();
ROLLBACK;

-- a price that was changed afterwards
BEGIN;
ALTER TABLE mortar.prices DISABLE TRIGGER USER;
UPDATE mortar.prices SET num_uc = 4 WHERE price_id = (SELECT price_id FROM mortar.usage_journal WHERE tenant_id = 'ver_a');
SELECT found();
ROLLBACK;

-- an idempotency key that leads nowhere
BEGIN;
UPDATE mortar.idempotency SET result = gen_random_uuid() WHERE tenant_id = 'ver_a' AND key = 'c';
SELECT found();
ROLLBACK;

-- memory is looked at a few times, however many tenants there are
SELECT count(mortar.create_tenant('ver_m' || i)) FROM generate_series(1, 30) i;
BEGIN;
SET LOCAL track_functions = 'all';
SELECT bool_and(ok) FROM mortar.verify_ledger();
SELECT sum(calls) <= 12 FROM pg_stat_xact_user_functions WHERE funcname = 'slot_rows';
COMMIT;

-- nothing of it has stayed
SELECT found();
SELECT available_uc FROM mortar.balance('ver_a');
SELECT mortar.set_price('requests', 0, 1) IS NOT NULL AS free;
DROP FUNCTION found(text);
DROP ROLE regress_monitor;
