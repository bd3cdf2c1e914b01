/*
 * launcher.c
 *		Starts a flusher for every database that needs one.
 *
 * The one worker that is always there.  It is connected to no database, so it
 * stands in nobody's way, and sleeps until its latch is set: by a commit that
 * finds no flusher running, by the postmaster when a flusher has started or
 * ended, by a session that no longer keeps flushers out of a database.
 *
 * After its start it also starts, one after the other, a flusher for every
 * database there is: the one with Mortar enters what a clean stop has left, the
 * others leave at once.
 *
 * Flushers are started anew by nobody else: never by the postmaster, which
 * would not know whether the database still exists.  After failures the next
 * try waits, twice as long each time.
 *
 * There may be fewer workers than databases that want one.  Then flushers are
 * asked to leave, one for each database that waits, and databases are served in
 * turn; each has its worker for a second at least, since starting one has its
 * price.
 *
 * Locking: MtrShared.lock, shared, to see which databases there are; a
 * database's mutex for the state of its flusher.
 */
#include "mortar.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "flush.h"

#define RESTART_SECONDS 2
#define FIRST_RETRY_MS 500
#define MOST_RETRY_MS 10000
#define BLOCKED_POLL_MS 1000 /* is the blocker still alive? */
#define PROBE_MS 10000       /* then the next database's turn has come */
#define STRAY_MS 10000       /* a start that nobody here remembers */
#define TURN_MS 1000         /* a flusher's, while others wait */
#define NO_WORKER_POLL_MS 500
#define NO_WORKER_LOG_MS 60000

/* a flusher that is running, or is to be started again later */
typedef struct Start
{
	Oid                     dboid;
	BackgroundWorkerHandle *handle; /* NULL: none */
	int                     failures;
	int64                   not_before;
} Start;

/* times are mtr_now_ms */

static List *starts = NIL;
static List *unprobed = NIL; /* oids, in turn */
static Oid   probing = InvalidOid;
static int64 probing_until;
static int64 launched_at;
static int64 wake_at; /* the next turn, -1: when woken */

static int   first_db = 0; /* whose turn it is: an index of MtrShared->db */
static int   nwaiting;     /* databases that found no worker in this turn */
static int64 said_no_worker = -NO_WORKER_LOG_MS;

/* ---- starting ---- */

static Start *
start_of(Oid dboid)
{
	ListCell *lc;
	Start    *s;

	foreach (lc, starts)
	{
		s = lfirst(lc);
		if (s->dboid == dboid)
			return s;
	}
	s = palloc0(sizeof(Start));
	s->dboid = dboid;
	starts = lappend(starts, s);
	return s;
}

static void
wake_after(int64 when)
{
	if (wake_at < 0 || when < wake_at)
		wake_at = when;
}

static void
retry_later(Start *s)
{
	int ms = s->failures > 8
				 ? MOST_RETRY_MS
				 : Min(FIRST_RETRY_MS << s->failures, MOST_RETRY_MS);

	s->failures++;
	s->not_before = mtr_now_ms() + ms;
}

/* from one state to another; false, with nothing changed, if it was a third */
static bool
change_state(MtrDb *db, MtrFlusherState from, MtrFlusherState to)
{
	bool ok;

	if (db == NULL)
		return true;
	SpinLockAcquire(&db->mutex);
	ok = db->flusher_state == from &&
		 (to != MTR_FLUSHER_STARTING || db->blocked_by == 0);
	if (ok)
		db->flusher_state = to;
	SpinLockRelease(&db->mutex);
	return ok;
}

/* asks one flusher to leave, an idle one or one that had its turn; false: none */
static bool
ask_to_leave(bool idle)
{
	int64 now = mtr_now_ms();

	for (int i = 0; i < MTR_MAX_DBS; i++)
	{
		/* from here on is who has had a worker for the longest time */
		MtrDb *db = &MtrShared->db[(first_db + i) % MTR_MAX_DBS];
		Latch *latch = NULL;

		if (idle && pg_atomic_read_u32(&db->dirty) != 0)
			continue;
		SpinLockAcquire(&db->mutex);
		if (db->flusher_state == MTR_FLUSHER_RUNNING && !db->leave_wanted &&
			(idle || now >= db->flusher_since + TURN_MS))
		{
			db->leave_wanted = true;
			latch = db->flusher_latch;
		}
		SpinLockRelease(&db->mutex);
		if (latch != NULL)
		{
			SetLatch(latch);
			return true;
		}
	}
	return false;
}

