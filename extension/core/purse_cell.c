/*
 * purse_cell.c - the grants of a purse: their order, start and end, coming and
 * going
 *
 * See purse.h for the model.  Called under a spinlock: no loop is longer than
 * MTR_PURSE_CELLS for every grant that starts or ends.
 */
#include "core/purse_cell.h"

#include <assert.h>
#include <string.h>

#ifndef NDEBUG
static void
check_cell(const struct mtr_cell *c)
{
	assert(c->refs >= 0);
	assert(c->grant.remaining >= 0);
	assert(c->taken >= 0);
	if (c->state == MTR_CELL_ENDED)
		assert(c->grant.remaining == 0 && c->taken <= c->grant.amount);
	else
		assert(c->grant.remaining == c->grant.amount - c->taken);
}
#endif

void
mtr_purse_check(const struct mtr_purse *p)
{
#ifndef NDEBUG
	int64_t live = 0;
	int     used = 0;

	for (int i = 0; i < p->n; i++)
	{
		const struct mtr_cell *c = &p->cell[p->order[i]];

		assert(c->state != MTR_CELL_FREE);
		check_cell(c);
		assert(i == 0 || mtr_grant_compare(&p->cell[p->order[i - 1]].grant,
										   &c->grant) <= 0);
		if (c->state == MTR_CELL_LIVE)
			live += c->grant.remaining;
	}
	for (int i = 0; i < MTR_PURSE_CELLS; i++)
		used += p->cell[i].state != MTR_CELL_FREE;
	assert(used == p->n);
	assert(p->available == live + p->more_uc - p->debt);
	assert(p->debt >= 0 && p->more_uc >= 0 && p->more_later >= 0);
	assert(p->debt == 0 || live == 0);
	assert(p->debt == 0 || p->more_uc == 0 || p->reload_wanted);
	assert(p->floor <= 0 && p->floor >= -MTR_PURSE_MAX);
#else
	(void) p;
#endif
}

void
mtr_purse_init(struct mtr_purse *p)
{
	memset(p, 0, sizeof(*p));
	p->now = p->judged_at = INT64_MIN;
	p->next_event = MTR_PURSE_NEVER;
	p->more_event = MTR_PURSE_NEVER;
	p->cell[MTR_PURSE_DEBT].state = MTR_CELL_LIVE;
	p->cell[MTR_PURSE_ISSUED].state = MTR_CELL_LIVE;
}

/* ---- order ---- */

int
mtr_grant_compare(const struct mtr_grant *a, const struct mtr_grant *b)
{
	int c;

	if (a->priority != b->priority)
		return a->priority < b->priority ? -1 : 1;
	if (a->expires_at != b->expires_at)
		return a->expires_at < b->expires_at ? -1 : 1;
	if (a->category != b->category)
		return a->category < b->category ? -1 : 1;
	if (a->effective_at != b->effective_at)
		return a->effective_at < b->effective_at ? -1 : 1;
	c = memcmp(a->id, b->id, sizeof(a->id));
	return c < 0 ? -1 : c > 0;
}

void
mtr_cell_leave(struct mtr_purse *p, int cell)
{
	int i = 0;

	while (p->order[i] != cell)
		i++;
	for (p->n--; i < p->n; i++)
		p->order[i] = p->order[i + 1];
}

static void
enter_order(struct mtr_purse *p, int cell)
{
	int i = p->n++;

	for (; i > 0 && mtr_grant_compare(&p->cell[p->order[i - 1]].grant,
									  &p->cell[cell].grant) > 0;
		 i--)
		p->order[i] = p->order[i - 1];
	p->order[i] = (uint8_t) cell;
}

int
mtr_purse_find(const struct mtr_purse *p, const uint8_t id[16])
{
	for (int i = 0; i < p->n; i++)
		if (memcmp(p->cell[p->order[i]].grant.id, id, 16) == 0)
			return p->order[i];
	return -1;
}

/* ---- the three movements ---- */

void
mtr_cell_pay(struct mtr_purse *p, int cell, int64_t x)
{
	struct mtr_cell *c = &p->cell[cell];

	c->taken += x;
	if (c->state != MTR_CELL_ENDED)
		c->grant.remaining -= x;
	if (c->state == MTR_CELL_LIVE)
		p->available -= x;
}

