-- 50_usage.sql
-- Usage, and what shared memory holds.

CREATE FUNCTION mortar.record_usage(tenant text, meter text, quantity int8,
        durability text DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'mtr_record_usage';
COMMENT ON FUNCTION mortar.record_usage(text, text, int8, text) IS
    'counts and charges usage that the product measured itself, when the transaction commits; durability buffered, group or sync as in set_limit, null: the tenant''s; errors: MT402, MT403 when the tenant is suspended or closed, MT423 when it is frozen and the meter has a price, MT404, 22003, 22023, 25006 for group and sync in a read-only transaction, 53400 when memory is full or more than max_unflushed_uc would be unflushed';

CREATE FUNCTION mortar.usage(tenant text,
        since timestamptz DEFAULT '-infinity',
        until timestamptz DEFAULT 'infinity',
        by text[] DEFAULT '{meter}', tz text DEFAULT 'UTC',
        OUT meter text, OUT key_id uuid, OUT route text,
        OUT bucket timestamptz, OUT quantity int8, OUT cost_uc int8)
    RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtr_usage';
COMMENT ON FUNCTION mortar.usage(text, timestamptz, timestamptz, text[], text) IS
    'usage in [since, until), at minute precision and at once; by: meter, key, route and one of minute, hour, day, month (in time zone tz, as date_trunc has it); errors: 22004, 22023, 42501, MT404';

CREATE FUNCTION mortar.slot_rows(OUT tenant_id text, OUT state text,
        OUT available_uc int8, OUT held_uc int8, OUT unflushed_uc int8,
        OUT pins int4, OUT max_unflushed_uc int8, OUT debt_uc int8,
        OUT mode text, OUT grants int4, OUT durability text,
        OUT queued int8, OUT reservations int4, OUT reserved_uc int8)
    RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtr_slots';
COMMENT ON FUNCTION mortar.slot_rows() IS 'rows of the view mortar.slots';
CREATE VIEW mortar.slots WITH (security_invoker = true) AS
    SELECT * FROM mortar.slot_rows();
COMMENT ON VIEW mortar.slots IS
    'tenants of this database in shared memory; pins: transactions that may still change the slot';

COMMENT ON COLUMN mortar.slots.grants IS
    'grants that are not used up, in force or not, as far as memory knows';
COMMENT ON COLUMN mortar.slots.queued IS
    'rows of usage_sync that the flusher has not moved to usage_journal yet';
COMMENT ON COLUMN mortar.slots.reservations IS
    'answers in pieces that are paid for and not all sent yet; the tenant stays in memory for them';
COMMENT ON COLUMN mortar.slots.reserved_uc IS
    'what they have taken for what was not sent yet: available_uc is less by it (unless the tenant is unlimited), and it comes back if it is not sent';

CREATE FUNCTION mortar.cell_rows(OUT tenant_id text, OUT from_account text,
        OUT grant_id uuid, OUT state text, OUT remaining_uc int8,
        OUT unflushed_uc int8, OUT pins int4) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtr_cells';
COMMENT ON FUNCTION mortar.cell_rows() IS 'rows of the view mortar.cells';
CREATE VIEW mortar.cells WITH (security_invoker = true) AS
    SELECT * FROM mortar.cell_rows();
COMMENT ON VIEW mortar.cells IS
    'the next grants to burn of tenants in shared memory, and their debt (remaining_uc is below zero by it); unflushed_uc: paid for usage and not in tables yet; pins: transactions that may still give back';

CREATE VIEW mortar.loss_bound WITH (security_invoker = true) AS
    SELECT t.tenant_id, coalesce(s.unflushed_uc, 0) AS unflushed_uc,
        coalesce(l.max_unflushed_uc, 1000000) AS max_unflushed_uc,
        current_setting('mortar.flush_interval')::interval AS flush_interval
    FROM mortar.tenants t
    LEFT JOIN mortar.limits l ON l.tenant_id = t.tenant_id
    LEFT JOIN mortar.slot_rows() s ON s.tenant_id = t.tenant_id;
COMMENT ON VIEW mortar.loss_bound IS
    'per tenant: what usage costs that a crash of this instant would lose, the most it may cost, and how long usage waits at most while the flusher is well; a single call dearer than the bound can be lost by itself; usage with durability group or sync cannot be lost and is not in it';

CREATE FUNCTION mortar.flusher_row(OUT state text, OUT pid int4,
        OUT last_flush timestamptz, OUT flushed_rows int8, OUT failures int4,
        OUT last_error text, OUT last_error_at timestamptz) RETURNS record
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'mtr_flusher_state';
COMMENT ON FUNCTION mortar.flusher_row() IS 'the row of the view mortar.flusher';
CREATE VIEW mortar.flusher WITH (security_invoker = true) AS
    SELECT * FROM mortar.flusher_row();
COMMENT ON VIEW mortar.flusher IS
    'how this database''s flusher is doing: none is normal when nothing waits to be flushed';
