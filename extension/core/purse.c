/*
 * purse.c - who pays a debit, and where what is undone goes
 *
 * See purse.h for the model and purse_cell.h for the movements that everything
 * here is made of.  Called under a spinlock: no loop is longer than
 * MTR_PURSE_CELLS.
 *
 * No sum leaves int64: what grants hold is at most MTR_PURSE_MAX by
 * mtr_purse_fits, debt is by mtr_purse_take, and rounding adds a few
 * micro-credits to a quarter of the range.  Burns may wrap, since only the
 * difference of two of them is ever used.
 */
#include "core/purse.h"

#include <assert.h>

#include "core/purse_cell.h"

/* what remains of LIVE cells */
static int64_t
in_cells(const struct mtr_purse *p)
{
	return p->available - p->more_uc + p->debt;
}

/* ---- debits ---- */

static bool
is_own(const struct mtr_purse *p, int cell, uint32_t own)
{
	const struct mtr_cell *c = &p->cell[cell];

	return c->state == MTR_CELL_INCOMING && (own & (UINT32_C(1) << cell)) &&
		   c->grant.effective_at <= p->now && p->now < c->grant.expires_at;
}

int64_t
mtr_purse_own(const struct mtr_purse *p, uint32_t own)
{
	int64_t sum = 0;

	for (int i = 0; own != 0 && i < p->n; i++)
		if (is_own(p, p->order[i], own))
			sum += p->cell[p->order[i]].grant.remaining;
	return sum;
}

int64_t
mtr_purse_spendable(const struct mtr_purse *p, uint32_t own)
{
	int64_t sum;

	if (p->mode != MTR_PURSE_HARD)
		return MTR_PURSE_MAX;
	sum = p->available - p->floor + mtr_purse_own(p, own);
	return sum < 0 ? 0 : mtr_least(sum, MTR_PURSE_MAX);
}

/* unlimited: counted, up to what a sum can hold before a flush */
static enum mtr_take
take_issued(struct mtr_purse *p, int64_t amount, struct mtr_part *part, int *n)
{
	struct mtr_cell *c = &p->cell[MTR_PURSE_ISSUED];

	if (amount > MTR_PURSE_MAX - c->taken)
	{
		p->reload_wanted = true;
		return MTR_TAKE_AGAIN;
	}
	c->taken += amount;
	part[0].cell = MTR_PURSE_ISSUED;
	part[0].amount = amount;
	*n = 1;
	return MTR_TAKE_OK;
}

/* a crash makes debt of what was repaid and not written */
static int64_t
debt_room(const struct mtr_purse *p)
{
	int64_t repaid = -mtr_cell_unwritten(&p->cell[MTR_PURSE_DEBT]);

	return MTR_PURSE_MAX - p->debt - (repaid > 0 ? repaid : 0);
}

static enum mtr_take
may_take(struct mtr_purse *p, int64_t amount, uint32_t own)
{
	int64_t cells = in_cells(p) + mtr_purse_own(p, own);

	if (amount > mtr_purse_spendable(p, own) && !mtr_purse_is_stale(p))
		return MTR_TAKE_SHORT;
	if (amount > cells && (p->more_uc > 0 || mtr_purse_is_stale(p)))
	{
		p->reload_wanted = true;
		return MTR_TAKE_AGAIN;
	}
	/* a stale purse that has enough in cells may still be short of its floor */
	if (amount > mtr_purse_spendable(p, own))
		return MTR_TAKE_SHORT;
	return amount <= cells || amount - cells <= debt_room(p) ? MTR_TAKE_OK
															 : MTR_TAKE_SHORT;
}

/* takes from own INCOMING cells, or (own = 0) from LIVE ones; returns the rest */
static int64_t
take_from(struct mtr_purse *p, int64_t amount, uint32_t own,
		  struct mtr_part *part, int *n)
{
	for (int i = 0; i < p->n && amount > 0; i++)
	{
		int     cell = p->order[i];
		int64_t x = mtr_least(amount, p->cell[cell].grant.remaining);

		if (x == 0 || (own != 0 ? !is_own(p, cell, own)
								: p->cell[cell].state != MTR_CELL_LIVE))
			continue;
		mtr_cell_pay(p, cell, x);
		part[*n].cell = (int16_t) cell;
		part[(*n)++].amount = x;
		amount -= x;
	}
	return amount;
}

enum mtr_take
mtr_purse_take(struct mtr_purse *p, int64_t now, int64_t amount, uint32_t own,
			   struct mtr_part part[MTR_PURSE_SOURCES], int *n)
{
	enum mtr_take result;

	assert(amount > 0);
	*n = 0;
	mtr_purse_advance(p, now);
	if (amount > MTR_PURSE_MAX)
		return MTR_TAKE_SHORT;
	if (p->mode == MTR_PURSE_UNLIMITED)
		return take_issued(p, amount, part, n);
	result = may_take(p, amount, own);
	if (result != MTR_TAKE_OK)
		return result;
	if (own != 0)
		amount = take_from(p, amount, own, part, n);
	amount = take_from(p, amount, 0, part, n);
	if (amount > 0)
	{
		mtr_debt_add(p, amount);
		part[*n].cell = MTR_PURSE_DEBT;
		part[(*n)++].amount = amount;
	}
	mtr_purse_check(p);
	return MTR_TAKE_OK;
}

