-- 20_tables.sql
-- All tables.  tenant_id comes first in every primary key.  Owner, row-level
-- security and rights follow in 80_rights.sql, for all of them alike.

CREATE TABLE mortar.tenants (
    tenant_id   text COLLATE "C" PRIMARY KEY
                CHECK (tenant_id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    name        text,
    external_id text UNIQUE,
    created_at  timestamptz NOT NULL DEFAULT now(),
    state       text NOT NULL DEFAULT 'active',
    state_reason     text,
    state_changed_at timestamptz NOT NULL DEFAULT now(),
    frozen           bool NOT NULL DEFAULT false,
    CONSTRAINT tenants_state_check CHECK (CASE state
        WHEN 'active' THEN state_reason IS NULL
        WHEN 'suspended' THEN state_reason IS NOT NULL
        ELSE state = 'closed' END)
);
COMMENT ON TABLE mortar.tenants IS 'one row per paying customer of the product';
COMMENT ON COLUMN mortar.tenants.state IS
    'active; suspended: its calls are refused until it is resumed; closed: for ever';
COMMENT ON COLUMN mortar.tenants.state_reason IS
    'why it is suspended, or was when it was closed; never told to the tenant';
COMMENT ON COLUMN mortar.tenants.frozen IS
    'no credits of it move, neither given nor taken; what is free goes on';

-- There are no foreign keys between these tables.  Being members of the
-- extension, they would exist before a parallel restore has loaded what they
-- refer to.  And each charge would lock its tenant's row, and not find, under
-- REPEATABLE READ, a tenant that is newer than its snapshot.  The functions that
-- write here pin the tenant, tenants are never removed, verify_ledger checks it;
-- dropping a document table excludes writers of its rows by a lock.

CREATE TABLE mortar.limits (
    tenant_id        text COLLATE "C" PRIMARY KEY,
    mode             text NOT NULL DEFAULT 'hard'
                     CHECK (mode IN ('hard', 'soft', 'unlimited')),
    overdraft_uc     int8 NOT NULL DEFAULT 0
                     CHECK (overdraft_uc BETWEEN 0 AND 2305843009213693951),
    max_unflushed_uc int8 CHECK (max_unflushed_uc BETWEEN 0 AND 2305843009213693951),
    durability       text NOT NULL DEFAULT 'buffered'
                     CHECK (durability IN ('buffered', 'group', 'sync')),
    changed_at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE mortar.limits IS
    'limits of tenants whose limits were ever set; a tenant without a row has the defaults';
COMMENT ON COLUMN mortar.limits.mode IS
    'hard: never below -overdraft_uc; soft: always served, what is missing is debt; unlimited: usage is counted and costed, and no credit moves';
COMMENT ON COLUMN mortar.limits.overdraft_uc IS
    'how far below zero a tenant in hard mode may go; the part below zero is debt';
COMMENT ON COLUMN mortar.limits.max_unflushed_uc IS
    'the most that usage may cost which a crash would lose; null: 1000000, 1 credit';
COMMENT ON COLUMN mortar.limits.durability IS
    'of usage. buffered: counted in memory, a crash may lose the latest; sync: in usage_sync when the call''s transaction has committed; group: the same, after a short wait for others, with whom the write to disk is shared';

CREATE TABLE mortar.api_keys (
    tenant_id      text COLLATE "C" NOT NULL,
    key_id         uuid NOT NULL,
    name           text NOT NULL,
    hash           bytea NOT NULL CHECK (octet_length(hash) = 32),
    pepper_version int4 NOT NULL CHECK (pepper_version > 0),
    scopes         text[] NOT NULL,
    not_before     timestamptz NOT NULL DEFAULT now(),
    expires_at     timestamptz,
    revoked_at     timestamptz,
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, key_id)
);
COMMENT ON TABLE mortar.api_keys IS
    'API keys; hash is HMAC-SHA256(pepper, secret), the secret itself is nowhere';
-- authentication knows the key's id and not yet its tenant
CREATE INDEX api_keys_by_id ON mortar.api_keys (key_id);

CREATE TABLE mortar.credit_grants (
    tenant_id    text COLLATE "C" NOT NULL,
    grant_id     uuid NOT NULL,
    amount_uc    int8 NOT NULL,
    priority     int4 NOT NULL DEFAULT 50,
    category     text NOT NULL DEFAULT 'paid',
    effective_at timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz,
    meta         jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, grant_id),
    CONSTRAINT credit_grants_check CHECK (amount_uc > 0 AND priority BETWEEN 0 AND 100
        AND category IN ('paid', 'promo') AND expires_at > effective_at)
);
COMMENT ON TABLE mortar.credit_grants IS
    'credits given to a tenant; what remains of one is derived, never stored (see the view mortar.grants); insert-only';
