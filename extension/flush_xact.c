/*
 * flush_xact.c
 *		One transaction of a flusher, with its time limits.
 *
 * The journal's table is locked before anything else happens, the snapshot
 * and the copying of memory included.  DROP EXTENSION wants that lock
 * exclusively, so what is copied afterwards and written is copied from and
 * written for one and the same extension: nothing can be dropped, or dropped
 * and created anew, in between.
 *
 * The limits (1 s for a lock, a few seconds for all) keep a flusher from standing in the
 * way of anybody for long; whatever it has not written stays in memory and is
 * tried again.	 lock_timeout is a setting, made once by flusher.c.  A statement
 * timeout of the settings acts only on commands from a client, so the timer is
 * started by hand.
 */
#include "mortar.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"

#include "flush_batch.h"
#include "spi.h"

/* locks the journal; false when there is none */
static bool
lock_journal(void)
{
	RangeVar *journal =
		makeRangeVar(pstrdup("mortar"), pstrdup("usage_journal"), -1);

	return OidIsValid(RangeVarGetRelid(journal, RowExclusiveLock, true)) &&
		   OidIsValid(get_extension_oid("mortar", true));
}

static bool
run_locked(void (*step)(void *arg), void *arg)
{
	bool present = lock_journal();

	if (present)
	{
		SPI_connect();
		PushActiveSnapshot(GetTransactionSnapshot());
		step(arg);
		PopActiveSnapshot();
		SPI_finish();
	}
	return present;
}

static void
stop_timer(void)
{
	disable_timeout(STATEMENT_TIMEOUT, false);
	/* it may have rung a moment ago; nothing is left that it could cancel */
	QueryCancelPending = false;
}

static void
begin(int timeout_ms)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	pgstat_report_activity(STATE_RUNNING, "flushing usage");
	enable_timeout_after(STATEMENT_TIMEOUT, timeout_ms);
}

static void
finish(void)
{
	/*
	 * The timer runs on: a commit may have to wait for a synchronous standby,
	 * and that wait, too, must end.
	 */
	CommitTransactionCommand();
	stop_timer();
}

MtrFlushResult
mtr_flush_transaction(void (*step)(void *arg), void *arg, int timeout_ms,
					  ErrorData **error)
{
	MemoryContext           context = CurrentMemoryContext;
	volatile MtrFlushResult result = MTR_FLUSH_FAILED;

	*error = NULL;
	PG_TRY();
	{
		begin(timeout_ms);
		result = run_locked(step, arg) ? MTR_FLUSH_OK : MTR_FLUSH_GONE;
		finish();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		stop_timer();
		MemoryContextSwitchTo(context);
		*error = CopyErrorData();
		FlushErrorState();
		AbortCurrentTransaction();
		RESUME_INTERRUPTS();
		result = MTR_FLUSH_FAILED;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	pgstat_report_stat(false);
	pgstat_report_activity(STATE_IDLE, NULL);
	return result;
}
