/*
 * xact.c
 *		What a transaction owes shared memory when it ends (see xact.h).
 *
 * What it has done so far stands in the arrays of xact_record.h.
 *
 * Locking: one acquisition of a tenant's spinlock per pin at commit, a bounded
 * number of records under each.
 */
#include "mortar.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/timestamp.h"

#include "inval.h"
#include "loose.h"
#include "slot.h"
#include "spi.h"
#include "tenant.h"
#include "xact_record.h"

/* records handled under one acquisition of a tenant's spinlock */
#define RECORDS_PER_LOCK 32

static void (*commit_func)(void *arg) = NULL;
static void *commit_arg = NULL;

void
mtr_xact_on_commit(void (*func)(void *arg), void *arg)
{
	commit_func = func;
	commit_arg = arg;
}

/* ---- the end of a transaction; from here on nothing may fail ---- */

/* what was undone is worth a little more or less now than when it was taken */
static void
settle(MtrTenant *t, MtrPinned *pin, TimestampTz now)
{
	int64 back = pin->back;

	pin->back = 0;
	mtr_purse_settle(&t->purse, now, back);
	mtr_unflushed_settle(t);
}

/* what was held is given back, or used up, and what was spent comes back */
static void
commit_refunds(MtrTenant *t, const MtrPinned *pin, TimestampTz now)
{
	t->held -= pin->unhold;
	t->releasing_uc -= pin->releasing_uc;
	if (pin->hold_expires != DT_NOEND)
	{
		t->next_hold_expiry = Min(t->next_hold_expiry, pin->hold_expires);
		t->holds_version++;
	}
	/* what others are reading may be from before it came back */
	if (pin->refund_gone)
		t->grants_version++;
	if (!pin->refunds)
		return;
	for (int i = 0; i < MTR_PURSE_SOURCES; i++)
		if (pin->refund[i] > 0)
			mtr_purse_back(&t->purse, now, i, pin->refund[i]);
	mtr_purse_settle(&t->purse, now, 0);
}

static void
commit_pin(MtrTenant *t, const MtrPinned *pin, TimestampTz now)
{
	commit_refunds(t, pin, now);
	t->frozen += pin->frozen;
	t->giving_uc -= pin->giving_uc;
	t->life += pin->life;
	t->max_unflushed_uc += pin->limit;
	t->purse.mode += pin->mode;
	t->purse.floor += pin->floor;
	t->durability += pin->durability;
	if (mtr_is_giving(pin))
		t->giving--;
	/* what others are reading may be from before it was spent */
	if (pin->loose > 0)
		t->grants_version++;
	if (pin->durable)
		mtr_unflushed_settle(t);
}

static void
release(MtrTenant *t, const MtrPinned *pin)
{
	for (int i = 0; pin->claimed != 0 && i < MTR_COUNTERS; i++)
		if (pin->claimed & (1u << i))
			t->counter[i].refs--;
	for (int i = 0; pin->cells != 0 && i < MTR_PURSE_SOURCES; i++)
		if (pin->cells & (1u << i))
			t->purse.cell[i].refs--;
	if (pin->refund_gone)
	{
		t->gone--;
		t->purse.reload_wanted = true;
	}
	t->pins--;
}

static void
end_records(MtrPinned *pin, const MtrEnd *end)
{
	MtrTenant *t = pin->tenant;
	bool       wake = false;
	int        n = 0;

	SpinLockAcquire(&t->mutex);
	for (int at = pin->last; at >= 0; at = mtr_records[at].prev)
	{
		if (++n % RECORDS_PER_LOCK == 0)
		{
			SpinLockRelease(&t->mutex);
			SpinLockAcquire(&t->mutex);
		}
		if (end->is_commit)
			mtr_record_commit(&mtr_records[at], t, end, &wake);
		else
			mtr_record_undo(&mtr_records[at], t, pin, end->now);
	}
	if (end->is_commit)
		commit_pin(t, pin, end->now);
	else if (pin->last >= 0)
		settle(t, pin, end->now);
	if (pin->is_new)
	{
		/*
		 * An aborted creation leaves a slot that no generation matches: the
		 * next one who asks for it throws it away.
		 */
		t->state = MTR_TENANT_READY;
		if (!end->is_commit)
			t->generation = 0;
	}
	release(t, pin);
	if (mtr_tenant_note_burns(t, pin->last >= 0))
		wake = true;
	SpinLockRelease(&t->mutex);
	if (wake)
		mtr_wake_launcher();
}

