-- Credits: granted and charged once per idempotency key, never below zero, and
-- a refused or failed call moves no credit and changes no row.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin, regress_app;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
CREATE ROLE regress_app LOGIN IN ROLE mortar_tenant;
\c - regress_admin

-- credits() is exact or an error: six decimals, the int8 range
SELECT mortar.credits(10), mortar.credits(0.3), mortar.credits(0.000001), mortar.credits(-1.5), mortar.credits(0);
SELECT mortar.credits(1.10000000000);
SELECT mortar.credits(0.0000001);
SELECT mortar.credits(0.0000005);
SELECT mortar.credits(9223372036854.775807);
SELECT mortar.credits(9223372036854.775808);
SELECT mortar.credits(-9223372036854.775808);
SELECT mortar.credits(-9223372036854.775809);
SELECT mortar.credits('NaN');
SELECT mortar.credits('Infinity');
SELECT mortar.credits(NULL);

SELECT mortar.create_tenant('cre_a');
SELECT mortar.create_tenant('cre_b');
CREATE FUNCTION pg_temp.available(tenant text DEFAULT 'cre_a') RETURNS int8 LANGUAGE sql
    AS 'SELECT available_uc FROM mortar.balance(tenant)';
-- rows that a call could have left
CREATE FUNCTION pg_temp.rows(tenant text DEFAULT 'cre_a', OUT ledger int8, OUT grants int8) LANGUAGE sql
    AS $$SELECT (SELECT count(*) FROM mortar.credit_ledger WHERE tenant_id = tenant),
        (SELECT count(*) FROM mortar.credit_grants WHERE tenant_id = tenant)$$;

-- a grant counts at once; the same call again moves nothing and says the same
SELECT mortar.grant_credits('cre_a', mortar.credits(10), 'grant-1') AS g1 \gset
SELECT pg_temp.available();
SELECT mortar.grant_credits('cre_a', mortar.credits(10), 'grant-1') = :'g1' AS same_result;
SELECT pg_temp.available(), * FROM pg_temp.rows();
SELECT kind, from_account, to_account, amount_uc, grant_id = :'g1' AS of_the_grant, meta
    FROM mortar.credit_ledger WHERE tenant_id = 'cre_a';

-- a charge likewise
SELECT mortar.charge('cre_a', 1000000, 'charge-1', '{"order": 7}') AS c1 \gset
SELECT mortar.charge('cre_a', 1000000, 'charge-1', '{"order": 7}') = :'c1' AS same_result;
SELECT mortar.charge('cre_a', 1000000, 'charge-1', '{ "order" :7 }', on_short => 'return') = :'c1' AS same_meaning;
SELECT pg_temp.available(), * FROM pg_temp.rows();
SELECT kind, from_account, to_account, amount_uc, meta FROM mortar.credit_ledger WHERE entry_id = :'c1';

-- the key with other arguments, or for another function: MT422, nothing moves
SELECT mortar.grant_credits('cre_a', mortar.credits(11), 'grant-1');
\echo :LAST_ERROR_MESSAGE
SELECT mortar.charge('cre_a', 1000001, 'charge-1', '{"order": 7}');
SELECT mortar.charge('cre_a', 1000000, 'charge-1', '{"order": 8}');
SELECT mortar.charge('cre_a', 1000000, 'charge-1');
SELECT mortar.charge('cre_a', mortar.credits(10), 'grant-1');
SELECT mortar.grant_credits('cre_a', 1000000, 'charge-1');
SELECT pg_temp.available(), * FROM pg_temp.rows();
-- another tenant's keys are its own
SELECT mortar.grant_credits('cre_b', 5, 'grant-1') <> :'g1' AS another_grant;

-- a charge that rolls back is taken back, with its key
BEGIN;
SELECT mortar.charge('cre_a', 9000000, 'charge-2') IS NOT NULL AS charged;
SELECT pg_temp.available();
ROLLBACK;
SELECT pg_temp.available(), * FROM pg_temp.rows();
SELECT mortar.charge('cre_a', 1, 'charge-2') IS NOT NULL AS key_is_free;

-- the last micro-credit can be spent, and not one more: at, above, below
SELECT mortar.charge('cre_a', 9000000, 'charge-3');
\set VERBOSITY terse
SELECT mortar.charge('cre_a', 9000000, 'charge-3');
\set VERBOSITY sqlstate
SELECT pg_temp.available(), * FROM pg_temp.rows();
SELECT mortar.charge('cre_a', 8999999, 'charge-4') IS NOT NULL AS charged;
SELECT pg_temp.available();
SELECT mortar.charge('cre_a', 1, 'charge-5');
-- what is missing is told in DETAIL, for the gateway
CREATE FUNCTION pg_temp.detail_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    d text;
BEGIN
    EXECUTE statement;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL;
    RETURN d;
