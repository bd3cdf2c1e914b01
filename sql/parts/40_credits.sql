-- 40_credits.sql
-- Tenants, keys, credits, prices.  Amounts are int8 micro-credits (_uc).

CREATE FUNCTION mortar.credits(credits numeric) RETURNS int8
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'mtr_credits';
COMMENT ON FUNCTION mortar.credits(numeric) IS
    'credits as micro-credits, exactly; errors: 22023 for more than six decimals, 22003 out of range';

CREATE FUNCTION mortar.create_tenant(tenant text, name text DEFAULT NULL,
        external_id text DEFAULT NULL) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'mtr_create_tenant';
COMMENT ON FUNCTION mortar.create_tenant(text, text, text) IS
    'creates a tenant and returns its id (^[a-z0-9][a-z0-9_-]{0,62}$); errors: 22023, MT409 when it exists, 53400';

CREATE FUNCTION mortar.suspend_tenant(tenant text, reason text) RETURNS bool
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'mtr_suspend_tenant';
COMMENT ON FUNCTION mortar.suspend_tenant(text, text) IS
    'refuses a tenant''s calls with 403 tenant_suspended from the instant of commit on; grants and an admin''s charges go on; false when it was suspended before; errors: 22004, MT403 when it is closed, MT404';

CREATE FUNCTION mortar.resume_tenant(tenant text) RETURNS bool
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'mtr_resume_tenant';
COMMENT ON FUNCTION mortar.resume_tenant(text) IS
    'ends a suspension at the instant of commit; false when there was none; errors: MT403 when it is closed, MT404';

CREATE FUNCTION mortar.close_tenant(tenant text) RETURNS bool
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'mtr_close_tenant';
COMMENT ON FUNCTION mortar.close_tenant(text) IS
    'closes a tenant for ever: its keys are refused with 403 tenant_closed from the instant of commit on, its credits stay as they are, all data is kept; false when it was closed before; errors: MT404';

CREATE FUNCTION mortar.set_limit(tenant text, mode text DEFAULT 'hard',
        overdraft_uc int8 DEFAULT 0, max_unflushed_uc int8 DEFAULT NULL,
        durability text DEFAULT 'buffered') RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtr_set_limit';
COMMENT ON FUNCTION mortar.set_limit(text, text, int8, int8, text) IS
    'sets how much a tenant''s usage may cost that a crash would lose (0 to 2^61 - 1, null: 1 credit), from the instant of commit on; errors: 22003, 22004, 22023, MT404, 0A000 for arguments whose feature comes later';

CREATE FUNCTION mortar.create_key(tenant text, name text,
        scopes text[] DEFAULT NULL, expires_at timestamptz DEFAULT NULL,
        not_before timestamptz DEFAULT NULL) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'mtr_create_key';
COMMENT ON FUNCTION mortar.create_key(text, text, text[], timestamptz, timestamptz) IS
    'makes an API key and returns it, the only time it is seen; scopes null: all but admin; errors: 22004, 22023, 55000 without a pepper, MT403 when the tenant is closed, MT404';

CREATE FUNCTION mortar.revoke_key(tenant text, key_id uuid) RETURNS bool
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'mtr_revoke_key';
COMMENT ON FUNCTION mortar.revoke_key(text, uuid) IS
    'revokes a key, for every gateway at the instant of commit; false when it was revoked before; errors: MT404';

CREATE FUNCTION mortar.grant_credits(tenant text, amount_uc int8, key text,
        priority int4 DEFAULT 50, category text DEFAULT 'paid',
        effective_at timestamptz DEFAULT now(),
        expires_at timestamptz DEFAULT NULL) RETURNS uuid
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'mtr_grant_credits';
COMMENT ON FUNCTION mortar.grant_credits(text, int8, text, int4, text, timestamptz, timestamptz) IS
    'gives credits, once per key, and returns the grant''s id; errors: 22003, 22004, 22023, MT403 when the tenant is closed, MT404, MT422 when the key was used with other arguments, 0A000 for options that come later';

CREATE FUNCTION mortar.charge(tenant text, amount_uc int8, key text,
        meta jsonb DEFAULT '{}', on_short text DEFAULT 'error') RETURNS uuid
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtr_charge';
COMMENT ON FUNCTION mortar.charge(text, int8, text, jsonb, text) IS
    'takes credits in the caller''s transaction, once per key, and returns the entry''s id; when credits do not suffice: MT402, or null with on_short => ''return''; errors: 22003, 22004, 22023, 42501, MT403 when the tenant is closed, or suspended and charging itself, MT404, MT422';

CREATE FUNCTION mortar.set_price(meter text, num_uc int8, per_units int8,
        route text DEFAULT NULL, tenant text DEFAULT NULL,
        valid_from timestamptz DEFAULT now()) RETURNS uuid
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtr_set_price';
COMMENT ON FUNCTION mortar.set_price(text, int8, int8, text, text, timestamptz) IS
    'sets the price of a meter for calls that start after the commit, and from valid_from on: num_uc micro-credits per per_units units, 0.3 credit/GB = (300000, 1000000000); for calls of one route (method and path of mortar.routes), for one tenant, for both, or in general, and the most specific one holds; a valid_from in the past counts as now and never prices again what was counted, a later version already in force goes on; errors: 22004, 22023, MT404';

CREATE FUNCTION mortar.balance(tenant text, OUT available_uc int8,
        OUT held_uc int8, OUT unflushed_uc int8, OUT debt_uc int8,
        OUT next_expiry timestamptz, OUT state text) RETURNS record
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtr_balance';
COMMENT ON FUNCTION mortar.balance(text) IS
    'what a tenant can spend, at once and with all usage counted; unflushed_uc is the cost of usage not in tables yet, already taken from available_uc; errors: 42501, MT404';

CREATE VIEW mortar.keys WITH (security_invoker = true) AS
    SELECT tenant_id, key_id, name, scopes, not_before, expires_at, revoked_at,
        created_at, pepper_version
    FROM mortar.api_keys;
COMMENT ON VIEW mortar.keys IS 'API keys without their hashes';
