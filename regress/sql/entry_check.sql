-- What a row of the ledger may say: the constraint refuses all else, also from a
-- superuser's hand and where triggers are off, and verify_ledger() has the same list.
\set VERBOSITY sqlstate
SET client_min_messages = warning;
SELECT mortar.create_tenant('ent_a');
SELECT mortar.grant_credits('ent_a', 1000, 'g') AS grant_id \gset

-- every kind from every account to every other, with a grant and without
CREATE TEMP TABLE combinations AS
    SELECT kind, from_account, to_account, grant_id
    FROM unnest('{grant,charge,hold,capture,release,reversal,void,expire,Charge,charg,charges,""}'::text[]) kind,
        unnest('{issued,available,held,consumed,debt,expired,""}'::text[]) from_account,
        unnest('{issued,available,held,consumed,debt,expired,""}'::text[]) to_account,
        unnest(ARRAY[NULL, :'grant_id']::uuid[]) grant_id;
SELECT count(*) FROM combinations;
SELECT kind, from_account, to_account, grant_id IS NOT NULL AS of_grant FROM combinations
    WHERE mortar.is_entry(kind, from_account, to_account, 1, grant_id)
    ORDER BY kind, from_account, to_account, of_grant;
SELECT count(*) AS not_positive FROM combinations
    WHERE mortar.is_entry(kind, from_account, to_account, 0, grant_id)
        OR mortar.is_entry(kind, from_account, to_account, -1, grant_id)
        OR mortar.is_entry(kind, from_account, to_account, -9223372036854775808, grant_id);
SELECT mortar.is_entry(NULL, 'debt', 'consumed', 1, NULL), mortar.is_entry('charge', NULL, 'consumed', 1, NULL),
    mortar.is_entry('charge', 'debt', NULL, 1, NULL), mortar.is_entry('charge', 'debt', 'consumed', NULL, NULL),
    mortar.is_entry('charge', 'debt', 'consumed', 9223372036854775807, NULL);

-- verify_ledger() agrees about each of them, one tenant for each
BEGIN;
ALTER TABLE mortar.credit_ledger DROP CONSTRAINT credit_ledger_check;
CREATE TEMP TABLE numbered ON COMMIT DROP AS SELECT 'ent_n' || row_number() OVER () AS tenant_id, * FROM combinations;
INSERT INTO mortar.credit_ledger (tenant_id, entry_id, movement_id, kind, from_account, to_account, amount_uc, grant_id, effective_at, epoch_id)
    SELECT tenant_id, id, id, kind, from_account, to_account, 1, grant_id, now(), id
    FROM numbered, LATERAL (SELECT gen_random_uuid() AS id WHERE numbered.kind IS NOT NULL) i;
CREATE TEMP TABLE named ON COMMIT DROP AS
    SELECT unnest(string_to_array(substr(detail, length('wrong for: ') + 1), ', ')) AS tenant_id
    FROM mortar.verify_ledger() WHERE check_name = 'entries balance';
SELECT count(*) AS named FROM named;
SELECT tenant_id, kind, from_account, to_account, grant_id IS NOT NULL AS of_grant FROM numbered n
    WHERE mortar.is_entry(kind, from_account, to_account, 1, grant_id)
        = EXISTS (SELECT FROM named WHERE named.tenant_id = n.tenant_id);
ROLLBACK;

-- a wrong row is refused, whoever writes it and however
PREPARE entry (text, text, text, int8, uuid) AS INSERT INTO mortar.credit_ledger (tenant_id, entry_id, movement_id,
        kind, from_account, to_account, amount_uc, grant_id, effective_at, epoch_id)
    SELECT 'ent_a', id, id, $1, $2, $3, $4, $5, now(), id FROM gen_random_uuid() id;
EXECUTE entry ('charge', 'held', 'consumed', 1, NULL);
EXECUTE entry ('charge', 'available', 'consumed', 1, NULL);
EXECUTE entry ('charge', 'debt', 'consumed', 1, :'grant_id');
EXECUTE entry ('charge', 'debt', 'consumed', 0, NULL);
EXECUTE entry (NULL, 'debt', 'consumed', 1, NULL);
SET session_replication_role = replica;
EXECUTE entry ('expire', 'available', 'consumed', 1, :'grant_id');
RESET session_replication_role;
BEGIN;
ALTER TABLE mortar.credit_ledger DISABLE TRIGGER USER;
UPDATE mortar.credit_ledger SET amount_uc = -amount_uc WHERE tenant_id = 'ent_a';
ROLLBACK;
BEGIN;
EXECUTE entry ('charge', 'debt', 'consumed', 1, NULL);
SELECT count(*) FROM mortar.credit_ledger WHERE tenant_id = 'ent_a';
ROLLBACK;

