-- mortar.http: every status and shape, through the function that the gateway
-- calls, as the role that the gateway has.
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = warning;

SELECT mortar.create_tenant('http_a', 'Tenant A');
SELECT mortar.create_tenant('http_b', 'Tenant B');
SELECT mortar.create_tenant('http_poor', 'No credits');
SELECT mortar.set_price('requests', 1000, 1) IS NOT NULL AS priced;
SELECT mortar.set_price('egress_bytes', 1, 1) IS NOT NULL AS priced;
SELECT mortar.grant_credits('http_a', mortar.credits(100), 'http-a') IS NOT NULL AS granted;
SELECT mortar.grant_credits('http_b', mortar.credits(100), 'http-b') IS NOT NULL AS granted;
SELECT mortar.create_key('http_a', 'all') AS key_a \gset
SELECT mortar.create_key('http_b', 'all') AS key_b \gset
SELECT mortar.create_key('http_poor', 'all') AS key_poor \gset
SELECT mortar.create_key('http_a', 'reader', scopes => '{tables:read}') AS key_reader \gset
SELECT mortar.create_key('http_a', 'short', expires_at => clock_timestamp() + '10 ms') AS key_short \gset
SELECT mortar.create_key('http_a', 'revoked') AS key_revoked \gset
SELECT mortar.revoke_key('http_a', key_id) AS revoked FROM mortar.keys WHERE name = 'revoked';

-- A call, with what differs from run to run masked.  What is raised is shown
-- as the gateway would read it: SQLSTATE, message, members.
CREATE TABLE http_session (key text);
CREATE FUNCTION call(method text, path text, body text DEFAULT NULL,
        query text DEFAULT NULL, headers text[] DEFAULT '{}',
        tenant text DEFAULT 'http_a')
    RETURNS TABLE (status int, head text, answer text)
    LANGUAGE plpgsql AS
$$
DECLARE
    r record;
    message text;
    members text;
    mask text[];
    all_headers text[] := headers;
BEGIN
    IF NOT 'authorization' = ANY (headers) AND NOT 'apikey' = ANY (headers) THEN
        all_headers := ARRAY['authorization', 'Bearer ' || (SELECT key FROM http_session)] || headers;
    END IF;
    IF body IS NOT NULL AND NOT 'content-type' = ANY (headers) THEN
        all_headers := all_headers || ARRAY['content-type', 'application/json'];
    END IF;
    BEGIN
        SELECT h.status, h.headers, convert_from(h.body, 'UTF8') AS body, h.next INTO r
        FROM mortar.http(tenant, method, convert_to(path, 'UTF8'),
            convert_to(query, 'UTF8'), all_headers, convert_to(call.body, 'UTF8'),
            '127.0.0.1', 'req-1') h;
        status := r.status;
        head := array_to_string(r.headers, '|');
        answer := r.body;
        IF r.next IS NOT NULL THEN RAISE 'next is not null'; END IF;
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, members = PG_EXCEPTION_DETAIL;
        status := nullif(regexp_replace(SQLSTATE, '^MT', ''), SQLSTATE);
        head := SQLSTATE;
        answer := message || ' ' || members;
    END;
    FOREACH mask SLICE 1 IN ARRAY ARRAY[
        ['[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}', '<id>'],
        ['\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z', '<time>'],
        ['(x-mortar-credits-remaining\|)\d+\.\d{6}', '\1<credits>'],
        ['dur=\d+\.\d{3}', 'dur=<ms>'],
        ['cursor=[\w-]+', 'cursor=<cursor>']]
    LOOP
        head := regexp_replace(head, mask[1], mask[2], 'g');
        answer := regexp_replace(answer, mask[1], mask[2], 'g');
    END LOOP;
    RETURN NEXT;
END
$$;
GRANT SELECT, UPDATE ON http_session TO mortar_gateway;
INSERT INTO http_session VALUES (:'key_a');
\pset format unaligned
\pset tuples_only
\pset fieldsep '\n  '
SET ROLE mortar_gateway;

