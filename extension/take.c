/*
 * take.c
 *		Taking for rows of the ledger (see gate.h).
 *
 * As a rule one step under the tenant's spinlock does it.	When more grants have to
 * pay than there are cells, one takes what the cells have, frees those that are used up
 * by that (loose.h), loads the purse again, and goes on with the rest.	 In the end all is
 * taken, or all is given back.	 Every step is noted at once, so that an error in between
 * undoes it.
 *
 * Locking: as in gate.c.
 */
#include "mortar.h"

#include "utils/timestamp.h"

#include "loose.h"
#include "refill.h"
#include "reservation.h"
#include "slot_load.h"

/* how often one tries whether the purse can be loaded again */
#define AGAIN_POLL_MS 10

/* ---- loading the purse again ---- */

/*
 * Does nobody but this transaction stand in the way?  A grant that pays for its usage
 * keeps its cell to the end.	Usage takes from so many cells in one step, so that it
 * can also be in its own way; but then others may still use up what is in them.
 */
static bool
is_for_ever(MtrTenant *t, bool is_usage)
{
	const MtrPinned *pin = mtr_xact_pinned(t);
	bool             result = true;

	SpinLockAcquire(&t->mutex);
	for (int i = 0; i < MTR_PURSE_CELLS; i++)
	{
		const struct mtr_cell *c = &t->purse.cell[i];

		result =
			result && ((pin->burned & (1u << i)) != 0 ||
					   (is_usage && c->grant.remaining > 0 &&
						(c->state == MTR_CELL_LIVE || (pin->own & (1u << i)))));
	}
	SpinLockRelease(&t->mutex);
	return result;
}

void
mtr_raise_many_grants(const MtrTenant *t)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("too many grants of tenant \"%s\" would have to pay for "
					"usage of one transaction",
					t->tenant_id),
			 errdetail("At most %d grants can.", MTR_PURSE_CELLS),
			 errhint("Record less usage in one transaction, or give credits in "
					 "larger grants.")));
}

/* unlimited: no grant is waited for, but that usage is flushed */
static void
raise_unflushed(MtrTenant *t)
{
	const MtrPinned *pin = mtr_xact_pinned(t);
	int              mode;

	SpinLockAcquire(&t->mutex);
	mode = t->purse.mode + pin->mode;
	SpinLockRelease(&t->mutex);
	if (mode != MTR_PURSE_UNLIMITED)
		return;
	ereport(
		ERROR,
		(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
		 errmsg("unflushed usage of tenant \"%s\" out of range", t->tenant_id),
		 errdetail("It costs at most " INT64_FORMAT " micro-credits.",
				   MTR_MAX_AMOUNT_UC),
		 errhint("Record less usage in one transaction; or the flusher "
				 "may be behind, see mortar.flusher.")));
}

void
mtr_gate_wait(MtrTenant *t, MtrAgain *again)
{
	int64 now;

	/* perhaps one of these holds a grant to its cell */
	if (mtr_reservations_expire(t))
		return;
	now = mtr_now_ms();
	if (again->deadline == 0)
		again->deadline = now + MTR_SLOT_WAIT_MS;
	if (now >= again->deadline && again->is_usage && is_for_ever(t, true))
		mtr_raise_many_grants(t);
	if (now >= again->deadline)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("grants of tenant \"%s\" cannot be loaded now",
						t->tenant_id),
				 errdetail("%d grants at a time are in memory, and running "
						   "transactions, or answers that are being sent, use "
						   "them.",
						   MTR_PURSE_CELLS),
				 errhint("Try again.")));
	mtr_wake_flusher(&MtrShared->db[t->db]);
	mtr_slot_nap(AGAIN_POLL_MS);
}

void
mtr_gate_again(MtrTenant *t, MtrAgain *again, MtrPaid *paid)
{
	bool was_loaded = again->loaded;
	int  freed;

	again->is_usage = paid == NULL;
	if (again->kept == NULL)
		again->kept = palloc0(sizeof(MtrKept));
	freed = mtr_loosen(t, paid, &again->kept->version);
	again->loaded = mtr_refill_kept(t, again->kept);
	if (again->loaded && (freed > 0 || !was_loaded))
		return;
	if (again->loaded && is_for_ever(t, false))
		mtr_raise_many_grants(t);
	/* who waits for a grant's cell, and takes nothing, does not come here */
	if (again->deadline != 0 && mtr_now_ms() >= again->deadline)
		raise_unflushed(t);
	mtr_gate_wait(t, again);
}

void
mtr_gate_done(MtrAgain *again)
{
	if (again->kept == NULL)
		return;
	mtr_kept_free(again->kept);
	pfree(again->kept);
}

void
mtr_gate_refresh(MtrTenant *t)
{
	bool is_wanted;

	if (!mtr_loose_any())
		return;
	SpinLockAcquire(&t->mutex);
	is_wanted = t->purse.reload_wanted;
	SpinLockRelease(&t->mutex);
	if (!is_wanted)
		return;
	(void) mtr_loosen(t, NULL, NULL);
	(void) mtr_refill(t, NULL, NULL, NULL, NULL);
}

/* ---- what is taken ---- */

void
mtr_paid_reserve(MtrPaid *paid, int n)
{
	if (paid->n + n <= paid->max)
		return;
	paid->max = Max(paid->n + n, 2 * paid->max);
	if (paid->part == NULL)
	{
		paid->part = palloc(paid->max * sizeof(*paid->part));
		paid->own = palloc(paid->max * sizeof(*paid->own));
		return;
	}
	paid->part = repalloc_huge(paid->part, paid->max * sizeof(*paid->part));
	paid->own = repalloc_huge(paid->own, paid->max * sizeof(*paid->own));
}

