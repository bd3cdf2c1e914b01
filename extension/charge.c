/*
 * charge.c
 *		Charging usage: priced and paid for in one step (see gate.h).
 *
 * The cost of q units on top of the priced quantity p is f(p + q) - f(p) with
 * f(x) = floor(x * num / per): costs telescope, so that any sequence of calls
 * and aborts costs exactly f(what remained).
 *
 * Everything happens under the tenant's spinlock, in one acquisition, and is
 * recorded in xact.c before anything could abort: room for the records is reserved
 * first, so recording cannot fail.
 */
#include "mortar.h"

#include "utils/timestamp.h"

#include "core/price.h"
#include "slot_load.h"
#include "sync.h"
#include "xact.h"

/* how often one looks whether usage has been flushed meanwhile */
#define BOUND_POLL_MS 10

/* one charge: what it comes to, and who has paid */
typedef struct Bill
{
	int64    cost[MTR_METERS];
	int64    total;
	MtrParts parts;
	bool     durable; /* no crash takes it: it has no bound (sync.h) */
} Bill;

typedef enum Charged
{
	CHARGED,
	CHARGED_OUT_OF_RANGE,
	CHARGED_SHORT,
	CHARGED_AGAIN, /* the purse has to be loaded again */
	CHARGED_LATER  /* more would be unflushed than may be */
} Charged;

bool
mtr_price_locked(MtrTenant *t, const MtrUsageRef *refs, const int64 *qty, int n,
				 int64 *cost, int64 *total)
{
	*total = 0;
	for (int i = 0; i < n; i++)
	{
		MtrCounter *c;

		cost[i] = 0;
		if (refs[i].usage->taken > MTR_MAX_QUANTITY - qty[i])
			return false;
		if (refs[i].counter < 0)
			continue;
		c = &t->counter[refs[i].counter];
		if (c->priced > MTR_MAX_QUANTITY - qty[i])
			return false;
		/* beyond int64, or beyond what any balance holds: nobody can pay */
		if (!mtr_price_step(c->priced, qty[i], c->num_uc, c->per_units,
							&cost[i]) ||
			cost[i] > MTR_MAX_AMOUNT_UC)
		{
			if (t->purse.mode != MTR_PURSE_HARD)
				return false;
			cost[i] = PG_INT64_MAX / MTR_METERS;
		}
		else if (!mtr_price_fits(c->priced + qty[i], c->num_uc, c->per_units))
			return false;
		*total += cost[i];
	}
	return t->purse.mode == MTR_PURSE_HARD || *total <= MTR_MAX_AMOUNT_UC;
}

int64
mtr_usage_cost(const MtrUsageRef *refs, const int64 *qty, int n)
{
	MtrTenant *t = refs[0].tenant;
	int64      cost[MTR_METERS];
	int64      total;
	bool       ok;

	SpinLockAcquire(&t->mutex);
	ok = mtr_price_locked(t, refs, qty, n, cost, &total);
	SpinLockRelease(&t->mutex);
	return ok ? total : 0;
}

/*
 * Would nothing be unflushed but for this transaction?	 The mutex is held.
 */
static bool
is_alone_locked(const MtrTenant *t, const MtrPinned *pin)
{
	for (int i = 0; i < MTR_COUNTERS; i++)
	{
		const MtrCounter *c = &t->counter[i];
		int64             qty =
			c->priced - c->queued - c->reserved - pin->charged[i] - c->flushed;
		int64 cost;

		if (c->num_uc > 0 && qty > 0 &&
			(!mtr_price_step(c->flushed, qty, c->num_uc, c->per_units, &cost) ||
			 cost > 0))
			return false;
	}
	return true;
}

/* the mutex is held */
static bool
is_beyond_bound(const MtrTenant *t, const MtrPinned *pin, int64 total)
{
	return total > 0 &&
		   total > t->max_unflushed_uc + pin->limit - t->unflushed_uc &&
		   !is_alone_locked(t, pin);
}

/* the mutex is held; it is paid for */
static void
count_locked(MtrTenant *t, const MtrUsageRef *refs, const int64 *qty, int n,
			 const Bill *b)
{
	if (!b->durable)
		t->unflushed_uc += b->total;
	for (int i = 0; i < n; i++)
	{
		refs[i].usage->taken += qty[i];
		if (refs[i].counter < 0)
			continue;
		t->counter[refs[i].counter].priced += qty[i];
		if (b->durable)
			t->counter[refs[i].counter].queued += qty[i];
	}
}

