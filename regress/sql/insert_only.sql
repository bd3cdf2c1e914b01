-- Ledger rows are never updated or deleted: not by an admin, not by the owner,
-- not by a superuser, not by a replication session.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
SELECT mortar.create_tenant('ins_a');
SELECT mortar.grant_credits('ins_a', 1000, 'g') IS NOT NULL AS granted;
SELECT mortar.charge('ins_a', 10, 'c') IS NOT NULL AS charged;
SELECT mortar.hold('ins_a', 10, '1 hour', 'h') IS NOT NULL AS held;
SELECT mortar.set_price('requests', 1, 1) IS NOT NULL AS priced;
SELECT mortar.record_usage('ins_a', 'requests', 5);
-- a row of each table must be there, the journal's comes with the next flush
DO $$BEGIN
    FOR i IN 1 .. 3000 LOOP
        EXIT WHEN EXISTS (SELECT FROM mortar.usage_journal WHERE tenant_id = 'ins_a');
        PERFORM pg_sleep(0.01);
        COMMIT;
    END LOOP;
END$$;

-- what each attempt ends in; every table is tried with every command, with and
-- without a row to hit
CREATE FUNCTION attempts() RETURNS TABLE (on_table text, command text, result text)
    LANGUAGE plpgsql AS $$
DECLARE
    s text;
BEGIN
    FOREACH on_table IN ARRAY '{credit_grants,credit_ledger,credit_holds,prices,usage_journal,credit_burns}'::text[] LOOP
        FOR command, s IN VALUES
            ('update', 'UPDATE mortar.%I SET ' || CASE on_table
                WHEN 'prices' THEN 'num_uc = num_uc + 1'
                WHEN 'usage_journal' THEN 'cost_uc = cost_uc + 1'
                ELSE 'amount_uc = amount_uc + 1' END),
            ('update nothing', 'UPDATE mortar.%I SET ' || CASE on_table
                WHEN 'prices' THEN 'num_uc = num_uc' WHEN 'usage_journal' THEN 'cost_uc = cost_uc'
                ELSE 'amount_uc = amount_uc' END || ' WHERE false'),
            ('delete', 'DELETE FROM mortar.%I'),
            ('truncate', 'TRUNCATE mortar.%I CASCADE')
        LOOP
            BEGIN
                EXECUTE format(s, on_table);
                result := 'CHANGED';
            EXCEPTION WHEN insufficient_privilege THEN
                result := 'refused';
            END;
            RETURN NEXT;
        END LOOP;
    END LOOP;
END
$$;
GRANT EXECUTE ON FUNCTION attempts() TO mortar_admin, mortar_owner;

SELECT * FROM attempts();
SET ROLE mortar_owner;
SELECT * FROM attempts() WHERE result <> 'refused';
RESET ROLE;
\c - regress_admin
SELECT * FROM attempts() WHERE result <> 'refused';
\c - :super
SET session_replication_role = replica;
SELECT * FROM attempts() WHERE result <> 'refused';
RESET session_replication_role;
-- ON CONFLICT DO UPDATE and MERGE are updates too
INSERT INTO mortar.prices SELECT * FROM mortar.prices WHERE meter = 'requests'
    ON CONFLICT (price_id) DO UPDATE SET num_uc = 0;
MERGE INTO mortar.credit_ledger l USING (VALUES ('ins_a')) v (t) ON l.tenant_id = v.t
    WHEN MATCHED THEN DELETE;
\set VERBOSITY terse
DELETE FROM mortar.credit_ledger;
\set VERBOSITY sqlstate

-- the error is a trigger's in PL/pgSQL: it does not need the library
SELECT DISTINCT l.lanname, t.tgenabled = 'A' AS always
    FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_language l ON l.oid = p.prolang
    WHERE t.tgname = 'refuse_change' AND NOT t.tgisinternal;

