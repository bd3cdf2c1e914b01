-- Prices of routes and tenants, and prices in time: the most specific one in
-- force holds, versions come into force by themselves, each price adds up by itself.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
SELECT mortar.create_tenant('psc_' || t) FROM unnest('{a,b,poor,many,time}'::text[]) t;
SELECT count(mortar.grant_credits('psc_' || t, 1000000000, 'g')) FROM unnest('{a,b,many,time}'::text[]) t;
CREATE TABLE psc_key AS SELECT tenant_id, mortar.create_key(tenant_id, 'k') AS key FROM mortar.tenants WHERE tenant_id LIKE 'psc\_%';
SELECT mortar.set_price('requests', 1, 1) IS NOT NULL AS general;
SELECT mortar.set_price('egress_bytes', 0, 1) IS NOT NULL AS free;

-- what a call answers, and how long its body is
CREATE FUNCTION psc_call(who text, method text, path text, body text DEFAULT NULL, OUT status int, OUT bytes int) LANGUAGE sql AS $$
    SELECT h.status, octet_length(h.body) FROM psc_key, mortar.http(who, method, convert_to(path, 'UTF8'), NULL,
        ARRAY['authorization', 'Bearer ' || key, 'content-type', 'application/json', 'prefer', 'return=representation'], convert_to(psc_call.body, 'UTF8'), '127.0.0.1', 'r') h
    WHERE tenant_id = who
$$;
-- what has been paid since one last asked
CREATE TABLE psc_left AS SELECT tenant_id, 1000000000::int8 AS left_uc FROM psc_key;
CREATE FUNCTION paid(who text) RETURNS int8 LANGUAGE sql AS $$
    UPDATE psc_left l SET left_uc = b.available_uc FROM psc_left o, mortar.balance(who) b
    WHERE l.tenant_id = who AND o.tenant_id = who RETURNING o.left_uc - b.available_uc
$$;
GRANT SELECT, UPDATE ON psc_left TO mortar_admin;

-- arguments: at, below and above the limits
\c - regress_admin
SELECT mortar.set_price('requests', 1, 1, route => 'GET /db/nothing');
\echo :LAST_ERROR_MESSAGE
SELECT mortar.set_price('requests', 1, 1, route => '/db/tables');
SELECT mortar.set_price('requests', 1, 1, route => 'get /db/tables');
SELECT mortar.set_price('requests', 1, 1, route => 'HEAD /db/tables');
SELECT mortar.set_price('requests', 1, 1, route => 'GET /db/tables/notes');
SELECT mortar.set_price('requests', 1, 1, route => '');
SELECT mortar.set_price('requests', 1, 1, route => 'GET /usage/me');
\echo :LAST_ERROR_MESSAGE
SELECT mortar.set_price('requests', 1, 1, tenant => 'psc_nobody');
SELECT mortar.set_price('requests', 1, 1, tenant => 'No Tenant');
SELECT mortar.set_price('requests', 1, 1, tenant => '');
SELECT mortar.set_price('requests', 1, 1, route => 'GET /db/nothing', tenant => 'psc_a');
SELECT mortar.set_price('requests', 1, 1, route => 'GET /db/tables', tenant => 'psc_nobody');
SELECT mortar.set_price('requests', 1, 1, valid_from => NULL);
SELECT mortar.set_price('requests', 1, 1, valid_from => 'infinity');
SELECT mortar.set_price('requests', 1, 1, valid_from => '-infinity');
SELECT mortar.set_price('requests', 2305843009213693952, 1, tenant => 'psc_a');
SELECT mortar.set_price('requests', 0, 9223372036854775807, tenant => 'psc_a') IS NOT NULL AS at_the_limits;
SELECT count(*) AS rows_of_ours FROM mortar.prices WHERE tenant_id LIKE 'psc\_%' OR route IS NOT NULL;

