-- 60_verify.sql
-- verify_ledger(): does everything add up?  Plain SQL over tables, so that an
-- accountant can read what is checked.

-- The settings of both functions: a table that was filled a moment ago has no
-- statistics yet, and nested loops over what the planner takes for a few rows
-- would last minutes; one tenant and all tenants want different plans; and a
-- session that forbids row-level security means its own queries.

-- Tables against shared memory, for tenants that are in memory and at rest (of what is
-- reserved tables know nothing): what
-- they have all in all, and what is left of every grant that has a cell.  Memory
-- moves on while tables are read: a difference counts only when memory is the same
-- before and after.  Tenants that moved are looked at again, without the others and
-- so more quickly.
CREATE FUNCTION mortar.verify_slots(only_tenant text, OUT compared int8,
        OUT wrong text) RETURNS record
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET row_security = on SET enable_nestloop = off
    SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    only_these text[] := CASE WHEN only_tenant IS NOT NULL THEN ARRAY[only_tenant] END;
    before mortar.slots[];
    cells mortar.cells[];
    v record;
BEGIN
    compared := 0;
    FOR try IN 1 .. 5 LOOP
        before := ARRAY(SELECT s FROM mortar.slots s
            WHERE s.state = 'ready' AND s.reservations = 0
                AND (only_these IS NULL OR s.tenant_id = ANY (only_these)));
        cells := ARRAY(SELECT c FROM mortar.cells c
            WHERE only_these IS NULL OR c.tenant_id = ANY (only_these));
        -- the snapshot of this statement is taken after that look at memory, and
        -- before its own
        WITH granted AS (
            -- also what has no cell: there, tables alone know
            SELECT g.tenant_id, g.grant_id, g.remaining_uc, g.state
            FROM mortar.grants g WHERE only_these IS NULL OR g.tenant_id = ANY (only_these)),
        booked AS (
            SELECT tenant_id, sum(amount) AS amount FROM (
                SELECT tenant_id, remaining_uc AS amount FROM granted
                    WHERE state IN ('live', 'used')
                UNION ALL SELECT tenant_id, CASE 'debt' WHEN from_account
                        THEN -amount_uc ELSE amount_uc END
                    FROM mortar.credit_ledger
                    WHERE 'debt' IN (from_account, to_account)
                        AND (only_these IS NULL OR tenant_id = ANY (only_these))
                UNION ALL SELECT tenant_id, -burned_uc FROM mortar.burn_marks
                    WHERE from_account = 'debt'
                        AND (only_these IS NULL OR tenant_id = ANY (only_these))
                UNION ALL SELECT tenant_id, -amount_uc FROM mortar.sync_burns
                    WHERE from_account = 'debt'
                        AND (only_these IS NULL OR tenant_id = ANY (only_these))) m
            GROUP BY tenant_id),
        holding AS (
            SELECT tenant_id, sum(CASE 'held' WHEN to_account THEN amount_uc
                    ELSE -amount_uc END) AS amount
            FROM mortar.credit_ledger
            WHERE 'held' IN (from_account, to_account)
                AND (only_these IS NULL OR tenant_id = ANY (only_these))
            GROUP BY tenant_id),
        cell AS (
            SELECT c.tenant_id,
                sum(c.unflushed_uc) FILTER (WHERE c.state IN ('live', 'used')
                    AND c.from_account <> 'issued') AS unflushed,
                string_agg(format('grant %s: memory %s, tables %s', c.grant_id,
                        c.remaining_uc + c.unflushed_uc, g.remaining_uc), ', '
                        ORDER BY c.grant_id)
                    FILTER (WHERE c.state IN ('live', 'future') AND c.grant_id IS NOT NULL
                        AND c.remaining_uc + c.unflushed_uc
                            IS DISTINCT FROM g.remaining_uc) AS wrong
            FROM unnest(cells) c
            LEFT JOIN granted g ON g.tenant_id = c.tenant_id AND g.grant_id = c.grant_id
            GROUP BY c.tenant_id)
        SELECT count(*) FILTER (WHERE c.at_rest) AS compared,
            string_agg(CASE WHEN c.memory <> c.tables
                    THEN format('%s: memory %s, tables %s', c.tenant_id, c.memory, c.tables)
                    WHEN c.held_memory <> c.held
                    THEN format('%s: held in memory %s, in tables %s', c.tenant_id,
                        c.held_memory, c.held)
                    ELSE format('%s: %s', c.tenant_id, c.wrong) END,
                    ', ' ORDER BY c.tenant_id)
                FILTER (WHERE c.at_rest AND (c.memory <> c.tables
                    OR c.held_memory <> c.held OR c.wrong IS NOT NULL)) AS wrong,
            array_agg(c.tenant_id) FILTER (WHERE NOT c.at_rest) AS moved
            INTO v
            FROM (SELECT b.tenant_id, b.pins = 0 AND b IS NOT DISTINCT FROM s AS at_rest,
                    b.available_uc + coalesce(cell.unflushed, 0) AS memory,
                    coalesce(k.amount, 0) AS tables, cell.wrong,
                    b.held_uc AS held_memory, coalesce(h.amount, 0) AS held
                FROM unnest(before) b
                LEFT JOIN mortar.slots s USING (tenant_id)
                LEFT JOIN booked k USING (tenant_id)
                LEFT JOIN holding h USING (tenant_id)
                LEFT JOIN cell USING (tenant_id)) c;
        compared := compared + v.compared;
        wrong := concat_ws(', ', wrong, v.wrong);
        only_these := v.moved;
        EXIT WHEN only_these IS NULL;
    END LOOP;
    wrong := nullif(wrong, '');
