/*
 * dbconn.c
 *		The life of one database connection.
 *
 * Written or not: the fate of a call whose connection is lost depends on
 * whether the server can have seen its Sync.  While libpq still holds bytes
 * ("flushing") no further call is handed to it; the bytes it holds therefore
 * belong to the newest call, whose Sync is last, and that call is certainly
 * not committed.  It goes back to the pool.  Every older call may have been
 * executed and charged; it is answered with 503 and never sent again.
 *
 * Two functions of libpq send what is held without being asked to.
 * PQconsumeInput does, so "flushing" is brought up to date after it, and is not
 * trusted when it fails.  PQfinish does, so the socket is shut down first.
 *
 * Sockets: the loop watches a duplicate of libpq's descriptor, so that closing
 * the wrapper and closing the connection cannot hit each other's descriptor.
 * While connecting, libpq may change its socket (next address, same number),
 * so the duplicate is made anew for each step.
 *
 * A DbConn belongs to one thread and one pool.  All callbacks come from that
 * thread's loop.
 */
#include "dbconn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "dbresult.h"
#include "hello.h"
#include "log.h"
#include "loop.h"
#include "pool.h"

#define STATEMENT_NAME "mortar_http"

#define BACKOFF_MIN_MS 50
#define BACKOFF_MAX_MS 5000

static void on_connect_io(h2o_socket_t *socket, const char *error);
static void on_readable(h2o_socket_t *socket, const char *error);
static void on_writable(h2o_socket_t *socket, const char *error);

void
dbconn_init(DbConn *conn, Pool *pool)
{
	memset(conn, 0, sizeof(*conn));
	conn->pool = pool;
	conn->state = DBCONN_DOWN;
	pipeline_init(&conn->calls, pool->depth);
}

static void
drop_socket(DbConn *conn)
{
	if (conn->socket != NULL)
		h2o_socket_close(conn->socket);
	conn->socket = NULL;
}

/* Puts the loop's eyes on libpq's current descriptor. */
static bool
wrap_socket(DbConn *conn)
{
	int fd = fcntl(PQsocket(conn->pg), F_DUPFD_CLOEXEC, 0);

	drop_socket(conn);
	if (fd < 0)
		return false;
	conn->socket = h2o_evloop_socket_create(conn->pool->loop->ctx.loop, fd,
											H2O_SOCKET_FLAG_DONT_READ);
	conn->socket->data = conn;
	return true;
}

/* Exponential, with jitter so that many connections do not return at once. */
static int64_t
backoff_ms(const DbConn *conn)
{
	unsigned shift = conn->failures > 8 ? 8 : conn->failures;
	int64_t  full = (int64_t) BACKOFF_MIN_MS << shift;

	if (full > BACKOFF_MAX_MS)
		full = BACKOFF_MAX_MS;
	return full / 2 +
		   (int64_t) (loop_random(conn->pool->loop) % (uint64_t) full) / 2;
}

/*
 * Frees the PGconn.  PQfinish says farewell, and before that it writes what is
 * left of the newest call: a server that was only slow would then execute what
 * is about to be sent elsewhere.  So nothing more may leave a connection that
 * has anything under way.  No signal comes of it: SIGPIPE is ignored.
 */
static void
finish(PGconn *pg)
{
	int fd = PQsocket(pg);

	if (fd >= 0 && PQtransactionStatus(pg) != PQTRANS_IDLE)
		shutdown(fd, SHUT_RDWR);
	PQfinish(pg);
}

/* The state is final before the first call is answered, since an answer may
 * lead anywhere. */
void
dbconn_go_down(DbConn *conn)
{
	Pipeline calls = conn->calls;
	bool     newest_unsent = conn->flushing;

	pool_note_state(conn->pool, conn, DBCONN_DOWN);
	drop_socket(conn);
	PQclear(conn->pending);
	finish(conn->pg);
	conn->pending = NULL;
	conn->pg = NULL;
	conn->flushing = false;
	conn->greeted = false;
	conn->proven = false;
	conn->outdated = false;
	pipeline_reset(&conn->calls);
	conn->retry_at_ms = loop_now_ms() + backoff_ms(conn);
	conn->failures++;

	/* nothing is sent on it before all of them are taken care of */
	for (unsigned i = 0; i < calls.count; i++)
	{
		Flight *flight = pipeline_at(&calls, i);

		if (newest_unsent && i == calls.count - 1)
			pool_give_back(conn->pool, flight);
		else
		{
			flight->lost = true;
			flight_land(flight, NULL);
		}
	}
}

void
dbconn_fail(DbConn *conn, const char *reason)
{
	if (conn->proven || conn->state == DBCONN_READY)
		conn->failures = 0;
	/* a database that is away would fill the log: each power of two */
	if ((conn->failures & (conn->failures - 1)) == 0 || conn->calls.count > 0)
		log_line(LOG_LEVEL_ERROR,
				 "database connection lost with %u calls in flight: %s",
				 conn->calls.count, reason);
	dbconn_go_down(conn);
}

static void
on_notice(void *data, const PGresult *result)
{
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	log_line(LOG_LEVEL_INFO, "database says: %s",
			 message == NULL ? "nothing" : message);
}

/* -- connecting ----------------------------------------------------------- */

static bool
send_greeting(DbConn *conn)
{
	return PQsetnonblocking(conn->pg, 1) == 0 &&
		   PQenterPipelineMode(conn->pg) == 1 && hello_send(conn->pg) &&
		   PQsendPrepare(conn->pg, STATEMENT_NAME, call_statement,
						 call_param_count, call_param_types) == 1 &&
		   PQpipelineSync(conn->pg) == 1;
}

