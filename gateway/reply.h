/*
 * reply.h
 *		Answers: a row, an SQL error, or a refusal of the gateway's own.
 */
#ifndef GATEWAY_REPLY_H
#define GATEWAY_REPLY_H

#include "flight.h"

/* A refusal that the gateway words itself. */
typedef struct Refusal
{
	int         status; /* one of the contract's statuses */
	const char *code;
	const char *detail; /* one sentence for the client */
	bool        close;  /* close the connection after the answer */
} Refusal;

/* Answers a landed flight whose request is still there. */
extern void reply_flight(Flight *flight);

/* Answers with a problem document.  "request_id" must live as long as "req". */
extern void
reply_refusal(h2o_req_t *req, Slice request_id, const Refusal *refusal);

/* Answers with a small JSON text, for the ops listener. */
extern void reply_json(h2o_req_t *req, int status, Slice body);

/*
 * Turns the plain-text errors that libh2o sends by itself (a body over the cap,
 * a broken chunk) into problem documents.  Call it once, with the path that
 * libh2o uses for requests it gave no handler.
 */
extern void reply_register_filter(h2o_pathconf_t *path);

#endif /* GATEWAY_REPLY_H */
