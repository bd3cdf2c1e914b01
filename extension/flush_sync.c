/*
 * flush_sync.c
 *		Rows of mortar.usage_sync on their way into the journal (see sync.h).
 *
 * A tenant's rows are one movement of their own: summed up by usage slot and minute
 * they are rows of the journal, summed up by source they say who has paid.  Their costs
 * walk on from where the price's quantity stands, behind what the same batch flushes out
 * of memory.
 *
 * The slot is pinned and its counters are held from before the rows are read; the
 * records of this transaction (xact.h) change the slot when it commits.  Rows of a price
 * whose counter finds no place now are left for another time.
 *
 * Locking: MtrShared.lock, shared, to pin; the tenant's mutex for its counters and
 * purse; neither while a statement runs.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"

#include "core/price.h"
#include "counter.h"
#include "flush_batch.h"
#include "flush_sync.h"
#include "gate.h"
#include "slot.h"
#include "spi.h"
#include "xact.h"

/* how far the quantity of one price has come */
typedef struct Walk
{
	pg_uuid_t price_id;
	int       counter; /* -1: it is free, and has none */
	int64     num_uc;
	int64     per_units;
	int64     x;
	int64     drained; /* by these rows */
} Walk;

/* the rows of one tenant */
typedef struct Taken
{
	MtrDrain      *drain;
	MtrTenant     *t;
	MtrPinned     *pin;
	pg_uuid_t      movement_id;
	SPITupleTable *table;
	uint64         n;
	int            nwalks;
	Walk          *walk;
	int64 cost; /* in the journal, less what grants without cell paid */
	int   nparts;
	struct mtr_part part[MTR_PURSE_SOURCES];
	int64           more[MTR_PURSE_SOURCES]; /* booked than burned */
} Taken;

/* in columns of stmt_take */
enum
{
	TAKE_IS_PART = 1,
	TAKE_NAME, /* meter, or account */
	TAKE_ID,   /* key, or grant */
	TAKE_ROUTE,
	TAKE_PRICE,
	TAKE_MINUTE,
	TAKE_AMOUNT,
	TAKE_ROWS
};

/* a row that nobody should have written may name no price that there is */
static MtrStmt stmt_prices = {
	.sql = "SELECT q.price_id, q.meter, coalesce(p.num_uc, 0),"
		   "  coalesce(p.per_units, 1) "
		   "FROM (SELECT price_id, min(meter) AS meter FROM mortar.usage_sync"
		   "    WHERE tenant_id = $1 GROUP BY price_id) q "
		   "LEFT JOIN mortar.prices p ON p.price_id = q.price_id",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 1,
	.argtypes = {TEXTOID},
};

/*
 * The first $2 rows.	 No joins: the queue is now empty and now full, so that no
 * statistics tell how large it is.  Most rows have one source, which needs no unnest.
 * What a superuser may have put into the arrays must not end the flusher.
 */
static MtrStmt stmt_take = {
	.sql = "WITH gone AS ("
		   "  DELETE FROM mortar.usage_sync WHERE tenant_id = $1"
		   "    AND price_id = ANY ($3) AND sync_id <= coalesce(("
		   "      SELECT q.sync_id FROM mortar.usage_sync q"
		   "      WHERE q.tenant_id = $1 AND q.price_id = ANY ($3)"
		   "      ORDER BY q.sync_id OFFSET $2 - 1 LIMIT 1),"
		   "    'ffffffff-ffff-ffff-ffff-ffffffffffff') RETURNING *), "
		   "part AS ("
		   "  SELECT from_accounts[1] AS account, grant_ids[1] AS grant_id,"
		   "    amounts_uc[1] AS amount FROM gone WHERE "
		   "cardinality(amounts_uc) = 1 "
		   "  UNION ALL SELECT p.* "
		   "  FROM gone g, unnest(g.from_accounts, g.grant_ids, g.amounts_uc)"
		   "    AS p (account, grant_id, amount)"
		   "  WHERE cardinality(g.amounts_uc) > 1) "
		   "SELECT 0 AS is_part, meter AS name, key_id AS id, route, price_id,"
		   "  minute, sum(qty)::pg_catalog.int8, count(*) "
		   "FROM gone GROUP BY meter, key_id, route, price_id, minute "
		   "UNION ALL SELECT 1, account, grant_id, NULL, NULL, NULL,"
		   "  sum(amount)::pg_catalog.int8, 0 FROM part "
		   "WHERE account IS NOT NULL AND grant_id IS NOT NULL"
		   "  AND amount IS NOT NULL "
		   "GROUP BY account, grant_id "
		   "ORDER BY is_part, name, route, id, price_id, minute",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 3,
	.argtypes = {TEXTOID, INT8OID, UUIDARRAYOID},
};

