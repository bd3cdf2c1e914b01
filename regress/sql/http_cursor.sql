-- Lists page by page: what a cursor is good for, where pages end, and that rows
-- which come and go between two pages move no others.
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = warning;

SELECT mortar.create_tenant('cur_a');
SELECT mortar.create_tenant('cur_b');
SELECT mortar.create_key('cur_a', 'one') AS key_a \gset
SELECT mortar.create_key('cur_a', 'other') AS key_a2 \gset
SELECT mortar.create_key('cur_b', 'one') AS key_b \gset
CREATE TABLE cur_keys AS SELECT * FROM (VALUES ('cur_a', :'key_a'), ('cur_b', :'key_b')) k (tenant, key);

-- One call; the query is part of the path, as a client writes it.  What is
-- raised is shown as the gateway would read it.
CREATE FUNCTION call(method text, uri text, body text DEFAULT NULL, tenant text DEFAULT 'cur_a', key text DEFAULT NULL)
    RETURNS TABLE (status text, answer text, range text, link text)
    LANGUAGE plpgsql AS
$$
DECLARE
    message text;
    members text;
    h record;
BEGIN
    SELECT * INTO h FROM mortar.http(tenant, method, convert_to(split_part(uri, '?', 1), 'UTF8'),
        nullif(convert_to(substring(uri from '\?(.*)'), 'UTF8'), ''),
        ARRAY['apikey', coalesce(call.key, (SELECT k.key FROM cur_keys k WHERE k.tenant = call.tenant)), 'content-type', 'application/json'],
        convert_to(call.body, 'UTF8'), NULL, NULL);
    status := h.status;
    answer := convert_from(h.body, 'UTF8');
    range := h.headers[array_position(h.headers, 'content-range') + 1];
    link := h.headers[array_position(h.headers, 'link') + 1];
    RETURN NEXT;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, members = PG_EXCEPTION_DETAIL;
    status := SQLSTATE;
    answer := message || coalesce(' ' || members, '');
    RETURN NEXT;
END
$$;
-- where a Link leads, without the server's part of the path
CREATE FUNCTION target(link text) RETURNS text LANGUAGE sql AS
    $$SELECT (regexp_match(link, '^</v1/[a-z0-9_-]+(/[!-;=?-~]*)>; rel="next"$'))[1]$$;
CREATE FUNCTION cursor_in(link text) RETURNS text LANGUAGE sql AS
    $$SELECT substring(link from 'cursor=([A-Za-z0-9_-]+)>')$$;
-- follows Links to the end; shown is the member of each item
CREATE FUNCTION walk(uri text, shown text)
    RETURNS TABLE (page int, range text, items text[], more bool)
    LANGUAGE plpgsql AS
$$
DECLARE
    c record;
BEGIN
    FOR i IN 1..100 LOOP
        page := i;
        SELECT * INTO STRICT c FROM call('GET', uri);
        IF c.status <> '200' THEN RAISE '% %', c.status, c.answer; END IF;
        range := c.range;
        items := ARRAY(SELECT j ->> shown FROM json_array_elements(c.answer::json) j);
        more := c.link IS NOT NULL;
        RETURN NEXT;
        EXIT WHEN NOT more;
        uri := target(c.link);
    END LOOP;
END
$$;
CREATE FUNCTION make_rows(t text, low int, high int) RETURNS text LANGUAGE sql AS
    $$SELECT status FROM call('POST', '/db/rows/' || t, (SELECT json_agg(json_build_object('n', i) ORDER BY i)::text FROM generate_series(low, high) i))$$;

-- tables, in the order of their bytes, and names that need every kind of care
SELECT count(*), min(status), max(status) FROM unnest(ARRAY['b', 'a', 'x y', 'a.b,c"d', 'Übersicht', 'таблица', '📦📦', '100%41', 'a+b&c=d', '<y>; rel="z"', repeat('ж', 31) || 'z']) n,
    call('POST', '/db/tables', json_build_object('name', n)::text);
