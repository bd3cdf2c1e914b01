-- Burn order with ties in everything, whoever spends: priority, soonest end (never comes
-- last), promo before paid, earlier start, id.  48 grants, given in no order, against
-- what ORDER BY says.  And debt: several grants repay it, and a capture may exceed its
-- hold as far as the tenant may spend.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
SELECT mortar.set_price('requests', 1, 1) IS NOT NULL AS priced;
SELECT mortar.set_price('egress_bytes', 0, 1) IS NOT NULL AS free;
SELECT mortar.create_tenant('ord_' || t) FROM unnest('{charge,bits,usage,hold,stale,own}'::text[]) t;
-- the earlier of two equal ones has the smaller id
CREATE FUNCTION pg_temp.give(tenant text) RETURNS int8 LANGUAGE sql AS
    $$SELECT count(mortar.grant_credits(tenant, 10, format('%s %s %s %s %s', p, e, c, s, twin), p, c, '2020-01-01'::timestamptz + s * interval '1 day',
            '2100-01-01'::timestamptz + e * interval '1 day'))
        FROM (SELECT * FROM generate_series(1, 2) p, unnest('{1,2,NULL}'::int[]) e, unnest('{promo,paid}'::text[]) c, generate_series(1, 2) s,
            generate_series(1, 2) twin ORDER BY md5(concat(p, e, c, s, twin))) x$$;
-- the grants that do not have left what they should, when so much was spent
CREATE FUNCTION pg_temp.wrong(tenant text, spent int8) RETURNS text LANGUAGE sql AS
    $$SELECT string_agg(format('%s %s %s %s: %s, not %s', priority, expires_at::date, category, effective_at::date, g.remaining_uc, expected), '; ')
        FROM (SELECT grant_id, amount_uc - greatest(0, least(amount_uc, spent - sum(amount_uc) OVER (ORDER BY priority, expires_at NULLS LAST,
            category = 'paid', effective_at, grant_id) + amount_uc)) AS expected FROM mortar.credit_grants WHERE tenant_id = tenant) o
        JOIN mortar.grants g ON g.tenant_id = tenant AND g.grant_id = o.grant_id WHERE g.remaining_uc <> expected$$;
SELECT t, pg_temp.give('ord_' || t) FROM unnest('{charge,bits,usage,hold,stale}'::text[]) t;

-- ---- by charges: one large one, small ones ----
SELECT mortar.charge('ord_charge', 237, 'c') IS NOT NULL AS charged;
SELECT pg_temp.wrong('ord_charge', 237) AS wrong;
DO $$BEGIN
    FOR i IN 1 .. 68 LOOP
        PERFORM mortar.charge('ord_bits', 7, 'c' || i);
        COMMIT;
        IF pg_temp.wrong('ord_bits', 7 * i) IS NOT NULL THEN
            RAISE 'charge %: %', i, pg_temp.wrong('ord_bits', 7 * i);
        END IF;
    END LOOP;
END$$;
SELECT available_uc FROM mortar.balance('ord_bits');
-- ---- by usage ----
DO $$BEGIN
    FOR i IN 1 .. 60 LOOP
        PERFORM mortar.record_usage('ord_usage', 'requests', 7);
        COMMIT;
    END LOOP;
    FOR i IN 1 .. 3000 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM mortar.cells WHERE tenant_id = 'ord_usage' AND unflushed_uc <> 0)
            AND (SELECT unflushed_uc = 0 FROM mortar.balance('ord_usage'));
        PERFORM pg_sleep(0.01);
        COMMIT;
    END LOOP;
END$$;
SELECT pg_temp.wrong('ord_usage', 420) AS wrong;
-- ---- by holds, one of which is captured in part: the rest goes back to the last that paid ----
SELECT mortar.hold('ord_hold', 201, '1 hour', 'h') AS hold \gset
SELECT pg_temp.wrong('ord_hold', 201) AS wrong;
SELECT mortar.capture('ord_hold', :'hold', 33, 'c') IS NOT NULL AS captured;
SELECT pg_temp.wrong('ord_hold', 33) AS wrong;
SELECT mortar.hold('ord_hold', 222, '1 hour', 'i') IS NOT NULL AS held;
SELECT pg_temp.wrong('ord_hold', 255) AS wrong;
-- ---- read from tables again before each ----
DO $$BEGIN
    FOR i IN 1 .. 20 LOOP
        UPDATE mortar.tenants SET name = i::text WHERE tenant_id = 'ord_stale';
        COMMIT;
        PERFORM mortar.charge('ord_stale', 23, 'c' || i);
        COMMIT;
        IF pg_temp.wrong('ord_stale', 23 * i) IS NOT NULL THEN
            RAISE 'charge %: %', i, pg_temp.wrong('ord_stale', 23 * i);
        END IF;
    END LOOP;
