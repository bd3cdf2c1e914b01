-- Which grant pays: burn order, life times, savepoints, more grants than memory
-- has cells for; and that tables say so afterwards.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_admin;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
\c - regress_admin
SET client_min_messages = warning;
SELECT mortar.set_price('requests', 1, 1) IS NOT NULL AS priced;
SELECT mortar.set_price('egress_bytes', 0, 1) IS NOT NULL AS free;

-- names for grants: the key that gave them
CREATE TEMP TABLE named (tenant_id text, grant_id uuid PRIMARY KEY, name text);
GRANT SELECT ON named TO mortar_monitor;
CREATE FUNCTION pg_temp.give(tenant text, name text, amount int8, priority int4 DEFAULT 50,
    category text DEFAULT 'paid', effective_at timestamptz DEFAULT now(), expires_at timestamptz DEFAULT NULL)
    RETURNS void LANGUAGE sql AS
    $$INSERT INTO named VALUES (tenant,
        mortar.grant_credits(tenant, amount, name, priority, category, effective_at, expires_at), name)$$;
-- what a charge took, in the order of its rows
CREATE FUNCTION pg_temp.paid(entry uuid) RETURNS text LANGUAGE sql AS
    $$SELECT string_agg(format('%s %s', coalesce(n.name, l.from_account), l.amount_uc), ', ' ORDER BY l.entry_id)
        FROM mortar.credit_ledger l LEFT JOIN named n USING (grant_id) WHERE l.movement_id = entry$$;
CREATE FUNCTION pg_temp.left_of(tenant text) RETURNS text LANGUAGE sql AS
    $$SELECT string_agg(format('%s %s', n.name, g.remaining_uc), ', ' ORDER BY n.name)
        FROM mortar.grants g JOIN named n USING (grant_id) WHERE g.tenant_id = tenant$$;
CREATE FUNCTION pg_temp.available(tenant text) RETURNS int8 LANGUAGE sql AS
    $$SELECT available_uc FROM mortar.balance(tenant)$$;
CREATE PROCEDURE pg_temp.flushed(tenant text) LANGUAGE plpgsql AS $$BEGIN
    FOR i IN 1 .. 3000 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM mortar.cells c WHERE c.tenant_id = tenant AND c.unflushed_uc <> 0)
            AND (SELECT unflushed_uc = 0 FROM mortar.balance(tenant));
        PERFORM pg_sleep(0.01);
        COMMIT;
    END LOOP;
END$$;

-- ---- arguments, at, below and above their limits ----
SELECT mortar.create_tenant('gra_a');
SELECT mortar.grant_credits('gra_a', 1, 'k', priority => -1);
SELECT mortar.grant_credits('gra_a', 1, 'k', priority => 101);
SELECT mortar.grant_credits('gra_a', 1, 'k', priority => NULL);
SELECT mortar.grant_credits('gra_a', 1, 'k', category => 'free');
SELECT mortar.grant_credits('gra_a', 1, 'k', category => NULL);
SELECT mortar.grant_credits('gra_a', 1, 'k', effective_at => '-infinity');
SELECT mortar.grant_credits('gra_a', 1, 'k', effective_at => 'infinity');
SELECT mortar.grant_credits('gra_a', 1, 'k', expires_at => 'infinity');
SELECT mortar.grant_credits('gra_a', 1, 'k', expires_at => now());
SELECT mortar.grant_credits('gra_a', 1, 'k', effective_at => now() + interval '1 hour', expires_at => now() + interval '1 hour');
SELECT pg_temp.available('gra_a'), (SELECT count(*) FROM mortar.credit_grants WHERE tenant_id = 'gra_a') AS grants;
SELECT mortar.grant_credits('gra_a', 1, 'p0', priority => 0) IS NOT NULL AS at_limit;
SELECT mortar.grant_credits('gra_a', 1, 'p100', priority => 100) IS NOT NULL AS at_limit;
SELECT mortar.grant_credits('gra_a', 1, 'n', effective_at => NULL) IS NOT NULL AS null_is_now;
-- the same key again: the same terms, or MT422; a call with the default time says the same each time
SELECT mortar.grant_credits('gra_a', 7, 'idem', 20, 'promo', '2020-01-01', '2040-01-01') AS g \gset
SELECT mortar.grant_credits('gra_a', 7, 'idem', 20, 'promo', '2020-01-01', '2040-01-01') = :'g' AS replayed;
SELECT mortar.grant_credits('gra_a', 7, 'idem', 21, 'promo', '2020-01-01', '2040-01-01');
SELECT mortar.grant_credits('gra_a', 7, 'idem', 20, 'paid', '2020-01-01', '2040-01-01');
SELECT mortar.grant_credits('gra_a', 7, 'idem', 20, 'promo', '2020-01-02', '2040-01-01');
SELECT mortar.grant_credits('gra_a', 7, 'idem', 20, 'promo', '2020-01-01', '2040-01-02');
SELECT mortar.grant_credits('gra_a', 7, 'idem', 20, 'promo', '2020-01-01');
SELECT mortar.grant_credits('gra_a', 7, 'idem', 20, 'promo', expires_at => '2040-01-01');
SELECT mortar.grant_credits('gra_a', 5, 'now') AS g \gset
SELECT mortar.grant_credits('gra_a', 5, 'now') = :'g' AS replayed;
SELECT amount_uc, priority, category, effective_at, expires_at FROM mortar.credit_grants
    WHERE tenant_id = 'gra_a' AND amount_uc = 7;
