-- 80_rights.sql
-- Owner, row-level security, triggers and rights of everything above.
-- OWNER first, GRANT after, or every dump carries noise.

-- Rows that are never changed.  PL/pgSQL, so that it holds on a server without
-- the library.
CREATE FUNCTION mortar.refuse_change() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '% on %.% is not allowed', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege',
        HINT = 'Rows of this table are only added, never changed or removed.';
END
$$;
COMMENT ON FUNCTION mortar.refuse_change() IS
    'trigger of insert-only tables';

CREATE FUNCTION mortar.note_write() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'mtr_note_write';
COMMENT ON FUNCTION mortar.note_write() IS
    'trigger of tables that shared memory caches: after a write that is not Mortar''s own, everything is read again';

DO $rights$
DECLARE
    x text;
BEGIN
    FOREACH x IN ARRAY ARRAY['tenants', 'limits', 'api_keys',
        'credit_grants', 'credit_ledger', 'credit_holds', 'idempotency', 'prices',
        'usage_journal', 'usage_marks', 'usage_sync', 'credit_burns', 'burn_marks',
        'epochs', 'doc_tables', 'doc_rows']
    LOOP
        EXECUTE format('ALTER TABLE mortar.%I OWNER TO mortar_owner', x);
        EXECUTE format('ALTER TABLE mortar.%I ENABLE ROW LEVEL SECURITY', x);
        EXECUTE format('ALTER TABLE mortar.%I FORCE ROW LEVEL SECURITY', x);
        EXECUTE format('CREATE POLICY owner_all ON mortar.%I TO mortar_owner '
            'USING (true) WITH CHECK (true)', x);
        EXECUTE format('CREATE POLICY admin_all ON mortar.%I TO mortar_admin '
            'USING (true) WITH CHECK (true)', x);
        EXECUTE format('CREATE POLICY monitor_read ON mortar.%I FOR SELECT '
            'TO mortar_monitor USING (true)', x);
        IF x NOT IN ('prices', 'epochs') THEN
            EXECUTE format('CREATE POLICY tenant_own ON mortar.%I '
                'TO mortar_tenant '
                'USING (tenant_id = (SELECT mortar.tenant_id())) '
                'WITH CHECK (tenant_id = (SELECT mortar.tenant_id()))', x);
        END IF;
        IF x <> 'api_keys' THEN
            EXECUTE format('GRANT SELECT ON mortar.%I '
                'TO mortar_admin, mortar_monitor', x);
        END IF;
        -- an epoch that has not ended tells of this database, not of its dump
        PERFORM pg_extension_config_dump(format('mortar.%I', x)::regclass,
            CASE x WHEN 'epochs' THEN 'WHERE clean IS NOT NULL' ELSE '' END);
    END LOOP;

    FOREACH x IN ARRAY ARRAY['credit_grants', 'credit_ledger', 'credit_holds',
        'prices', 'usage_journal', 'credit_burns']
    LOOP
        EXECUTE format('CREATE TRIGGER refuse_change '
            'BEFORE UPDATE OR DELETE OR TRUNCATE ON mortar.%I '
            'FOR EACH STATEMENT EXECUTE FUNCTION mortar.refuse_change()', x);
        EXECUTE format('ALTER TABLE mortar.%I '
            'ENABLE ALWAYS TRIGGER refuse_change', x);
    END LOOP;

    FOREACH x IN ARRAY ARRAY['tenants', 'limits', 'api_keys', 'credit_grants',
        'credit_ledger', 'credit_holds', 'prices', 'usage_marks', 'usage_sync',
        'burn_marks']
    LOOP
        EXECUTE format('CREATE TRIGGER note_write '
            'BEFORE INSERT OR UPDATE OR DELETE ON mortar.%I '
            'FOR EACH ROW EXECUTE FUNCTION mortar.note_write()', x);
        EXECUTE format('ALTER TABLE mortar.%I '
            'ENABLE ALWAYS TRIGGER note_write', x);
    END LOOP;
    FOREACH x IN ARRAY ARRAY['limits', 'api_keys', 'usage_marks', 'usage_sync',
        'burn_marks']
    LOOP
        EXECUTE format('CREATE TRIGGER note_truncate BEFORE TRUNCATE '
            'ON mortar.%I EXECUTE FUNCTION mortar.note_write()', x);
        EXECUTE format('ALTER TABLE mortar.%I '
            'ENABLE ALWAYS TRIGGER note_truncate', x);
    END LOOP;

    FOR x IN SELECT p.oid::regprocedure::text FROM pg_proc p
        WHERE p.pronamespace = 'mortar'::regnamespace
    LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO mortar_owner', x);
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', x);
    END LOOP;

    ALTER TYPE mortar.http_answer OWNER TO mortar_owner;
    ALTER DOMAIN mortar.idempotency_key OWNER TO mortar_owner;

    FOR x IN SELECT c.oid::regclass::text FROM pg_class c
        WHERE c.relnamespace = 'mortar'::regnamespace AND c.relkind = 'v'
    LOOP
        EXECUTE format('ALTER VIEW %s OWNER TO mortar_owner', x);
        EXECUTE format('GRANT SELECT ON %s TO mortar_admin, mortar_monitor', x);
    END LOOP;
