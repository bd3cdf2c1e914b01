/*
 * flusher.c
 *		The process that writes a database's usage to its tables.
 *
 * The launcher starts one for a database that has something to flush.  It
 * claims the database in shared memory, so that there is never more than one;
 * flushes every mortar.flush_interval, or when its latch is set; and leaves when
 * nothing has come for a while, or when another database waits for a worker.  A process connected to a database stands in
 * the way of DROP DATABASE and its like: these ask it to leave (utility.c).
 *
 * The first flusher of a database in an epoch (an epoch is one life of shared
 * memory) enters what clean stops have left in files, then the epoch itself, and
 * those before it that had no flusher.
 *
 * When the server stops, sessions and workers get SIGTERM at the same time.
 * So the flusher goes on until nobody is left who could still commit usage; what
 * it does not get to see is written to a file by the postmaster (stopfile.c).
 *
 * An exit code other than 0 or 1 would restart the whole server, so every way
 * out is proc_exit(0), or proc_exit(1) by an error.
 */
#include "mortar.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/procsignal.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "flush.h"
#include "flush_batch.h"
#include "guc.h"
#include "reservation.h"
#include "spi.h"
#include "stopfile.h"
#include "xact.h"

#define IDLE_MS 2000        /* without anything dirty: leave */
#define STOP_MS 3000        /* after SIGTERM: leave whatever is left */
#define STOP_POLL_MS 20     /* after SIGTERM: between two looks */
#define ENTER_AGAIN_MS 1000 /* after the epoch could not be entered */

typedef struct Flusher
{
	MtrDb *db;
	bool   entered; /* stop files and the epoch are in the tables */
	uint64
		found; /* the database's generation when all that was queued was found */

	/* all of mtr_now_ms */
	int64 started;
	int64 enter_again; /* not before */
	int64 find_again;  /* not before */
	int64 stop_by;     /* 0: no SIGTERM yet */
	int64 last_busy;   /* 0: never */
} Flusher;

/* the extension is not here: there is nothing to come back for */
static bool gone = false;

/*
 * Other epochs that did not leave word of a clean stop.  Memory that could tell
 * who had unflushed usage is gone, so everybody counts who may have had some: who
 * was a tenant before this epoch began, and not closed before that one did.
 */
static MtrStmt stmt_unclean = {
	.sql = "UPDATE mortar.epochs AS e SET clean = false, max_loss_uc = "
		   "  (SELECT least(coalesce(sum(coalesce(l.max_unflushed_uc, $4)), 0),"
		   "    9223372036854775807)::pg_catalog.int8 "
		   "  FROM mortar.tenants t LEFT JOIN mortar.limits l "
		   "    ON l.tenant_id = t.tenant_id "
		   "  WHERE t.created_at < $3 AND NOT "
		   "    (t.state = 'closed' AND t.state_changed_at < e.started_at)) "
		   "WHERE clean IS NULL AND epoch_id <> $1 "
		   "AND database_id = " MTR_THIS_DATABASE " AND system_id = $2",
	.role = MTR_ROLE_OWNER,
	.nargs = 4,
	.argtypes = {UUIDOID, INT8OID, TIMESTAMPTZOID, INT8OID},
};

/* ---- the claim ---- */

/* false: somebody else has it, or keeps flushers out */
static bool
claim(MtrDb *db)
{
	int64 now = mtr_now_ms();
	bool  ok;

	SpinLockAcquire(&db->mutex);
	ok = db->blocked_by == 0 && db->flusher_state != MTR_FLUSHER_RUNNING;
	if (ok)
	{
		db->flusher_state = MTR_FLUSHER_RUNNING;
		db->leave_wanted = false;
		db->flusher_pid = MyProcPid;
		db->flusher_latch = MyLatch;
		db->flusher_since = now;
	}
	else if (db->flusher_state == MTR_FLUSHER_STARTING)
		db->flusher_state = MTR_FLUSHER_NONE; /* that was this process */
	SpinLockRelease(&db->mutex);
	return ok;
}

static void
release(MtrDb *db)
{
	SpinLockAcquire(&db->mutex);
	if (db->flusher_pid == MyProcPid ||
		db->flusher_state == MTR_FLUSHER_STARTING)
	{
		db->flusher_state = MTR_FLUSHER_NONE;
		db->flusher_pid = 0;
		db->flusher_latch = NULL;
	}
	SpinLockRelease(&db->mutex);
}

