-- API keys: made once, shown once, kept as a hash; scopes and times are held
-- to; a revoked key is dead at the instant of commit.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin, regress_app;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
CREATE ROLE regress_app LOGIN IN ROLE mortar_tenant;
\c - regress_admin
SELECT mortar.create_tenant('key_a');
SELECT mortar.create_tenant('key_b');

-- the form of a key, for those who scan for lost ones
SELECT mortar.create_key('key_a', 'first') AS key \gset
SELECT :'key' ~ '^mortar_sk_[0-9A-Za-z]{22}[0-9A-Za-z]{43}[0-9A-Za-z]{6}$' AS has_the_form;
-- two keys have nothing in common
SELECT mortar.create_key('key_a', 'second') AS key2 \gset
SELECT substr(:'key', 33, 43) = substr(:'key2', 33, 43) AS same_secret;

-- the view shows all but the hash; the table's hash is no admin's business
SELECT tenant_id, name, scopes, not_before <= now() AS valid, expires_at, revoked_at, pepper_version > 0 AS peppered
    FROM mortar.keys WHERE tenant_id = 'key_a' ORDER BY name;
SELECT hash FROM mortar.api_keys;
SELECT * FROM mortar.api_keys;
\c - :super
SELECT count(*) AS rows_that_hold_the_secret FROM mortar.api_keys k
    WHERE k::text LIKE '%' || substr(:'key', 33, 43) || '%'
    OR position(convert_to(substr(:'key', 33, 43), 'UTF8') IN hash) > 0;
\c - regress_admin

-- scopes: all but admin unless said otherwise
SELECT scopes FROM mortar.keys WHERE tenant_id = 'key_a' AND name = 'first';
SELECT mortar.create_key('key_a', 'reader', scopes => '{rows:read,tables:read}') AS reader \gset
SELECT mortar.create_key('key_a', 'root', scopes => '{admin}') IS NOT NULL AS made;
SELECT name, scopes FROM mortar.keys WHERE tenant_id = 'key_a' AND name IN ('reader', 'root') ORDER BY name;
SELECT mortar.create_key('key_a', 'none', scopes => '{}');
SELECT mortar.create_key('key_a', 'odd', scopes => '{rows:read,rows:eat}');
SELECT mortar.create_key('key_a', 'null', scopes => '{rows:read,NULL}');
SELECT mortar.create_key('key_a', NULL);

-- times: not before, and not at or after its end
SELECT mortar.create_key('key_a', 'over', expires_at => now()) AS over \gset
SELECT mortar.create_key('key_a', 'later', not_before => now() + interval '1 day') AS later \gset
SELECT mortar.create_key('key_a', 'now', not_before => now() - interval '1 day', expires_at => now() + interval '1 day') AS present \gset
\c - regress_app
BEGIN;
SELECT mortar.login(:'over');
ROLLBACK;
BEGIN;
SELECT mortar.login(:'later');
ROLLBACK;
-- nor with a key that may do less than a tenant can do in SQL
BEGIN;
SELECT mortar.login(:'reader');
ROLLBACK;
BEGIN;
SELECT mortar.login(:'present');
ROLLBACK;

-- revoked: dead, also in a session that has used it a moment ago
BEGIN;
SELECT mortar.login(:'key');
ROLLBACK;
\c - regress_admin
SELECT key_id AS id FROM mortar.keys WHERE tenant_id = 'key_a' AND name = 'first' \gset
-- not by another tenant's name
SELECT mortar.revoke_key('key_b', :'id');
SELECT mortar.revoke_key('key_a', gen_random_uuid());
SELECT mortar.revoke_key('key_a', NULL);
BEGIN;
SELECT mortar.revoke_key('key_a', :'id');
ROLLBACK;
SELECT revoked_at IS NULL AS still_live FROM mortar.keys WHERE tenant_id = 'key_a' AND name = 'first';
\c - regress_app
BEGIN;
SELECT mortar.login(:'key') AS rollback_revokes_nothing;
ROLLBACK;
\c - regress_admin
SELECT mortar.revoke_key('key_a', :'id');
SELECT mortar.revoke_key('key_a', :'id') AS again;
\c - regress_app
BEGIN;
SELECT mortar.login(:'key');
ROLLBACK;
-- the tenant's other keys live
BEGIN;
SELECT mortar.login(:'key2');
ROLLBACK;

-- a key of a transaction that is rolled back never was
\c - regress_admin
BEGIN;
SELECT mortar.create_key('key_a', 'never') AS never \gset
ROLLBACK;
\c - regress_app
BEGIN;
SELECT mortar.login(:'never');
ROLLBACK;

-- what is written behind Mortar's back counts too
\c - :super
UPDATE mortar.api_keys SET expires_at = now() WHERE tenant_id = 'key_a' AND name = 'second';
\c - regress_app
BEGIN;
SELECT mortar.login(:'key2');
ROLLBACK;
BEGIN;
SELECT mortar.login(:'present');
ROLLBACK;
\c - :super
TRUNCATE mortar.api_keys;
\c - regress_app
BEGIN;
SELECT mortar.login(:'present');
ROLLBACK;
\c - :super
DROP ROLE regress_admin, regress_app;
