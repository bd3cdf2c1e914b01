-- Tenants do not see, change or learn of each other's rows: the ways around a
-- policy that SQL offers, each closed.  Shown on a product's own table and on
-- Mortar's document tables, as a user who logs in as tenant A.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_app;
CREATE ROLE regress_app LOGIN IN ROLE mortar_tenant;

SELECT mortar.create_tenant('iso_a');
SELECT mortar.create_tenant('iso_b');
SELECT mortar.create_key('iso_a', 'a') AS key_a \gset

CREATE TABLE parents (
    tenant_id text COLLATE "C" NOT NULL,
    id int NOT NULL,
    secret int NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, id));
CREATE TABLE children (
    tenant_id text COLLATE "C" NOT NULL,
    id int NOT NULL,
    parent_id int NOT NULL,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, parent_id) REFERENCES parents);
INSERT INTO parents VALUES ('iso_a', 1, 10), ('iso_b', 1, 20), ('iso_b', 2, 42);
INSERT INTO children VALUES ('iso_b', 1, 2);
DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY '{parents,children}'::text[] LOOP
        EXECUTE format('CREATE POLICY own ON %I '
            'USING (tenant_id = (SELECT mortar.tenant_id())) '
            'WITH CHECK (tenant_id = (SELECT mortar.tenant_id()))', t);
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO mortar_tenant', t);
    END LOOP;
END
$$;
INSERT INTO mortar.doc_tables (tenant_id, name) VALUES ('iso_a', 'mine'), ('iso_b', 'theirs'), ('iso_b', 'both');
INSERT INTO mortar.doc_rows (tenant_id, table_name, row_id, doc) VALUES
    ('iso_a', 'mine', '00000000-0000-7000-8000-00000000000a', '{"of": "a"}'),
    ('iso_b', 'theirs', '00000000-0000-7000-8000-00000000000b', '{"of": "b"}');

\c - regress_app
-- :in_a and :done bracket what tenant A does
\set in_a 'BEGIN; SELECT mortar.login(:\'key_a\') AS tenant;'
\set done 'ROLLBACK;'
\pset format unaligned
\pset tuples_only on

-- TRUNCATE is refused
:in_a
TRUNCATE children;
:done
:in_a
TRUNCATE mortar.doc_rows;
:done

-- COPY TO gives the tenant its own rows
:in_a
COPY parents TO STDOUT;
COPY mortar.doc_rows (tenant_id, table_name, doc) TO STDOUT;
COPY (SELECT tenant_id, name FROM mortar.doc_tables) TO STDOUT;
:done
-- COPY TO without a context gives nothing
COPY parents TO STDOUT;
COPY mortar.doc_rows (tenant_id, table_name, doc) TO STDOUT;
-- COPY FROM is refused under row-level security
:in_a
\copy parents FROM '/dev/null'
:done

-- A unique violation does not tell of another tenant's rows: their keys are free for A
:in_a
INSERT INTO parents VALUES ('iso_a', 2, 0);
INSERT INTO mortar.doc_tables (tenant_id, name) VALUES ('iso_a', 'both');
INSERT INTO mortar.doc_rows (tenant_id, table_name, row_id, doc)
    VALUES ('iso_a', 'mine', '00000000-0000-7000-8000-00000000000b', '{}');
:done
-- and writing into their key space is a policy violation, whether the key is taken or not
:in_a
INSERT INTO parents VALUES ('iso_b', 2, 0);
:done
:in_a
INSERT INTO parents VALUES ('iso_b', 3, 0);
:done
:in_a
INSERT INTO mortar.doc_tables (tenant_id, name) VALUES ('iso_b', 'both');
:done
:in_a
INSERT INTO mortar.doc_tables (tenant_id, name) VALUES ('iso_b', 'free');
:done

-- ON CONFLICT with a key that another tenant has makes two rows
BEGIN;
SELECT mortar.login(:'key_a') AS tenant;
INSERT INTO parents VALUES ('iso_a', 2, 77)
    ON CONFLICT (tenant_id, id) DO UPDATE SET secret = 78 RETURNING tenant_id, id, secret;
INSERT INTO parents VALUES ('iso_b', 2, 77)
    ON CONFLICT (tenant_id, id) DO UPDATE SET secret = 78 RETURNING tenant_id, id, secret;
ROLLBACK;
BEGIN;
SELECT mortar.login(:'key_a') AS tenant;
INSERT INTO parents VALUES ('iso_a', 2, 77)
    ON CONFLICT (tenant_id, id) DO UPDATE SET secret = 78;
COMMIT;
BEGIN;
SELECT mortar.login(:'key_a') AS tenant;
INSERT INTO parents VALUES ('iso_b', 2, 0) ON CONFLICT DO NOTHING;
ROLLBACK;

-- A foreign key to another tenant's row fails, and A's own row is found
:in_a
INSERT INTO children VALUES ('iso_a', 1, 1);
INSERT INTO children VALUES ('iso_a', 2, 3);
:done
:in_a
INSERT INTO children VALUES ('iso_b', 2, 2);
:done
:in_a
-- documents know no foreign key: under the name of another's table is a row of A's own
INSERT INTO mortar.doc_rows (tenant_id, table_name, row_id, doc)
    VALUES ('iso_a', 'theirs', gen_random_uuid(), '{}') RETURNING tenant_id, table_name;
SELECT tenant_id, table_name FROM mortar.doc_rows ORDER BY 1, 2;
:done
:in_a
INSERT INTO mortar.doc_rows (tenant_id, table_name, row_id, doc)
    VALUES ('iso_b', 'theirs', gen_random_uuid(), '{}');