static void
at_exit(int code, Datum arg)
{
	MtrDb *db = (MtrDb *) DatumGetPointer(arg);

	release(db);
	if (gone)
		return;

	/*
	 * What this process has not done, or has come while it left, needs another
	 * one.  The barrier is the one of mtr_tenant_mark_dirty().
	 */
	pg_memory_barrier();
	if (!db->epoch_entered)
		pg_atomic_write_u32(&db->dirty, 1);
	if (pg_atomic_read_u32(&db->dirty) != 0)
		mtr_wake_launcher();
}

/* for a command that nobody may be connected for, or for another flusher */
static bool
must_leave(MtrDb *db, bool *blocked)
{
	bool leave;

	SpinLockAcquire(&db->mutex);
	*blocked = db->blocked_by != 0;
	leave = *blocked || db->leave_wanted;
	SpinLockRelease(&db->mutex);
	return leave;
}

/* ---- the epoch ---- */

static void
note_entered(void *arg)
{
	MtrDb *db = arg;

	SpinLockAcquire(&db->mutex);
	db->epoch_entered = true;
	SpinLockRelease(&db->mutex);
}

static void
enter_epoch_step(void *arg)
{
	Datum args[4];

	mtr_flush_epoch(false);
	mtr_stopfile_enter_open();
	args[0] = UUIDPGetDatum(&MtrShared->epoch_id);
	args[1] = Int64GetDatum((int64) GetSystemIdentifier());
	args[2] = TimestampTzGetDatum(MtrShared->epoch_start);
	args[3] = Int64GetDatum(MTR_DEFAULT_MAX_UNFLUSHED_UC);
	mtr_exec(&stmt_unclean, args, NULL, MTR_SNAP_WRITE, 0);
	mtr_xact_on_commit(note_entered, arg);
}

static MtrFlushResult
enter_epoch(Flusher *f)
{
	ErrorData     *error = NULL;
	MtrFlushResult result;

	if (f->enter_again > mtr_now_ms())
		return MTR_FLUSH_FAILED;
	result = mtr_stopfile_enter(f->db);
	if (result == MTR_FLUSH_OK)
		result = mtr_flush_transaction(enter_epoch_step, f->db,
									   MTR_FLUSH_TIMEOUT_MS, &error);
	if (error != NULL)
	{
		mtr_flush_note_error(f->db, "the epoch could not be entered", error);
		FreeErrorData(error);
	}
	if (result == MTR_FLUSH_OK)
		mtr_stopfile_forget(MyDatabaseId, MTR_STOPFILE_OPEN);
	f->entered = result == MTR_FLUSH_OK;
	f->enter_again = mtr_now_ms() + ENTER_AGAIN_MS;
	return result;
}

/* ---- rows of mortar.usage_sync that memory does not know of ---- */

static void
find_step(void *arg)
{
	*(bool *) arg = mtr_drain_find();
}

/*
 * A crash, a stop or a restored dump has left them: looked for once, and again when
 * tables were written to by others.
 */
static void
find_queued(Flusher *f)
{
	uint64     generation = pg_atomic_read_u64(&f->db->generation);
	ErrorData *error = NULL;
	bool       all = false;

	if (f->found == generation || f->find_again > mtr_now_ms())
		return;
	if (mtr_flush_transaction(find_step, &all, MTR_FLUSH_TIMEOUT_MS, &error) ==
			MTR_FLUSH_OK &&
		all)
		f->found = generation;
	else
		f->last_busy = mtr_now_ms();
	f->find_again = mtr_now_ms() + ENTER_AGAIN_MS;
	if (error == NULL)
		return;
	mtr_flush_note_error(f->db, "mortar.usage_sync could not be read", error);
	FreeErrorData(error);
}

/* ---- the loop ---- */

/* nobody is left who could commit usage, and all of it is in the tables */
static bool
is_quiet(MtrDb *db)
{
	int index = db - MtrShared->db;

	if (CountDBBackends(MyDatabaseId) > 1 || mtr_flush_next_dirty(db, 0) >= 0)
		return false;
	for (int i = 0; i < mtr_max_tenants; i++)
	{
		MtrTenant *t = &MtrTenants[i];
		bool       pinned;

		SpinLockAcquire(&t->mutex);
		pinned = t->state != MTR_TENANT_FREE && t->db == index && t->pins > 0;
		SpinLockRelease(&t->mutex);
		if (pinned)
			return false;
	}
	return true;
}

static void
service_interrupts(Flusher *f)
{
	/* a cancel that came while nothing ran has nothing to cancel */
	QueryCancelPending = false;
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	if (ShutdownRequestPending && f->stop_by == 0)
		f->stop_by = mtr_now_ms() + STOP_MS;
}

