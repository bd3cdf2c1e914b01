/*
 * dbconn.h
 *		One PostgreSQL connection on an event loop: connect, greet, pipeline.
 */
#ifndef GATEWAY_DBCONN_H
#define GATEWAY_DBCONN_H

#include <libpq-fe.h>
#include <h2o.h>

#include "flight.h"
#include "pipeline.h"

typedef enum DbConnState
{
	DBCONN_DOWN,       /* no PGconn; the next attempt is at retry_at_ms */
	DBCONN_CONNECTING, /* PQconnectPoll is at work */
	DBCONN_GREETING,   /* gateway_hello and the prepared statement are out */
	DBCONN_READY,      /* takes calls */
	DBCONN_RETIRING,   /* takes no more; closed when the last call is done */
} DbConnState;

typedef struct DbConn
{
	struct Pool  *pool;
	PGconn       *pg;     /* NULL only in DBCONN_DOWN */
	h2o_socket_t *socket; /* wraps a duplicate of libpq's descriptor */
	DbConnState   state;
	bool          flushing;    /* libpq holds bytes of the newest call */
	bool          greeted;     /* gateway_hello said welcome */
	bool          proven;      /* has executed a call */
	bool          outdated;    /* to be made anew, see pool_renew */
	int           encoding;    /* libpq's number of UTF8, once ready */
	PGresult     *pending;     /* of the oldest call, before its Sync */
	Pipeline      calls;       /* in flight */
	int64_t       deadline_ms; /* of connecting and greeting */
	int64_t       retry_at_ms;
	unsigned      failures; /* in a row, of connections that were no use */
} DbConn;

/* Sets up a connection in DBCONN_DOWN that is due at once. */
extern void dbconn_init(DbConn *conn, struct Pool *pool);

/* Drives what depends on time: connect, give up, time out.  Call it often. */
extern void dbconn_tick(DbConn *conn);

/*
 * Sends one call of "tenant", which may be marked.  Returns false when the connection broke before the call can
 * have been executed: the flight is not taken, and the connection is down.  The
 * connection must be able to take it (dbconn_has_room).
 */
extern bool dbconn_send(DbConn *conn, Flight *flight, Tenant tenant);

/* True when a call may be sent now. */
static inline bool
dbconn_has_room(const DbConn *conn)
{
	return conn->state == DBCONN_READY && !conn->flushing &&
		   pipeline_has_room(&conn->calls);
}

/*
 * Takes the connection down, to be made anew later.  The newest call is given
 * back to the pool when not all of it was sent; each older one is answered.
 */
extern void dbconn_go_down(DbConn *conn);

/* As dbconn_go_down, with the reason in the log. */
extern void dbconn_fail(DbConn *conn, const char *reason);

/* Closes for good, answering whatever is in flight. */
extern void dbconn_close(DbConn *conn);

#endif /* GATEWAY_DBCONN_H */
