-- Mortar's roles: powerless, and related to each other in one way only.
\set ON_ERROR_STOP 1
BEGIN;
SELECT plan(8);

CREATE TEMP VIEW roles AS SELECT * FROM pg_catalog.pg_roles
    WHERE rolname IN ('mortar_owner', 'mortar_tenant', 'mortar_gateway',
        'mortar_service', 'mortar_admin', 'mortar_monitor');

SELECT is((SELECT count(*) FROM roles), 6::bigint, 'all six roles exist');
SELECT is_empty(
    $$SELECT rolname FROM roles WHERE rolsuper OR rolbypassrls$$,
    'none is a superuser or passes by row-level security');
SELECT is_empty(
    $$SELECT rolname FROM roles WHERE rolcanlogin$$,
    'none can log in: people and programs log in as members');
SELECT is_empty(
    $$SELECT rolname FROM roles WHERE rolcreaterole OR rolcreatedb OR rolreplication$$,
    'none can create roles or databases, or replicate');
SELECT set_eq(
    $$SELECT m.member::regrole::text, m.roleid::regrole::text, m.admin_option
        FROM pg_auth_members m JOIN roles r ON r.oid = m.member$$,
    $$VALUES ('mortar_service', 'mortar_tenant', false)$$,
    'mortar_service is a member of mortar_tenant, and no other role of anything');
SELECT is_empty(
    $$SELECT member::regrole FROM pg_auth_members WHERE roleid = 'mortar_owner'::regrole$$,
    'nobody is a member of mortar_owner');
SELECT ok(NOT pg_has_role('mortar_tenant', 'mortar_service', 'MEMBER'),
    'mortar_tenant cannot become mortar_service');
SELECT is_empty(
    $$SELECT setrole::regrole, setconfig FROM pg_db_role_setting s JOIN roles r ON r.oid = s.setrole$$,
    'no role has settings of its own');

SELECT * FROM finish();
ROLLBACK;
