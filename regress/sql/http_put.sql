-- PUT /db/rows/{t}/{id}: replace a row, or create it under that id.
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = warning;

SELECT mortar.create_tenant('put_a');
SELECT mortar.create_tenant('put_b');
SELECT mortar.create_key('put_a', 'all') AS key_a \gset
SELECT mortar.create_key('put_b', 'all') AS key_b \gset
SELECT mortar.create_key('put_a', 'reader', scopes => '{rows:read}') AS key_reader \gset
CREATE TABLE put_keys AS SELECT * FROM (VALUES ('put_a', :'key_a'), ('put_b', :'key_b')) k (tenant, key);

CREATE FUNCTION call(method text, path text, body text DEFAULT NULL, headers text[] DEFAULT '{}', tenant text DEFAULT 'put_a', query text DEFAULT NULL)
    RETURNS TABLE (status text, answer text, location text, applied text)
    LANGUAGE plpgsql AS
$$
DECLARE
    message text;
    members text;
    h record;
    sent text[] := headers;
BEGIN
    IF NOT 'apikey' = ANY (sent) THEN
        sent := sent || ARRAY['apikey', (SELECT k.key FROM put_keys k WHERE k.tenant = call.tenant)];
    END IF;
    IF NOT 'content-type' = ANY (sent) THEN
        sent := sent || '{content-type,application/json}'::text[];
    END IF;
    SELECT * INTO h FROM mortar.http(tenant, method, convert_to(path, 'UTF8'), convert_to(query, 'UTF8'), sent, convert_to(call.body, 'UTF8'), NULL, NULL);
    status := h.status;
    answer := regexp_replace(convert_from(h.body, 'UTF8'), '\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z', '<time>', 'g');
    location := h.headers[array_position(h.headers, 'location') + 1];
    applied := h.headers[array_position(h.headers, 'preference-applied') + 1];
    RETURN NEXT;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, members = PG_EXCEPTION_DETAIL;
    status := SQLSTATE;
    answer := message || coalesce(' ' || members, '');
    RETURN NEXT;
END
$$;
\pset format unaligned
\pset tuples_only

SELECT status FROM call('POST', '/db/tables', '{"name":"notes"}');
SELECT status FROM call('POST', '/db/tables', '{"name":"заметки, \"x y\" 📦"}');
SELECT status FROM call('POST', '/db/tables', '{"name":"notes"}', tenant => 'put_b');
\set id '9b2f4f0e-6c1d-4d5a-8f0e-0123456789ab'
\set row '/db/rows/notes/' :id

-- created, then replaced: the whole document, whatever it was
SELECT * FROM call('PUT', :'row', '{"title":"a","n":1}');
SELECT * FROM call('GET', :'row');
SELECT created_at AS created, updated_at AS updated, created_at = updated_at AS same FROM mortar.doc_rows WHERE tenant_id = 'put_a' AND row_id = :'id' \gset
\echo :same
SELECT * FROM call('PUT', :'row', '{"other":[1,{"x":null}]}');
SELECT * FROM call('GET', :'row');
SELECT created_at = :'created' AS created_stays, updated_at > :'updated' AS updated_moves FROM mortar.doc_rows WHERE tenant_id = 'put_a' AND row_id = :'id';
SELECT * FROM call('PUT', :'row', '{}');
SELECT * FROM call('GET', :'row');
-- the representation is what a GET answers
SELECT * FROM call('PUT', :'row', '{"title":"b"}', '{prefer,return=representation}');
SELECT * FROM call('PUT', '/db/rows/notes/9b2f4f0e-6c1d-4d5a-8f0e-0123456789ac', '{"title":"c"}', '{prefer,return=representation}');
SELECT * FROM call('PUT', :'row', '{"title":"b"}', '{prefer,return=minimal}');
SELECT body AS represented FROM mortar.http('put_a', 'PUT', convert_to(:'row', 'UTF8'), NULL,
    ARRAY['apikey', :'key_a', 'content-type', 'application/json', 'prefer', 'return=representation'], '{"n":2}', NULL, NULL) \gset
