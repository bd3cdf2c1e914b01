-- Usage is visible at once: usage() and balance() show it from the moment its
-- transaction has committed, whether it has been written to tables or not.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
\c - regress_admin
SELECT mortar.create_tenant('usa_a');
SELECT mortar.create_tenant('usa_b');
SELECT mortar.grant_credits('usa_a', 100000, 'g') IS NOT NULL AS granted;
SELECT mortar.set_price('requests', 10, 1) IS NOT NULL AS priced;
SELECT mortar.set_price('egress_bytes', 1, 100) IS NOT NULL AS priced;

-- waits until the flusher has written all usage of the tenant
CREATE PROCEDURE pg_temp.flushed(tenant text) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 3000 LOOP
        EXIT WHEN (SELECT sum(quantity) FROM mortar.usage(tenant))
            = (SELECT sum(upto_qty - from_qty) FROM mortar.usage_journal j WHERE j.tenant_id = tenant);
        PERFORM pg_sleep(0.01);
        COMMIT;
    END LOOP;
    COMMIT;
END
$$;

-- none yet
SELECT * FROM mortar.usage('usa_a');

-- at once after the commit
SELECT mortar.record_usage('usa_a', 'requests', 3);
SELECT meter, quantity, cost_uc FROM mortar.usage('usa_a');
SELECT mortar.record_usage('usa_a', 'egress_bytes', 250);
SELECT mortar.record_usage('usa_a', 'egress_bytes', 250);
SELECT meter, quantity, cost_uc FROM mortar.usage('usa_a') ORDER BY meter;
SELECT available_uc FROM mortar.balance('usa_a');

-- and the same when the tables hold it
CALL pg_temp.flushed('usa_a');
SELECT meter, quantity, cost_uc FROM mortar.usage('usa_a') ORDER BY meter;
SELECT available_uc, unflushed_uc FROM mortar.balance('usa_a');
SELECT meter, sum(upto_qty - from_qty) AS quantity, sum(cost_uc) AS cost_uc
    FROM mortar.usage_journal WHERE tenant_id = 'usa_a' GROUP BY meter ORDER BY meter;

-- usage of the running transaction is paid at once, counts after its commit
BEGIN;
SELECT mortar.record_usage('usa_a', 'requests', 4);
SELECT quantity FROM mortar.usage('usa_a') WHERE meter = 'requests';
SELECT available_uc FROM mortar.balance('usa_a');
COMMIT;
SELECT quantity FROM mortar.usage('usa_a') WHERE meter = 'requests';
-- and rolled back it neither counts nor costs
BEGIN;
SELECT mortar.record_usage('usa_a', 'requests', 5);
ROLLBACK;
SELECT quantity FROM mortar.usage('usa_a') WHERE meter = 'requests';
SELECT available_uc FROM mortar.balance('usa_a');

-- a refused call counts nothing: what is left cannot pay for 10,000 requests
SELECT mortar.record_usage('usa_a', 'requests', 10000);
SELECT quantity FROM mortar.usage('usa_a') WHERE meter = 'requests';
SELECT available_uc FROM mortar.balance('usa_a');

-- REPEATABLE READ sees all usage too: usage() and balance() agree in one moment
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT sum(cost_uc) + (SELECT available_uc FROM mortar.balance('usa_a')) AS granted FROM mortar.usage('usa_a');
COMMIT;

-- broken down; null where by does not ask
SELECT meter, key_id, route, bucket, quantity FROM mortar.usage('usa_a', by => '{}');
SELECT meter, key_id, route, quantity FROM mortar.usage('usa_a', by => '{meter,key,route}') ORDER BY meter;
SELECT meter, sum(quantity) AS quantity, bool_and(bucket = date_trunc('minute', bucket)) AS on_the_minute
    FROM mortar.usage('usa_a', by => '{meter,minute}') GROUP BY meter ORDER BY meter;
