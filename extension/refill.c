/*
 * refill.c
 *		Grants on their way from tables into a purse.
 *
 * A purse has a few cells, and a tenant may have any number of grants.	 Those
 * without a cell are at rest: nobody takes from them, nothing of them is in
 * flight or unwritten, so tables say how much is left of each.	 Therefore they can
 * be read at any time, and need not wait until nobody uses the tenant.
 *
 * What could come in between is seen by two fields of the slot.  grants_version moves
 * whenever a grant gets a cell or loses it otherwise than by being used up, and when one
 * without a cell has come; then what was read is thrown away.	giving counts the
 * transactions that announced a grant for which there was no cell, or have spent of
 * one that has none any more (loose.h): tables do not say what memory knows of these,
 * so nobody else reads them meanwhile.	 Such a transaction itself does: it does not see
 * what it has granted, and knows what it has spent.
 *
 * A grant that has ended is read only when it is uneven.  What comes back to one without
 * a cell no cell learns of, and tables show it a moment before memory knows; so while a
 * transaction gives back to such (gone), none that has ended gets a cell.	When it has
 * ended, they are read again.
 *
 * One reader per tenant, by the lock of the slot's loader.
 */
#include "mortar.h"

#include "utils/timestamp.h"

#include "locks.h"
#include "loose.h"
#include "refill.h"
#include "slot.h"
#include "untimed.h"
#include "xact.h"

/* so long at least a call leaves alone what another has just read */
#define REFILL_PAUSE_US 100000

/* what is there before tables are read; the mutex is not held */
typedef struct Before
{
	uint32      version;
	TimestampTz now; /* the purse's: what is read must not be from before */
	int         n;
	pg_uuid_t   ids[MTR_PURSE_CELLS];
} Before;

bool
mtr_refill_wanted(MtrTenant *t, TimestampTz now)
{
	struct mtr_purse *p = &t->purse;

	if (p->next_event <= now)
		mtr_purse_advance(p, now);
	if (p->more == 0 && !p->reload_wanted)
		return false;
	if (now < t->refilled_at + REFILL_PAUSE_US && now >= t->refilled_at)
		return false;
	return p->reload_wanted || (mtr_purse_is_low(p) && mtr_purse_has_room(p));
}

/* a cell for a grant that burns before others; the mutex is held */
static int
place(struct mtr_purse *p, TimestampTz now, const struct mtr_grant *g,
	  MtrQueue *q)
{
	int cell;

	if (q->skip_ended && g->expires_at <= p->now)
		return -1;
	cell = mtr_purse_add(p, now, g, false);
	/* one that starts later does not drive out one that is in force */
	if (cell < 0 && g->effective_at <= now && mtr_purse_demote(p, now, g) >= 0)
	{
		q->demoted = true;
		cell = mtr_purse_add(p, now, g, false);
	}
	if (cell < 0)
		mtr_purse_add_behind(p, now, g);
	return cell;
}

static void
place_range(struct mtr_purse *p, TimestampTz now, MtrQueue *q, int from,
			int upto)
{
	for (int i = from; i < upto; i++)
		if (i != q->skip)
			(void) place(p, now, &q->stored->grants[i], q);
}

/* the mutex is held; as if each of them were placed */
static void
place_queue(struct mtr_purse *p, TimestampTz now, MtrQueue *q)
{
	int n = q->stored->ngrants;

	mtr_purse_advance(p, now);
	/* those that have ended were not read */
	p->judged_at = p->now;
	/* one has started or ended since they were read, so that others come first */
	if (q->event <= p->now)
	{
		place_range(p, now, q, 0, n);
		return;
	}
	place_range(p, now, q, 0, q->tail);
	place_range(p, now, q, q->later, q->later_tail);
	if (!mtr_purse_add_all_behind(p, now, &q->behind))
	{
		place_range(p, now, q, q->tail, q->later);
		place_range(p, now, q, q->later_tail, n);
	}
}

static bool
is_uneven(const struct mtr_grant *g)
{
	return g->remaining < 0 || g->remaining > g->amount;
}

/*
 * After MTR_PURSE_CELLS in force none gets a cell any more: it would have to burn
 * before one of them.
 */
