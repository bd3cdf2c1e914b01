-- No tenant context, no rows.  The context is set only by C code that verified
-- a credential or a trusted caller, no SQL statement can forge it, and it ends
-- with its transaction.
--
-- Shown on a product's own tables, with both forms of the policy, and on
-- Mortar's document tables, as users who log in with no more than their roles.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_app, regress_backend, regress_gate;
CREATE ROLE regress_app LOGIN IN ROLE mortar_tenant;
CREATE ROLE regress_backend LOGIN IN ROLE mortar_service;
CREATE ROLE regress_gate LOGIN IN ROLE mortar_gateway;

SELECT mortar.create_tenant('ctx_a');
SELECT mortar.create_tenant('ctx_b');
SELECT mortar.grant_credits('ctx_a', 1000000, 'g') IS NOT NULL AS granted;
SELECT mortar.grant_credits('ctx_b', 1000000, 'g') IS NOT NULL AS granted;
SELECT mortar.create_key('ctx_a', 'a') AS key_a \gset
SELECT mortar.create_key('ctx_b', 'b') AS key_b \gset

-- a policy with the function, and one with the setting that shows the same
CREATE TABLE orders (
    tenant_id text COLLATE "C" NOT NULL,
    id int NOT NULL,
    PRIMARY KEY (tenant_id, id));
CREATE TABLE invoices (LIKE orders INCLUDING ALL);
CREATE POLICY own ON orders
    USING (tenant_id = (SELECT mortar.tenant_id()))
    WITH CHECK (tenant_id = (SELECT mortar.tenant_id()));
CREATE POLICY own ON invoices
    USING (tenant_id = current_setting('mortar.tenant_id'))
    WITH CHECK (tenant_id = current_setting('mortar.tenant_id'));
INSERT INTO orders SELECT t, i FROM unnest('{ctx_a,ctx_b}'::text[]) t, generate_series(1, 3) i;
INSERT INTO invoices TABLE orders;
INSERT INTO mortar.doc_tables (tenant_id, name, created_at)
    SELECT t, n, '2026-01-01 00:00Z' FROM (VALUES ('ctx_a', 'notes'), ('ctx_b', 'notes'), ('ctx_a', 'only of a'), ('ctx_b', 'only of b')) v (t, n);
INSERT INTO mortar.doc_rows (tenant_id, table_name, row_id, doc)
    SELECT tenant_id, 'notes', gen_random_uuid(), '{}' FROM orders;
ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
ALTER TABLE orders FORCE ROW LEVEL SECURITY;
ALTER TABLE invoices ENABLE ROW LEVEL SECURITY;
ALTER TABLE invoices FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE, DELETE ON orders, invoices TO mortar_tenant;

-- what a session sees: its context, and whose rows
CREATE VIEW seen WITH (security_invoker = true) AS
    SELECT coalesce(mortar.tenant_id(), '-') AS tenant_id,
        current_setting('mortar.tenant_id') AS setting,
        (SELECT string_agg(tenant_id, ',' ORDER BY tenant_id, id) FROM orders) AS orders,
        (SELECT string_agg(tenant_id, ',' ORDER BY tenant_id, id) FROM invoices) AS invoices,
        (SELECT string_agg(tenant_id, ',' ORDER BY tenant_id) FROM mortar.doc_rows) AS documents;
GRANT SELECT ON seen TO mortar_tenant;

\c - regress_app

--
-- No context: no rows, and no row can be written
--
TABLE seen;
INSERT INTO orders VALUES ('ctx_a', 9);
INSERT INTO invoices VALUES ('ctx_a', 9);
INSERT INTO mortar.doc_tables (tenant_id, name) VALUES ('ctx_a', 'none');
WITH gone AS (DELETE FROM orders RETURNING 1) SELECT count(*) AS deleted FROM gone;
WITH gone AS (DELETE FROM invoices RETURNING 1) SELECT count(*) AS deleted FROM gone;
WITH gone AS (DELETE FROM mortar.doc_rows RETURNING 1) SELECT count(*) AS deleted FROM gone;

--
-- A context holds to the end of its transaction, and no longer: tenant A, then
-- tenant B, then nobody, on one connection
--
BEGIN;
SELECT mortar.login(:'key_a');
TABLE seen;
COMMIT;
TABLE seen;
BEGIN;
SELECT mortar.login(:'key_b');
TABLE seen;
COMMIT;
TABLE seen;

-- also when the transaction ends by ROLLBACK, and by an error
BEGIN;
SELECT mortar.login(:'key_a');
ROLLBACK;
TABLE seen;
BEGIN;
SELECT mortar.login(:'key_a');
SELECT 1/0;
COMMIT;
TABLE seen;