/* Sends what libpq holds, and asks to be woken when it must wait. */
static bool
flush(DbConn *conn)
{
	int left = PQflush(conn->pg);

	if (left >= 0)
		conn->flushing = left == 1;
	if (left == 1 && !h2o_socket_is_writing(conn->socket))
		h2o_socket_notify_write(conn->socket, on_writable);
	return left >= 0;
}

/* Why connecting went wrong. */
static const char *
connect_failure(const DbConn *conn)
{
	const char *message = PQerrorMessage(conn->pg);

	/* libpq has nothing to object when the duplicate could not be made */
	return message[0] == '\0' ? "there is no descriptor left" : message;
}

static void
greet(DbConn *conn)
{
	pool_note_state(conn->pool, conn, DBCONN_GREETING);
	h2o_socket_read_start(conn->socket, on_readable);
	if (!send_greeting(conn) || !flush(conn))
		dbconn_fail(conn, PQerrorMessage(conn->pg));
}

/* Asks libpq what it wants next. */
static void
poll_connect(DbConn *conn)
{
	PostgresPollingStatusType wants = PQconnectPoll(conn->pg);

	if (wants == PGRES_POLLING_FAILED || !wrap_socket(conn))
		dbconn_fail(conn, connect_failure(conn));
	else if (wants == PGRES_POLLING_OK)
		greet(conn);
	else if (wants == PGRES_POLLING_READING)
		h2o_socket_read_start(conn->socket, on_connect_io);
	else
		h2o_socket_notify_write(conn->socket, on_connect_io);
}

static void
on_connect_io(h2o_socket_t *socket, const char *error)
{
	/* whatever happened, libpq finds out by itself */
	poll_connect(socket->data);
}

static void
begin_connect(DbConn *conn)
{
	const Config *config = conn->pool->loop->config;
	HelloConnect  params;

	hello_connect_params(&params, config);
	conn->pg = PQconnectStartParams(params.keywords, params.values, 1);
	if (conn->pg == NULL)
		h2o_fatal("no memory");
	PQsetNoticeReceiver(conn->pg, on_notice, NULL);
	pool_note_state(conn->pool, conn, DBCONN_CONNECTING);
	conn->deadline_ms = loop_now_ms() + config->connect_timeout_ms;
	if (PQstatus(conn->pg) == CONNECTION_BAD || !wrap_socket(conn))
		dbconn_fail(conn, connect_failure(conn));
	else
		h2o_socket_notify_write(conn->socket, on_connect_io);
}

/* -- events --------------------------------------------------------------- */

static void
on_readable(h2o_socket_t *socket, const char *error)
{
	DbConn *conn = socket->data;
	Pool   *pool = conn->pool;

	if (PQconsumeInput(conn->pg) == 0)
	{
		/* it may have sent the rest of the newest call before it failed */
		conn->flushing = false;
		dbconn_fail(conn, dbresult_last_words(conn));
	}
	else if (conn->flushing && !flush(conn))
		dbconn_fail(conn, PQerrorMessage(conn->pg));
	else
		dbresult_take(conn);
	pool_pump(pool);
}

static void
on_writable(h2o_socket_t *socket, const char *error)
{
	DbConn *conn = socket->data;
	Pool   *pool = conn->pool;

	if (!flush(conn))
		dbconn_fail(conn, PQerrorMessage(conn->pg));
	pool_pump(pool);
}

/* -- calls ---------------------------------------------------------------- */

bool
dbconn_send(DbConn *conn, Flight *flight, Tenant tenant)
{
	CallParams *params = &conn->pool->loop->params;

	assert(dbconn_has_room(conn));
	assert(flight->req != NULL);
	call_bind(params, &flight->call);
	if (PQsendQueryPrepared(conn->pg, STATEMENT_NAME, call_param_count,
							params->values, params->lengths, params->formats,
							1) != 1 ||
		PQpipelineSync(conn->pg) != 1)
	{
		/* the Sync did not leave, so the call cannot have been committed */
		dbconn_fail(conn, PQerrorMessage(conn->pg));
		return false;
	}
	pipeline_append(&conn->calls, flight, tenant, loop_now_ms());
	flight->state = FLIGHT_SENT;
	if (!flush(conn))
	{
		/* part of it is still here: go_down hands it back */
		conn->flushing = true;
		dbconn_fail(conn, PQerrorMessage(conn->pg));
	}
	return true;
}

void
dbconn_tick(DbConn *conn)
{
	const Config *config = conn->pool->loop->config;
	int64_t       now_ms = loop_now_ms();

	switch (conn->state)
	{
		case DBCONN_DOWN:
			if (now_ms >= conn->retry_at_ms)
				begin_connect(conn);
			break;
		case DBCONN_CONNECTING:
		case DBCONN_GREETING:
			if (now_ms >= conn->deadline_ms)
				dbconn_fail(conn, "connecting took too long");
			break;
		case DBCONN_READY:
		case DBCONN_RETIRING:
			if (conn->calls.count > 0 &&
				now_ms - conn->calls.head_since_ms >= config->call_timeout_ms)
				dbconn_fail(conn, "no answer within the call timeout");
			break;
	}
}

void
dbconn_close(DbConn *conn)
{
	if (conn->state != DBCONN_DOWN)
		dbconn_go_down(conn);
	pipeline_free(&conn->calls);
}
