/*
 * utility.c
 *		Commands that a flusher would be in the way of.
 *
 * DROP DATABASE, ALTER DATABASE ... RENAME or SET TABLESPACE and CREATE
 * DATABASE ... TEMPLATE fail while anybody is connected to the database, be it a
 * background worker.  So before the command runs, the database's flusher is
 * asked to flush and leave, and is kept out until the command has ended.
 *
 * The wait is bounded and may be cancelled; after it the command runs whatever
 * the flusher did, so a flush that fails never forbids a command.  Somebody whose
 * command will be refused sends no flusher away.
 *
 * DROP EXTENSION may come in many shapes (DROP SCHEMA, DROP OWNED ...
 * CASCADE); all of them drop the extension's catalog row, and that is when the
 * transaction is told to forget the database's slots at its commit.
 *
 * Locking: who keeps flushers out is MtrDb.blocked_by, under the mutex.  It is
 * cleared at the end of the command, by an exit callback if the backend dies,
 * and by the launcher if even that did not run.
 */
#include "mortar.h"

#include "access/htup_details.h"
#include "access/xlog.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/procarray.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/syscache.h"
#include "utils/wait_event.h"

#include "flush.h"
#include "inval.h"
#include "locks.h"
#include "stopfile.h"

#define LEAVE_MS 3000
#define LEAVE_POLL_MS 10

static ProcessUtility_hook_type prev_process_utility = NULL;
static object_access_hook_type  prev_object_access = NULL;

static MtrDb *blocked = NULL; /* this backend keeps flushers out of it */
static bool   exit_registered = false;

/* ---- keeping flushers out ---- */

static void
unblock(void)
{
	MtrDb *db = blocked;

	if (db == NULL)
		return;
	blocked = NULL;
	SpinLockAcquire(&db->mutex);
	if (db->blocked_by == MyProcPid)
		db->blocked_by = 0;
	SpinLockRelease(&db->mutex);
	mtr_wake_launcher();
}

static void
at_exit(int code, Datum arg)
{
	unblock();
}

/* false: another backend does it already */
static bool
block(MtrDb *db)
{
	bool ok;

	if (!exit_registered)
	{
		before_shmem_exit(at_exit, (Datum) 0);
		exit_registered = true;
	}
	SpinLockAcquire(&db->mutex);
	ok = db->blocked_by == 0 || db->blocked_by == MyProcPid;
	if (ok)
		db->blocked_by = MyProcPid;
	SpinLockRelease(&db->mutex);
	if (ok)
		blocked = db;
	return ok;
}

/*
 * Wakes the flusher, and tells whether it has gone.  Its claim goes first; the
 * command counts processes, so it is gone only when its process has left, too.
 */
static bool
has_left(MtrDb *db, pid_t *pid)
{
	MtrFlusherState state;
	Latch          *latch;

	SpinLockAcquire(&db->mutex);
	state = db->flusher_state;
	latch = db->flusher_latch;
	if (db->flusher_pid != 0)
		*pid = db->flusher_pid;
	SpinLockRelease(&db->mutex);

	if (latch != NULL)
		SetLatch(latch);
	return state == MTR_FLUSHER_NONE &&
		   (*pid == 0 || BackendPidGetProc(*pid) == NULL);
}

static void
nap(void)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 LEAVE_POLL_MS, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * Another backend may run such a command on the same database, and keep
 * flushers out for it; then this one waits for its turn, no longer.
 */
static void
send_flusher_away(MtrDb *db)
{
	int64 until = mtr_now_ms() + LEAVE_MS;
	pid_t pid = 0;

	while (!block(db) && mtr_now_ms() < until)
		nap();
	while (blocked == db && !has_left(db, &pid) && mtr_now_ms() < until)
		nap();
}

/* ---- which commands ---- */

static const char *
template_of(const CreatedbStmt *stmt)
{
	ListCell *lc;

	foreach (lc, stmt->options)
	{
		DefElem *option = lfirst(lc);

		if (strcmp(option->defname, "template") == 0 && option->arg != NULL)
			return defGetString(option);
	}
	return "template1";
}

