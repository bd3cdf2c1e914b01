-- Prices are exact: what usage costs is floor(everything * price), in any mix
-- of sizes, transactions and aborts; a price holds for calls after its commit.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
\c - regress_admin
SELECT mortar.create_tenant('pri_a');
SELECT mortar.create_tenant('pri_b');
SELECT mortar.grant_credits('pri_a', 1000000, 'g') IS NOT NULL AS granted;
SELECT mortar.grant_credits('pri_b', 1000000, 'g') IS NOT NULL AS granted;
CREATE FUNCTION pg_temp.cost(tenant text DEFAULT 'pri_a') RETURNS numeric LANGUAGE sql
    AS 'SELECT coalesce(sum(cost_uc), 0) FROM mortar.usage(tenant)';
CREATE FUNCTION pg_temp.spent(tenant text DEFAULT 'pri_a') RETURNS int8 LANGUAGE sql
    AS 'SELECT 1000000 - available_uc FROM mortar.balance(tenant)';

-- arguments: at, below and above the limits
SELECT mortar.set_price('egress_bytes', -1, 1);
SELECT mortar.set_price('egress_bytes', 1, 0);
SELECT mortar.set_price('egress_bytes', 1, -1);
SELECT mortar.set_price('egress_bytes', NULL, 1);
SELECT mortar.set_price('egress_bytes', 1, NULL);
SELECT mortar.set_price('ingress_bytes', 1, 1);
SELECT mortar.set_price(NULL, 1, 1);
SELECT mortar.set_price('egress_bytes', 2305843009213693952, 1);
SELECT mortar.set_price('egress_bytes', 2305843009213693951, 9223372036854775807) IS NOT NULL AS largest;

-- 0.3 credit/GB: 3,333 bytes cost nothing, the 3,334th makes one micro-credit
SELECT mortar.set_price('requests', 0, 1) IS NOT NULL AS requests_free;
SELECT mortar.set_price('egress_bytes', 300000, 1000000000) IS NOT NULL AS price_set;
SELECT mortar.record_usage('pri_a', 'egress_bytes', 3333);
SELECT pg_temp.cost(), pg_temp.spent();
SELECT mortar.record_usage('pri_a', 'egress_bytes', 1);
SELECT pg_temp.cost(), pg_temp.spent();

-- 10,000 calls of 1,000 bytes cost exactly 3,000 uc more
DO $$BEGIN
    FOR i IN 1 .. 10000 LOOP PERFORM mortar.record_usage('pri_a', 'egress_bytes', 1000); END LOOP;
END$$;
SELECT pg_temp.cost(), pg_temp.spent(), floor((3334 + 10000000) * 0.0003) AS exact;

-- what is rolled back costs nothing, and does not disturb the sum: of each
-- seven calls one is rolled back by itself, one with its transaction
DO $$BEGIN
    FOR i IN 1 .. 1000 LOOP
        FOR j IN 1 .. 5 LOOP PERFORM mortar.record_usage('pri_a', 'egress_bytes', 997); END LOOP;
        BEGIN
            PERFORM mortar.record_usage('pri_a', 'egress_bytes', 1009);
            RAISE EXCEPTION 'not this one';
        EXCEPTION WHEN raise_exception THEN
        END;
        COMMIT;
        PERFORM mortar.record_usage('pri_a', 'egress_bytes', 3331);
        ROLLBACK;
    END LOOP;
END$$;
SELECT pg_temp.cost(), pg_temp.spent(), floor((3334 + 10000000 + 1000 * 5 * 997) * 0.0003) AS exact;

-- a meter without a price in force, or with price 0, is counted and free
SELECT mortar.record_usage('pri_a', 'requests', 1000000000);
SELECT pg_temp.cost(), pg_temp.spent();
SELECT meter, quantity, cost_uc FROM mortar.usage('pri_a') ORDER BY meter;

-- zero bytes cost nothing and are no usage
SELECT mortar.record_usage('pri_b', 'egress_bytes', 0);
SELECT * FROM mortar.usage('pri_b');

