/*
 * spi.c
 *		Kept SPI plans of Mortar's own statements (see spi.h).
 *
 * The role is switched around the execution, with
 * SECURITY_LOCAL_USERID_CHANGE only: SECURITY_RESTRICTED_OPERATION would
 * forbid queueing deferred triggers.
 *
 * So is search_path: a plan is analysed again whenever the path differs from the
 * one it was made under, and a caller who puts a schema with operators of their
 * own in front of pg_catalog would have them run as the statement's role.
 * Sessions of the gateway have the safe path already and pay nothing.
 *
 * row_security is put on where a session has it off: that means its own queries,
 * and would refuse ours.  And a statement that fills a cache waits a second for a
 * lock, not for ever: its caller may try again, while calls that wait for a table
 * that somebody rewrites would take up all connections.
 */
#include "mortar.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/plancache.h"
#include "utils/resowner.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

#include "spi.h"

#define CACHE_LOCK_TIMEOUT_MS 1000

/* statements of Mortar's own that are running, one inside the other */
static int own_depth = 0;

static void
prepare(MtrStmt *stmt)
{
	SPIPlanPtr plan;

	plan = SPI_prepare_cursor(
		stmt->sql, stmt->nargs, stmt->argtypes,
		(stmt->plan_anew ? CURSOR_OPT_CUSTOM_PLAN : CURSOR_OPT_GENERIC_PLAN) |
			(stmt->first_rows ? CURSOR_OPT_FAST_PLAN : CURSOR_OPT_PARALLEL_OK));
	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", stmt->sql,
			 SPI_result_code_string(SPI_result));
	if (SPI_keepplan(plan) != 0)
		elog(ERROR, "could not keep the plan of \"%s\"", stmt->sql);
	stmt->plan = plan;
}

/*
 * A snapshot of everything committed by now.  For MTR_SNAP_OTHERS its command
 * id is 0: then no row of the running transaction is visible.
 */
static Snapshot
latest_snapshot(MtrSnap snap)
{
	Snapshot s = RegisterSnapshot(GetLatestSnapshot());

	if (snap == MTR_SNAP_OTHERS)
		s->curcid = 0;
	return s;
}