-- general 1, route 10, tenant 100, tenant and route 1000
SELECT mortar.set_price('requests', 10, 1, route => 'DELETE /db/rows/{t}/{id}') IS NOT NULL AS of_the_route;
SELECT mortar.set_price('requests', 100, 1, tenant => 'psc_a') IS NOT NULL AS of_the_tenant;
SELECT mortar.set_price('requests', 1000, 1, 'GET /db/tables', 'psc_a') IS NOT NULL AS of_both;
\c - :super
SET client_min_messages = warning;
\set row '/db/rows/none/00000000-0000-7000-8000-000000000000'
SELECT status, paid('psc_b') FROM psc_call('psc_b', 'GET', '/db/tables');
SELECT status, paid('psc_b') FROM psc_call('psc_b', 'POST', '/db/tables', '{"name":"none"}');
SELECT status, paid('psc_a') FROM psc_call('psc_a', 'POST', '/db/tables', '{"name":"none"}');
SELECT status, paid('psc_a') FROM psc_call('psc_a', 'PUT', :'row', '{}');
SELECT status, paid('psc_b') FROM psc_call('psc_b', 'PUT', :'row', '{}');
-- the route's price for everybody but the tenant that has its own
SELECT status, paid('psc_b') FROM psc_call('psc_b', 'DELETE', :'row');
SELECT status, paid('psc_a') FROM psc_call('psc_a', 'DELETE', :'row');
SELECT status, paid('psc_a') FROM psc_call('psc_a', 'GET', '/db/tables');
-- HEAD is a call of GET's route
SELECT status, paid('psc_a') FROM psc_call('psc_a', 'HEAD', '/db/tables');
-- /usage/me stays free
SELECT status, paid('psc_a') FROM psc_call('psc_a', 'GET', '/usage/me');
-- record_usage is of no route
SELECT mortar.record_usage('psc_a', 'requests', 3), mortar.record_usage('psc_b', 'requests', 3);
SELECT paid('psc_a'), paid('psc_b');
-- a price of both meters' own: the other meter keeps its general one
SELECT mortar.set_price('egress_bytes', 1, 1, 'GET /db/tables', 'psc_b') IS NOT NULL AS bytes_too;
SELECT status, paid('psc_b') - bytes AS for_the_request FROM psc_call('psc_b', 'GET', '/db/tables');
SELECT status, paid('psc_b') FROM psc_call('psc_b', 'GET', '/db/tables/none');

-- admission asks for the prices of this tenant and route
SELECT status FROM psc_call('psc_poor', 'GET', '/db/tables');
SELECT mortar.set_price('requests', 0, 1, 'GET /db/tables', 'psc_poor') IS NOT NULL AS free;
SELECT status FROM psc_call('psc_poor', 'GET', '/db/tables');
SELECT status FROM psc_call('psc_poor', 'POST', '/db/tables', '{"name":"none"}');
SELECT mortar.set_price('requests', 0, 1, tenant => 'psc_poor') IS NOT NULL AS all_free;
SELECT status FROM psc_call('psc_poor', 'POST', '/db/tables', '{"name":"none"}');
SELECT status FROM psc_call('psc_poor', 'GET', '/db/tables/none');
SELECT mortar.set_price('egress_bytes', 1, 1000000000, 'GET /db/tables', 'psc_poor') IS NOT NULL AS not_the_bytes;
SELECT status FROM psc_call('psc_poor', 'GET', '/db/tables');
SELECT status FROM psc_call('psc_poor', 'GET', '/db/tables/none');
SELECT status FROM psc_call('psc_b', 'GET', '/db/tables');
SELECT paid('psc_b') > 0 AS paid;

-- the transaction that sets a price still pays the old one; rolled back, it was none
BEGIN;
SELECT mortar.set_price('requests', 7, 1, tenant => 'psc_b') IS NOT NULL AS own;
SELECT mortar.record_usage('psc_b', 'requests', 1);
ROLLBACK;
SELECT paid('psc_b');
SELECT mortar.record_usage('psc_b', 'requests', 1);
SELECT paid('psc_b');
-- a tenant of this transaction may have a price at once
BEGIN;
SELECT mortar.create_tenant('psc_new'), mortar.set_price('requests', 7, 1, tenant => 'psc_new') IS NOT NULL AS own;
SELECT mortar.grant_credits('psc_new', 100, 'g') IS NOT NULL AS granted;
COMMIT;
SELECT mortar.record_usage('psc_new', 'requests', 2);
SELECT available_uc FROM mortar.balance('psc_new');

