/*
 * reserve.c - a quantity that is paid for before it is used
 *
 * See reserve.h for the model.  Called under a spinlock: no loop is longer than
 * MTR_PURSE_SOURCES.  A product of two non-negative int64 fits 128 bits.
 */
#include "core/reserve.h"

#include <assert.h>

#include "core/purse_cell.h"

/* what was issued is only counted: nothing has to come back to where it was */
static void
refer(struct mtr_purse *p, int cell, int by)
{
	if (cell == MTR_PURSE_ISSUED)
		return;
	p->cell[cell].refs += by;
	if (cell < MTR_PURSE_CELLS)
		p->cell[cell].reserved = (uint16_t) (p->cell[cell].reserved + by);
}

bool
mtr_reserve_fits(const struct mtr_purse *p, const struct mtr_part *part, int n)
{
	int held = 0;

	for (int i = 0; i < MTR_PURSE_CELLS; i++)
		held += p->cell[i].reserved > 0;
	for (int i = 0; i < n; i++)
	{
		if (part[i].cell >= MTR_PURSE_CELLS)
			continue;
		held += p->cell[part[i].cell].reserved == 0;
		if (p->cell[part[i].cell].reserved == UINT16_MAX)
			return false;
	}
	return held <= MTR_RESERVE_CELLS;
}

void
mtr_reserve_untake(struct mtr_purse *p, int64_t now,
				   const struct mtr_part *part, const int64_t *own, int n)
{
	/* debt, which was taken last, first: lest what comes back repay it */
	for (int i = n - 1; i >= 0; i--)
		if (part[i].amount > own[i])
			mtr_purse_back(p, now, part[i].cell, part[i].amount - own[i]);
}

void
mtr_reserve_begin(struct mtr_purse *p, struct mtr_reserve *r, int64_t qty,
				  const struct mtr_part *part, const int64_t *own, int n)
{
	assert(qty > 0);
	assert(n >= 0 && n <= MTR_PURSE_SOURCES);
	r->qty = qty;
	r->total_uc = 0;
	r->settled = 0;
	r->n = n;
	for (int i = 0; i < n; i++)
	{
		assert(part[i].amount > 0);
		assert(own[i] >= 0 && own[i] <= part[i].amount);
		r->part[i] = part[i];
		r->own[i] = own[i];
		r->total_uc += part[i].amount;
		refer(p, part[i].cell, 1);
	}
}

void
mtr_reserve_commit(struct mtr_reserve *r)
{
	for (int i = 0; i < r->n; i++)
		r->own[i] = 0;
}

int64_t
mtr_reserve_left(const struct mtr_reserve *r)
{
	return r->qty - r->settled;
}

static int64_t
burned(const struct mtr_reserve *r, int64_t settled)
{
	return (int64_t) ((__int128) r->total_uc * settled / r->qty);
}

int64_t
mtr_reserve_left_uc(const struct mtr_reserve *r)
{
	return r->total_uc - burned(r, r->settled);
}

/* the first parts are used up */
static void
drop_parts(struct mtr_purse *p, struct mtr_reserve *r, int n)
{
	for (int i = 0; i < n; i++)
		refer(p, r->part[i].cell, -1);
	r->n -= n;
	for (int i = 0; n > 0 && i < r->n; i++)
	{
		r->part[i] = r->part[i + n];
		r->own[i] = r->own[i + n];
	}
}

int64_t
mtr_reserve_settle(struct mtr_purse *p, struct mtr_reserve *r, int64_t qty)
{
	int64_t share;
	int64_t rest;
	int     used = 0;

	assert(qty >= 0 && qty <= mtr_reserve_left(r));
	share = burned(r, r->settled + qty) - burned(r, r->settled);
	rest = share;
	for (int i = 0; i < r->n && rest > 0; i++)
	{
		int64_t x = mtr_least(rest, r->part[i].amount);

		assert(r->own[i] == 0);
		mtr_purse_burn(p, r->part[i].cell, x);
		r->part[i].amount -= x;
		used += r->part[i].amount == 0;
		rest -= x;
	}
	assert(rest == 0);
	drop_parts(p, r, used);
	r->settled += qty;
	return share;
}

void
mtr_reserve_release(struct mtr_purse *p, int64_t now, struct mtr_reserve *r,
					int64_t worth)
{
	int64_t left = mtr_reserve_left_uc(r);

	for (int i = 0; i < r->n; i++)
		if (r->part[i].amount > r->own[i])
			mtr_purse_back(p, now, r->part[i].cell,
						   r->part[i].amount - r->own[i]);
	mtr_purse_settle(p, now, worth - left);
	drop_parts(p, r, r->n);
	r->settled = r->qty;
}