END$$;
-- ---- a transaction's own ones, more than there are cells for ----
BEGIN;
SELECT pg_temp.give('ord_own');
SELECT count(mortar.charge('ord_own', 23, 'c' || i)) FROM generate_series(1, 9) i;
SELECT available_uc FROM mortar.balance('ord_own');
COMMIT;
SELECT sum(remaining_uc) FROM mortar.grants WHERE tenant_id = 'ord_own';

-- ---- debt is repaid by several grants, each as far as it goes, in the order in which they come ----
\c - regress_admin
SET client_min_messages = warning;
SELECT mortar.create_tenant('ord_debt');
SELECT mortar.set_limit('ord_debt', 'hard', 100);
SELECT mortar.charge('ord_debt', 100, 'c') IS NOT NULL AS charged;
SELECT mortar.grant_credits('ord_debt', 30, 'g1', 9) IS NOT NULL AS granted;
SELECT available_uc, debt_uc FROM mortar.balance('ord_debt');
BEGIN;
SELECT mortar.grant_credits('ord_debt', 30, 'g2', 1) IS NOT NULL AND mortar.grant_credits('ord_debt', 20, 'g3', 2) IS NOT NULL
    AND mortar.grant_credits('ord_debt', 50, 'g4', 3) IS NOT NULL AS granted;
SELECT available_uc, debt_uc FROM mortar.balance('ord_debt');
COMMIT;
SELECT available_uc, debt_uc FROM mortar.balance('ord_debt');
DO $$BEGIN
    FOR i IN 1 .. 3000 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM mortar.cells WHERE tenant_id = 'ord_debt' AND unflushed_uc <> 0);
        PERFORM pg_sleep(0.01);
        COMMIT;
    END LOOP;
END$$;
SELECT sum(remaining_uc), sum(amount_uc - remaining_uc) AS repaid FROM mortar.grants WHERE tenant_id = 'ord_debt';
SELECT mortar.charge('ord_debt', 131, 'd');
SELECT mortar.charge('ord_debt', 130, 'd') IS NOT NULL AS charged;
SELECT available_uc, debt_uc FROM mortar.balance('ord_debt');

-- ---- a capture above its hold: below, at and above what the tenant may spend ----
CREATE FUNCTION pg_temp.rows(movement uuid) RETURNS text LANGUAGE sql AS
    $$SELECT string_agg(format('%s %s>%s %s', kind, from_account, to_account, amount_uc), ', ' ORDER BY entry_id)
        FROM mortar.credit_ledger WHERE movement_id = movement$$;
SELECT mortar.create_tenant('ord_cap_' || t), mortar.grant_credits('ord_cap_' || t, 100, 'g') IS NOT NULL AS granted FROM unnest('{hard,over,soft,un}'::text[]) t;
SELECT mortar.set_limit('ord_cap_over', 'hard', 50), mortar.set_limit('ord_cap_soft', 'soft'), mortar.set_limit('ord_cap_un', 'unlimited');
CREATE TEMP TABLE holds AS SELECT 'ord_cap_' || t AS t, n, mortar.hold('ord_cap_' || t, 30, '1 hour', 'h' || n) AS h
    FROM unnest('{hard,over,soft,un}'::text[]) t, generate_series(1, 2) n;
\set capture 'SELECT t, pg_temp.rows(mortar.capture(t, h, amount, ''c'' || n || amount)), b.available_uc, b.held_uc, b.debt_uc FROM holds, mortar.balance(t) b, (SELECT '
-- when 31 of 30 have been captured 39 are left: 69 is all, 70 too much for a hard tenant; 119 and 120 with an overdraft of 50
:capture 31 AS amount) a WHERE n = 1 ORDER BY t;
SELECT tenant_id, available, held, debt FROM mortar.balances WHERE tenant_id LIKE 'ord\_cap%' ORDER BY 1;
:capture 70 AS amount) a WHERE n = 2 AND t = 'ord_cap_hard';
:capture 69 AS amount) a WHERE n = 2 AND t = 'ord_cap_hard';
:capture 120 AS amount) a WHERE n = 2 AND t = 'ord_cap_over';
:capture 119 AS amount) a WHERE n = 2 AND t = 'ord_cap_over';
:capture 1000 AS amount) a WHERE n = 2 AND t IN ('ord_cap_soft', 'ord_cap_un') ORDER BY t;
SELECT tenant_id, available, held, debt FROM mortar.balances WHERE tenant_id LIKE 'ord\_cap%' ORDER BY 1;

SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok;
SELECT mortar.set_price('requests', 0, 1) IS NOT NULL AS free;
\c - :super
DROP OWNED BY regress_admin;
DROP ROLE regress_admin;