static Datum
value(const Taken *taken, uint64 row, int col, bool *isnull)
{
	return SPI_getbinval(taken->table->vals[row], taken->table->tupdesc, col,
						 isnull);
}

/* ---- what it costs ---- */

/* what the batch flushes out of memory; a tenant's slots stand together at its end */
static int64
in_batch(const MtrFlushBatch *b, const MtrTenant *t, int counter)
{
	int64 qty = 0;

	for (int i = b->nslots - 1; i >= 0 && b->slot[i].tenant == t; i--)
		if (b->slot[i].counter == counter)
			qty += b->slot[i].upto - b->slot[i].from;
	return qty;
}

static MtrMeter
meter_named(const char *name)
{
	int m = 0;

	while (m < MTR_METERS - 1 &&
		   strcmp(name, mtr_meter_name((MtrMeter) m)) != 0)
		m++;
	return (MtrMeter) m;
}

/* holds the price's counter to the end of the transaction; false: there is no place */
static bool
hold_counter(const MtrFlushBatch *b, Taken *taken, MtrMeter meter, Walk *w)
{
	MtrTenant *t = taken->t;
	MtrPrice   price = {.price_id = w->price_id,
						.num_uc = w->num_uc,
						.per_units = w->per_units};

	if (!mtr_counter_bring(t, meter, &price))
		return false;
	SpinLockAcquire(&t->mutex);
	w->counter = mtr_counter_find_locked(t, &w->price_id);
	w->x = t->counter[w->counter].flushed;
	SpinLockRelease(&t->mutex);
	w->x += in_batch(b, t, w->counter);
	return true;
}

/*
 * The prices that a tenant's rows have, as far as they can be walked.  False: not all of
 * them.  *ids is an array of them for stmt_take.
 */
static bool
find_walks(const MtrFlushBatch *b, Taken *taken, Datum *ids)
{
	Datum  args[1];
	Datum *id;
	bool   all = true;
	bool   isnull;
	uint64 n;

	args[0] = CStringGetTextDatum(taken->t->tenant_id);
	mtr_exec(&stmt_prices, args, NULL, MTR_SNAP_WRITE, 0);
	n = SPI_processed;
	taken->table = SPI_tuptable;
	taken->walk = palloc0(Max(n, 1) * sizeof(Walk));
	id = palloc(Max(n, 1) * sizeof(Datum));
	for (uint64 row = 0; row < n; row++)
	{
		Walk *w = &taken->walk[taken->nwalks];
		char *meter = TextDatumGetCString(value(taken, row, 2, &isnull));

		w->price_id = *DatumGetUUIDP(value(taken, row, 1, &isnull));
		w->num_uc = DatumGetInt64(value(taken, row, 3, &isnull));
		w->per_units = DatumGetInt64(value(taken, row, 4, &isnull));
		w->counter = -1;
		if (w->num_uc > 0 && !hold_counter(b, taken, meter_named(meter), w))
		{
			all = false;
			continue;
		}
		id[taken->nwalks++] = UUIDPGetDatum(&w->price_id);
	}
	SPI_freetuptable(taken->table);
	*ids = mtr_array(id, taken->nwalks, UUIDOID);
	return all;
}

