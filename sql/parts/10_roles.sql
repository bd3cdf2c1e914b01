-- 10_roles.sql
-- Roles and the schema's rights.  Roles belong to the whole cluster: they are
-- created when absent, and an existing one is taken only when it is as
-- powerless as ours would be.

-- The schema is ours alone: what others had put into it would end up with our
-- owner and our rights.
DO $schema$
BEGIN
    IF NOT (SELECT r.rolsuper FROM pg_catalog.pg_namespace n
            JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner
            WHERE n.nspname = 'mortar')
        OR EXISTS (SELECT FROM pg_catalog.pg_depend
            WHERE refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass
                AND refobjid = 'mortar'::pg_catalog.regnamespace
                AND classid <> 'pg_catalog.pg_extension'::pg_catalog.regclass)
    THEN
        RAISE EXCEPTION 'schema "mortar" exists, and belongs to no superuser or is not empty'
            USING ERRCODE = 'duplicate_schema',
            HINT = 'DROP SCHEMA mortar, or rename it, and let CREATE EXTENSION make it.';
    END IF;
END
$schema$;

DO $roles$
DECLARE
    wanted text;
    r record;
    problem text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['mortar_owner', 'mortar_tenant',
        'mortar_gateway', 'mortar_service', 'mortar_admin', 'mortar_monitor']
    LOOP
        SELECT * INTO r FROM pg_catalog.pg_roles WHERE rolname = wanted;
        IF NOT FOUND THEN
            EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN NOSUPERUSER '
                'NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION', wanted);
            CONTINUE;
        END IF;
        problem := CASE
            WHEN r.rolcanlogin THEN 'LOGIN'
            WHEN r.rolsuper THEN 'SUPERUSER'
            WHEN r.rolbypassrls THEN 'BYPASSRLS'
            WHEN r.rolcreaterole THEN 'CREATEROLE'
            WHEN r.rolreplication THEN 'REPLICATION'
            WHEN wanted = 'mortar_owner' AND EXISTS (SELECT FROM
                pg_catalog.pg_auth_members m WHERE m.roleid = r.oid)
                THEN 'members'
            WHEN wanted IN ('mortar_owner', 'mortar_tenant', 'mortar_gateway')
                AND EXISTS (SELECT FROM pg_catalog.pg_auth_members m
                    WHERE m.member = r.oid)
                THEN 'memberships'
            END;
        IF problem IS NOT NULL THEN
            RAISE EXCEPTION 'role "%" exists and has %', wanted, problem
                USING ERRCODE = 'duplicate_object',
                HINT = pg_catalog.format('Mortar would trust this role. '
                    'Rename it, or take %s from it, and try again.', problem);
        END IF;
    END LOOP;
    IF NOT pg_catalog.pg_has_role('mortar_service', 'mortar_tenant', 'MEMBER') THEN
        GRANT mortar_tenant TO mortar_service;
    END IF;
    IF pg_catalog.pg_has_role('mortar_tenant', 'mortar_service', 'MEMBER') THEN
        RAISE EXCEPTION 'role "mortar_tenant" is a member of "mortar_service"'
            USING ERRCODE = 'duplicate_object',
            HINT = 'REVOKE mortar_service FROM mortar_tenant and try again.';
    END IF;
END
$roles$;

GRANT USAGE ON SCHEMA mortar TO PUBLIC;
