/*
 * xact_record.c
 *		Noting what a transaction does to shared memory (see xact_record.h).
 *
 * Room is reserved before shared memory is changed, so that noting what was
 * changed cannot fail.
 *
 * Locking: the arrays are this backend's own; who changes the slot holds its
 * mutex, and has let go of it when the change is noted.
 */
#include "mortar.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "utils/memutils.h"

#include "loose.h"
#include "slot.h"
#include "xact_record.h"

/* how far back a record looks for one that it can join */
#define MERGE_DISTANCE 12

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

/* a worker's end is not the transaction's end, and it would be lost */
static void
refuse_parallel(void)
{
	if (IsInParallelMode())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot use tenants of Mortar during a parallel "
						"operation"),
				 errhint("Mark functions that call Mortar PARALLEL UNSAFE.")));
}

void
mtr_xact_reserve_pin(void)
{
	refuse_parallel();
	if (mtr_npins + 1 > maxpins)
		mtr_pins = grow(mtr_pins, &maxpins, mtr_npins + 1, sizeof(MtrPinned));
}

void
mtr_xact_reserve(int n)
{
	refuse_parallel();
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
	MtrPinned *pin = &mtr_pins[mtr_npins];

	Assert(mtr_npins < maxpins);
	memset(pin, 0, sizeof(*pin));
	pin->tenant = t;
	pin->hash = hash_name(tenant);
	pin->is_new = is_new;
	pin->nest = GetCurrentTransactionNestLevel();
	pin->last = -1;
	pin->hold_expires = DT_NOEND;
	mtr_npins++;
}

static MtrRecord *
new_record(MtrPinned *pin, MtrRecordKind kind, MtrUsage *usage, int which)
{
	MtrRecord *r = &mtr_records[mtr_nrecords];

	Assert(mtr_nrecords < maxrecords);
	memset(r, 0, sizeof(*r));
	r->kind = kind;
	r->nest = GetCurrentTransactionNestLevel();
	r->pin = pin - mtr_pins;
	r->prev = pin->last;
	r->usage = usage;
	r->which = which;
	pin->last = mtr_nrecords++;
	return r;
}

/* a record of this kind that the new one may join, or a fresh one */
static MtrRecord *
add_record(MtrPinned *pin, MtrRecordKind kind, MtrUsage *usage, int which)
{
	int nest = GetCurrentTransactionNestLevel();
	int at = pin->last;

	for (int i = 0; i < MERGE_DISTANCE && at >= 0;
		 i++, at = mtr_records[at].prev)
		if (mtr_records[at].nest == nest && mtr_records[at].kind == kind &&
			mtr_records[at].usage == usage && mtr_records[at].which == which)
			return &mtr_records[at];
	return new_record(pin, kind, usage, which);
}

void
mtr_xact_unpin_unused(MtrTenant *t)
{
	MtrPinned *pin = mtr_npins > 0 ? &mtr_pins[mtr_npins - 1] : NULL;
	bool       wake;

	if (pin == NULL || pin->tenant != t || pin->is_new || pin->last >= 0 ||
		pin->claimed != 0 || pin->cells != 0)
		return;
	mtr_npins--;
	SpinLockAcquire(&t->mutex);
	t->pins--;
	wake = mtr_tenant_note_burns(t, false);
	SpinLockRelease(&t->mutex);
	if (wake)
		mtr_wake_launcher();
}

void
mtr_xact_debit(MtrTenant *t, const struct mtr_part *part)
{
	MtrPinned *pin = mtr_xact_pinned(t);

	/* of what was issued nothing has to be undone (take.c) */
	add_record(pin, MTR_RECORD_DEBIT, NULL, part->cell)->amount +=
		part->cell == MTR_PURSE_ISSUED ? 0 : part->amount;
}

