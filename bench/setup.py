#!/usr/bin/env python3
"""Fills the private cluster: the same tables for Mortar and for the peer.

    setup.py mortar URL SIZE
        makes tenant, credits, price, key, and SIZE tables through the gateway;
        URL is that of their list; prints the key
    setup.py seed SIZE [URL KEY]
        makes the peer's schema; its tables copy those that URL lists; prints
        the peer's key and its pepper

Credits are granted so amply that no run can reach their end: the gate is at
work in every request, and must never refuse one.
"""

import hashlib
import hmac
import http.client
import json
import os
import secrets
import sys
import urllib.parse

import database
import load
from load import BenchError

TENANT = "bench"
CREDITS_UC = 10 ** 15
# 0.3 credits for 10^9 bytes
PRICE_UC, PRICE_BYTES = 300_000, 10 ** 9
# a row of the list is about 140 bytes, ten of them the seed's 1.4 kB
NAME_LENGTH = 56
# other customers' history: a ledger that the planner takes seriously
OTHERS, OTHERS_ROWS = 100, 100


def table_name(i):
    return ("table_%04d_of_the_benchmark_with_a_name_as_long_as_" % i).ljust(
        NAME_LENGTH, "x")


def post_table(url, key, name):
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    connection.request("POST", parts.path, json.dumps({"name": name}),
                       {"apikey": key, "Content-Type": "application/json"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != 201:
        raise BenchError("POST %s answers %d: %s" % (
            url, answer.status, body.decode("utf-8", "replace")))


def setup_mortar(url, size):
    database.psql("SELECT mortar.create_tenant(:'t', 'Benchmark');\n"
                  "SELECT mortar.grant_credits(:'t', :credits, 'bench-grant');\n"
                  "SELECT mortar.set_price('egress_bytes', :price, :units);\n"
                  "SELECT mortar.set_price('requests', 10, 1);",
                  t=TENANT, credits=CREDITS_UC, price=PRICE_UC, units=PRICE_BYTES)
    key = database.psql("SELECT mortar.create_key(:'t', 'bench');", t=TENANT)
    for i in range(1, size + 1):
        post_table(url, key, table_name(i))
    database.psql("ANALYZE;")
    return key


def tables_like(url, key, size):
    """What Mortar lists, or the same shape when it does not take part."""
    if url:
        _, body, _ = load.fetch(load.Target("mortar", url, key))
        tables = json.loads(body)
    else:
        tables = [{"name": table_name(i), "kind": "document", "columns": [],
                   "created_at": "2026-01-01T00:00:00.%06dZ" % i}
                  for i in range(1, size + 1)]
    if len(tables) != size:
        raise BenchError("%d tables are listed, not %d" % (len(tables), size))
    return tables


def setup_seed(size, url=None, mortar_key=None):
    with open(os.path.join(load.HERE, "peers/seed-go/schema.sql"),
              encoding="utf-8") as f:
        database.psql(f.read())
    pepper, secret = secrets.token_bytes(32), secrets.token_hex(24)
    digest = hmac.new(pepper, secret.encode("ascii"), hashlib.sha256).hexdigest()
    database.psql(
        """
        INSERT INTO seed.app_projects (tenant_id)
            SELECT 'other-' || i FROM generate_series(1, :others) i
            UNION ALL SELECT :'t';
        INSERT INTO seed.app_keys (prefix, tenant_id, key_hash)
            VALUES ('bench', :'t', decode(:'hash', 'hex'));
        INSERT INTO seed.credit_snapshots (tenant_id)
            SELECT tenant_id FROM seed.app_projects;
        INSERT INTO seed.credit_ledger (tenant_id, kind, amount_nc)
            SELECT tenant_id, 'grant', :credits * 1000 FROM seed.app_projects;
        INSERT INTO seed.credit_ledger
                (tenant_id, kind, requests, egress_bytes, amount_nc)
            SELECT 'other-' || i % :others + 1, 'egress', 1, 1400, -420
              FROM generate_series(1, :others * :rows) i;
        INSERT INTO seed.app_tables (tenant_id, name, kind, created_at, columns)
            SELECT :'t', name, kind, created_at, columns
              FROM jsonb_to_recordset(:'tables') AS x
                   (name text, kind text, created_at timestamptz, columns jsonb);
        """,
        t=TENANT, hash=digest, credits=CREDITS_UC, others=OTHERS, rows=OTHERS_ROWS,
        tables=json.dumps(tables_like(url, mortar_key, size)))
    database.psql("VACUUM ANALYZE;")
    return "seed_sk_bench_" + secret, pepper.hex()


def main():
    try:
        if sys.argv[1] == "mortar":
            print(setup_mortar(sys.argv[2], int(sys.argv[3])))
        else:
            print(*setup_seed(int(sys.argv[2]), *sys.argv[3:]))
    except (BenchError, OSError) as problem:
        sys.exit("bench: %s" % problem)


if __name__ == "__main__":
    main()