-- tables
SELECT * FROM call('GET', '/db/tables');
SELECT * FROM call('POST', '/db/tables', '{"name":"notes"}');
SELECT * FROM call('POST', '/db/tables', '{"name":"zwei & \u00e4,\"c\"?"}', headers => '{prefer,return=representation}');
SELECT * FROM call('POST', '/db/tables', '{"name":"notes"}');
SELECT * FROM call('GET', '/db/tables/notes');
SELECT * FROM call('GET', '/db/tables/zwei%20%26%20%C3%A4%2C%22c%22%3F');
SELECT * FROM call('GET', '/db/tables');
SELECT * FROM call('HEAD', '/db/tables');
SELECT * FROM call('GET', '/db/tables', query => 'limit=1');
SELECT * FROM call('GET', '/db/tables', query => 'limit=0');
SELECT * FROM call('DELETE', '/db/tables/zwei%20%26%20%C3%A4%2C%22c%22%3F');
SELECT * FROM call('DELETE', '/db/tables/absent');
SELECT * FROM call('GET', '/db/tables/absent');

-- names that cannot be
SELECT answer FROM call('POST', '/db/tables', '{}');
SELECT answer FROM call('POST', '/db/tables', '[]');
SELECT answer FROM call('POST', '/db/tables', '{"name":7}');
SELECT answer FROM call('POST', '/db/tables', '{"name":""}');
SELECT answer FROM call('POST', '/db/tables', '{"name":".."}');
SELECT answer FROM call('POST', '/db/tables', '{"name":"a/b"}');
SELECT answer FROM call('POST', '/db/tables', '{"name":"rpc"}');
SELECT answer FROM call('POST', '/db/tables', '{"name":"n","co/lu~mns":[]}');
SELECT status FROM call('POST', '/db/tables', '{"name":"' || repeat('x', 63) || '"}');
SELECT status FROM call('POST', '/db/tables', '{"name":"' || repeat('x', 64) || '"}');
SELECT status FROM call('DELETE', '/db/tables/' || repeat('x', 63));

-- rows
SELECT * FROM call('GET', '/db/rows/notes');
SELECT * FROM call('POST', '/db/rows/notes', '{"title":"a","n":0.1234567890123456789012345,"big":9223372036854775807}');
SELECT * FROM call('POST', '/db/rows/notes', '[{"title":"b"},{"title":"c","deep":{"x":[1,null,true,"\u00fc\n\"\\"],"y":{},"z":[]}}]',
    headers => '{prefer,"count=exact, Return=\"representation\"; x=1"}');
SELECT * FROM call('POST', '/db/rows/notes', '[]');
SELECT * FROM call('POST', '/db/rows/notes', '{}', headers => '{prefer,return=minimal}');
SELECT * FROM call('GET', '/db/rows/notes');
SELECT * FROM call('GET', '/db/rows/notes', query => 'limit=2');
SELECT * FROM call('HEAD', '/db/rows/notes');
SELECT * FROM call('GET', '/db/rows/absent');
SELECT * FROM call('POST', '/db/rows/absent', '{"a":1}');
SELECT * FROM call('POST', '/db/rows/absent', '[]');

-- one row: the Location of an insert leads to it
RESET ROLE;
SELECT row_id FROM mortar.doc_rows WHERE tenant_id = 'http_a' AND doc ->> 'title' = 'a' \gset
SET ROLE mortar_gateway;
SELECT * FROM call('GET', '/db/rows/notes/' || :'row_id');
SELECT status FROM call('GET', '/db/rows/notes/' || upper(:'row_id'));
SELECT * FROM call('GET', '/db/rows/other/' || :'row_id');
SELECT * FROM call('GET', '/db/rows/notes/' || replace(:'row_id', '-', ''));
SELECT * FROM call('GET', '/db/rows/notes/00000000-0000-7000-8000-000000000000');
SELECT * FROM call('DELETE', '/db/rows/notes/' || :'row_id');
SELECT * FROM call('DELETE', '/db/rows/notes/' || :'row_id');
SELECT * FROM call('GET', '/db/rows/notes/' || :'row_id');

-- all or nothing, and what the server sets
SELECT * FROM call('POST', '/db/rows/notes', '[{"title":"d"},{"id":1}]');
SELECT answer FROM call('POST', '/db/rows/notes', '{"created_at":"x"}');
SELECT answer FROM call('POST', '/db/rows/notes', '{"\u0075pdated_at":"x"}');
SELECT answer FROM call('POST', '/db/rows/notes', '[{"title":"e"},7]');
SELECT answer FROM call('POST', '/db/rows/notes', '"text"');
SELECT answer FROM call('POST', '/db/rows/notes', (SELECT '[' || string_agg('{}', ',') || ']' FROM generate_series(1, 1001)));
SELECT head FROM call('GET', '/db/rows/notes');

