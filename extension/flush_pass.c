/*
 * flush_pass.c
 *		One look at all dirty tenants of a database, and what to do when a
 *		flush fails.
 *
 * Dirty tenants are flushed in batches.  When a batch fails, its tenants are
 * tried one by one, so that one that cannot be flushed (somebody holds a lock on
 * its rows, say) does not hold up the others.  It is set aside, and tried again
 * by itself after a while that grows from failure to failure.
 *
 * When the first few tenants fail alike, the fault is not theirs: the table is
 * locked or the disk is full.  Then the whole pass is put off, and the next one
 * starts with other tenants, in case it was theirs after all.
 *
 * Nothing is ever given up: what is not flushed stays dirty.
 */
#include "mortar.h"

#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "flush_batch.h"
#include "guc.h"

/* failures at the start of a one-by-one round that put the pass off */
#define FAILURES_BEFORE_PUTTING_OFF 3

#define PUT_OFF_FIRST_MS 250
#define PUT_OFF_MOST_MS 5000
#define ASIDE_FIRST_MS 500
#define ASIDE_MOST_MS 30000

/* a tenant set aside */
typedef struct Aside
{
	int32 tenant;
	int   failures;
	int64 until; /* mtr_now_ms */
} Aside;

/* one transaction's work */
typedef struct Work
{
	int32 only;   /* this tenant, -1: all from cursor on */
	int32 cursor; /* where the next batch starts */
} Work;

static MtrFlushBatch batch;
static MemoryContext error_context = NULL;
static HTAB         *asides = NULL;
static int           failures = 0; /* of whole passes, in a row */
static int64         put_off_until = 0;
static uint32        first_tried = 0; /* grows: one-by-one rounds start here */

static void
init(MtrDb *db)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	HASHCTL       info = {0};

	error_context = AllocSetContextCreate(
		TopMemoryContext, "mortar flush errors", ALLOCSET_SMALL_SIZES);
	info.keysize = sizeof(int32);
	info.entrysize = sizeof(Aside);
	asides = hash_create("mortar tenants set aside", 64, &info,
						 HASH_ELEM | HASH_BLOBS);
	mtr_batch_init(&batch, db);
	MemoryContextSwitchTo(old);
}

/* first, twice that, and so on up to most; failures counts from 1 */
static int64
after_failures(int n, int first_ms, int most_ms)
{
	return mtr_now_ms() +
		   (n > 16 ? most_ms : Min(first_ms << (n - 1), most_ms));
}

void
mtr_flush_note_error(MtrDb *db, const char *what, const ErrorData *error)
{
	char        message[sizeof(db->last_error)];
	TimestampTz now = GetCurrentTimestamp();
	int         n;

	snprintf(message, sizeof(message), "%s: %s", what,
			 error->message != NULL ? error->message : "unknown error");
	SpinLockAcquire(&db->mutex);
	memcpy(db->last_error, message, sizeof(message));
	db->last_error_at = now;
	n = ++db->flusher_failures;
	SpinLockRelease(&db->mutex);

	/* the first, second, fourth, eighth ... in a row */
	if ((n & (n - 1)) == 0)
		ereport(LOG,
				(errmsg("mortar: %s", message),
				 error->detail != NULL ? errdetail_internal("%s", error->detail)
									   : 0,
				 errhint("Usage is kept in memory and tried again. This was "
						 "failure %d in a row.",
						 n)));
}

static void
fill(Work *w)
{
	int32 t;

	while ((t = mtr_flush_next_dirty(batch.db, w->cursor)) >= 0)
	{
		w->cursor = t;
		if (hash_search(asides, &t, HASH_FIND, NULL) == NULL &&
			!mtr_batch_add(&batch, t))
			return;
		w->cursor = t + 1;
	}
	w->cursor = mtr_max_tenants;
}

static void
step(void *arg)
{
	Work *w = arg;

	if (w->only < 0)
		fill(w);
	else
		(void) mtr_batch_add(&batch, w->only);
	mtr_batch_write(&batch);
}

static void
rebase(void *arg)
{
	mtr_batch_rebase(&batch);
}