-- ---- time ----
\set use 'SELECT mortar.record_usage(''psc_time'', ''requests'', 1); SELECT paid(''psc_time'');'
:use
-- in the past: in force now, and what was counted before stays as it is
SELECT mortar.set_price('requests', 2, 1, tenant => 'psc_time', valid_from => '1999-01-01') IS NOT NULL AS past;
SELECT paid('psc_time');
:use
-- a later one supersedes it, an earlier one does not, whichever was set last
SELECT mortar.set_price('requests', 3, 1, tenant => 'psc_time', valid_from => now() - interval '1 hour') IS NOT NULL AS later;
SELECT mortar.set_price('requests', 4, 1, tenant => 'psc_time', valid_from => now() - interval '2 hours') IS NOT NULL AS earlier;
:use
-- of two that begin together the one set last
SELECT mortar.set_price('requests', n, 1, tenant => 'psc_time', valid_from => now() - interval '1 minute') IS NOT NULL AS together FROM generate_series(5, 6) n;
:use
-- one for later does nothing yet, whatever is set before or after it
SELECT mortar.set_price('requests', 1000, 1, tenant => 'psc_time', valid_from => now() + interval '1 hour') IS NOT NULL AS in_an_hour;
:use
SELECT mortar.set_price('requests', 7, 1, tenant => 'psc_time') IS NOT NULL AS now;
:use
-- and comes into force by itself, at that instant: nothing is committed then
SELECT mortar.set_price('requests', n, 1, tenant => 'psc_time', valid_from => clock_timestamp() + n * interval '100 ms') IS NOT NULL AS soon FROM generate_series(8, 9) n;
CREATE PROCEDURE watch(old int, new int) LANGUAGE plpgsql AS $$
DECLARE
    at timestamptz := (SELECT valid_from FROM mortar.prices WHERE tenant_id = 'psc_time' AND num_uc = new);
    called timestamptz;
    cost int8;
BEGIN
    PERFORM paid('psc_time');
    LOOP
        called := clock_timestamp();
        PERFORM mortar.record_usage('psc_time', 'requests', 1);
        cost := paid('psc_time');
        COMMIT;
        IF clock_timestamp() < at AND cost <> old OR called >= at AND cost <> new THEN
            RAISE EXCEPTION 'a call of % costs %', called, cost;
        END IF;
        EXIT WHEN called >= at;
    END LOOP;
END
$$;
CALL watch(7, 8);
CALL watch(8, 9);
-- the default is later than all that is in force, and sooner than what is to come
SELECT num_uc, valid_from <= set_at AS at_once FROM mortar.prices WHERE tenant_id = 'psc_time' ORDER BY valid_from, price_id;
-- two at once: one clock, two versions, the second holds
BEGIN;
SELECT count(mortar.set_price('requests', n, 1, tenant => 'psc_time')) FROM generate_series(20, 22) n;
COMMIT;
:use
-- a clock that was set back: what was in force when it was set stays so; the row comes from another server, as in a restore
INSERT INTO mortar.prices (price_id, meter, tenant_id, num_uc, per_units, valid_from, set_at, xid)
    VALUES (gen_random_uuid(), 'requests', 'psc_time', 30, 1, clock_timestamp() + interval '30 minutes', clock_timestamp() + interval '30 minutes', '3');
:use
SELECT mortar.set_price('requests', 31, 1, tenant => 'psc_time') IS NOT NULL AS after_it;
:use

-- ---- more prices than a slot has counters ----
-- both meters of nine routes and of none: 20 in force, and each adds up by itself
SELECT count(mortar.set_price(m, CASE m WHEN 'requests' THEN 2 * route + 1 ELSE 300000 + route END, CASE m WHEN 'requests' THEN 2 ELSE 10000000 END, method || ' ' || path, 'psc_many'))
    FROM mortar.routes, unnest('{requests,egress_bytes}'::text[]) m WHERE gated;
SELECT count(mortar.set_price(m, 5, 3, tenant => 'psc_many')) FROM unnest('{requests,egress_bytes}'::text[]) m;
CREATE PROCEDURE many(OUT calls int) LANGUAGE plpgsql AS $$
DECLARE
    call record;
    status int;
