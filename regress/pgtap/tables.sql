-- Tables, views and the schema itself: owners, row-level security, policies,
-- keys led by the tenant, and every right that is granted.
\set ON_ERROR_STOP 1
BEGIN;
SELECT plan(21);

CREATE TEMP VIEW relations AS
    SELECT c.* FROM pg_catalog.pg_class c WHERE c.relnamespace = 'mortar'::regnamespace;
CREATE TEMP VIEW tables AS SELECT * FROM relations WHERE relkind IN ('r', 'p');

SELECT set_eq(
    'SELECT relname FROM tables',
    ARRAY['tenants', 'limits', 'api_keys', 'credit_grants', 'credit_ledger', 'idempotency', 'prices',
        'usage_journal', 'usage_marks', 'usage_sync', 'credit_burns', 'burn_marks', 'epochs', 'doc_tables', 'doc_rows',
        'credit_holds'],
    'these are the tables');
SELECT set_eq(
    $$SELECT relname FROM relations WHERE relkind = 'v'$$,
    ARRAY['balances', 'cells', 'flusher', 'grants', 'keys', 'lineage', 'loss_bound', 'open_holds', 'routes', 'slots', 'sync_burns'],
    'these are the views');
SELECT is_empty(
    $$SELECT relname, relkind FROM relations WHERE relkind NOT IN ('r', 'v', 'i', 't', 'c')$$,
    'there is no sequence, materialized view or foreign table');

SELECT is_empty(
    'SELECT relname FROM tables WHERE NOT relrowsecurity',
    'every table has row-level security');
SELECT is_empty(
    'SELECT relname FROM tables WHERE NOT relforcerowsecurity',
    'and forces it upon its owner');
SELECT is_empty(
    $$SELECT relname FROM relations
        WHERE relkind = 'v' AND NOT coalesce(reloptions @> '{security_invoker=true}', false)$$,
    'every view reads with the rights of the one who asks');

-- owners: nothing but the extension and its schema is a superuser's
SELECT is_empty(
    $$SELECT relname, relowner::regrole FROM relations WHERE relowner <> 'mortar_owner'::regrole$$,
    'every relation belongs to mortar_owner');
SELECT set_eq(
    $$SELECT d.classid::regclass::text, d.objid FROM pg_depend d
        JOIN pg_extension e ON e.oid = d.refobjid
        WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname = 'mortar'
            AND d.classid NOT IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_type'::regclass)$$,
    $$SELECT NULL::text, NULL::oid WHERE false$$,
    'the extension consists of relations, functions and their types');
SELECT is_empty(
    $$SELECT typname FROM pg_type t WHERE typnamespace = 'mortar'::regnamespace
        AND typowner <> 'mortar_owner'::regrole$$,
    'whose types belong to mortar_owner, too');

-- every key is led by the tenant, so that tables can be distributed by it
SELECT set_eq(
    $$SELECT t.relname FROM tables t
        WHERE (SELECT a.attname FROM pg_index i JOIN pg_attribute a
                ON a.attrelid = t.oid AND a.attnum = i.indkey[0]
                WHERE i.indrelid = t.oid AND i.indisprimary) IS DISTINCT FROM 'tenant_id'$$,
    ARRAY['prices', 'epochs'],
    'tenant_id comes first in every primary key of tables that belong to tenants');
SELECT is_empty(
    $$SELECT t.relname, c.collname FROM tables t
        JOIN pg_attribute a ON a.attrelid = t.oid AND a.attname = 'tenant_id'
        LEFT JOIN pg_collation c ON c.oid = a.attcollation
        WHERE c.collname IS DISTINCT FROM 'C' OR a.atttypid <> 'text'::regtype
            OR NOT a.attnotnull AND t.relname <> 'prices'$$,
    'tenant_id is everywhere a text of collation C, and null only where a price is for all');

-- policies
CREATE TEMP TABLE policies (t name, policy name, roles text, command text, permissive text, using_text text, check_text text);
INSERT INTO policies
    SELECT relname, p.* FROM tables, LATERAL (VALUES
        ('owner_all', '{mortar_owner}', 'ALL', 'PERMISSIVE', 'true', 'true'),
        ('admin_all', '{mortar_admin}', 'ALL', 'PERMISSIVE', 'true', 'true'),
        ('monitor_read', '{mortar_monitor}', 'SELECT', 'PERMISSIVE', 'true', NULL)) p
    UNION ALL
    SELECT relname, 'tenant_own', '{mortar_tenant}', 'ALL', 'PERMISSIVE',
        '(tenant_id = ( SELECT mortar.tenant_id() AS tenant_id))',
        '(tenant_id = ( SELECT mortar.tenant_id() AS tenant_id))'
    FROM tables WHERE relname NOT IN ('prices', 'epochs');
SELECT set_eq(
    $$SELECT tablename, policyname, roles::text, cmd, permissive, qual, with_check
        FROM pg_policies WHERE schemaname = 'mortar'$$,
    'TABLE policies',
    'policies: all for owner and admin, reading for monitor, its own rows for a tenant');

-- every right on a relation, the owner's aside
CREATE TEMP TABLE grants (relation name, grantee text, rights text);
INSERT INTO grants
    SELECT relname, role, 'SELECT' FROM relations, unnest('{mortar_admin,mortar_monitor}'::text[]) role
    WHERE relkind IN ('r', 'v') AND relname <> 'api_keys'
    UNION ALL VALUES
    ('doc_tables', 'mortar_tenant', 'DELETE INSERT SELECT UPDATE'),
    ('doc_rows', 'mortar_tenant', 'DELETE INSERT SELECT UPDATE');