void
mtr_queue_grants(MtrQueue *q, const MtrStored *s, int skip)
{
	int               n = 0;
	int               i = 0;
	struct mtr_behind ahead = {0};

	memset(q, 0, sizeof(*q));
	q->stored = s;
	q->skip = skip;
	for (; i < s->ngrants && n < MTR_PURSE_CELLS; i++)
	{
		const struct mtr_grant *g = &s->grants[i];

		if (!is_uneven(g) && g->effective_at > s->now)
			break;
		n += i != skip && !is_uneven(g) && g->remaining > 0;
	}
	q->tail = i;
	while (i < s->ngrants &&
		   (s->grants[i].effective_at <= s->now || is_uneven(&s->grants[i])))
		i++;
	q->later = i;
	q->later_tail = Min(i + MTR_PURSE_CELLS + 1, s->ngrants);
	for (i = 0; i < s->ngrants; i++)
		if (i != skip)
			mtr_behind_count(i < q->tail || (i >= q->later && i < q->later_tail)
								 ? &ahead
								 : &q->behind,
							 s->now, &s->grants[i]);
	q->event = Min(ahead.n > 0 ? ahead.event : MTR_PURSE_NEVER,
				   q->behind.n > 0 ? q->behind.event : MTR_PURSE_NEVER);
}

bool
mtr_purse_load(struct mtr_purse *p, TimestampTz now, MtrQueue *q)
{
	const MtrStored *s = q->stored;

	mtr_purse_init(p);
	mtr_purse_advance(p, now);
	p->mode = s->mode;
	p->floor = -s->overdraft_uc;
	mtr_purse_owe(p, s->debt);
	place_queue(p, now, q);
	mtr_purse_settle(p, now, -s->unpaid_uc);
	return !mtr_purse_is_clean(p);
}

/* the mutex is held */
static void
note_cells(const struct mtr_purse *p, Before *b)
{
	b->n = p->n;
	for (int i = 0; i < p->n; i++)
		memcpy(b->ids[i].data, p->cell[p->order[i]].grant.id, UUID_LEN);
}

/* false: nothing can be read now */
static bool
look_before(MtrTenant *t, Before *b)
{
	int               own = mtr_is_giving(mtr_xact_pinned(t)) ? 1 : 0;
	struct mtr_purse *p = &t->purse;
	bool              ok;

	SpinLockAcquire(&t->mutex);
	ok = t->giving == own;
	b->version = t->grants_version;
	b->now = Max(t->last_posted, p->now);
	note_cells(p, b);
	SpinLockRelease(&t->mutex);
	return ok;
}

/* gives the wanted grant a cell, come what may; the mutex is held */
static int
place_wanted(MtrTenant *t, TimestampTz now, const struct mtr_grant *g)
{
	struct mtr_purse *p = &t->purse;
	MtrPinned        *pin = mtr_xact_pinned(t);
	int               cell = mtr_purse_add(p, now, g, false);

	if (cell < 0 && mtr_purse_demote(p, now, NULL) >= 0)
		cell = mtr_purse_add(p, now, g, false);
	if (cell < 0)
		return -1;
	Assert((pin->cells & (1u << cell)) == 0);
	pin->cells |= 1u << cell;
	p->cell[cell].refs++;
	return cell;
}

/* those that have got cells are not behind any more */
static void
drop_placed(MtrStored *s, const MtrQueue *q, const Before *after)
{
	int kept = 0;

	for (int i = 0; i < s->ngrants; i++)
	{
		bool has_cell = false;

		if (i < q->tail || (i >= q->later && i < q->later_tail))
			for (int k = 0; k < after->n; k++)
				has_cell = has_cell || memcmp(after->ids[k].data,
											  s->grants[i].id, UUID_LEN) == 0;
		if (!has_cell)
			s->grants[kept++] = s->grants[i];
	}
	s->ngrants = kept;
}

/*
 * False: it changed meanwhile.	 After it b and s say what there is now, and *whole is
 * true if s has all the grants that have no cell.
 */
