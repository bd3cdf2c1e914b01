/*
 * xact_record.c
 *		Noting what a transaction does to shared memory (see xact_record.h).
 *
 * Room is reserved before shared memory is changed, so that noting what was
 * changed cannot fail.
 *
 * Locking: none.  The arrays are this backend's own; who changes the slot holds
 * its mutex, and has let go of it when the change is noted.
 */
#include "mortar.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "utils/memutils.h"

#include "xact_record.h"

/* how far back a record looks for one that it can join */
#define MERGE_DISTANCE 8

MtrPinned *mtr_pins = NULL;
int        mtr_npins = 0;
static int maxpins = 0;

MtrRecord *mtr_records = NULL;
int        mtr_nrecords = 0;
static int maxrecords = 0;

static void *
grow(void *array, int *max, int needed, Size element)
{
	int n = Max(needed, Max(16, *max * 2));

	if (array == NULL)
		array = MemoryContextAllocHuge(TopMemoryContext, n * element);
	else
		array = repalloc_huge(array, n * element);
	*max = n;
	return array;
}

void
mtr_xact_reserve(int n)
{
	/* a worker's end is not the transaction's end, and it would be lost */
	if (IsInParallelMode())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot use tenants of Mortar during a parallel "
						"operation"),
				 errhint("Mark functions that call Mortar PARALLEL UNSAFE.")));
	if (mtr_npins + 1 > maxpins)
		mtr_pins = grow(mtr_pins, &maxpins, mtr_npins + 1, sizeof(MtrPinned));
	if (mtr_nrecords + n > maxrecords)
		mtr_records =
			grow(mtr_records, &maxrecords, mtr_nrecords + n, sizeof(MtrRecord));
}

static uint32
hash_name(const char *tenant)
{
	return hash_bytes((const unsigned char *) tenant, strlen(tenant));
}

MtrPinned *
mtr_xact_find(const char *tenant)
{
	uint32 hash;

	if (mtr_npins == 0)
		return NULL;
	hash = hash_name(tenant);
	for (int i = mtr_npins - 1; i >= 0; i--)
		if (mtr_pins[i].hash == hash &&
			strcmp(mtr_pins[i].tenant->tenant_id, tenant) == 0)
			return &mtr_pins[i];
	return NULL;
}

MtrPinned *
mtr_xact_pinned(MtrTenant *t)
{
	for (int i = mtr_npins - 1; i >= 0; i--)
		if (mtr_pins[i].tenant == t)
			return &mtr_pins[i];
	elog(ERROR, "tenant slot %d is not pinned", t->index);
}

void
mtr_xact_pin(MtrTenant *t, const char *tenant, bool is_new)
{
	Assert(mtr_npins < maxpins);
	mtr_pins[mtr_npins].tenant = t;
	mtr_pins[mtr_npins].hash = hash_name(tenant);
	mtr_pins[mtr_npins].is_new = is_new;
	mtr_pins[mtr_npins].nest = GetCurrentTransactionNestLevel();
	mtr_pins[mtr_npins].claimed = 0;
	mtr_pins[mtr_npins].pending = 0;
	mtr_pins[mtr_npins].announced = 0;
	mtr_pins[mtr_npins].life = 0;
	mtr_pins[mtr_npins].limit = 0;
	memset(mtr_pins[mtr_npins].charged, 0, sizeof(mtr_pins[0].charged));
	mtr_pins[mtr_npins].last = -1;
	mtr_npins++;
}

/* a record of this kind that the new one may join, or a fresh one */
static MtrRecord *
add_record(MtrPinned *pin, MtrRecordKind kind, MtrUsage *usage, int16 counter)
{
	int        nest = GetCurrentTransactionNestLevel();
	MtrRecord *r;
	int        at = pin->last;

	for (int i = 0; i < MERGE_DISTANCE && at >= 0;
		 i++, at = mtr_records[at].prev)
		if (mtr_records[at].nest == nest && mtr_records[at].kind == kind &&
			mtr_records[at].usage == usage &&
			mtr_records[at].counter == counter)
			return &mtr_records[at];

	Assert(mtr_nrecords < maxrecords);
	r = &mtr_records[mtr_nrecords];
	memset(r, 0, sizeof(*r));
	r->kind = kind;
	r->nest = nest;
	r->pin = pin - mtr_pins;
	r->prev = pin->last;
	r->usage = usage;
	r->counter = counter;
	pin->last = mtr_nrecords++;
	return r;
}

void
mtr_xact_unpin_unused(MtrTenant *t)
{
	MtrPinned *pin = mtr_npins > 0 ? &mtr_pins[mtr_npins - 1] : NULL;

	if (pin == NULL || pin->tenant != t || pin->is_new || pin->last >= 0 ||
		pin->claimed != 0 || pin->announced != 0)
		return;
	mtr_npins--;
	SpinLockAcquire(&t->mutex);
	t->pins--;
	SpinLockRelease(&t->mutex);
}

void
mtr_xact_debit(MtrTenant *t, int64 from_slot, int64 from_pending)
{
	MtrPinned *pin = mtr_xact_pinned(t);
	MtrRecord *r = add_record(pin, MTR_RECORD_DEBIT, NULL, -1);

	r->amount += from_slot;
	r->from_pending += from_pending;
	pin->pending -= from_pending;
}

void
mtr_xact_credit(MtrTenant *t, int64 amount)
{
	MtrPinned *pin = mtr_xact_pinned(t);
	MtrRecord *r = add_record(pin, MTR_RECORD_CREDIT, NULL, -1);

	r->amount += amount;
	pin->pending += amount;
	pin->announced += amount;
}

void
mtr_xact_usage(const MtrUsageRef *ref, int64 qty, int64 from_pending)
{
	MtrPinned *pin = mtr_xact_pinned(ref->tenant);
	MtrRecord *r = add_record(pin, MTR_RECORD_USAGE, ref->usage, ref->counter);

	r->amount += qty;
	r->from_pending += from_pending;
	pin->pending -= from_pending;
	if (ref->counter >= 0)
		pin->charged[ref->counter] += qty;
}

void
mtr_xact_life(MtrTenant *t, MtrLife life)
{
	MtrPinned *pin = mtr_xact_pinned(t);
	int        step = (int) life - (t->life + pin->life);

	add_record(pin, MTR_RECORD_LIFE, NULL, -1)->amount += step;
	pin->life += step;
}

void
mtr_xact_limit(MtrTenant *t, int64 max_unflushed_uc)
{
	MtrPinned *pin = mtr_xact_pinned(t);
	int64      step = max_unflushed_uc - (t->max_unflushed_uc + pin->limit);

	add_record(pin, MTR_RECORD_LIMIT, NULL, -1)->amount += step;
	pin->limit += step;
}
