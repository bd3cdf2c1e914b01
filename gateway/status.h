/*
 * status.h
 *		SQLSTATE to HTTP, and the words for HTTP statuses.
 *		PURE: includes neither h2o nor libpq.
 */
#ifndef GATEWAY_STATUS_H
#define GATEWAY_STATUS_H

#include <stdbool.h>

/* How an SQL error leaves the gateway. */
typedef struct StatusMapping
{
	int         status;    /* HTTP status */
	const char *code;      /* default "code" of the problem document */
	bool        is_public; /* class MT: message and detail may be shown */
	bool        is_retry;  /* serialisation failure or deadlock: try again */
} StatusMapping;

/*
 * Maps "sqlstate" (five characters; NULL when the server gave none).
 * "had_body" decides whose fault a data exception is.
 */
extern StatusMapping status_from_sqlstate(const char *sqlstate, bool had_body);

/* Fields of a server's error report; NULL where it has none. */
typedef struct ServerError
{
	const char *state;    /* SQLSTATE */
	const char *position; /* in the text of the statement that was sent */
	const char *context;  /* of the functions that were at work */
	const char *function; /* of the server's source */
} ServerError;

/*
 * True when the error says that the prepared statement as such cannot be
 * executed by this connection: it is gone, or what it calls has changed, is
 * missing, or may not be called.  The call has not begun, and no other call on
 * the connection will fare better.
 */
extern bool status_is_statement_stale(const ServerError *error);

/* Returns the title of an error status, or NULL if problem documents do not
 * use that status. */
extern const char *status_title(int status);

/* Returns a reason phrase for any status from 100 to 599. */
extern const char *status_reason(int status);

#endif /* GATEWAY_STATUS_H */
