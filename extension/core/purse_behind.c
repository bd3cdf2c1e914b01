/*
 * purse_behind.c - the grants of a purse that have no cell
 *
 * See purse.h.   They are only counted, and known again when the purse's owner
 * reads them.  For that a grant behind must be at rest: nothing of it is in
 * flight or unwritten, so that tables say all about it.  Called under a
 * spinlock: no loop is longer than MTR_PURSE_CELLS.
 */
#include "core/purse_cell.h"

#include <string.h>

/*
 * Would one in a cell have to wait for it?  One that has no credits counts,
 * since something may come back to it.
 */
static bool
burns_before_some(const struct mtr_purse *p, const struct mtr_grant *grant)
{
	for (int i = p->n - 1; i >= 0; i--)
		if (p->cell[p->order[i]].state == MTR_CELL_LIVE)
			return mtr_grant_compare(grant, &p->cell[p->order[i]].grant) < 0;
	return false;
}

void
mtr_behind_count(struct mtr_behind *b, int64_t now,
				 const struct mtr_grant *grant)
{
	int64_t event = grant->expires_at;

	if (grant->expires_at <= now || grant->remaining <= 0)
		return;
	if (b->uc + b->later > MTR_PURSE_MAX - grant->remaining)
	{
		b->too_much = true;
		return;
	}
	if (grant->effective_at > now)
	{
		event = grant->effective_at;
		b->later += grant->remaining;
	}
	else
	{
		if (b->uc == 0 || mtr_grant_compare(grant, &b->first) < 0)
			b->first = *grant;
		b->uc += grant->remaining;
	}
	if (b->n++ == 0 || event < b->event)
		b->event = event;
}

/* they fit, and there is at least one */
static void
count_behind(struct mtr_purse *p, const struct mtr_behind *b)
{
	p->more += b->n;
	p->more_later += b->later;
	if (b->uc > 0)
	{
		if (p->more_uc == 0 || mtr_grant_compare(&b->first, &p->more_first) < 0)
			p->more_first = b->first;
		p->more_uc += b->uc;
		p->available += b->uc;
		if (p->debt > 0 || burns_before_some(p, &b->first))
			p->reload_wanted = true;
	}
	/* one that is past stays: what is known of those behind is old */
	if (b->event < p->more_event)
		p->more_event = b->event;
	mtr_purse_plan(p);
	mtr_purse_check(p);
}

void
mtr_purse_add_behind(struct mtr_purse *p, int64_t now,
					 const struct mtr_grant *grant)
{
	struct mtr_behind b;

	mtr_purse_advance(p, now);
	memset(&b, 0, sizeof(b));
	mtr_behind_count(&b, p->now, grant);
	if (b.n > 0 && mtr_purse_has_range(p, grant->remaining))
		count_behind(p, &b);
}

bool
mtr_purse_add_all_behind(struct mtr_purse *p, int64_t now,
						 const struct mtr_behind *b)
{
	mtr_purse_advance(p, now);
	if (b->too_much ||
		(b->n > 0 &&
		 (b->event <= p->now || !mtr_purse_has_range(p, b->uc + b->later))))
		return false;
	if (b->n > 0)
		count_behind(p, b);
	return true;
}

bool
mtr_purse_detach(struct mtr_purse *p, int64_t now, int cell,
				 struct mtr_grant *grant)
{
	struct mtr_cell *c = &p->cell[cell];
	bool             is_over;

	mtr_purse_advance(p, now);
	is_over = c->state == MTR_CELL_INCOMING &&
			  (c->grant.effective_at > p->now || c->grant.expires_at <= p->now);
	if (c->state == MTR_CELL_FREE || c->state == MTR_CELL_FUTURE ||
		(c->grant.remaining > 0 && !is_over))
		return false;
	if (c->refs != 1 || mtr_cell_unwritten(c) != 0 || p->flushing ||
		p->cell[MTR_PURSE_DEBT].refs > 0)
		return false;
	*grant = c->grant;
	mtr_cell_leave(p, cell);
	memset(c, 0, sizeof(*c));
	mtr_purse_plan(p);
	mtr_purse_check(p);
	return true;
}

void
mtr_purse_return(struct mtr_purse *p, int64_t now,
				 const struct mtr_grant *grant)
{
	int cell;

	mtr_purse_advance(p, now);
	cell = mtr_purse_find(p, grant->id);
	if (cell >= 0)
		mtr_purse_back(p, now, cell, grant->remaining);
	else
		mtr_purse_add_behind(p, now, grant);
}

bool
mtr_purse_is_low(const struct mtr_purse *p)
{
	int live = 0;

	for (int i = 0; i < p->n; i++)
		live += p->cell[p->order[i]].state == MTR_CELL_LIVE &&
				p->cell[p->order[i]].grant.remaining > 0;
	return p->reload_wanted || (p->more_uc > 0 && live < MTR_PURSE_LOW);
}

void
mtr_purse_forget_behind(struct mtr_purse *p, int64_t now)
{
	mtr_purse_advance(p, now);
	p->available -= p->more_uc;
	p->more = 0;
	p->more_uc = p->more_later = 0;
	p->more_event = MTR_PURSE_NEVER;
	p->reload_wanted = false;
	mtr_purse_plan(p);
	mtr_purse_check(p);
}

/* do tables know all about it? */
static bool
is_at_rest(const struct mtr_purse *p, const struct mtr_cell *c)
{
	return (c->state == MTR_CELL_LIVE || c->state == MTR_CELL_FUTURE) &&
		   c->refs == 0 && mtr_cell_unwritten(c) == 0 && !p->flushing &&
		   p->cell[MTR_PURSE_DEBT].refs == 0;
}

static void
put_behind(struct mtr_purse *p, int cell)
{
	struct mtr_cell *c = &p->cell[cell];
	struct mtr_grant grant = c->grant;

	if (c->state == MTR_CELL_LIVE)
		p->available -= grant.remaining;
	mtr_cell_leave(p, cell);
	memset(c, 0, sizeof(*c));
	mtr_purse_add_behind(p, p->now, &grant);
}

static int
last_future(const struct mtr_purse *p)
{
	for (int i = p->n - 1; i >= 0; i--)
		if (p->cell[p->order[i]].state == MTR_CELL_FUTURE &&
			is_at_rest(p, &p->cell[p->order[i]]))
			return p->order[i];
	return -1;
}

static int
last_after(const struct mtr_purse *p, const struct mtr_grant *than)
{
	for (int i = p->n - 1; i >= 0; i--)
	{
		const struct mtr_cell *c = &p->cell[p->order[i]];

		if (than != NULL && mtr_grant_compare(&c->grant, than) <= 0)
			break;
		if (is_at_rest(p, c))
			return p->order[i];
	}
	return -1;
}

int
mtr_purse_demote(struct mtr_purse *p, int64_t now, const struct mtr_grant *than)
{
	int cell;

	mtr_purse_advance(p, now);
	cell = last_future(p);
	if (cell < 0)
		cell = last_after(p, than);
	if (cell >= 0)
		put_behind(p, cell);
	return cell;
}

bool
mtr_purse_has_room(const struct mtr_purse *p)
{
	return mtr_cell_find_free(p) >= 0 || last_future(p) >= 0;
}
