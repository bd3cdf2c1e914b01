/*
 * loose.c
 *		Grants without a cell that this transaction has spent of, or has made (see
 *		loose.h).
 *
 * A transaction that has loose grants, and has taken something of them, is counted
 * in MtrTenant.giving, so that nobody else reads grants from tables, which show these
 * as unspent; and what may come back in giving_uc, so that there is room for it.	Two
 * of them would wait for each other, so only one at a time gets them loose.
 *
 * Locking: the array is this backend's own; what goes to and from the slot does so
 * under its mutex.
 */
#include "mortar.h"

#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "loose.h"
#include "xact_record.h"

static MtrLoose *loose = NULL;
static int       nloose = 0;
static int       maxloose = 0;

void
mtr_loose_reserve(int n)
{
	int size = Max(nloose + n, Max(16, maxloose * 2));

	if (nloose + n <= maxloose)
		return;
	if (loose == NULL)
		loose = MemoryContextAllocHuge(TopMemoryContext, size * sizeof(*loose));
	else
		loose = repalloc_huge(loose, size * sizeof(*loose));
	maxloose = size;
}

MtrLoose *
mtr_loose_at(int cell)
{
	Assert(MTR_IS_LOOSE(cell) && MTR_LOOSE_INDEX(cell) < nloose);
	return &loose[MTR_LOOSE_INDEX(cell)];
}

int
mtr_loose_add(const MtrLoose *l)
{
	Assert(nloose < maxloose);
	loose[nloose] = *l;
	return MTR_LOOSE_CELL(nloose++);
}

bool
mtr_loose_any(void)
{
	return nloose > 0;
}

void
mtr_loose_reset(void)
{
	nloose = 0;
}

void
mtr_loose_back(MtrTenant *t, MtrPinned *pin, TimestampTz now, int cell,
			   int64 amount)
{
	MtrLoose        *l = mtr_loose_at(cell);
	struct mtr_grant back = l->grant;

	Assert(l->tenant == t && amount <= l->taken);
	l->taken -= amount;
	if (l->own)
	{
		pin->behind_uc += l->in_force ? amount : 0;
		return;
	}
	back.remaining = amount;
	t->giving_uc -= amount;
	pin->giving_uc -= amount;
	mtr_purse_return(&t->purse, now, &back);
	t->grants_version++;
	t->refilled_at = 0; /* it may burn first: whoever comes next reads it */
	if (l->taken > 0)
		return;
	pin->loose--;
	if (!mtr_is_giving(pin))
		t->giving--;
}

void
mtr_loose_refund(MtrTenant *t, TimestampTz now, int cell, int64 amount)
{
	struct mtr_grant back = mtr_loose_at(cell)->grant;

	back.remaining = amount;
	mtr_purse_return(&t->purse, now, &back);
	mtr_purse_settle(&t->purse, now, 0);
	/* it has ended meanwhile, and may be uneven by this */
	if (back.expires_at <= t->purse.now)
		t->purse.reload_wanted = true;
	t->grants_version++;
	t->refilled_at = 0;
}

void
mtr_loose_unrefund(MtrTenant *t, MtrPinned *pin, int64 amount)
{
	t->giving_uc -= amount;
	pin->giving_uc -= amount;
	pin->loose--;
	if (!mtr_is_giving(pin))
		t->giving--;
}

int
mtr_loose_find_own(const MtrTenant *t, const pg_uuid_t *grant_id)
{
	for (int i = 0; i < nloose; i++)
		if (loose[i].tenant == t && loose[i].own &&
			memcmp(loose[i].grant.id, grant_id->data, UUID_LEN) == 0)
			return MTR_LOOSE_CELL(i);
	return -1;
}

int64
mtr_loose_take(MtrPinned *pin, int cell, int64 most)
{
	MtrLoose *l = mtr_loose_at(cell);
	int64     x = Min(most, l->grant.amount - l->taken);

	Assert(l->own);
	l->taken += x;
	pin->behind_uc -= l->in_force ? x : 0;
	return x;
}

int64
mtr_loose_take_own(MtrTenant *t, TimestampTz now, int64 amount, MtrPaid *paid)
{
	MtrPinned *pin = mtr_xact_pinned(t);
	int64      rest = amount;

	for (int i = 0; i < nloose && rest > 0; i++)
	{
		const MtrLoose *l = &loose[i];
		struct mtr_part part = {.cell = MTR_LOOSE_CELL(i)};

		if (l->tenant != t || !l->own || !l->in_force ||
			l->grant.expires_at <= now || l->taken == l->grant.amount)
			continue;
		mtr_paid_reserve(paid, 1);
		mtr_xact_reserve(1);
		part.amount = mtr_loose_take(pin, part.cell, rest);
		rest -= part.amount;
		paid->own[paid->n] = 0;
		paid->part[paid->n++] = part;
		mtr_xact_debit(t, &part);
	}
	return amount - rest;
}

/* ---- cells get free ---- */

/* what debits took of each cell */
static void
sum_up_debits(const MtrPinned *pin, int64 taken[MTR_PURSE_CELLS])
{
	memset(taken, 0, sizeof(int64) * MTR_PURSE_CELLS);
	for (int at = pin->last; at >= 0; at = mtr_records[at].prev)
	{
		const MtrRecord *r = &mtr_records[at];

		if (r->kind == MTR_RECORD_DEBIT && r->which >= 0 &&
			r->which < MTR_PURSE_CELLS)
			taken[r->which] += r->amount;
	}
}