void
mtr_xact_undebit(MtrTenant *t, const struct mtr_part *part)
{
	int   nest = GetCurrentTransactionNestLevel();
	int64 rest = part->amount;

	for (int at = mtr_xact_pinned(t)->last; at >= 0 && rest > 0;
		 at = mtr_records[at].prev)
	{
		MtrRecord *r = &mtr_records[at];
		int64      x = Min(rest, r->amount);

		if (r->nest != nest || r->kind != MTR_RECORD_DEBIT ||
			r->which != part->cell || x <= 0)
			continue;
		r->amount -= x;
		rest -= x;
	}
	/* it may have joined what had come back to an own grant */
	Assert(rest == 0 || MTR_IS_LOOSE(part->cell));
	if (rest > 0)
		add_record(mtr_xact_pinned(t), MTR_RECORD_DEBIT, NULL, part->cell)
			->amount -= rest;
}

/* a record other than a debit names the cell */
static void
note_burned(MtrPinned *pin, int cell)
{
	if (cell >= 0)
		pin->burned |= 1u << cell;
}

void
mtr_xact_burn(MtrTenant *t, const struct mtr_part *part, bool durable)
{
	MtrRecordKind kind = durable ? MTR_RECORD_DURABLE_BURN : MTR_RECORD_BURN;
	MtrPinned    *pin = mtr_xact_pinned(t);

	add_record(pin, kind, NULL, part->cell)->amount += part->amount;
	note_burned(pin, part->cell);
}

void
mtr_xact_burn_own(MtrTenant *t, const struct mtr_part *part, bool durable)
{
	MtrRecordKind kind =
		durable ? MTR_RECORD_DURABLE_BURN_OWN : MTR_RECORD_BURN_OWN;

	add_record(mtr_xact_pinned(t), kind, NULL, part->cell)->amount +=
		part->amount;
}

void
mtr_xact_grant(MtrTenant *t, int cell)
{
	MtrPinned *pin = mtr_xact_pinned(t);

	(void) new_record(pin, MTR_RECORD_GRANT, NULL, cell);
	if (!MTR_IS_LOOSE(cell))
		pin->own |= 1u << cell;
}

void
mtr_xact_refund(MtrTenant *t, const struct mtr_part *part)
{
	MtrPinned *pin = mtr_xact_pinned(t);

	if (MTR_IS_LOOSE(part->cell))
	{
		/* each of them is counted */
		new_record(pin, MTR_RECORD_REFUND, NULL, part->cell)->amount =
			part->amount;
		return;
	}
	add_record(pin, MTR_RECORD_REFUND, NULL, part->cell)->amount +=
		part->amount;
	note_burned(pin, part->cell);
	Assert(part->cell >= 0 || pin->refund_gone);
	if (part->cell >= 0)
	{
		pin->refund[part->cell] += part->amount;
		pin->refunds = true;
		Assert(pin->refund[part->cell] >= 0);
	}
}

void
mtr_xact_hold(MtrTenant *t, int64 amount, TimestampTz expires_at)
{
	MtrPinned *pin = mtr_xact_pinned(t);

	add_record(pin, MTR_RECORD_HOLD, NULL, -1)->amount += amount;
	pin->hold_expires = Min(pin->hold_expires, expires_at);
}

void
mtr_xact_unhold(MtrTenant *t, int64 amount)
{
	MtrPinned *pin = mtr_xact_pinned(t);

	add_record(pin, MTR_RECORD_UNHOLD, NULL, -1)->amount += amount;
	pin->unhold += amount;
}

void
mtr_xact_releasing(MtrTenant *t, int64 amount)
{
	MtrPinned *pin = mtr_xact_pinned(t);

	add_record(pin, MTR_RECORD_RELEASING, NULL, -1)->amount += amount;
	pin->releasing_uc += amount;
}

