-- Options whose feature comes later are refused with 0A000, never ignored; at
-- their defaults they pass, and nothing has moved after a refusal.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
\c - regress_admin
SELECT mortar.create_tenant('not_a');

-- set_price: by route, by tenant, from another time on
SELECT mortar.set_price('requests', 1, 1, route => 'GET /db/tables');
\echo :LAST_ERROR_MESSAGE
SELECT mortar.set_price('requests', 1, 1, tenant => 'not_a');
SELECT mortar.set_price('requests', 1, 1, valid_from => now() + interval '1 hour');
SELECT mortar.set_price('requests', 1, 1, valid_from => now() - interval '1 hour');
SELECT mortar.set_price('requests', 0, 1, NULL, NULL, now()) IS NOT NULL AS defaults_pass;

-- record_usage: durability
SELECT mortar.record_usage('not_a', 'requests', 1, durability => 'sync');
\echo :LAST_ERROR_MESSAGE
SELECT mortar.record_usage('not_a', 'requests', 1, durability => 'group');
SELECT mortar.record_usage('not_a', 'requests', 1, durability => 'BUFFERED');
SELECT mortar.record_usage('not_a', 'requests', 1, durability => NULL);
SELECT * FROM mortar.usage('not_a');
SELECT mortar.record_usage('not_a', 'requests', 1, durability => 'buffered');
SELECT quantity FROM mortar.usage('not_a');
\c - :super
DROP ROLE regress_admin;