/* notes what a step has taken; returns how much */
static int64
note(MtrTenant *t, const MtrParts *parts, MtrPaid *paid)
{
	int64 sum = 0;

	for (int i = 0; i < parts->n; i++)
	{
		paid->own[paid->n] = parts->own[i];
		paid->part[paid->n++] = parts->part[i];
		sum += parts->part[i].amount;
	}
	mtr_note_parts(t, parts, MTR_FOR_ENTRIES);
	return sum;
}

/* own grants that have no cell pay first, like those that have one */
static int64
take_own_behind(MtrTenant *t, int64 amount, MtrPaid *paid)
{
	TimestampTz now = GetCurrentTimestamp();
	MtrPinned  *pin = mtr_xact_pinned(t);
	int64       x;

	if (pin->behind_uc == 0)
		return 0;
	SpinLockAcquire(&t->mutex);
	now = Max(now, t->last_posted);
	mtr_purse_advance(&t->purse, now);
	x = mtr_behind_locked(t, pin, amount);
	SpinLockRelease(&t->mutex);
	return x > 0 ? mtr_loose_take_own(t, now, x, paid) : 0;
}

/*
 * Of a tenant in unlimited mode a row of the ledger moves nothing in memory.  What
 * the purse counts there is usage that has to be flushed.	The mutex is held.
 */
static void
uncount_issued(MtrTenant *t, TimestampTz now, const MtrParts *parts)
{
	for (int i = 0; i < parts->n; i++)
		if (parts->part[i].cell == MTR_PURSE_ISSUED)
			mtr_purse_back(&t->purse, now, MTR_PURSE_ISSUED,
						   parts->part[i].amount);
}

/* one step; *rest is what is left to be taken */
static MtrTaken
take_some(MtrTenant *t, int64 *rest, bool may_drain, MtrPaid *paid,
		  MtrShortfall *s)
{
	TimestampTz now = GetCurrentTimestamp();
	MtrPinned  *pin;
	MtrParts    parts;
	MtrTaken    taken;

	mtr_xact_reserve(2 * MTR_PURSE_SOURCES);
	mtr_paid_reserve(paid, MTR_PURSE_SOURCES);
	pin = mtr_xact_pinned(t);
	SpinLockAcquire(&t->mutex);
	taken = mtr_take_locked(t, pin, now, *rest, &parts, s);
	/* while another has loose grants, what is taken could not get loose: wait first */
	if (taken == MTR_TAKEN_AGAIN && may_drain &&
		t->giving == (mtr_is_giving(pin) ? 1 : 0))
		(void) mtr_drain_locked(t, pin, now, *rest, &parts);
	uncount_issued(t, now, &parts);
	SpinLockRelease(&t->mutex);
	*rest -= note(t, &parts, paid);
	return taken;
}

bool
mtr_take(MtrTenant *t, int64 amount_uc, MtrPaid *paid, MtrShortfall *s)
{
	MtrAgain again = {0};
	int64    rest = amount_uc;

	Assert(amount_uc > 0 && amount_uc <= MTR_MAX_AMOUNT_UC);
	memset(paid, 0, sizeof(*paid));
	mtr_gate_refresh(t);
	rest -= take_own_behind(t, rest, paid);
	while (rest > 0)
	{
		int64    before = rest;
		MtrTaken taken = take_some(t, &rest, again.loaded, paid, s);
		if (taken != MTR_TAKEN_AGAIN)
			break;
		/* who gets on does not wait */
		if (rest < before)
			again.deadline = 0;
		mtr_gate_again(t, &again, paid);
	}
	mtr_gate_done(&again);
	if (rest == 0)
		return true;
	mtr_untake(t, paid);
	s->required_uc = amount_uc;
	s->available_uc = mtr_available(t);
	return false;
}

/* gives back what the purse has paid; the record of it goes, too */
static void
untake_part(MtrTenant *t, MtrPinned *pin, TimestampTz now, struct mtr_part part)
{
	if (part.cell == MTR_PURSE_ISSUED)
		return;
	SpinLockAcquire(&t->mutex);
	if (MTR_IS_LOOSE(part.cell))
		mtr_loose_back(t, pin, now, part.cell, part.amount);
	else
		mtr_purse_back(&t->purse, now, part.cell, part.amount);
	SpinLockRelease(&t->mutex);
	mtr_xact_undebit(t, &part);
}

void
mtr_untake(MtrTenant *t, MtrPaid *paid)
{
	TimestampTz now = GetCurrentTimestamp();
	MtrPinned  *pin;

	mtr_xact_reserve(paid->n);
	pin = mtr_xact_pinned(t);
	for (int i = 0; i < paid->n; i++)
	{
		struct mtr_part part = paid->part[i];
		struct mtr_part own = {.cell = part.cell, .amount = paid->own[i]};

		part.amount -= own.amount;
		if (own.amount > 0)
			mtr_xact_refund(t, &own);
		if (part.amount > 0)
			untake_part(t, pin, now, part);
	}
	SpinLockAcquire(&t->mutex);
	mtr_purse_settle(&t->purse, now, 0);
	SpinLockRelease(&t->mutex);
	paid->n = 0;
}
