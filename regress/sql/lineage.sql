-- Lineage: one query leads from whatever was used, charged, captured or given back to
-- the grants that paid, and all of it together to what is left of them.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin, regress_monitor;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
CREATE ROLE regress_monitor LOGIN IN ROLE mortar_monitor;
\c - regress_admin
SET client_min_messages = warning;
SELECT mortar.set_price('requests', 1, 1) IS NOT NULL AS priced;
SELECT mortar.set_price('egress_bytes', 3, 2) IS NOT NULL AS priced;
-- a and b are used up one after the other; c is the last
SELECT mortar.create_tenant('lin_a');
SELECT mortar.grant_credits('lin_a', 100, 'a', 1, 'promo') IS NOT NULL AND mortar.grant_credits('lin_a', 100, 'b', 2) IS NOT NULL
    AND mortar.grant_credits('lin_a', 1000, 'c', 3) IS NOT NULL AS granted;

-- usage: 30 requests and 20 bytes, at 1.5 each
SELECT mortar.record_usage('lin_a', 'requests', 30);
SELECT mortar.record_usage('lin_a', 'egress_bytes', 20);
DO $$BEGIN
    FOR i IN 1 .. 3000 LOOP
        EXIT WHEN (SELECT unflushed_uc = 0 FROM mortar.balance('lin_a'))
            AND (SELECT sum(burned_uc) = 60 FROM mortar.burn_marks WHERE tenant_id = 'lin_a');
        PERFORM pg_sleep(0.01);
        COMMIT;
    END LOOP;
END$$;
-- a charge that two grants pay, 40 and 80, and that is given back in part, twice
SELECT mortar.charge('lin_a', 120, 'charge', '{"order": 7}') AS charge \gset
SELECT mortar.reverse('lin_a', :'charge', 'part', 30) IS NOT NULL AND mortar.reverse('lin_a', :'charge', 'another', 60) IS NOT NULL AS reversed;
-- a hold of 150, of which 110 are captured, and 20 of these given back
SELECT mortar.hold('lin_a', 150, '1 hour', 'hold') AS hold \gset
SELECT mortar.capture('lin_a', :'hold', 110, 'capture') AS capture \gset
SELECT mortar.reverse('lin_a', :'capture', 'of the capture', 20) IS NOT NULL AS reversed;
-- more than was held
SELECT mortar.hold('lin_a', 10, '1 hour', 'small') AS small \gset
SELECT mortar.capture('lin_a', :'small', 25, 'more') AS more \gset

\c - regress_monitor
-- what was used
SELECT w->>'meter' AS meter, sum((w->>'quantity')::int8) AS quantity, sum((w->>'cost_uc')::int8) AS cost_uc
    FROM (SELECT DISTINCT movement_id, what FROM mortar.lineage WHERE tenant_id = 'lin_a' AND kind = 'usage') l, jsonb_array_elements(what) w
    GROUP BY 1 ORDER BY 1;
SELECT sum(amount_uc) AS amount_uc, priority, category FROM mortar.lineage WHERE tenant_id = 'lin_a' AND kind = 'usage' GROUP BY 2, 3;
-- what became of a charge, of a hold, of a capture: each by its id alone
\set what_became 'SELECT kind, from_account, amount_uc, priority, what FROM mortar.lineage WHERE tenant_id = ''lin_a'' AND'
\set in_order 'ORDER BY at, kind, priority, amount_uc;'
:what_became :'charge' IN (movement_id, reverses) :in_order
:what_became :'hold' IN (movement_id, reverses) :in_order
:what_became :'capture' IN (movement_id, reverses) :in_order
:what_became :'more' IN (movement_id, reverses) :in_order
-- an entry's other tenant has no part in it
SELECT count(*) FROM mortar.lineage WHERE tenant_id = 'lin_b' AND :'charge' IN (movement_id, reverses);
-- all of it together: what each grant has lost, by hand 60 + 40 - 10 + 10, 80 - 80 + 100
-- - 20 + 20, and 40 - 40 + 5
SELECT priority, sum(CASE WHEN kind IN ('usage', 'charge', 'hold', 'void') OR from_account = 'available' THEN amount_uc
        WHEN kind IN ('release', 'reversal') THEN -amount_uc ELSE 0 END) AS gone
    FROM mortar.lineage WHERE tenant_id = 'lin_a' GROUP BY 1 ORDER BY 1;
SELECT priority, amount_uc - remaining_uc AS gone FROM mortar.grants WHERE tenant_id = 'lin_a' ORDER BY 1;
SELECT check_name, detail FROM mortar.verify_ledger('lin_a') WHERE NOT ok;
\c - regress_admin
SELECT mortar.set_price(m, 0, 1) IS NOT NULL AS free FROM unnest('{requests,egress_bytes}'::text[]) m;
\c - :super
DROP ROLE regress_admin, regress_monitor;
