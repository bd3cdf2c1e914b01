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
    'sets how far a tenant may spend (mode hard: not below -overdraft_uc; soft: always served, what is missing is debt; unlimited: no credit moves), and how much its usage may cost that a crash would lose (max_unflushed_uc: 0 to 2^61 - 1, null: 1 credit), and how its usage is kept (durability buffered: in memory until it is flushed; sync: on disk at commit; group: the same, written together with others; no crash loses the last two), from the instant of commit on; errors: 22003, 22004, 22023, MT404';

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
    'gives credits, once per key, in force from effective_at (null: now) to expires_at (null: for ever), and returns the grant''s id; credits burn by priority (0 first, 100 last), soonest expiry, promo before paid, effective_at, id; errors: 22003, 22004, 22023, MT403 when the tenant is closed, MT404, MT422 when the key was used with other arguments, MT423 when it is frozen';

CREATE FUNCTION mortar.charge(tenant text, amount_uc int8, key text,
        meta jsonb DEFAULT '{}', on_short text DEFAULT 'error') RETURNS uuid
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtr_charge';
COMMENT ON FUNCTION mortar.charge(text, int8, text, jsonb, text) IS
    'takes credits in the caller''s transaction, once per key, and returns the entry''s id; when credits do not suffice: MT402, or null with on_short => ''return''; errors: 22003, 22004, 22023, 42501, MT403 when the tenant is closed, or suspended and charging itself, MT404, MT422, MT423 when it is frozen';

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
    'what a tenant can spend, at once and with all usage counted; available_uc is below zero, by debt_uc, when it is in debt; unflushed_uc is the cost of usage not in tables yet, already taken from available_uc; next_expiry is when the first grant ends of which something is left; state: active, frozen, suspended or closed; errors: 42501, MT404';

CREATE VIEW mortar.keys WITH (security_invoker = true) AS
    SELECT tenant_id, key_id, name, scopes, not_before, expires_at, revoked_at,
        created_at, pepper_version
    FROM mortar.api_keys;
COMMENT ON VIEW mortar.keys IS 'API keys without their hashes';

-- Sets in the SELECT list, which need no join: verify_ledger forbids nested loops.
CREATE VIEW mortar.sync_burns WITH (security_invoker = true) AS
    SELECT tenant_id, sync_id, minute, unnest(from_accounts) AS from_account,
        unnest(grant_ids) AS grant_id, unnest(amounts_uc) AS amount_uc
    FROM mortar.usage_sync;
COMMENT ON VIEW mortar.sync_burns IS
    'who paid for usage that waits in usage_sync, as credit_burns says it of usage in the journal';

-- What remains is derived from every entry of a tenant, so ask for one tenant.
-- Union, not join: each row of the tables is read once.
CREATE VIEW mortar.grants WITH (security_invoker = true) AS
    SELECT tenant_id, grant_id, amount_uc, remaining_uc,
        CASE WHEN ends_at <= now THEN 'expired'
            WHEN effective_at > now THEN 'future'
            WHEN remaining_uc <= 0 THEN 'used' ELSE 'live' END AS state,
        priority, category, effective_at,
        nullif(ends_at, 'infinity') AS expires_at
    FROM (SELECT tenant_id, grant_id, max(amount_uc) AS amount_uc,
            sum(remaining)::int8 AS remaining_uc, max(priority) AS priority,
            max(category) AS category, max(effective_at) AS effective_at,
            max(ends_at) AS ends_at,
            -- a tenant's time never runs back, whatever the clock does
            greatest(clock_timestamp(),
                max(max(posted_at)) OVER (PARTITION BY tenant_id)) AS now
        FROM (SELECT tenant_id, grant_id, amount_uc,
                amount_uc::numeric AS remaining, priority, category, effective_at,
                coalesce(expires_at, 'infinity') AS ends_at,
                NULL::timestamptz AS posted_at
            FROM mortar.credit_grants
        UNION ALL
        SELECT tenant_id, grant_id, NULL,
                sum(CASE WHEN kind = 'grant' THEN 0
                    WHEN from_account = 'available' THEN -amount_uc
                    WHEN to_account = 'available' THEN amount_uc END),
                NULL, NULL, NULL, NULL, max(posted_at)
            FROM mortar.credit_ledger
            GROUP BY tenant_id, grant_id
        UNION ALL
        SELECT tenant_id, grant_id, NULL, -burned_uc, NULL, NULL, NULL, NULL, NULL
            FROM mortar.burn_marks WHERE from_account = 'available'
        UNION ALL
        SELECT tenant_id, grant_id, NULL, -amount_uc, NULL, NULL, NULL, NULL, NULL
            FROM mortar.sync_burns WHERE from_account = 'available') AS m
        GROUP BY tenant_id, grant_id) AS g
    WHERE grant_id IS NOT NULL;