/* flushers that are on their way out */
static int
count_leaving(void)
{
	int       n = 0;
	ListCell *lc;

	foreach (lc, starts)
	{
		Start *s = lfirst(lc);
		MtrDb *db = s->handle != NULL ? mtr_db_find(s->dboid) : NULL;

		if (db == NULL)
			continue;
		SpinLockAcquire(&db->mutex);
		if (db->flusher_state == MTR_FLUSHER_NONE ||
			(db->flusher_state == MTR_FLUSHER_RUNNING && db->leave_wanted))
			n++;
		SpinLockRelease(&db->mutex);
	}
	return n;
}

/* as many flushers are to leave as databases wait */
static void
make_room(void)
{
	int wanted = nwaiting - count_leaving();

	if (nwaiting == 0)
		return;
	while (wanted-- > 0 && (ask_to_leave(true) || ask_to_leave(false)))
		;
	wake_after(mtr_now_ms() + NO_WORKER_POLL_MS);
	if (mtr_now_ms() < said_no_worker + NO_WORKER_LOG_MS)
		return;
	said_no_worker = mtr_now_ms();
	ereport(LOG,
			(errmsg("mortar: no background worker is free to flush usage"),
			 errdetail("%d databases wait for one.", nwaiting),
			 errhint("Usage is kept in memory. Raise max_worker_processes.")));
}

static void
note_no_worker(MtrDb *db)
{
	static const char message[sizeof(db->last_error)] =
		"no background worker is free to flush usage: "
		"raise max_worker_processes";
	TimestampTz now = GetCurrentTimestamp();

	nwaiting++;
	if (db == NULL)
		return;
	SpinLockAcquire(&db->mutex);
	memcpy(db->last_error, message, sizeof(message));
	db->last_error_at = now;
	SpinLockRelease(&db->mutex);
}

/* what is alike in the launcher and flushers; kind is the one or the other */
static void
describe_worker(BackgroundWorker *worker, const char *kind, int restart)
{
	memset(worker, 0, sizeof(*worker));
	worker->bgw_flags =
		BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker->bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker->bgw_restart_time = restart;
	strlcpy(worker->bgw_library_name, "mortar", BGW_MAXLEN);
	snprintf(worker->bgw_function_name, BGW_MAXLEN, "mtr_%s_main", kind);
	snprintf(worker->bgw_type, BGW_MAXLEN, "mortar %s", kind);
}

static bool
register_flusher(Start *s)
{
	BackgroundWorker worker;

	describe_worker(&worker, "flusher", BGW_NEVER_RESTART);
	snprintf(worker.bgw_name, BGW_MAXLEN, "mortar flusher for database %u",
			 s->dboid);
	worker.bgw_main_arg = ObjectIdGetDatum(s->dboid);
	worker.bgw_notify_pid = MyProcPid;
	return RegisterDynamicBackgroundWorker(&worker, &s->handle);
}

/* false: it could not be started now */
static bool
start_flusher(Start *s)
{
	MtrDb *db = mtr_db_find(s->dboid);

	if (s->handle != NULL)
		return true;
	if (s->not_before > mtr_now_ms())
	{
		wake_after(s->not_before);
		return false;
	}
	if (nwaiting > 0)
	{
		note_no_worker(db);
		return false;
	}
	if (!mtr_database_exists(s->dboid))
	{
		if (db != NULL)
			mtr_db_purge(s->dboid);
		return true;
	}
	if (!change_state(db, MTR_FLUSHER_NONE, MTR_FLUSHER_STARTING))
		return true; /* one is there, or somebody keeps it out */
	if (register_flusher(s))
		return true;

	s->handle = NULL;
	(void) change_state(db, MTR_FLUSHER_STARTING, MTR_FLUSHER_NONE);
	note_no_worker(db);
	return false;
}

/* flushers that have ended since the last turn */
static void
reap(void)
{
	ListCell *lc;

	foreach (lc, starts)
	{
		Start *s = lfirst(lc);
		MtrDb *db;
		pid_t  pid;

		if (s->handle == NULL ||
			GetBackgroundWorkerPid(s->handle, &pid) != BGWH_STOPPED)
			continue;
		pfree(s->handle);
		s->handle = NULL;

		/* it has not come as far as claiming its database, or died on its way */
		db = mtr_db_find(s->dboid);
		if (db != NULL &&
			change_state(db, MTR_FLUSHER_STARTING, MTR_FLUSHER_NONE))
			retry_later(s);
		else if (db != NULL && db->flusher_failures > 0)
			retry_later(s);
		else
			s->failures = 0;
		if (probing == s->dboid)
			probing = InvalidOid;
	}
}

/* those that are neither running nor waiting are forgotten */
static void
forget_idle(void)
{
	ListCell *lc;

	foreach (lc, starts)
	{
		Start *s = lfirst(lc);

		if (s->handle == NULL && s->failures == 0)
		{
			starts = foreach_delete_current(starts, lc);
			pfree(s);
		}
	}
}

