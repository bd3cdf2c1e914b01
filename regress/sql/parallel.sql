-- A parallel plan shows the same rows as any other plan, or an error, never
-- fewer: both forms of the policy, with and without a context.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_app;
CREATE ROLE regress_app LOGIN IN ROLE mortar_tenant;
SELECT mortar.create_tenant('par_a');
SELECT mortar.create_tenant('par_b');
SELECT mortar.create_key('par_a', 'a') AS key_a \gset

CREATE TABLE par_function (tenant_id text COLLATE "C", n int);
INSERT INTO par_function
    SELECT CASE i % 2 WHEN 0 THEN 'par_a' ELSE 'par_b' END, i FROM generate_series(1, 20000) i;
CREATE TABLE par_setting AS TABLE par_function;
CREATE TABLE par_volatile AS TABLE par_function;
CREATE POLICY own ON par_function USING (tenant_id = (SELECT mortar.tenant_id()));
CREATE POLICY own ON par_setting USING (tenant_id = current_setting('mortar.tenant_id'));
-- without the sub-select, so that the function would run for each row
CREATE POLICY own ON par_volatile USING (tenant_id = mortar.tenant_id());
ALTER TABLE par_function ENABLE ROW LEVEL SECURITY;
ALTER TABLE par_setting ENABLE ROW LEVEL SECURITY;
ALTER TABLE par_volatile ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON par_function, par_setting, par_volatile TO mortar_tenant;
INSERT INTO mortar.doc_tables (tenant_id, name) VALUES ('par_a', 't'), ('par_b', 't');
INSERT INTO mortar.doc_rows (tenant_id, table_name, row_id, doc)
    SELECT tenant_id, 't', gen_random_uuid(), '{}' FROM par_function WHERE n <= 5000;
ANALYZE par_function, par_setting, par_volatile, mortar.doc_rows;

\c - regress_app
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SET parallel_leader_participation = off;

-- does the plan have a Gather node?
CREATE FUNCTION pg_temp.is_parallel(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    line text;
    found bool := false;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        found := found OR line LIKE '%Gather%';
    END LOOP;
    RETURN found;
END
$$;

-- without a context, no row in any plan
SELECT count(*) FROM par_function;
SELECT count(*) FROM par_setting;
SELECT count(*) FROM par_volatile;
SELECT count(*) FROM mortar.doc_rows;

-- the two forms of the policy do run in parallel workers
SELECT pg_temp.is_parallel('SELECT count(*) FROM par_function') AS function_form,
    pg_temp.is_parallel('SELECT count(*) FROM par_setting') AS setting_form,
    pg_temp.is_parallel('SELECT count(*) FROM mortar.doc_rows') AS documents;

-- with a context, all rows of the tenant and none of another's
BEGIN;
SELECT mortar.login(:'key_a');
SELECT count(*), min(tenant_id), max(tenant_id) FROM par_function;
SELECT count(*), min(tenant_id), max(tenant_id) FROM par_setting;
SELECT count(*), min(tenant_id), max(tenant_id) FROM par_volatile;
SELECT count(*), min(tenant_id), max(tenant_id) FROM mortar.doc_rows;
SELECT count(*) FROM par_function f JOIN par_setting s USING (tenant_id, n);

-- the same with every plan forced through a worker
SET LOCAL force_parallel_mode = on;
SELECT count(*), min(tenant_id), max(tenant_id) FROM par_function;
SELECT count(*), min(tenant_id), max(tenant_id) FROM par_setting;
SELECT count(*), min(tenant_id), max(tenant_id) FROM par_volatile;
SELECT count(*), min(tenant_id), max(tenant_id) FROM mortar.doc_rows;
SELECT current_setting('mortar.tenant_id'), mortar.tenant_id();

-- and from a generic plan, again and again
SET LOCAL plan_cache_mode = force_generic_plan;
PREPARE f AS SELECT count(*) FROM par_function WHERE n > $1;
PREPARE s AS SELECT count(*) FROM par_setting WHERE n > $1;
EXECUTE f (0);
EXECUTE s (0);
EXECUTE f (0);
EXECUTE s (0);
COMMIT;
-- which show nothing once the context has ended
EXECUTE f (0);
EXECUTE s (0);
SELECT count(*) FROM par_setting;
DISCARD TEMP;

-- a function that is wrongly marked as safe moves nothing in a worker: it fails
\c - :super
CREATE FUNCTION wrongly_safe(tenant text) RETURNS void LANGUAGE plpgsql PARALLEL SAFE AS
    $$BEGIN PERFORM mortar.record_usage(tenant, 'requests', 1); END$$;
CREATE FUNCTION wrongly_safe_charge(tenant text) RETURNS uuid LANGUAGE plpgsql PARALLEL SAFE AS
    $$BEGIN RETURN mortar.charge(tenant, 1, 'k'); END$$;
CREATE FUNCTION wrongly_safe_enter(tenant text) RETURNS void LANGUAGE plpgsql PARALLEL SAFE AS
    $$BEGIN PERFORM mortar.enter(tenant); END$$;
SELECT mortar.grant_credits('par_a', 1000, 'g') IS NOT NULL AS granted;
SELECT mortar.set_price('requests', 1, 1) IS NOT NULL AS priced;
SELECT mortar.record_usage('par_a', 'requests', 1);
SET force_parallel_mode = on;
BEGIN;
SELECT wrongly_safe('par_a');
ROLLBACK;
BEGIN;
SELECT wrongly_safe_charge('par_a');
ROLLBACK;
BEGIN;
SELECT wrongly_safe_enter('par_a');
ROLLBACK;
RESET force_parallel_mode;
SELECT quantity, cost_uc, (SELECT available_uc FROM mortar.balance('par_a')) FROM mortar.usage('par_a');
SELECT pins FROM mortar.slots WHERE tenant_id = 'par_a';
SELECT mortar.set_price('requests', 0, 1) IS NOT NULL AS free;
DROP FUNCTION wrongly_safe(text);
DROP FUNCTION wrongly_safe_charge(text);
DROP FUNCTION wrongly_safe_enter(text);
DROP TABLE par_function, par_setting, par_volatile;
DROP ROLE regress_app;
