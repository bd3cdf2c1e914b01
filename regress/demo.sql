-- The database that `make run` makes: login roles, and a tenant that can spend.
-- run.sh feeds this to psql as superuser, once; \set key receives the secret.

CREATE EXTENSION IF NOT EXISTS mortar;

-- Roles belong to the whole cluster: a second try finds them.
SELECT 'CREATE ROLE mortar_demo_admin LOGIN IN ROLE mortar_admin'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'mortar_demo_admin') \gexec
SELECT 'CREATE ROLE mortar_demo_gateway LOGIN IN ROLE mortar_gateway'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'mortar_demo_gateway') \gexec

-- Headers with credentials and bodies travel as parameters: keep them out of logs.
ALTER ROLE mortar_demo_gateway SET log_parameter_max_length = 0;
ALTER ROLE mortar_demo_gateway SET log_parameter_max_length_on_error = 0;

-- From here on as the DBA whom the README shows, who is no superuser.
SET SESSION AUTHORIZATION mortar_demo_admin;
SELECT NOT EXISTS (SELECT FROM mortar.tenants WHERE tenant_id = 'demo') AS absent \gset
\if :absent
BEGIN;
SELECT mortar.create_tenant('demo', 'Demo');
SELECT mortar.grant_credits('demo', mortar.credits(100), 'demo-grant');
SELECT mortar.set_price('egress_bytes', 300000, 1000000000);
SELECT mortar.set_price('requests', 10, 1);
COMMIT;
\endif