/* ---- what is to be done ---- */

/* a blocker that died without saying so blocks no longer */
static void
check_blocker(MtrDb *db, pid_t blocker)
{
	if (BackendPidGetProc(blocker) != NULL)
	{
		wake_after(mtr_now_ms() + BLOCKED_POLL_MS);
		return;
	}
	SpinLockAcquire(&db->mutex);
	if (db->blocked_by == blocker)
		db->blocked_by = 0;
	SpinLockRelease(&db->mutex);
}

/* a start that an earlier launcher did not live to see end */
static void
check_stray(MtrDb *db)
{
	if (mtr_now_ms() < launched_at + STRAY_MS)
		wake_after(launched_at + STRAY_MS);
	else
		(void) change_state(db, MTR_FLUSHER_STARTING, MTR_FLUSHER_NONE);
}

/* true: a flusher was started */
static bool
look_after(MtrDb *db, Oid dboid)
{
	MtrFlusherState state;
	pid_t           blocker;

	SpinLockAcquire(&db->mutex);
	state = db->flusher_state;
	blocker = db->blocked_by;
	SpinLockRelease(&db->mutex);

	if (blocker != 0)
		check_blocker(db, blocker);
	else if (state == MTR_FLUSHER_STARTING && start_of(dboid)->handle == NULL)
		check_stray(db);
	else if (state == MTR_FLUSHER_NONE && pg_atomic_read_u32(&db->dirty) != 0)
	{
		Start *s = start_of(dboid);

		/* one that is on its way out wakes us by its end */
		return s->handle == NULL && start_flusher(s) && s->handle != NULL;
	}
	return false;
}

static bool
is_running(Oid dboid)
{
	MtrDb *db = OidIsValid(dboid) ? mtr_db_find(dboid) : NULL;

	return db != NULL && db->flusher_state == MTR_FLUSHER_RUNNING;
}

/* starts the next probe when the last one has claimed its database or left */
static void
probe(void)
{
	if (is_running(probing))
		probing = InvalidOid;
	if (OidIsValid(probing) && mtr_now_ms() < probing_until)
	{
		wake_after(probing_until);
		return;
	}
	probing = InvalidOid;
	while (unprobed != NIL && !OidIsValid(probing))
	{
		Start *s = start_of(linitial_oid(unprobed));

		if (!start_flusher(s))
			return;
		unprobed = list_delete_first(unprobed);
		if (s->handle != NULL && !is_running(s->dboid))
		{
			probing = s->dboid;
			probing_until = mtr_now_ms() + PROBE_MS;
			wake_after(probing_until);
		}
	}
}

static void
turn(void)
{
	int first = first_db;

	wake_at = -1;
	nwaiting = 0;
	reap();
	probe();
	for (int i = 0; i < MTR_MAX_DBS; i++)
	{
		int    at = (first + i) % MTR_MAX_DBS;
		MtrDb *db = &MtrShared->db[at];
		Oid    dboid;

		LWLockAcquire(MtrShared->lock, LW_SHARED);
		dboid = db->dboid;
		LWLockRelease(MtrShared->lock);
		if (OidIsValid(dboid) && look_after(db, dboid))
			first_db = (at + 1) % MTR_MAX_DBS;
	}
	make_room();
	forget_idle();
}

/* ---- the process ---- */

static void
publish_latch(Latch *latch)
{
	LWLockAcquire(MtrShared->lock, LW_EXCLUSIVE);
	MtrShared->launcher_latch = latch;
	LWLockRelease(MtrShared->lock);
}

static void
at_exit(int code, Datum arg)
{
	publish_latch(NULL);
}

void
mtr_launcher_main(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	before_shmem_exit(at_exit, (Datum) 0);
	publish_latch(MyLatch);
	launched_at = mtr_now_ms();
	MemoryContextSwitchTo(TopMemoryContext);
	unprobed = mtr_list_databases(true);

	/* exit code 1: should only this process be told to end, it comes back */
	while (!ShutdownRequestPending)
	{
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		turn();
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH |
							 (wake_at >= 0 ? WL_TIMEOUT : 0),
						 Max(wake_at - mtr_now_ms(), 0) + 1, PG_WAIT_EXTENSION);
	}
	proc_exit(1);
}

void
mtr_launcher_init(void)
{
	BackgroundWorker worker;

	if (IsBinaryUpgrade)
		return;
	describe_worker(&worker, "launcher", RESTART_SECONDS);
	strlcpy(worker.bgw_name, "mortar launcher", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}
