-- schema.sql
-- The tables of the peer seed-go, in a schema of their own beside Mortar's.
--
-- The service logs in as seed_app, which owns nothing and is no superuser, so
-- row-level security applies to it.  Keys, projects and the ledger are read
-- before a tenant context exists and therefore have no policy.

CREATE ROLE seed_app LOGIN NOSUPERUSER NOBYPASSRLS;

CREATE SCHEMA seed;

CREATE TABLE seed.app_projects (
    tenant_id  text COLLATE "C" PRIMARY KEY,
    status     text NOT NULL DEFAULT 'active',
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE seed.app_keys (
    prefix     text COLLATE "C" PRIMARY KEY,
    tenant_id  text COLLATE "C" NOT NULL REFERENCES seed.app_projects,
    key_hash   bytea NOT NULL,
    revoked_at timestamptz,
    expires_at timestamptz
);

CREATE TABLE seed.credit_ledger (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id    text COLLATE "C" NOT NULL REFERENCES seed.app_projects,
    kind         text NOT NULL,
    requests     bigint NOT NULL DEFAULT 0,
    egress_bytes bigint NOT NULL DEFAULT 0,
    amount_nc    bigint NOT NULL,
    xid          xid8 NOT NULL DEFAULT pg_current_xact_id(),
    created_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX credit_ledger_balance
    ON seed.credit_ledger (tenant_id, xid) INCLUDE (amount_nc);

-- credit.go says how a snapshot and the ledger make a balance
CREATE TABLE seed.credit_snapshots (
    tenant_id  text COLLATE "C" PRIMARY KEY REFERENCES seed.app_projects,
    balance_nc bigint NOT NULL DEFAULT 0,
    horizon    xid8 NOT NULL DEFAULT '0'
) WITH (fillfactor = 50);

CREATE TABLE seed.app_tables (
    tenant_id  text COLLATE "C" NOT NULL REFERENCES seed.app_projects,
    name       text COLLATE "C" NOT NULL,
    kind       text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    columns    jsonb NOT NULL DEFAULT '[]',
    PRIMARY KEY (tenant_id, name)
);
ALTER TABLE seed.app_tables ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON seed.app_tables
    USING (tenant_id = (SELECT current_setting('seed.tenant_id', true)));

CREATE TABLE seed.app_rows (
    tenant_id  text COLLATE "C" NOT NULL,
    table_name text COLLATE "C" NOT NULL,
    row_id     uuid NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    doc        jsonb NOT NULL CHECK (jsonb_typeof(doc) = 'object'),
    PRIMARY KEY (tenant_id, table_name, row_id)
);
ALTER TABLE seed.app_rows ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON seed.app_rows
    USING (tenant_id = (SELECT current_setting('seed.tenant_id', true)));

GRANT USAGE ON SCHEMA seed TO seed_app;
GRANT SELECT ON seed.app_projects, seed.app_keys, seed.app_tables TO seed_app;
GRANT SELECT, INSERT ON seed.credit_ledger, seed.app_rows TO seed_app;
GRANT SELECT, UPDATE ON seed.credit_snapshots TO seed_app;