static int64
cost_of(Taken *taken, uint64 row, int64 qty)
{
	bool             isnull;
	const pg_uuid_t *price_id =
		DatumGetUUIDP(value(taken, row, TAKE_PRICE, &isnull));
	Walk *w = taken->walk;
	int64 cost;

	while (memcmp(&w->price_id, price_id, UUID_LEN) != 0)
		w++;
	if (w->counter < 0)
		return 0;
	if (!mtr_price_step(w->x, qty, w->num_uc, w->per_units, &cost))
		elog(ERROR, "cost of tenant \"%s\" is out of range",
			 taken->t->tenant_id);
	w->x += qty;
	w->drained += qty;
	return cost;
}

static void
put_burn(const Taken *taken, Datum account, Datum grant_id, int64 amount)
{
	mtr_drain_burn(taken->drain, taken->t->tenant_id, &taken->movement_id,
				   account, grant_id, amount);
}

/* returns the number of rows of the queue that are summed up in it */
static int64
take_usage(Taken *taken, uint64 row)
{
	bool  isnull;
	Datum keys[MTR_DRAIN_KEYS];
	Datum qty = value(taken, row, TAKE_AMOUNT, &isnull);
	int64 cost = cost_of(taken, row, DatumGetInt64(qty));

	/* name to minute are columns that follow each other here and there */
	for (int i = 0; i < MTR_DRAIN_KEYS; i++)
		keys[i] = value(taken, row, TAKE_NAME + i, &isnull);
	mtr_drain_row(taken->drain, taken->t->tenant_id, &taken->movement_id, keys,
				  DatumGetInt64(qty), cost);
	taken->cost += cost;
	return DatumGetInt64(value(taken, row, TAKE_ROWS, &isnull));
}

/* ---- who has paid ---- */

/* the cell of a source, held to the end of the transaction; -1: it has none now */
static int
hold_cell(Taken *taken, const char *account, const pg_uuid_t *grant_id)
{
	int cell;

	if (strcmp(account, "debt") == 0)
		return MTR_PURSE_DEBT;
	if (strcmp(account, "issued") == 0)
		return MTR_PURSE_ISSUED;
	SpinLockAcquire(&taken->t->mutex);
	cell = mtr_purse_find(&taken->t->purse, grant_id->data);
	if (cell >= 0)
		mtr_ref_cell(taken->t, taken->pin, cell);
	SpinLockRelease(&taken->t->mutex);
	return cell;
}

static void
take_part(Taken *taken, uint64 row)
{
	bool  isnull;
	Datum account = value(taken, row, TAKE_NAME, &isnull);
	Datum grant_id = value(taken, row, TAKE_ID, &isnull);
	int64 amount = DatumGetInt64(value(taken, row, TAKE_AMOUNT, &isnull));
	int   cell =
		hold_cell(taken, TextDatumGetCString(account), DatumGetUUIDP(grant_id));

	if (cell < 0)
	{
		put_burn(taken, account, grant_id, amount);
		taken->cost -= amount;
		return;
	}
	taken->part[taken->nparts].cell = (int16) cell;
	taken->part[taken->nparts++].amount = amount;
}

/* makes the parts sum to the cost, and remembers what that changes */
static void
put_parts(Taken *taken)
{
	MtrTenant *t = taken->t;
	int64     *more = taken->more;
	int64      rest = taken->cost;

	for (int i = 0; i < taken->nparts; i++)
	{
		rest -= taken->part[i].amount;
		more[taken->part[i].cell] -= taken->part[i].amount;
	}
	SpinLockAcquire(&t->mutex);
	taken->nparts =
		mtr_purse_place(&t->purse, rest, taken->part, taken->nparts);
	SpinLockRelease(&t->mutex);
	for (int i = 0; i < taken->nparts; i++)
	{
		const struct mtr_part *part = &taken->part[i];
		pg_uuid_t              id = mtr_part_grant(t, part);

		more[part->cell] += part->amount;
		put_burn(taken, CStringGetTextDatum(mtr_part_account(part)),
				 UUIDPGetDatum(&id), part->amount);
	}
}

