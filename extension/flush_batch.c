/*
 * flush_batch.c
 *		What a flush copies out of shared memory, and what it notes there after.
 *
 * A usage slot only counts up.  Its unflushed part is [flushed, done), cut by
 * minute; both numbers only ever move forward, done by commits of calls,
 * flushed by the flusher's own commit.  So a copy needs no lock for longer than
 * it takes, and a flush that fails changes nothing but the dirty bits.
 *
 * Costs: the flusher walks the priced quantity x of each counter from where
 * the last flush left it.  A row costs f(x + qty) - f(x), then x += qty.  So
 * the costs of all rows of a price always sum to f(their quantity), which is
 * what the calls have paid.
 *
 * Who paid: burns of the tenant's purse, which the same statement writes.  A tenant
 * may have burns and no usage: a grant has repaid its debt.
 *
 * The dirty bit is taken away before the copy.  A call that commits meanwhile
 * moves done and sets the bit under the tenant's mutex, which the copy needs:
 * either the copy sees the call's usage or the next look sees its bit.
 *
 * Why pointers stay good until the commit: a tenant with unflushed usage is
 * never evicted, nor are its dirty usage slots and counters; only DROP
 * EXTENSION discards, and the transaction holds a lock that it must wait for
 * (see flush_xact.c).
 *
 * Locking: MtrShared.lock, shared, for one tenant at a time, to walk its list
 * of usage slots; the tenant's mutex for one usage slot at a time.
 */
#include "mortar.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "utils/timestamp.h"

#include "core/price.h"
#include "core/usage_ring.h"
#include "counter.h"
#include "flush_batch.h"
#include "guc.h"
#include "http.h"
#include "slot.h"
#include "spi.h"
#include "xact.h"

/* what is copied of a usage slot under the mutex */
typedef struct Copy
{
	int64           from;
	int64           upto;
	struct mtr_ring ring;
	int             counter;
	int64           counter_flushed;
	int64           num_uc;
	int64           per_units;
} Copy;

static MtrStmt stmt_epoch = {
	.sql = "INSERT INTO mortar.epochs AS e (epoch_id, database_id, system_id, "
		   "  timeline, started_at, last_flush_at) "
		   "VALUES ($1, " MTR_THIS_DATABASE ", $2, $3, $4, "
		   "  CASE WHEN $5 THEN CURRENT_TIMESTAMP END) "
		   "ON CONFLICT (epoch_id, database_id) DO UPDATE SET last_flush_at ="
		   "  coalesce(EXCLUDED.last_flush_at, e.last_flush_at)",
	.role = MTR_ROLE_OWNER,
	.nargs = 5,
	.argtypes = {UUIDOID, INT8OID, INT4OID, TIMESTAMPTZOID, BOOLOID},
};

void
mtr_flush_epoch(bool flushed)
{
	Datum args[5];

	args[0] = UUIDPGetDatum(&MtrShared->epoch_id);
	args[1] = Int64GetDatum((int64) GetSystemIdentifier());
	args[2] = Int32GetDatum((int32) GetWALInsertionTimeLine());
	args[3] = TimestampTzGetDatum(MtrShared->epoch_start);
	args[4] = BoolGetDatum(flushed);
	mtr_exec(&stmt_epoch, args, NULL, MTR_SNAP_WRITE, 0);
}

void
mtr_batch_init(MtrFlushBatch *b, MtrDb *db)
{
	b->db = db;
	b->tenant = palloc(MTR_FLUSH_TENANTS * sizeof(MtrFlushTenant));
	b->slot = palloc(MTR_FLUSH_ROWS * sizeof(MtrFlushSlot));
	mtr_journal_init(&b->journal);
	mtr_batch_begin(b);
}

void
mtr_batch_begin(MtrFlushBatch *b)
{
	b->ntenants = 0;
	b->nslots = 0;
	b->nrows = 0;
	b->journal.nrows = b->journal.nburns = 0;
	b->drain = NULL;
	b->started = GetCurrentTimestamp();
}

/* false: nothing is unflushed */
static bool
copy_slot(MtrTenant *t, const MtrUsage *u, Copy *c)
{
	bool priced = u->num_uc > 0;

	c->counter = -1;
	SpinLockAcquire(&t->mutex);
	c->from = u->flushed;
	c->upto = u->done;
	if (c->from < c->upto)
	{
		c->ring = u->ring;
		if (priced)
			c->counter = mtr_counter_find_locked(t, &u->key.price_id);
		if (c->counter >= 0)
		{
			const MtrCounter *counter = &t->counter[c->counter];

			c->counter_flushed = counter->flushed;
			c->num_uc = counter->num_uc;
			c->per_units = counter->per_units;
		}
	}
	SpinLockRelease(&t->mutex);

	if (c->from >= c->upto)
		return false;
	if (priced && c->counter < 0)
		elog(ERROR, "tenant \"%s\" has unflushed usage without its counter",
			 t->tenant_id);
	return true;
}