-- a call costs a request and the bytes of its body; a HEAD has none
RESET ROLE;
SELECT available_uc AS before FROM mortar.balance('http_a') \gset
SELECT octet_length(h.body) AS bytes, h.headers[array_position(h.headers, 'x-mortar-credits-remaining') + 1] AS left
FROM mortar.http('http_a', 'GET', '/db/rows/notes', NULL, ARRAY['apikey', :'key_a'], NULL, NULL, NULL) h \gset
SELECT available_uc AS after, :before - available_uc - 1000 - :bytes AS unexplained, mortar.credits(:'left') = available_uc AS told FROM mortar.balance('http_a') \gset
\echo :unexplained :told
SELECT h.body FROM mortar.http('http_a', 'HEAD', '/db/rows/notes', NULL, ARRAY['apikey', :'key_a'], NULL, NULL, NULL) h;
SELECT :after - available_uc FROM mortar.balance('http_a');
-- one that fails costs nothing
SELECT available_uc AS before FROM mortar.balance('http_a') \gset
SELECT status FROM call('GET', '/db/tables/absent');
SELECT :before - available_uc FROM mortar.balance('http_a');

-- deferred triggers run inside the call, as mortar_tenant and for its tenant
CREATE TABLE deferred_log (who text, tenant text);
GRANT INSERT ON deferred_log TO mortar_tenant;
CREATE FUNCTION note_deferred() RETURNS trigger LANGUAGE plpgsql AS
$$
BEGIN
    INSERT INTO deferred_log VALUES (current_user, mortar.tenant_id());
    IF NEW.doc ? 'refuse' THEN
        RAISE unique_violation;
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER note_deferred AFTER INSERT ON mortar.doc_rows
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note_deferred();
SET ROLE mortar_gateway;
SELECT status FROM call('POST', '/db/rows/notes', '{"note":1}');
SELECT head FROM call('POST', '/db/rows/notes', '{"refuse":1}');
RESET ROLE;
SELECT * FROM deferred_log;
DROP TRIGGER note_deferred ON mortar.doc_rows;
DROP FUNCTION note_deferred;
DROP TABLE deferred_log;
SET ROLE mortar_gateway;

-- another tenant's tables and rows look like none
UPDATE http_session SET key = :'key_b';
SELECT * FROM call('GET', '/db/tables', tenant => 'http_b');
SELECT * FROM call('GET', '/db/tables/notes', tenant => 'http_b');
SELECT * FROM call('GET', '/db/rows/notes', tenant => 'http_b');
SELECT * FROM call('POST', '/db/rows/notes', '{"a":1}', tenant => 'http_b');
SELECT * FROM call('DELETE', '/db/tables/notes', tenant => 'http_b');
UPDATE http_session SET key = :'key_a';

-- query parameters
SELECT * FROM call('GET', '/db/rows/notes', query => 'select=*');
SELECT status, answer FROM call('GET', '/db/rows/notes', query => 'limit=1&off%20set+%3D=1');
SELECT status, answer FROM call('GET', '/db/tables/notes', query => 'limit=1');
SELECT status, answer FROM call('POST', '/db/rows/notes', '{}', query => 'columns=a');
SELECT q, status, answer FROM unnest(ARRAY['limit=-1', 'limit=', 'limit=+1', 'limit=1x',
    'limit=99999999999999999999', 'limit=1&limit=1', 'limit=%FF', 'limit=%00', 'limit=%g', 'limit']) q, call('GET', '/db/tables', query => q);
SELECT q, status, head FROM unnest(ARRAY['limit=2147483648', 'limit=9223372036854775807', 'limit=001', '', '&&', 'l%69mit=2']) q,
    call('GET', '/db/rows/notes', query => q);

-- steps 1 to 3: refusals are rows
SELECT * FROM call('GET', '/db/tables', headers => '{authorization,Bearer mortar_sk_wrong}');
SELECT h.status, h.headers, convert_from(h.body, 'UTF8') FROM mortar.http('http_a', 'GET', '/db/tables', NULL, NULL, NULL, NULL, NULL) h;
SELECT status, answer FROM call('GET', '/db/tables', headers => ARRAY['apikey', :'key_a', 'authorization', 'Bearer ' || :'key_b']);
SELECT status, answer FROM call('GET', '/db/tables', headers => ARRAY['apikey', :'key_a', 'apikey', :'key_b']);
SELECT status, answer FROM call('GET', '/db/tables', headers => ARRAY['apikey', :'key_a', 'authorization', 'Basic eDp5']);
SELECT status FROM call('GET', '/db/tables', headers => ARRAY['apikey', :'key_a', 'authorization', 'bEARER  ' || :'key_a']);
SELECT status FROM call('GET', '/db/tables', headers => ARRAY['apikey', :'key_a']);
SELECT status, answer FROM call('GET', '/db/tables', headers => ARRAY['authorization', :'key_a']);
SELECT status, answer FROM call('GET', '/db/tables', headers => ARRAY['apikey', :'key_revoked']);
SELECT pg_sleep(0.02);
SELECT status, answer FROM call('GET', '/db/tables', headers => ARRAY['apikey', :'key_short']);
-- never in the query string
SELECT h.status FROM mortar.http('http_a', 'GET', '/db/tables', convert_to('apikey=' || :'key_a', 'UTF8'), NULL, NULL, NULL, NULL) h;

