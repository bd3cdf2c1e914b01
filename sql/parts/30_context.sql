-- 30_context.sql
-- The tenant context: who may set it, and what policies compare with.

CREATE FUNCTION mortar.tenant_id() RETURNS text
    LANGUAGE c STABLE LEAKPROOF PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'mtr_tenant_id';
COMMENT ON FUNCTION mortar.tenant_id() IS
    'tenant of this transaction; null without a context';

CREATE FUNCTION mortar.enter(tenant text) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtr_enter';
COMMENT ON FUNCTION mortar.enter(text) IS
    'sets the tenant context of this transaction block, for a trusted back end; errors: 25P01 outside a block, 55000 when another context is set, MT403 when the tenant is suspended or closed, MT404';

CREATE FUNCTION mortar.login(credential text) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtr_login';
COMMENT ON FUNCTION mortar.login(text) IS
    'sets the tenant context of this transaction block from an API key (as a bind parameter) and returns the tenant; errors: 28000 for a bad key, 42501 for one without the scopes of tables, rows and usage, 25P01 outside a block, 55000, MT403 when the tenant is suspended or closed';
