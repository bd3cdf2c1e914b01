/*
 * xact.c
 *		What a transaction owes shared memory when it ends (see xact.h).
 *
 * Two arrays, kept for the life of the backend and emptied at the end of every
 * transaction: pins (one per tenant slot) and records (one per movement,
 * merged where two of the same kind follow each other at one level).
 *
 * The records of a subtransaction always form the tail of the array: what came
 * before it has a lower nesting level, and a committed subtransaction's
 * records pass to its parent's level.	Movements commute, so undoing them in any
 * order gives the same sums.
 *
 * Locking: one acquisition of a tenant's spinlock per pin at commit, a bounded
 * number of records under each.
 */
#include "mortar.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "core/price.h"
#include "inval.h"
#include "slot.h"
#include "spi.h"
#include "tenant.h"
#include "xact.h"

/* records handled under one acquisition of a tenant's spinlock */
#define RECORDS_PER_LOCK 32

/* how far back a record looks for one that it can join */
#define MERGE_DISTANCE 8

typedef enum RecordKind
{
	RECORD_DEBIT,
	RECORD_CREDIT,
	RECORD_USAGE,
	RECORD_LIFE
} RecordKind;

typedef struct Record
{
	RecordKind kind;
	int        nest;
	int        pin;  /* index into pins */
	int        prev; /* older record of the same pin, -1: none */
	MtrUsage  *usage;
	int16      counter;
	int64      amount; /* credit, debit from the slot, quantity, or step of
						* MtrTenant.life */
	int64      from_pending;
} Record;

static MtrPinned *pins = NULL;
static int        npins = 0;
static int        maxpins = 0;

static Record *records = NULL;
static int     nrecords = 0;
static int     maxrecords = 0;

static void (*commit_func)(void *arg) = NULL;
static void *commit_arg = NULL;

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
	if (npins + 1 > maxpins)
		pins = grow(pins, &maxpins, npins + 1, sizeof(MtrPinned));
	if (nrecords + n > maxrecords)
		records = grow(records, &maxrecords, nrecords + n, sizeof(Record));
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

	if (npins == 0)
		return NULL;
	hash = hash_name(tenant);
	for (int i = npins - 1; i >= 0; i--)
		if (pins[i].hash == hash &&
			strcmp(pins[i].tenant->tenant_id, tenant) == 0)
			return &pins[i];
	return NULL;
}

MtrPinned *
mtr_xact_pinned(MtrTenant *t)
{
	for (int i = npins - 1; i >= 0; i--)
		if (pins[i].tenant == t)
			return &pins[i];
	elog(ERROR, "tenant slot %d is not pinned", t->index);
}

void
mtr_xact_pin(MtrTenant *t, const char *tenant, bool is_new)
{
	Assert(npins < maxpins);
	pins[npins].tenant = t;
	pins[npins].hash = hash_name(tenant);
	pins[npins].is_new = is_new;
	pins[npins].nest = GetCurrentTransactionNestLevel();
	pins[npins].claimed = 0;
	pins[npins].pending = 0;
	pins[npins].announced = 0;
	pins[npins].life = 0;
	pins[npins].last = -1;
	npins++;
}

/* a record of this kind that the new one may join, or a fresh one */
static Record *
add_record(MtrPinned *pin, RecordKind kind, MtrUsage *usage, int16 counter)
{
	int     nest = GetCurrentTransactionNestLevel();
	Record *r;
	int     at = pin->last;

	for (int i = 0; i < MERGE_DISTANCE && at >= 0; i++, at = records[at].prev)
		if (records[at].nest == nest && records[at].kind == kind &&
			records[at].usage == usage && records[at].counter == counter)
			return &records[at];

	Assert(nrecords < maxrecords);
	r = &records[nrecords];
	memset(r, 0, sizeof(*r));
	r->kind = kind;
	r->nest = nest;
	r->pin = pin - pins;
	r->prev = pin->last;
	r->usage = usage;
	r->counter = counter;
	pin->last = nrecords++;
	return r;
}