int
mtr_flush_cut(const struct mtr_ring *ring, int64 from, int64 upto,
			  struct mtr_segment segment[MTR_RING_MARKS])
{
	int n = mtr_ring_segments(ring, from, upto, segment);

	if (n == 0)
	{
		segment[0].from = from;
		segment[0].upto = upto;
		segment[0].minute = mtr_minute_of(GetCurrentTimestamp());
		n = 1;
	}
	return n;
}

/* returns what they cost together */
static int64
add_rows(MtrFlushBatch *b, const MtrTenant *t, const pg_uuid_t *movement_id,
		 const MtrUsageKey *key, const Copy *c,
		 const struct mtr_segment *segment, int n, int64 *walk)
{
	MtrJournalRow row;
	int64         cost = 0;

	row.tenant = t->tenant_id;
	row.movement_id = *movement_id;
	row.meter = mtr_meter_name((MtrMeter) key->meter);
	row.key_id = key->key_id;
	row.route = mtr_route_template(key->route);
	row.price_id = key->price_id;
	for (int i = 0; i < n; i++)
	{
		int64 qty = segment[i].upto - segment[i].from;

		row.from_qty = segment[i].from;
		row.upto_qty = segment[i].upto;
		row.minute = segment[i].minute;
		row.cost_uc = 0;
		if (c->counter >= 0)
		{
			if (!mtr_price_step(walk[c->counter], qty, c->num_uc, c->per_units,
								&row.cost_uc))
				elog(ERROR, "cost of tenant \"%s\" is out of range",
					 t->tenant_id);
			walk[c->counter] += qty;
			cost += row.cost_uc;
		}
		mtr_journal_add(&b->journal, &row);
	}
	return cost;
}

/*
 * MtrShared.lock is held; false: no room for all of the tenant's rows.	*total is what
 * those cost that were added.
 */
static bool
add_slots(MtrFlushBatch *b, MtrTenant *t, const pg_uuid_t *movement_id,
		  int64 *total)
{
	struct mtr_segment segment[MTR_RING_MARKS];
	int64              walk[MTR_COUNTERS];
	Copy               c;

	for (int i = 0; i < MTR_COUNTERS; i++)
		walk[i] = -1;
	for (MtrUsage *u = t->usage; u != NULL; u = u->next)
	{
		MtrFlushSlot *s;
		int64         cost;
		int           n;

		if (!copy_slot(t, u, &c))
			continue;
		n = mtr_flush_cut(&c.ring, c.from, c.upto, segment);
		if (b->journal.nrows + n > MTR_FLUSH_ROWS)
			return false;
		if (c.counter >= 0 && walk[c.counter] < 0)
			walk[c.counter] = c.counter_flushed;
		cost = add_rows(b, t, movement_id, &u->key, &c, segment, n, walk);
		*total += cost;

		s = &b->slot[b->nslots++];
		s->tenant = t;
		s->usage = u;
		s->from = c.from;
		s->upto = c.upto;
		s->counter = c.counter;
	}
	return true;
}

static void
set_dirty(int32 tenant)
{
	pg_atomic_fetch_or_u64(&MtrDirty[tenant / 64], UINT64CONST(1)
													   << (tenant % 64));
}

static void
clear_dirty(int32 tenant)
{
	pg_atomic_fetch_and_u64(&MtrDirty[tenant / 64],
							~(UINT64CONST(1) << (tenant % 64)));
}

/* MtrShared.lock is held */
static void
add_burns(MtrFlushBatch *b, MtrTenant *t, MtrFlushTenant *f,
		  const pg_uuid_t *movement_id, int64 cost)
{
	pg_uuid_t id[MTR_PURSE_SOURCES];

	SpinLockAcquire(&t->mutex);
	f->nparts = mtr_purse_carry(&t->purse, cost, f->part, f->nparts);
	for (int i = 0; i < f->nparts; i++)
		id[i] = mtr_part_grant(t, &f->part[i]);
	SpinLockRelease(&t->mutex);

	for (int i = 0; i < f->nparts; i++)
	{
		MtrBurnRow row = {.tenant = t->tenant_id,
						  .movement_id = *movement_id,
						  .account = mtr_part_account(&f->part[i]),
						  .grant_id = id[i],
						  .amount_uc = f->part[i].amount};

		mtr_journal_burn(&b->journal, &row);
	}
}

/*
 * MtrShared.lock is held.  False: no room.  Only a tenant with more rows than any
 * batch can hold is divided.
 */
