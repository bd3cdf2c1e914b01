/*
 * hello.h
 *		The first call on every connection: gateway_hello().
 */
#ifndef GATEWAY_HELLO_H
#define GATEWAY_HELLO_H

#include <stdbool.h>
#include <libpq-fe.h>

#include "config.h"

/* Room for one sentence, and for a name. */
#define HELLO_SENTENCE_MAX 512
#define HELLO_NAME_MAX 128

/* What the extension tells about itself. */
typedef struct HelloFacts
{
	char version[HELLO_NAME_MAX]; /* of the extension */
	char server[HELLO_NAME_MAX];  /* version of PostgreSQL */
	char database[HELLO_NAME_MAX];
} HelloFacts;

/* Keywords and values for PQconnectStartParams and PQconnectdbParams. */
#define HELLO_KEYWORDS_MAX 8
typedef struct HelloConnect
{
	const char *keywords[HELLO_KEYWORDS_MAX];
	const char *values[HELLO_KEYWORDS_MAX];
	char        timeout[32];
} HelloConnect;

/* Fills in the connection parameters; the first one may be a whole conninfo,
 * so call libpq with expand_dbname = 1. */
extern void hello_connect_params(HelloConnect *connect, const Config *config);

/* Queues the call on a connection in pipeline mode; false when libpq refuses.
 */
extern bool hello_send(PGconn *pg);

/*
 * Reads the result of the call.  Returns true when the gateway is welcome;
 * otherwise "sentence" says why not.  "facts" may be NULL.
 */
extern bool hello_read(const PGresult *result, HelloFacts *facts,
					   char sentence[HELLO_SENTENCE_MAX]);

/* Words an error that came in place of an answer to the greeting. */
extern void
hello_explain(const PGresult *result, char sentence[HELLO_SENTENCE_MAX]);

/*
 * Connects, says hello and prepares the statement, waiting for each answer.
 * For start-up and --check only.  Returns false with the reason in "sentence".
 */
extern bool hello_probe(const Config *config, HelloFacts *facts,
						char sentence[HELLO_SENTENCE_MAX]);

#endif /* GATEWAY_HELLO_H */