SELECT effective_at = (SELECT effective_at FROM mortar.credit_grants WHERE tenant_id = 'gra_a' AND amount_uc = 7) AS as_the_grant,
    movement_id = entry_id AS one_row FROM mortar.credit_ledger WHERE tenant_id = 'gra_a' AND amount_uc = 7;

-- ---- burn order ----
SELECT mortar.create_tenant('gra_b');
-- given in the wrong order, so that nothing but the rule can put them right
SELECT pg_temp.give('gra_b', 'f late', 10, effective_at => now() - interval '1 hour');
SELECT pg_temp.give('gra_b', 'e early', 10, effective_at => now() - interval '2 hours');
SELECT pg_temp.give('gra_b', 'd promo', 10, category => 'promo');
SELECT pg_temp.give('gra_b', 'c year', 10, expires_at => now() + interval '1 year');
SELECT pg_temp.give('gra_b', 'b day', 10, expires_at => now() + interval '1 day');
SELECT pg_temp.give('gra_b', 'g last', 10, 51, 'promo', expires_at => now() + interval '1 minute');
SELECT pg_temp.give('gra_b', 'a first', 10, 49);
SELECT pg_temp.paid(mortar.charge('gra_b', 5, 'c1'));
SELECT pg_temp.paid(mortar.charge('gra_b', 10, 'c2'));
SELECT pg_temp.paid(mortar.charge('gra_b', 50, 'c3'));
SELECT pg_temp.paid(mortar.charge('gra_b', 5, 'c4'));
SELECT mortar.charge('gra_b', 1, 'c5');
SELECT pg_temp.left_of('gra_b'), pg_temp.available('gra_b');
-- equal in all but their ids: the earlier one, which has the smaller id
SELECT pg_temp.give('gra_b', 'twin 1', 10, effective_at => '2020-01-01');
SELECT pg_temp.give('gra_b', 'twin 2', 10, effective_at => '2020-01-01');
SELECT pg_temp.paid(mortar.charge('gra_b', 15, 'c6'));

-- ---- usage burns likewise, and the flusher books what memory took ----
SELECT mortar.create_tenant('gra_c');
SELECT pg_temp.give('gra_c', 'b paid', 100);
SELECT pg_temp.give('gra_c', 'a promo', 10, category => 'promo');
SELECT mortar.record_usage('gra_c', 'requests', 7);
SELECT mortar.record_usage('gra_c', 'requests', 8);
CALL pg_temp.flushed('gra_c');
SELECT pg_temp.left_of('gra_c'), pg_temp.available('gra_c');
SELECT n.name, sum(b.amount_uc) FROM mortar.credit_burns b JOIN named n USING (grant_id)
    WHERE b.tenant_id = 'gra_c' GROUP BY n.name ORDER BY n.name;
-- lineage: one query leads from what was used, or charged, to the grants
SELECT pg_temp.paid(mortar.charge('gra_c', 3, 'c', '{"order": 7}'));
SELECT l.kind, n.name, sum(l.amount_uc) AS amount_uc, l.category, bool_and(l.from_account = 'available') AS of_grants,
    sum((l.what->0->>'quantity')::int8) >= 10 AS has_usage, max(l.what->>'order') AS of_order
    FROM mortar.lineage l JOIN named n USING (grant_id) WHERE l.tenant_id = 'gra_c'
    GROUP BY l.kind, n.name, l.category ORDER BY l.kind DESC, n.name;
SELECT bool_and(used = burned) AS whole FROM (
    SELECT sum(cost_uc) AS used, (SELECT sum(amount_uc) FROM mortar.credit_burns b
        WHERE (b.tenant_id, b.movement_id) = (j.tenant_id, j.movement_id)) AS burned
    FROM mortar.usage_journal j WHERE tenant_id = 'gra_c' GROUP BY tenant_id, movement_id) m;