-- a new price holds for later calls; each price rounds down its own sum
SELECT mortar.record_usage('pri_b', 'egress_bytes', 9999);
SELECT pg_temp.cost('pri_b'), pg_temp.spent('pri_b');
SELECT mortar.set_price('egress_bytes', 7, 2) IS NOT NULL AS dearer;
SELECT mortar.record_usage('pri_b', 'egress_bytes', 1);
SELECT pg_temp.cost('pri_b'), pg_temp.spent('pri_b'), floor(9999 * 0.0003) + floor(3.5) AS exact;
SELECT mortar.record_usage('pri_b', 'egress_bytes', 1);
SELECT pg_temp.cost('pri_b'), pg_temp.spent('pri_b'), floor(9999 * 0.0003) + floor(7.0) AS exact;
-- the transaction that sets a price still pays the old one; rolled back, it was none
BEGIN;
SELECT mortar.set_price('egress_bytes', 100, 1) IS NOT NULL AS dearer;
SELECT mortar.record_usage('pri_b', 'egress_bytes', 2);
ROLLBACK;
SELECT mortar.record_usage('pri_b', 'egress_bytes', 2);
SELECT pg_temp.cost('pri_b'), pg_temp.spent('pri_b'), 2 + floor(4 * 3.5) AS exact;
SELECT meter, num_uc, per_units FROM mortar.prices
    WHERE meter = 'egress_bytes' ORDER BY valid_from DESC LIMIT 2;

-- the dearest price and the largest quantity: MT402 or 22003, never a wrap-around
SELECT mortar.set_price('egress_bytes', 2305843009213693951, 1) IS NOT NULL AS dearest;
SELECT mortar.record_usage('pri_b', 'egress_bytes', 1);
SELECT mortar.record_usage('pri_b', 'egress_bytes', 2305843009213693951);
SELECT mortar.record_usage('pri_b', 'egress_bytes', 2305843009213693952);
SELECT mortar.record_usage('pri_b', 'egress_bytes', 9223372036854775807);
SELECT mortar.set_price('egress_bytes', 0, 1) IS NOT NULL AS free;
SELECT mortar.record_usage('pri_b', 'egress_bytes', 2305843009213693951);
SELECT mortar.record_usage('pri_b', 'egress_bytes', 1);
SELECT pg_temp.cost('pri_b'), pg_temp.spent('pri_b'), 2 + floor(4 * 3.5) AS exact;


-- quantities in flight count too: the largest fits once, into one transaction or two
SELECT mortar.create_tenant('pri_much');
BEGIN;
SELECT mortar.record_usage('pri_much', 'egress_bytes', 2305843009213693951);
SAVEPOINT s;
SELECT mortar.record_usage('pri_much', 'egress_bytes', 1);
ROLLBACK TO s;
SELECT mortar.record_usage('pri_much', 'egress_bytes', 2305843009213693951) FROM generate_series(1, 5);
ROLLBACK;
SELECT mortar.record_usage('pri_much', 'egress_bytes', 2305843009213693950);
SELECT mortar.record_usage('pri_much', 'egress_bytes', 2);
SELECT mortar.record_usage('pri_much', 'egress_bytes', 1);
SELECT quantity FROM mortar.usage('pri_much');

-- a cost beyond every balance is refused, whatever the balance: 2 * (2^61 - 1)
SELECT mortar.create_tenant('pri_rich');
SELECT mortar.grant_credits('pri_rich', 2305843009213693951, 'g') IS NOT NULL AS granted;
SELECT mortar.set_price('requests', 2305843009213693951, 1) IS NOT NULL AS dearest;
SELECT mortar.record_usage('pri_rich', 'requests', 2);
SELECT mortar.record_usage('pri_rich', 'requests', 2305843009213693951);
SELECT available_uc FROM mortar.balance('pri_rich');
SELECT mortar.record_usage('pri_rich', 'requests', 1);
SELECT available_uc FROM mortar.balance('pri_rich');
SELECT meter, quantity, cost_uc FROM mortar.usage('pri_rich');
SELECT mortar.set_price('requests', 0, 1) IS NOT NULL AS free;

SELECT * FROM mortar.verify_ledger() WHERE NOT ok;
DISCARD TEMP;
\c - :super
DROP ROLE regress_admin;
