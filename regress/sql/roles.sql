-- CREATE EXTENSION takes roles that exist only when they are as powerless as
-- its own would be, and names the one that is not, and why.  Every attempt runs
-- in a transaction that is rolled back: roles belong to the whole cluster.
\set VERBOSITY terse
\set super :USER
\set database :DBNAME
SET client_min_messages = warning;
DROP DATABASE IF EXISTS regress_roles;
CREATE DATABASE regress_roles;
\c regress_roles
SET client_min_messages = warning;
CREATE ROLE regress_friend;

BEGIN;
ALTER ROLE mortar_tenant LOGIN;
CREATE EXTENSION mortar;
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
BEGIN;
ALTER ROLE mortar_owner SUPERUSER;
CREATE EXTENSION mortar;
ROLLBACK;
BEGIN;
ALTER ROLE mortar_owner BYPASSRLS;
CREATE EXTENSION mortar;
ROLLBACK;
BEGIN;
ALTER ROLE mortar_gateway CREATEROLE;
CREATE EXTENSION mortar;
ROLLBACK;
BEGIN;
ALTER ROLE mortar_monitor REPLICATION;
CREATE EXTENSION mortar;
ROLLBACK;
BEGIN;
GRANT mortar_owner TO regress_friend;
CREATE EXTENSION mortar;
ROLLBACK;
-- the member may be one of Mortar's own
BEGIN;
GRANT mortar_owner TO mortar_admin;
CREATE EXTENSION mortar;
ROLLBACK;
-- a tenant that could become a service could enter any other tenant
BEGIN;
REVOKE mortar_tenant FROM mortar_service;
GRANT mortar_service TO mortar_tenant;
CREATE EXTENSION mortar;
ROLLBACK;
-- through a role in between, too
BEGIN;
REVOKE mortar_tenant FROM mortar_service;
GRANT mortar_service TO regress_friend;
GRANT regress_friend TO mortar_tenant;
CREATE EXTENSION mortar;
ROLLBACK;

-- members of the other roles are normal: a second database, a reinstallation
-- or a restore finds them
BEGIN;
GRANT mortar_admin, mortar_monitor, mortar_tenant, mortar_service, mortar_gateway TO regress_friend;
CREATE EXTENSION mortar;
SELECT mortar.create_tenant('rol_a');
ROLLBACK;

-- a membership that is missing is made
BEGIN;
REVOKE mortar_tenant FROM mortar_service;
CREATE EXTENSION mortar;
SELECT pg_has_role('mortar_service', 'mortar_tenant', 'MEMBER') AS service_is_a_tenant;
ROLLBACK;

\c :database
SET client_min_messages = warning;
DROP DATABASE regress_roles;
DROP ROLE regress_friend;
