/*
 * gate.c
 *		The credit gate: admit, take, give, price (see gate.h).
 *
 * Everything happens under the tenant's spinlock, in one acquisition per
 * step, and is recorded in xact.c before the lock is released to anyone who
 * could abort: room for the record is reserved first, so recording cannot fail.
 *
 * The cost of q units on top of the priced quantity p is f(p + q) - f(p) with
 * f(x) = floor(x * num / per): costs telescope, so that any sequence of calls
 * and aborts costs exactly f(what remained).
 */
#include "mortar.h"

#include "access/xact.h"

#include "core/price.h"
#include "price.h"
#include "slot_load.h"
#include "xact.h"

/* how often one looks whether usage has been flushed meanwhile */
#define BOUND_POLL_MS 10

int64
mtr_available(MtrTenant *t)
{
	int64 available;

	SpinLockAcquire(&t->mutex);
	available = t->available;
	SpinLockRelease(&t->mutex);
	return available + mtr_xact_pinned(t)->pending;
}

bool
mtr_gate_admit(MtrTenant *t, int16 route, uint32 meters, MtrShortfall *s)
{
	const MtrPrice *prices = mtr_prices(t, route);
	int64           pending = mtr_xact_pinned(t)->pending;
	bool            costs = false;
	bool            ok;

	for (int m = 0; m < MTR_METERS; m++)
		if ((meters & (1u << m)) && prices[m].num_uc > 0)
			costs = true;
	if (!costs)
		return true;

	SpinLockAcquire(&t->mutex);
	s->available_uc = t->available + pending;
	ok = s->available_uc > t->floor;
	SpinLockRelease(&t->mutex);
	s->required_uc = 1;
	return ok;
}

/*
 * Takes cost from the transaction's own grants first, then from the slot.
 * The mutex is held.  False, with nothing changed, when the slot cannot pay.
 */
static bool
take_locked(MtrTenant *t, int64 cost, int64 pending, int64 *from_pending,
			MtrShortfall *s)
{
	int64 own = Min(cost, Max(pending, 0));
	int64 rest = cost - own;

	if (rest > 0 && (t->available < t->floor || rest > t->available - t->floor))
	{
		s->required_uc = cost;
		s->available_uc = t->available + pending;
		return false;
	}
	t->available -= rest;
	*from_pending = own;
	return true;
}

bool
mtr_take(MtrTenant *t, int64 amount_uc, MtrShortfall *s)
{
	int64 pending = mtr_xact_pinned(t)->pending;
	int64 own = 0;
	bool  ok;

	Assert(amount_uc > 0 && amount_uc <= MTR_MAX_AMOUNT_UC);
	mtr_xact_reserve(1);
	SpinLockAcquire(&t->mutex);
	ok = take_locked(t, amount_uc, pending, &own, s);
	SpinLockRelease(&t->mutex);
	if (ok)
		mtr_xact_debit(t, amount_uc - own, own);
	return ok;
}

void
mtr_untake(MtrTenant *t, int64 amount_uc)
{
	mtr_xact_reserve(1);
	SpinLockAcquire(&t->mutex);
	t->available += amount_uc;
	SpinLockRelease(&t->mutex);
	mtr_xact_debit(t, -amount_uc, 0);
}

void
mtr_give(MtrTenant *t, int64 amount_uc)
{
	bool ok;

	Assert(amount_uc > 0 && amount_uc <= MTR_MAX_AMOUNT_UC);
	mtr_xact_reserve(1);
	SpinLockAcquire(&t->mutex);
	/* each of the three is at most a quarter of int64, so is their sum */
	ok = t->available + t->incoming <= MTR_MAX_AMOUNT_UC - amount_uc;
	if (ok)
		t->incoming += amount_uc;
	SpinLockRelease(&t->mutex);
	if (!ok)
		ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
						errmsg("balance out of range"),
						errdetail("A balance is at most " INT64_FORMAT
								  " micro-credits.",
								  MTR_MAX_AMOUNT_UC)));
	mtr_xact_credit(t, amount_uc);
}

/*
 * What n quantities cost together.	 The mutex is held.  False when a counter
 * would leave its range; a cost beyond int64 is one that nobody can pay.
 */
