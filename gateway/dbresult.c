/*
 * dbresult.c
 *		What the server answers: to the greeting, and to calls.
 *
 * Pipeline: each call is one Bind/Describe/Execute of the prepared statement
 * and one Sync, and there is never a BEGIN, so each call is a transaction of
 * its own and an error stays with the call that raised it.  The call's result
 * arrives before its Sync is answered, but it counts only then: a constraint
 * or hook at commit may still replace the row by an error.  So a result is
 * parked in "pending", a later error takes its place, and the flight lands at
 * PGRES_PIPELINE_SYNC.
 *
 * An answer also tells about the connection.  Two kinds end it, once all calls
 * in flight are answered: the statement cannot be executed any more, or the
 * session is not what the greeting made of it.
 *
 * Works on a DbConn, whose rules hold.  Whatever is done to a call may lead to
 * another request, so nothing of it is touched afterwards.
 */
#include "dbresult.h"

#include "hello.h"
#include "log.h"
#include "loop.h"
#include "pool.h"
#include "status.h"

/* One result of the greeting.  Returns false when the connection is down. */
static bool
take_greeting_result(DbConn *conn, PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);
	char           sentence[HELLO_SENTENCE_MAX];
	bool           welcome = true;

	if (!conn->greeted)
	{
		welcome = hello_read(result, NULL, sentence);
		conn->greeted = welcome;
	}
	else if (status == PGRES_PIPELINE_SYNC)
	{
		conn->encoding = PQclientEncoding(conn->pg);
		pool_note_state(conn->pool, conn, DBCONN_READY);
	}
	else if (status != PGRES_COMMAND_OK)
	{
		welcome = false;
		hello_explain(result, sentence);
	}
	PQclear(result);
	if (!welcome)
		dbconn_fail(conn, sentence);
	return welcome;
}

static bool
is_statement_stale(const PGresult *result)
{
	ServerError error = {PQresultErrorField(result, PG_DIAG_SQLSTATE),
						 PQresultErrorField(result, PG_DIAG_STATEMENT_POSITION),
						 PQresultErrorField(result, PG_DIAG_CONTEXT),
						 PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION)};

	return status_is_statement_stale(&error);
}

/*
 * The connection takes no more calls, and is made anew when those in flight are
 * done.  When it never executed a call, the next one may be of no use either, so
 * that is a failure.
 */
static void
retire(DbConn *conn, const char *what, const char *why)
{
	if (conn->state != DBCONN_READY)
		return;
	if (conn->proven)
		conn->failures = 0;
	pool_note_state(conn->pool, conn, DBCONN_RETIRING);
	if ((conn->failures & (conn->failures - 1)) == 0)
		log_line(LOG_LEVEL_WARNING, "%s, connecting again: %s", what, why);
}

/*
 * The call was not executed, and no later one in this pipeline will be: all of
 * them go elsewhere.
 */
static void
take_unexecuted(DbConn *conn, Flight *flight, PGresult *result)
{
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	retire(conn, "the prepared statement cannot be executed any more",
		   message == NULL ? "no message" : message);
	PQclear(result);
	/* this was no attempt: every connection may be as stale as this one */
	flight->attempts--;
	pool_give_back(conn->pool, flight);
}

/* One result of the oldest call. */
static void
take_call_result(DbConn *conn, PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);
	Tenant         slow;
	Flight        *flight;

	if (status != PGRES_PIPELINE_SYNC)
	{
		/* an error replaces the row, but nothing replaces an error */
		if (conn->pending == NULL ||
			PQresultStatus(conn->pending) == PGRES_TUPLES_OK)
		{
			PQclear(conn->pending);
			conn->pending = result;
		}
		else
			PQclear(result);
		return;
	}
	PQclear(result);
	flight = pipeline_take(&conn->calls, loop_now_ms(), &slow);
	if (slow != 0)
		pool_note_slow(conn->pool, slow);
	result = conn->pending;
	conn->pending = NULL;
	if (result != NULL && PQresultStatus(result) != PGRES_TUPLES_OK &&
		is_statement_stale(result))
		take_unexecuted(conn, flight, result);
	else
	{
		conn->proven = true;
		pool_complete(conn->pool, flight, result);
	}
	if (PQclientEncoding(conn->pg) != conn->encoding)
		retire(conn, "a call changed client_encoding",
			   "it would be every later call's as well");
}

/*
 * Takes every result that has arrived.  Between the results of two statements
 * libpq gives NULL; it also does so for ever when nothing is expected, which
 * the counts prevent, or when the connection broke.
 */
void
dbresult_take(DbConn *conn)
{
	int empty = 0;

	while ((conn->calls.count > 0 || conn->state == DBCONN_GREETING) &&
		   !PQisBusy(conn->pg))
	{
		PGresult *result = PQgetResult(conn->pg);

		if (result == NULL)
		{
			if (PQstatus(conn->pg) == CONNECTION_BAD || ++empty > 2)
			{
				dbconn_fail(conn, PQerrorMessage(conn->pg));
				return;
			}
			continue;
		}
		empty = 0;
		if (conn->state != DBCONN_GREETING)
			take_call_result(conn, result);
		else if (!take_greeting_result(conn, result))
			return;
	}
	/* without a call, libpq looks at what has come only when it is asked */
	if (conn->calls.count == 0 && conn->state == DBCONN_READY)
		(void) PQisBusy(conn->pg);
	if (conn->state == DBCONN_RETIRING && conn->calls.count == 0)
	{
		bool proven = conn->proven;

		dbconn_go_down(conn);
		if (proven)
			conn->retry_at_ms = loop_now_ms();
	}
}

void
dbresult_renew(DbConn *conn)
{
	pool_note_state(conn->pool, conn, DBCONN_RETIRING);
	dbresult_take(conn);
}

/*
 * The server says why in a FATAL error that comes last, in place of the oldest
 * call's result; libpq's own message is only that the end came.
 */
const char *
dbresult_last_words(DbConn *conn)
{
	const char *severity;
	const char *message;

	if (conn->calls.count > 0 && conn->pending == NULL && !PQisBusy(conn->pg))
		conn->pending = PQgetResult(conn->pg);
	severity = PQresultErrorField(conn->pending, PG_DIAG_SEVERITY_NONLOCALIZED);
	message = PQresultErrorField(conn->pending, PG_DIAG_MESSAGE_PRIMARY);
	return severity == NULL || message == NULL || strcmp(severity, "ERROR") == 0
			   ? PQerrorMessage(conn->pg)
			   : message;
}
