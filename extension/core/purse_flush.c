/*
 * purse_flush.c - what a flush writes of a purse
 *
 * See purse.h.  A flush books usage for what its price says, in the order of
 * flushes; calls have paid in the order of calls, some of which are in flight.
 * The two differ by rounding until all calls have ended.  The parts of a flush
 * must sum to what it books, so one source carries the difference: its burns
 * are then uneven, and a later flush writes the opposite.
 *
 * Which one: whatever a crash leaves in tables must make sense.  So a grant
 * burns less only if this flush burns it anyway, and more only if it has as
 * much left; debt can always carry it.
 */
#include "core/purse.h"

#include <assert.h>

#include "core/purse_cell.h"

/* the source that carries the difference */
static int
carrier(const struct mtr_purse *p, int64_t rest, const struct mtr_part *part,
		int n)
{
	if (p->mode == MTR_PURSE_UNLIMITED)
		return MTR_PURSE_ISSUED;
	for (int i = 0; i < n; i++)
	{
		const struct mtr_cell *c = &p->cell[part[i].cell];

		if (part[i].cell >= MTR_PURSE_CELLS)
			continue;
		if (rest < 0 ? part[i].amount >= -rest
					 : c->state == MTR_CELL_LIVE && c->grant.remaining >= rest)
			return part[i].cell;
	}
	return MTR_PURSE_DEBT;
}

/* adds to the cell's part, which may come or go by that; returns their number */
static int
add_part(struct mtr_part *part, int n, int cell, int64_t amount)
{
	int i = 0;

	while (i < n && part[i].cell != cell)
		i++;
	if (i == n)
	{
		part[i].cell = (int16_t) cell;
		part[i].amount = amount;
		return n + 1;
	}
	part[i].amount += amount;
	if (part[i].amount == 0)
		part[i] = part[--n];
	return n;
}

/* what nobody is left to whom it could be given is gone */
static void
write_off_spare(struct mtr_purse *p)
{
	for (int i = 0; i < MTR_PURSE_SOURCES; i++)
		if (p->cell[i].refs > 0)
			return;
	mtr_purse_burn(p, MTR_PURSE_ISSUED, -p->spare);
	p->spare = 0;
}

int
mtr_purse_deltas(struct mtr_purse *p, int64_t cost,
				 struct mtr_part part[MTR_PURSE_SOURCES])
{
	int64_t rest = cost;
	int     n = 0;

	assert(cost >= 0);
	if (p->spare != 0)
		write_off_spare(p);
	for (int i = 0; i < MTR_PURSE_SOURCES; i++)
	{
		int64_t amount = mtr_cell_unwritten(&p->cell[i]);

		if (amount == 0)
			continue;
		part[n].cell = (int16_t) i;
		part[n++].amount = amount;
		rest -= amount;
	}
	if (rest != 0)
		n = add_part(part, n, carrier(p, rest, part, n), rest);
	p->flushing = n > 0;
	return n;
}

void
mtr_purse_flushed(struct mtr_purse *p, const struct mtr_part *part, int n)
{
	for (int i = 0; i < n; i++)
	{
		struct mtr_cell *c = &p->cell[part[i].cell];

		c->burn_flushed =
			(int64_t) ((uint64_t) c->burn_flushed + (uint64_t) part[i].amount);
		if (part[i].cell == MTR_PURSE_ISSUED)
			c->taken =
				part[i].amount < c->taken ? c->taken - part[i].amount : 0;
	}
	p->flushing = false;
}

bool
mtr_purse_is_clean(const struct mtr_purse *p)
{
	for (int i = 0; i < MTR_PURSE_SOURCES; i++)
		if (mtr_cell_unwritten(&p->cell[i]) != 0)
			return false;
	return p->spare == 0 && !p->flushing;
}