COMMENT ON VIEW mortar.grants IS
    'grants and what tables say is left of them; usage that is not flushed yet is not counted, of a grant that has expired the rest is worth nothing';

CREATE VIEW mortar.lineage WITH (security_invoker = true) AS
    SELECT b.tenant_id, b.movement_id, 'usage' AS kind, b.burned_at AS at,
        b.from_account, nullif(b.grant_id, '00000000-0000-0000-0000-000000000000')
            AS grant_id, b.amount_uc, g.priority, g.category, g.expires_at,
        (SELECT jsonb_agg(jsonb_build_object('meter', j.meter, 'key_id',
                nullif(j.key_id, '00000000-0000-0000-0000-000000000000'),
                'route', nullif(j.route, ''), 'minute', j.minute,
                'quantity', j.upto_qty - j.from_qty, 'cost_uc', j.cost_uc)
                ORDER BY j.minute, j.meter, j.route, j.key_id, j.from_qty)
            FROM mortar.usage_journal j
            WHERE j.tenant_id = b.tenant_id AND j.movement_id = b.movement_id)
            AS what, NULL::uuid AS reverses
    FROM mortar.credit_burns b
    LEFT JOIN mortar.credit_grants g
        ON g.tenant_id = b.tenant_id AND g.grant_id = b.grant_id
    UNION ALL
    SELECT b.tenant_id, b.sync_id, 'usage', b.minute, b.from_account,
        nullif(b.grant_id, '00000000-0000-0000-0000-000000000000'), b.amount_uc,
        g.priority, g.category, g.expires_at,
        (SELECT jsonb_build_array(jsonb_build_object('meter', q.meter, 'key_id',
                nullif(q.key_id, '00000000-0000-0000-0000-000000000000'),
                'route', nullif(q.route, ''), 'minute', q.minute,
                'quantity', q.qty, 'cost_uc', q.cost_uc))
            FROM mortar.usage_sync q
            WHERE q.tenant_id = b.tenant_id AND q.sync_id = b.sync_id),
        NULL
    FROM mortar.sync_burns b
    LEFT JOIN mortar.credit_grants g
        ON g.tenant_id = b.tenant_id AND g.grant_id = b.grant_id
    UNION ALL
    SELECT l.tenant_id, l.movement_id, l.kind, l.effective_at, l.from_account,
        l.grant_id, l.amount_uc, g.priority, g.category, g.expires_at, l.meta,
        l.reverses
    FROM mortar.credit_ledger l
    LEFT JOIN mortar.credit_grants g
        ON g.tenant_id = l.tenant_id AND g.grant_id = l.grant_id
    WHERE l.kind <> 'grant';
COMMENT ON VIEW mortar.lineage IS
    'which grant paid for what: one row per movement and source, usage as the flusher booked it, or as it stands in usage_sync until then, and entries of the ledger';
COMMENT ON COLUMN mortar.lineage.what IS
    'of usage: the rows of usage_journal that the movement paid for, as an array; else the entry''s meta';
COMMENT ON COLUMN mortar.lineage.amount_uc IS
    'negative: given back, or, from debt, repaid by a grant of the same movement';
COMMENT ON COLUMN mortar.lineage.reverses IS
    'of kinds capture and release the movement_id of the hold, of kind reversal that of the charge or capture';