SELECT * FROM call('GET', '/db/tables', tenant => 'http_b');
SELECT count(DISTINCT answer) AS answers, min(status) AS status FROM unnest(ARRAY['http_b', 'http_none', 'NOT valid', '', NULL, repeat('x', 70)]) t,
    call('GET', '/db/tables', tenant => t);
SELECT * FROM call('GET', '/db/rows/notes', headers => ARRAY['apikey', :'key_reader']);
SELECT status, answer FROM call('POST', '/db/tables', '{"name":"n"}', headers => ARRAY['apikey', :'key_reader']);
SELECT status FROM call('GET', '/db/tables', headers => ARRAY['apikey', :'key_reader']);

SELECT * FROM call('PUT', '/db/tables', '{}');
SELECT * FROM call('GET', '/db');
SELECT * FROM call('HEAD', '/db');
SELECT p, status FROM unnest(ARRAY['', '/', '/db/tables/', '//db/tables', 'db/tables', '/DB/tables', '/db/tables/a/b/c/d/e/f/g/h/i']) p, call('GET', p);
SELECT p, status FROM unnest(ARRAY['/db/tables/%00', '/db/tables/%FF', '/db/tables/%C0%80', '/db/tables/a%2Fb',
    '/db/tables/..', '/db/tables/%2e', '/db/tables/%', '/db/tables/%zz', '/db/rows/notes/%ED%A0%80']) p, call('GET', p);
SELECT status, answer FROM call('GET', '/db/tables/%00');
-- told only to those who may know
SELECT p, status FROM unnest(ARRAY['/db', '/db/tables/%00']) p, call('GET', p, headers => '{apikey,wrong}');
SELECT status FROM call('PUT', '/db/tables', headers => '{apikey,wrong}');

SELECT * FROM call('OPTIONS', '/db/tables', headers => '{authorization,none}');
SELECT * FROM call('OPTIONS', '/db/rows/x/y', headers => '{authorization,none,origin,https://example.com,access-control-request-method,DELETE}');
SELECT status, head FROM call('GET', '/db/tables', headers => ARRAY['apikey', :'key_a', 'origin', 'null']);
SELECT status, head FROM call('GET', '/db/tables', headers => '{apikey,wrong,origin,"null"}');
SELECT h.status FROM mortar.http(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) h;
-- odd header arrays
SELECT h.status FROM mortar.http('http_a', 'GET', '/db/tables', NULL, ARRAY[NULL, 'x', 'apikey', NULL, 'apikey', :'key_a', 'odd'], NULL, NULL, NULL) h;
SELECT h.status FROM mortar.http('http_a', 'GET', '/db/tables', NULL, ARRAY[ARRAY['a', 'b'], ARRAY['apikey', :'key_a']], NULL, NULL, NULL) h;
SELECT h.status FROM mortar.http('http_a', 'GET', '/db/tables', NULL, '{}', NULL, NULL, NULL) h;

-- step 4: the gate, before anything is done; usage is told all the same
UPDATE http_session SET key = :'key_poor';
SELECT * FROM call('GET', '/db/tables', tenant => 'http_poor');
SELECT status FROM call('POST', '/db/tables', '{"name":"free"}', tenant => 'http_poor');
SELECT status, regexp_replace(answer, '"(from|to)":"[^"]*"', '"\1":"<time>"', 'g') FROM call('GET', '/usage/me', tenant => 'http_poor');
RESET ROLE;
SELECT count(*) FROM mortar.doc_tables WHERE tenant_id = 'http_poor';
-- a cost that is more than what is left: raised, and nothing is done
SELECT mortar.grant_credits('http_poor', 999, 'less than a request') IS NOT NULL AS granted;
SET ROLE mortar_gateway;
SELECT * FROM call('POST', '/db/tables', '{"name":"free"}', tenant => 'http_poor');
RESET ROLE;
SELECT count(*) FROM mortar.doc_tables WHERE tenant_id = 'http_poor';
SELECT available_uc FROM mortar.balance('http_poor');
SELECT mortar.grant_credits('http_poor', 1, 'now it is enough') IS NOT NULL AS granted;
SET ROLE mortar_gateway;
SELECT * FROM call('POST', '/db/tables', '{"name":"free"}', tenant => 'http_poor');
RESET ROLE;
SELECT available_uc FROM mortar.balance('http_poor');