SELECT * FROM walk('/db/tables?limit=2', 'name');
SELECT * FROM walk('/db/tables?limit=11', 'name');
SELECT page, array_length(items, 1), more FROM walk('/db/tables?limit=10', 'name');
SELECT * FROM walk('/db/tables', 'name');
SELECT status, answer, range, link FROM call('GET', '/db/tables?limit=0');
-- the page's last name is not in the way of the next one
SELECT link AS link_x FROM call('GET', '/db/tables?limit=2') \gset
SELECT status FROM call('DELETE', '/db/tables/%3Cy%3E%3B%20rel%3D%22z%22');
SELECT json_array_elements(answer::json) ->> 'name' FROM call('GET', target(:'link_x'));

-- rows: limits, and a Link only when more follow
SELECT make_rows('a', 1, 7);
SELECT * FROM walk('/db/rows/a?limit=3', 'n');
SELECT * FROM walk('/db/rows/a?limit=7', 'n');
SELECT * FROM walk('/db/rows/a?limit=6', 'n');
SELECT * FROM walk('/db/rows/a?limit=1', 'n');
SELECT * FROM walk('/db/rows/a', 'n');
SELECT * FROM walk('/db/rows/b', 'n');
SELECT status, answer, range, link FROM call('GET', '/db/rows/a?limit=0');
-- a limit beyond the largest one is told as what it became; none is told as none
SELECT make_rows('b', 1, 1000), make_rows('b', 1001, 1001);
SELECT regexp_replace(target(link), 'cursor=.*', '') FROM call('GET', '/db/rows/b?limit=5000');
SELECT regexp_replace(target(link), 'cursor=.*', '') FROM call('GET', '/db/rows/b');
SELECT page, items[1], items[array_upper(items, 1)], array_length(items, 1), range, more FROM walk('/db/rows/b?limit=400', 'n');
SELECT count(*), sum(array_length(items, 1)) FROM walk('/db/rows/b', 'n');
-- a Link of a table with a name that needs encoding
SELECT make_rows('a.b%2Cc%22d', 1, 3), make_rows('%F0%9F%93%A6%F0%9F%93%A6', 1, 3), make_rows('100%2541', 1, 3);
SELECT * FROM walk('/db/rows/a.b%2Cc%22d?limit=2', 'n');
SELECT * FROM walk('/db/rows/%F0%9F%93%A6%F0%9F%93%A6?limit=2', 'n');
SELECT * FROM walk('/db/rows/100%2541?limit=2', 'n');

-- a HEAD tells the same, and another limit or none goes on from there
SELECT link AS link_a, cursor_in(link) AS cur FROM call('GET', '/db/rows/a?limit=3') \gset
SELECT status, answer, link = :'link_a' AS same FROM call('HEAD', '/db/rows/a?limit=3');
SELECT * FROM walk('/db/rows/a?cursor=' || :'cur' || '&limit=2', 'n');
SELECT * FROM walk('/db/rows/a?cursor=' || :'cur', 'n');
SELECT status, answer, range, link FROM call('GET', '/db/rows/a?limit=0&cursor=' || :'cur');
-- another key of the tenant may use it, and any session
SELECT status, json_array_length(answer::json) FROM call('GET', '/db/rows/a?cursor=' || :'cur', key => :'key_a2');
\c
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = warning;
SELECT status, json_array_length(answer::json) FROM call('GET', '/db/rows/a?cursor=' || :'cur');

-- rows that come and go between two pages
SELECT regexp_replace(answer, '.*"id":"([^"]*)".*', '\1') AS third FROM call('GET', '/db/rows/a?limit=3') \gset
SELECT status FROM call('DELETE', '/db/rows/a/' || :'third');
SELECT status FROM call('PUT', '/db/rows/a/00000000-0000-0000-0000-000000000000', '{"n":"first"}');
SELECT status FROM call('PUT', '/db/rows/a/ffffffff-ffff-ffff-ffff-ffffffffffff', '{"n":"last"}');
SELECT make_rows('a', 8, 9);
SELECT * FROM walk(target(:'link_a'), 'n');
SELECT * FROM walk('/db/rows/a?limit=4', 'n');
-- a table that went and came again
SELECT status FROM call('DELETE', '/db/tables/a');
SELECT status, answer FROM call('GET', '/db/rows/a?cursor=' || :'cur');
SELECT status FROM call('POST', '/db/tables', '{"name":"a"}');
SELECT status, answer, link FROM call('GET', '/db/rows/a?cursor=' || :'cur');

