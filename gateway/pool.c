/*
 * pool.c
 *		Chooses a connection for each call, or makes it wait.
 *
 * A call goes to the connection with the fewest calls in flight.  A connection
 * whose oldest call has been running for STALLED_MS gets no more: a pipeline
 * answers in order, so whatever stands behind a slow call waits for it, while a
 * call in the queue can still take whichever connection is free first.
 *
 * The queue is first come, first served, bounded in length and in time; beyond
 * either bound the answer is 503 at once, with Retry-After.  It also carries
 * calls over a short absence of the database: nothing of them has been sent.
 *
 * Serialization failures and deadlocks are sent again at most twice: the
 * transaction is rolled back, so nothing happens twice.  A call that comes back
 * unexecuted from a broken connection is also bounded, by the same counter.
 *
 * A pool belongs to one thread.  Only the counter "ready" is read by another
 * one, the thread that answers /ready; it is atomic and stands alone, so
 * relaxed order is enough.
 */
#include "pool.h"

#include <assert.h>

#include "log.h"
#include "loop.h"
#include "status.h"

#define STALLED_MS 100
#define ATTEMPTS_MAX 3
#define TICK_BUSY_MS 20

void
pool_init(Pool *pool, Loop *loop)
{
	pool->loop = loop;
	pool->conn_count = (unsigned) loop->config->connections;
	pool->depth = (unsigned) loop->config->depth;
	pool->conns = h2o_mem_alloc(sizeof(pool->conns[0]) * pool->conn_count);
	pool->waiting_len = 0;
	h2o_linklist_init_anchor(&pool->waiting);
	atomic_init(&pool->ready, 0);
	for (unsigned i = 0; i < pool->conn_count; i++)
		dbconn_init(&pool->conns[i], pool);
}

/* The least loaded connection that can take a call now, or NULL. */
static DbConn *
choose(Pool *pool)
{
	int64_t stalled_since_ms = loop_now_ms() - STALLED_MS;
	DbConn *best = NULL;

	for (unsigned i = 0; i < pool->conn_count; i++)
	{
		DbConn *conn = &pool->conns[i];

		if (!dbconn_has_room(conn, pool->depth) ||
			(conn->count > 0 && conn->head_since_ms <= stalled_since_ms))
			continue;
		if (best == NULL || conn->count < best->count)
			best = conn;
	}
	return best;
}

/* Sends the flight on some connection; false when none can take it. */
static bool
try_send(Pool *pool, Flight *flight)
{
	DbConn *conn;

	while ((conn = choose(pool)) != NULL)
	{
		if (flight->attempts >= ATTEMPTS_MAX)
		{
			flight_land(flight, NULL);
			return true;
		}
		flight->attempts++;
		if (dbconn_send(conn, flight))
			return true;
		/* that one is down now: the next choice is another */
	}
	return false;
}

static Flight *
oldest_waiting(Pool *pool)
{
	if (h2o_linklist_is_empty(&pool->waiting))
		return NULL;
	return H2O_STRUCT_FROM_MEMBER(Flight, link, pool->waiting.next);
}

void
pool_withdraw(Pool *pool, Flight *flight)
{
	assert(flight->state == FLIGHT_WAITING);
	h2o_linklist_unlink(&flight->link);
	pool->waiting_len--;
}

/* Lets a flight wait in front of "before", an entry or the list's anchor. */
static void
make_wait(Pool *pool, Flight *flight, h2o_linklist_t *before)
{
	flight->state = FLIGHT_WAITING;
	h2o_linklist_insert(before, &flight->link);
	pool->waiting_len++;
}

/* Lets a flight wait that is older than most: the queue is in order of age. */
static void
make_wait_in_turn(Pool *pool, Flight *flight)
{
	h2o_linklist_t *at = pool->waiting.next;

	while (at != &pool->waiting &&
		   H2O_STRUCT_FROM_MEMBER(Flight, link, at)->arrived_ms <
			   flight->arrived_ms)
		at = at->next;
	make_wait(pool, flight, at);
}

void
pool_submit(Pool *pool, Flight *flight)
{
	/* nobody overtakes those who wait already */
	if (pool->waiting_len == 0 && try_send(pool, flight))
		return;
	if (pool->waiting_len >= pool->loop->config->queue)
		flight_land(flight, NULL);
	else
		make_wait(pool, flight, &pool->waiting);
}

void
pool_pump(Pool *pool)
{
	Flight *flight;

	while ((flight = oldest_waiting(pool)) != NULL && choose(pool) != NULL)
	{
		pool_withdraw(pool, flight);
		if (!try_send(pool, flight))
		{
			make_wait(pool, flight, pool->waiting.next);
			return;
		}
	}
}

void
pool_give_back(Pool *pool, Flight *flight)
{
	/* a flight whose request is gone is over: flight_land recycles it */
	if (flight->req == NULL || flight->attempts >= ATTEMPTS_MAX)
		flight_land(flight, NULL);
	else
		make_wait_in_turn(pool, flight);
}

void
pool_complete(Pool *pool, Flight *flight, PGresult *result)
{
	if (result != NULL && PQresultStatus(result) != PGRES_TUPLES_OK &&
		flight->req != NULL && flight->attempts < ATTEMPTS_MAX &&
		status_from_sqlstate(PQresultErrorField(result, PG_DIAG_SQLSTATE),
							 false)
			.is_retry)
	{
		PQclear(result);
		pool_give_back(pool, flight);
	}
	else
		flight_land(flight, result);
}

void
pool_note_state(Pool *pool, DbConn *conn, DbConnState state)
{
	bool was_ready = conn->state == DBCONN_READY;

	assert(state == DBCONN_DOWN ? conn->state != DBCONN_DOWN
								: state == conn->state + 1);
	conn->state = state;
	if (state == DBCONN_READY)
		atomic_fetch_add_explicit(&pool->ready, 1, memory_order_relaxed);
	else if (was_ready)
		atomic_fetch_sub_explicit(&pool->ready, 1, memory_order_relaxed);
}

/* Answers those who have waited too long; the oldest is first. */
static void
expire(Pool *pool)
{
	int64_t limit_ms = pool->loop->config->queue_timeout_ms;
	Flight *flight;

	while ((flight = oldest_waiting(pool)) != NULL &&
		   loop_now_ms() - flight->arrived_ms >= limit_ms)
	{
		pool_withdraw(pool, flight);
		flight_land(flight, NULL);
	}
}

void
pool_tick(Pool *pool)
{
	for (unsigned i = 0; i < pool->conn_count; i++)
		dbconn_tick(&pool->conns[i]);
	pool_pump(pool);
	expire(pool);
}

int
pool_wait_ms(const Pool *pool, int max_ms)
{
	unsigned ready = atomic_load_explicit(&pool->ready, memory_order_relaxed);

	if (pool->waiting_len > 0 || ready < pool->conn_count)
		return max_ms < TICK_BUSY_MS ? max_ms : TICK_BUSY_MS;
	return max_ms;
}

void
pool_close(Pool *pool)
{
	Flight *flight;

	for (unsigned i = 0; i < pool->conn_count; i++)
		dbconn_close(&pool->conns[i]);
	while ((flight = oldest_waiting(pool)) != NULL)
	{
		pool_withdraw(pool, flight);
		flight_land(flight, NULL);
	}
	free(pool->conns);
}