-- 413, before the body is looked at
SET ROLE mortar_gateway;
UPDATE http_session SET key = :'key_a';
SELECT status, answer FROM call('POST', '/db/rows/notes', repeat(' ', 8 * 1024 * 1024 + 1));

-- a document is limited by its answer; a page ends before the window
SELECT status, head, length(answer) FROM call('POST', '/db/tables', '{"name":"big"}');
SELECT status, answer FROM call('POST', '/db/rows/big', '{"t":"' || repeat('x', 1000000) || '"}');
SELECT status, answer FROM call('POST', '/db/rows/big', '{"t":"' || repeat(' ', 1100000) || '"}');
SELECT status, answer FROM call('POST', '/db/rows/big', '[{"t":1e100000,"u":' || rtrim(repeat('[1e130000,', 20), ',') || repeat(']', 20) || '}]');
SELECT status FROM call('POST', '/db/rows/big', '{"t":"' || repeat('x', 999800) || '"}');
SELECT status FROM call('POST', '/db/rows/big', '{"t":"' || repeat('y', 40000) || '"}');
SELECT status FROM call('POST', '/db/rows/big', '{"t":"' || repeat('z', 40000) || '"}');
SELECT status, length(answer) BETWEEN 1039800 AND 1048576 AS within, answer LIKE '%"}]' AS whole, substring(head from 'content-range\|[^|]*') FROM call('GET', '/db/rows/big');
SELECT status, answer FROM call('POST', '/db/rows/big', '[{"t":"' || repeat('x', 600000) || '"},{"t":"' || repeat('x', 600000) || '"}]', headers => '{prefer,return=representation}');
SELECT status FROM call('POST', '/db/rows/big', '[{"t":"' || repeat('x', 600000) || '"},{"t":"' || repeat('x', 600000) || '"}]');
SELECT status FROM call('DELETE', '/db/tables/big');

-- media types
SELECT t, status FROM unnest(ARRAY['application/json', 'Application/JSON; Charset="UTF-8"', 'application/vnd.api+json;charset=utf-8', 'text/json',
    'application/jsonx', 'application/+json', 'application/json; charset=latin1', 'application/json;charset=utf-8;charset=utf-16', '']) t,
    call('POST', '/db/rows/notes', '{}', headers => ARRAY['content-type', t]);
SELECT status, answer FROM call('POST', '/db/rows/notes', '{}', headers => '{content-type,text/plain}');
SELECT status FROM call('POST', '/db/rows/notes', '{}', headers => '{content-encoding,gzip}');
SELECT status, answer FROM call('POST', '/db/rows/notes', '');
SELECT status, answer FROM call('POST', '/db/rows/notes');

-- the table of routes, and what usage calls them
RESET ROLE;
\pset tuples_only off
\pset format aligned
\pset fieldsep '|'
SELECT * FROM mortar.routes ORDER BY route;
SELECT DISTINCT route FROM mortar.usage('http_a', now() - interval '1 day', now() + interval '1 day', '{route}') ORDER BY 1;

-- hello: the session's settings are part of its transaction
BEGIN;
SET ROLE mortar_gateway;
SELECT refusal, settings[1], settings[2], settings[3], settings[5], settings[6] = current_database() AS here FROM mortar.gateway_hello(1, '1.0');
SELECT name, setting FROM pg_settings WHERE name IN ('plan_cache_mode', 'log_parameter_max_length',
    'log_parameter_max_length_on_error', 'statement_timeout', 'jit', 'TimeZone', 'row_security', 'search_path') ORDER BY name;
ROLLBACK;
SELECT * FROM mortar.gateway_hello(0, '0.9');
SELECT * FROM mortar.gateway_hello(2, repeat('long ', 100));
SELECT * FROM mortar.gateway_hello(NULL, NULL);

-- leave no price behind for the tests that follow
SELECT mortar.set_price('requests', 0, 1) IS NOT NULL AS free;
SELECT mortar.set_price('egress_bytes', 0, 1) IS NOT NULL AS free;
DROP FUNCTION call;
DROP TABLE http_session;
