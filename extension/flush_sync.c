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
 * records of this transaction (xact.h) change the slot when it commits.  A price whose
 * counter is not in memory is in force no more, and nobody will bring it back: then tables
 * alone know how far it has come.
 *
 * Locking: MtrShared.lock, shared, to pin; the tenant's mutex for its counters and
 * purse; neither while a statement runs.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"

#include "core/price.h"
#include "flush_batch.h"
#include "flush_sync.h"
#include "gate.h"
#include "slot.h"
#include "slot_load.h"
#include "spi.h"
#include "xact.h"

/* how far the quantity of one price has come */
typedef struct Walk
{
	pg_uuid_t price_id;
	int       counter; /* -1: it is not in memory */
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
	TAKE_NUM,
	TAKE_PER,
	TAKE_ROWS
};

static MtrStmt stmt_take = {
	.sql =
		"WITH gone AS ("
		"  DELETE FROM mortar.usage_sync WHERE tenant_id = $1 AND sync_id IN ("
		"    SELECT sync_id FROM mortar.usage_sync WHERE tenant_id = $1"
		"    ORDER BY sync_id LIMIT $2) RETURNING *) "
		"SELECT 0 AS is_part, g.meter AS name, g.key_id AS id, g.route,"
		"  g.price_id, g.minute, sum(g.qty)::pg_catalog.int8 AS amount,"
		"  max(p.num_uc), max(p.per_units), count(*) "
		"FROM gone g LEFT JOIN mortar.prices p ON p.price_id = g.price_id "
		"GROUP BY g.meter, g.key_id, g.route, g.price_id, g.minute "
		"UNION ALL SELECT 1, p.account, p.grant_id, NULL, NULL, NULL,"
		"  sum(p.amount)::pg_catalog.int8, NULL, NULL, 0 "
		"FROM gone g, unnest(g.from_accounts, g.grant_ids,"
		"  g.amounts_uc) AS p (account, grant_id, amount) "
		"GROUP BY p.account, p.grant_id "
		"ORDER BY is_part, name, route, id, price_id, minute",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 2,
	.argtypes = {TEXTOID, INT8OID},
};

static MtrStmt stmt_find = {
	.sql = "SELECT DISTINCT tenant_id FROM mortar.usage_sync",
	.role = MTR_ROLE_OWNER,
};

static Datum
value(const Taken *taken, uint64 row, int col, bool *isnull)
{
	return SPI_getbinval(taken->table->vals[row], taken->table->tupdesc, col,
						 isnull);
}

/* ---- what it costs ---- */

/* holds the counter to the end of the transaction; the mutex is held */
static int
hold_counter(Taken *taken, const pg_uuid_t *price_id)
{
	MtrTenant *t = taken->t;

	for (int i = 0; i < MTR_COUNTERS; i++)
	{
		if (memcmp(&t->counter[i].price_id, price_id, UUID_LEN) != 0)
			continue;
		if ((taken->pin->claimed & (1u << i)) == 0)
			t->counter[i].refs++;
		taken->pin->claimed |= 1u << i;
		return i;
	}
	return -1;
}

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

static Walk *
walk_of(const MtrFlushBatch *b, Taken *taken, const char *meter,
		const pg_uuid_t *price_id)
{
	MtrTenant *t = taken->t;
	Walk      *w;

	for (int i = 0; i < taken->nwalks; i++)
		if (memcmp(&taken->walk[i].price_id, price_id, UUID_LEN) == 0)
			return &taken->walk[i];
	w = &taken->walk[taken->nwalks++];
	w->price_id = *price_id;
	w->drained = 0;
	SpinLockAcquire(&t->mutex);
	w->counter = hold_counter(taken, price_id);
	w->x = w->counter >= 0 ? t->counter[w->counter].flushed : 0;
	SpinLockRelease(&t->mutex);
	if (w->counter >= 0)
		w->x += in_batch(b, t, w->counter);
	else
		w->x = mtr_journal_priced(t->tenant_id, meter, price_id);
	return w;
}

