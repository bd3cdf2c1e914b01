-- A tenant's state: suspended, it may not call, and its ledger goes on; closed,
-- it never calls again, and everything is kept.  What is rolled back did not
-- happen.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin, regress_app, regress_service, regress_gateway, regress_monitor;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
CREATE ROLE regress_app LOGIN IN ROLE mortar_tenant;
CREATE ROLE regress_service LOGIN IN ROLE mortar_service;
CREATE ROLE regress_gateway LOGIN IN ROLE mortar_gateway;
CREATE ROLE regress_monitor LOGIN IN ROLE mortar_monitor;
\c - regress_admin
SELECT mortar.create_tenant('lif_a');
SELECT mortar.create_tenant('lif_b');
SELECT mortar.grant_credits('lif_a', 1000, 'g') IS NOT NULL AS granted;
SELECT mortar.grant_credits('lif_b', 1000, 'g') IS NOT NULL AS granted;
SELECT mortar.set_price('requests', 1, 1) IS NOT NULL AS priced;
SELECT mortar.create_key('lif_a', 'a') AS key_a \gset
SELECT mortar.create_key('lif_b', 'b') AS key_b \gset
SELECT mortar.create_key('lif_a', 'few', scopes => '{usage}') AS key_few \gset
SELECT mortar.record_usage('lif_a', 'requests', 10);
\set states 'SELECT tenant_id, state, state_reason, state_changed_at > created_at AS changed FROM mortar.tenants WHERE tenant_id LIKE ''lif\\_%'' ORDER BY 1;'
\set books 'SELECT available_uc, held_uc, debt_uc, state, (SELECT count(*) FROM mortar.credit_ledger WHERE tenant_id = ''lif_a'') AS entries, (SELECT sum(quantity) FROM mortar.usage(''lif_a'')) AS used FROM mortar.balance(''lif_a'');'
:states
:books

-- one call per line: its status and code
\set call 'SELECT h.status, convert_from(h.body, ''UTF8'')::json->>''code'' AS code, convert_from(h.body, ''UTF8'')::json->>''detail'' AS detail FROM mortar.http'
\set rest ', NULL, ''127.0.0.1'', ''r'') h;'

-- ---- suspended ----
-- inside a transaction it is its own business
BEGIN;
SELECT mortar.suspend_tenant('lif_a', 'unpaid') AS suspended;
:states
SELECT state FROM mortar.balance('lif_a');
SELECT mortar.record_usage('lif_a', 'requests', 1);
ROLLBACK;
:books
-- so it is with savepoints, released or not
BEGIN;
SAVEPOINT one;
SELECT mortar.suspend_tenant('lif_a', 'unpaid') AS suspended;
SAVEPOINT two;
SELECT mortar.close_tenant('lif_a') AS closed;
SELECT state FROM mortar.balance('lif_a');
ROLLBACK TO two;
SELECT state FROM mortar.balance('lif_a');
SELECT mortar.resume_tenant('lif_a') AS resumed;
SELECT mortar.suspend_tenant('lif_a', 'fraud') AS suspended;
RELEASE one;
SELECT state FROM mortar.balance('lif_a');
SAVEPOINT three;
SELECT mortar.resume_tenant('lif_a') AS resumed;
SELECT state FROM mortar.balance('lif_a');
ROLLBACK TO three;
SELECT state FROM mortar.balance('lif_a');
SAVEPOINT four;
SELECT mortar.resume_tenant('lif_a') AS resumed;
RELEASE four;
COMMIT;
:states
:books
-- what a block of PL/pgSQL catches did not happen
DO $$
BEGIN
    PERFORM mortar.close_tenant('lif_a');
    RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN NULL;
END $$;
:books
-- created and suspended at once
BEGIN;
SELECT mortar.create_tenant('lif_new');
SELECT mortar.suspend_tenant('lif_new', 'to be checked') AS suspended;
COMMIT;
SELECT state FROM mortar.balance('lif_new');
BEGIN;
SELECT mortar.create_tenant('lif_never');
SELECT mortar.close_tenant('lif_never') AS closed;
ROLLBACK;
SELECT mortar.create_tenant('lif_never');
SELECT state FROM mortar.balance('lif_never');

