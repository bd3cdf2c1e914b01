-- Statements that run with Mortar's rights do not depend on the caller's search
-- path: types, operators and functions of the caller's own, in a schema or in
-- pg_temp, are not used, let alone run as somebody else.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin, regress_monitor, regress_app, regress_gate;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
CREATE ROLE regress_monitor LOGIN IN ROLE mortar_monitor;
CREATE ROLE regress_app LOGIN IN ROLE mortar_tenant;
CREATE ROLE regress_gate LOGIN IN ROLE mortar_gateway;
SELECT mortar.create_tenant('sea_a');
SELECT mortar.create_tenant('sea_b');
SELECT mortar.grant_credits('sea_a', 1000, 'g') IS NOT NULL AS granted;
SELECT mortar.record_usage('sea_a', 'requests', 5);
SELECT mortar.create_key('sea_a', 'k') AS key_a \gset

-- who ran a trap, and as whom
CREATE TABLE caught (login name, ran_as name, trap text);
GRANT INSERT, SELECT ON caught TO PUBLIC;
CREATE SCHEMA traps;
GRANT USAGE ON SCHEMA traps TO PUBLIC;
CREATE FUNCTION traps.caught(trap text) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.caught VALUES (session_user, current_user, trap);
    RETURN true;
END
$$;
-- operators between all types that Mortar's statements compare
DO $$
DECLARE
    t text;
    o text;
BEGIN
    FOREACH t IN ARRAY '{text,uuid,int8,int4,timestamptz,bool,jsonb,name,bytea}'::text[] LOOP
        EXECUTE format('CREATE FUNCTION traps.op(%1$s, %1$s) RETURNS bool LANGUAGE sql AS $f$SELECT traps.caught(''operator of %1$s'')$f$', t);
        FOREACH o IN ARRAY '{=,<>,<,<=,>,>=}'::text[] LOOP
            EXECUTE format('CREATE OPERATOR traps.%s (LEFTARG = %s, RIGHTARG = %2$s, FUNCTION = traps.op)', o, t);
        END LOOP;
    END LOOP;
END
$$;
CREATE FUNCTION traps.minus(int8, int8) RETURNS int8 LANGUAGE sql AS $$SELECT traps.caught('minus')::int::int8$$;
CREATE OPERATOR traps.- (LEFTARG = int8, RIGHTARG = int8, FUNCTION = traps.minus);
CREATE FUNCTION traps.unnest(anyarray) RETURNS SETOF anyelement LANGUAGE sql AS $$SELECT $1[1] WHERE traps.caught('unnest')$$;
CREATE FUNCTION traps.now() RETURNS timestamptz LANGUAGE sql AS $$SELECT pg_catalog.now() WHERE traps.caught('now')$$;
CREATE FUNCTION traps.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$SELECT pg_catalog.now() WHERE traps.caught('clock_timestamp')$$;
CREATE FUNCTION traps.date_trunc(text, timestamptz, text) RETURNS timestamptz LANGUAGE sql AS $$SELECT $2 WHERE traps.caught('date_trunc')$$;
CREATE FUNCTION traps.add(numeric, int8) RETURNS numeric LANGUAGE sql AS $$SELECT 1000000 WHERE traps.caught('sum')$$;
CREATE AGGREGATE traps.sum(int8) (SFUNC = traps.add, STYPE = numeric, INITCOND = '0');
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA traps TO PUBLIC;

-- the traps work: this is what a statement that looks for its types and
-- operators in the caller's path would run into
SET search_path = traps, pg_catalog;
SELECT 'a'::text = 'b'::text AS caught_by_the_operator;
RESET search_path;
SELECT * FROM caught;
TRUNCATE caught;

