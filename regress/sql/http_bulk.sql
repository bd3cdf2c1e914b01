-- Inserting many rows: all or nothing, and a JSON pointer to the one at fault.
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = warning;

SELECT mortar.create_tenant('bulk_a');
SELECT mortar.create_key('bulk_a', 'all') AS key \gset
CREATE TABLE bulk_session AS SELECT :'key' AS key;
CREATE FUNCTION send(body text, prefer text DEFAULT 'return=minimal', method text DEFAULT 'POST', path text DEFAULT '/db/rows/docs')
    RETURNS TABLE (status text, answer text, location text)
    LANGUAGE plpgsql AS
$$
DECLARE
    message text;
    members text;
    h record;
BEGIN
    SELECT * INTO h FROM mortar.http('bulk_a', method, convert_to(path, 'UTF8'), NULL,
        ARRAY['apikey', (SELECT key FROM bulk_session), 'content-type', 'application/json', 'prefer', prefer],
        convert_to(send.body, 'UTF8'), NULL, NULL);
    status := h.status;
    answer := convert_from(h.body, 'UTF8');
    location := h.headers[array_position(h.headers, 'location') + 1];
    RETURN NEXT;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, members = PG_EXCEPTION_DETAIL;
    status := SQLSTATE;
    answer := coalesce((nullif(members, '')::json ->> 'code') || ' ' || (nullif(members, '')::json -> 'errors' -> 0)::text, message);
    RETURN NEXT;
END
$$;
CREATE FUNCTION stored() RETURNS bigint LANGUAGE sql AS
    $$SELECT count(*) FROM mortar.doc_rows WHERE tenant_id = 'bulk_a'$$;
SELECT status FROM send('{"name":"docs"}', path => '/db/tables');
\pset format unaligned
\pset tuples_only

-- whatever is wrong, and wherever in the array: the pointer begins with it
SELECT left(bad, 30), string_agg(status || ' ' || regexp_replace(answer, '\[{9,}|(/0){9,}', '...'), E'\n  ' ORDER BY at) FROM unnest(ARRAY['7', 'null', '[]', '"x"', '{"id":"x"}', '{"created_at":1}', '{"a":1,"updated_at":1}',
    '{"a":1e131072}', '{"a":{"b/c":[0,-1e-16384]}}', '{"a":1e99999999999999999999}', '{"a":1,"\u0061":2}', '{"a":{"~":1,"~":2}}', '{"a":"\u0000"}',
    '{"\u0000":1}', '{"a":"\ud800"}', '{"имя":{"📦":[1e131072]}}', '{"t":' || repeat('[', 63) || repeat(']', 63) || '}']) WITH ORDINALITY b (bad, no),
    generate_series(0, 2) at, send('[' || concat_ws(',', CASE WHEN at > 0 THEN repeat('{"ok":1},', at - 1) || '{"ok":1}' END, bad, CASE WHEN at < 2 THEN '{"ok":2}' END) || ']')
    GROUP BY no, bad ORDER BY no;
SELECT status, answer FROM send('[{"ok":1},{"a":0.' || repeat('0', 16384) || '}]');
SELECT status, answer FROM send('[{"ok":1},{"ok":2},{"t":"' || repeat('x', 1000000) || '"}]');
SELECT status, answer FROM send('[{"ok":1},{"t":' || repeat(' ', 1048576) || '1}]');
SELECT status, answer FROM send('[{"ok":1},{"t":[1e130000,1e130000,1e130000,1e130000,1e130000,1e130000,1e130000,1e130000]}]');
SELECT status, answer FROM send('[{"t":"' || repeat('x', 600000) || '"},{"t":"' || repeat('x', 600000) || '"},{}]', 'return=representation');
SELECT status, answer FROM send((SELECT '[' || string_agg('{}', ',') || ',7,{}]' FROM generate_series(1, 998)));
SELECT status, answer FROM send((SELECT '[' || string_agg('{}', ',') || ',7]' FROM generate_series(1, 1000)));
-- a single row has no number
SELECT status, answer FROM send('{"a":{"b/c":[0,-1e-16384]}}');
SELECT status, answer FROM send('[{"ok":1}', path => '/db/rows/docs');
SELECT status, answer FROM send('[{"ok":1},{"ok":2}]', path => '/db/rows/absent');
SELECT stored();

-- the rule for numbers is the server's own, at, below and above each limit
CREATE FUNCTION numeric_takes(number text) RETURNS bool LANGUAGE plpgsql AS
$$
BEGIN
    PERFORM number::numeric;
    RETURN true;
EXCEPTION WHEN numeric_value_out_of_range OR invalid_text_representation THEN
    RETURN false;
