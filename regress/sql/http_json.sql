-- Request bodies of mortar.http: what is JSON, what can be stored, and where a
-- mistake is.
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = warning;

SELECT mortar.create_tenant('json_a');
SELECT mortar.create_key('json_a', 'all') AS key \gset
CREATE TABLE json_session AS SELECT :'key' AS key;
CREATE FUNCTION send(body bytea, method text DEFAULT 'POST', path text DEFAULT '/db/rows/docs')
    RETURNS TABLE (status text, answer text)
    LANGUAGE plpgsql AS
$$
DECLARE
    message text;
    members text;
BEGIN
    SELECT h.status, convert_from(h.body, 'UTF8') INTO status, answer
    FROM mortar.http('json_a', method, convert_to(path, 'UTF8'), NULL,
        ARRAY['apikey', (SELECT key FROM json_session), 'content-type', 'application/json'],
        send.body, NULL, NULL) h;
    RETURN NEXT;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, members = PG_EXCEPTION_DETAIL;
    status := SQLSTATE;
    answer := message || coalesce(' ' || members, '');
    RETURN NEXT;
END
$$;
CREATE FUNCTION send(body text) RETURNS TABLE (status text, answer text)
    LANGUAGE sql AS 'SELECT * FROM send(convert_to(body, ''UTF8''))';

SELECT status FROM send('{"name":"docs"}'::bytea, path => '/db/tables');
\pset format unaligned
\pset tuples_only

-- malformed: 400 and the byte
SELECT body, status, answer FROM unnest(ARRAY['{', '{"a":1}x', '{"a":01}', '{"a":1,}', '[1,]', '{''a'':1}', 'nul', '{"a":+1}',
    '{"a":.5}', '{"a":1.}', '{"a":1e}', '{"a":"\x"}', '{"a":"\u12"}', '{"a" 1}', '{1:2}', '{"a":1}{"b":2}', ' ', '{"a":"', '/**/{}', '{"a":NaN}',
    '{"a":Infinity}', E'{"a":"\t"}', '﻿{}']) body, send(body);

-- not UTF-8, or a NUL byte: 400
SELECT body, status, answer FROM unnest(ARRAY['\x7b2261223a22ff227d', '\x7b2261223a22c080227d', '\x7b2261223a22eda080227d',
    '\x7b2261223a22f4908080227d', '\x7b2261223a22e282227d', '\x7b22ff223a317d']::bytea[]) body, send(body);
SELECT status FROM send('\x7b2261223a2200227d'::bytea);
SELECT status FROM send('\x7b7d00'::bytea);

-- cannot be stored as meant: 422 and a pointer
SELECT body, status, answer FROM unnest(ARRAY['{"role":"user","role":"admin"}', '{"a":{"b":1,"\u0062":2}}', '[{"x":1},{"y":1,"y":1}]',
    '{"a/b~c":{"d":1,"d":2}}', '{"a":"\u0000"}', '{"\u0000":1}', '{"a":["\ud800"]}', '{"a":"\udc00x"}', '{"a":"\ud800\u0041"}']) body, send(body);
SELECT status, answer FROM send(repeat('[', 65) || repeat(']', 65));
SELECT status, answer FROM send('{"a":' || repeat('[', 63) || repeat(']', 63) || '}');
SELECT status, right(answer, 120) FROM send('{"a":' || repeat('[', 64) || repeat(']', 64) || '}');
SELECT status FROM send(repeat('[', 1000000));
SELECT status FROM send(repeat('{"a":', 1000000));
-- numbers that no numeric can hold
SELECT status, answer FROM send('{"a":1e400000}');
SELECT status, answer FROM send('[{"a":1},{"b":{"c/d":[1,1e99999999999999999999]}}]');
SELECT status FROM send('{"a":' || repeat('9', 200000) || '}');

-- what is stored comes back exactly
SELECT body, status, answer FROM unnest(ARRAY['{"big":9223372036854775807,"exact":0.1234567890123456789012345,"neg":-0.0,"exp":1e400}',
    '{"s":"\"\\\/\b\f\n\r\t\u001f\u007f\u20ac\ud83d\ude00ü"}', '{"":{"":""}}', '{"a":[[],{},[[]],[{}],null,true,false]}', E'\n{ "a" :\t1 }\r\n']) body, send(body);
SELECT json_array_elements(answer::json)::jsonb - 'id' - 'created_at' - 'updated_at' AS doc FROM send(NULL::bytea, 'GET') ORDER BY 1;
SELECT answer::json IS NOT NULL AS valid, position('"big":9223372036854775807,"exp":1' || repeat('0', 400) || ',"neg":' in answer) > 0 AS exact FROM send(NULL::bytea, 'GET');

-- many keys
SELECT status FROM send((SELECT '{' || string_agg('"k' || i || '":1', ',') || '}' FROM generate_series(1, 10000) i));
SELECT status FROM send((SELECT '{' || string_agg('"k' || i || '":1', ',') || ',"k7":2}' FROM generate_series(1, 10000) i));

\pset tuples_only off
\pset format aligned
SELECT count(*) FROM mortar.doc_rows WHERE tenant_id = 'json_a';
DROP FUNCTION send(text);
DROP FUNCTION send(bytea, text, text);
DROP TABLE json_session;
