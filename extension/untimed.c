/*
 * untimed.c
 *		Work for all that a caller happens to do, and whose time is not his.
 *
 * A tenant that is not in memory is loaded by whoever asks first.	If that one's
 * statement_timeout cut the loading, a tenant with more entries than can be read
 * in that time could never be loaded, however often somebody asks.  So the timer
 * stands still meanwhile, and so does the one that looks whether the client is
 * there still: others wait for what is being done.
 *
 * Work that ends before the statement's time does counts like any other: many
 * short loads in one statement are bounded as before.	Only if it would have been
 * cut has the statement afterwards what was left when the work began.
 *
 * A timer's handler only signals this process; the error is raised by the next
 * CHECK_FOR_INTERRUPTS.  So a timer that rang before it was stopped has its error
 * before the work begins, and does not run again: its indicator is kept, by which
 * the error knows its reason.
 */
#include "mortar.h"

#include "miscadmin.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "untimed.h"

/* the timers of a statement, stopped; 0: it was not running */
typedef struct Timers
{
	TimestampTz stopped_at;
	TimestampTz statement_due;
	TimestampTz client_check_due;
} Timers;

static TimestampTz
stop(TimeoutId id)
{
	TimestampTz due = get_timeout_active(id) ? get_timeout_finish_time(id) : 0;

	disable_timeout(id, true);
	/* it may have rung between these two */
	return get_timeout_indicator(id, false) ? 0 : due;
}

static void
stop_timers(Timers *t)
{
	t->stopped_at = GetCurrentTimestamp();
	t->statement_due = stop(STATEMENT_TIMEOUT);
	t->client_check_due = stop(CLIENT_CONNECTION_CHECK_TIMEOUT);
}

static void
start_timers(const Timers *t)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz due = t->statement_due;

	if (due != 0 && due <= now)
		due = now + (due - t->stopped_at);
	if (due != 0)
		enable_timeout_at(STATEMENT_TIMEOUT, due);
	/* a time that is past rings at once */
	if (t->client_check_due != 0)
		enable_timeout_at(CLIENT_CONNECTION_CHECK_TIMEOUT, t->client_check_due);
}

/* raises what is due already; looking for the client starts its timer again */
static void
settle(Timers *t)
{
	for (;;)
	{
		TimestampTz due;

		CHECK_FOR_INTERRUPTS();
		due = stop(CLIENT_CONNECTION_CHECK_TIMEOUT);
		if (due == 0)
			break;
		t->client_check_due = due;
	}
}

/* the timers live in the caller: what changes behind PG_TRY must */
static void
run(void (*work)(void *arg), void *arg, Timers *t)
{
	PG_TRY();
	{
		settle(t);
		work(arg);
	}
	PG_CATCH();
	{
		start_timers(t);
		PG_RE_THROW();
	}
	PG_END_TRY();
	start_timers(t);
}

void
mtr_untimed(void (*work)(void *arg), void *arg)
{
	Timers timers;

	stop_timers(&timers);
	run(work, arg, &timers);
}

int
mtr_time_left_ms(void)
{
	long left;

	if (!get_timeout_active(STATEMENT_TIMEOUT))
		return PG_INT32_MAX;
	left = TimestampDifferenceMilliseconds(
		GetCurrentTimestamp(), get_timeout_finish_time(STATEMENT_TIMEOUT));
	return (int) Min(left, PG_INT32_MAX);
}