SELECT set_eq(
    $$SELECT r.relname, coalesce(g.rolname::text, 'PUBLIC'),
            string_agg(a.privilege_type, ' ' ORDER BY a.privilege_type)
        FROM relations r, LATERAL aclexplode(r.relacl) a
        LEFT JOIN pg_roles g ON g.oid = a.grantee
        WHERE a.grantee <> r.relowner GROUP BY 1, 2$$,
    'TABLE grants',
    'every relation is used by exactly those whom it is granted to');
SELECT set_eq(
    $$SELECT c.relname, a.attname, g.rolname, x.privilege_type
        FROM relations c JOIN pg_attribute a ON a.attrelid = c.oid,
        LATERAL aclexplode(a.attacl) x LEFT JOIN pg_roles g ON g.oid = x.grantee$$,
    $$SELECT 'api_keys'::name, col::name, role::name, 'SELECT'
        FROM unnest('{tenant_id,key_id,name,scopes,not_before,expires_at,revoked_at,created_at,pepper_version}'::text[]) col,
            unnest('{mortar_admin,mortar_monitor}'::text[]) role$$,
    'of api_keys all columns but the hash are granted, and no other column by itself');
SELECT is_empty(
    $$SELECT relname FROM relations r, LATERAL aclexplode(r.relacl) a WHERE a.is_grantable AND a.grantee <> r.relowner$$,
    'nobody can pass on a right');
SELECT set_eq(
    $$SELECT coalesce(g.rolname::text, 'PUBLIC'), a.privilege_type
        FROM pg_namespace n, LATERAL aclexplode(n.nspacl) a LEFT JOIN pg_roles g ON g.oid = a.grantee
        WHERE n.nspname = 'mortar' AND a.grantee <> n.nspowner$$,
    $$VALUES ('PUBLIC', 'USAGE')$$,
    'the schema may be used, and nobody may create in it');
SELECT is_empty(
    $$SELECT * FROM pg_default_acl WHERE defaclnamespace = 'mortar'::regnamespace
        OR defaclrole IN (SELECT oid FROM pg_roles WHERE rolname LIKE 'mortar\_%')$$,
    'no default rights are hidden');

-- triggers: insert-only tables, and the notice of foreign writers
CREATE TEMP TABLE triggers (relation name, name name, timing text);
INSERT INTO triggers
    SELECT relname, 'refuse_change', 'BEFORE UPDATE DELETE TRUNCATE' FROM tables
        WHERE relname IN ('credit_grants', 'credit_ledger', 'credit_holds', 'prices', 'usage_journal', 'credit_burns')
    UNION ALL SELECT relname, 'note_write', 'BEFORE INSERT UPDATE DELETE ROW' FROM tables
        WHERE relname IN ('tenants', 'limits', 'api_keys', 'credit_grants', 'credit_ledger', 'credit_holds', 'prices',
            'usage_marks', 'usage_sync', 'burn_marks')
    -- on other cached tables TRUNCATE is refused
    UNION ALL SELECT relname, 'note_truncate', 'BEFORE TRUNCATE' FROM tables
        WHERE relname IN ('limits', 'api_keys', 'usage_marks', 'usage_sync', 'burn_marks')
    UNION ALL VALUES ('tenants', 'refuse_new_id', 'BEFORE UPDATE DELETE TRUNCATE');
SELECT set_eq(
    $$SELECT r.relname, t.tgname, concat_ws(' ',
            CASE WHEN t.tgtype & 2 > 0 THEN 'BEFORE' END, CASE WHEN t.tgtype & 4 > 0 THEN 'INSERT' END,
            CASE WHEN t.tgtype & 16 > 0 THEN 'UPDATE' END, CASE WHEN t.tgtype & 8 > 0 THEN 'DELETE' END,
            CASE WHEN t.tgtype & 32 > 0 THEN 'TRUNCATE' END, CASE WHEN t.tgtype & 1 > 0 THEN 'ROW' END)
        FROM relations r JOIN pg_trigger t ON t.tgrelid = r.oid WHERE NOT t.tgisinternal$$,
    'TABLE triggers',
    'what is insert-only refuses changes, what is cached notices writers');
SELECT is_empty(
    $$SELECT r.relname, t.tgname FROM relations r JOIN pg_trigger t ON t.tgrelid = r.oid
        WHERE NOT t.tgisinternal AND t.tgenabled <> 'A'$$,
    'every trigger fires in replication sessions, too');

-- refused, whoever tries
CREATE FUNCTION pg_temp.changed(role name) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    t text;
    command text;
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', role);
    FOREACH t IN ARRAY '{credit_grants,credit_ledger,credit_holds,prices,usage_journal,credit_burns}'::text[] LOOP
        FOREACH command IN ARRAY ARRAY['UPDATE mortar.%I SET meter = meter', 'DELETE FROM mortar.%I', 'TRUNCATE mortar.%I CASCADE'] LOOP
            IF t LIKE 'credit%' THEN command := replace(command, 'meter', 'amount_uc'); END IF;
            BEGIN
                EXECUTE format(command, t);
                RETURN NEXT format(command, t);
            EXCEPTION WHEN insufficient_privilege THEN CONTINUE;
            END;
        END LOOP;
    END LOOP;
    RESET ROLE;
END
$$;
SELECT is_empty($$SELECT pg_temp.changed(current_user)$$,
    'a superuser cannot update, delete or truncate what is insert-only');
SELECT is_empty($$SELECT pg_temp.changed('mortar_owner')$$,
    'nor can its owner');

SELECT * FROM finish();
ROLLBACK;
