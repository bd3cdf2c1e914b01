/*
 * slot_load.c
 *		Filling a tenant's slot from tables.
 *
 * One loader per tenant: a lock of the lock manager, so that an error, a
 * cancel or the death of the loader frees it.  Others look again now and then for
 * MTR_SLOT_WAIT_MS at most, and then answer "busy".  The loader, who works for all
 * of them, is not cut by its own statement_timeout (untimed.c), so that however
 * many entries there are, the first load is the last one.
 *
 * The loader reads with a snapshot taken after it found the slot absent.  No
 * transaction can have posted to an absent slot and still run, so nothing is
 * missed; its own transaction's rows are left out (MTR_SNAP_OTHERS), because
 * what it posted, it posted to a slot that it pins.
 *
 * A slot that is present but stale (tables were changed behind its back) is
 * waited for until nobody pins it and its usage is flushed, then thrown away
 * and loaded like an absent one.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/wait_event.h"

#include "flush.h"
#include "locks.h"
#include "refill.h"
#include "slot_load.h"
#include "spi.h"
#include "sync.h"
#include "untimed.h"
#include "xact.h"

/* how often those who wait for a loader look again: less and less often */
#define LOAD_POLL_MIN_MS 5
#define LOAD_POLL_MAX_MS 50

typedef struct Loaded
{
	bool         exists;
	MtrStored    stored;
	MtrUndrained undrained;
} Loaded;

static void
read_tables(const char *tenant, Loaded *l)
{
	memset(l, 0, sizeof(*l));
	l->exists = mtr_tenant_stored(tenant, &l->stored);
	if (!l->exists)
		return;
	mtr_undrained_read(tenant, &l->undrained);
	l->stored.unpaid_uc = l->undrained.unpaid_uc;
}

static void
fill(MtrTenant *t, const Loaded *l, MtrQueue *q, uint64 generation)
{
	TimestampTz now = Max(l->stored.now, l->stored.last_posted);
	bool        wake = false;

	SpinLockAcquire(&t->mutex);
	/* debt that a grant has repaid since: the flusher writes it */
	if (mtr_purse_load(&t->purse, now, q) || l->undrained.rows > 0)
		wake = mtr_tenant_mark_dirty(t);
	t->queued = l->undrained.rows;
	t->held = l->stored.held;
	/* whoever needs to know looks for the first of them */
	t->next_hold_expiry = t->held > 0 ? DT_NOBEGIN : DT_NOEND;
	t->last_posted = l->stored.last_posted;
	t->life = l->stored.life;
	t->frozen = l->stored.frozen;
	t->max_unflushed_uc = l->stored.max_unflushed_uc;
	t->durability = (uint8) l->stored.durability;
	t->generation = generation;
	t->state = MTR_TENANT_READY;
	SpinLockRelease(&t->mutex);
	if (wake)
		mtr_wake_launcher();
}

typedef enum Present
{
	PRESENT_NO,   /* the slot is not in memory (any more) */
	PRESENT_NEW,  /* a transaction in progress is creating the tenant */
	PRESENT_STALE /* pinned or unflushed: it cannot go yet */
} Present;

/* throws away a stale slot if that is possible now */
static Present
clear_stale(MtrDb *db, const char *tenant)
{
	MtrTenant *t;
	Present    result = PRESENT_NO;

	LWLockAcquire(MtrShared->lock, LW_EXCLUSIVE);
	t = mtr_tenant_lookup(db - MtrShared->db, tenant);
	if (t != NULL && t->state == MTR_TENANT_NEW)
		result = PRESENT_NEW;
	else if (t != NULL && !mtr_tenant_clear_locked(t))
		result = PRESENT_STALE;
	LWLockRelease(MtrShared->lock);
	return result;
}

void
mtr_slot_nap(int ms)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/* one try to load, with the load lock held */
typedef struct Try
{
	MtrDb      *db;
	const char *tenant;
	MtrTenant **slot;
	MtrPin      result;
} Try;

/*
 * Puts what was read into memory.  When there is no room one waits for it here:
 * as long as the load lock is held, what was read stays true, and reading it again
 * may take long.
 */
static MtrPin
place(const Try *try, const Loaded *l, uint64 generation)
{
	int        db = try->db - MtrShared->db;
	MtrTenant *t = NULL;
	bool       again = false;
	MtrQueue   queue;

	mtr_queue_grants(&queue, &l->stored, -1);
	for (int waited = 0; waited < MTR_SLOT_WAIT_MS; waited += MTR_SLOT_POLL_MS)
	{
		LWLockAcquire(MtrShared->lock, LW_EXCLUSIVE);
		/* not ours any more, or the tenant is being created by somebody */
		again = try->db->dboid != MyDatabaseId ||
				mtr_tenant_lookup(db, try->tenant) != NULL;
		if (!again)
			t = mtr_tenant_insert_locked(db, try->tenant, MTR_TENANT_NEW);
		if (t != NULL)
			fill(t, l, &queue, generation);
		LWLockRelease(MtrShared->lock);
		if (again || t != NULL)
			break;
		mtr_wake_flushers();
		mtr_slot_nap(MTR_SLOT_POLL_MS);
	}
	if (t == NULL)
		return again ? MTR_PIN_BUSY : MTR_PIN_FULL;

	mtr_xact_pin(t, try->tenant, false);
	*try->slot = t;
	return MTR_PIN_OK;
}

static MtrPin
load_absent(const Try *try)
{
	uint64 generation = pg_atomic_read_u64(&try->db->generation);
	Loaded l;

	read_tables(try->tenant, &l);
	if (!l.exists)
		return MTR_PIN_NO_TENANT;
	return place(try, &l, generation);
}

static void
try_load(void *arg)
{
	Try   *try = arg;
	Loaded l;

	/* somebody may have loaded it while we waited */
	try->result = MTR_PIN_OK;
	if (mtr_tenant_pin_present(try->tenant, try->slot))
		return;
	try->result = MTR_PIN_BUSY;
	switch (clear_stale(try->db, try->tenant))
	{
		case PRESENT_NO:
			try->result = load_absent(try);
			break;
		case PRESENT_NEW:
			/* for others the tenant exists from the commit on, not before */
			read_tables(try->tenant, &l);
			if (!l.exists)
				try->result = MTR_PIN_NO_TENANT;
			break;
		case PRESENT_STALE:
			mtr_wake_flushers();
			break;
	}
}

/* half of what statement_timeout leaves: the answer is "busy", not an error */
static int64
wait_until(void)
{
	return mtr_now_ms() + Min(MTR_SLOT_WAIT_MS, mtr_time_left_ms() / 2);
}

MtrPin
mtr_tenant_load(const char *tenant, MtrTenant **slot)
{
	Try   try = {.tenant = tenant, .slot = slot, .result = MTR_PIN_BUSY};
	int64 until;
	int   ms = LOAD_POLL_MIN_MS;

	if (!mtr_stopfile_wait(mtr_db()))
		return MTR_PIN_PENDING;
	until = wait_until();
	for (;;)
	{
		try.db = mtr_db();
		if (mtr_try_lock(MTR_LOCK_LOAD, tenant))
		{
			mtr_untimed(try_load, &try);
			mtr_unlock(MTR_LOCK_LOAD, tenant);
			if (try.result != MTR_PIN_BUSY)
				return try.result;
		}
		if (mtr_now_ms() >= until)
			return try.result;
		mtr_slot_nap(ms);
		ms = Min(2 * ms, LOAD_POLL_MAX_MS);
	}
}
