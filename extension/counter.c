/*
 * counter.c
 *		Counters of prices: finding one, bringing it in, making room for it.
 *
 * A tenant may be charged by more prices than its slot has room for counters:
 * each route may have its own, and every change begins a new one.  So counters
 * are a cache.  One that nobody holds and whose quantity is flushed has
 * nothing that the tables do not have; when it makes room for another one and
 * its price is needed again, it starts from the sum of the price's marks and of what
 * waits in mortar.usage_sync (sync.h).
 *
 * Why that sum is right: while a counter is not in memory nobody can add to its
 * price, and all there was is committed (a flush moves flushed after its
 * commit).  It might come, grow, be flushed and go again between the reading of
 * the marks and its return; then MtrTenant.recycled has grown, and they are
 * read once more.
 *
 * Prices of 0 have no counter: whatever the quantity, it costs nothing.
 *
 * Locking: the tenant's mutex guards its counters; the caller's transaction pins
 * the tenant.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "core/price.h"
#include "counter.h"
#include "slot.h"
#include "spi.h"
#include "untimed.h"

StaticAssertDecl(MTR_COUNTERS < 31, "a bit per counter, and MTR_CLAIMED_USAGE");

static MtrStmt stmt_quantity = {
	.sql = "SELECT coalesce((SELECT pg_catalog.sum(upto_qty)"
		   "    FROM mortar.usage_marks"
		   "    WHERE tenant_id = $1 AND price_id = $2), 0)::pg_catalog.int8,"
		   "  coalesce((SELECT pg_catalog.sum(qty) FROM mortar.usage_sync"
		   "    WHERE tenant_id = $1 AND price_id = $2), 0)::pg_catalog.int8",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 2,
	.argtypes = {TEXTOID, UUIDOID},
};

typedef struct Quantity
{
	const char      *tenant;
	const pg_uuid_t *price_id;
	int64            flushed; /* what tables have of the price */
	int64            queued;
} Quantity;

/* for mtr_untimed: a tenant may have many keys, and so many marks */
static void
read_quantity(void *arg)
{
	Quantity *q = arg;
	Datum     args[2];
	bool      isnull;

	SPI_connect();
	args[0] = CStringGetTextDatum(q->tenant);
	args[1] = UUIDPGetDatum(q->price_id);
	mtr_exec(&stmt_quantity, args, NULL, MTR_SNAP_OTHERS, 1);
	q->flushed = DatumGetInt64(mtr_first(1, &isnull));
	q->queued = DatumGetInt64(mtr_first(2, &isnull));
	SPI_finish();
}

static bool
is_of(const MtrCounter *c, const pg_uuid_t *price_id)
{
	return memcmp(&c->price_id, price_id, UUID_LEN) == 0;
}

int
mtr_counter_find_locked(const MtrTenant *t, const pg_uuid_t *price_id)
{
	for (int i = 0; i < MTR_COUNTERS; i++)
		if (is_of(&t->counter[i], price_id))
			return i;
	return -1;
}

static void
hold_locked(MtrPinned *pin, int at)
{
	MtrCounter *c = &pin->tenant->counter[at];

	c->used = true;
	if ((pin->claimed & (1u << at)) != 0)
		return;
	c->refs++;
	pin->claimed |= 1u << at;
}

int
mtr_counter_claim_locked(MtrPinned *pin, MtrUsage *u)
{
	int at = u->counter;

	if (!is_of(&pin->tenant->counter[at], &u->key.price_id))
		at = mtr_counter_find_locked(pin->tenant, &u->key.price_id);
	if (at < 0)
		return -1;
	u->counter = (int16) at;
	hold_locked(pin, at);
	return at;
}

/*
 * A place that is free or whose counter may go, -1: none.  Those used since the
 * last round are passed over once.
 */
static int
spare_locked(MtrTenant *t)
{
	for (int i = 0; i < MTR_COUNTERS; i++)
		if (mtr_uuid_is_nil(&t->counter[i].price_id))
			return i;
	for (int i = 0; i < 2 * MTR_COUNTERS; i++)
	{
		int         at = t->counter_hand;
		MtrCounter *c = &t->counter[at];

		if (c->refs == 0 && c->priced - c->queued == c->flushed && !c->used)
			return at;
		c->used = false;
		t->counter_hand = (int16) ((at + 1) % MTR_COUNTERS);
	}
	return -1;
}

static void
place_locked(MtrTenant *t, int at, MtrMeter meter, const MtrPrice *price,
			 const Quantity *q)
{
	MtrCounter *c = &t->counter[at];

	if (!mtr_uuid_is_nil(&c->price_id))
		t->recycled++;
	memset(c, 0, sizeof(*c));
	c->price_id = price->price_id;
	c->meter = (int16) meter;
	c->num_uc = price->num_uc;
	c->per_units = price->per_units;
	c->done = c->flushed = q->flushed;
	c->queued = q->queued;
	c->priced = q->flushed + q->queued;
}

bool
mtr_counter_bring(MtrTenant *t, MtrMeter meter, const MtrPrice *price)
{
	Quantity q = {.tenant = t->tenant_id, .price_id = &price->price_id};

	for (;;)
	{
		MtrPinned *pin = mtr_xact_pinned(t);
		uint32     before;
		bool       again;
		bool       found;
		int        at;

		SpinLockAcquire(&t->mutex);
		before = t->recycled;
		at = mtr_counter_find_locked(t, &price->price_id);
		found = at >= 0;
		if (found)
			hold_locked(pin, at);
		else
			at = spare_locked(t);
		SpinLockRelease(&t->mutex);
		if (found || at < 0)
			return found;

		mtr_untimed(read_quantity, &q);
		pin = mtr_xact_pinned(t);
		SpinLockAcquire(&t->mutex);
		at = mtr_counter_find_locked(t, &price->price_id);
		again = at < 0 && t->recycled != before;
		if (at < 0 && !again)
		{
			at = spare_locked(t);
			if (at >= 0)
				place_locked(t, at, meter, price, &q);
		}
		if (at >= 0)
			hold_locked(pin, at);
		SpinLockRelease(&t->mutex);
		if (!again)
			return at >= 0;
		CHECK_FOR_INTERRUPTS();
	}
}

/* ---- what they come to (slot.h) ---- */

int64
mtr_counter_cost(const MtrCounter *c, int64 upto)
{
	int64 cost;

	if (c->per_units == 0 || upto <= c->flushed ||
		!mtr_price_step(c->flushed, upto - c->flushed, c->num_uc, c->per_units,
						&cost))
		return 0;
	return cost;
}

int64
mtr_unflushed_cost(const MtrTenant *t)
{
	int64 total = 0;

	for (int i = 0; i < MTR_COUNTERS; i++)
		total += mtr_counter_cost(&t->counter[i], t->counter[i].done);
	return total;
}

void
mtr_unflushed_settle(MtrTenant *t)
{
	t->unflushed_uc = 0;
	for (int i = 0; i < MTR_COUNTERS; i++)
	{
		const MtrCounter *c = &t->counter[i];

		t->unflushed_uc +=
			mtr_counter_cost(c, c->priced - c->queued - c->reserved);
	}
}