COMMENT ON COLUMN mortar.credit_grants.priority IS
    'lowest burns first; among equals the one that expires soonest, promo before paid, the earlier effective_at, the smaller id';
COMMENT ON COLUMN mortar.credit_grants.expires_at IS
    'from this instant on what remains is worth nothing; null: never';

-- The executor reads the text of a constraint again in each INSERT.  So a table to which
-- calls write has one, and a short one: the list of what may move where, in SQL,
-- cost a charge more than all its work.  verify_ledger() has that list.
CREATE FUNCTION mortar.is_entry(kind text, from_account text, to_account text,
        amount_uc int8, grant_id uuid) RETURNS bool
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'mtr_is_entry';
COMMENT ON FUNCTION mortar.is_entry(text, text, text, int8, uuid) IS
    'the CHECK of credit_ledger: whether a row may say that (false for null where a row must have a value)';

CREATE TABLE mortar.credit_ledger (
    tenant_id    text COLLATE "C" NOT NULL,
    entry_id     uuid NOT NULL,
    movement_id  uuid NOT NULL,
    kind         text NOT NULL,
    from_account text NOT NULL,
    to_account   text NOT NULL,
    amount_uc    int8 NOT NULL,
    grant_id     uuid,
    effective_at timestamptz NOT NULL,
    posted_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    reverses     uuid,
    epoch_id     uuid NOT NULL,
    xid          xid8 NOT NULL DEFAULT pg_current_xact_id(),
    meta         jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, entry_id),
    CONSTRAINT credit_ledger_check CHECK (
        mortar.is_entry(kind, from_account, to_account, amount_uc, grant_id))
);
COMMENT ON TABLE mortar.credit_ledger IS
    'one row is one balanced movement between two accounts of a tenant; insert-only';
COMMENT ON COLUMN mortar.credit_ledger.movement_id IS
    'entry_id of the first of the rows that were posted together: a charge that two grants pay is two rows; the id that functions return';
COMMENT ON COLUMN mortar.credit_ledger.grant_id IS
    'the grant whose credits move; null: of no grant, but debt or, of a tenant in unlimited mode, nothing';
COMMENT ON COLUMN mortar.credit_ledger.reverses IS
    'movement_id of what is taken back, or, of kinds capture and release, of the hold';
-- Rows of one movement are its first, found by entry_id, and these; most have
-- none, and so cost no entry here.
CREATE INDEX credit_ledger_by_movement ON mortar.credit_ledger
    (tenant_id, movement_id) WHERE entry_id <> movement_id;
CREATE INDEX credit_ledger_by_reverses ON mortar.credit_ledger
    (tenant_id, reverses) WHERE reverses IS NOT NULL;

-- a domain's check is read once per session, a table's in each INSERT
CREATE DOMAIN mortar.idempotency_key AS text COLLATE "C"
    CONSTRAINT idempotency_key_check CHECK (length(VALUE) BETWEEN 1 AND 255);
COMMENT ON DOMAIN mortar.idempotency_key IS 'names one call, so that it moves credits once';

CREATE TABLE mortar.idempotency (
    tenant_id   text COLLATE "C" NOT NULL,
    key         mortar.idempotency_key NOT NULL,
    fingerprint bytea NOT NULL,
    result      uuid NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, key)
);
COMMENT ON TABLE mortar.idempotency IS
    'idempotency keys of credit functions and the id that each one returned';

CREATE TABLE mortar.prices (
    price_id   uuid PRIMARY KEY,
    meter      text NOT NULL CHECK (meter IN ('requests', 'egress_bytes')),
    route      text,
    tenant_id  text COLLATE "C",
    num_uc     int8 NOT NULL CHECK (num_uc >= 0),
    per_units  int8 NOT NULL CHECK (per_units > 0),
    valid_from timestamptz NOT NULL DEFAULT clock_timestamp() CHECK (isfinite(valid_from)),
    set_at     timestamptz NOT NULL DEFAULT clock_timestamp() CHECK (isfinite(set_at)),
    xid        xid8 NOT NULL DEFAULT pg_current_xact_id()
);
COMMENT ON TABLE mortar.prices IS
    'price book: num_uc micro-credits per per_units units of a meter; of the rows that have come into force the most specific one holds (tenant and route, tenant, route, neither), and of several such the one with the latest valid_from; insert-only';