END
$$;
CREATE TABLE bulk_numbers AS
    SELECT m || e AS number FROM unnest(ARRAY['0', '-0.0', '1', '-9.99', '10', '0.1', '0.00001', '123.4500']) m,
        unnest(ARRAY['', 'e0', 'e131066', 'e131069', 'e131070', 'e131071', 'e131072', 'e131073', 'e131076', 'e131077', 'e-16378', 'e-16379', 'e-16380', 'e-16381', 'e-16382', 'e-16383',
            'e-16384', 'E+99', 'e1073741822', 'e1073741823', 'e-1073741822', 'e-1073741823', 'e2147483647', 'e99999999999999999999', 'e-99999999999999999999']) e
    UNION ALL SELECT s || repeat('7', n) || t FROM unnest(ARRAY['', '-', '0.', '5.']) s, unnest(ARRAY[16382, 16383, 16384, 131071, 131072, 131073]) n,
        unnest(ARRAY['', 'e1', 'e-1', 'e-16383', 'e131070']) t
    UNION ALL SELECT '0.' || repeat('0', n) || '1' || t FROM unnest(ARRAY[16381, 16382, 16383, 140000]) n, unnest(ARRAY['', 'e1', 'e2', 'e140001', 'e271072', 'e271073', 'e271074']) t
    UNION ALL SELECT '1' || repeat('0', n) || t FROM unnest(ARRAY[131070, 131071, 131072, 140000]) n, unnest(ARRAY['', 'e-1', 'e-8928', 'e-8929', 'e-16383', 'e-16384']) t;
SELECT count(*) > 300 AS many, count(*) FILTER (WHERE takes) > 100 AS taken, count(*) FILTER (WHERE NOT takes) > 100 AS refused,
    count(*) FILTER (WHERE takes <> (status = '201') OR NOT takes AND answer NOT LIKE 'number_out_of_range {"pointer":"/1/n",%') AS differ
FROM (SELECT number, numeric_takes(number) AS takes FROM bulk_numbers OFFSET 0) n, send('[{"m":1},{"n":' || number || '}]');
-- and what it takes comes back exactly
SELECT count(*) > 100 AS many, count(*) FILTER (WHERE n.number IS NULL) AS differ FROM mortar.doc_rows r
    LEFT JOIN (SELECT DISTINCT number::numeric::text AS number FROM bulk_numbers WHERE numeric_takes(number)) n ON n.number = r.doc ->> 'n'
    WHERE tenant_id = 'bulk_a' AND doc ? 'n';
SELECT status FROM send(NULL, method => 'DELETE', path => '/db/tables/docs');
SELECT status FROM send('{"name":"docs"}', path => '/db/tables');

-- as many as may be, in the order of the array
SELECT status, answer, location FROM send((SELECT json_agg(json_build_object('n', i) ORDER BY i)::text FROM generate_series(1, 1000) i));
SELECT count(*), array_agg((doc ->> 'n')::int ORDER BY row_id) = array_agg((doc ->> 'n')::int ORDER BY (doc ->> 'n')::int) AS in_order, count(DISTINCT created_at)
FROM mortar.doc_rows WHERE tenant_id = 'bulk_a';
SELECT status, answer FROM send((SELECT '[' || string_agg('{}', ',') || ']' FROM generate_series(1, 1001)));
SELECT status, answer, location FROM send('[]');
SELECT status, answer, location FROM send('[]', 'return=representation');
-- one in an array has a Location, and a representation is an array in any case
SELECT status, location ~ '^/v1/bulk_a/db/rows/docs/[0-9a-f-]{36}$' FROM send('[{"one":1}]');
SELECT status, json_array_length(answer::json), location FROM send('[{"a":1},{"a":2},{"a":3}]', 'return=representation');
SELECT status, json_array_length(answer::json), location IS NOT NULL FROM send('{"a":1}', 'return=representation');
SELECT stored();

-- a trigger that refuses the last row takes back the first, deferred or not
CREATE FUNCTION refuse_row() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE unique_violation; END$$;
CREATE TRIGGER refuse_row BEFORE INSERT ON mortar.doc_rows FOR EACH ROW WHEN (NEW.doc ? 'refuse') EXECUTE FUNCTION refuse_row();
SELECT status FROM send('[{"a":1},{"refuse":1}]');
DROP TRIGGER refuse_row ON mortar.doc_rows;
CREATE CONSTRAINT TRIGGER refuse_row AFTER INSERT ON mortar.doc_rows DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.doc ? 'refuse') EXECUTE FUNCTION refuse_row();
SELECT status FROM send('[{"refuse":1},{"a":1}]');
DROP TRIGGER refuse_row ON mortar.doc_rows;
SELECT stored();

DROP FUNCTION refuse_row, numeric_takes, stored, send;
DROP TABLE bulk_numbers, bulk_session;