END
$$;
COMMENT ON FUNCTION mortar.verify_slots(text) IS
    'part of verify_ledger: compares tables with tenants in memory that no transaction uses';

CREATE FUNCTION mortar.verify_ledger(tenant text DEFAULT NULL,
        OUT check_name text, OUT ok bool, OUT detail text) RETURNS SETOF record
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET row_security = on SET enable_nestloop = off
    SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    t ALIAS FOR tenant;
    v record;
BEGIN
    -- a fixed list of checks; each finds the tenants that break it
    FOR check_name, detail IN
        SELECT 'entries balance', string_agg(DISTINCT l.tenant_id, ', ')
        FROM mortar.credit_ledger l
        WHERE (t IS NULL OR l.tenant_id = t)
            AND (l.amount_uc <= 0 OR NOT EXISTS (
                SELECT FROM (VALUES
                    ('grant', 'issued', 'available', true),
                    ('charge', 'available', 'consumed', true),
                    ('charge', 'debt', 'consumed', false),
                    ('charge', 'issued', 'consumed', false),
                    ('hold', 'available', 'held', true),
                    ('hold', 'debt', 'held', false),
                    ('hold', 'issued', 'held', false),
                    -- what is held is of a grant, or was debt or issued
                    ('capture', 'held', 'consumed', true),
                    ('capture', 'held', 'consumed', false),
                    ('capture', 'available', 'consumed', true),
                    ('capture', 'debt', 'consumed', false),
                    ('capture', 'issued', 'consumed', false),
                    ('release', 'held', 'available', true),
                    ('release', 'held', 'debt', false),
                    ('release', 'held', 'issued', false),
                    ('reversal', 'consumed', 'available', true),
                    ('reversal', 'consumed', 'debt', false),
                    ('reversal', 'consumed', 'issued', false),
                    ('void', 'available', 'issued', true))
                    AS may (kind, from_account, to_account, of_grant)
                WHERE (l.kind, l.from_account, l.to_account, l.grant_id IS NOT NULL)
                    = (may.kind, may.from_account, may.to_account, may.of_grant)))
      UNION ALL
        SELECT 'every row has its tenant', string_agg(DISTINCT r.tenant_id, ', ')
        FROM (SELECT tenant_id FROM mortar.credit_ledger
              UNION ALL SELECT tenant_id FROM mortar.credit_grants
              UNION ALL SELECT tenant_id FROM mortar.credit_holds
              UNION ALL SELECT tenant_id FROM mortar.api_keys
              UNION ALL SELECT tenant_id FROM mortar.usage_marks
              UNION ALL SELECT tenant_id FROM mortar.usage_sync
              UNION ALL SELECT tenant_id FROM mortar.burn_marks
              UNION ALL SELECT tenant_id FROM mortar.prices
                WHERE tenant_id IS NOT NULL) r
        WHERE (t IS NULL OR r.tenant_id = t) AND NOT EXISTS (
            SELECT FROM mortar.tenants n WHERE n.tenant_id = r.tenant_id)
      UNION ALL
        SELECT 'every grant has its entry',
            string_agg(DISTINCT coalesce(g.tenant_id, l.tenant_id), ', ')
        FROM (SELECT * FROM mortar.credit_grants
                WHERE t IS NULL OR tenant_id = t) g
        FULL JOIN (SELECT * FROM mortar.credit_ledger
                WHERE kind = 'grant' AND (t IS NULL OR tenant_id = t)) l
            ON (l.tenant_id, l.grant_id, l.amount_uc)
                = (g.tenant_id, g.grant_id, g.amount_uc)
        WHERE g.grant_id IS NULL OR l.entry_id IS NULL
      UNION ALL
        SELECT 'no grant burns more than it is', string_agg(DISTINCT g.tenant_id, ', ')
        FROM mortar.grants g
        WHERE (t IS NULL OR g.tenant_id = t)
            AND (g.amount_uc IS NULL OR g.remaining_uc NOT BETWEEN 0 AND g.amount_uc)
      UNION ALL
        SELECT 'debt is never below zero', string_agg(d.tenant_id, ', ')
        FROM (SELECT tenant_id FROM (
                SELECT tenant_id, CASE 'debt' WHEN from_account THEN amount_uc
                        ELSE -amount_uc END AS amount
                    FROM mortar.credit_ledger
                    WHERE (t IS NULL OR tenant_id = t)
                        AND 'debt' IN (from_account, to_account)
                UNION ALL SELECT tenant_id, burned_uc FROM mortar.burn_marks
                    WHERE (t IS NULL OR tenant_id = t) AND from_account = 'debt'
                UNION ALL SELECT tenant_id, amount_uc FROM mortar.sync_burns
                    WHERE (t IS NULL OR tenant_id = t) AND from_account = 'debt') m
            GROUP BY tenant_id HAVING sum(amount) < 0) d
      UNION ALL
        SELECT 'movements are whole', string_agg(DISTINCT l.tenant_id, ', ')
        FROM mortar.credit_ledger l
        WHERE (t IS NULL OR l.tenant_id = t) AND l.movement_id <> l.entry_id
            AND NOT EXISTS (SELECT FROM mortar.credit_ledger f
                WHERE f.tenant_id = l.tenant_id AND f.entry_id = l.movement_id
                    AND (f.kind = l.kind OR f.kind = 'capture' AND l.kind = 'release'))
      UNION ALL
        SELECT 'every hold has its entries',
            string_agg(DISTINCT coalesce(h.tenant_id, l.tenant_id), ', ')
        FROM (SELECT * FROM mortar.credit_holds
                WHERE t IS NULL OR tenant_id = t) h
        FULL JOIN (SELECT tenant_id, movement_id, sum(amount_uc) AS amount
                FROM mortar.credit_ledger
                WHERE kind = 'hold' AND (t IS NULL OR tenant_id = t)
                GROUP BY tenant_id, movement_id) l
            ON (l.tenant_id, l.movement_id) = (h.tenant_id, h.hold_id)
        WHERE h.amount_uc IS DISTINCT FROM l.amount
      UNION ALL
        SELECT 'holds are resolved once, and whole', string_agg(DISTINCT l.tenant_id, ', ')
        FROM (SELECT tenant_id, reverses, sum(amount_uc) AS amount,
                    count(DISTINCT movement_id) AS times
                FROM mortar.credit_ledger
                WHERE from_account = 'held' AND (t IS NULL OR tenant_id = t)
                GROUP BY tenant_id, reverses) l
        LEFT JOIN mortar.credit_holds h
            ON (h.tenant_id, h.hold_id) = (l.tenant_id, l.reverses)
        WHERE l.amount IS DISTINCT FROM h.amount_uc OR l.times <> 1
      UNION ALL
        SELECT 'reversals do not exceed the charge', string_agg(DISTINCT r.tenant_id, ', ')
        FROM (SELECT tenant_id, reverses, sum(amount_uc) AS amount
                FROM mortar.credit_ledger
                WHERE kind = 'reversal' AND (t IS NULL OR tenant_id = t)
                GROUP BY tenant_id, reverses) r
        LEFT JOIN (SELECT tenant_id, movement_id, sum(amount_uc) AS amount
                FROM mortar.credit_ledger
                WHERE to_account = 'consumed' AND (t IS NULL OR tenant_id = t)
                GROUP BY tenant_id, movement_id) l
            ON (l.tenant_id, l.movement_id) = (r.tenant_id, r.reverses)
        WHERE r.amount > coalesce(l.amount, 0)
      UNION ALL
        SELECT 'idempotency keys name what exists',
            string_agg(DISTINCT i.tenant_id, ', ')
        FROM mortar.idempotency i
        WHERE (t IS NULL OR i.tenant_id = t)
            AND NOT EXISTS (SELECT FROM mortar.credit_ledger l
                WHERE l.tenant_id = i.tenant_id AND l.entry_id = i.result)
            AND NOT EXISTS (SELECT FROM mortar.credit_grants g
                WHERE g.tenant_id = i.tenant_id AND g.grant_id = i.result)
      UNION ALL
        SELECT 'usage journal has no gap', string_agg(DISTINCT j.tenant_id, ', ')
        FROM (SELECT j.tenant_id, j.from_qty, lag(j.upto_qty, 1, 0::int8) OVER (
                    PARTITION BY j.tenant_id, j.meter, j.key_id, j.route, j.price_id,
                        j.durable
                    ORDER BY j.from_qty) AS before
                FROM mortar.usage_journal j
                WHERE t IS NULL OR j.tenant_id = t) j
        WHERE j.from_qty <> j.before
      UNION ALL
        SELECT 'usage marks agree with the journal',
            string_agg(DISTINCT coalesce(m.tenant_id, j.tenant_id), ', ')
        FROM (SELECT * FROM mortar.usage_marks
                WHERE t IS NULL OR tenant_id = t) m
        FULL JOIN (SELECT tenant_id, meter, key_id, route, price_id, durable,
                    max(upto_qty) AS upto_qty, sum(cost_uc) AS cost_uc
                FROM mortar.usage_journal WHERE t IS NULL OR tenant_id = t
                GROUP BY tenant_id, meter, key_id, route, price_id, durable) j
            USING (tenant_id, meter, key_id, route, price_id, durable)
        WHERE m.upto_qty IS DISTINCT FROM j.upto_qty
            OR m.cost_uc IS DISTINCT FROM j.cost_uc
      UNION ALL
        SELECT 'usage is paid for, flush by flush',
            string_agg(DISTINCT coalesce(j.tenant_id, b.tenant_id), ', ')
        FROM (SELECT tenant_id, movement_id, sum(cost_uc) AS amount
                FROM mortar.usage_journal WHERE t IS NULL OR tenant_id = t
                GROUP BY tenant_id, movement_id) j
        FULL JOIN (SELECT tenant_id, movement_id, sum(amount_uc) AS amount
                FROM mortar.credit_burns WHERE t IS NULL OR tenant_id = t
                GROUP BY tenant_id, movement_id) b
            USING (tenant_id, movement_id)
        WHERE coalesce(j.amount, 0) <> coalesce(b.amount, 0)
      UNION ALL
        SELECT 'queued usage is paid for', string_agg(DISTINCT q.tenant_id, ', ')
        FROM mortar.usage_sync q
        WHERE (t IS NULL OR q.tenant_id = t) AND q.cost_uc <> (
            SELECT coalesce(sum(a), 0) FROM unnest(q.amounts_uc) a)
      UNION ALL
        SELECT 'burn marks agree with burns',
            string_agg(DISTINCT coalesce(m.tenant_id, b.tenant_id), ', ')
        FROM (SELECT * FROM mortar.burn_marks
                WHERE t IS NULL OR tenant_id = t) m
        FULL JOIN (SELECT tenant_id, from_account, grant_id, sum(amount_uc) AS burned
                FROM mortar.credit_burns WHERE t IS NULL OR tenant_id = t
                GROUP BY tenant_id, from_account, grant_id) b
            USING (tenant_id, from_account, grant_id)
        WHERE m.burned_uc IS DISTINCT FROM b.burned
      UNION ALL
        SELECT 'usage costs exactly its price', string_agg(DISTINCT j.tenant_id, ', ')
        FROM (SELECT j.tenant_id, sum(j.cost) AS cost,
                    coalesce(div(sum(j.qty) * p.num_uc, p.per_units), 0) AS exact,
                    -- a price of another meter, route or tenant
                    bool_or(p.meter <> j.meter OR p.route <> j.route
                        OR p.tenant_id <> j.tenant_id) AS foreign_price
                FROM (SELECT j.tenant_id, j.price_id, j.meter, j.route,
                        sum(j.upto_qty - j.from_qty) AS qty, sum(j.cost_uc) AS cost
                    FROM mortar.usage_journal j
                    WHERE t IS NULL OR j.tenant_id = t
                    GROUP BY j.tenant_id, j.price_id, j.meter, j.route) j
                LEFT JOIN mortar.prices p USING (price_id)
                GROUP BY j.tenant_id, j.price_id, p.num_uc, p.per_units) j
        WHERE j.cost <> j.exact OR j.foreign_price
    LOOP
        ok := detail IS NULL;
        detail := coalesce('wrong for: ' || detail, 'ok');
        RETURN NEXT;
    END LOOP;

    check_name := 'memory agrees with tables';
    IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        ok := true;
        detail := 'not compared: needs READ COMMITTED';
    ELSE
        v := mortar.verify_slots(t);
        ok := v.wrong IS NULL;
        detail := coalesce('wrong for: ' || v.wrong,
            pg_catalog.format('ok, %s tenants in memory and at rest', v.compared));
    END IF;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION mortar.verify_ledger(text) IS
    'one row per check of one tenant, or of all: ledger, grants, idempotency keys, usage, who paid for it, prices, memory; detail names the tenants that are wrong';