COMMENT ON COLUMN mortar.prices.route IS
    'for calls of this route (method and path of mortar.routes); null: of every route, and record_usage';
COMMENT ON COLUMN mortar.prices.tenant_id IS 'for this tenant; null: for every tenant';
COMMENT ON COLUMN mortar.prices.valid_from IS
    'when it comes into force by itself, and where it stands among versions of the same meter, route and tenant; usage that was counted before is not priced again';
COMMENT ON COLUMN mortar.prices.set_at IS
    'when it was set; one that was in force then stays so, also if the clock is set back';
CREATE INDEX prices_by_scope ON mortar.prices
    (meter, coalesce(tenant_id, ''), coalesce(route, ''), valid_from);
-- a session reads what was set since it last looked
CREATE INDEX prices_by_xid ON mortar.prices (xid);

CREATE TABLE mortar.usage_journal (
    tenant_id  text COLLATE "C" NOT NULL,
    meter      text NOT NULL,
    key_id     uuid NOT NULL,
    route      text NOT NULL,
    price_id   uuid NOT NULL,
    from_qty   int8 NOT NULL,
    upto_qty   int8 NOT NULL,
    minute     timestamptz NOT NULL,
    cost_uc    int8 NOT NULL,
    movement_id uuid NOT NULL,
    epoch_id   uuid NOT NULL,
    flushed_at timestamptz NOT NULL DEFAULT now(),
    durable    bool NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, meter, key_id, route, price_id, durable, from_qty),
    CONSTRAINT usage_journal_check
        CHECK (from_qty >= 0 AND upto_qty > from_qty AND cost_uc >= 0)
);
COMMENT ON TABLE mortar.usage_journal IS
    'usage as it was flushed: a usage slot counts up for ever, a row says which stretch of it fell into which minute and what it cost; insert-only';
COMMENT ON COLUMN mortar.usage_journal.key_id IS 'all zero: no API key (record_usage)';
COMMENT ON COLUMN mortar.usage_journal.route IS 'route template, empty: none (record_usage)';
COMMENT ON COLUMN mortar.usage_journal.price_id IS 'all zero: no price was in force';
COMMENT ON COLUMN mortar.usage_journal.movement_id IS
    'the rows of credit_burns with this id say who paid for all rows of the journal that have it';
COMMENT ON COLUMN mortar.usage_journal.durable IS
    'true: from usage_sync; the two kinds of usage count up apart from each other';
CREATE INDEX usage_journal_by_minute ON mortar.usage_journal (tenant_id, minute);
CREATE INDEX usage_journal_by_movement ON mortar.usage_journal (tenant_id, movement_id);

CREATE TABLE mortar.usage_marks (
    tenant_id text COLLATE "C" NOT NULL,
    meter     text NOT NULL,
    key_id    uuid NOT NULL,
    route     text NOT NULL,
    price_id  uuid NOT NULL,
    upto_qty  int8 NOT NULL CHECK (upto_qty >= 0),
    cost_uc   int8 NOT NULL CHECK (cost_uc >= 0),
    durable   bool NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, meter, key_id, route, price_id, durable)
) WITH (fillfactor = 50);
COMMENT ON TABLE mortar.usage_marks IS
    'per usage slot: how far the journal reaches and what it sums to; a cache of usage_journal, kept in the same transaction';
-- the quantity that a price has charged a tenant is the sum of its marks
CREATE INDEX usage_marks_by_price ON mortar.usage_marks (tenant_id, price_id);

CREATE TABLE mortar.usage_sync (
    tenant_id     text COLLATE "C" NOT NULL,
    sync_id       uuid NOT NULL,
    meter         text NOT NULL,
    key_id        uuid NOT NULL,
    route         text NOT NULL,
    price_id      uuid NOT NULL,
    qty           int8 NOT NULL,
    minute        timestamptz NOT NULL,
    cost_uc       int8 NOT NULL,
    from_accounts text[] NOT NULL,
    grant_ids     uuid[] NOT NULL,
    amounts_uc    int8[] NOT NULL,
    epoch_id      uuid NOT NULL,
    PRIMARY KEY (tenant_id, sync_id),
    CONSTRAINT usage_sync_check CHECK (qty > 0 AND cost_uc >= 0
        AND cardinality(from_accounts) = cardinality(amounts_uc)
        AND cardinality(grant_ids) = cardinality(amounts_uc))
    -- a queue is empty again and again: giving back its pages would lock it
) WITH (vacuum_truncate = off);
COMMENT ON TABLE mortar.usage_sync IS
    'usage with durability sync or group that is not in usage_journal yet: one row per call and meter, written in the call''s own transaction; the flusher moves it to usage_journal';