void
mtr_xact_usage(const MtrUsageRef *ref, int64 qty, bool durable)
{
	MtrPinned    *pin = mtr_xact_pinned(ref->tenant);
	MtrRecordKind kind = durable ? MTR_RECORD_DURABLE_USAGE : MTR_RECORD_USAGE;

	add_record(pin, kind, ref->usage, ref->counter)->amount += qty;
	if (durable)
		pin->durable = true;
	else if (ref->counter >= 0)
		pin->charged[ref->counter] += qty;
}

void
mtr_xact_reserved(MtrTenant *t, const MtrReserveId *id, const MtrParts *parts)
{
	MtrPinned *pin = mtr_xact_pinned(t);
	MtrRecord *r = new_record(pin, MTR_RECORD_RESERVE, NULL, id->index);

	r->amount = (int64) id->serial;
	for (int i = 0; i < parts->n; i++)
	{
		struct mtr_part less = {.cell = parts->part[i].cell,
								.amount = -parts->own[i]};

		note_burned(pin, less.cell);
		if (less.amount != 0)
			mtr_xact_refund(t, &less);
	}
}

void
mtr_xact_unreserve(MtrTenant *t, const MtrReserveId *id)
{
	MtrPinned *pin = mtr_xact_pinned(t);
	int        at = pin->last;

	while (at >= 0 && (mtr_records[at].kind != MTR_RECORD_RESERVE ||
					   mtr_records[at].amount != (int64) id->serial))
		at = mtr_records[at].prev;
	if (at >= 0)
		new_record(pin, MTR_RECORD_UNRESERVE, NULL, id->index)->amount =
			(int64) id->serial;
}

void
mtr_xact_queue(MtrTenant *t, int64 rows)
{
	MtrPinned *pin = mtr_xact_pinned(t);

	add_record(pin, MTR_RECORD_QUEUE, NULL, -1)->amount += rows;
}

void
mtr_xact_drain(MtrTenant *t, int counter, int64 qty)
{
	MtrPinned *pin = mtr_xact_pinned(t);

	add_record(pin, MTR_RECORD_DRAIN, NULL, counter)->amount += qty;
	pin->durable = true;
}

void
mtr_xact_rebook(MtrTenant *t, const struct mtr_part *part)
{
	MtrPinned *pin = mtr_xact_pinned(t);

	add_record(pin, MTR_RECORD_REBOOK, NULL, part->cell)->amount +=
		part->amount;
	note_burned(pin, part->cell);
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
mtr_xact_frozen(MtrTenant *t, bool frozen)
{
	MtrPinned *pin = mtr_xact_pinned(t);
	int        step = (int) frozen - (t->frozen + pin->frozen);

	add_record(pin, MTR_RECORD_FROZEN, NULL, -1)->amount += step;
	pin->frozen += step;
}

void
mtr_xact_limit(MtrTenant *t, enum mtr_purse_mode mode, int64 overdraft_uc,
			   int64 max_unflushed_uc, MtrDurability durability)
{
	MtrPinned *pin = mtr_xact_pinned(t);
	int64      step;
	int        mode_step;
	int64      floor_step;
	int        durability_step;

	/* others put limits of their own on the purse, but only under the mutex */
	SpinLockAcquire(&t->mutex);
	step = max_unflushed_uc - (t->max_unflushed_uc + pin->limit);
	mode_step = (int) mode - (t->purse.mode + pin->mode);
	floor_step = -overdraft_uc - (t->purse.floor + pin->floor);
	durability_step = (int) durability - (t->durability + pin->durability);
	SpinLockRelease(&t->mutex);

	add_record(pin, MTR_RECORD_LIMIT, NULL, -1)->amount += step;
	pin->limit += step;
	add_record(pin, MTR_RECORD_MODE, NULL, -1)->amount += mode_step;
	pin->mode += mode_step;
	add_record(pin, MTR_RECORD_FLOOR, NULL, -1)->amount += floor_step;
	pin->floor += floor_step;
	add_record(pin, MTR_RECORD_DURABILITY, NULL, -1)->amount += durability_step;
	pin->durability += durability_step;
}
