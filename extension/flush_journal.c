/*
 * flush_journal.c
 *		Rows on their way into mortar.usage_journal.
 *
 * Rows are collected column by column, because the statement takes one array
 * for each column: thousands of rows are one statement with one kept plan.  The
 * same statement moves the marks, so that the journal and its summary cannot
 * part.
 *
 * Only one process of a database writes here at any time (see flusher.c), so
 * marks are never fought for.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
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
	COLUMN_COST
};

StaticAssertDecl(COLUMN_COST == MTR_JOURNAL_COLUMNS - 1,
				 "every column of the journal has its array");

static MtrStmt stmt_write = {
	.sql =
		"WITH segment AS ("
		"  SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)"
		"    AS s (tenant_id, meter, key_id, route, price_id, from_qty,"
		"          upto_qty, minute, cost_uc)), "
		"journal AS ("
		"  INSERT INTO mortar.usage_journal (tenant_id, meter, key_id, route,"
		"    price_id, from_qty, upto_qty, minute, cost_uc, epoch_id)"
		"  SELECT s.*, $10 FROM segment s) "
		"INSERT INTO mortar.usage_marks AS m (tenant_id, meter, key_id, route,"
		"  price_id, upto_qty, cost_uc) "
		"SELECT tenant_id, meter, key_id, route, price_id,"
		"  pg_catalog.max(upto_qty), pg_catalog.sum(cost_uc)::pg_catalog.int8 "
		"FROM segment GROUP BY tenant_id, meter, key_id, route, price_id "
		"ON CONFLICT (tenant_id, meter, key_id, route, price_id) DO UPDATE "
		"SET upto_qty = EXCLUDED.upto_qty,"
		"  cost_uc = m.cost_uc + EXCLUDED.cost_uc",
	.role = MTR_ROLE_OWNER,
	.nargs = 10,
	.argtypes = {TEXTARRAYOID, TEXTARRAYOID, UUIDARRAYOID, TEXTARRAYOID,
				 UUIDARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZARRAYOID,
				 INT8ARRAYOID, UUIDOID},
};

static MtrStmt stmt_mark = {
	.sql = "SELECT upto_qty FROM mortar.usage_marks WHERE tenant_id = $1 "
		   "AND meter = $2 AND key_id = $3 AND route = $4 AND price_id = $5",
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
	j->nrows = 0;
	for (int i = 0; i < MTR_JOURNAL_COLUMNS; i++)
		j->column[i] = palloc(MTR_FLUSH_ROWS * sizeof(Datum));
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
	j->nrows++;
}

static Datum
column_array(const MtrJournal *j, int column)
{
	Oid type;

	switch (column)
	{
		case COLUMN_TENANT:
		case COLUMN_METER:
		case COLUMN_ROUTE:
			return PointerGetDatum(construct_array(
				j->column[column], j->nrows, TEXTOID, -1, false, TYPALIGN_INT));
		case COLUMN_KEY:
		case COLUMN_PRICE:
			return PointerGetDatum(construct_array(j->column[column], j->nrows,
												   UUIDOID, UUID_LEN, false,
												   TYPALIGN_CHAR));
		default:
			type = column == COLUMN_MINUTE ? TIMESTAMPTZOID : INT8OID;
			return PointerGetDatum(construct_array(
				j->column[column], j->nrows, type, sizeof(int64),
				FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	}
}

void
mtr_journal_write(MtrJournal *j, const pg_uuid_t *epoch_id)
{
	Datum args[MTR_JOURNAL_COLUMNS + 1];

	if (j->nrows == 0)
		return;
	for (int i = 0; i < MTR_JOURNAL_COLUMNS; i++)
		args[i] = column_array(j, i);
	args[MTR_JOURNAL_COLUMNS] = UUIDPGetDatum(epoch_id);
	mtr_exec(&stmt_write, args, NULL, MTR_SNAP_WRITE, 0);
	j->nrows = 0;
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
