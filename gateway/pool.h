/*
 * pool.h
 *		The database connections of one thread, and the calls that wait.
 */
#ifndef GATEWAY_POOL_H
#define GATEWAY_POOL_H

#include <stdatomic.h>

#include "dbconn.h"

/* Most connections of a pool. */
#define POOL_CONNS_MAX 64

typedef struct Pool
{
	struct Loop   *loop;
	DbConn        *conns;
	unsigned       conn_count;
	unsigned       depth;       /* calls in flight per connection */
	h2o_linklist_t waiting;     /* flights, the oldest first */
	int64_t        waiting_len; /* at most the setting queue */
	unsigned       moves;       /* counts changes of the queue */
	bool           settled;     /* nobody who waits could be sent */
	SlowTenants    slow;
	atomic_uint    ready; /* written by this thread, read by ops */
} Pool;

/* Sets up all connections; they begin to connect at the first pool_tick. */
extern void pool_init(Pool *pool, struct Loop *loop);

/* Sends a new flight, or lets it wait, or lands it at once when too many wait.
 */
extern void pool_submit(Pool *pool, Flight *flight);

/* Remembers the tenant of a call that took long. */
extern void pool_note_slow(Pool *pool, Tenant tenant);

/* Sends waiting flights while there is room.  Call it after room was made. */
extern void pool_pump(Pool *pool);

/* A call got its Sync: lands it, or sends it again after a serialization
 * failure.  Takes over the result. */
extern void pool_complete(Pool *pool, Flight *flight, PGresult *result);

/* A flight that was not executed comes back, to be sent elsewhere: it takes
 * the place in the queue that its age gives it. */
extern void pool_give_back(Pool *pool, Flight *flight);

/* Takes a waiting flight out of the queue; its request is gone. */
extern void pool_withdraw(Pool *pool, Flight *flight);

/* The only way to change a connection's state; asserts that it is legal. */
extern void pool_note_state(Pool *pool, DbConn *conn, DbConnState state);

/* Makes all connections anew, one after the other, so that settings of the
 * server that a session reads at its start hold. */
extern void pool_renew(Pool *pool);

/* Drives everything that depends on time. */
extern void pool_tick(Pool *pool);

/* Milliseconds until pool_tick has something to do, at most "max_ms". */
extern int pool_wait_ms(const Pool *pool, int max_ms);

/* Closes the connections; every flight has landed before. */
extern void pool_close(Pool *pool);

#endif /* GATEWAY_POOL_H */
