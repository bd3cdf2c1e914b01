/*
 * call.h
 *		All that the gateway knows about the SQL statement it calls: its text,
 *		how a request becomes parameters, how a row becomes an answer.
 *
 * This header is a seam.  Everything else (event loop, pool, pipelining,
 * replies) treats the statement as a black box, so another program can be
 * linked from the same objects with another implementation of these five
 * names in place of call.o.  The benchmark's peer "limit-sql" does that: it
 * gives "SELECT 1" with no parameters, and an answer made from the row, and
 * so measures what the round trip costs without the extension's work.  An
 * implementation must keep what is said below, and nothing more:
 *
 *	 - call_statement is prepared once per connection with call_param_types,
 *	   after gateway_hello has welcomed the gateway
 *	 - call_bind is called when the call is sent, once for each attempt
 *	 - call_decode is called only for a result that is PGRES_TUPLES_OK, after
 *	   the Sync that committed it
 */
#ifndef GATEWAY_CALL_H
#define GATEWAY_CALL_H

#include <libpq-fe.h>
#include <h2o.h>

#include "bind.h"
#include "head.h"
#include "text.h"

#define CALL_PARAMS_MAX 8

/* One request, as far as a call may depend on it.  Borrowed from the request's
 * memory; valid while call_bind runs. */
typedef struct CallRequest
{
	const h2o_req_t       *req; /* method, headers, entity */
	Target                 target;
	Slice                  request_id;
	const struct sockaddr *peer; /* NULL when unknown */
} CallRequest;

/* Arguments of one PQsendQueryPrepared.  One object per thread, used again for
 * every call: libpq copies the values before it returns. */
typedef struct CallParams
{
	const char *values[CALL_PARAMS_MAX]; /* NULL: SQL NULL */
	int         lengths[CALL_PARAMS_MAX];
	int         formats[CALL_PARAMS_MAX];
	char        inet[BIND_INET_MAX];
	char       *scratch; /* owned; grows as needed, never shrinks */
	size_t      scratch_size;
} CallParams;

/* What the row says.  Points into the PGresult. */
typedef struct CallAnswer
{
	int         status;  /* 200 to 599 */
	ArrayReader headers; /* name, value, name, value ... */
	Slice       body;
	bool        has_body; /* false: no body, and so no Content-Length to tell */
} CallAnswer;

extern const char call_statement[];
extern const int  call_param_count; /* at most CALL_PARAMS_MAX */
extern const Oid  call_param_types[];

/* Fills in the parameters; cannot fail. */
extern void call_bind(CallParams *params, const CallRequest *request);

/* Reads the row.  Returns NULL, or says what is wrong with it (for the log). */
extern const char *call_decode(const PGresult *result, CallAnswer *answer);

#endif /* GATEWAY_CALL_H */