-- ---- grants end by themselves ----
SELECT mortar.create_tenant('gra_d');
SELECT pg_temp.give('gra_d', 'a short', 100, expires_at => clock_timestamp() + interval '1 second');
SELECT pg_temp.give('gra_d', 'b long', 1000);
SELECT available_uc, next_expiry = (SELECT min(expires_at) FROM mortar.credit_grants WHERE tenant_id = 'gra_d') AS next
    FROM mortar.balance('gra_d');
SELECT pg_temp.paid(mortar.charge('gra_d', 30, 'c1'));
-- a debit that is in flight when its grant ends, and is undone after: gone with the grant
BEGIN;
SELECT pg_temp.paid(mortar.charge('gra_d', 20, 'c2'));
SELECT mortar.record_usage('gra_d', 'requests', 5);
SELECT pg_temp.available('gra_d');
SELECT pg_sleep(1.1) IS NULL AS slept;
SELECT pg_temp.available('gra_d');
ROLLBACK;
SELECT available_uc, next_expiry FROM mortar.balance('gra_d');
SELECT pg_temp.paid(mortar.charge('gra_d', 1, 'c3'));
CALL pg_temp.flushed('gra_d');
SELECT pg_temp.left_of('gra_d');
SELECT state, count(*) FROM mortar.grants WHERE tenant_id = 'gra_d' GROUP BY state ORDER BY state;
-- nothing of it is anybody's business: no sweeper, no row
SELECT count(*) AS entries FROM mortar.credit_ledger WHERE tenant_id = 'gra_d';
-- one that has ended before it was given is history, and worth nothing
SELECT pg_temp.give('gra_d', 'c past', 500, effective_at => '2020-01-01', expires_at => '2020-02-01');
SELECT pg_temp.available('gra_d');
-- usage at a time when the grant was in force is the grant's, whenever it is flushed
SELECT mortar.create_tenant('gra_e');
SELECT pg_temp.give('gra_e', 'a short', 100, expires_at => clock_timestamp() + interval '500 milliseconds');
SELECT pg_temp.give('gra_e', 'b long', 100);
SELECT mortar.record_usage('gra_e', 'requests', 10);
SELECT pg_sleep(0.6) IS NULL AS slept;
SELECT mortar.record_usage('gra_e', 'requests', 10);
CALL pg_temp.flushed('gra_e');
SELECT pg_temp.left_of('gra_e'), pg_temp.available('gra_e');

-- ---- and begin by themselves ----
SELECT mortar.create_tenant('gra_f');
SELECT pg_temp.give('gra_f', 'soon', 100, effective_at => clock_timestamp() + interval '1 second');
SELECT pg_temp.give('gra_f', 'much later', 100, effective_at => now() + interval '1 year', expires_at => now() + interval '2 years');
SELECT available_uc, next_expiry > now() + interval '1 year' AS next FROM mortar.balance('gra_f');
SELECT mortar.charge('gra_f', 1, 'c1');
-- not even the transaction that gave it spends it before
BEGIN;
SELECT pg_temp.give('gra_f', 'tomorrow', 100, effective_at => now() + interval '1 day');
SELECT pg_temp.available('gra_f');
SELECT mortar.charge('gra_f', 1, 'c1', on_short => 'return');
COMMIT;
SELECT pg_sleep(1.1) IS NULL AS slept;
SELECT pg_temp.available('gra_f');
SELECT pg_temp.paid(mortar.charge('gra_f', 40, 'c1'));
SELECT n.name, g.state, g.remaining_uc FROM mortar.grants g JOIN named n USING (grant_id) WHERE g.tenant_id = 'gra_f' ORDER BY 1;

-- ---- undone: every part returns to its grant ----
SELECT mortar.create_tenant('gra_g');
SELECT pg_temp.give('gra_g', 'a', 10, 1);
SELECT pg_temp.give('gra_g', 'b', 10, 2);
SELECT pg_temp.give('gra_g', 'c', 10, 3);
BEGIN;
SELECT pg_temp.paid(mortar.charge('gra_g', 25, 'c1'));
ROLLBACK;
SELECT pg_temp.paid(mortar.charge('gra_g', 5, 'c1'));
BEGIN;
SELECT pg_temp.paid(mortar.charge('gra_g', 2, 'c2'));
SAVEPOINT one;
SELECT pg_temp.paid(mortar.charge('gra_g', 8, 'c3'));
SELECT mortar.record_usage('gra_g', 'requests', 7);
SAVEPOINT two;
SELECT pg_temp.paid(mortar.charge('gra_g', 6, 'c4'));
ROLLBACK TO two;
SELECT pg_temp.paid(mortar.charge('gra_g', 1, 'c5'));
ROLLBACK TO one;
SELECT pg_temp.paid(mortar.charge('gra_g', 4, 'c6'));
COMMIT;
CALL pg_temp.flushed('gra_g');
SELECT pg_temp.left_of('gra_g'), pg_temp.available('gra_g');
-- own grants first, and no others' business before the commit
BEGIN;
SELECT pg_temp.give('gra_g', 'd own', 10, 100);
SELECT pg_temp.paid(mortar.charge('gra_g', 12, 'c7'));
SAVEPOINT one;
SELECT pg_temp.give('gra_g', 'e own', 10, 99);
SELECT pg_temp.paid(mortar.charge('gra_g', 7, 'c8'));
ROLLBACK TO one;
SELECT pg_temp.available('gra_g');
COMMIT;
SELECT pg_temp.left_of('gra_g'), pg_temp.available('gra_g');

