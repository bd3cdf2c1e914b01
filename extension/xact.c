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

#include "core/price.h"
#include "inval.h"
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

/* the tenant's mutex is held */
static void
commit_record(const MtrRecord *r, MtrTenant *t, int32 minute, bool *wake)
{
	MtrUsage *u = r->usage;

	if (r->kind != MTR_RECORD_USAGE)
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
undo_record(const MtrRecord *r, MtrTenant *t)
{
	switch (r->kind)
	{
		case MTR_RECORD_DEBIT:
			t->available += r->amount;
			break;
		case MTR_RECORD_CREDIT:
			t->incoming -= r->amount;
			break;
		case MTR_RECORD_USAGE:
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
				t->unflushed_uc -= back;
				t->available += back - r->from_pending;
			}
			break;
		case MTR_RECORD_LIFE: /* the slot has not seen it */
		case MTR_RECORD_LIMIT:
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
	for (int at = pin->last; at >= 0; at = mtr_records[at].prev)
	{
		if (++n % RECORDS_PER_LOCK == 0)
		{
			SpinLockRelease(&t->mutex);
			SpinLockAcquire(&t->mutex);
		}
		if (is_commit)
			commit_record(&mtr_records[at], t, minute, &wake);
		else
			undo_record(&mtr_records[at], t);
	}
	if (is_commit)
	{
		t->available += pin->pending;
		t->incoming -= pin->announced;
		t->life += pin->life;
		t->max_unflushed_uc += pin->limit;
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

static void
end_xact(bool is_commit)
{
	int   n = mtr_npins;
	int32 minute;

	mtr_context_end_xact();
	mtr_own_statement_reset();
	if (n > 0)
	{
		minute = mtr_nrecords > 0 && is_commit
					 ? mtr_minute_of(GetCurrentTransactionStopTimestamp())
					 : 0;
		/* cleared first: whatever happens, nothing is done twice */
		mtr_npins = 0;
		mtr_nrecords = 0;
		for (int i = 0; i < n; i++)
			end_records(&mtr_pins[i], is_commit, minute);
	}
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
abort_records(int level)
{
	while (mtr_nrecords > 0 && mtr_records[mtr_nrecords - 1].nest >= level)
	{
		MtrRecord *r = &mtr_records[--mtr_nrecords];
		MtrPinned *pin = &mtr_pins[r->pin];

		SpinLockAcquire(&pin->tenant->mutex);
		undo_record(r, pin->tenant);
		SpinLockRelease(&pin->tenant->mutex);

		pin->last = r->prev;
		pin->pending += r->from_pending;
		if (r->kind == MTR_RECORD_CREDIT)
		{
			pin->pending -= r->amount;
			pin->announced -= r->amount;
		}
		else if (r->kind == MTR_RECORD_LIFE)
			pin->life -= (int) r->amount;
		else if (r->kind == MTR_RECORD_LIMIT)
			pin->limit -= r->amount;
		else if (r->counter >= 0)
			pin->charged[r->counter] -= r->amount;
	}
}

/*
 * Tenants created in the aborted subtransaction are gone.	Their pins are at
 * the end of the array, like records; other pins stay to the end.
 */
static void
abort_new_tenants(int level)
{
	int kept = mtr_npins;

	while (kept > 0 && mtr_pins[kept - 1].nest >= level)
		kept--;
	for (int i = kept; i < mtr_npins; i++)
	{
		if (mtr_pins[i].is_new)
			end_records(&mtr_pins[i], false, 0);
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