static void
end_xact(bool is_commit)
{
	int    n = mtr_npins;
	MtrEnd end = {.is_commit = is_commit};

	mtr_context_end_xact();
	mtr_own_statement_reset();
	if (n > 0)
	{
		if (mtr_nrecords > 0)
		{
			end.now = GetCurrentTransactionStopTimestamp();
			end.minute = mtr_minute_of(end.now);
		}
		/* cleared first: whatever happens, nothing is done twice */
		mtr_npins = 0;
		mtr_nrecords = 0;
		for (int i = 0; i < n; i++)
			end_records(&mtr_pins[i], &end);
	}
	mtr_loose_reset();
	mtr_inval_end(is_commit);
	if (is_commit && commit_func != NULL)
		commit_func(commit_arg);
	commit_func = NULL;
}

static void
refuse_prepare(void)
{
	if (mtr_nrecords > 0 || mtr_inval_any() || commit_func != NULL)
		goto refuse;
	for (int i = 0; i < mtr_npins; i++)
		if (mtr_pins[i].is_new)
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
abort_records(int level, TimestampTz now)
{
	while (mtr_nrecords > 0 && mtr_records[mtr_nrecords - 1].nest >= level)
	{
		MtrRecord *r = &mtr_records[--mtr_nrecords];
		MtrPinned *pin = &mtr_pins[r->pin];

		SpinLockAcquire(&pin->tenant->mutex);
		mtr_record_undo(r, pin->tenant, pin, now);
		SpinLockRelease(&pin->tenant->mutex);
		pin->last = r->prev;
		pin->undone = true;
	}
}

/* the last step of undoing, for all tenants whose records are gone */
static void
settle_pins(TimestampTz now)
{
	for (int i = 0; i < mtr_npins; i++)
	{
		MtrPinned *pin = &mtr_pins[i];
		MtrTenant *t = pin->tenant;
		bool       wake = false;

		if (!pin->undone)
			continue;
		pin->undone = false;
		SpinLockAcquire(&t->mutex);
		settle(t, pin, now);
		wake = mtr_tenant_note_burns(t, true);
		SpinLockRelease(&t->mutex);
		if (wake)
			mtr_wake_launcher();
	}
}

/*
 * Tenants created in the aborted subtransaction are gone.	Their pins are at
 * the end of the array, like records; other pins stay to the end.
 */
static void
abort_new_tenants(int level, TimestampTz now)
{
	int    kept = mtr_npins;
	MtrEnd end = {.is_commit = false, .now = now};

	while (kept > 0 && mtr_pins[kept - 1].nest >= level)
		kept--;
	for (int i = kept; i < mtr_npins; i++)
	{
		if (mtr_pins[i].is_new)
			end_records(&mtr_pins[i], &end);
		else
		{
			mtr_pins[kept] = mtr_pins[i];
			mtr_pins[kept].nest = level - 1;
			kept++;
		}
	}
	mtr_npins = kept;
}

static void
abort_sub(int level)
{
	TimestampTz now;

	if (mtr_npins == 0)
		return;
	now = GetCurrentTimestamp();
	abort_records(level, now);
	settle_pins(now);
	abort_new_tenants(level, now);
}

static void
commit_levels(int level)
{
	for (int i = mtr_nrecords - 1; i >= 0 && mtr_records[i].nest >= level; i--)
		mtr_records[i].nest = level - 1;
	for (int i = mtr_npins - 1; i >= 0 && mtr_pins[i].nest >= level; i--)
		mtr_pins[i].nest = level - 1;
}

static void
on_subxact(SubXactEvent event, SubTransactionId mine, SubTransactionId parent,
		   void *arg)
{
	int level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		abort_sub(level);
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