void
mtr_xact_unpin_unused(MtrTenant *t)
{
	MtrPinned *pin = npins > 0 ? &pins[npins - 1] : NULL;

	if (pin == NULL || pin->tenant != t || pin->is_new || pin->last >= 0 ||
		pin->claimed != 0 || pin->announced != 0)
		return;
	npins--;
	SpinLockAcquire(&t->mutex);
	t->pins--;
	SpinLockRelease(&t->mutex);
}

void
mtr_xact_debit(MtrTenant *t, int64 from_slot, int64 from_pending)
{
	MtrPinned *pin = mtr_xact_pinned(t);
	Record    *r = add_record(pin, RECORD_DEBIT, NULL, -1);

	r->amount += from_slot;
	r->from_pending += from_pending;
	pin->pending -= from_pending;
}

void
mtr_xact_credit(MtrTenant *t, int64 amount)
{
	MtrPinned *pin = mtr_xact_pinned(t);
	Record    *r = add_record(pin, RECORD_CREDIT, NULL, -1);

	r->amount += amount;
	pin->pending += amount;
	pin->announced += amount;
}

void
mtr_xact_usage(const MtrUsageRef *ref, int64 qty, int64 from_pending)
{
	MtrPinned *pin = mtr_xact_pinned(ref->tenant);
	Record    *r = add_record(pin, RECORD_USAGE, ref->usage, ref->counter);

	r->amount += qty;
	r->from_pending += from_pending;
	pin->pending -= from_pending;
}

void
mtr_xact_life(MtrTenant *t, MtrLife life)
{
	MtrPinned *pin = mtr_xact_pinned(t);
	int        step = (int) life - (t->life + pin->life);

	add_record(pin, RECORD_LIFE, NULL, -1)->amount += step;
	pin->life += step;
}

void
mtr_xact_on_commit(void (*func)(void *arg), void *arg)
{
	commit_func = func;
	commit_arg = arg;
}

/* ---- the end of a transaction; from here on nothing may fail ---- */

/* the tenant's mutex is held */
static void
commit_record(const Record *r, MtrTenant *t, int32 minute, bool *wake)
{
	MtrUsage *u = r->usage;

	if (r->kind != RECORD_USAGE)
		return;
	if (u->done == u->flushed)
		t->unflushed++;
	mtr_ring_add(&u->ring, u->done, minute, u->flushed);
	u->done += r->amount;
	if (r->counter >= 0)
		t->counter[r->counter].done += r->amount;
	if (mtr_tenant_mark_dirty(t))
		*wake = true;
}

/* the tenant's mutex is held */
static void
undo_record(const Record *r, MtrTenant *t)
{
	switch (r->kind)
	{
		case RECORD_DEBIT:
			t->available += r->amount;
			break;
		case RECORD_CREDIT:
			t->incoming -= r->amount;
			break;
		case RECORD_USAGE:
			r->usage->taken -= r->amount;
			if (r->counter >= 0)
			{
				MtrCounter *c = &t->counter[r->counter];
				int64       back = 0;

				/* the same arithmetic that took it, so it cannot fail */
				if (!mtr_price_step(c->priced - r->amount, r->amount, c->num_uc,
									c->per_units, &back))
					back = 0;
				c->priced -= r->amount;
				t->available += back - r->from_pending;
			}
			break;
		case RECORD_LIFE: /* the slot has not seen it */
			break;
	}
}

static void
end_records(MtrPinned *pin, bool is_commit, int32 minute)
{
	MtrTenant *t = pin->tenant;
	bool       wake = false;
	int        n = 0;

	SpinLockAcquire(&t->mutex);
	for (int at = pin->last; at >= 0; at = records[at].prev)
	{
		if (++n % RECORDS_PER_LOCK == 0)
		{
			SpinLockRelease(&t->mutex);
			SpinLockAcquire(&t->mutex);
		}
		if (is_commit)
			commit_record(&records[at], t, minute, &wake);
		else
			undo_record(&records[at], t);
	}
	if (is_commit)
	{
		t->available += pin->pending;
		t->incoming -= pin->announced;
		t->life += pin->life;
	}
	if (pin->is_new)
	{
		/*
		 * An aborted creation leaves a slot that no generation matches: the
		 * next one who asks for it throws it away.
		 */
		t->state = MTR_TENANT_READY;
		if (!is_commit)
			t->generation = 0;
	}
	for (int i = 0; pin->claimed != 0 && i < MTR_COUNTERS; i++)
		if (pin->claimed & (1u << i))
			t->counter[i].refs--;
	t->pins--;
	SpinLockRelease(&t->mutex);
	if (wake)
		mtr_wake_launcher();
}

