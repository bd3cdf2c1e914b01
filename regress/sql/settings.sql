-- Mortar's own statements do not depend on what a session has set.
\set VERBOSITY sqlstate
SET client_min_messages = warning;
SELECT mortar.create_tenant('set_a');
SELECT mortar.grant_credits('set_a', 1000, 'g') IS NOT NULL AS granted;
SELECT mortar.create_key('set_a', 'k') AS key_a \gset

-- nothing is in memory after a write by somebody else
UPDATE mortar.tenants SET name = 'A' WHERE tenant_id = 'set_a';
DROP ROLE IF EXISTS regress_admin, regress_gate;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
CREATE ROLE regress_gate LOGIN IN ROLE mortar_gateway;
\set super :USER

-- row_security = off would refuse every query that a policy applies to
\c - regress_admin
SET row_security = off;
SELECT available_uc FROM mortar.balance('set_a');
SELECT mortar.create_tenant('set_b');
SELECT mortar.charge('set_a', 1, 'c') IS NOT NULL AS charged;
SELECT mortar.record_usage('set_a', 'requests', 1);
SELECT quantity FROM mortar.usage('set_a');
SELECT bool_and(ok) AS ok FROM mortar.verify_ledger('set_a');
SELECT tenant_id FROM mortar.credit_ledger;
SHOW row_security;

\c - regress_gate
SET row_security = off;
SELECT h.status FROM mortar.http('set_a', 'POST', '/db/tables', NULL,
    ARRAY['apikey', :'key_a', 'content-type', 'application/json'], '{"name": "t"}', '127.0.0.1', 'r') h;
SELECT h.status FROM mortar.http('set_a', 'GET', '/db/rows/t', NULL, ARRAY['apikey', :'key_a'], NULL, '127.0.0.1', 'r') h;

-- neither do they change it
\c - regress_admin
SET lock_timeout = '7s';
SET search_path = mortar;
SELECT available_uc FROM balance('set_b');
SHOW lock_timeout;
SHOW search_path;

\c - :super
DROP ROLE regress_admin, regress_gate;