static bool
moves_tablespace(const AlterDatabaseStmt *stmt)
{
	ListCell *lc;

	foreach (lc, stmt->options)
		if (strcmp(((DefElem *) lfirst(lc))->defname, "tablespace") == 0)
			return true;
	return false;
}

/* the database that nobody may be connected to for this command, or NULL */
static const char *
database_of(Node *node)
{
	switch (nodeTag(node))
	{
		case T_DropdbStmt:
			return ((DropdbStmt *) node)->dbname;
		case T_CreatedbStmt:
			return template_of((CreatedbStmt *) node);
		case T_AlterDatabaseStmt:
			return moves_tablespace((AlterDatabaseStmt *) node)
					   ? ((AlterDatabaseStmt *) node)->dbname
					   : NULL;
		case T_RenameStmt:
			return ((RenameStmt *) node)->renameType == OBJECT_DATABASE
					   ? ((RenameStmt *) node)->subname
					   : NULL;
		default:
			return NULL;
	}
}

static bool
is_template(Oid dboid)
{
	HeapTuple tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(dboid));
	bool      result = false;

	if (HeapTupleIsValid(tuple))
	{
		result = ((Form_pg_database) GETSTRUCT(tuple))->datistemplate;
		ReleaseSysCache(tuple);
	}
	return result;
}

/* the command checks it too, but only after we have acted */
static bool
may_run(Node *node, Oid dboid)
{
	bool owner = MTR_OWNS_DATABASE(dboid, GetUserId());

	if (IsA(node, CreatedbStmt))
		return have_createdb_privilege() && (owner || is_template(dboid));
	if (IsA(node, RenameStmt))
		return owner && have_createdb_privilege();
	return owner;
}

static void
next_process_utility(PlannedStmt *pstmt, const char *query, bool read_only_tree,
					 ProcessUtilityContext context, ParamListInfo params,
					 QueryEnvironment *env, DestReceiver *dest,
					 QueryCompletion *qc)
{
	if (prev_process_utility)
		prev_process_utility(pstmt, query, read_only_tree, context, params, env,
							 dest, qc);
	else
		standard_ProcessUtility(pstmt, query, read_only_tree, context, params,
								env, dest, qc);
}

static void
process_utility(PlannedStmt *pstmt, const char *query, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	const char *name = database_of(pstmt->utilityStmt);
	bool        drop = IsA(pstmt->utilityStmt, DropdbStmt);
	Oid         dboid = InvalidOid;
	MtrDb      *db = NULL;

	if (name != NULL && MtrShared != NULL && !RecoveryInProgress())
		dboid = get_database_oid(name, true);
	if (OidIsValid(dboid) && may_run(pstmt->utilityStmt, dboid))
		db = mtr_db_find(dboid);
	if (db == NULL)
	{
		next_process_utility(pstmt, query, read_only_tree, context, params, env,
							 dest, qc);
		if (drop && OidIsValid(dboid))
			mtr_stopfile_forget(dboid, NULL);
		return;
	}

	PG_TRY();
	{
		send_flusher_away(db);
		next_process_utility(pstmt, query, read_only_tree, context, params, env,
							 dest, qc);
		if (drop)
		{
			mtr_db_purge(dboid);
			mtr_stopfile_forget(dboid, NULL);
		}
	}
	PG_FINALLY();
	{
		unblock();
	}
	PG_END_TRY();
}

static void
object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id,
			  void *arg)
{
	if (prev_object_access)
		prev_object_access(access, class_id, object_id, sub_id, arg);

	if (access == OAT_DROP && class_id == ExtensionRelationId &&
		MtrShared != NULL)
	{
		char *name = get_extension_name(object_id);

		if (name == NULL || strcmp(name, "mortar") != 0)
			return;
		mtr_lock(MTR_LOCK_EXTENSION, NULL);
		mtr_inval_dropped(mtr_db_find(MyDatabaseId));
	}
}

void
mtr_utility_init(void)
{
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	prev_object_access = object_access_hook;
	object_access_hook = object_access;
}