void
mtr_debt_add(struct mtr_purse *p, int64_t x)
{
	p->debt += x;
	p->available -= x;
}

void
mtr_purse_burn(struct mtr_purse *p, int cell, int64_t amount)
{
	struct mtr_cell *c = &p->cell[cell];

	c->burn_done = (int64_t) ((uint64_t) c->burn_done + (uint64_t) amount);
}

int64_t
mtr_cell_repay(struct mtr_purse *p, int cell, int64_t most)
{
	int64_t x = mtr_least(most, p->debt);

	mtr_debt_add(p, -x);
	mtr_purse_burn(p, MTR_PURSE_DEBT, -x);
	mtr_purse_burn(p, cell, x);
	return x;
}

/* a grant in force that has just come repays what it can */
static void
repay_first(struct mtr_purse *p, int cell)
{
	mtr_cell_pay(p, cell,
				 mtr_cell_repay(p, cell, p->cell[cell].grant.remaining));
}

/* ---- time ---- */

static void
note_event(struct mtr_purse *p, int64_t at)
{
	if (at < p->next_event)
		p->next_event = at;
}

void
mtr_purse_plan(struct mtr_purse *p)
{
	p->next_event = MTR_PURSE_NEVER;
	for (int i = 0; i < p->n; i++)
	{
		const struct mtr_cell *c = &p->cell[p->order[i]];

		if (c->state == MTR_CELL_FUTURE)
			note_event(p, c->grant.effective_at);
		else if (c->state == MTR_CELL_LIVE)
			note_event(p, c->grant.expires_at);
	}
	if (p->more > 0 && p->more_event > p->now)
		note_event(p, p->more_event);
}

/* its rest is gone */
static void
end_grant(struct mtr_purse *p, int cell)
{
	struct mtr_cell *c = &p->cell[cell];

	if (c->state == MTR_CELL_LIVE)
		p->available -= c->grant.remaining;
	c->state = MTR_CELL_ENDED;
	c->grant.remaining = 0;
}

static void
start_grant(struct mtr_purse *p, int cell)
{
	struct mtr_cell *c = &p->cell[cell];

	c->state = MTR_CELL_LIVE;
	p->available += c->grant.remaining;
	repay_first(p, cell);
	/* one behind burns before it */
	if (p->more_uc > 0 && mtr_grant_compare(&p->more_first, &c->grant) < 0)
		p->reload_wanted = true;
}

/* what ends at that instant makes no room for what starts: first the ends */
static void
pass_event(struct mtr_purse *p, int64_t at)
{
	for (int i = 0; i < p->n; i++)
		if (p->cell[p->order[i]].state == MTR_CELL_LIVE &&
			p->cell[p->order[i]].grant.expires_at <= at)
			end_grant(p, p->order[i]);
	for (int i = 0; i < p->n; i++)
		if (p->cell[p->order[i]].state == MTR_CELL_FUTURE &&
			p->cell[p->order[i]].grant.effective_at <= at)
			start_grant(p, p->order[i]);
}

void
mtr_purse_advance(struct mtr_purse *p, int64_t now)
{
	if (now <= p->now)
		return;
	/*
	 * One event after the other: a grant that came and went while nobody
	 * looked has repaid debt, since all debt is older than that.
	 */
	while (p->next_event <= now && p->next_event != MTR_PURSE_NEVER)
	{
		p->now = p->judged_at = p->next_event;
		pass_event(p, p->now);
		if (mtr_purse_is_stale(p))
			p->reload_wanted = true;
		mtr_purse_plan(p);
		mtr_purse_check(p);
	}
	p->now = now;
}

/* ---- coming and going ---- */

static __int128
held(const struct mtr_purse *p)
{
	__int128 sum = (__int128) p->more_uc + p->more_later;

	for (int i = 0; i < p->n; i++)
		sum += p->cell[p->order[i]].grant.remaining;
	return sum;
}

bool
mtr_purse_has_range(const struct mtr_purse *p, int64_t amount)
{
	return held(p) + amount <= MTR_PURSE_MAX;
}

