/*
 * dbresult.h
 *		What has arrived on a database connection.
 */
#ifndef GATEWAY_DBRESULT_H
#define GATEWAY_DBRESULT_H

#include "dbconn.h"

/*
 * Takes every result that has arrived since: completes the greeting, answers
 * calls, and takes the connection down when it is of no use any more.
 */
extern void dbresult_take(DbConn *conn);

/* Ends a connection that is ready, when its calls are done, to be made anew. */
extern void dbresult_renew(DbConn *conn);

/* Returns why the connection was lost, for the log; valid until it is freed. */
extern const char *dbresult_last_words(DbConn *conn);

#endif /* GATEWAY_DBRESULT_H */
