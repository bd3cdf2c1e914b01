-- A frozen tenant: no credit moves, given or taken, and what is free goes on.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin, regress_app, regress_gateway, regress_monitor;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
CREATE ROLE regress_app LOGIN IN ROLE mortar_tenant;
CREATE ROLE regress_gateway LOGIN IN ROLE mortar_gateway;
CREATE ROLE regress_monitor LOGIN IN ROLE mortar_monitor;
\c - regress_admin
SELECT mortar.create_tenant('fre_a');
SELECT mortar.create_tenant('fre_b');
SELECT mortar.grant_credits(t, 1000, 'g') IS NOT NULL AS granted FROM unnest('{fre_a,fre_b}'::text[]) t;
SELECT mortar.set_price('requests', 1, 1) IS NOT NULL AND mortar.set_price('egress_bytes', 0, 1) IS NOT NULL AS priced;
SELECT mortar.create_key('fre_a', 'a') AS key_a \gset
SELECT mortar.create_key('fre_b', 'b') AS key_b \gset
SELECT grant_id AS g FROM mortar.credit_grants WHERE tenant_id = 'fre_a' \gset
SELECT mortar.charge('fre_a', 100, 'c') AS c \gset
SELECT mortar.hold('fre_a', 100, '1 hour', 'h') AS h \gset
SELECT mortar.hold('fre_a', 100, '1 millisecond', 'short') IS NOT NULL AS held;
\set books 'SELECT b.available_uc, b.held_uc, b.state, (SELECT count(*) FROM mortar.credit_ledger WHERE tenant_id = ''fre_a'') AS entries, (SELECT frozen FROM mortar.tenants WHERE tenant_id = ''fre_a'') FROM mortar.balance(''fre_a'') b;'
\set call 'SELECT h.status, convert_from(h.body, ''UTF8'')::json->>''code'' AS code, convert_from(h.body, ''UTF8'')::json->>''detail'' AS detail FROM mortar.http'
\set rest ', NULL, ''127.0.0.1'', ''r'') h;'

-- inside a transaction it is its own business, with its savepoints
BEGIN;
SELECT mortar.freeze('fre_a') AS frozen, mortar.freeze('fre_a') AS again;
SAVEPOINT s;
SELECT mortar.charge('fre_a', 1, 'k');
ROLLBACK TO s;
SELECT mortar.unfreeze('fre_a') AS unfrozen;
SELECT mortar.charge('fre_a', 1, 'k') IS NOT NULL AS charged;
ROLLBACK TO s;
:books
ROLLBACK;
:books
BEGIN;
SELECT mortar.freeze('fre_a') AS frozen;
PREPARE TRANSACTION 'mortar_freeze';
:books

