-- 45_holds.sql
-- What follows a movement of credits: holds and what becomes of them, reversals,
-- grants that are taken back; and freezing a tenant.

CREATE TABLE mortar.credit_holds (
    tenant_id  text COLLATE "C" NOT NULL,
    hold_id    uuid NOT NULL,
    amount_uc  int8 NOT NULL CHECK (amount_uc > 0),
    expires_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    meta       jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, hold_id)
);
COMMENT ON TABLE mortar.credit_holds IS
    'credits that were set aside; a hold is open until rows of credit_ledger refer to it by reverses, or it expires (see the view mortar.open_holds); insert-only';
COMMENT ON COLUMN mortar.credit_holds.hold_id IS
    'movement_id of the rows of kind hold, which say whose credits are held';
COMMENT ON COLUMN mortar.credit_holds.expires_at IS
    'from this instant on what is held is free again';
CREATE INDEX credit_holds_by_expiry ON mortar.credit_holds
    (tenant_id, expires_at, hold_id);

CREATE FUNCTION mortar.hold(tenant text, amount_uc int8, ttl interval, key text,
        meta jsonb DEFAULT '{}') RETURNS uuid
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtr_hold';
COMMENT ON FUNCTION mortar.hold(text, int8, interval, text, jsonb) IS
    'sets credits aside, once per key, and returns the hold''s id; after ttl (366 days at most) they are free again by themselves; errors: 22003, 22004, 22023, MT402 when credits do not suffice (mode soft: the missing part is debt), MT403 when the tenant is closed, MT404, MT422, MT423 when it is frozen';

CREATE FUNCTION mortar.capture(tenant text, hold_id uuid, amount_uc int8, key text)
    RETURNS uuid
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtr_capture';
COMMENT ON FUNCTION mortar.capture(text, uuid, int8, text) IS
    'spends what is held, once per key, and returns the entry''s id, which reverse() takes; of less than the hold the rest is free again, what is more is taken like a charge; errors: 22003, 22004, 22023, MT402 when that is not there (the hold stays open), MT403 when the tenant is closed, MT404 no_such_hold, MT409 hold_resolved or hold_expired, MT422, MT423 when it is frozen';

CREATE FUNCTION mortar.void_hold(tenant text, hold_id uuid, key text) RETURNS uuid
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtr_void_hold';
COMMENT ON FUNCTION mortar.void_hold(text, uuid, text) IS
    'frees what is held, once per key, and returns the entry''s id; errors: 22003, 22004, 22023, MT403 when the tenant is closed, MT404 no_such_hold, MT409 hold_resolved or hold_expired, MT422, MT423 when it is frozen';

CREATE FUNCTION mortar.reverse(tenant text, entry_id uuid, key text,
        amount_uc int8 DEFAULT NULL) RETURNS uuid
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtr_reverse';
COMMENT ON FUNCTION mortar.reverse(text, uuid, text, int8) IS
    'gives back a charge or a capture, or amount_uc of it (null: all that is left), once per key, to the grants that paid, and returns the entry''s id; what comes back to a grant that has expired is worth nothing; errors: 22003, 22004, 22023, MT403 when the tenant is closed, MT404 no_such_entry, MT409 nothing_left, MT422 exceeds_original (DETAIL: left_uc), not_reversible or when the key was used with other arguments, MT423 when it is frozen';

CREATE FUNCTION mortar.void_grant(tenant text, grant_id uuid, key text, reason text)
    RETURNS uuid
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtr_void_grant';
COMMENT ON FUNCTION mortar.void_grant(text, uuid, text, text) IS
    'takes back what is neither spent nor held of a grant, once per key, and returns the entry''s id; errors: 22004, 22023, MT403 when the tenant is closed, MT404 no_such_grant, MT409 nothing_left, MT422, MT423 when it is frozen';

CREATE FUNCTION mortar.freeze(tenant text) RETURNS bool
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtr_freeze';
COMMENT ON FUNCTION mortar.freeze(text) IS
    'stops all credits of a tenant from the instant of commit on: grants, charges, holds, reversals and usage that has a price are refused with MT423, calls with 423 frozen; what is free goes on; false when it was frozen before; errors: 22004, 22023, MT403 when it is closed, MT404';

CREATE FUNCTION mortar.unfreeze(tenant text) RETURNS bool
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtr_unfreeze';
COMMENT ON FUNCTION mortar.unfreeze(text) IS
    'lets them move again, from the instant of commit on; false when it was not frozen; errors: 22004, 22023, MT403 when it is closed, MT404';

CREATE VIEW mortar.open_holds WITH (security_invoker = true) AS
    SELECT h.tenant_id, h.hold_id, h.amount_uc * 0.000001 AS held,
        h.created_at, h.expires_at, h.meta
    FROM mortar.credit_holds h
    WHERE h.expires_at > clock_timestamp() AND NOT EXISTS (
        SELECT FROM mortar.credit_ledger l
        WHERE l.tenant_id = h.tenant_id AND l.reverses = h.hold_id);
COMMENT ON VIEW mortar.open_holds IS
    'holds that are neither resolved nor expired; held is in credits';

-- Each tenant is asked, one after the other, so ask for those you want.
CREATE VIEW mortar.balances WITH (security_invoker = true) AS
    SELECT t.tenant_id, b.available_uc * 0.000001 AS available,
        b.held_uc * 0.000001 AS held,
        b.debt_uc * 0.000001 AS debt, b.next_expiry, b.state
    FROM mortar.tenants t CROSS JOIN LATERAL mortar.balance(t.tenant_id) b;
COMMENT ON VIEW mortar.balances IS
    'mortar.balance() of every tenant, in credits; it loads those that are not in memory';