-- ---- more grants than memory has cells ----
SELECT mortar.create_tenant('gra_h');
-- the last given burns first
SELECT pg_temp.give('gra_h', to_char(101 - i, 'FM000'), 10, (101 - i)::int4) FROM generate_series(1, 20) i;
SELECT pg_temp.available('gra_h'), grants FROM mortar.slots WHERE tenant_id = 'gra_h';
SELECT string_agg(pg_temp.paid(mortar.charge('gra_h', 5, 'c' || i)), '; ' ORDER BY i) FROM generate_series(1, 12) i;
-- a charge of more than one grant, usage, and an undone one in between
BEGIN;
SELECT pg_temp.paid(mortar.charge('gra_h', 35, 'undone'));
ROLLBACK;
SELECT pg_temp.paid(mortar.charge('gra_h', 35, 'c13'));
SELECT mortar.record_usage('gra_h', 'requests', 15);
SELECT pg_temp.paid(mortar.charge('gra_h', 50, 'c14'));
CALL pg_temp.flushed('gra_h');
SELECT pg_temp.available('gra_h'), grants FROM mortar.slots WHERE tenant_id = 'gra_h';
SELECT pg_temp.paid(mortar.charge('gra_h', 30, 'c15'));
SELECT pg_temp.paid(mortar.charge('gra_h', 10, 'c16'));
SELECT mortar.charge('gra_h', 1, 'c17');
SELECT pg_temp.available('gra_h'), grants FROM mortar.slots WHERE tenant_id = 'gra_h';
-- in one transaction: all of it is there at the commit
BEGIN;
SELECT pg_temp.give('gra_h', to_char(200 + i, 'FM000'), 10) FROM generate_series(1, 20) i;
SELECT pg_temp.available('gra_h');
SAVEPOINT one;
SELECT pg_temp.give('gra_h', to_char(300 + i, 'FM000'), 10) FROM generate_series(1, 5) i;
SELECT pg_temp.available('gra_h');
ROLLBACK TO one;
SELECT pg_temp.available('gra_h');
COMMIT;
SELECT pg_temp.available('gra_h');
SELECT pg_temp.paid(mortar.charge('gra_h', 60, 'd1'));
SELECT pg_temp.paid(mortar.charge('gra_h', 70, 'd2'));
SELECT pg_temp.paid(mortar.charge('gra_h', 70, 'd3'));
SELECT mortar.charge('gra_h', 1, 'd6');
-- a better grant comes last: it burns first all the same
SELECT pg_temp.give('gra_h', to_char(400 + i, 'FM000'), 10) FROM generate_series(1, 9) i;
SELECT pg_temp.give('gra_h', '000 first', 10, 0);
SELECT pg_temp.paid(mortar.charge('gra_h', 15, 'e1'));
-- that begin and end out of memory's sight
SELECT mortar.create_tenant('gra_i');
SELECT pg_temp.give('gra_i', to_char(i, 'FM00'), 1, effective_at => now() - interval '1 hour') FROM generate_series(1, 10) i;
SELECT pg_temp.give('gra_i', 'ends', 100, 99, expires_at => clock_timestamp() + interval '1 second');
SELECT pg_temp.give('gra_i', 'begins', 1000, 98, effective_at => clock_timestamp() + interval '1 second');
SELECT pg_temp.available('gra_i');
SELECT pg_sleep(1.1) IS NULL AS slept;
SELECT pg_temp.available('gra_i');
SELECT pg_temp.paid(mortar.charge('gra_i', 5, 'c1'));
SELECT pg_temp.paid(mortar.charge('gra_i', 100, 'c2'));
SELECT pg_temp.available('gra_i');

-- ---- and all of it adds up ----
SELECT check_name, detail FROM mortar.verify_ledger() WHERE NOT ok;
SELECT mortar.set_price('requests', 0, 1) IS NOT NULL AS free;
\c - :super
DROP OWNED BY regress_admin;
DROP ROLE regress_admin;
