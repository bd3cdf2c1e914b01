/*
 * refund.c
 *		What a transaction gives back to a tenant, and what it holds.
 *
 * Credits come back when the transaction commits: others cannot spend what might
 * not come.  The transaction itself can, as it can spend what it grants itself.
 * Then they never were in the purse: less comes back, and the grant that would have
 * got them has paid.  So nothing has to be undone in the purse when that aborts.
 *
 * What comes back to debt lowers the floor of the transaction (gate.c).
 *
 * Locking: as in gate.c.
 */
#include "mortar.h"

#include "utils/timestamp.h"

#include "loose.h"
#include "xact.h"

/* can this transaction spend what comes back to the cell? */
static bool
is_spendable(const MtrTenant *t, int cell)
{
	uint8 state = t->purse.cell[cell].state;

	/* INCOMING: its own, of which it has spent something */
	return cell < MTR_PURSE_CELLS &&
		   (state == MTR_CELL_LIVE || state == MTR_CELL_INCOMING);
}

int64
mtr_own_refunds(const MtrTenant *t, const MtrPinned *pin)
{
	int64 sum = pin->refund[MTR_PURSE_DEBT];

	if (!pin->refunds)
		return 0;
	for (int i = 0; i < MTR_PURSE_CELLS; i++)
		if (pin->refund[i] > 0 && is_spendable(t, i))
			sum += pin->refund[i];
	return sum;
}

int64
mtr_take_own_refunds(const MtrTenant *t, const MtrPinned *pin, int64 amount,
					 MtrParts *parts)
{
	int64 taken = 0;

	for (int i = 0; i < t->purse.n && taken < amount; i++)
	{
		int   cell = t->purse.order[i];
		int64 x = Min(pin->refund[cell], amount - taken);

		if (x == 0 || !is_spendable(t, cell))
			continue;
		parts->part[parts->n].cell = (int16) cell;
		parts->part[parts->n].amount = x;
		parts->own[parts->n++] = x;
		taken += x;
	}
	return taken;
}

void
mtr_note_parts(MtrTenant *t, const MtrParts *parts, MtrPurpose what)
{
	for (int i = 0; i < parts->n; i++)
	{
		struct mtr_part part = parts->part[i];
		struct mtr_part own = {.cell = part.cell, .amount = parts->own[i]};
		struct mtr_part less = {.cell = part.cell, .amount = -parts->own[i]};

		part.amount -= own.amount;
		if (own.amount != 0)
		{
			mtr_xact_refund(t, &less);
			if (what != MTR_FOR_ENTRIES)
				mtr_xact_burn_own(t, &own, what == MTR_FOR_DURABLE);
		}
		if (part.amount == 0)
			continue;
		if (what != MTR_FOR_ENTRIES)
			mtr_xact_burn(t, &part, what == MTR_FOR_DURABLE);
		else
			mtr_xact_debit(t, &part);
	}
}

/*
 * The mutex is held.  May so much come back?  What this transaction holds of the
 * grant itself is not counted twice.
 */
static bool
fits(MtrTenant *t, const MtrPinned *pin, int cell, int64 amount)
{
	struct mtr_cell *c = &t->purse.cell[cell];
	int              own = pin->cells & (1u << cell) ? 1 : 0;
	bool             ok;

	if (cell >= MTR_PURSE_CELLS)
		return true;
	c->refs -= own;
	ok = mtr_purse_fits(&t->purse, amount + t->giving_uc);
	c->refs += own;
	return ok;
}

/* the mutex is held: nobody reads grants from tables before this comes back to one */
static void
count_loose(MtrTenant *t, MtrPinned *pin, int64 amount)
{
	t->giving += mtr_is_giving(pin) ? 0 : 1;
	t->giving_uc += amount;
	pin->giving_uc += amount;
	pin->loose++;
}

void
mtr_refund(MtrTenant *t, int cell, int64 amount)
{
	MtrPinned      *pin = mtr_xact_pinned(t);
	struct mtr_part part = {.cell = cell, .amount = amount};
	bool            ok = true;

	/* what was issued has never moved a credit: nothing comes back */
	if (cell == MTR_PURSE_ISSUED)
		part.amount = 0;

	Assert(amount > 0 && amount <= MTR_MAX_AMOUNT_UC);
	mtr_xact_reserve(1);
	if (MTR_IS_LOOSE(cell) && mtr_loose_at(cell)->own)
	{
		/* nobody else has to do with it: it is as if it had not been taken */
		mtr_loose_back(t, pin, 0, cell, amount);
		part.amount = -amount;
		mtr_xact_debit(t, &part);
		return;
	}
	if (cell >= 0)
	{
		SpinLockAcquire(&t->mutex);
		ok = fits(t, pin, cell, amount);
		if (ok && cell != MTR_PURSE_ISSUED)
			mtr_ref_cell(t, pin, cell);
		SpinLockRelease(&t->mutex);
	}
	else if (MTR_IS_LOOSE(cell))
	{
		SpinLockAcquire(&t->mutex);
		ok = mtr_purse_fits(&t->purse, amount + t->giving_uc);
		if (ok)
			count_loose(t, pin, amount);
		SpinLockRelease(&t->mutex);
	}
	if (!ok)
		mtr_raise_out_of_range();
	mtr_xact_refund(t, &part);
}

void
mtr_hold_begin(MtrTenant *t, int64 amount, TimestampTz expires_at)
{
	bool ok;

	mtr_xact_reserve(1);
	SpinLockAcquire(&t->mutex);
	ok = amount <= MTR_MAX_AMOUNT_UC - t->held;
	if (ok)
		t->held += amount;
	SpinLockRelease(&t->mutex);
	if (!ok)
		mtr_raise_out_of_range();
	mtr_xact_hold(t, amount, expires_at);
}

void
mtr_hold_end(MtrTenant *t, int64 amount)
{
	mtr_xact_reserve(1);
	mtr_xact_unhold(t, amount);
}

void
mtr_hold_release(MtrTenant *t, int64 amount)
{
	mtr_hold_end(t, amount);
	mtr_xact_reserve(1);
	SpinLockAcquire(&t->mutex);
	t->releasing_uc += amount;
	SpinLockRelease(&t->mutex);
	mtr_xact_releasing(t, amount);
}