/* the mutex is held; the cell is free already */
static void
count_loose(MtrPinned *pin, int cell, TimestampTz now, MtrLoose *l)
{
	MtrTenant *t = pin->tenant;
	uint32     bit = 1u << cell;
	bool       was_giving = mtr_is_giving(pin);
	int64      uc = l->taken;

	l->own = (pin->own & bit) != 0;
	pin->cells &= ~bit;
	pin->own &= ~bit;
	if (l->own)
	{
		/* if it is in force, nothing is left of it */
		l->in_force = l->grant.effective_at <= now && now < l->grant.expires_at;
		uc = l->grant.amount;
		pin->behind++;
	}
	else if (l->taken > 0)
		pin->loose++;
	t->giving += !was_giving && mtr_is_giving(pin);
	t->giving_uc += uc;
	pin->giving_uc += uc;
	t->grants_version++;
}

/* the mutex is held; returns how many, and which */
static int
free_cells(MtrPinned *pin, TimestampTz now, const int64 *taken, int *cell,
		   MtrLoose *got)
{
	MtrTenant *t = pin->tenant;
	uint32     may = pin->cells & ~pin->burned;
	int        n = 0;

	/* of another's loose grants tables do not tell the truth */
	if (t->giving != (mtr_is_giving(pin) ? 1 : 0))
		return 0;
	for (int i = 0; i < MTR_PURSE_CELLS; i++)
	{
		MtrLoose l = {.tenant = t, .taken = taken[i]};

		if ((may & (1u << i)) == 0 ||
			!mtr_purse_detach(&t->purse, now, i, &l.grant))
			continue;
		count_loose(pin, i, t->purse.now, &l);
		cell[n] = i;
		got[n++] = l;
	}
	return n;
}

static void
rename_cell(const MtrPinned *pin, MtrPaid *paid, int from, int to)
{
	for (int at = pin->last; at >= 0; at = mtr_records[at].prev)
	{
		MtrRecord *r = &mtr_records[at];

		if ((r->kind == MTR_RECORD_DEBIT || r->kind == MTR_RECORD_GRANT) &&
			r->which == from)
			r->which = to;
	}
	for (int i = 0; paid != NULL && i < paid->n; i++)
		if (paid->part[i].cell == from)
			paid->part[i].cell = to;
}

int
mtr_loosen(MtrTenant *t, MtrPaid *paid, uint32 *version)
{
	MtrPinned  *pin = mtr_xact_pinned(t);
	TimestampTz now = GetCurrentTimestamp();
	int64       taken[MTR_PURSE_CELLS];
	int         cell[MTR_PURSE_CELLS];
	MtrLoose    got[MTR_PURSE_CELLS];
	bool        is_known;
	int         n;

	mtr_loose_reserve(MTR_PURSE_CELLS);
	sum_up_debits(pin, taken);
	SpinLockAcquire(&t->mutex);
	is_known = version != NULL && *version == t->grants_version;
	n = free_cells(pin, Max(now, t->last_posted), taken, cell, got);
	if (is_known)
		*version = t->grants_version;
	SpinLockRelease(&t->mutex);
	for (int i = 0; i < n; i++)
	{
		bool is_named = got[i].own || got[i].taken > 0;

		rename_cell(pin, paid, cell[i], is_named ? mtr_loose_add(&got[i]) : -1);
	}
	return n;
}

/* ---- what tables show of them ---- */

static int
compare_ids(const void *a, const void *b)
{
	const MtrLoose *x = *(MtrLoose *const *) a;
	const MtrLoose *y = *(MtrLoose *const *) b;

	return memcmp(x->grant.id, y->grant.id, UUID_LEN);
}

/* what is taken of the grant, which may be there more than once */
static int64
taken_of(MtrLoose **by_id, int n, const struct mtr_grant *g)
{
	int   from = 0;
	int64 sum = 0;

	for (int upto = n; from < upto;)
	{
		int mid = from + (upto - from) / 2;

		if (memcmp(by_id[mid]->grant.id, g->id, UUID_LEN) < 0)
			from = mid + 1;
		else
			upto = mid;
	}
	for (; from < n && memcmp(by_id[from]->grant.id, g->id, UUID_LEN) == 0;
		 from++)
		sum += by_id[from]->taken;
	return sum;
}

void
mtr_loose_subtract(MtrStored *s, const pg_uuid_t *wanted)
{
	MtrLoose **by_id;
	int        n = 0;
	int        kept = 0;

	if (nloose == 0)
		return;
	by_id = palloc(nloose * sizeof(MtrLoose *));
	for (int i = 0; i < nloose; i++)
		if (loose[i].tenant != NULL && !loose[i].own && loose[i].taken > 0)
			by_id[n++] = &loose[i];
	qsort(by_id, n, sizeof(MtrLoose *), compare_ids);
	for (int i = 0; i < s->ngrants; i++)
	{
		struct mtr_grant g = s->grants[i];
		int64            taken = taken_of(by_id, n, &g);

		g.remaining -= taken;
		if (taken > 0 && g.remaining == 0 &&
			(wanted == NULL || memcmp(wanted->data, g.id, UUID_LEN) != 0))
			continue;
		s->grants[kept++] = g;
	}
	s->ngrants = kept;
	pfree(by_id);
}