BEGIN
    calls := 0;
    FOR i IN 1 .. 4 LOOP
        FOR call IN SELECT * FROM (VALUES ('POST', '/db/tables', '{"name":"t"}'), ('GET', '/db/tables', NULL), ('GET', '/db/tables/t', NULL),
                ('POST', '/db/rows/t', '{"a":1}'), ('GET', '/db/rows/t', NULL), ('PUT', '/db/rows/t/00000000-0000-7000-8000-000000000001', '{}'),
                ('GET', '/db/rows/t/00000000-0000-7000-8000-000000000001', NULL), ('DELETE', '/db/rows/t/00000000-0000-7000-8000-000000000001', NULL),
                ('DELETE', '/db/tables/t', NULL)) v (method, path, body) LOOP
            status := (psc_call('psc_many', call.method, call.path, call.body)).status;
            IF status >= 300 THEN RAISE EXCEPTION '% % is %', call.method, call.path, status; END IF;
            calls := calls + 1;
            COMMIT;
        END LOOP;
        PERFORM mortar.record_usage('psc_many', m, 7) FROM unnest('{requests,egress_bytes}'::text[]) m;
        COMMIT;
    END LOOP;
END
$$;
CALL many(NULL);
CREATE VIEW many_usage AS
    SELECT u.meter, u.route, u.quantity, u.cost_uc, div(u.quantity::numeric * p.num_uc, p.per_units) AS exact
    FROM mortar.usage('psc_many', by => '{meter,route}') u
    LEFT JOIN mortar.prices p ON (p.tenant_id, p.meter) = ('psc_many', u.meter) AND p.route IS NOT DISTINCT FROM u.route;
SELECT count(*) AS prices, count(*) FILTER (WHERE cost_uc IS DISTINCT FROM exact) AS wrong, sum(quantity) FILTER (WHERE meter = 'requests') AS requests FROM many_usage;
SELECT sum(cost_uc) = paid('psc_many') AS paid FROM many_usage;
-- thrown out of memory, and priced on from where the tables end
DO $$BEGIN
    FOR i IN 1 .. 3000 LOOP
        EXIT WHEN (SELECT unflushed_uc = 0 FROM mortar.balance('psc_many'));
        PERFORM pg_sleep(0.01);
        COMMIT;
    END LOOP;
END$$;
UPDATE mortar.tenants SET name = 'memory is stale now' WHERE tenant_id = 'psc_many';
CALL many(NULL);
SELECT count(*) AS prices, count(*) FILTER (WHERE cost_uc IS DISTINCT FROM exact) AS wrong, sum(quantity) FILTER (WHERE meter = 'requests') AS requests FROM many_usage;
SELECT sum(cost_uc) = 1000000000 - (SELECT available_uc FROM mortar.balance('psc_many')) AS paid FROM many_usage;

-- everything adds up; a price of somebody else's would not
\pset tuples_only on
\pset format unaligned
SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok;
DO $$BEGIN
    FOR i IN 1 .. 3000 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM mortar.slots WHERE tenant_id LIKE 'psc\_%' AND unflushed_uc > 0);
        PERFORM pg_sleep(0.01);
        COMMIT;
    END LOOP;
END$$;
BEGIN;
ALTER TABLE mortar.prices DISABLE TRIGGER USER;
UPDATE mortar.prices SET tenant_id = 'psc_b' WHERE tenant_id = 'psc_many' AND meter = 'requests';
SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok;
ROLLBACK;
BEGIN;
ALTER TABLE mortar.prices DISABLE TRIGGER USER;
UPDATE mortar.prices SET route = 'PUT /db/rows/{t}/{id}' WHERE route = 'GET /db/tables' AND tenant_id = 'psc_a';
SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok;
ROLLBACK;
BEGIN;
INSERT INTO mortar.prices (price_id, meter, tenant_id, num_uc, per_units) VALUES (gen_random_uuid(), 'requests', 'psc_gone', 1, 1);
SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok;
ROLLBACK;

-- leave no price behind for the tests that follow
SELECT count(mortar.set_price('requests', 0, 1, route => r)) FROM unnest('{NULL,"DELETE /db/rows/{t\}/{id\}"}'::text[]) r;
DROP VIEW many_usage;
DROP PROCEDURE many(OUT int), watch(int, int);
DROP FUNCTION psc_call(text, text, text, text), paid(text);
DROP TABLE psc_key, psc_left;
DROP ROLE regress_admin;