static bool
add_tenant(MtrFlushBatch *b, MtrTenant *t, MtrFlushTenant *f)
{
	int       nrows = b->journal.nrows;
	int       nslots = b->nslots;
	int64     cost = 0;
	pg_uuid_t movement_id;
	bool      all;

	/* in this order, see core/purse.h */
	SpinLockAcquire(&t->mutex);
	f->nparts = mtr_purse_unwritten(&t->purse, f->part);
	SpinLockRelease(&t->mutex);
	mtr_new_id(&movement_id);
	all = add_slots(b, t, &movement_id, &cost);
	if (!all && nrows > 0)
	{
		b->journal.nrows = nrows;
		b->nslots = nslots;
		f->nparts = 0;
		return false;
	}
	add_burns(b, t, f, &movement_id, cost);
	return all;
}

bool
mtr_batch_add(MtrFlushBatch *b, int32 tenant)
{
	MtrTenant      *t = &MtrTenants[tenant];
	MtrFlushTenant *f;
	bool            all = true;

	if (b->ntenants == MTR_FLUSH_TENANTS)
		return false;

	/* noted first: an error from here on must find it in the batch */
	f = &b->tenant[b->ntenants++];
	f->index = tenant;
	f->nparts = 0;
	clear_dirty(tenant);
	LWLockAcquire(MtrShared->lock, LW_SHARED);
	if (t->state != MTR_TENANT_FREE && t->db == b->db - MtrShared->db &&
		t->generation >= pg_atomic_read_u64(&b->db->purged))
		all = add_tenant(b, t, f);
	LWLockRelease(MtrShared->lock);
	if (all)
		all = mtr_drain_add(b, tenant);
	if (!all)
		set_dirty(tenant);
	return all;
}

/*
 * The COMMIT callback: what was written is flushed.  A slot that is moved on
 * may be evicted the next instant, with its tenant if it was the last one, so
 * each slot is touched once and the tenant not after its last slot.  Purses come
 * before: a tenant that has slots here is kept by them, one that has none is not
 * touched again.
 */
static void
note_flushed(void *arg)
{
	MtrFlushBatch *b = arg;
	MtrDb         *db = b->db;

	for (int i = 0; i < b->ntenants; i++)
	{
		const MtrFlushTenant *f = &b->tenant[i];
		MtrTenant            *t = &MtrTenants[f->index];

		if (f->nparts == 0)
			continue;
		SpinLockAcquire(&t->mutex);
		mtr_purse_flushed(&t->purse, f->part, f->nparts);
		SpinLockRelease(&t->mutex);
	}
	for (int i = 0; i < b->nslots; i++)
	{
		const MtrFlushSlot *s = &b->slot[i];

		SpinLockAcquire(&s->tenant->mutex);
		s->usage->flushed = s->upto;
		if (s->usage->done == s->upto)
			s->tenant->unflushed--;
		if (s->counter >= 0)
			s->tenant->counter[s->counter].flushed += s->upto - s->from;
		mtr_unflushed_settle(s->tenant);
		SpinLockRelease(&s->tenant->mutex);
	}
	SpinLockAcquire(&db->mutex);
	db->last_flush = b->started;
	db->flushed_rows += b->nrows;
	db->flusher_failures = 0;
	SpinLockRelease(&db->mutex);
}

void
mtr_batch_write(MtrFlushBatch *b)
{
	if (b->nslots == 0 && b->journal.nburns == 0 && b->drain == NULL)
		return;
	b->nrows = b->journal.nrows;
	mtr_journal_write(&b->journal, &MtrShared->epoch_id);
	b->nrows += mtr_drain_write(b);
	mtr_flush_epoch(true);
	mtr_xact_on_commit(note_flushed, b);
}

void
mtr_batch_undo(MtrFlushBatch *b)
{
	for (int i = 0; i < b->ntenants; i++)
		set_dirty(b->tenant[i].index);
	pg_atomic_write_u32(&b->db->dirty, 1);
}

bool
mtr_flush_is_dirty(MtrDb *db, int32 tenant)
{
	const MtrTenant *t = &MtrTenants[tenant];
	uint64           bit = UINT64CONST(1) << (tenant % 64);
	bool             ours;

	if ((pg_atomic_read_u64(&MtrDirty[tenant / 64]) & bit) == 0)
		return false;
	LWLockAcquire(MtrShared->lock, LW_SHARED);
	ours = t->state != MTR_TENANT_FREE && t->db == db - MtrShared->db &&
		   t->generation >= pg_atomic_read_u64(&db->purged);
	LWLockRelease(MtrShared->lock);
	return ours;
}

int32
mtr_flush_next_dirty(MtrDb *db, int32 from)
{
	for (int32 i = from; i < mtr_max_tenants; i++)
	{
		if (i % 64 == 0 && pg_atomic_read_u64(&MtrDirty[i / 64]) == 0)
		{
			i += 63; /* a whole word of clean tenants */
			continue;
		}
		if (mtr_flush_is_dirty(db, i))
			return i;
	}
	return -1;
}