SELECT body = :'represented' AS same FROM mortar.http('put_a', 'GET', convert_to(:'row', 'UTF8'), NULL, ARRAY['apikey', :'key_a'], NULL, NULL, NULL);
-- updated_at moves also when the clock was set back
UPDATE mortar.doc_rows SET updated_at = '2200-01-01 00:00:00+00' WHERE tenant_id = 'put_a' AND row_id = :'id';
SELECT status FROM call('PUT', :'row', '{"n":3}');
SELECT updated_at AT TIME ZONE 'UTC' FROM mortar.doc_rows WHERE tenant_id = 'put_a' AND row_id = :'id';
-- gone, and made anew
SELECT status FROM call('DELETE', :'row');
SELECT * FROM call('PUT', :'row', '{"n":4}');
SELECT created_at > :'created' AS new, created_at = updated_at AS fresh FROM mortar.doc_rows WHERE tenant_id = 'put_a' AND row_id = :'id';
-- a row that POST made
SELECT regexp_replace(location, '^/v1/put_a', '') AS posted FROM call('POST', '/db/rows/notes', '{"title":"posted"}') \gset
SELECT status, location FROM call('PUT', :'posted', '{"title":"put"}');
SELECT answer ~ '"title":"put"}$' FROM call('GET', :'posted');

-- the id in the path, in either case, is one row
SELECT * FROM call('PUT', '/db/rows/notes/' || upper(:'id'), '{"n":5}');
SELECT status, answer, location FROM call('PUT', '/db/rows/notes/AAAAAAAA-0000-1000-8000-000000000000', '{"n":6}');
SELECT i, status, answer FROM unnest(ARRAY['7', 'x', '9b2f4f0e6c1d4d5a8f0e0123456789ab', '{9b2f4f0e-6c1d-4d5a-8f0e-0123456789ab}', '9b2f4f0e-6c1d-4d5a-8f0e-0123456789a',
    '9b2f4f0e-6c1d-4d5a-8f0e-0123456789abc', '%C3%A4']) i, call('PUT', '/db/rows/notes/' || i, '{}');
-- and in the body the same one or none
SELECT * FROM call('PUT', :'row', '{"id":"' || :'id' || '","n":7}', '{prefer,return=representation}');
SELECT * FROM call('PUT', :'row', '{"n":8,"\u0069d":"' || upper(:'id') || '"}', '{prefer,return=representation}');
SELECT doc FROM mortar.doc_rows WHERE tenant_id = 'put_a' AND row_id = :'id';
SELECT b, status, answer FROM unnest(ARRAY['{"id":"9b2f4f0e-6c1d-4d5a-8f0e-0123456789ac"}', '{"id":"9b2f4f0e6c1d4d5a8f0e0123456789ab"}', '{"id":null}', '{"id":7}', '{"id":""}',
    '{"id":{"id":"x"}}']) b, call('PUT', :'row', b);

-- what else a body cannot be: as for POST
SELECT b, status, answer FROM unnest(ARRAY['{"created_at":"x"}', '{"updated_at":null}', '[]', '[{"a":1}]', '"x"', 'null', '{"a":1,"a":2}', '{"a":"\u0000"}',
    '{"a":{"b":[0,1e400000]}}', '{', '']) b, call('PUT', :'row', b);
SELECT status, answer FROM call('PUT', :'row');
SELECT status, answer FROM call('PUT', :'row', '{}', '{content-type,text/plain}');
SELECT status, answer FROM call('PUT', :'row', '{}', query => 'columns=n');
SELECT status, answer FROM call('PUT', '/db/rows/absent/' || :'id', '{}');
SELECT status, answer FROM call('PUT', '/db/rows/notes', '{}');
SELECT status, answer ~ '"code":"insufficient_scope"' FROM call('PUT', :'row', '{}', ARRAY['apikey', :'key_reader']);
-- nothing of all this changed the row
SELECT doc FROM mortar.doc_rows WHERE tenant_id = 'put_a' AND row_id = :'id';

