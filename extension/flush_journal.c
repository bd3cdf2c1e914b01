/*
 * flush_journal.c
 *		Rows on their way into mortar.usage_journal.
 *
 * Rows are collected column by column, because the statement takes one array
 * for each column: thousands of rows are one statement with one kept plan.  The
 * same statement moves the marks, so that the journal and its summary cannot
 * part.	 Likewise what was burned.
 *
 * Only one process of a database writes here at any time (see flusher.c), so
 * marks are never fought for.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "flush_batch.h"
#include "spi.h"

enum
{
	COLUMN_TENANT,
	COLUMN_METER,
	COLUMN_KEY,
	COLUMN_ROUTE,
	COLUMN_PRICE,
	COLUMN_FROM,
	COLUMN_UPTO,
	COLUMN_MINUTE,
	COLUMN_COST,
	COLUMN_MOVEMENT
};

enum
{
	BURN_TENANT,
	BURN_MOVEMENT,
	BURN_ACCOUNT,
	BURN_GRANT,
	BURN_AMOUNT
};

StaticAssertDecl(COLUMN_MOVEMENT == MTR_JOURNAL_COLUMNS - 1 &&
					 BURN_AMOUNT == MTR_BURN_COLUMNS - 1,
				 "every column has its array");

static MtrStmt stmt_write = {
	.sql =
		"WITH segment AS ("
		"  SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
		"    AS s (tenant_id, meter, key_id, route, price_id, from_qty,"
		"          upto_qty, minute, cost_uc, movement_id)), "
		"burn AS ("
		"  SELECT * FROM unnest($11, $12, $13, $14, $15)"
		"    AS b (tenant_id, movement_id, from_account, grant_id, "
		"amount_uc)), "
		"journal AS ("
		"  INSERT INTO mortar.usage_journal (tenant_id, meter, key_id, route,"
		"    price_id, from_qty, upto_qty, minute, cost_uc, movement_id,"
		"    epoch_id)"
		"  SELECT s.*, $16 FROM segment s), "
		"burns AS ("
		"  INSERT INTO mortar.credit_burns (tenant_id, movement_id,"
		"    from_account, grant_id, amount_uc, epoch_id)"
		"  SELECT b.*, $16 FROM burn b), "
		"burn_marks AS ("
		"  INSERT INTO mortar.burn_marks AS m (tenant_id, from_account,"
		"    grant_id, burned_uc)"
		"  SELECT tenant_id, from_account, grant_id, amount_uc FROM burn"
		"  ON CONFLICT (tenant_id, from_account, grant_id) DO UPDATE"
		"  SET burned_uc = m.burned_uc + EXCLUDED.burned_uc) "
		"INSERT INTO mortar.usage_marks AS m (tenant_id, meter, key_id, route,"
		"  price_id, upto_qty, cost_uc) "
		"SELECT tenant_id, meter, key_id, route, price_id,"
		"  pg_catalog.max(upto_qty), pg_catalog.sum(cost_uc)::pg_catalog.int8 "
		"FROM segment GROUP BY tenant_id, meter, key_id, route, price_id "
		"ON CONFLICT (tenant_id, meter, key_id, route, price_id, durable) "
		"DO UPDATE "
		"SET upto_qty = EXCLUDED.upto_qty,"
		"  cost_uc = m.cost_uc + EXCLUDED.cost_uc",
	.role = MTR_ROLE_OWNER,
	.nargs = 16,
	.argtypes = {TEXTARRAYOID, TEXTARRAYOID, UUIDARRAYOID, TEXTARRAYOID,
				 UUIDARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZARRAYOID,
				 INT8ARRAYOID, UUIDARRAYOID, TEXTARRAYOID, UUIDARRAYOID,
				 TEXTARRAYOID, UUIDARRAYOID, INT8ARRAYOID, UUIDOID},
};

static MtrStmt stmt_mark = {
	.sql = "SELECT upto_qty FROM mortar.usage_marks WHERE tenant_id = $1 "
		   "AND meter = $2 AND key_id = $3 AND route = $4 AND price_id = $5 "
		   "AND NOT durable",
	.role = MTR_ROLE_OWNER,
	.nargs = 5,
	.argtypes = {TEXTOID, TEXTOID, UUIDOID, TEXTOID, UUIDOID},
};

static MtrStmt stmt_priced = {
	.sql = "SELECT coalesce(pg_catalog.sum(upto_qty), 0)::pg_catalog.int8 "
		   "FROM mortar.usage_marks "
		   "WHERE tenant_id = $1 AND meter = $2 AND price_id = $3",
	.role = MTR_ROLE_OWNER,
	.nargs = 3,
	.argtypes = {TEXTOID, TEXTOID, UUIDOID},
};

void
mtr_journal_init(MtrJournal *j)
{
	j->nrows = j->nburns = 0;
	for (int i = 0; i < MTR_JOURNAL_COLUMNS; i++)
		j->column[i] = palloc(MTR_FLUSH_ROWS * sizeof(Datum));
	for (int i = 0; i < MTR_BURN_COLUMNS; i++)
		j->burn[i] = palloc(MTR_FLUSH_ROWS * sizeof(Datum));
}

void
mtr_journal_add(MtrJournal *j, const MtrJournalRow *row)
{
	int n = j->nrows;

	Assert(n < MTR_FLUSH_ROWS);
	Assert(row->upto_qty > row->from_qty);
	j->column[COLUMN_TENANT][n] = CStringGetTextDatum(row->tenant);
	j->column[COLUMN_METER][n] = CStringGetTextDatum(row->meter);
	j->column[COLUMN_KEY][n] = mtr_uuid_datum(&row->key_id);
	j->column[COLUMN_ROUTE][n] = CStringGetTextDatum(row->route);
	j->column[COLUMN_PRICE][n] = mtr_uuid_datum(&row->price_id);
	j->column[COLUMN_FROM][n] = Int64GetDatum(row->from_qty);
	j->column[COLUMN_UPTO][n] = Int64GetDatum(row->upto_qty);
	j->column[COLUMN_MINUTE][n] =
		TimestampTzGetDatum(mtr_time_of_minute(row->minute));
	j->column[COLUMN_COST][n] = Int64GetDatum(row->cost_uc);
	j->column[COLUMN_MOVEMENT][n] = mtr_uuid_datum(&row->movement_id);
	j->nrows++;
}

void
mtr_journal_burn(MtrJournal *j, const MtrBurnRow *row)
{
	int n = j->nburns;

	Assert(n < MTR_FLUSH_ROWS);
	Assert(row->amount_uc != 0);
	j->burn[BURN_TENANT][n] = CStringGetTextDatum(row->tenant);
	j->burn[BURN_MOVEMENT][n] = mtr_uuid_datum(&row->movement_id);
	j->burn[BURN_ACCOUNT][n] = CStringGetTextDatum(row->account);
	j->burn[BURN_GRANT][n] = mtr_uuid_datum(&row->grant_id);
	j->burn[BURN_AMOUNT][n] = Int64GetDatum(row->amount_uc);
	j->nburns++;
}

static Oid
element_type(int arg)
{
	switch (stmt_write.argtypes[arg])
	{
		case TEXTARRAYOID:
			return TEXTOID;
		case UUIDARRAYOID:
			return UUIDOID;
		case TIMESTAMPTZARRAYOID:
			return TIMESTAMPTZOID;
		default:
			return INT8OID;
	}
}

void
mtr_journal_write(MtrJournal *j, const pg_uuid_t *epoch_id)
{
	Datum args[MTR_JOURNAL_COLUMNS + MTR_BURN_COLUMNS + 1];
	int   n = 0;

	if (j->nrows == 0 && j->nburns == 0)
		return;
	for (int i = 0; i < MTR_JOURNAL_COLUMNS; i++, n++)
		args[n] = mtr_array(j->column[i], j->nrows, element_type(n));
	for (int i = 0; i < MTR_BURN_COLUMNS; i++, n++)
		args[n] = mtr_array(j->burn[i], j->nburns, element_type(n));
	args[n] = UUIDPGetDatum(epoch_id);
	mtr_exec(&stmt_write, args, NULL, MTR_SNAP_WRITE, 0);
	j->nrows = j->nburns = 0;
}

int64
mtr_journal_mark(const MtrJournalRow *row)
{
	Datum args[5];
	bool  isnull;
	int64 mark = 0;

	args[0] = CStringGetTextDatum(row->tenant);
	args[1] = CStringGetTextDatum(row->meter);
	args[2] = UUIDPGetDatum(&row->key_id);
	args[3] = CStringGetTextDatum(row->route);
	args[4] = UUIDPGetDatum(&row->price_id);
	mtr_exec(&stmt_mark, args, NULL, MTR_SNAP_WRITE, 1);
	if (SPI_processed == 1)
		mark = DatumGetInt64(mtr_first(1, &isnull));
	SPI_freetuptable(SPI_tuptable);
	return mark;
}

int64
mtr_journal_priced(const char *tenant, const char *meter,
				   const pg_uuid_t *price_id)
{
	Datum args[3];
	bool  isnull;
	int64 priced;

	args[0] = CStringGetTextDatum(tenant);
	args[1] = CStringGetTextDatum(meter);
	args[2] = UUIDPGetDatum(price_id);
	mtr_exec(&stmt_priced, args, NULL, MTR_SNAP_WRITE, 1);
	priced = DatumGetInt64(mtr_first(1, &isnull));
	SPI_freetuptable(SPI_tuptable);
	return priced;
}
