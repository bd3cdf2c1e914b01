-- Who may call what: the rights on every function of schema mortar, compared
-- with the list below.  A function that is not in the list fails the test.
\set ON_ERROR_STOP 1
BEGIN;
SELECT plan(9);

-- every function with those who may execute it, its owner aside
CREATE TEMP TABLE expected (signature text, grantees text);
INSERT INTO expected VALUES
    ('balance(text)', 'mortar_admin mortar_monitor mortar_tenant'),
    ('charge(text,bigint,text,jsonb,text)', 'mortar_admin mortar_tenant'),
    ('capture(text,uuid,bigint,text)', 'mortar_admin'),
    ('close_tenant(text)', 'mortar_admin'),
    ('create_key(text,text,text[],timestamp with time zone,timestamp with time zone)', 'mortar_admin'),
    ('create_tenant(text,text,text)', 'mortar_admin'),
    ('credits(numeric)', 'mortar_admin mortar_monitor mortar_tenant'),
    ('enter(text)', 'mortar_service'),
    ('flusher_row()', 'mortar_admin mortar_monitor'),
    ('"freeze"(text)', 'mortar_admin'),
    ('gateway_hello(integer,text)', 'mortar_gateway'),
    ('grant_credits(text,bigint,text,integer,text,timestamp with time zone,timestamp with time zone)', 'mortar_admin'),
    ('hold(text,bigint,interval,text,jsonb)', 'mortar_admin'),
    ('http(text,text,bytea,bytea,text[],bytea,inet,text)', 'mortar_gateway'),
    ('is_entry(text,text,text,bigint,uuid)', ''),
    ('login(text)', 'mortar_tenant'),
    ('note_write()', ''),
    ('record_usage(text,text,bigint,text)', 'mortar_admin'),
    ('refuse_change()', ''),
    ('resume_tenant(text)', 'mortar_admin'),
    ('reverse(text,uuid,text,bigint)', 'mortar_admin'),
    ('revoke_key(text,uuid)', 'mortar_admin'),
    ('route_list()', 'mortar_admin mortar_monitor'),
    ('set_limit(text,text,bigint,bigint,text)', 'mortar_admin'),
    ('set_price(text,bigint,bigint,text,text,timestamp with time zone)', 'mortar_admin'),
    ('slot_rows()', 'mortar_admin mortar_monitor'),
    ('cell_rows()', 'mortar_admin mortar_monitor'),
    ('suspend_tenant(text,text)', 'mortar_admin'),
    ('tenant_id()', 'PUBLIC'),
    ('unfreeze(text)', 'mortar_admin'),
    ('usage(text,timestamp with time zone,timestamp with time zone,text[],text)', 'mortar_admin mortar_monitor mortar_tenant'),
    ('verify_ledger(text)', 'mortar_admin mortar_monitor'),
    ('verify_slots(text)', ''),
    ('void_grant(text,uuid,text,text)', 'mortar_admin'),
    ('void_hold(text,uuid,text)', 'mortar_admin');

CREATE TEMP VIEW functions AS
    SELECT p.*, regexp_replace(p.oid::regprocedure::text, '^mortar\.', '') AS signature
    FROM pg_catalog.pg_proc p
    WHERE p.pronamespace = 'mortar'::regnamespace;

SELECT set_eq(
    $$SELECT f.signature, coalesce((
            SELECT string_agg(coalesce(r.rolname, 'PUBLIC'), ' ' ORDER BY r.rolname)
            FROM aclexplode(coalesce(f.proacl, acldefault('f', f.proowner))) a
            LEFT JOIN pg_roles r ON r.oid = a.grantee
            WHERE a.grantee <> f.proowner), '')
        FROM functions f$$,
    'TABLE expected',
    'every function is executed by exactly those whom it is granted to');

SELECT is_empty(
    $$SELECT f.signature, r.rolname FROM functions f,
        LATERAL aclexplode(coalesce(f.proacl, acldefault('f', f.proowner))) a
        JOIN pg_roles r ON r.oid = a.grantee
        WHERE a.is_grantable AND a.grantee <> f.proowner$$,
    'nobody can pass on a right to execute');

SELECT is_empty(
    $$SELECT signature, proowner::regrole FROM functions WHERE proowner <> 'mortar_owner'::regrole$$,
    'every function belongs to mortar_owner, who is no superuser');

SELECT set_eq(
    $$SELECT signature FROM functions WHERE prosecdef$$,
    ARRAY['verify_ledger(text)', 'verify_slots(text)'],
    'only the checks of the ledger run with their owner''s rights');

SELECT is_empty(
    $$SELECT signature FROM functions
        WHERE prosecdef AND NOT coalesce(proconfig @> '{"search_path=pg_catalog, pg_temp"}', false)$$,
    'and those pin the search path, the temporary schema last');

-- a SET clause costs more than the call itself
SELECT set_eq(
    $$SELECT signature FROM functions WHERE proconfig IS NOT NULL$$,
    ARRAY['refuse_change()', 'verify_ledger(text)', 'verify_slots(text)'],
    'no other function has a SET clause');

SELECT set_eq(
    $$SELECT signature, provolatile::text, proparallel::text, proleakproof FROM functions
        WHERE provolatile <> 'v' OR proparallel <> 'u' OR proleakproof$$,
    $$VALUES ('credits(numeric)', 'i', 's', false),
        ('is_entry(text,text,text,bigint,uuid)', 'i', 's', false),
        ('route_list()', 's', 's', false),
        ('tenant_id()', 's', 'r', true)$$,
    'all that may load a tenant is volatile and parallel unsafe; tenant_id() is stable, restricted and leakproof');

SELECT set_eq(
    $$SELECT signature FROM functions WHERE prolang <> (SELECT oid FROM pg_language WHERE lanname = 'c')$$,
    ARRAY['refuse_change()', 'verify_ledger(text)', 'verify_slots(text)'],
    'insert-only tables and the checks need no library');

-- the gateway knows two functions and nothing else in the database that is ours
SELECT set_eq(
    $$SELECT signature FROM functions WHERE has_function_privilege('mortar_gateway', oid, 'EXECUTE')$$,
    ARRAY['gateway_hello(integer,text)', 'http(text,text,bytea,bytea,text[],bytea,inet,text)', 'tenant_id()'],
    'mortar_gateway may call http, gateway_hello and what is public');

SELECT * FROM finish();
ROLLBACK;
