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

/* Returns the title of an error status, or NULL if problem documents do not
 * use that status. */
extern const char *status_title(int status);

/* Returns a reason phrase for any status from 100 to 599. */
extern const char *status_reason(int status);

#endif /* GATEWAY_STATUS_H */