static bool
price_locked(MtrTenant *t, const MtrUsageRef *refs, const int64 *qty, int n,
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
			cost[i] = PG_INT64_MAX / MTR_METERS;
		else if (!mtr_price_fits(c->priced + qty[i], c->num_uc, c->per_units))
			return false;
		*total += cost[i];
	}
	return true;
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
		int64             qty = c->priced - pin->charged[i] - c->flushed;
		int64             cost;

		if (c->num_uc > 0 && qty > 0 &&
			(!mtr_price_step(c->flushed, qty, c->num_uc, c->per_units, &cost) ||
			 cost > 0))
			return false;
	}
	return true;
}

/* what one charge comes to */
typedef struct Bill
{
	int64 cost[MTR_METERS];
	int64 total;
	int64 own; /* of the total, what the transaction's own grants pay */
} Bill;

typedef enum Charged
{
	CHARGED,
	CHARGED_OUT_OF_RANGE,
	CHARGED_SHORT,
	CHARGED_LATER /* more would be unflushed than may be */
} Charged;

/* all or nothing, under one acquisition of the mutex */
static Charged
try_charge(MtrUsageRef *refs, const int64 *qty, int n, Bill *b, MtrShortfall *s)
{
	MtrTenant       *t = refs[0].tenant;
	const MtrPinned *pin = mtr_xact_pinned(t);
	Charged          result = CHARGED;

	SpinLockAcquire(&t->mutex);
	if (!price_locked(t, refs, qty, n, b->cost, &b->total))
		result = CHARGED_OUT_OF_RANGE;
	else if (!take_locked(t, b->total, pin->pending, &b->own, s))
		result = CHARGED_SHORT;
	else if (b->total > 0 &&
			 b->total > t->max_unflushed_uc + pin->limit - t->unflushed_uc &&
			 !is_alone_locked(t, pin))
	{
		t->available += b->total - b->own;
		result = CHARGED_LATER;
	}
	else
	{
		t->unflushed_uc += b->total;
		for (int i = 0; i < n; i++)
		{
			refs[i].usage->taken += qty[i];
			if (refs[i].counter >= 0)
				t->counter[refs[i].counter].priced += qty[i];
		}
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
charge_in_bound(MtrUsageRef *refs, const int64 *qty, int n, Bill *b,
				MtrShortfall *s)
{
	MtrTenant *t = refs[0].tenant;
	Charged    result;
	int64      deadline = 0;

	while ((result = try_charge(refs, qty, n, b, s)) == CHARGED_LATER)
	{
		int64 now = mtr_now_ms();

		if (deadline == 0)
			deadline = now + MTR_SLOT_WAIT_MS;
		if (now >= deadline)
			raise_unflushed(t);
		mtr_wake_flusher(&MtrShared->db[t->db]);
		mtr_slot_nap(BOUND_POLL_MS);
	}
	return result;
}

bool
mtr_usage_charge(MtrUsageRef *refs, const int64 *qty, int n, MtrShortfall *s)
{
	Bill    b = {.own = 0};
	Charged result;

	Assert(n > 0 && n <= MTR_METERS);
	mtr_xact_reserve(n);
	result = charge_in_bound(refs, qty, n, &b, s);
	if (result == CHARGED_OUT_OF_RANGE)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("usage quantity out of range"),
				 errdetail("A usage slot counts up to " INT64_FORMAT
						   ", and what one price has ever charged a "
						   "tenant is at most " INT64_FORMAT " micro-credits.",
						   MTR_MAX_QUANTITY, PG_INT64_MAX)));
	for (int i = 0; result == CHARGED && i < n; i++)
	{
		int64 part = Min(b.own, b.cost[i]);

		if (qty[i] > 0)
			mtr_xact_usage(&refs[i], qty[i], part);
		b.own -= part;
	}
	return result == CHARGED;
}

void
mtr_raise_short(const MtrShortfall *s)
{
	ereport(
		ERROR,
		(errcode(MTR_ERR_CREDIT), errmsg("Not enough credits."),
		 errdetail(
			 "{\"code\":\"insufficient_credit\",\"required_uc\":" INT64_FORMAT
			 ",\"available_uc\":" INT64_FORMAT "}",
			 s->required_uc, s->available_uc)));
}
