-- What members of each role can really do: every function is called, every
-- relation read and written, by users who log in over connections of their own
-- and are no superusers.
\set ON_ERROR_STOP 1
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dblink;
DROP SCHEMA IF EXISTS attempt CASCADE;
CREATE SCHEMA attempt;
GRANT USAGE ON SCHEMA attempt TO PUBLIC;
DROP ROLE IF EXISTS regress_admin, regress_monitor, regress_tenant, regress_service, regress_gateway, regress_nobody;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
CREATE ROLE regress_monitor LOGIN IN ROLE mortar_monitor;
CREATE ROLE regress_tenant LOGIN IN ROLE mortar_tenant;
CREATE ROLE regress_service LOGIN IN ROLE mortar_service;
CREATE ROLE regress_gateway LOGIN IN ROLE mortar_gateway;
CREATE ROLE regress_nobody LOGIN;

-- names of functions that may be called: with nulls, where whoever may not call
-- is stopped by 42501 before anything else
CREATE FUNCTION attempt.calls() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT proname, a.*
            FROM pg_proc, LATERAL (SELECT string_agg('a' || i, ', ' ORDER BY i) AS names,
                string_agg(format('NULL::%s AS a%s', t::regtype, i), ', ' ORDER BY i) AS nulls
                FROM unnest(proargtypes) WITH ORDINALITY u (t, i)) a
            WHERE pronamespace = 'mortar'::regnamespace AND prorettype <> 'trigger'::regtype
    LOOP
        BEGIN
            -- a strict function would be optimized away with a constant null
            EXECUTE format('SELECT mortar.%I(%s) FROM (SELECT %s OFFSET 0) a', f.proname, f.names, f.nulls);
            RETURN NEXT f.proname;
        EXCEPTION
            WHEN insufficient_privilege THEN CONTINUE;
            WHEN OTHERS THEN RETURN NEXT f.proname;
        END;
    END LOOP;
END
$$;