static void
set(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

/* is there a plan that the next execution will use? */
static bool
is_planned(SPIPlanPtr plan)
{
	CachedPlanSource *source = linitial(SPI_plan_get_plan_sources(plan));

	return source->is_valid && source->gplan != NULL && source->gplan->is_valid;
}

/*
 * Makes the plan now, without sequential scans, so that the execution finds it.
 * Should it be invalidated just between the two, one without this care serves
 * until the next time, which is all that can be lost.
 */
static void
plan_by_index(SPIPlanPtr plan)
{
	int         level = NewGUCNestLevel();
	CachedPlan *made;

	set("enable_seqscan", "off");
	made = SPI_plan_get_cached_plan(plan);
	if (made != NULL)
		ReleaseCachedPlan(made, CurrentResourceOwner);
	AtEOXact_GUC(true, level);
}

/* how an execution differs from the next one of the same statement */
typedef struct Run
{
	Datum        *args;
	const char   *nulls;
	MtrSnap       snap;
	Snapshot      at;   /* InvalidSnapshot: as snap says */
	DestReceiver *dest; /* NULL: into SPI_tuptable */
	long          limit;
} Run;

/* hands each row on (mtr_exec_each) */
typedef struct RowReceiver
{
	DestReceiver pub; /* MUST BE FIRST */
	MtrRowFunc   each;
	void        *arg;
} RowReceiver;

static bool
receive_row(TupleTableSlot *slot, DestReceiver *self)
{
	RowReceiver *r = (RowReceiver *) self;

	slot_getallattrs(slot);
	r->each(slot, r->arg);
	return true;
}

static void
receive_start(DestReceiver *self, int operation, TupleDesc desc)
{
}

static void
receive_end(DestReceiver *self)
{
}

static int
run_to(const MtrStmt *stmt, const Run *r)
{
	SPIExecuteOptions options = {0};
	ParamListInfo     params = makeParamList(stmt->nargs);

	Assert(r->snap == MTR_SNAP_READ && r->nulls == NULL);
	for (int i = 0; i < stmt->nargs; i++)
		params->params[i] = (ParamExternData){.value = r->args[i],
											  .pflags = PARAM_FLAG_CONST,
											  .ptype = stmt->argtypes[i]};
	options.params = params;
	options.read_only = true;
	options.tcount = (uint64) r->limit;
	options.dest = r->dest;
	return SPI_execute_plan_extended(stmt->plan, &options);
}

static int
run(MtrStmt *stmt, const Run *r)
{
	MtrSnap  snap = r->snap;
	Snapshot s;
	int      rc;

	if (r->dest != NULL)
		return run_to(stmt, r);
	if (r->at != InvalidSnapshot)
		return SPI_execute_snapshot(stmt->plan, r->args, r->nulls, r->at,
									InvalidSnapshot, true, true, r->limit);
	if (snap == MTR_SNAP_READ || snap == MTR_SNAP_WRITE)
		return SPI_execute_plan(stmt->plan, r->args, r->nulls,
								snap == MTR_SNAP_READ, r->limit);

	s = latest_snapshot(snap);
	rc = SPI_execute_snapshot(stmt->plan, r->args, r->nulls, s, InvalidSnapshot,
							  snap == MTR_SNAP_OTHERS, true, r->limit);
	UnregisterSnapshot(s);
	return rc;
}

/*
 * A nest level for AtEOXact_GUC, or 0 when all is as it should be.  Statements
 * with MTR_SNAP_OTHERS are those that fill caches.
 */
static int
enter_settings(const MtrStmt *stmt, MtrSnap snap)
{
	bool path = strcmp(namespace_search_path, MTR_SAFE_PATH) != 0;
	bool wait = snap == MTR_SNAP_OTHERS &&
				(LockTimeout == 0 || LockTimeout > CACHE_LOCK_TIMEOUT_MS);
	int level;

	if (!path && !wait && row_security && !stmt->plan_anew)
		return 0;
	level = NewGUCNestLevel();
	if (path)
		set("search_path", MTR_SAFE_PATH);
	if (!row_security)
		set("row_security", "on");
	if (wait)
		set("lock_timeout", CppAsString2(CACHE_LOCK_TIMEOUT_MS));
	if (stmt->plan_anew)
	{
		/* sessions of the gateway want generic plans, and the setting wins */
		set("plan_cache_mode", "auto");
		set("jit", "off");
	}
	return level;
}

static void
exec(MtrStmt *stmt, const Run *r)
{
	MtrUserSave save;
	int         level = enter_settings(stmt, r->snap);
	int         rc;

	Assert(stmt->nargs <= MTR_STMT_MAX_ARGS);

	mtr_become(stmt->role, &save);
	own_depth++;
	if (stmt->plan == NULL)
		prepare(stmt);
	if (stmt->by_index && !is_planned(stmt->plan))
		plan_by_index(stmt->plan);
	rc = run(stmt, r);
	own_depth--;
	mtr_unbecome(&save);
	if (level > 0)
		AtEOXact_GUC(true, level);

	if (rc < 0)
		elog(ERROR, "could not execute \"%s\": %s", stmt->sql,
			 SPI_result_code_string(rc));
}

void
mtr_exec(MtrStmt *stmt, Datum *args, const char *nulls, MtrSnap snap,
		 long limit)
{
	exec(stmt,
		 &(Run){.args = args, .nulls = nulls, .snap = snap, .limit = limit});
}

void
mtr_exec_each(MtrStmt *stmt, Datum *args, long limit, MtrRowFunc each,
			  void *arg)
{
	RowReceiver r = {.each = each, .arg = arg};

	r.pub.receiveSlot = receive_row;
	r.pub.rStartup = receive_start;
	r.pub.rShutdown = receive_end;
	r.pub.rDestroy = receive_end;
	r.pub.mydest =
		DestTuplestore; /* anything that SPI does not know as its own */
	exec(stmt, &(Run){.args = args,
					  .snap = MTR_SNAP_READ,
					  .dest = &r.pub,
					  .limit = limit});
}

void
mtr_exec_at(MtrStmt *stmt, Datum *args, const char *nulls, Snapshot snapshot,
			long limit)
{
	Assert(snapshot != InvalidSnapshot);
	exec(stmt, &(Run){.args = args,
					  .nulls = nulls,
					  .snap = MTR_SNAP_READ,
					  .at = snapshot,
					  .limit = limit});
}

bool
mtr_own_statement(void)
{
	return own_depth > 0;
}

void
mtr_own_statement_reset(void)
{
	own_depth = 0;
}

Datum
mtr_first(int col, bool *isnull)
{
	if (SPI_processed == 0 || SPI_tuptable == NULL)
		elog(ERROR, "a statement of Mortar's own returned no row");
	return SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, col,
						 isnull);
}

char *
mtr_cell(uint64 row, int col)
{
	Assert(row < SPI_processed);
	return SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, col);
}