SELECT sum(quantity) AS quantity, bool_and(bucket = date_trunc('hour', bucket, 'UTC')) AS on_the_hour
    FROM mortar.usage('usa_a', by => '{hour}');
SELECT sum(quantity) AS quantity, bool_and(bucket = date_trunc('day', bucket, 'Asia/Kolkata')) AS on_the_day
    FROM mortar.usage('usa_a', by => '{day}', tz => 'Asia/Kolkata');
SELECT sum(quantity) AS quantity, bool_and(bucket = date_trunc('month', bucket, 'America/New_York')) AS on_the_month
    FROM mortar.usage('usa_a', by => '{month}', tz => 'America/New_York');

-- [since, until) is half open: each minute is in exactly one of two windows
-- that meet, and a window of one minute holds that minute's usage
SELECT min(bucket) AS first, max(bucket) AS last, sum(quantity) AS total
    FROM mortar.usage('usa_a', by => '{minute}') \gset
SELECT count(*) AS rows_before FROM mortar.usage('usa_a', until => :'first');
SELECT count(*) AS rows_after FROM mortar.usage('usa_a', since => :'last'::timestamptz + interval '1 minute');
SELECT sum(quantity) = :total AS all_in_the_window
    FROM mortar.usage('usa_a', :'first', :'last'::timestamptz + interval '1 minute');
SELECT sum(quantity) = :total AS two_halves_make_it_whole FROM (
    SELECT quantity FROM mortar.usage('usa_a', until => :'last')
    UNION ALL SELECT quantity FROM mortar.usage('usa_a', since => :'last')) u;
SELECT bool_and(w.quantity = m.quantity) AS minute_by_minute
    FROM mortar.usage('usa_a', by => '{meter,minute}') m,
    LATERAL mortar.usage('usa_a', m.bucket, m.bucket + interval '1 minute') w
    WHERE w.meter = m.meter;
SELECT count(*) AS empty_window FROM mortar.usage('usa_a', :'last', :'last');

-- odd questions are errors
SELECT * FROM mortar.usage('usa_a', by => '{tenant}');
SELECT * FROM mortar.usage('usa_a', by => '{hour,day}');
SELECT * FROM mortar.usage('usa_a', by => '{NULL}');
SELECT * FROM mortar.usage('usa_a', by => NULL);
SELECT * FROM mortar.usage('usa_a', since => NULL);
SELECT * FROM mortar.usage('usa_a', tz => 'Atlantis/Capital', by => '{day}');
SELECT mortar.record_usage('usa_a', 'requests', -1);
SELECT mortar.record_usage('usa_a', 'requests', NULL);
SELECT mortar.record_usage('usa_a', 'tokens', 1);
SELECT mortar.record_usage('usa_a', NULL, 1);
SELECT mortar.record_usage(NULL, 'requests', 1);

-- one tenant's usage is no other's
SELECT * FROM mortar.usage('usa_b');
SELECT meter, quantity, cost_uc FROM mortar.usage('usa_a') ORDER BY meter;

-- memory that is thrown away is rebuilt from tables, to the same figures
CALL pg_temp.flushed('usa_a');
\c - :super
UPDATE mortar.tenants SET name = 'memory is stale now' WHERE tenant_id = 'usa_a';
\c - regress_admin
SELECT meter, quantity, cost_uc FROM mortar.usage('usa_a') ORDER BY meter;
SELECT available_uc FROM mortar.balance('usa_a');
SELECT mortar.record_usage('usa_a', 'egress_bytes', 99);
SELECT mortar.record_usage('usa_a', 'egress_bytes', 1);
SELECT meter, quantity, cost_uc FROM mortar.usage('usa_a') WHERE meter = 'egress_bytes';
SELECT * FROM mortar.verify_ledger('usa_a') WHERE NOT ok;
SELECT mortar.set_price('requests', 0, 1) IS NOT NULL AS free;
SELECT mortar.set_price('egress_bytes', 0, 1) IS NOT NULL AS free;
DISCARD TEMP;
\c - :super
DROP ROLE regress_admin;