/* what the slot is to learn when this commits; gone: rows of the queue */
static void
note(const Taken *taken, int64 gone)
{
	MtrTenant *t = taken->t;

	mtr_xact_reserve(taken->nwalks + MTR_PURSE_SOURCES + 1);
	for (int i = 0; i < taken->nwalks; i++)
		if (taken->walk[i].counter >= 0)
			mtr_xact_drain(t, taken->walk[i].counter, taken->walk[i].drained);
	for (int i = 0; i < MTR_PURSE_SOURCES; i++)
	{
		struct mtr_part part = {.cell = (int16) i, .amount = taken->more[i]};

		if (part.amount != 0)
			mtr_xact_rebook(t, &part);
	}
	mtr_xact_queue(t, -gone);
}

/* ---- a tenant ---- */

/* false: it has nothing in the queue */
static bool
pin(const MtrFlushBatch *b, MtrTenant *t, int64 *queued)
{
	bool ok;

	mtr_xact_reserve_pin();
	LWLockAcquire(MtrShared->lock, LW_SHARED);
	SpinLockAcquire(&t->mutex);
	/* also one that is stale: what is queued keeps it from being loaded again */
	ok = t->state == MTR_TENANT_READY && t->db == b->db - MtrShared->db &&
		 t->generation >= pg_atomic_read_u64(&b->db->purged) && t->queued > 0;
	if (ok)
		t->pins++;
	*queued = t->queued;
	SpinLockRelease(&t->mutex);
	LWLockRelease(MtrShared->lock);
	if (ok)
		mtr_xact_pin(t, t->tenant_id, false);
	return ok;
}

static void
take(Taken *taken, int limit, Datum prices)
{
	Datum args[3];

	args[0] = CStringGetTextDatum(taken->t->tenant_id);
	args[1] = Int64GetDatum(limit);
	args[2] = prices;
	mtr_exec(&stmt_take, args, NULL, MTR_SNAP_WRITE, 0);
	taken->table = SPI_tuptable;
	taken->n = SPI_processed;
	mtr_new_id(&taken->movement_id);
}

/* returns the number of rows of the queue */
static int64
add(Taken *taken)
{
	int64 rows = 0;

	for (uint64 row = 0; row < taken->n; row++)
	{
		bool isnull;

		if (DatumGetInt32(value(taken, row, TAKE_IS_PART, &isnull)) == 0)
			rows += take_usage(taken, row);
		else
			take_part(taken, row);
	}
	if (rows > 0)
		put_parts(taken);
	SPI_freetuptable(taken->table);
	return rows;
}

/* some rows have to wait, but not because the batch is full */
static void
look_again(MtrTenant *t)
{
	SpinLockAcquire(&t->mutex);
	(void) mtr_tenant_mark_dirty(t);
	SpinLockRelease(&t->mutex);
}

bool
mtr_drain_add(MtrFlushBatch *b, int32 tenant)
{
	MtrTenant *t = &MtrTenants[tenant];
	Taken      taken = {.t = t};
	Datum      prices;
	int64      queued;
	int64      rows;
	int        limit;
	bool       all;

	if (b->drain != NULL && b->drain->taken >= MTR_FLUSH_ROWS)
		return false;
	if (!pin(b, t, &queued))
		return true;
	if (b->drain == NULL)
		b->drain = palloc0(sizeof(MtrDrain));
	taken.drain = b->drain;
	taken.pin = mtr_xact_pinned(t);
	limit = MTR_FLUSH_ROWS - b->drain->taken;
	all = find_walks(b, &taken, &prices);
	take(&taken, limit, prices);
	rows = add(&taken);
	b->drain->taken += (int) rows;
	/*
	 * Whatever was counted had been committed before the statements began.	 Rows that
	 * they did not find somebody else has removed.
	 */
	all &= rows < limit;
	note(&taken, all ? Max(rows, queued) : rows);
	if (!all && rows < limit)
		look_again(t);
	return rows < limit;
}