bool
mtr_purse_fits(const struct mtr_purse *p, int64_t amount)
{
	__int128 sum = held(p) + amount;
	int64_t  repaid = -mtr_cell_unwritten(&p->cell[MTR_PURSE_DEBT]);

	for (int i = 0; i < p->n; i++)
	{
		const struct mtr_cell *c = &p->cell[p->order[i]];

		/* what is in flight may come back, and a crash undoes what is unwritten */
		if (c->state != MTR_CELL_ENDED &&
			(c->refs > 0 || mtr_cell_unwritten(c) != 0))
			sum += c->taken;
	}
	return sum <= MTR_PURSE_MAX && repaid <= MTR_PURSE_MAX;
}

void
mtr_purse_owe(struct mtr_purse *p, int64_t debt)
{
	assert(p->n == 0 && p->debt == 0);
	/* a flush may have booked more as debt than it was (see purse_flush.c) */
	assert(debt <= 2 * MTR_PURSE_MAX && debt >= -2 * MTR_PURSE_MAX);
	if (debt > 0)
		mtr_debt_add(p, debt);
	else
	{
		mtr_purse_burn(p, MTR_PURSE_DEBT, -debt);
		p->spare += -debt;
	}
}

/*
 * May another grant have it?  Not while something can come back to it: a
 * transaction, a flush, or what repaid the debt of a transaction in progress.
 */
static bool
is_free(const struct mtr_purse *p, const struct mtr_cell *c)
{
	if (c->refs > 0)
		return false;
	if (c->state == MTR_CELL_FREE)
		return true;
	return (c->state == MTR_CELL_LIVE || c->state == MTR_CELL_ENDED) &&
		   c->grant.remaining == 0 && mtr_cell_unwritten(c) == 0 &&
		   !p->flushing && p->cell[MTR_PURSE_DEBT].refs == 0;
}

int
mtr_cell_find_free(const struct mtr_purse *p)
{
	int found = -1;

	for (int i = 0; i < MTR_PURSE_CELLS; i++)
	{
		if (!is_free(p, &p->cell[i]))
			continue;
		if (p->cell[i].state == MTR_CELL_FREE)
			return i;
		found = i;
	}
	return found;
}

/* what a crash has left uneven in tables is evened out when it is settled */
static void
even_out(struct mtr_purse *p, int cell)
{
	struct mtr_grant *g = &p->cell[cell].grant;
	int64_t           whole = mtr_least(g->remaining, g->amount);

	if (whole < 0)
		whole = 0;
	mtr_purse_burn(p, cell, g->remaining - whole);
	p->spare += g->remaining - whole;
	g->remaining = whole;
}

int
mtr_purse_add(struct mtr_purse *p, int64_t now, const struct mtr_grant *grant,
			  bool incoming)
{
	int              cell;
	struct mtr_cell *c;

	assert(grant->amount > 0 && grant->amount <= MTR_PURSE_MAX);
	mtr_purse_advance(p, now);
	cell = mtr_cell_find_free(p);
	if (cell < 0 || !mtr_purse_has_range(p, grant->remaining))
		return -1;
	c = &p->cell[cell];
	if (c->state != MTR_CELL_FREE)
		mtr_cell_leave(p, cell);
	memset(c, 0, sizeof(*c));
	c->grant = *grant;
	c->state = MTR_CELL_INCOMING;
	even_out(p, cell);
	c->taken = c->grant.amount - c->grant.remaining;
	enter_order(p, cell);
	if (!incoming)
		mtr_purse_arrive(p, now, cell);
	mtr_purse_check(p);
	return cell;
}

void
mtr_purse_arrive(struct mtr_purse *p, int64_t now, int cell)
{
	struct mtr_cell *c = &p->cell[cell];

	assert(c->state == MTR_CELL_INCOMING);
	mtr_purse_advance(p, now);
	if (c->grant.expires_at <= p->now)
		end_grant(p, cell);
	else if (c->grant.effective_at > p->now)
		c->state = MTR_CELL_FUTURE;
	else
		start_grant(p, cell);
	mtr_purse_plan(p);
	mtr_purse_check(p);
}

void
mtr_purse_drop(struct mtr_purse *p, int cell)
{
	struct mtr_cell *c = &p->cell[cell];
	int32_t          refs = c->refs;

	assert(c->state == MTR_CELL_INCOMING);
	assert(c->grant.remaining == c->grant.amount);
	mtr_cell_leave(p, cell);
	memset(c, 0, sizeof(*c));
	c->refs = refs;
	mtr_purse_check(p);
}