/* minutes since the Unix epoch, of this transaction's end */
static int32
minute_now(void)
{
	TimestampTz now = GetCurrentTransactionStopTimestamp();
	int64       unix_us =
		now + (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;

	return (int32) (unix_us / USECS_PER_MINUTE);
}

static void
end_xact(bool is_commit)
{
	int   n = npins;
	int32 minute;

	mtr_context_end_xact();
	mtr_own_statement_reset();
	if (n > 0)
	{
		minute = nrecords > 0 && is_commit ? minute_now() : 0;
		/* cleared first: whatever happens, nothing is done twice */
		npins = 0;
		nrecords = 0;
		for (int i = 0; i < n; i++)
			end_records(&pins[i], is_commit, minute);
	}
	mtr_inval_end(is_commit);
	if (is_commit && commit_func != NULL)
		commit_func(commit_arg);
	commit_func = NULL;
}

static void
refuse_prepare(void)
{
	if (nrecords > 0 || mtr_inval_any() || commit_func != NULL)
		goto refuse;
	for (int i = 0; i < npins; i++)
		if (pins[i].is_new)
			goto refuse;
	return;

refuse:
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot PREPARE a transaction that changed tenants, keys, "
					"prices, credits or usage of Mortar"),
			 errhint("Use COMMIT.")));
}

static void
on_xact(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			end_xact(true);
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE: /* nothing but pins, see PRE_PREPARE */
			end_xact(false);
			break;
		case XACT_EVENT_PRE_PREPARE:
			refuse_prepare();
			break;
		default:
			break;
	}
}

/* ---- subtransactions ---- */

static void
abort_records(int level)
{
	while (nrecords > 0 && records[nrecords - 1].nest >= level)
	{
		Record    *r = &records[--nrecords];
		MtrPinned *pin = &pins[r->pin];

		SpinLockAcquire(&pin->tenant->mutex);
		undo_record(r, pin->tenant);
		SpinLockRelease(&pin->tenant->mutex);

		pin->last = r->prev;
		pin->pending += r->from_pending;
		if (r->kind == RECORD_CREDIT)
		{
			pin->pending -= r->amount;
			pin->announced -= r->amount;
		}
		else if (r->kind == RECORD_LIFE)
			pin->life -= (int) r->amount;
	}
}

/*
 * Tenants created in the aborted subtransaction are gone.	Their pins are at
 * the end of the array, like records; other pins stay to the end.
 */
static void
abort_new_tenants(int level)
{
	int kept = npins;

	while (kept > 0 && pins[kept - 1].nest >= level)
		kept--;
	for (int i = kept; i < npins; i++)
	{
		if (pins[i].is_new)
			end_records(&pins[i], false, 0);
		else
		{
			pins[kept] = pins[i];
			pins[kept].nest = level - 1;
			kept++;
		}
	}
	npins = kept;
}

static void
commit_levels(int level)
{
	for (int i = nrecords - 1; i >= 0 && records[i].nest >= level; i--)
		records[i].nest = level - 1;
	for (int i = npins - 1; i >= 0 && pins[i].nest >= level; i--)
		pins[i].nest = level - 1;
}

static void
on_subxact(SubXactEvent event, SubTransactionId mine, SubTransactionId parent,
		   void *arg)
{
	int level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		abort_records(level);
		abort_new_tenants(level);
		mtr_own_statement_reset();
		mtr_inval_end_subxact(false, level);
		mtr_context_end_subxact(false, level);
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		commit_levels(level);
		mtr_inval_end_subxact(true, level);
		mtr_context_end_subxact(true, level);
	}
}

void
mtr_xact_init(void)
{
	RegisterXactCallback(on_xact, NULL);
	RegisterSubXactCallback(on_subxact, NULL);
}