END
$rights$;

-- a tenant's id is for ever
CREATE TRIGGER refuse_new_id BEFORE UPDATE OF tenant_id OR DELETE OR TRUNCATE
    ON mortar.tenants FOR EACH STATEMENT EXECUTE FUNCTION mortar.refuse_change();
ALTER TABLE mortar.tenants ENABLE ALWAYS TRIGGER refuse_new_id;

GRANT SELECT (tenant_id, key_id, name, scopes, not_before, expires_at,
    revoked_at, created_at, pepper_version) ON mortar.api_keys
    TO mortar_admin, mortar_monitor;
GRANT SELECT, INSERT, UPDATE, DELETE ON mortar.doc_tables, mortar.doc_rows
    TO mortar_tenant;

-- policies run as the querying role
GRANT EXECUTE ON FUNCTION mortar.tenant_id() TO PUBLIC;

GRANT EXECUTE ON FUNCTION
    mortar.http(text, text, bytea, bytea, text[], bytea, inet, text),
    mortar.gateway_hello(int4, text)
    TO mortar_gateway;

GRANT EXECUTE ON FUNCTION mortar.enter(text) TO mortar_service;

GRANT EXECUTE ON FUNCTION
    mortar.login(text), mortar.credits(numeric), mortar.balance(text),
    mortar.usage(text, timestamptz, timestamptz, text[], text),
    mortar.charge(text, int8, text, jsonb, text)
    TO mortar_tenant;

GRANT EXECUTE ON FUNCTION
    mortar.credits(numeric), mortar.balance(text),
    mortar.usage(text, timestamptz, timestamptz, text[], text),
    mortar.verify_ledger(text), mortar.slot_rows(), mortar.cell_rows(),
    mortar.flusher_row(),
    mortar.route_list()
    TO mortar_monitor, mortar_admin;

GRANT EXECUTE ON FUNCTION
    mortar.create_tenant(text, text, text),
    mortar.suspend_tenant(text, text), mortar.resume_tenant(text),
    mortar.close_tenant(text),
    mortar.set_limit(text, text, int8, int8, text),
    mortar.create_key(text, text, text[], timestamptz, timestamptz),
    mortar.revoke_key(text, uuid),
    mortar.grant_credits(text, int8, text, int4, text, timestamptz, timestamptz),
    mortar.charge(text, int8, text, jsonb, text),
    mortar.hold(text, int8, interval, text, jsonb),
    mortar.capture(text, uuid, int8, text), mortar.void_hold(text, uuid, text),
    mortar.reverse(text, uuid, text, int8),
    mortar.void_grant(text, uuid, text, text),
    mortar.freeze(text), mortar.unfreeze(text),
    mortar.set_price(text, int8, int8, text, text, timestamptz),
    mortar.record_usage(text, text, int8, text)
    TO mortar_admin;
