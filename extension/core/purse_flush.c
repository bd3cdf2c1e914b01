/*
 * purse_flush.c - what a flush writes of a purse
 *
 * See purse.h.  A flush books usage for what its price says, in the order of
 * flushes; calls have paid in the order of calls, some of which are in flight.
 * The two differ by rounding until all calls have ended.  The parts of a flush
 * must sum to what it books, so some source carries the difference: its burns
 * are then uneven, and a later flush writes the opposite.
 *
 * Which ones: whatever a crash leaves in tables must make sense.  So a grant
 * burns less only if this flush burns it anyway, and more only if it has as
 * much left; debt can always carry it.
 */
#include "core/purse.h"

#include <assert.h>

#include "core/purse_cell.h"

/* the source that burns rest more than it should */
static int
carrier(const struct mtr_purse *p, int64_t rest, const struct mtr_part *part,
		int n)
{
	if (p->mode == MTR_PURSE_UNLIMITED)
		return MTR_PURSE_ISSUED;
	for (int i = 0; i < n && rest > 0; i++)
		if (part[i].cell < MTR_PURSE_CELLS &&
			p->cell[part[i].cell].state == MTR_CELL_LIVE &&
			p->cell[part[i].cell].grant.remaining >= rest)
			return part[i].cell;
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
mtr_purse_unwritten(struct mtr_purse *p,
					struct mtr_part   part[MTR_PURSE_SOURCES])
{
	int n = 0;

	if (p->spare != 0)
		write_off_spare(p);
	for (int i = 0; i < MTR_PURSE_SOURCES; i++)
	{
		int64_t amount = mtr_cell_unwritten(&p->cell[i]);

		if (amount == 0)
			continue;
		part[n].cell = (int16_t) i;
		part[n++].amount = amount;
	}
	p->flushing = n > 0;
	return n;
}

int
mtr_purse_place(const struct mtr_purse *p, int64_t rest,
				struct mtr_part part[MTR_PURSE_SOURCES], int n)
{
	/* too much: the last to burn wait for another flush */
	for (int i = n - 1; rest < 0 && i >= 0; i--)
	{
		int64_t less = mtr_least(part[i].amount, -rest);

		if (less <= 0)
			continue;
		n = add_part(part, n, part[i].cell, -less);
		rest += less;
	}
	if (rest != 0)
		n = add_part(part, n, carrier(p, rest, part, n), rest);
	return n;
}

int
mtr_purse_carry(struct mtr_purse *p, int64_t cost,
				struct mtr_part part[MTR_PURSE_SOURCES], int n)
{
	int64_t rest = cost;

	assert(cost >= 0);
	for (int i = 0; i < n; i++)
		rest -= part[i].amount;
	n = mtr_purse_place(p, rest, part, n);
	p->flushing = n > 0;
	return n;
}

static void
add_flushed(struct mtr_cell *c, int64_t amount)
{
	c->burn_flushed =
		(int64_t) ((uint64_t) c->burn_flushed + (uint64_t) amount);
}

void
mtr_purse_rebook(struct mtr_purse *p, int cell, int64_t amount)
{
	add_flushed(&p->cell[cell], amount);
}

void
mtr_purse_flushed(struct mtr_purse *p, const struct mtr_part *part, int n)
{
	for (int i = 0; i < n; i++)
	{
		struct mtr_cell *c = &p->cell[part[i].cell];

		add_flushed(c, part[i].amount);
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
