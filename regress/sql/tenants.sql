-- Tenants: what an id may be, that it exists once and for ever, and that a
-- creation which is rolled back leaves nothing behind.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
\c - regress_admin

-- an id has 1 to 63 characters: at, below and above the limits
SELECT mortar.create_tenant('t');
SELECT mortar.create_tenant('0_ten-ant');
SELECT length(mortar.create_tenant(repeat('t', 62))) AS characters;
SELECT length(mortar.create_tenant(repeat('t', 63))) AS characters;
SELECT mortar.create_tenant(repeat('t', 64));
SELECT mortar.create_tenant('');
-- of lower-case letters, digits, _ and -, the first one a letter or a digit
SELECT mortar.create_tenant('Tenant');
SELECT mortar.create_tenant('_tenant');
SELECT mortar.create_tenant('-tenant');
SELECT mortar.create_tenant('ten ant');
SELECT mortar.create_tenant('ten.ant');
SELECT mortar.create_tenant('ten/ant');
SELECT mortar.create_tenant(E'tenant\n');
SELECT mortar.create_tenant('tenänt');
SELECT mortar.create_tenant(NULL);

-- it exists once
SELECT mortar.create_tenant('ten_once', 'One', 'ext-1');
SELECT mortar.create_tenant('ten_once');
\echo :LAST_ERROR_MESSAGE
-- and so does an external id; without one, any number of tenants
SELECT mortar.create_tenant('ten_twice', 'Two', 'ext-1');
SELECT mortar.create_tenant('ten_other', NULL, 'ext-2');
SELECT tenant_id, name, external_id FROM mortar.tenants WHERE tenant_id LIKE 'ten\_%' ORDER BY 1;

-- a new tenant has nothing, is active, and can be used in its own transaction
SELECT * FROM mortar.balance('ten_once');
BEGIN;
SELECT mortar.create_tenant('ten_new');
SELECT * FROM mortar.balance('ten_new');
SELECT mortar.grant_credits('ten_new', 100, 'g') IS NOT NULL AS granted;
SELECT mortar.charge('ten_new', 40, 'c') IS NOT NULL AS charged;
SELECT available_uc FROM mortar.balance('ten_new');
COMMIT;
SELECT available_uc FROM mortar.balance('ten_new');

-- a creation that is rolled back leaves no ghost, in tables or in memory
BEGIN;
SELECT mortar.create_tenant('ten_ghost');
SELECT mortar.grant_credits('ten_ghost', 100, 'g') IS NOT NULL AS granted;
SELECT available_uc FROM mortar.balance('ten_ghost');
ROLLBACK;
SELECT * FROM mortar.balance('ten_ghost');
SELECT mortar.charge('ten_ghost', 1, 'c');
SELECT count(*) FROM mortar.slots WHERE tenant_id = 'ten_ghost';
-- the id is free, and the second try starts from nothing
SELECT mortar.create_tenant('ten_ghost');
SELECT available_uc FROM mortar.balance('ten_ghost');
-- the same with savepoints
BEGIN;
SAVEPOINT s;
SELECT mortar.create_tenant('ten_save');
SELECT mortar.grant_credits('ten_save', 100, 'g') IS NOT NULL AS granted;
ROLLBACK TO s;
SAVEPOINT s2;
SELECT available_uc FROM mortar.balance('ten_save');
ROLLBACK TO s2;
SELECT mortar.create_tenant('ten_save');
SELECT available_uc FROM mortar.balance('ten_save');
COMMIT;
SELECT available_uc FROM mortar.balance('ten_save');

-- an absent tenant is MT404 in every function, an impossible id 22023
SELECT mortar.balance('ten_absent');
SELECT * FROM mortar.usage('ten_absent');
SELECT mortar.grant_credits('ten_absent', 1, 'k');
SELECT mortar.charge('ten_absent', 1, 'k');
SELECT mortar.record_usage('ten_absent', 'requests', 1);
SELECT mortar.create_key('ten_absent', 'k');
SELECT mortar.revoke_key('ten_absent', gen_random_uuid());
\echo :LAST_ERROR_MESSAGE
SELECT mortar.balance('No Tenant');
SELECT * FROM mortar.usage('No Tenant');
SELECT mortar.charge('No Tenant', 1, 'k');
SELECT mortar.balance(NULL);

-- an id is for ever, for an admin and for a superuser; the name is not
UPDATE mortar.tenants SET tenant_id = 'ten_renamed' WHERE tenant_id = 'ten_once';
\c - :super
SET ROLE mortar_owner;
UPDATE mortar.tenants SET tenant_id = 'ten_renamed' WHERE tenant_id = 'ten_once';
DELETE FROM mortar.tenants WHERE tenant_id = 'ten_other';
RESET ROLE;
UPDATE mortar.tenants SET tenant_id = 'ten_renamed' WHERE tenant_id = 'ten_once';
DELETE FROM mortar.tenants WHERE tenant_id = 'ten_other';
SET client_min_messages = warning;
TRUNCATE mortar.tenants CASCADE;
UPDATE mortar.tenants SET name = 'Renamed' WHERE tenant_id = 'ten_once' RETURNING tenant_id, name;

-- what is written behind Mortar's back is read again: no stale memory
SELECT available_uc FROM mortar.balance('ten_new');
INSERT INTO mortar.tenants (tenant_id) VALUES ('ten_foreign');
SELECT available_uc FROM mortar.balance('ten_foreign');
SELECT available_uc FROM mortar.balance('ten_new');
DROP ROLE regress_admin;