-- PREPARE is refused
BEGIN;
SELECT mortar.suspend_tenant('lif_a', 'unpaid') AS suspended;
PREPARE TRANSACTION 'mortar_life';
BEGIN;
SELECT mortar.close_tenant('lif_a') AS closed;
PREPARE TRANSACTION 'mortar_life';
:books

SELECT mortar.suspend_tenant('lif_a', 'unpaid invoice') AS suspended;
SELECT mortar.suspend_tenant('lif_a', 'another reason') AS again;
:states
\c - regress_gateway
-- every call is refused: whatever it asks for, also what costs nothing and what
-- is no route
:call('lif_a', 'GET', '/db/tables', NULL, ARRAY['apikey', :'key_a']:rest
:call('lif_a', 'POST', '/db/tables', NULL, ARRAY['apikey', :'key_a']:rest
:call('lif_a', 'HEAD', '/usage/me', NULL, ARRAY['apikey', :'key_a']:rest
:call('lif_a', 'GET', '/usage/me', NULL, ARRAY['apikey', :'key_a']:rest
:call('lif_a', 'GET', '/nothing', NULL, ARRAY['apikey', :'key_a']:rest
:call('lif_a', 'PATCH', '/db/tables', NULL, ARRAY['apikey', :'key_a']:rest
:call('lif_a', 'GET', '/db/tables', NULL, ARRAY['apikey', :'key_few']:rest
-- but who has no key, or another tenant's, does not learn of it
:call('lif_a', 'GET', '/db/tables', NULL, NULL:rest
:call('lif_a', 'GET', '/db/tables', NULL, ARRAY['apikey', :'key_b']:rest
:call('lif_b', 'GET', '/db/tables', NULL, ARRAY['apikey', :'key_a']:rest
SELECT h.status FROM mortar.http('lif_b', 'GET', '/db/tables', NULL, ARRAY['apikey', :'key_b']:rest
\c - regress_app
BEGIN;
SELECT mortar.login(:'key_a');
\echo :LAST_ERROR_MESSAGE
ROLLBACK;
BEGIN;
SELECT mortar.login(:'key_b');
COMMIT;
\c - regress_service
BEGIN;
SELECT mortar.enter('lif_a');
ROLLBACK;
\set VERBOSITY default
BEGIN;
SELECT mortar.enter('lif_a');
ROLLBACK;
\set VERBOSITY sqlstate
-- the ledger is as it was, and goes on where a DBA works with it
\c - regress_monitor
:books
SELECT mortar.suspend_tenant('lif_b', 'mine');
SELECT mortar.resume_tenant('lif_b');
SELECT mortar.close_tenant('lif_b');
\c - regress_admin
SELECT mortar.grant_credits('lif_a', 500, 'g2') IS NOT NULL AS granted;
SELECT mortar.charge('lif_a', 5, 'c') IS NOT NULL AS charged;
SELECT mortar.create_key('lif_a', 'later') IS NOT NULL AS made;
SELECT mortar.record_usage('lif_a', 'requests', 1);
:books
SELECT check_name, detail FROM mortar.verify_ledger('lif_a') WHERE NOT ok;

-- resumed, it is as it was before
SELECT mortar.resume_tenant('lif_a') AS resumed;
\c - regress_app
BEGIN;
SELECT mortar.login(:'key_a');
SELECT mortar.charge('lif_a', 1, 'c1') IS NOT NULL AS charged;
COMMIT;
\c - regress_gateway
SELECT h.status FROM mortar.http('lif_a', 'GET', '/db/tables', NULL, ARRAY['apikey', :'key_a']:rest
\c - regress_admin
:states
:books
SELECT mortar.resume_tenant('lif_a') AS again;

-- what is written behind Mortar's back counts too, and has to make sense
\c - :super
UPDATE mortar.tenants SET state = 'suspended', state_reason = 'by hand' WHERE tenant_id = 'lif_a';
\c - regress_gateway
:call('lif_a', 'GET', '/db/tables', NULL, ARRAY['apikey', :'key_a']:rest
\c - :super
UPDATE mortar.tenants SET state = 'asleep' WHERE tenant_id = 'lif_a';
UPDATE mortar.tenants SET state = NULL WHERE tenant_id = 'lif_a';
UPDATE mortar.tenants SET state_reason = NULL WHERE tenant_id = 'lif_a';
UPDATE mortar.tenants SET state = 'active' WHERE tenant_id = 'lif_a';
UPDATE mortar.tenants SET state = 'active', state_reason = NULL WHERE tenant_id = 'lif_a';
\c - regress_gateway
SELECT h.status FROM mortar.http('lif_a', 'GET', '/db/tables', NULL, ARRAY['apikey', :'key_a']:rest

-- ---- arguments ----
\c - regress_admin
SELECT mortar.suspend_tenant('lif_absent', 'r');
SELECT mortar.resume_tenant('lif_absent');
SELECT mortar.close_tenant('lif_absent');
SELECT mortar.suspend_tenant('lif_a', NULL);
SELECT mortar.suspend_tenant(NULL, 'r');
SELECT mortar.resume_tenant(NULL);
SELECT mortar.close_tenant('No Tenant');

-- ---- closed ----
BEGIN;
SELECT mortar.close_tenant('lif_a') AS closed;
ROLLBACK;
SELECT mortar.suspend_tenant('lif_a', 'leaving') AS suspended;
SELECT mortar.close_tenant('lif_a') AS closed;
SELECT mortar.close_tenant('lif_a') AS again;
SELECT mortar.close_tenant('lif_b') AS closed;
:states
-- it is final
SELECT mortar.resume_tenant('lif_a');
\echo :LAST_ERROR_MESSAGE
SELECT mortar.suspend_tenant('lif_a', 'again');
-- nothing moves
SELECT mortar.grant_credits('lif_a', 1, 'g3');
SELECT mortar.charge('lif_a', 1, 'c3');
SELECT mortar.charge('lif_a', 1, 'c3', on_short => 'return');
SELECT mortar.record_usage('lif_a', 'requests', 1);
SELECT mortar.create_key('lif_a', 'after');
-- what was done before is told again
SELECT mortar.grant_credits('lif_a', 500, 'g2') IS NOT NULL AS replayed;
SELECT mortar.charge('lif_a', 5, 'c') IS NOT NULL AS replayed;
-- keys are dead, and can still be revoked
\c - regress_gateway
:call('lif_a', 'GET', '/db/tables', NULL, ARRAY['apikey', :'key_a']:rest
:call('lif_a', 'GET', '/usage/me', NULL, ARRAY['apikey', :'key_a']:rest
:call('lif_b', 'GET', '/db/tables', NULL, ARRAY['apikey', :'key_b']:rest
\c - regress_app
BEGIN;
SELECT mortar.login(:'key_a');
ROLLBACK;
\c - regress_service
BEGIN;
SELECT mortar.enter('lif_a');
ROLLBACK;
\c - regress_admin
SELECT bool_and(mortar.revoke_key(tenant_id, key_id)) AS revoked FROM mortar.keys WHERE tenant_id = 'lif_a';
\c - regress_gateway
:call('lif_a', 'GET', '/db/tables', NULL, ARRAY['apikey', :'key_a']:rest
-- and everything can be read
\c - regress_monitor
:books
SELECT bool_and(ok) AS all_adds_up FROM mortar.verify_ledger('lif_a');
-- its id is taken for ever
\c - regress_admin
SELECT mortar.create_tenant('lif_a');

\c - :super
DROP ROLE regress_admin, regress_app, regress_service, regress_gateway, regress_monitor;