-- a page that ends because the response is full
SELECT status FROM call('POST', '/db/tables', '{"name":"big"}');
SELECT status FROM call('POST', '/db/rows/big', (SELECT json_agg(json_build_object('n', i, 't', repeat('x', 400000)) ORDER BY i)::text FROM generate_series(1, 5) i));
SELECT * FROM walk('/db/rows/big', 'n');
SELECT * FROM walk('/db/rows/big?limit=4', 'n');
SELECT regexp_replace(target(link), 'cursor=.*', '') FROM call('GET', '/db/rows/big');

-- what no cursor is: another tenant's, another list's, or one that was touched
SELECT status FROM call('POST', '/db/tables', '{"name":"a"}', 'cur_b');
SELECT status, answer FROM call('GET', '/db/rows/a?cursor=' || :'cur', tenant => 'cur_b');
SELECT status, answer FROM call('GET', '/db/rows/b?cursor=' || :'cur');
SELECT status, answer FROM call('GET', '/db/tables?cursor=' || :'cur');
SELECT status FROM call('GET', '/db/rows/a?cursor=' || cursor_in(:'link_x'));
SELECT status, answer FROM call('GET', '/db/tables/a?cursor=' || :'cur');
SELECT count(*) > 400 AS many, count(*) = count(*) FILTER (WHERE status = 'MT400' AND answer LIKE '%"invalid_cursor"%') AS every_changed_one
FROM generate_series(1, length(:'cur')) at, unnest(ARRAY['A', 'Q', 'z', '9', '-', '_', '.', '~', '%3D', '%C3%A4']) x,
    call('GET', '/db/rows/a?cursor=' || overlay(:'cur' placing x from at for 1))
WHERE substr(:'cur', at, 1) <> x;
SELECT count(*) FILTER (WHERE status = 'MT400' AND answer LIKE '%"invalid_cursor"%') = length(:'cur') AS every_cut_one
FROM generate_series(0, length(:'cur') - 1) n, call('GET', '/db/rows/a?cursor=' || left(:'cur', n));
SELECT left(replace(q, :'cur', '<cursor>'), 30) AS query, status, answer
FROM unnest(ARRAY['cursor=', 'cursor', 'cursor=' || :'cur' || '%3D', 'cursor=' || :'cur' || 'A', 'cursor=%20' || :'cur',
    'cursor=' || repeat('A', 112), 'cursor=' || repeat('A', 7000), 'cursor=%FF', 'cursor=' || :'cur' || '&cursor=' || :'cur', 'Cursor=x',
    'cursor=' || :'cur' || '&limit=x', 'cursor=' || :'cur' || '&offset=1']) q, call('GET', '/db/rows/a?' || q);

-- times of any day, some of them twice
INSERT INTO mortar.doc_tables SELECT 'cur_b', 'time ' || i, t FROM unnest('{2026-02-28 23:59:59.999999Z, 2026-03-01 00:00:00Z,
    2026-03-01 12:34:56.1Z, 2024-02-29 00:00:00.000001Z, 2000-01-01 00:00:00Z, 1999-12-31 23:59:59.999999Z, 1999-12-31 00:00:00Z, 1970-01-01 01:02:03.45Z,
    9999-12-31 23:59:59Z, 10000-01-01 00:00:00Z, 294276-12-31 23:59:59.999999Z, 0001-01-01 00:00:00Z, 0001-12-31 00:00:00Z BC,
    4714-11-24 00:00:00Z BC, infinity, -infinity}'::timestamptz[]) WITH ORDINALITY u (t, i);
SELECT u.created_at AT TIME ZONE 'UTC' AS stored, j ->> 'created_at' AS shown FROM call('GET', '/db/tables', tenant => 'cur_b'), json_array_elements(answer::json) j
    JOIN mortar.doc_tables u ON u.tenant_id = 'cur_b' AND u.name = j ->> 'name' WHERE u.name LIKE 'time %' ORDER BY length(u.name), u.name;

-- lists rely on row-level security: were it gone, they would fail, and show nobody's
BEGIN;
ALTER TABLE mortar.doc_tables DISABLE ROW LEVEL SECURITY;
SELECT status, answer FROM call('GET', '/db/tables');
ROLLBACK;

DROP FUNCTION make_rows, walk, cursor_in, target, call;
DROP TABLE cur_keys;