static bool
apply(MtrTenant *t, Before *b, MtrStored *s, const pg_uuid_t *wanted, int *cell,
	  bool *whole)
{
	struct mtr_purse *p = &t->purse;
	TimestampTz       now = s->now;
	int               own = mtr_is_giving(mtr_xact_pinned(t)) ? 1 : 0;
	int               first = -1;
	bool              wake = false;
	MtrQueue          queue;

	for (int i = 0; wanted != NULL && i < s->ngrants; i++)
		if (memcmp(s->grants[i].id, wanted->data, UUID_LEN) == 0)
			first = i;
	mtr_queue_grants(&queue, s, first);
	SpinLockAcquire(&t->mutex);
	if (t->giving != own || t->grants_version != b->version)
	{
		SpinLockRelease(&t->mutex);
		return false;
	}
	now = Max(now, t->last_posted);
	t->grants_version++;
	t->refilled_at = now;
	mtr_purse_forget_behind(p, now);
	queue.skip_ended = t->gone > 0;
	if (first >= 0 &&
		!(queue.skip_ended && s->grants[first].expires_at <= p->now))
		*cell = place_wanted(t, now, &s->grants[first]);
	place_queue(p, now, &queue);
	if (first >= 0 && *cell < 0)
		(void) place(p, now, &s->grants[first], &queue);
	mtr_purse_settle(p, now, 0);
	if (!mtr_purse_is_clean(p))
		wake = mtr_tenant_mark_dirty(t);
	b->version = t->grants_version;
	note_cells(p, b);
	*whole = !queue.demoted && queue.event > p->now;
	SpinLockRelease(&t->mutex);
	if (wake)
		mtr_wake_launcher();
	drop_placed(s, &queue, b);
	return true;
}

static bool
has_grant(const MtrStored *s, const pg_uuid_t *id)
{
	for (int i = 0; i < s->ngrants; i++)
		if (memcmp(s->grants[i].id, id->data, UUID_LEN) == 0)
			return s->grants[i].expires_at > s->now;
	return false;
}

/* what one reading of a tenant's grants needs, and finds */
typedef struct Reading
{
	MtrTenant       *t;
	const pg_uuid_t *wanted;
	Before           before;
	MtrStored        stored;
	bool             found;  /* the tenant */
	bool             exists; /* the wanted grant, as far as is known */
	bool             whole;  /* see apply */
} Reading;

static void
read_grants(void *arg)
{
	Reading *r = arg;

	r->found = mtr_grants_stored(r->t->tenant_id, r->before.ids, r->before.n,
								 r->wanted, r->before.now, &r->stored);
	mtr_loose_subtract(&r->stored, r->wanted);
}

/* the grants that found no cell are left in r->stored */
static bool
refill(Reading *r, int *cell)
{
	MtrTenant *t = r->t;
	bool       done = false;

	*cell = -1;
	if (!mtr_try_lock(MTR_LOCK_LOAD, t->tenant_id))
		return false;
	if (look_before(t, &r->before))
	{
		/* others wait for it: no time limit of this statement's may end it */
		mtr_untimed(read_grants, r);
		if (r->wanted != NULL)
			r->exists = r->found && has_grant(&r->stored, r->wanted);
		done = r->found &&
			   apply(t, &r->before, &r->stored, r->wanted, cell, &r->whole);
	}
	mtr_unlock(MTR_LOCK_LOAD, t->tenant_id);
	return done;
}

bool
mtr_refill(MtrTenant *t, const pg_uuid_t *wanted, int *cell, bool *exists,
		   struct mtr_grant *grant)
{
	Reading r = {.t = t, .wanted = wanted, .exists = true};
	int     got;
	bool    done = refill(&r, &got);

	if (cell != NULL)
		*cell = got;
	if (exists != NULL)
		*exists = r.exists;
	for (int i = 0; grant != NULL && i < r.stored.ngrants; i++)
		if (memcmp(r.stored.grants[i].id, wanted->data, UUID_LEN) == 0)
			*grant = r.stored.grants[i];
	if (r.stored.grants != NULL)
		pfree(r.stored.grants);
	return done;
}

void
mtr_kept_free(MtrKept *kept)
{
	if (kept->stored.grants != NULL)
		pfree(kept->stored.grants);
	memset(kept, 0, sizeof(*kept));
}

bool
mtr_refill_kept(MtrTenant *t, MtrKept *kept)
{
	Reading r = {.t = t, .exists = true, .stored = kept->stored};
	int     cell;
	bool    done = false;

	r.before.version = kept->version;
	if (kept->is_valid)
		done = apply(t, &r.before, &r.stored, NULL, &cell, &r.whole);
	if (!done)
	{
		mtr_kept_free(kept);
		memset(&r.stored, 0, sizeof(r.stored));
		done = refill(&r, &cell);
	}
	kept->stored = r.stored;
	kept->version = r.before.version;
	kept->is_valid = done && r.whole;
	return done;
}
