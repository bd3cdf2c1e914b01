-- Options whose feature comes later are refused with 0A000, never ignored; at
-- their defaults they pass, and nothing has moved after a refusal.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
\c - regress_admin
SELECT mortar.create_tenant('not_a');

-- grant_credits: priority, category, effective_at, expires_at
SELECT mortar.grant_credits('not_a', 1, 'k', priority => 49);
\echo :LAST_ERROR_MESSAGE
SELECT mortar.grant_credits('not_a', 1, 'k', priority => NULL);
SELECT mortar.grant_credits('not_a', 1, 'k', category => 'promo');
SELECT mortar.grant_credits('not_a', 1, 'k', category => NULL);
SELECT mortar.grant_credits('not_a', 1, 'k', effective_at => now() + interval '1 hour');
SELECT mortar.grant_credits('not_a', 1, 'k', effective_at => now() - interval '1 hour');
SELECT mortar.grant_credits('not_a', 1, 'k', expires_at => now() + interval '1 year');
SELECT mortar.grant_credits('not_a', 1, 'k', expires_at => 'infinity');
SELECT available_uc FROM mortar.balance('not_a');
SELECT mortar.grant_credits('not_a', 1, 'k', 50, 'paid', now(), NULL) IS NOT NULL AS defaults_pass;
SELECT mortar.grant_credits('not_a', 1, 'k2', effective_at => NULL) IS NOT NULL AS null_is_now;

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