-- every session is a new one: nothing has been prepared in it
\set traps_in_temp 'CREATE DOMAIN pg_temp.int8 AS bigint CHECK (traps.caught(''domain int8'')); CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (traps.caught(''domain text'')); CREATE DOMAIN pg_temp.uuid AS pg_catalog.uuid CHECK (traps.caught(''domain uuid'')); CREATE DOMAIN pg_temp.timestamptz AS pg_catalog.timestamptz CHECK (traps.caught(''domain timestamptz'')); CREATE DOMAIN pg_temp.bool AS pg_catalog.bool CHECK (traps.caught(''domain bool''));'
\set as_tenant 'BEGIN; SELECT mortar.login(:\'key_a\') AS tenant; SELECT mortar.charge(\'sea_a\', 1, :\'k\') IS NOT NULL AS charged; SELECT meter, quantity FROM mortar.usage(\'sea_a\'); SELECT quantity FROM mortar.usage(\'sea_a\', by => \'{day}\', tz => \'UTC\'); SELECT available_uc FROM mortar.balance(\'sea_a\'); COMMIT;'
\set k c1
\c - regress_app
SET search_path = traps, pg_catalog;
:as_tenant
\set k c2
\c - regress_app
:traps_in_temp
:as_tenant
DISCARD TEMP;
-- the path is changed after the statements have been prepared
\set k c3
\c - regress_app
:as_tenant
\set k c4
SET search_path = traps, pg_catalog;
:as_tenant
-- back to what was the caller's
SHOW search_path;

\c - regress_admin
:traps_in_temp
SET search_path = traps, pg_catalog;
SELECT mortar.create_tenant('sea_c');
SELECT pg_catalog.length(mortar.grant_credits('sea_c', 1, 'k')::pg_catalog.text) AS id_length;
SELECT pg_catalog.length(mortar.create_key('sea_c', 'k')) AS key_length;
SELECT pg_catalog.count(mortar.revoke_key('sea_c', key_id)) AS revoked FROM mortar.keys WHERE tenant_id OPERATOR(pg_catalog.=) 'sea_c';
SELECT pg_catalog.count(mortar.set_price('requests', 0, 1)) AS price_set;
SELECT mortar.record_usage('sea_c', 'requests', 1);
SELECT quantity FROM mortar.usage('sea_c');
DISCARD TEMP;
RESET search_path;

\c - regress_monitor
:traps_in_temp
SET search_path = traps, pg_catalog;
SELECT pg_catalog.bool_and(ok) AS ok FROM mortar.verify_ledger('sea_a');
SELECT available_uc FROM mortar.balance('sea_a');
DISCARD TEMP;

\c - regress_gate
:traps_in_temp
SET search_path = traps, pg_catalog;
SELECT h.status FROM mortar.http('sea_a', 'POST', '/db/tables', NULL,
    ARRAY['apikey', :'key_a', 'content-type', 'application/json'], '{"name": "t"}', '127.0.0.1', 'r') h;
SELECT h.status FROM mortar.http('sea_a', 'POST', '/db/rows/t', NULL,
    ARRAY['apikey', :'key_a', 'content-type', 'application/json'], '{"a": 1}', '127.0.0.1', 'r') h;
SELECT h.status FROM mortar.http('sea_a', 'GET', '/db/rows/t', NULL, ARRAY['apikey', :'key_a'], NULL, '127.0.0.1', 'r') h;
SELECT h.status FROM mortar.http('sea_a', 'GET', '/usage/me', NULL, ARRAY['apikey', :'key_a'], NULL, '127.0.0.1', 'r') h;
SELECT h.status FROM mortar.http('sea_a', 'DELETE', '/db/tables/t', NULL, ARRAY['apikey', :'key_a'], NULL, '127.0.0.1', 'r') h;
DISCARD TEMP;

\c - :super
SET client_min_messages = warning;
-- no trap of a caller ran as another role than the caller's, or in Mortar's statements at all
SELECT DISTINCT login, ran_as, trap FROM caught WHERE ran_as LIKE 'mortar%' ORDER BY 1, 2, 3;
SELECT DISTINCT login, trap FROM caught ORDER BY 1, 2;
SELECT available_uc FROM mortar.balance('sea_a');
SELECT * FROM mortar.verify_ledger('sea_a') WHERE NOT ok;
DROP SCHEMA traps CASCADE;
DROP TABLE caught;
DROP ROLE regress_admin, regress_monitor, regress_app, regress_gate;
