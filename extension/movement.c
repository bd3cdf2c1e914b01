/*
 * movement.c
 *		Movements that others follow (see movement.h).
 *
 * A movement is found by its first row, whose entry_id it is, and by the partial
 * index on movement_id for the others.	 Rows are in the order of their entry_id,
 * since ids of one session rise.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"

#include "movement.h"
#include "spi.h"

static MtrStmt stmt_movement_of = {
	.sql = "SELECT movement_id FROM mortar.credit_ledger "
		   "WHERE tenant_id = $1 AND entry_id = $2",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 2,
	.argtypes = {TEXTOID, UUIDOID},
};

/*
 * What was held and came from no grant was debt, or of a tenant in unlimited mode: the
 * hold's only row without a grant says so.
 */
static MtrStmt stmt_sources = {
	.sql = "SELECT l.kind, l.to_account = $3, l.grant_id, l.amount_uc,"
		   "  CASE WHEN l.from_account <> 'held' THEN l.from_account"
		   "    WHEN l.grant_id IS NOT NULL THEN 'available'"
		   "    ELSE coalesce((SELECT h.from_account"
		   "        FROM mortar.credit_ledger h WHERE h.tenant_id = $1"
		   "          AND h.entry_id = l.reverses AND h.grant_id IS NULL),"
		   "      (SELECT h.from_account FROM mortar.credit_ledger h"
		   "        WHERE h.tenant_id = $1 AND h.movement_id = l.reverses"
		   "          AND h.entry_id <> h.movement_id"
		   "          AND h.grant_id IS NULL)) END "
		   "FROM (SELECT * FROM mortar.credit_ledger"
		   "    WHERE tenant_id = $1 AND entry_id = $2"
		   "  UNION ALL SELECT * FROM mortar.credit_ledger"
		   "    WHERE tenant_id = $1 AND movement_id = $2"
		   "      AND entry_id <> movement_id) l "
		   "ORDER BY l.entry_id",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 3,
	.argtypes = {TEXTOID, UUIDOID, TEXTOID},
};

bool
mtr_find(MtrStmt *stmt, const char *tenant, const pg_uuid_t *id)
{
	Datum args[2];

	args[0] = CStringGetTextDatum(tenant);
	args[1] = UUIDPGetDatum(id);
	mtr_exec(stmt, args, NULL, MTR_SNAP_LATEST, 1);
	return SPI_processed > 0;
}

bool
mtr_movement_of(const char *tenant, const pg_uuid_t *entry_id,
				pg_uuid_t *movement_id)
{
	bool isnull;

	if (!mtr_find(&stmt_movement_of, tenant, entry_id))
		return false;
	*movement_id = *DatumGetUUIDP(mtr_first(1, &isnull));
	return true;
}

static const char *
account_name(const char *name)
{
	static const char *const names[] = {"available", "debt", "issued"};

	for (int i = 0; name != NULL && i < (int) lengthof(names); i++)
		if (strcmp(name, names[i]) == 0)
			return names[i];
	elog(ERROR, "an entry came from no account");
}

static void
read_source(uint64 row, MtrSource *s)
{
	HeapTuple tuple = SPI_tuptable->vals[row];
	TupleDesc desc = SPI_tuptable->tupdesc;
	bool      isnull;
	Datum     id = SPI_getbinval(tuple, desc, 3, &isnull);

	memset(s, 0, sizeof(*s));
	s->of_grant = !isnull;
	if (s->of_grant)
		s->grant_id = *DatumGetUUIDP(id);
	s->amount = DatumGetInt64(SPI_getbinval(tuple, desc, 4, &isnull));
	s->account = account_name(mtr_cell(row, 5));
}

void
mtr_sources_read(const char *tenant, const pg_uuid_t *movement_id,
				 const char *to_account, MtrSources *s)
{
	Datum args[3];
	bool  isnull;

	args[0] = CStringGetTextDatum(tenant);
	args[1] = UUIDPGetDatum(movement_id);
	args[2] = CStringGetTextDatum(to_account);
	mtr_exec(&stmt_sources, args, NULL, MTR_SNAP_LATEST, 0);
	memset(s, 0, sizeof(*s));
	if (SPI_processed == 0)
		return;
	s->kind = mtr_cell(0, 1);
	s->source = palloc(SPI_processed * sizeof(MtrSource));
	for (uint64 row = 0; row < SPI_processed; row++)
	{
		if (!DatumGetBool(SPI_getbinval(SPI_tuptable->vals[row],
										SPI_tuptable->tupdesc, 2, &isnull)))
			continue;
		read_source(row, &s->source[s->n]);
		s->total += s->source[s->n++].amount;
	}
}

void
mtr_rows_add(MtrRows *rows, const char *kind, const char *from, const char *to,
			 const pg_uuid_t *grant_id, int64 amount)
{
	MtrEntry *e;

	if (rows->n == rows->max)
	{
		rows->max = Max(8, 2 * rows->max);
		rows->row = rows->row == NULL
						? palloc(rows->max * sizeof(MtrEntry))
						: repalloc(rows->row, rows->max * sizeof(MtrEntry));
	}
	e = &rows->row[rows->n++];
	*e = rows->like;
	e->kind = kind;
	e->from = from;
	e->to = to;
	e->amount_uc = amount;
	if (grant_id != NULL)
	{
		pg_uuid_t *copy = palloc(sizeof(*copy));

		*copy = *grant_id;
		e->grant_id = copy;
	}
}

/* the cell that a source's credits come back to */
static int
cell_of(MtrTenant *t, const MtrSource *s)
{
	if (s->of_grant)
		return mtr_refund_cell(t, &s->grant_id);
	return strcmp(s->account, "debt") == 0 ? MTR_PURSE_DEBT : MTR_PURSE_ISSUED;
}

void
mtr_give_back(MtrTenant *t, const MtrSources *s, int64 skip, int64 amount,
			  const char *kind, const char *from, MtrRows *rows)
{
	Assert(skip + amount <= s->total);
	for (int i = s->n - 1; i >= 0 && amount > 0; i--)
	{
		const MtrSource *source = &s->source[i];
		int64            skipped = Min(skip, source->amount);
		int64            part = Min(amount, source->amount - skipped);

		skip -= skipped;
		amount -= part;
		if (part == 0)
			continue;
		mtr_rows_add(rows, kind, from, source->account,
					 source->of_grant ? &source->grant_id : NULL, part);
		mtr_refund(t, cell_of(t, source), part);
	}
}

void
mtr_rows_post(MtrTenant *t, const MtrRows *rows, const pg_uuid_t *movement_id)
{
	mtr_post_rows(t, rows->row, rows->n, movement_id);
}

void
mtr_refuse(int sqlstate, const char *code, const char *message)
{
	ereport(ERROR, (errcode(sqlstate), errmsg("%s", message),
					errdetail("{\"code\":\"%s\"}", code)));
}