/* runs one batch; retry is set when the failure's cause was removed */
static MtrFlushResult
run(Work *w, bool *retry)
{
	MemoryContext  old = MemoryContextSwitchTo(error_context);
	ErrorData     *error;
	MtrFlushResult result;

	*retry = false;
	mtr_batch_begin(&batch);
	result = mtr_flush_transaction(step, w, MTR_FLUSH_TIMEOUT_MS, &error);
	if (result == MTR_FLUSH_FAILED)
	{
		mtr_batch_undo(&batch);
		mtr_flush_note_error(batch.db, "usage could not be flushed", error);
		if (error->sqlerrcode == ERRCODE_UNIQUE_VIOLATION)
			*retry = mtr_flush_transaction(rebase, NULL, MTR_FLUSH_TIMEOUT_MS,
										   &error) == MTR_FLUSH_OK;
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(error_context);
	return result;
}

static MtrFlushResult
flush_one(int32 tenant)
{
	Work           w = {.only = tenant, .cursor = 0};
	bool           retry;
	MtrFlushResult result = run(&w, &retry);

	if (retry)
		result = run(&w, &retry);
	return result;
}

static void
set_aside(int32 tenant)
{
	bool   found;
	Aside *a = hash_search(asides, &tenant, HASH_ENTER, &found);

	a->failures = found ? a->failures + 1 : 1;
	a->until = after_failures(a->failures, ASIDE_FIRST_MS, ASIDE_MOST_MS);
}

static void
put_off(void)
{
	failures++;
	put_off_until = after_failures(failures, PUT_OFF_FIRST_MS, PUT_OFF_MOST_MS);
}

/* the tenants of a batch that has failed */
static MtrFlushResult
one_by_one(const int32 *tenants, int n)
{
	int32 *failed = palloc(n * sizeof(int32));
	int    nfailed = 0;
	int    nflushed = 0;

	for (int i = 0; i < n; i++)
	{
		int32          t = tenants[(first_tried + i) % n];
		MtrFlushResult result = flush_one(t);

		if (result == MTR_FLUSH_GONE)
			return result;
		if (result == MTR_FLUSH_OK)
			nflushed++;
		else
			failed[nfailed++] = t;
		if (nflushed == 0 && nfailed == FAILURES_BEFORE_PUTTING_OFF)
			break;
	}
	first_tried += nfailed;
	if (nflushed == 0 && nfailed == FAILURES_BEFORE_PUTTING_OFF)
		put_off();
	else
		for (int i = 0; i < nfailed; i++)
			set_aside(failed[i]);
	pfree(failed);
	return nfailed > 0 ? MTR_FLUSH_FAILED : MTR_FLUSH_OK;
}

static MtrFlushResult
after_failed_batch(bool retry)
{
	int32         *tenants;
	int            n = batch.ntenants;
	MtrFlushResult result;

	if (n == 0)
	{
		put_off();
		return MTR_FLUSH_FAILED;
	}
	if (n == 1 && !retry)
	{
		set_aside(batch.tenant[0].index);
		return MTR_FLUSH_FAILED;
	}
	tenants = palloc(n * sizeof(int32));
	for (int i = 0; i < n; i++)
		tenants[i] = batch.tenant[i].index;
	result = one_by_one(tenants, n);
	pfree(tenants);
	return result;
}

/* is there a dirty tenant at or after this index that was not set aside? */
static bool
more(int32 cursor)
{
	int32 t = cursor;

	while ((t = mtr_flush_next_dirty(batch.db, t)) >= 0)
	{
		if (hash_search(asides, &t, HASH_FIND, NULL) == NULL)
			return true;
		t++;
	}
	return false;
}

static MtrFlushResult
flush_batches(void)
{
	Work           w = {.only = -1, .cursor = 0};
	MtrFlushResult worst = MTR_FLUSH_OK;

	while (more(w.cursor))
	{
		bool           retry;
		MtrFlushResult result = run(&w, &retry);

		if (result == MTR_FLUSH_OK)
		{
			failures = 0;
			continue;
		}
		if (result == MTR_FLUSH_FAILED)
			result = after_failed_batch(retry);
		if (result == MTR_FLUSH_GONE)
			return result;
		if (result == MTR_FLUSH_FAILED)
			worst = result;
		if (put_off_until > mtr_now_ms())
			break;
	}
	return worst;
}

/*
 * Those whose time has come, or all, to be freed by the caller.  Copied, since
 * a scan of the hash table would not survive the end of a transaction.
 */
static int32 *
due_asides(bool force, int *n)
{
	HASH_SEQ_STATUS scan;
	Aside          *a;
	int64           now = mtr_now_ms();
	int32 *due = palloc((hash_get_num_entries(asides) + 1) * sizeof(int32));

	*n = 0;
	hash_seq_init(&scan, asides);
	while ((a = hash_seq_search(&scan)) != NULL)
		if (force || a->until <= now ||
			!mtr_flush_is_dirty(batch.db, a->tenant))
			due[(*n)++] = a->tenant;
	return due;
}

/* tries them again; one failure is enough for one pass */
static MtrFlushResult
flush_asides(bool force)
{
	int            n;
	int32         *due = due_asides(force, &n);
	MtrFlushResult result = MTR_FLUSH_OK;

	for (int i = 0; i < n && result == MTR_FLUSH_OK; i++)
	{
		if (mtr_flush_is_dirty(batch.db, due[i]))
			result = flush_one(due[i]);
		if (result == MTR_FLUSH_OK)
			(void) hash_search(asides, &due[i], HASH_REMOVE, NULL);
		else if (result == MTR_FLUSH_FAILED)
			set_aside(due[i]);
	}
	pfree(due);
	return result;
}

MtrFlushResult
mtr_flush_pass(MtrDb *db, bool force)
{
	MtrFlushResult result;
	MtrFlushResult aside = MTR_FLUSH_OK;

	if (asides == NULL)
		init(db);
	Assert(batch.db == db);
	if (put_off_until > mtr_now_ms() && !force)
		return MTR_FLUSH_FAILED;
	put_off_until = 0;

	/* before the look: who sets it from now on may be missed by the look */
	(void) pg_atomic_exchange_u32(&db->dirty, 0);
	result = flush_batches();
	if (result != MTR_FLUSH_GONE)
		aside = flush_asides(force);
	if (mtr_flush_next_dirty(db, 0) >= 0)
		pg_atomic_write_u32(&db->dirty, 1);
	return Max(result, aside);
}