int64_t
mtr_purse_drain(struct mtr_purse *p, int64_t now, int64_t amount, uint32_t own,
				struct mtr_part part[MTR_PURSE_SOURCES], int *n)
{
	int64_t rest = amount;

	assert(amount > 0);
	*n = 0;
	mtr_purse_advance(p, now);
	if (p->mode == MTR_PURSE_UNLIMITED)
		return 0;
	if (own != 0)
		rest = take_from(p, rest, own, part, n);
	rest = take_from(p, rest, 0, part, n);
	mtr_purse_check(p);
	return amount - rest;
}

int64_t
mtr_purse_take_cell(struct mtr_purse *p, int64_t now, int cell, int64_t amount)
{
	int64_t x;

	assert(cell >= 0 && cell < MTR_PURSE_CELLS);
	assert(amount >= 0);
	mtr_purse_advance(p, now);
	if (p->cell[cell].state == MTR_CELL_FREE ||
		p->cell[cell].state == MTR_CELL_ENDED)
		return 0;
	x = mtr_least(amount, p->cell[cell].grant.remaining);
	mtr_cell_pay(p, cell, x);
	mtr_purse_check(p);
	return x;
}

/* ---- giving back ---- */

/* gives to grants in that state, the last to burn first; returns the rest */
static int64_t
give_to(struct mtr_purse *p, int64_t x, uint8_t state)
{
	for (int i = p->n - 1; i >= 0 && x > 0; i--)
	{
		int     cell = p->order[i];
		int64_t part = mtr_least(x, p->cell[cell].taken);

		if (p->cell[cell].state != state)
			continue;
		mtr_cell_pay(p, cell, -part);
		mtr_purse_burn(p, cell, -part);
		x -= part;
	}
	return x;
}

/* pays debt, or undoes what was taken of a grant; returns what has no place */
static int64_t
give(struct mtr_purse *p, int64_t x)
{
	int64_t part = mtr_least(x, p->debt);

	mtr_debt_add(p, -part);
	mtr_purse_burn(p, MTR_PURSE_DEBT, -part);
	return give_to(p, give_to(p, x - part, MTR_CELL_LIVE), MTR_CELL_ENDED);
}

/* takes x, whoever has it, else as debt */
static void
collect(struct mtr_purse *p, int64_t x)
{
	for (int i = 0; i < p->n && x > 0; i++)
	{
		int     cell = p->order[i];
		int64_t part = mtr_least(x, p->cell[cell].grant.remaining);

		if (p->cell[cell].state != MTR_CELL_LIVE)
			continue;
		mtr_cell_pay(p, cell, part);
		mtr_purse_burn(p, cell, part);
		x -= part;
	}
	if (x > 0)
	{
		mtr_debt_add(p, x);
		mtr_purse_burn(p, MTR_PURSE_DEBT, x);
		if (p->more_uc > 0)
			p->reload_wanted = true;
	}
}

/* the count of what was issued serves only to keep its sums in range */
static void
uncount_issued(struct mtr_purse *p, int64_t x)
{
	struct mtr_cell *c = &p->cell[MTR_PURSE_ISSUED];

	c->taken = x < c->taken ? c->taken - x : 0;
}

void
mtr_purse_back(struct mtr_purse *p, int64_t now, int cell, int64_t amount)
{
	struct mtr_cell *c = &p->cell[cell];
	int64_t          x = amount;
	int64_t          part;

	assert(cell >= 0 && cell < MTR_PURSE_SOURCES);
	assert(amount > 0 && amount <= MTR_PURSE_MAX);
	mtr_purse_advance(p, now);
	if (cell == MTR_PURSE_ISSUED)
	{
		uncount_issued(p, x);
		return;
	}
	if (cell == MTR_PURSE_DEBT)
	{
		part = mtr_least(x, p->debt);
		mtr_debt_add(p, -part);
	}
	else
	{
		if (c->state == MTR_CELL_LIVE)
			x -= mtr_cell_repay(p, cell, x);
		part = mtr_least(x, c->taken);
		mtr_cell_pay(p, cell, -part);
	}
	x -= part;
	if (x > 0)
	{
		/* nothing but its own transaction touches a grant before its start */
		assert(c->state == MTR_CELL_LIVE || c->state == MTR_CELL_ENDED);
		mtr_purse_burn(p, cell, x);
		p->spare += give(p, x);
	}
	mtr_purse_check(p);
}

void
mtr_purse_settle(struct mtr_purse *p, int64_t now, int64_t delta)
{
	mtr_purse_advance(p, now);
	if (p->mode == MTR_PURSE_UNLIMITED)
	{
		mtr_purse_burn(p, MTR_PURSE_ISSUED, -delta);
		delta = 0;
	}
	delta += p->spare;
	p->spare = 0;
	if (delta > 0)
		p->spare = give(p, delta);
	else if (delta < 0)
		collect(p, -delta);
	mtr_purse_check(p);
}