-- grants
PREPARE a_grant (int8, int4, text, timestamptz) AS INSERT INTO mortar.credit_grants (tenant_id, grant_id, amount_uc, priority, category, expires_at)
    VALUES ('ent_a', gen_random_uuid(), $1, $2, $3, $4);
EXECUTE a_grant (0, 50, 'paid', NULL);
EXECUTE a_grant (1, -1, 'paid', NULL);
EXECUTE a_grant (1, 101, 'paid', NULL);
EXECUTE a_grant (1, 50, 'free', NULL);
EXECUTE a_grant (1, 50, 'paid', now());
BEGIN;
EXECUTE a_grant (1, 0, 'promo', now() + '1 us');
EXECUTE a_grant (1, 100, 'paid', NULL);
ROLLBACK;

-- usage and who paid for it
PREPARE a_journal (int8, int8, int8) AS INSERT INTO mortar.usage_journal (tenant_id, meter, key_id, route, price_id, from_qty, upto_qty, minute, cost_uc, movement_id, epoch_id)
    SELECT 'ent_a', 'requests', id, '', id, $1, $2, now(), $3, id, id FROM gen_random_uuid() id;
EXECUTE a_journal (-1, 1, 0);
EXECUTE a_journal (1, 1, 0);
EXECUTE a_journal (0, 1, -1);
BEGIN;
EXECUTE a_journal (0, 1, 0);
ROLLBACK;
PREPARE a_sync (int8, int8, text[], uuid[], int8[]) AS INSERT INTO mortar.usage_sync (tenant_id, sync_id, meter, key_id, route, price_id, qty, minute, cost_uc, from_accounts, grant_ids, amounts_uc, epoch_id)
    SELECT 'ent_a', id, 'requests', id, '', id, $1, now(), $2, $3, $4, $5, id FROM gen_random_uuid() id;
EXECUTE a_sync (0, 0, '{}', '{}', '{}');
EXECUTE a_sync (1, -1, '{}', '{}', '{}');
EXECUTE a_sync (1, 1, '{debt}', '{}', '{1}');
EXECUTE a_sync (1, 1, '{}', ARRAY[:'grant_id'::uuid], '{1}');
BEGIN;
EXECUTE a_sync (1, 1, '{available}', ARRAY[:'grant_id'::uuid], '{1}');
ROLLBACK;
PREPARE a_burn (text, uuid, int8) AS INSERT INTO mortar.credit_burns (tenant_id, movement_id, from_account, grant_id, amount_uc, epoch_id)
    SELECT 'ent_a', id, $1, $2, $3, id FROM gen_random_uuid() id;
EXECUTE a_burn ('available', :'grant_id', 0);
EXECUTE a_burn ('available', '00000000-0000-0000-0000-000000000000', 1);
EXECUTE a_burn ('debt', :'grant_id', 1);
EXECUTE a_burn ('held', '00000000-0000-0000-0000-000000000000', 1);
BEGIN;
EXECUTE a_burn ('available', :'grant_id', -1);
EXECUTE a_burn ('issued', '00000000-0000-0000-0000-000000000000', 1);
ROLLBACK;

-- idempotency keys
PREPARE a_key (text) AS INSERT INTO mortar.idempotency (tenant_id, key, fingerprint, result)
    VALUES ('ent_a', $1, '', gen_random_uuid());
EXECUTE a_key ('');
EXECUTE a_key (repeat('x', 256));
EXECUTE a_key (NULL);
BEGIN;
EXECUTE a_key (repeat('é', 255));
EXECUTE a_key ('x');
ROLLBACK;
SELECT available_uc FROM mortar.balance('ent_a');
SELECT count(*) FROM mortar.verify_ledger('ent_a') WHERE NOT ok;

-- what moves nothing writes nothing: a replay, also in a transaction that is read
-- only; and a charge that is refused, or returns null
SELECT mortar.charge('ent_a', 10, 'k') AS charged \gset
BEGIN READ ONLY;
SELECT mortar.charge('ent_a', 10, 'k') = :'charged' AS replayed;
SELECT mortar.charge('ent_a', 10, 'other');
ROLLBACK;
BEGIN;
SELECT mortar.charge('ent_a', 10, 'k') = :'charged' AS replayed;
SAVEPOINT s;
SELECT mortar.charge('ent_a', 991, 'dear');
ROLLBACK TO s;
SELECT mortar.charge('ent_a', 991, 'dear', on_short => 'return') IS NULL AS is_short;
SELECT pg_current_xact_id_if_assigned() IS NULL AS nothing_written;
SELECT mortar.charge('ent_a', 990, 'dear') IS NOT NULL AS charged;
SELECT pg_current_xact_id_if_assigned() IS NULL AS nothing_written;
COMMIT;
SELECT mortar.charge('ent_a', 991, 'dear');
SELECT available_uc FROM mortar.balance('ent_a');