static int64
cost_of(const MtrFlushBatch *b, Taken *taken, uint64 row, int64 qty)
{
	bool             isnull;
	int64            num = DatumGetInt64(value(taken, row, TAKE_NUM, &isnull));
	int64            per;
	const pg_uuid_t *price_id;
	Walk            *w;
	int64            cost;

	if (isnull)
		return 0;
	per = DatumGetInt64(value(taken, row, TAKE_PER, &isnull));
	price_id = DatumGetUUIDP(value(taken, row, TAKE_PRICE, &isnull));
	w = walk_of(b, taken,
				TextDatumGetCString(value(taken, row, TAKE_NAME, &isnull)),
				price_id);
	if (!mtr_price_step(w->x, qty, num, per, &cost))
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
take_usage(const MtrFlushBatch *b, Taken *taken, uint64 row)
{
	bool  isnull;
	Datum keys[MTR_DRAIN_KEYS];
	Datum qty = value(taken, row, TAKE_AMOUNT, &isnull);
	int64 cost = cost_of(b, taken, row, DatumGetInt64(qty));

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
	struct mtr_purse *p = &taken->t->purse;
	int               cell;

	if (strcmp(account, "debt") == 0)
		return MTR_PURSE_DEBT;
	if (strcmp(account, "issued") == 0)
		return MTR_PURSE_ISSUED;
	SpinLockAcquire(&taken->t->mutex);
	cell = mtr_purse_find(p, grant_id->data);
	if (cell >= 0 && (taken->pin->cells & (1u << cell)) == 0)
	{
		taken->pin->cells |= 1u << cell;
		p->cell[cell].refs++;
	}
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

	mtr_xact_reserve(0);
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
take(const char *tenant, int limit, Taken *taken)
{
	Datum args[2];

	args[0] = CStringGetTextDatum(tenant);
	args[1] = Int64GetDatum(limit);
	mtr_exec(&stmt_take, args, NULL, MTR_SNAP_WRITE, 0);
	taken->table = SPI_tuptable;
	taken->n = SPI_processed;
	taken->walk = palloc(Max(taken->n, 1) * sizeof(Walk));
	mtr_new_id(&taken->movement_id);
}

/* returns the number of rows of the queue */
static int64
add(const MtrFlushBatch *b, Taken *taken)
{
	int64 rows = 0;

	for (uint64 row = 0; row < taken->n; row++)
	{
		bool isnull;

		if (DatumGetInt32(value(taken, row, TAKE_IS_PART, &isnull)) == 0)
			rows += take_usage(b, taken, row);
		else
			take_part(taken, row);
	}
	if (rows > 0)
		put_parts(taken);
	SPI_freetuptable(taken->table);
	return rows;
}

bool
mtr_drain_add(MtrFlushBatch *b, int32 tenant)
{
	MtrTenant *t = &MtrTenants[tenant];
	Taken      taken = {.t = t};
	int64      queued;
	int64      rows;
	int        limit;

	if (b->drain != NULL && b->drain->taken >= MTR_FLUSH_ROWS)
		return false;
	if (!pin(b, t, &queued))
		return true;
	if (b->drain == NULL)
		b->drain = palloc0(sizeof(MtrDrain));
	taken.drain = b->drain;
	taken.pin = mtr_xact_pinned(t);
	limit = MTR_FLUSH_ROWS - b->drain->taken;
	take(t->tenant_id, limit, &taken);
	rows = add(b, &taken);
	b->drain->taken += (int) rows;
	/*
	 * Whatever was counted had been committed before the statement began.	Rows that
	 * it did not find somebody else has removed.
	 */
	note(&taken, rows < limit ? Max(rows, queued) : rows);
	return rows < limit;
}

typedef enum Present
{
	PRESENT_NO,
	PRESENT_KNOWS, /* of its rows, or of all that there were a moment ago */
	PRESENT_STALE  /* and cannot go yet */
} Present;

/* a stale slot goes if it can: nobody need ever ask for the tenant again */
static Present
look_at(const char *tenant)
{
	MtrDb     *db = mtr_db();
	MtrTenant *t;
	Present    result = PRESENT_NO;

	LWLockAcquire(MtrShared->lock, LW_EXCLUSIVE);
	t = mtr_tenant_lookup(db - MtrShared->db, tenant);
	if (t != NULL)
	{
		bool knows;

		SpinLockAcquire(&t->mutex);
		knows = t->queued > 0 ||
				t->generation == pg_atomic_read_u64(&db->generation);
		SpinLockRelease(&t->mutex);
		if (knows)
			result = PRESENT_KNOWS;
		else if (!mtr_tenant_clear_locked(t))
			result = PRESENT_STALE;
	}
	LWLockRelease(MtrShared->lock);
	return result;
}

/* false: not now */
static bool
load(const char *tenant)
{
	MtrTenant *t;
	MtrPin     result;

	switch (look_at(tenant))
	{
		case PRESENT_KNOWS:
			return true;
		case PRESENT_STALE:
			return false;
		case PRESENT_NO:
			break;
	}
	result = mtr_tenant_try_pin(tenant, &t);
	if (result == MTR_PIN_OK)
		mtr_xact_unpin_unused(t);
	return result == MTR_PIN_OK || result == MTR_PIN_NO_TENANT;
}

bool
mtr_drain_find(void)
{
	bool   all = true;
	uint64 n;
	char **tenants;

	mtr_exec(&stmt_find, NULL, NULL, MTR_SNAP_LATEST, 0);
	n = SPI_processed;
	tenants = palloc((n + 1) * sizeof(char *));
	for (uint64 row = 0; row < n; row++)
		tenants[row] = mtr_cell(row, 1);
	for (uint64 i = 0; i < n; i++)
		all &= load(tenants[i]);
	return all;
}