-- the limit of a document is that of its answer, with the times it has
UPDATE mortar.doc_rows SET created_at = '2026-01-01 00:00:00+00', updated_at = '2200-01-01 00:00:00+00' WHERE tenant_id = 'put_a' AND row_id = :'id';
SELECT length(answer) - length('"<time>","<time>"') + length('"2026-01-01T00:00:00Z","2200-01-01T00:00:00.000001Z"') AS around
FROM call('PUT', :'row', '{"t":""}', '{prefer,return=representation}') \gset
UPDATE mortar.doc_rows SET updated_at = '2200-01-01 00:00:00+00' WHERE tenant_id = 'put_a' AND row_id = :'id';
SELECT status, answer FROM call('PUT', :'row', '{"t":"' || repeat('x', 1000000 - :around + 1) || '"}');
SELECT status FROM call('PUT', :'row', '{"t":"' || repeat('x', 1000000 - :around) || '"}');
SELECT octet_length(h.body) FROM mortar.http('put_a', 'GET', convert_to(:'row', 'UTF8'), NULL, ARRAY['apikey', :'key_a'], NULL, NULL, NULL) h;
SELECT status FROM call('PUT', :'row', '{"t":' || repeat(' ', 1048576) || '1}');

-- another tenant's row of the same table and id is another row
SELECT status, location FROM call('PUT', :'row', '{"whose":"b"}', tenant => 'put_b');
SELECT status FROM call('PUT', :'row', '{"whose":"a"}');
SELECT tenant_id, doc FROM mortar.doc_rows WHERE row_id = :'id' ORDER BY tenant_id;
SELECT status FROM call('DELETE', :'row');
SELECT status, answer FROM call('GET', :'row', tenant => 'put_b');

-- names in any script: the Location works as it is
\set unicode '/db/rows/%D0%B7%D0%B0%D0%BC%D0%B5%D1%82%D0%BA%D0%B8%2C%20%22x%20y%22%20%F0%9F%93%A6/9b2f4f0e-6c1d-4d5a-8f0e-0123456789ab'
SELECT status, regexp_replace(location, '^/v1/put_a', '') = :'unicode' AS encoded FROM call('PUT', :'unicode', '{"имя":"é","a.b,c\"d":1,"x y":{"📦":"\ud83d\udce6"},"%41":2,"":3}');
SELECT status, answer FROM call('GET', :'unicode');
SELECT status, answer FROM call('PUT', :'unicode', '{"a.b,c\"d":{"имя/~":[0,{"📦":1,"\ud83d\udce6":2}]}}');

-- refused for lack of credits: nothing is done; counted under its own route
SELECT mortar.set_price('requests', 1000, 1) IS NOT NULL AS priced;
SELECT status FROM call('PUT', :'row', '{"n":9}');
SELECT mortar.grant_credits('put_a', 1000, 'one request') IS NOT NULL AS granted;
SELECT status FROM call('PUT', :'row', '{"n":10}');
SELECT status FROM call('PUT', :'row', '{"n":11}');
SELECT doc FROM mortar.doc_rows WHERE tenant_id = 'put_a' AND table_name = 'notes' AND row_id = :'id';
SELECT quantity > 10 AS counted, cost_uc FROM mortar.usage('put_a', now() - interval '1 day', now() + interval '1 day', '{meter,route}')
    WHERE meter = 'requests' AND route = 'PUT /db/rows/{t}/{id}';
SELECT mortar.set_price('requests', 0, 1) IS NOT NULL AS free;
DROP FUNCTION call;
DROP TABLE put_keys;