-- COMMIT AND CHAIN starts another transaction, without the context
BEGIN;
SELECT mortar.login(:'key_a');
COMMIT AND CHAIN;
TABLE seen;
COMMIT;

-- ROLLBACK TO takes back a context that was set after the savepoint
BEGIN;
SAVEPOINT s;
SELECT mortar.login(:'key_a');
ROLLBACK TO s;
TABLE seen;
SELECT mortar.login(:'key_b');
TABLE seen;
COMMIT;

-- and leaves alone one that was set before it
BEGIN;
SELECT mortar.login(:'key_a');
SAVEPOINT s;
SELECT 1/0;
ROLLBACK TO s;
SELECT tenant_id, orders FROM seen;
COMMIT;

-- a released savepoint hands the context to its transaction
BEGIN;
SAVEPOINT s;
SELECT mortar.login(:'key_a');
RELEASE s;
SELECT tenant_id, orders FROM seen;
COMMIT;
TABLE seen;

--
-- One transaction, one tenant: a second context raises 55000
--
BEGIN;
SELECT mortar.login(:'key_a');
SELECT mortar.login(:'key_a') AS same_again;
SELECT mortar.login(:'key_b');
ROLLBACK;
-- in one implicit transaction too: two statements in one message
SELECT mortar.login(:'key_a')\; SELECT mortar.login(:'key_b');
BEGIN\; SELECT mortar.login(:'key_a')\; SELECT mortar.login(:'key_b');
ROLLBACK;
-- and two calls of the gateway's function, whatever it said to the first
\c - regress_gate
PREPARE call AS SELECT h.status, convert_from(h.body, 'UTF8') AS body
    FROM mortar.http($1, 'GET', '/db/tables', NULL, ARRAY['apikey', $2], NULL, '127.0.0.1', 'r') h;
EXECUTE call ('ctx_a', :'key_a')\; EXECUTE call ('ctx_b', :'key_b');
EXECUTE call ('ctx_a', :'key_a')\; EXECUTE call ('ctx_a', :'key_b')\; SELECT mortar.tenant_id();
-- the same prepared call, for A and B in turn, on one connection
\set call_a 'EXECUTE call (\'ctx_a\', :\'key_a\');'
\set call_b 'EXECUTE call (\'ctx_b\', :\'key_b\');'
\pset tuples_only on
\pset format unaligned
:call_a
:call_b
:call_a
:call_b
:call_a
:call_b
:call_a
:call_b
:call_a
:call_b
SET plan_cache_mode = force_generic_plan;
:call_a
:call_b
\pset format aligned
\pset tuples_only off
SELECT mortar.tenant_id();
\c - regress_app

--
-- A credential that does not prove anything sets nothing
--
BEGIN;
SELECT mortar.login('ctx_a');
ROLLBACK;
BEGIN;
SELECT mortar.login('');
ROLLBACK;
BEGIN;
SELECT mortar.login(NULL);
ROLLBACK;
BEGIN;
-- one character of the secret is another one
SELECT mortar.login(overlay(:'key_a' PLACING
    CASE substr(:'key_a', 40, 1) WHEN 'x' THEN 'y' ELSE 'x' END FROM 40));
ROLLBACK;
BEGIN;
SELECT mortar.login(:'key_a' || 'x');
ROLLBACK;
TABLE seen;

--
-- In autocommit a context would protect nothing: 25P01, with a hint
--
SELECT mortar.login(:'key_a');
\echo :LAST_ERROR_MESSAGE
TABLE seen;

--
-- Nothing that SQL can say forges a context
--
SET mortar.tenant_id = 'ctx_a';
SET LOCAL mortar.tenant_id = 'ctx_a';
SELECT set_config('mortar.tenant_id', 'ctx_a', false);
SELECT set_config('mortar.tenant_id', 'ctx_a', true);
UPDATE pg_settings SET setting = 'ctx_a' WHERE name = 'mortar.tenant_id';
SET mortar.no_such_setting = 'ctx_a';
ALTER ROLE regress_app SET mortar.tenant_id = 'ctx_a';
ALTER DATABASE contrib_regression SET mortar.tenant_id = 'ctx_a';
CREATE FUNCTION pg_temp.forge() RETURNS text LANGUAGE sql
    SET mortar.tenant_id = 'ctx_a' AS 'SELECT mortar.tenant_id()';
-- functions of one's own do not stand in for Mortar's
CREATE FUNCTION pg_temp.tenant_id() RETURNS text LANGUAGE sql AS $$SELECT 'ctx_a'$$;
SET search_path = pg_temp, mortar, public;
SELECT pg_temp.tenant_id() AS mine;
TABLE seen;
RESET search_path;
SELECT mortar.enter('ctx_a');
CREATE FUNCTION mortar.sneak() RETURNS text LANGUAGE sql AS 'SELECT 1';
TABLE seen;

