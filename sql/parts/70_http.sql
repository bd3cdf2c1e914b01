-- 70_http.sql
-- What the gateway calls, and the view of routes.  The signatures of the first
-- two are the contract: they follow sql/contract.h, which also explains the
-- arguments.  Neither is STRICT, so that a missing argument is answered like any
-- other mistake of a client; neither is SECURITY DEFINER or has a SET clause,
-- because both would cost in every call what C does once.

-- A type of its own, because a row type made up of OUT parameters is put
-- together anew in every call.
CREATE TYPE mortar.http_answer AS (
    status int2, headers text[], body bytea, next bytea);
COMMENT ON TYPE mortar.http_answer IS 'what mortar.http answers';

CREATE FUNCTION mortar.http(
    tenant text, method text, path bytea, query bytea, headers text[],
    body bytea, peer inet, request_id text)
    RETURNS mortar.http_answer
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'mtr_http';
COMMENT ON FUNCTION mortar.http(text, text, bytea, bytea, text[], bytea, inet, text) IS
    'answers one HTTP request: authenticates, admits, handles and charges it; called by mortar-gateway, in FROM only';

CREATE FUNCTION mortar.gateway_hello(
    contract int4, version text,
    OUT refusal text, OUT settings text[])
    RETURNS record
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'mtr_gateway_hello';
COMMENT ON FUNCTION mortar.gateway_hello(int4, text) IS
    'first call of mortar-gateway on each connection: compares the contract, prepares the session, returns settings or why not';

CREATE FUNCTION mortar.route_list()
    RETURNS TABLE (route int2, method text, path text, scope text,
                   gated bool, writes bool)
    LANGUAGE c STABLE STRICT PARALLEL SAFE ROWS 9
    AS 'MODULE_PATHNAME', 'mtr_route_list';
COMMENT ON FUNCTION mortar.route_list() IS
    'the routes that this version of the library answers; behind the view mortar.routes';

CREATE VIEW mortar.routes WITH (security_invoker = true) AS
    SELECT route, method, path, scope, gated, writes FROM mortar.route_list();
COMMENT ON VIEW mortar.routes IS
    'one row per route of the HTTP interface: the scope a key needs, whether it is refused with 402 when credits are out, and whether it may change rows; HEAD is answered wherever GET is';
COMMENT ON COLUMN mortar.routes.route IS 'number of the route, the same in every version';
COMMENT ON COLUMN mortar.routes.path IS 'the part after /v1/{tenant}; method and path together are the route of mortar.usage()';
COMMENT ON COLUMN mortar.routes.scope IS 'scope that the API key must have';
COMMENT ON COLUMN mortar.routes.gated IS 'refused with 402 when the tenant has no credits left; false: answered always, counted, and free';
COMMENT ON COLUMN mortar.routes.writes IS 'may change rows';