COMMENT ON COLUMN mortar.usage_sync.cost_uc IS
    'what the call has paid; in the journal the price walks over all usage, so that there it may be a micro-credit more or less';
COMMENT ON COLUMN mortar.usage_sync.from_accounts IS
    'who has paid, as in credit_burns: these accounts, with grant_ids and amounts_uc; the amounts sum to cost_uc';

CREATE TABLE mortar.credit_burns (
    tenant_id    text COLLATE "C" NOT NULL,
    movement_id  uuid NOT NULL,
    from_account text NOT NULL,
    grant_id     uuid NOT NULL,
    amount_uc    int8 NOT NULL,
    epoch_id     uuid NOT NULL,
    burned_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, movement_id, from_account, grant_id),
    CONSTRAINT credit_burns_check CHECK (amount_uc <> 0
        AND from_account IN ('available', 'debt', 'issued')
        AND (from_account = 'available')
            = (grant_id <> '00000000-0000-0000-0000-000000000000'))
);
COMMENT ON TABLE mortar.credit_burns IS
    'who paid for usage: what one flush booked of one tenant, by grant; the amounts of a movement sum to the cost of its rows in usage_journal; insert-only';
COMMENT ON COLUMN mortar.credit_burns.from_account IS
    'available: the grant; debt: spent beyond all grants; issued: the tenant''s mode was unlimited, and no credit moved';
COMMENT ON COLUMN mortar.credit_burns.grant_id IS 'all zero: no grant';
COMMENT ON COLUMN mortar.credit_burns.amount_uc IS
    'negative: given back, or, from debt, repaid by a grant of the same movement';

CREATE TABLE mortar.burn_marks (
    tenant_id    text COLLATE "C" NOT NULL,
    from_account text NOT NULL,
    grant_id     uuid NOT NULL,
    burned_uc    numeric NOT NULL,
    PRIMARY KEY (tenant_id, from_account, grant_id)
) WITH (fillfactor = 50);
COMMENT ON TABLE mortar.burn_marks IS
    'per source: what credit_burns sums to; a cache of credit_burns, kept in the same transaction';

CREATE TABLE mortar.epochs (
    epoch_id      uuid NOT NULL,
    database_id   oid NOT NULL,
    system_id     int8 NOT NULL,
    timeline      int4 NOT NULL,
    started_at    timestamptz NOT NULL,
    last_flush_at timestamptz,
    clean         bool,
    max_loss_uc   int8 CHECK (max_loss_uc >= 0),
    PRIMARY KEY (epoch_id, database_id)
);
COMMENT ON TABLE mortar.epochs IS
    'one row per initialisation of shared memory in which this database was seen, entered by its first flusher, or by the first one of a later epoch';
COMMENT ON COLUMN mortar.epochs.database_id IS
    'oid of the database that the row tells of; a copy or a restored dump keeps rows of the database it came from';
COMMENT ON COLUMN mortar.epochs.max_loss_uc IS
    'what may have been lost at its end, in cost of usage: 0 after a clean stop; else the sum of max_unflushed_uc over the tenants who may have had unflushed usage, as it was when the epoch was found not clean. For a tenant whose last call was dearer than its bound the cost of that call stands in place of the bound, and nobody knows it afterwards';
COMMENT ON COLUMN mortar.epochs.clean IS
    'true after a clean stop; false when up to flush_interval of buffered usage may be lost; null while the epoch runs, and for ever where CREATE DATABASE has copied the row from another database meanwhile';

CREATE TABLE mortar.doc_tables (
    tenant_id  text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL
               CHECK (octet_length(name) BETWEEN 1 AND 63),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, name)
);
COMMENT ON TABLE mortar.doc_tables IS 'document tables of tenants';

CREATE TABLE mortar.doc_rows (
    tenant_id  text COLLATE "C" NOT NULL,
    table_name text COLLATE "C" NOT NULL,
    row_id     uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    doc        jsonb NOT NULL CHECK (jsonb_typeof(doc) = 'object'),
    PRIMARY KEY (tenant_id, table_name, row_id)
);
COMMENT ON TABLE mortar.doc_rows IS 'documents of tenants, shared by all of them, one policy apart';
COMMENT ON COLUMN mortar.doc_rows.doc IS 'the JSON object that the client sent, without id, created_at and updated_at';
