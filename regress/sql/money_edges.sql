-- What a tenant has charged in all its life may be more than an int8 holds: no sum of
-- it stops a tenant, in any mode; and what is too much at once is 22003, for that
-- tenant only.
\set VERBOSITY sqlstate
\set most 2305843009213693951
SET client_min_messages = warning;
SELECT mortar.create_tenant('edge_' || t) FROM unnest('{u,s,h,p,q,other}'::text[]) t;
SELECT mortar.set_limit('edge_' || t, 'unlimited', max_unflushed_uc => :most) FROM unnest('{u,p,q}'::text[]) t;
SELECT mortar.set_limit('edge_s', 'soft');
SELECT mortar.grant_credits('edge_' || t, :most, 'g') IS NOT NULL AS granted FROM unnest('{h}'::text[]) t;
SELECT mortar.grant_credits('edge_other', 1000, 'g') IS NOT NULL AS granted;

-- a write that is not Mortar's own: everything is loaded again from tables
CREATE PROCEDURE reload() LANGUAGE sql AS $$UPDATE mortar.limits SET changed_at = changed_at$$;

-- n movements that end where they began, each in a transaction of its own
CREATE PROCEDURE churn(tenant text, what text, n int, amount int8 DEFAULT 2305843009213693951) LANGUAGE plpgsql AS $$
DECLARE
    id uuid;
BEGIN
    FOR i IN 1 .. n LOOP
        CASE what
        WHEN 'charge' THEN
            PERFORM mortar.charge(tenant, amount, what || i);
        WHEN 'reverse' THEN
            id := mortar.charge(tenant, amount, what || i);
            COMMIT;
            PERFORM mortar.reverse(tenant, id, what || 'r' || i);
        WHEN 'hold' THEN
            id := mortar.hold(tenant, amount, '1 hour', what || i);
            COMMIT;
            PERFORM mortar.capture(tenant, id, amount, what || 'c' || i);
        WHEN 'void' THEN
            id := mortar.hold(tenant, amount, '1 hour', what || i);
            COMMIT;
            PERFORM mortar.void_hold(tenant, id, what || 'v' || i);
        WHEN 'usage' THEN
            PERFORM mortar.record_usage(tenant, 'requests', 1);
        END CASE;
        COMMIT;
    END LOOP;
END$$;

-- unlimited: rows of the ledger count up to nothing
CALL churn('edge_u', 'charge', 6);
BEGIN;
SELECT count(mortar.charge('edge_u', :most, 'one' || i)) FROM generate_series(1, 6) i;
COMMIT;
BEGIN;
SELECT count(mortar.charge('edge_u', :most, 'gone' || i)) FROM generate_series(1, 6) i;
ROLLBACK;
SELECT count(mortar.charge('edge_u', :most, 'stmt' || i)) FROM generate_series(1, 6) i;
CALL churn('edge_u', 'reverse', 6);
CALL churn('edge_u', 'hold', 6);
CALL churn('edge_u', 'void', 6);
BEGIN;
SELECT count(mortar.reverse('edge_u', mortar.charge('edge_u', :most, 'both' || i), 'back' || i)) FROM generate_series(1, 6) i;
COMMIT;
SELECT mortar.charge('edge_u', 1, 'small') IS NOT NULL AS charged;
CALL reload();
SELECT * FROM mortar.balance('edge_u');
SELECT mortar.charge('edge_u', :most, 'after') IS NOT NULL AS charged;
SELECT mortar.set_limit('edge_u', 'hard');
SELECT mortar.charge('edge_u', 1, 'hard');
SELECT * FROM mortar.balance('edge_u');

-- what is held at once has an end
SELECT mortar.hold('edge_p', :most, '1 hour', 'h') IS NOT NULL AS held;
SELECT mortar.hold('edge_p', 1, '1 hour', 'h1');

-- soft: what is owed at once has an end, what has ever been owed has none
CALL churn('edge_s', 'reverse', 6);
CALL reload();
SELECT available_uc, debt_uc FROM mortar.balance('edge_s');
SELECT mortar.charge('edge_s', :most, 'all') IS NOT NULL AS charged;
SELECT mortar.charge('edge_s', 1, 'more');
SELECT available_uc, debt_uc FROM mortar.balance('edge_s');

-- hard: a grant is spent and comes back
CALL churn('edge_h', 'reverse', 6);
CALL churn('edge_h', 'void', 6);
CALL reload();
SELECT available_uc, debt_uc FROM mortar.balance('edge_h');
SELECT mortar.charge('edge_h', :most, 'all') IS NOT NULL AS charged;
SELECT mortar.charge('edge_h', 1, 'more');

-- usage: what one price has ever charged a tenant has an end, another price begins anew,
-- and what no credits pay for sums up for ever
SELECT mortar.set_price('requests', :most, 1, tenant => 'edge_p') IS NOT NULL AS priced;
CALL churn('edge_p', 'usage', 4);
SELECT mortar.record_usage('edge_p', 'requests', 1);
SELECT mortar.set_price('requests', :most, 1, tenant => 'edge_p') IS NOT NULL AS priced;
CALL churn('edge_p', 'usage', 4);
DO $$BEGIN
    FOR i IN 1 .. 6000 LOOP
        EXIT WHEN (SELECT unflushed_uc = 0 FROM mortar.balance('edge_p'));
        PERFORM pg_sleep(0.01);
        COMMIT;
    END LOOP;
END$$;
SELECT sum(cost_uc) = 8 * :most::numeric AS all_flushed, count(*) > 1 AS in_parts FROM mortar.usage_journal WHERE tenant_id = 'edge_p';
SELECT burned_uc = 8 * :most::numeric AS counted FROM mortar.burn_marks WHERE tenant_id = 'edge_p';
CALL reload();
SELECT available_uc, debt_uc, unflushed_uc FROM mortar.balance('edge_p');
SELECT mortar.charge('edge_p', :most, 'c') IS NOT NULL AS charged;
-- more than a sum of usage() can say
SELECT * FROM mortar.usage('edge_p');

-- what is unflushed at once has an end: a transaction's own usage is not flushed before its end
SELECT mortar.set_price('requests', :most, 1, tenant => 'edge_q') IS NOT NULL AS priced;
BEGIN;
SELECT mortar.record_usage('edge_q', 'requests', 1);
SELECT mortar.charge('edge_other', 1, 'meanwhile') IS NOT NULL AS charged;
SELECT mortar.record_usage('edge_q', 'requests', 1);
ROLLBACK;
SELECT mortar.record_usage('edge_q', 'requests', 1);
SELECT sum(quantity) FROM mortar.usage('edge_q');

SELECT available_uc FROM mortar.balance('edge_other');
SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok;
SELECT mortar.set_price('requests', 0, 1, tenant => t) IS NOT NULL AS free FROM unnest('{edge_p,edge_q}'::text[]) t;
DROP PROCEDURE reload();
DROP PROCEDURE churn(text, text, int, int8);