-- names of relations for which a statement passes; it hits no row
CREATE FUNCTION attempt.passes(kinds text, statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT relname, (SELECT string_agg(attname, ', ') FROM pg_attribute
                WHERE attrelid = c.oid AND attnum > 0 AND attname <> 'hash') AS columns,
                (SELECT attname FROM pg_attribute WHERE attrelid = c.oid AND attnum = 1) AS first_column
            FROM pg_class c WHERE relnamespace = 'mortar'::regnamespace AND position(relkind IN kinds) > 0
    LOOP
        BEGIN
            EXECUTE replace(replace(replace(statement, '<relation>', format('mortar.%I', r.relname)),
                '<columns>', r.columns), '<column>', r.first_column);
            RETURN NEXT r.relname;
        EXCEPTION WHEN insufficient_privilege THEN CONTINUE;
        END;
    END LOOP;
END
$$;
CREATE FUNCTION attempt.reads() RETURNS SETOF text LANGUAGE sql AS
    $$SELECT attempt.passes('rv', 'SELECT <columns> FROM <relation> LIMIT 1')$$;
-- INSERT, UPDATE, DELETE, TRUNCATE and what takes a lock, one row per success
CREATE FUNCTION attempt.writes() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT 'INSERT ' || attempt.passes('r', 'INSERT INTO <relation> (<columns>) SELECT <columns> FROM <relation> WHERE false')
    UNION ALL SELECT 'UPDATE ' || attempt.passes('r', 'UPDATE <relation> SET <column> = <column> WHERE false')
    UNION ALL SELECT 'DELETE ' || attempt.passes('r', 'DELETE FROM <relation> WHERE false')
    UNION ALL SELECT 'TRUNCATE ' || attempt.passes('r', 'TRUNCATE <relation> CASCADE')
    UNION ALL SELECT 'ALTER ' || attempt.passes('r', 'ALTER TABLE <relation> ADD mine int')
    UNION ALL SELECT 'DISABLE ' || attempt.passes('r', 'ALTER TABLE <relation> DISABLE TRIGGER ALL')
    UNION ALL SELECT 'POLICY ' || attempt.passes('r', 'CREATE POLICY mine ON <relation> USING (true)')
    UNION ALL SELECT 'RULE ' || attempt.passes('rv', 'CREATE RULE mine AS ON INSERT TO <relation> DO NOTHING')$$;

-- what the last of some statements returns, or the SQLSTATE of the one that
-- failed; in a transaction block, as a member of the role who logs in for it
CREATE FUNCTION attempt.run(statements text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    n int := cardinality(statements);
BEGIN
    FOR i IN 1 .. n - 1 LOOP
        EXECUTE statements[i];
    END LOOP;
    RETURN QUERY EXECUTE statements[n];
EXCEPTION WHEN OTHERS THEN
    RETURN NEXT SQLSTATE;
END
$$;
CREATE FUNCTION attempt.login(role text, VARIADIC statements text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM dblink_connect('login', format('host=%s port=%s dbname=%s user=regress_%s',
        split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'),
        current_database(), role));
    PERFORM dblink_exec('login', 'BEGIN');
    RETURN QUERY SELECT r FROM dblink('login', format('SELECT attempt.run(%L)', statements)) d (r text);
    PERFORM dblink_exec('login', 'COMMIT');
    PERFORM dblink_disconnect('login');
END
$$;

SELECT plan(39);

SELECT set_eq($$SELECT attempt.login('admin', 'SELECT session_user || '' '' || usesuper FROM pg_user WHERE usename = session_user')$$,
    ARRAY['regress_admin false'], 'those who log in are members, no superusers');

-- functions
SELECT set_eq($$SELECT attempt.login('admin', 'SELECT attempt.calls()')$$,
    ARRAY['balance', 'capture', 'cell_rows', 'charge', 'close_tenant', 'create_key', 'create_tenant', 'credits', 'flusher_row',
        'freeze', 'grant_credits', 'hold', 'record_usage', 'resume_tenant', 'reverse', 'revoke_key', 'route_list', 'set_limit',
        'set_price', 'slot_rows', 'suspend_tenant', 'tenant_id', 'unfreeze', 'usage', 'verify_ledger', 'void_grant', 'void_hold'],
    'an admin calls everything but http, gateway_hello, login and enter');
SELECT set_eq($$SELECT attempt.login('monitor', 'SELECT attempt.calls()')$$,
    ARRAY['balance', 'cell_rows', 'credits', 'flusher_row', 'route_list', 'slot_rows', 'tenant_id', 'usage', 'verify_ledger'],
    'a monitor calls what only reads');
SELECT set_eq($$SELECT attempt.login('tenant', 'SELECT attempt.calls()')$$,
    ARRAY['balance', 'charge', 'credits', 'login', 'tenant_id', 'usage'],
    'a tenant calls login, charge, balance, usage and credits');
SELECT set_eq($$SELECT attempt.login('service', 'SELECT attempt.calls()')$$,
    ARRAY['balance', 'charge', 'credits', 'enter', 'login', 'tenant_id', 'usage'],
    'a service calls what a tenant may, and enter');
SELECT set_eq($$SELECT attempt.login('gateway', 'SELECT attempt.calls()')$$,
    ARRAY['gateway_hello', 'http', 'tenant_id'],
    'a gateway calls http and gateway_hello');
SELECT set_eq($$SELECT attempt.login('nobody', 'SELECT attempt.calls()')$$,
    ARRAY['tenant_id'],
    'anybody else calls tenant_id, which policies need');

-- reading
SELECT set_eq($$SELECT attempt.login('admin', 'SELECT attempt.reads()')$$,
    $$SELECT relname::text FROM pg_class WHERE relnamespace = 'mortar'::regnamespace AND relkind IN ('r', 'v')$$,
    'an admin reads every table and view');
SELECT set_eq($$SELECT attempt.login('monitor', 'SELECT attempt.reads()')$$,
    $$SELECT relname::text FROM pg_class WHERE relnamespace = 'mortar'::regnamespace AND relkind IN ('r', 'v')$$,
    'so does a monitor');
SELECT set_eq($$SELECT attempt.login('tenant', 'SELECT attempt.reads()')$$,
    ARRAY['doc_tables', 'doc_rows'], 'a tenant reads documents');
SELECT set_eq($$SELECT attempt.login('service', 'SELECT attempt.reads()')$$,
    ARRAY['doc_tables', 'doc_rows'], 'so does a service');
SELECT is_empty($$SELECT attempt.login('gateway', 'SELECT attempt.reads()')$$, 'a gateway reads nothing');
SELECT is_empty($$SELECT attempt.login('nobody', 'SELECT attempt.reads()')$$, 'nor does anybody else');
SELECT results_eq($$SELECT attempt.login('admin', 'SELECT hash::text FROM mortar.api_keys')$$, ARRAY['42501'],
    'the hash of a key is not even an admin''s to read');
SELECT results_eq($$SELECT attempt.login('monitor', 'SELECT hash::text FROM mortar.api_keys')$$, ARRAY['42501'],
    'nor a monitor''s');

-- writing
SELECT set_eq($$SELECT attempt.login('tenant', 'SELECT attempt.writes()')$$,
    ARRAY['INSERT doc_tables', 'UPDATE doc_tables', 'DELETE doc_tables', 'INSERT doc_rows', 'UPDATE doc_rows', 'DELETE doc_rows'],
    'a tenant writes documents');
SELECT set_eq($$SELECT attempt.login('service', 'SELECT attempt.writes()')$$,
    ARRAY['INSERT doc_tables', 'UPDATE doc_tables', 'DELETE doc_tables', 'INSERT doc_rows', 'UPDATE doc_rows', 'DELETE doc_rows'],
    'so does a service');
SELECT is_empty($$SELECT attempt.login('admin', 'SELECT attempt.writes()')$$,
    'an admin writes no table: functions do');
SELECT is_empty($$SELECT attempt.login('monitor', 'SELECT attempt.writes()')$$, 'a monitor writes nothing');
SELECT is_empty($$SELECT attempt.login('gateway', 'SELECT attempt.writes()')$$, 'a gateway writes nothing');
SELECT is_empty($$SELECT attempt.login('nobody', 'SELECT attempt.writes()')$$, 'nobody else writes anything');
SELECT set_eq($$SELECT attempt.login(r, 'CREATE FUNCTION mortar.mine() RETURNS int LANGUAGE sql AS ''SELECT 1''', 'SELECT ''created''')
        FROM unnest('{admin,monitor,tenant,service,gateway,nobody}'::text[]) r$$, ARRAY['42501'],
    'nobody creates anything in the schema');
SELECT set_eq($$SELECT attempt.login(r, 'SET ROLE mortar_owner', 'SELECT ''became owner''')
        FROM unnest('{admin,monitor,tenant,service,gateway,nobody}'::text[]) r$$, ARRAY['42501'],
    'nobody becomes mortar_owner');

-- a working day; <tenant> is new in each run, because a tenant is for ever
CREATE TABLE attempt.day AS SELECT 'pgtap-' || replace(gen_random_uuid()::text, '-', '') AS tenant, ''::text AS key;
CREATE FUNCTION attempt.day(role text, VARIADIC statements text[]) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT attempt.login(role, VARIADIC array_agg(
        replace(replace(s, '<tenant>', quote_literal(tenant)), '<key>', quote_literal(key)) ORDER BY i))
    FROM unnest(statements) WITH ORDINALITY u (s, i), attempt.day GROUP BY tenant$$;

SELECT isnt_empty($$SELECT attempt.day('admin', 'SELECT mortar.create_tenant(<tenant>)') INTERSECT SELECT tenant FROM attempt.day$$,
    'an admin creates a tenant');
SELECT results_eq($$SELECT attempt.day('admin', 'SELECT (mortar.grant_credits(<tenant>, 1000, ''g'') IS NOT NULL)::text')$$,
    ARRAY['true'], 'grants it credits');
UPDATE attempt.day SET key = (SELECT attempt.day('admin', 'SELECT mortar.create_key(<tenant>, ''k'')'));
SELECT matches((SELECT key FROM attempt.day), '^mortar_sk_', 'makes a key');
SELECT results_eq($$SELECT attempt.day('admin', 'SELECT (mortar.set_price(''requests'', 0, 1) IS NOT NULL)::text')$$,
    ARRAY['true'], 'sets prices');
SELECT results_eq($$SELECT attempt.day('admin', 'SELECT mortar.record_usage(<tenant>, ''requests'', 7)::text')$$,
    ARRAY[''], 'records usage');
SELECT results_eq($$SELECT attempt.day('monitor', 'SELECT quantity::text FROM mortar.usage(<tenant>)')$$,
    ARRAY['7'], 'which a monitor sees');
SELECT results_eq($$SELECT attempt.day('monitor', 'SELECT available_uc::text FROM mortar.balance(<tenant>)')$$,
    ARRAY['1000'], 'with the balance');
SELECT results_eq($$SELECT attempt.day('monitor', 'SELECT count(*)::text FROM mortar.credit_ledger WHERE tenant_id = <tenant>')$$,
    ARRAY['1'], 'and the ledger');
SELECT results_eq($$SELECT attempt.day('monitor', 'SELECT bool_and(ok)::text FROM mortar.verify_ledger(<tenant>)')$$,
    ARRAY['true'], 'and that all adds up');
SELECT results_eq($$SELECT attempt.day('tenant', 'SELECT mortar.login(<key>)',
        'SELECT (mortar.charge(<tenant>, 10, ''c'') IS NOT NULL)::text')$$,
    ARRAY['true'], 'a tenant charges itself, with its key');
SELECT results_eq($$SELECT attempt.day('tenant', 'SELECT mortar.charge(<tenant>, 10, ''d'')::text')$$,
    ARRAY['42501'], 'and not without');
SELECT results_eq($$SELECT attempt.day('tenant', 'SELECT available_uc::text FROM mortar.balance(<tenant>)')$$,
    ARRAY['42501'], 'nor does it read a balance without');
SELECT results_eq($$SELECT attempt.day('service', 'SELECT mortar.enter(<tenant>)',
        'SELECT available_uc::text FROM mortar.balance(<tenant>)')$$,
    ARRAY['990'], 'a service enters the tenant and reads its balance');
SELECT results_eq($$SELECT attempt.day('gateway', 'SELECT (refusal IS NULL)::text FROM mortar.gateway_hello(1, ''1.0'')')$$,
    ARRAY['true'], 'a gateway is welcomed');
SELECT results_eq($$SELECT attempt.day('gateway', 'SELECT h.status::text FROM mortar.http(<tenant>, ''GET'', ''/db/tables'', NULL, '
        'ARRAY[''apikey'', <key>], NULL, ''127.0.0.1'', ''r'') h')$$,
    ARRAY['200'], 'and answers a request');
SELECT results_eq($$SELECT attempt.day('gateway', 'SELECT h.status::text FROM mortar.http(<tenant>, ''GET'', ''/db/tables'', NULL, '
        'ARRAY[''apikey'', ''mortar_sk_x''], NULL, ''127.0.0.1'', ''r'') h')$$,
    ARRAY['401'], 'or refuses one');
SELECT * FROM finish();

DROP SCHEMA attempt CASCADE;
DROP ROLE regress_admin, regress_monitor, regress_tenant, regress_service, regress_gateway, regress_nobody;