-- nothing has changed
SELECT kind, amount_uc FROM mortar.credit_ledger WHERE tenant_id = 'ins_a' ORDER BY entry_id;
SELECT amount_uc FROM mortar.credit_grants WHERE tenant_id = 'ins_a';
SELECT sum(cost_uc) AS cost_uc FROM mortar.usage_journal WHERE tenant_id = 'ins_a';
SELECT available_uc FROM mortar.balance('ins_a');
SELECT mortar.set_price('requests', 0, 1) IS NOT NULL AS free;

-- every row of the ledger is one balanced movement: others cannot be inserted
\set entry 'INSERT INTO mortar.credit_ledger (tenant_id, entry_id, kind, from_account, to_account, amount_uc, epoch_id, movement_id, effective_at, grant_id) SELECT ''ins_a'', gen_random_uuid(), v.*, gen_random_uuid(), gen_random_uuid(), now(), '
-- amounts
:entry NULL FROM (VALUES ('charge', 'debt', 'consumed', 0)) v;
:entry NULL FROM (VALUES ('charge', 'debt', 'consumed', -5)) v;
-- accounts, kinds
:entry gen_random_uuid() FROM (VALUES ('charge', 'consumed', 'available', 5)) v;
:entry gen_random_uuid() FROM (VALUES ('gift', 'issued', 'available', 5)) v;
:entry NULL FROM (VALUES ('release', 'available', 'held', 5)) v;
-- available is always of a grant, and nothing else is but what is captured
:entry NULL FROM (VALUES ('grant', 'issued', 'available', 5)) v;
:entry NULL FROM (VALUES ('charge', 'available', 'consumed', 5)) v;
:entry NULL FROM (VALUES ('release', 'held', 'available', 5)) v;
:entry gen_random_uuid() FROM (VALUES ('charge', 'debt', 'consumed', 5)) v;
:entry gen_random_uuid() FROM (VALUES ('reversal', 'consumed', 'issued', 5)) v;
-- these are the pairs that may be; nothing of it stays
BEGIN;
:entry NULL FROM (VALUES ('charge', 'debt', 'consumed', 5), ('charge', 'issued', 'consumed', 5),
    ('hold', 'debt', 'held', 5), ('capture', 'held', 'consumed', 5), ('release', 'held', 'debt', 5),
    ('reversal', 'consumed', 'debt', 5), ('reversal', 'consumed', 'issued', 5)) v;
:entry gen_random_uuid() FROM (VALUES ('grant', 'issued', 'available', 5), ('charge', 'available', 'consumed', 5),
    ('hold', 'available', 'held', 5), ('capture', 'held', 'consumed', 5), ('release', 'held', 'available', 5),
    ('reversal', 'consumed', 'available', 5), ('void', 'available', 'issued', 5)) v;
SELECT count(*) AS pairs FROM mortar.credit_ledger WHERE xid = pg_current_xact_id();
ROLLBACK;

-- who burned: a grant if and only if it is from a grant, and never nothing
\set burn 'INSERT INTO mortar.credit_burns (tenant_id, movement_id, epoch_id, from_account, grant_id, amount_uc) VALUES (''ins_a'', gen_random_uuid(), gen_random_uuid(), '
:burn 'available', '00000000-0000-0000-0000-000000000000', 1);
:burn 'debt', gen_random_uuid(), 1);
:burn 'consumed', '00000000-0000-0000-0000-000000000000', 1);
:burn 'debt', '00000000-0000-0000-0000-000000000000', 0);

-- a grant's terms
\set grant 'INSERT INTO mortar.credit_grants (tenant_id, grant_id, amount_uc, priority, category, effective_at, expires_at) VALUES (''ins_a'', gen_random_uuid(), '
:grant 0, 50, 'paid', now(), NULL);
:grant 1, -1, 'paid', now(), NULL);
:grant 1, 101, 'paid', now(), NULL);
:grant 1, 50, 'free', now(), NULL);
:grant 1, 50, 'paid', now(), now());
DROP FUNCTION attempts();
DROP ROLE regress_admin;
