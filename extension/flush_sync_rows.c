/*
 * flush_sync_rows.c
 *		What was taken out of mortar.usage_sync, written to the journal.
 *
 * Durable usage counts up by itself in the journal and its marks, so a row begins where
 * the mark of its kind stands.	 Only one process of a database writes there at any
 * time (see flusher.c).
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"

#include "flush_sync.h"
#include "spi.h"

enum
{
	ROW_TENANT,
	ROW_KEYS,
	ROW_QTY = ROW_KEYS + MTR_DRAIN_KEYS,
	ROW_COST,
	ROW_MOVEMENT,
	BURN_TENANT,
	BURN_MOVEMENT,
	BURN_ACCOUNT,
	BURN_GRANT,
	BURN_AMOUNT
};

StaticAssertDecl(BURN_AMOUNT == MTR_DRAIN_COLUMNS - 1,
				 "every column has its array");

static const Oid element_types[MTR_DRAIN_COLUMNS] = {
	TEXTOID, TEXTOID, UUIDOID, TEXTOID, UUIDOID, TIMESTAMPTZOID, INT8OID,
	INT8OID, UUIDOID, TEXTOID, UUIDOID, TEXTOID, UUIDOID,        INT8OID,
};

static MtrStmt stmt_write = {
	.sql =
		"WITH segment AS ("
		"  SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)"
		"    WITH ORDINALITY AS s (tenant_id, meter, key_id, route, price_id,"
		"      minute, qty, cost_uc, movement_id, place)), "
		"burn AS ("
		"  SELECT * FROM unnest($10, $11, $12, $13, $14)"
		"    AS b (tenant_id, movement_id, from_account, grant_id,"
		"      amount_uc)), "
		"placed AS ("
		"  SELECT s.*, (coalesce((SELECT m.upto_qty FROM mortar.usage_marks m"
		"      WHERE m.tenant_id = s.tenant_id AND m.meter = s.meter"
		"        AND m.key_id = s.key_id AND m.route = s.route"
		"        AND m.price_id = s.price_id AND m.durable), 0)"
		"    + sum(s.qty) OVER (PARTITION BY s.tenant_id, s.meter, s.key_id,"
		"      s.route, s.price_id ORDER BY s.place))::pg_catalog.int8"
		"    AS upto_qty FROM segment s), "
		"journal AS ("
		"  INSERT INTO mortar.usage_journal (tenant_id, meter, key_id, route,"
		"    price_id, from_qty, upto_qty, minute, cost_uc, movement_id,"
		"    epoch_id, durable)"
		"  SELECT tenant_id, meter, key_id, route, price_id, upto_qty - qty,"
		"    upto_qty, minute, cost_uc, movement_id, $15, true FROM placed), "
		"burns AS ("
		"  INSERT INTO mortar.credit_burns (tenant_id, movement_id,"
		"    from_account, grant_id, amount_uc, epoch_id)"
		"  SELECT b.*, $15 FROM burn b), "
		"burn_marks AS ("
		"  INSERT INTO mortar.burn_marks AS m (tenant_id, from_account,"
		"    grant_id, burned_uc)"
		"  SELECT tenant_id, from_account, grant_id, amount_uc FROM burn"
		"  ON CONFLICT (tenant_id, from_account, grant_id) DO UPDATE"
		"  SET burned_uc = m.burned_uc + EXCLUDED.burned_uc) "
		"INSERT INTO mortar.usage_marks AS m (tenant_id, meter, key_id, route,"
		"  price_id, upto_qty, cost_uc, durable) "
		"SELECT tenant_id, meter, key_id, route, price_id, max(upto_qty),"
		"  sum(cost_uc)::pg_catalog.int8, true "
		"FROM placed GROUP BY tenant_id, meter, key_id, route, price_id "
		"ON CONFLICT (tenant_id, meter, key_id, route, price_id, durable) "
		"DO UPDATE SET upto_qty = EXCLUDED.upto_qty,"
		"  cost_uc = m.cost_uc + EXCLUDED.cost_uc",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = MTR_DRAIN_COLUMNS + 1,
	.argtypes = {TEXTARRAYOID, TEXTARRAYOID, UUIDARRAYOID, TEXTARRAYOID,
				 UUIDARRAYOID, TIMESTAMPTZARRAYOID, INT8ARRAYOID, INT8ARRAYOID,
				 UUIDARRAYOID, TEXTARRAYOID, UUIDARRAYOID, TEXTARRAYOID,
				 UUIDARRAYOID, INT8ARRAYOID, UUIDOID},
};

static void
put(MtrDrain *d, int column, Datum value)
{
	d->column[column] =
		accumArrayResult(d->column[column], value, false, element_types[column],
						 CurrentMemoryContext);
}

void
mtr_drain_row(MtrDrain *d, const char *tenant, const pg_uuid_t *movement_id,
			  const Datum keys[MTR_DRAIN_KEYS], int64 qty, int64 cost)
{
	put(d, ROW_TENANT, CStringGetTextDatum(tenant));
	for (int i = 0; i < MTR_DRAIN_KEYS; i++)
		put(d, ROW_KEYS + i, keys[i]);
	put(d, ROW_QTY, Int64GetDatum(qty));
	put(d, ROW_COST, Int64GetDatum(cost));
	put(d, ROW_MOVEMENT, UUIDPGetDatum(movement_id));
	d->nrows++;
}

void
mtr_drain_burn(MtrDrain *d, const char *tenant, const pg_uuid_t *movement_id,
			   Datum account, Datum grant_id, int64 amount)
{
	put(d, BURN_TENANT, CStringGetTextDatum(tenant));
	put(d, BURN_MOVEMENT, UUIDPGetDatum(movement_id));
	put(d, BURN_ACCOUNT, account);
	put(d, BURN_GRANT, grant_id);
	put(d, BURN_AMOUNT, Int64GetDatum(amount));
}

static Datum
array_of(const MtrDrain *d, int column)
{
	if (d->column[column] == NULL)
		return PointerGetDatum(construct_empty_array(element_types[column]));
	return makeArrayResult(d->column[column], CurrentMemoryContext);
}

int
mtr_drain_write(MtrFlushBatch *b)
{
	Datum args[MTR_DRAIN_COLUMNS + 1];

	if (b->drain == NULL || b->drain->nrows == 0)
		return 0;
	for (int i = 0; i < MTR_DRAIN_COLUMNS; i++)
		args[i] = array_of(b->drain, i);
	args[MTR_DRAIN_COLUMNS] = UUIDPGetDatum(&MtrShared->epoch_id);
	mtr_exec(&stmt_write, args, NULL, MTR_SNAP_WRITE, 0);
	return b->drain->nrows;
}