-- nor does becoming somebody else
SET ROLE mortar_owner;
SET ROLE mortar_admin;
SET ROLE mortar_service;
SET SESSION AUTHORIZATION mortar_owner;
SET ROLE mortar_tenant;
TABLE seen;
RESET ROLE;
TABLE seen;
RESET SESSION AUTHORIZATION;
SELECT session_user;
SET row_security = off;
TABLE seen;
RESET row_security;
ALTER TABLE orders DISABLE ROW LEVEL SECURITY;
CREATE POLICY mine ON orders USING (true);
DROP POLICY own ON orders;
ALTER TABLE mortar.doc_rows NO FORCE ROW LEVEL SECURITY;
-- inside a context they do not show more than the tenant's own
BEGIN;
SELECT mortar.login(:'key_a');
SAVEPOINT s;
SET LOCAL mortar.tenant_id = 'ctx_b';
ROLLBACK TO s;
RESET ALL;
DISCARD PLANS;
TABLE seen;
ROLLBACK;

--
-- One prepared statement serves A and B in turn, whatever plan it has
--
PREPARE mine AS SELECT tenant_id, orders, invoices, documents FROM seen;
\set as_a 'BEGIN; SELECT mortar.login(:\'key_a\') IS NOT NULL AS logged_in; EXECUTE mine; COMMIT;'
\set as_b 'BEGIN; SELECT mortar.login(:\'key_b\') IS NOT NULL AS logged_in; EXECUTE mine; COMMIT;'
\pset tuples_only on
:as_a
:as_b
:as_a
:as_b
:as_a
:as_b
:as_a
:as_b
:as_a
:as_b
EXECUTE mine;
SET plan_cache_mode = force_generic_plan;
:as_a
:as_b
EXECUTE mine;
:as_a
:as_b
SELECT generic_plans > 0 AS ran_a_generic_plan FROM pg_prepared_statements WHERE name = 'mine';
\pset tuples_only off

--
-- The product's own back end enters a tenant that it has proven by other means
--
\c - regress_backend
SELECT mortar.enter('ctx_a');
BEGIN;
SELECT mortar.enter('ctx_a');
TABLE seen;
SELECT mortar.enter('ctx_b');
ROLLBACK;
BEGIN;
SELECT mortar.enter('ctx_absent');
ROLLBACK;
BEGIN;
SELECT mortar.enter('No Tenant Id');
ROLLBACK;
BEGIN;
SELECT mortar.enter(NULL);
ROLLBACK;
TABLE seen;

--
-- A cursor WITH HOLD outlives its transaction and with it the context: it has the
-- rows of the tenant for whom it was opened, whomever its connection serves next
--
BEGIN;
SELECT mortar.enter('ctx_a');
DECLARE begun CURSOR WITH HOLD FOR SELECT tenant_id, id FROM orders ORDER BY id;
FETCH begun;
-- these are read when the transaction ends
DECLARE not_begun CURSOR WITH HOLD FOR SELECT tenant_id, id FROM invoices ORDER BY id;
DECLARE documents CURSOR WITH HOLD FOR SELECT tenant_id FROM mortar.doc_rows;
COMMIT;
TABLE seen;
FETCH begun;
FETCH not_begun;
BEGIN;
SELECT mortar.enter('ctx_b');
FETCH ALL begun;
FETCH ALL not_begun;
FETCH ALL documents;
TABLE seen;
COMMIT;
FETCH BACKWARD ALL begun;
-- one of a transaction that is rolled back has nothing, and one that was opened
-- without a context shows nothing in a later one
CLOSE ALL;
BEGIN;
SELECT mortar.enter('ctx_a');
DECLARE undone CURSOR WITH HOLD FOR SELECT tenant_id, id FROM orders;
ROLLBACK;
FETCH ALL undone;
DECLARE nobody CURSOR WITH HOLD FOR SELECT tenant_id, id FROM orders;
BEGIN;
SELECT mortar.enter('ctx_a');
FETCH ALL nobody;
COMMIT;
-- what a connection pool says before it hands the connection on ends it
BEGIN;
SELECT mortar.enter('ctx_a');
DECLARE handed_on CURSOR WITH HOLD FOR SELECT tenant_id, id FROM orders;
COMMIT;
DISCARD ALL;
FETCH ALL handed_on;

DISCARD TEMP;
\c - :super
DROP VIEW seen;
DROP TABLE orders, invoices;
DROP ROLE regress_app, regress_backend, regress_gate;
