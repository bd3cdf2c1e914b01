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
#include "xact.h"

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
mtr_gate_admit(MtrTenant *t, uint32 meters, MtrShortfall *s)
{
	const MtrPrice *prices = mtr_prices();
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
		*total += cost[i];
	}
	return true;
}

bool
mtr_usage_charge(MtrUsageRef *refs, const int64 *qty, int n, MtrShortfall *s)
{
	MtrTenant *t = refs[0].tenant;
	int64      pending = mtr_xact_pinned(t)->pending;
	int64      cost[MTR_METERS];
	int64      total;
	int64      own = 0;
	bool       in_range;
	bool       ok = false;

	Assert(n > 0 && n <= MTR_METERS);
	mtr_xact_reserve(n);

	SpinLockAcquire(&t->mutex);
	in_range = price_locked(t, refs, qty, n, cost, &total);
	if (in_range)
		ok = take_locked(t, total, pending, &own, s);
	if (ok)
		for (int i = 0; i < n; i++)
		{
			refs[i].usage->taken += qty[i];
			if (refs[i].counter >= 0)
				t->counter[refs[i].counter].priced += qty[i];
		}
	SpinLockRelease(&t->mutex);

	if (!in_range)
		ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
						errmsg("usage quantity out of range"),
						errdetail("A usage slot counts up to " INT64_FORMAT ".",
								  MTR_MAX_QUANTITY)));
	for (int i = 0; ok && i < n; i++)
	{
		int64 part = Min(own, cost[i]);

		if (qty[i] > 0)
			mtr_xact_usage(&refs[i], qty[i], part);
		own -= part;
	}
	return ok;
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