:done

-- A filter that fails on other rows reveals nothing: it never sees them
:in_a
SELECT id FROM parents WHERE 1 / (42 - secret) IS NOT NULL ORDER BY id;
SELECT id FROM parents WHERE (secret::text || CASE secret WHEN 42 THEN 'x' ELSE '' END)::int > 0 ORDER BY id;
SELECT count(*) FROM mortar.doc_rows WHERE 1 / CASE doc ->> 'of' WHEN 'b' THEN 0 ELSE 1 END = 1;
SET LOCAL enable_indexscan = off;
SET LOCAL enable_bitmapscan = off;
SELECT id FROM parents WHERE 1 / (42 - secret) IS NOT NULL ORDER BY id;
SELECT id FROM parents WHERE tenant_id = 'iso_b' AND 1 / (42 - secret) IS NOT NULL;
:done
-- nor does a cheap function of the tenant's own see them
:in_a
CREATE FUNCTION pg_temp.leak(text, int) RETURNS bool COST 0.0000001 LANGUAGE plpgsql AS
    $$ BEGIN RAISE NOTICE 'row of %', $1; RETURN true; END $$;
SET LOCAL client_min_messages = notice;
\set VERBOSITY terse
SELECT id FROM parents WHERE pg_temp.leak(tenant_id, secret) ORDER BY id;
\set VERBOSITY sqlstate
:done

-- A row cannot move to another tenant
:in_a
UPDATE parents SET tenant_id = 'iso_b' WHERE id = 1;
:done
:in_a
UPDATE mortar.doc_rows SET tenant_id = 'iso_b', table_name = 'theirs';
:done
:in_a
UPDATE mortar.doc_tables SET tenant_id = 'iso_b', name = 'moved' WHERE name = 'mine';
:done
-- and another tenant's rows can be neither changed nor removed nor taken
:in_a
WITH u AS (UPDATE parents SET secret = 0 WHERE tenant_id = 'iso_b' RETURNING 1) SELECT count(*) FROM u;
WITH u AS (UPDATE parents SET tenant_id = 'iso_a', id = 100 + id WHERE tenant_id = 'iso_b' RETURNING 1) SELECT count(*) FROM u;
WITH u AS (DELETE FROM mortar.doc_rows WHERE tenant_id = 'iso_b' RETURNING 1) SELECT count(*) FROM u;
WITH u AS (DELETE FROM mortar.doc_tables WHERE tenant_id = 'iso_b' RETURNING 1) SELECT count(*) FROM u;
SELECT count(*) FROM parents WHERE tenant_id = 'iso_b';
SELECT row_id FROM mortar.doc_rows WHERE tenant_id = 'iso_b' FOR UPDATE;
MERGE INTO parents p USING (VALUES ('iso_b', 2)) v (t, i) ON p.tenant_id = v.t AND p.id = v.i
    WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN DO NOTHING;
:done

-- A tenant sees none of the tables that hold money, keys and prices
:in_a
SELECT count(*) FROM mortar.tenants;
:done
:in_a
SELECT count(*) FROM mortar.api_keys;
:done
:in_a
SELECT count(*) FROM mortar.keys;
:done
:in_a
SELECT count(*) FROM mortar.credit_ledger;
:done
:in_a
SELECT count(*) FROM mortar.usage_journal;
:done
:in_a
SELECT count(*) FROM mortar.slots;
:done

DISCARD TEMP;
\c - :super
-- Afterwards everything of tenant B is as it was, and A has a row of the same key
SELECT * FROM parents ORDER BY tenant_id, id;
SELECT * FROM children WHERE tenant_id = 'iso_b';
SELECT tenant_id, table_name, row_id, doc FROM mortar.doc_rows WHERE tenant_id LIKE 'iso%' ORDER BY 1;

-- An absent row and another tenant's row are answered with the same bytes
CREATE FUNCTION answer(key text, path text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    message text;
    members text;
    status int;
BEGIN
    SELECT h.status, convert_from(h.body, 'UTF8') INTO status, message
    FROM mortar.http('iso_a', 'GET', convert_to(path, 'UTF8'), NULL,
        ARRAY['authorization', 'Bearer ' || key], NULL, '127.0.0.1', 'r') h;
    RETURN status || ' ' || message;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, members = PG_EXCEPTION_DETAIL;
    RETURN concat_ws(' ', SQLSTATE, message, nullif(members, ''));
END
$$;
SELECT answer(:'key_a', '/db/rows/mine/00000000-0000-7000-8000-00000000000b')
    = answer(:'key_a', '/db/rows/mine/00000000-0000-7000-8000-0000000000ff') AS same_row_answer,
    answer(:'key_a', '/db/rows/mine/00000000-0000-7000-8000-00000000000a') LIKE '200 %' AS own_row_found;
SELECT answer(:'key_a', '/db/rows/theirs/00000000-0000-7000-8000-00000000000b')
    = answer(:'key_a', '/db/rows/absent/00000000-0000-7000-8000-00000000000b') AS same_row_of_table_answer;
SELECT answer(:'key_a', '/db/tables/theirs') = answer(:'key_a', '/db/tables/absent') AS same_table_answer;
SELECT answer(:'key_a', '/db/rows/theirs') = answer(:'key_a', '/db/rows/absent') AS same_list_answer;
SELECT answer(:'key_a', '/db/tables/theirs');

DROP FUNCTION answer(text, text);
DROP TABLE children, parents;
DROP ROLE regress_app;