/* all or nothing, under one acquisition of the mutex */
static Charged
try_charge(const MtrUsageRef *refs, const int64 *qty, int n, Bill *b,
		   MtrShortfall *s)
{
	MtrTenant  *t = refs[0].tenant;
	MtrPinned  *pin = mtr_xact_pinned(t);
	TimestampTz now = GetCurrentTimestamp();
	MtrTaken    taken = MTR_TAKEN;
	Charged     result;

	b->parts.n = 0;
	SpinLockAcquire(&t->mutex);
	if (!mtr_price_locked(t, refs, qty, n, b->cost, &b->total))
		result = CHARGED_OUT_OF_RANGE;
	else if (!b->durable && is_beyond_bound(t, pin, b->total))
		result = mtr_is_short_locked(t, pin, now, b->total, s) ? CHARGED_SHORT
															   : CHARGED_LATER;
	else
	{
		if (b->total > 0)
			taken = mtr_take_locked(t, pin, now, b->total, &b->parts, s);
		if (taken == MTR_TAKEN)
			count_locked(t, refs, qty, n, b);
		result = taken == MTR_TAKEN         ? CHARGED
				 : taken == MTR_TAKEN_SHORT ? CHARGED_SHORT
											: CHARGED_AGAIN;
	}
	SpinLockRelease(&t->mutex);
	return result;
}

static void
raise_unflushed(MtrTenant *t)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("tenant \"%s\" has as much unflushed usage as it may have",
					t->tenant_id),
			 errdetail("Usage that a crash could lose may cost " INT64_FORMAT
					   " micro-credits.",
					   t->max_unflushed_uc),
			 errhint("The flusher may be behind, see mortar.flusher; or raise "
					 "max_unflushed_uc by mortar.set_limit().")));
}

/*
 * Nothing is taken while others' usage has to be flushed first.  A call dearer
 * than the bound is charged when nothing of others is unflushed: waiting longer
 * would not help it.  So is one that goes on after it has reached the bound, since
 * what a transaction has charged is not flushed before its end.
 */
static Charged
charge_in_bound(const MtrUsageRef *refs, const int64 *qty, int n, Bill *b,
				MtrShortfall *s)
{
	MtrTenant *t = refs[0].tenant;
	Charged    result;
	int64      deadline = 0;
	MtrAgain   again = {0};

	while ((result = try_charge(refs, qty, n, b, s)) >= CHARGED_AGAIN)
	{
		int64 now = mtr_now_ms();

		if (result == CHARGED_AGAIN)
		{
			mtr_gate_again(t, &again, NULL);
			continue;
		}
		if (deadline == 0)
			deadline = now + MTR_SLOT_WAIT_MS;
		if (now >= deadline)
			raise_unflushed(t);
		mtr_wake_flusher(&MtrShared->db[t->db]);
		mtr_slot_nap(BOUND_POLL_MS);
	}
	mtr_gate_done(&again);
	return result;
}

bool
mtr_usage_charge(MtrUsageRef *refs, const int64 *qty, int n,
				 MtrDurability durability, MtrShortfall *s)
{
	Bill    b = {.durable = durability != MTR_DURABLE_BUFFERED};
	Charged result;

	Assert(n > 0 && n <= MTR_METERS);
	mtr_xact_reserve(n + 3 * MTR_PURSE_SOURCES);
	mtr_gate_refresh(refs[0].tenant);
	result = charge_in_bound(refs, qty, n, &b, s);
	if (result == CHARGED_OUT_OF_RANGE)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("usage quantity out of range"),
				 errdetail("A usage slot counts up to " INT64_FORMAT
						   ", and what one price has ever charged a "
						   "tenant is at most " INT64_FORMAT " micro-credits.",
						   MTR_MAX_QUANTITY, PG_INT64_MAX)));
	/* usage is burned by cells, and what has none is not there before the commit */
	if (result == CHARGED_SHORT &&
		mtr_is_behind_enough(refs[0].tenant, b.total))
		mtr_raise_many_grants(refs[0].tenant);
	if (result != CHARGED)
		return false;
	for (int i = 0; i < n; i++)
		if (qty[i] > 0)
			mtr_xact_usage(&refs[i], qty[i], b.durable);
	mtr_note_parts(refs[0].tenant, &b.parts,
				   b.durable ? MTR_FOR_DURABLE : MTR_FOR_USAGE);
	if (b.durable)
		mtr_sync_write(refs, qty, b.cost, n, &b.parts, durability);
	return true;
}
