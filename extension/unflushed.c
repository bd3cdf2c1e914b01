/*
 * unflushed.c
 *		What memory holds of a tenant's usage beyond what the tables show.
 *
 * Usage slots count for ever; a mark in mortar.usage_marks says how far the
 * tables reach.  So memory's part is "done" less the mark that the reader's
 * snapshot sees, whatever a flusher commits meanwhile: nothing is counted twice
 * and nothing is missing.	The order matters: snapshot first, memory after.
 *
 * Costs: within one price, the cost of a stretch is f(x + qty) - f(x), x being
 * the quantity before it.	Stretches are walked from the sum of the marks, so
 * that costs in tables and memory always add up to f(everything).  Each usage
 * slot knows its price; the tenant's counters may have gone by the time we look.
 * Usage that is kept otherwise stands in tables alone, and its quantities come
 * first (sync.h).
 */
#include "mortar.h"

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"

#include "core/price.h"
#include "http.h"
#include "slot.h"
#include "slot_load.h"
#include "spi.h"
#include "usage.h"

static MtrStmt stmt_marks = {
	.sql = "SELECT meter, key_id, route, price_id, upto_qty, durable "
		   "FROM mortar.usage_marks WHERE tenant_id = $1 "
		   "UNION ALL SELECT meter, key_id, route, price_id, qty, true "
		   "FROM mortar.usage_sync WHERE tenant_id = $1",
	.role = MTR_ROLE_OWNER,
	.nargs = 1,
	.argtypes = {TEXTOID},
};

/* a usage slot as copied from memory, with its mark */
typedef struct Copy
{
	MtrUsageKey     key;
	int64           done;
	int64           mark;
	int64           num_uc;
	int64           per_units;
	int             walk; /* index into Memory.walk, -1: free */
	struct mtr_ring ring;
} Copy;

/* how far the quantity of a price above 0 has come */
typedef struct Walk
{
	pg_uuid_t price_id;
	int64     x;
} Walk;

typedef struct Memory
{
	Copy *slot;
	int   nslots;
	Walk *walk;
	int   nwalks;
} Memory;

/* the walk of a price; -1: no slot in memory has it */
static int
walk_of(const Memory *m, const pg_uuid_t *price_id)
{
	for (int i = 0; i < m->nwalks; i++)
		if (memcmp(&m->walk[i].price_id, price_id, UUID_LEN) == 0)
			return i;
	return -1;
}

static void
give_walk(Memory *m, Copy *c)
{
	c->walk = -1;
	if (c->num_uc == 0)
		return;
	c->walk = walk_of(m, &c->key.price_id);
	if (c->walk >= 0)
		return;
	c->walk = m->nwalks++;
	m->walk[c->walk].price_id = c->key.price_id;
}

/*
 * Copies the tenant's slots.  The shared lock keeps usage slots
 * from leaving; new ones may be pushed to the head of the list meanwhile and
 * are then not looked at: they hold nothing that committed before we began.
 */
static void
copy_slots(MtrTenant *t, Memory *m)
{
	int       max;
	MtrUsage *u;

	SpinLockAcquire(&t->mutex);
	max = t->nusage;
	SpinLockRelease(&t->mutex);
	m->slot = palloc0(Max(max, 1) * sizeof(Copy));
	m->walk = palloc0(Max(max, 1) * sizeof(Walk));
	SpinLockAcquire(&t->mutex);
	u = t->usage;
	SpinLockRelease(&t->mutex);

	for (; u != NULL && m->nslots < max; u = u->next)
	{
		Copy *c = &m->slot[m->nslots++];

		SpinLockAcquire(&t->mutex);
		c->key = u->key;
		c->done = u->done;
		c->num_uc = u->num_uc;
		c->per_units = u->per_units;
		c->ring = u->ring;
		SpinLockRelease(&t->mutex);
		give_walk(m, c);
	}
}

static void
copy_memory(const char *tenant, Memory *m)
{
	MtrTenant *t;

	memset(m, 0, sizeof(*m));
	if (RecoveryInProgress()) /* a standby has nothing in memory */
		return;
	LWLockAcquire(MtrShared->lock, LW_SHARED);
	t = mtr_tenant_lookup(mtr_db() - MtrShared->db, tenant);
	if (t != NULL)
		copy_slots(t, m);
	LWLockRelease(MtrShared->lock);
}

static const pg_uuid_t *
uuid_cell(uint64 row, int col)
{
	bool isnull;

	return DatumGetUUIDP(SPI_getbinval(SPI_tuptable->vals[row],
									   SPI_tuptable->tupdesc, col, &isnull));
}

/*
 * One row of usage_marks or usage_sync: gives its slot the mark, if it is of buffered
 * usage, and its price the start.
 */
static void
apply_mark(Memory *m, uint64 row)
{
	const pg_uuid_t *key_id = uuid_cell(row, 2);
	const pg_uuid_t *price_id = uuid_cell(row, 4);
	char            *meter = mtr_cell(row, 1);
	char            *route = mtr_cell(row, 3);
	int              w = walk_of(m, price_id);
	bool             isnull;
	int64            mark = DatumGetInt64(SPI_getbinval(
				   SPI_tuptable->vals[row], SPI_tuptable->tupdesc, 5, &isnull));

	if (w >= 0)
		m->walk[w].x += mark;
	if (DatumGetBool(SPI_getbinval(SPI_tuptable->vals[row],
								   SPI_tuptable->tupdesc, 6, &isnull)))
		return;
	for (int i = 0; i < m->nslots; i++)
	{
		MtrUsageKey *k = &m->slot[i].key;

		if (memcmp(&k->key_id, key_id, UUID_LEN) == 0 &&
			memcmp(&k->price_id, price_id, UUID_LEN) == 0 &&
			strcmp(mtr_meter_name((MtrMeter) k->meter), meter) == 0 &&
			strcmp(mtr_route_template(k->route), route) == 0)
			m->slot[i].mark = mark;
	}
}

static int
cut_slot(Memory *m, const Copy *c, MtrUnflushed *out)
{
	struct mtr_segment seg[MTR_RING_MARKS];
	Walk              *w = c->walk >= 0 ? &m->walk[c->walk] : NULL;
	int                n;

	if (c->done <= c->mark)
		return 0;
	n = mtr_ring_segments(&c->ring, c->mark, c->done, seg);
	for (int i = 0; i < n; i++)
	{
		out[i].key = c->key;
		out[i].minute = seg[i].minute;
		out[i].qty = seg[i].upto - seg[i].from;
		out[i].cost_uc = 0;
		if (w == NULL)
			continue;
		if (!mtr_price_step(w->x, out[i].qty, c->num_uc, c->per_units,
							&out[i].cost_uc))
			elog(ERROR, "cost of unflushed usage out of range");
		w->x += out[i].qty;
	}
	return n;
}

MtrUnflushed *
mtr_unflushed(const char *tenant, Snapshot snapshot, int *n)
{
	Memory        m;
	Datum         args[1];
	MtrUnflushed *out;

	copy_memory(tenant, &m);
	*n = 0;
	if (m.nslots == 0)
		return NULL;
	args[0] = CStringGetTextDatum(tenant);
	mtr_exec_at(&stmt_marks, args, NULL, snapshot, 0);
	for (uint64 row = 0; row < SPI_processed; row++)
		apply_mark(&m, row);

	out = palloc0(m.nslots * MTR_RING_MARKS * sizeof(MtrUnflushed));
	for (int i = 0; i < m.nslots; i++)
		*n += cut_slot(&m, &m.slot[i], out + *n);
	return out;
}