static bool
extension_is_here(void)
{
	bool here;

	StartTransactionCommand();
	here = OidIsValid(get_extension_oid("mortar", true));
	CommitTransactionCommand();
	return here;
}

/* after a DROP EXTENSION, which may have been followed by a CREATE EXTENSION */
static MtrFlushResult
sweep(MtrDb *db)
{
	if (pg_atomic_read_u32(&db->sweep_wanted) == 0)
		return MTR_FLUSH_OK;
	mtr_db_sweep(db);
	return extension_is_here() ? MTR_FLUSH_OK : MTR_FLUSH_GONE;
}

static MtrFlushResult
work(Flusher *f, bool force)
{
	MtrFlushResult result = sweep(f->db);

	/* what they give back may have to be flushed */
	(void) mtr_reservations_expire_all();
	if (result == MTR_FLUSH_OK && !f->entered)
		result = enter_epoch(f);
	if (result == MTR_FLUSH_OK)
		find_queued(f);
	if (result == MTR_FLUSH_OK &&
		(pg_atomic_read_u32(&f->db->dirty) != 0 || force))
	{
		result = mtr_flush_pass(f->db, force);
		f->last_busy = mtr_now_ms();
	}
	return result;
}

/*
 * The extension is not, or no longer, here: forget what memory has of it.  If
 * something is left, the next flusher sees to it.
 */
static void
forget_database(void)
{
	MtrDb *db = mtr_db_find(MyDatabaseId);

	gone = true;
	if (db != NULL)
	{
		pg_atomic_write_u32(&db->dirty, 0);
		release(db);
		mtr_db_forget(db);
		if (mtr_flush_next_dirty(db, 0) >= 0)
		{
			pg_atomic_write_u32(&db->dirty, 1);
			mtr_wake_launcher();
		}
	}
	mtr_stopfile_forget(MyDatabaseId, NULL);
}

/*
 * Is it time to leave?	 A claim that is given up for good stays given up.  While
 * the epoch cannot be entered the launcher waits longer from try to try than this
 * process would, and others get their turn.
 */
static bool
done(Flusher *f, bool leave)
{
	int64 now = mtr_now_ms();

	if (leave)
		return true;
	if (f->stop_by != 0)
		return now >= f->stop_by || is_quiet(f->db);
	if (!f->entered)
		return now >= f->started + IDLE_MS;
	if (pg_atomic_read_u32(&f->db->dirty) != 0 ||
		(f->last_busy != 0 && now < f->last_busy + IDLE_MS))
		return false;

	/*
	 * Whoever commits usage from here on sees no flusher and wakes the
	 * launcher; who did just before has set the flag.
	 */
	release(f->db);
	pg_memory_barrier();
	return pg_atomic_read_u32(&f->db->dirty) == 0 || !claim(f->db);
}

static void
loop(Flusher *f)
{
	for (;;)
	{
		bool           leave;
		bool           blocked;
		MtrFlushResult result;

		ResetLatch(MyLatch);
		service_interrupts(f);
		leave = must_leave(f->db, &blocked);
		result = work(f, blocked || f->stop_by != 0);
		if (result == MTR_FLUSH_GONE)
		{
			forget_database();
			return;
		}
		if (done(f, leave))
			return;
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 f->stop_by != 0 ? STOP_POLL_MS : mtr_flush_interval_ms,
						 PG_WAIT_EXTENSION);
	}
}

/* ---- the process ---- */

static void
set(const char *name, const char *value)
{
	SetConfigOption(name, value, PGC_SUSET, PGC_S_OVERRIDE);
}

/*
 * Settings made for the database or all roles must not reach these
 * transactions.
 */
static void
settings(void)
{
	set("synchronous_commit", "on");
	set("lock_timeout", "1000");
	set("statement_timeout", "0");
	set("idle_in_transaction_session_timeout", "0");
	set("default_transaction_isolation", "read committed");
	set("default_transaction_read_only", "off");
	set("default_transaction_deferrable", "off");
	set("search_path", MTR_SAFE_PATH);
	set("row_security", "on");
}

void
mtr_flusher_main(Datum arg)
{
	Flusher f = {0};

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg), InvalidOid,
											  BGWORKER_BYPASS_ALLOWCONN);
	settings();

	if (!extension_is_here())
	{
		forget_database();
		proc_exit(0);
	}
	f.db = mtr_db();
	before_shmem_exit(at_exit, PointerGetDatum(f.db));
	if (!claim(f.db))
		proc_exit(0);

	mtr_wake_launcher(); /* the next probe may begin */
	f.entered = f.db->epoch_entered;
	f.started = mtr_now_ms();
	loop(&f);
	proc_exit(0);
}