END
$$;
SELECT pg_temp.detail_of($$SELECT mortar.charge('cre_a', 7, 'charge-5')$$);
-- on_short => 'return' asks instead of failing: null, and nothing changed
SELECT mortar.charge('cre_a', 1, 'charge-5', on_short => 'return') IS NULL AS short;
SELECT pg_temp.available(), * FROM pg_temp.rows();
-- a refusal does not burn the key: after a top-up the same call succeeds, once
SELECT mortar.grant_credits('cre_a', 1, 'grant-2') IS NOT NULL AS topped_up;
SELECT mortar.charge('cre_a', 1, 'charge-5') AS c5 \gset
SELECT mortar.charge('cre_a', 1, 'charge-5') = :'c5' AS replayed, pg_temp.available();
-- and neither does null
SELECT mortar.charge('cre_a', 2, 'charge-6', on_short => 'return') IS NULL AS short;
SELECT mortar.grant_credits('cre_a', 2, 'grant-3') IS NOT NULL AS topped_up;
SELECT mortar.charge('cre_a', 2, 'charge-6', on_short => 'return') IS NOT NULL AS charged, pg_temp.available();

-- a transaction may spend what it grants itself
BEGIN;
SELECT mortar.grant_credits('cre_a', 100, 'own-grant') IS NOT NULL AS granted;
SELECT mortar.charge('cre_a', 60, 'own-charge') IS NOT NULL AS charged, pg_temp.available();
SELECT mortar.charge('cre_a', 41, 'own-too-much', on_short => 'return') IS NULL AS short;
COMMIT;
SELECT pg_temp.available();
BEGIN;
SELECT mortar.grant_credits('cre_a', 100, 'own-grant-2') IS NOT NULL AS granted;
-- 40 from before and 100 of its own, less 130: all of it comes back
SELECT mortar.charge('cre_a', 130, 'own-charge-2') IS NOT NULL AS charged, pg_temp.available();
ROLLBACK;
SELECT pg_temp.available();

-- amounts: at, below and above the limits
SELECT mortar.grant_credits('cre_a', 0, 'k');
SELECT mortar.grant_credits('cre_a', -1, 'k');
SELECT mortar.grant_credits('cre_a', NULL, 'k');
SELECT mortar.charge('cre_a', 0, 'k');
SELECT mortar.charge('cre_a', -1, 'k');
SELECT mortar.charge('cre_a', NULL, 'k');
SELECT mortar.grant_credits('cre_a', 2305843009213693952, 'k');
SELECT mortar.charge('cre_a', 2305843009213693952, 'k');
SELECT mortar.grant_credits('cre_a', 9223372036854775807, 'k');
-- the sum may not pass the largest amount either: 2^61 - 1
SELECT mortar.create_tenant('cre_rich');
SELECT mortar.grant_credits('cre_rich', 2305843009213693951, 'all') IS NOT NULL AS granted;
SELECT mortar.grant_credits('cre_rich', 1, 'more');
SELECT mortar.charge('cre_rich', 1, 'less') IS NOT NULL AS charged;
SELECT mortar.grant_credits('cre_rich', 1, 'more') IS NOT NULL AS granted;
SELECT mortar.charge('cre_rich', 2305843009213693951, 'everything') IS NOT NULL AS charged, pg_temp.available('cre_rich');

-- idempotency keys: 1 to 255 characters
SELECT mortar.grant_credits('cre_a', 1, '');
SELECT mortar.grant_credits('cre_a', 1, NULL);
SELECT mortar.charge('cre_a', 1, NULL);
SELECT mortar.grant_credits('cre_a', 1, repeat('ä', 255)) IS NOT NULL AS granted;
SELECT mortar.grant_credits('cre_a', 1, repeat('x', 256));
SELECT mortar.charge('cre_a', 1, 'k', on_short => 'maybe');
SELECT mortar.charge('cre_a', 1, 'k', on_short => NULL);
SELECT pg_temp.available(), * FROM pg_temp.rows();

-- a tenant charges and reads itself inside its context, and nobody else
SELECT mortar.create_key('cre_a', 'k') AS key_a \gset
\c - regress_app
SELECT mortar.charge('cre_a', 1, 'by-tenant');
SELECT * FROM mortar.balance('cre_a');
SELECT * FROM mortar.usage('cre_a');
BEGIN;
SELECT mortar.login(:'key_a');
SELECT available_uc FROM mortar.balance('cre_a');
SELECT mortar.charge('cre_a', 1, 'by-tenant') IS NOT NULL AS charged;
SELECT available_uc FROM mortar.balance('cre_a');
SAVEPOINT s;
SELECT mortar.charge('cre_b', 1, 'by-tenant');
ROLLBACK TO s;
SELECT * FROM mortar.balance('cre_b');
ROLLBACK TO s;
SELECT * FROM mortar.usage('cre_b');
ROLLBACK TO s;
-- whether it exists or not
SELECT * FROM mortar.balance('cre_absent');
ROLLBACK TO s;
SELECT mortar.grant_credits('cre_a', 1, 'by-tenant-grant');
COMMIT;

\c - regress_admin
SELECT * FROM mortar.verify_ledger('cre_a') WHERE NOT ok;
SELECT * FROM mortar.verify_ledger('cre_rich') WHERE NOT ok;
DISCARD TEMP;
\c - :super
DROP ROLE regress_admin, regress_app;