SELECT mortar.freeze('fre_a') AS frozen;
SELECT mortar.freeze('fre_a') AS again;
:books
-- whatever moves credits
SELECT mortar.grant_credits('fre_a', 1, 'k');
\echo :LAST_ERROR_MESSAGE
SELECT mortar.charge('fre_a', 1, 'k');
SELECT mortar.charge('fre_a', 1, 'k', on_short => 'return');
SELECT mortar.hold('fre_a', 1, '1 hour', 'k');
SELECT mortar.capture('fre_a', :'h', 1, 'k');
SELECT mortar.void_hold('fre_a', :'h', 'k');
SELECT mortar.reverse('fre_a', :'c', 'k');
SELECT mortar.void_grant('fre_a', :'g', 'k', 'x');
SELECT mortar.record_usage('fre_a', 'requests', 1);
-- none of which has burnt its key; what was done before is told again
SELECT count(*) FROM mortar.idempotency WHERE tenant_id = 'fre_a' AND key = 'k';
SELECT mortar.charge('fre_a', 100, 'c') = :'c' AS replayed;
-- what is free goes on
SELECT mortar.record_usage('fre_a', 'egress_bytes', 7);
SELECT mortar.create_key('fre_a', 'other') IS NOT NULL AS made;
SELECT mortar.set_limit('fre_a', 'hard', 0);
:books
\c - regress_gateway
:call('fre_a', 'GET', '/db/tables', NULL, ARRAY['apikey', :'key_a']:rest
:call('fre_a', 'POST', '/db/tables', NULL, ARRAY['apikey', :'key_a']:rest
SELECT h.status, convert_from(h.body, 'UTF8')::json->>'available_uc' AS available_uc FROM mortar.http('fre_a', 'GET', '/usage/me', NULL, ARRAY['apikey', :'key_a']:rest
:call('fre_a', 'GET', '/nothing', NULL, ARRAY['apikey', :'key_a']:rest
:call('fre_a', 'GET', '/db/tables', NULL, ARRAY['apikey', :'key_b']:rest
SELECT h.status FROM mortar.http('fre_b', 'GET', '/db/tables', NULL, ARRAY['apikey', :'key_b']:rest
\c - regress_app
BEGIN;
SELECT mortar.login(:'key_a');
SAVEPOINT s;
SELECT mortar.charge('fre_a', 1, 'k');
ROLLBACK TO s;
SELECT available_uc, state FROM mortar.balance('fre_a');
COMMIT;
\c - regress_admin
-- calls go on, too, when nothing has a price
SELECT mortar.set_price('requests', 0, 1) IS NOT NULL AS free;
\c - regress_gateway
SELECT h.status FROM mortar.http('fre_a', 'GET', '/db/tables', NULL, ARRAY['apikey', :'key_a']:rest
\c - regress_admin
SELECT mortar.record_usage('fre_a', 'requests', 1);
SELECT mortar.set_price('requests', 1, 1) IS NOT NULL AS priced;

-- suspension and freezing know nothing of each other
SELECT mortar.suspend_tenant('fre_a', 'both') AS suspended;
:books
SELECT mortar.unfreeze('fre_a') AS unfrozen;
SELECT mortar.freeze('fre_a') AS frozen;
SELECT mortar.resume_tenant('fre_a') AS resumed;
:books

-- and on
SELECT mortar.unfreeze('fre_a') AS unfrozen, mortar.unfreeze('fre_a') AS again;
SELECT mortar.charge('fre_a', 800, 'k') IS NOT NULL AS charged;
:books
\c - regress_gateway
:call('fre_a', 'GET', '/db/tables', NULL, ARRAY['apikey', :'key_a']:rest
\c - regress_admin
SELECT mortar.reverse('fre_a', :'c', 'r') IS NOT NULL AS reversed;
\c - regress_gateway
SELECT h.status FROM mortar.http('fre_a', 'GET', '/db/tables', NULL, ARRAY['apikey', :'key_a']:rest

-- what is written behind Mortar's back counts
\c - :super
UPDATE mortar.tenants SET frozen = true WHERE tenant_id = 'fre_b';
\c - regress_gateway
:call('fre_b', 'GET', '/db/tables', NULL, ARRAY['apikey', :'key_b']:rest
\c - regress_admin
SELECT mortar.unfreeze('fre_b') AS unfrozen;

-- arguments and rights
SELECT mortar.freeze(NULL);
SELECT mortar.freeze('No');
SELECT mortar.freeze('fre_absent');
SELECT mortar.unfreeze('fre_absent');
SELECT mortar.close_tenant('fre_b') AS closed;
SELECT mortar.freeze('fre_b');
SELECT mortar.unfreeze('fre_b');
\c - regress_monitor
SELECT mortar.freeze('fre_a');
SELECT mortar.unfreeze('fre_a');
SELECT tenant_id, state FROM mortar.balances WHERE tenant_id LIKE 'fre\_%' ORDER BY 1;
\c - regress_admin
SELECT mortar.set_price('requests', 0, 1) IS NOT NULL AS free;
SELECT check_name, detail FROM mortar.verify_ledger('fre_a') WHERE NOT ok;
\c - :super
DROP ROLE regress_admin, regress_app, regress_gateway, regress_monitor;
