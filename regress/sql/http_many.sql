-- Ten thousand tables cost one table nothing: counted in buffers, not in time.
-- The plans are made while the tables of the catalog are small and known to be
-- small, which is when a plan that reads all of them looks cheapest.
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = warning;

SELECT mortar.create_tenant('many_a');
SELECT mortar.create_tenant('many_b');
SELECT mortar.create_key('many_a', 'all') AS key \gset
CREATE TABLE many_session AS SELECT :'key' AS key;
CREATE FUNCTION call(method text, path text, body text DEFAULT NULL, query text DEFAULT NULL) RETURNS int LANGUAGE sql AS
$$
    SELECT status FROM mortar.http('many_a', method, convert_to(path, 'UTF8'), convert_to(query, 'UTF8'),
        ARRAY['apikey', (SELECT key FROM many_session), 'content-type', 'application/json'], convert_to(body, 'UTF8'), NULL, NULL)
$$;
-- buffers that a call touches, the second time, when caches are warm
CREATE FUNCTION buffers(method text, path text, body text DEFAULT NULL, query text DEFAULT NULL) RETURNS int LANGUAGE plpgsql AS
$$
DECLARE
    plan json;
BEGIN
    FOR i IN 1..2 LOOP
        EXECUTE format('EXPLAIN (ANALYZE, BUFFERS, FORMAT json) SELECT * FROM mortar.http(%L, %L, %L, %L, %L, %L, NULL, NULL)', 'many_a', method, convert_to(path, 'UTF8'),
            convert_to(query, 'UTF8'), ARRAY['apikey', (SELECT key FROM many_session), 'content-type', 'application/json'], convert_to(replace(body, '#', i || clock_timestamp()::text), 'UTF8')) INTO plan;
    END LOOP;
    RETURN (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::int + (plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::int;
END
$$;
CREATE FUNCTION all_buffers() RETURNS TABLE (what text, n int) LANGUAGE sql AS
$$
    SELECT 'get table', buffers('GET', '/db/tables/t')
    UNION ALL SELECT 'list tables', buffers('GET', '/db/tables', query => 'limit=2')
    UNION ALL SELECT 'list rows', buffers('GET', '/db/rows/t', query => 'limit=2')
    UNION ALL SELECT 'get row', buffers('GET', '/db/rows/t/' || (SELECT row_id FROM mortar.doc_rows WHERE tenant_id = 'many_a' AND table_name = 't' ORDER BY 1 LIMIT 1))
    UNION ALL SELECT 'insert', buffers('POST', '/db/rows/t', '{"n":1}')
    UNION ALL SELECT 'put', buffers('PUT', '/db/rows/t/ffffffff-ffff-ffff-ffff-ffffffffffff', '{"n":1}')
    UNION ALL SELECT 'create table', buffers('POST', '/db/tables', '{"name":"#"}')
    UNION ALL SELECT 'list empty', buffers('GET', '/db/rows/u')
$$;
SELECT call('POST', '/db/tables', '{"name":"t"}'), call('POST', '/db/tables', '{"name":"u"}'), call('POST', '/db/rows/t', '[{"n":1},{"n":2},{"n":3}]');
ANALYZE mortar.doc_tables;
ANALYZE mortar.doc_rows;
CREATE TABLE few AS SELECT * FROM all_buffers();
INSERT INTO mortar.doc_tables (tenant_id, name) SELECT t, 'table ' || i FROM unnest(ARRAY['many_a', 'many_b']) t, generate_series(1, 10000) i;
INSERT INTO mortar.doc_rows (tenant_id, table_name, row_id, doc) SELECT t, 'table ' || i, gen_random_uuid(), '{}' FROM unnest(ARRAY['many_a', 'many_b']) t, generate_series(1, 10000) i;
-- the same plans, in the same session
CREATE TABLE many AS SELECT * FROM all_buffers();
-- new ones, once the tables are known to be large
ANALYZE mortar.doc_tables;
ANALYZE mortar.doc_rows;
CREATE TABLE many_known AS SELECT * FROM all_buffers();
-- an index of this size has two levels more, and a page may have to be found; the
-- tables have some hundred pages
SELECT what, many.n <= few.n + 16 AS as_planned, many_known.n <= few.n + 16 AS as_planned_anew FROM few JOIN many USING (what) JOIN many_known USING (what) ORDER BY what;

DELETE FROM mortar.doc_rows WHERE tenant_id IN ('many_a', 'many_b');
DELETE FROM mortar.doc_tables WHERE tenant_id IN ('many_a', 'many_b');
DROP FUNCTION all_buffers, buffers, call;
DROP TABLE few, many, many_known, many_session;
