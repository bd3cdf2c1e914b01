-- CREATE EXTENSION takes roles that exist only when they are as powerless as
-- its own would be, and names the one that is not, and why; nor does it take a
-- schema that somebody else has prepared.  Every attempt runs in a transaction
-- that is rolled back: roles belong to the whole cluster.
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

-- nor may tenants, gateways and the owner have any other role's rights
BEGIN;
GRANT pg_read_all_data TO mortar_gateway;
CREATE EXTENSION mortar;
ROLLBACK;
BEGIN;
GRANT pg_monitor TO mortar_owner;
CREATE EXTENSION mortar;
ROLLBACK;

-- a schema with something in it, or in other hands, is not taken: what is in it
-- would become Mortar's own
BEGIN;
CREATE SCHEMA mortar AUTHORIZATION regress_friend;
CREATE EXTENSION mortar;
ROLLBACK;
BEGIN;
CREATE SCHEMA mortar;
CREATE FUNCTION mortar.mine() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1';
CREATE EXTENSION mortar;
ROLLBACK;
BEGIN;
CREATE SCHEMA mortar;
CREATE TABLE mortar.mine (id int);
CREATE EXTENSION mortar;
ROLLBACK;
BEGIN;
CREATE SCHEMA mortar;
CREATE TYPE mortar.mine AS ENUM ('a');
CREATE EXTENSION mortar;
ROLLBACK;
-- an empty one of a superuser's is
BEGIN;
CREATE SCHEMA mortar;
CREATE EXTENSION mortar;
SELECT mortar.create_tenant('rol_a');
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
