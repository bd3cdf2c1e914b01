/*
 * pool.c
 *		Chooses a connection for each call, or makes it wait.
 *
 * A call goes to the connection with the fewest calls in flight.  A pipeline
 * answers in order, so whatever stands behind a slow call waits for it, and what
 * is written cannot be taken back.  Therefore:
 *
 *	 - one tenant's calls are in flight on all connections but one at most, so
 *	   that a burst of slow calls, which nobody could foresee, leaves a
 *	   connection to the others
 *	 - tenants whose calls were slow lately count as one in this: the connection
 *	   that is left is no slow tenant's.  A call of theirs gets nothing behind it
 *	 - a connection whose oldest call is slow already gets no more, and each
 *	   connection carries more than one call only after fast answers (pace.h)
 *
 * Calls for which there is no connection wait.  The queue is first come, first
 * served among those that could be sent.  It is bounded in length and in time;
 * beyond either bound the answer is 503 at once, with Retry-After.  When it is
 * full and one tenant holds more than half of it, another tenant's call takes
 * the place of that tenant's youngest.  The queue also carries calls over a
 * short absence of the database: nothing of them has been sent.
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

#include "dbresult.h"
#include "log.h"
#include "loop.h"
#include "status.h"

#define ATTEMPTS_MAX 3
#define TICK_BUSY_MS 20

/* Tenants without a connection that one walk of the queue remembers. */
#define BLOCKED_MAX 16

void
pool_init(Pool *pool, Loop *loop)
{
	pool->loop = loop;
	pool->conn_count = (unsigned) loop->config->connections;
	pool->depth = (unsigned) loop->config->depth;
	pool->conns = h2o_mem_alloc(sizeof(pool->conns[0]) * pool->conn_count);
	pool->waiting_len = 0;
	pool->moves = 0;
	pool->settled = true;
	memset(&pool->slow, 0, sizeof(pool->slow));
	h2o_linklist_init_anchor(&pool->waiting);
	atomic_init(&pool->ready, 0);
	for (unsigned i = 0; i < pool->conn_count; i++)
		dbconn_init(&pool->conns[i], pool);
}

void
pool_note_slow(Pool *pool, Tenant tenant)
{
	pace_note_slow(&pool->slow, tenant, loop_now_ms());
}

/*
 * Fills in which connections have a call of "tenant" or, when that one is known
 * as slow, of anyone slow.  Returns how many they are.
 */
static unsigned
find_carriers(const Pool *pool, Tenant tenant, bool is_slow, bool *carries)
{
	int64_t  now_ms = loop_now_ms();
	unsigned total = 0;

	for (unsigned i = 0; i < pool->conn_count; i++)
	{
		const DbConn *conn = &pool->conns[i];

		carries[i] =
			pipeline_carries(&conn->calls, tenant) ||
			(is_slow && (conn->calls.marked > 0 ||
						 pipeline_stalled_by(&conn->calls, now_ms) != 0));
		total += carries[i] ? 1 : 0;
	}
	return total;
}

/* The least loaded connection that can take a call of "tenant", or NULL. */
static DbConn *
choose(Pool *pool, Tenant tenant, bool is_slow)
{
	unsigned ready = atomic_load_explicit(&pool->ready, memory_order_relaxed);
	unsigned limit = ready > 1 ? ready - 1 : 1;
	int64_t  now_ms = loop_now_ms();
	bool     carries[POOL_CONNS_MAX];
	bool     is_spread = find_carriers(pool, tenant, is_slow, carries) >= limit;
	DbConn  *best = NULL;

	for (unsigned i = 0; i < pool->conn_count; i++)
	{
		DbConn *conn = &pool->conns[i];

		if (!dbconn_has_room(conn) ||
			pipeline_stalled_by(&conn->calls, now_ms) != 0 ||
			(is_spread && !carries[i]))
			continue;
		if (best == NULL || conn->calls.count < best->calls.count)
			best = conn;
	}
	return best;
}

/* True when any connection could take a call of somebody. */
static bool
has_room(const Pool *pool)
{
	int64_t now_ms = loop_now_ms();

	for (unsigned i = 0; i < pool->conn_count; i++)
		if (dbconn_has_room(&pool->conns[i]) &&
			pipeline_stalled_by(&pool->conns[i].calls, now_ms) == 0)
			return true;
	return false;
}

/* Sends the flight on some connection; false when none can take it. */
static bool
try_send(Pool *pool, Flight *flight)
{
	bool    is_slow = pace_is_slow(&pool->slow, flight->tenant, loop_now_ms());
	DbConn *conn;

	while ((conn = choose(pool, flight->tenant, is_slow)) != NULL)
	{
		if (flight->attempts >= ATTEMPTS_MAX)
		{
			flight_land(flight, NULL);
			return true;
		}
		flight->attempts++;
		if (dbconn_send(conn, flight,
						flight->tenant | (is_slow ? TENANT_MARK : 0)))
			return true;
		/* that one is down now: the next choice is another */
	}
	return false;
}

static Flight *
flight_at(h2o_linklist_t *link)
{
	return H2O_STRUCT_FROM_MEMBER(Flight, link, link);
}

static Flight *
oldest_waiting(Pool *pool)
{
	if (h2o_linklist_is_empty(&pool->waiting))
		return NULL;
	return flight_at(pool->waiting.next);
}

void
pool_withdraw(Pool *pool, Flight *flight)
{
	assert(flight->state == FLIGHT_WAITING);
	h2o_linklist_unlink(&flight->link);
	pool->waiting_len--;
	pool->moves++;
}

/* Lets a flight wait in front of "before", an entry or the list's anchor. */
static void
make_wait(Pool *pool, Flight *flight, h2o_linklist_t *before)
{
	flight->state = FLIGHT_WAITING;
	h2o_linklist_insert(before, &flight->link);
	pool->waiting_len++;
	pool->moves++;
}

/* Lets a flight wait that is older than most: the queue is in order of age. */
static void
make_wait_in_turn(Pool *pool, Flight *flight)
{
	h2o_linklist_t *at = pool->waiting.next;

	while (at != &pool->waiting &&
		   flight_at(at)->arrived_ms < flight->arrived_ms)
		at = at->next;
	make_wait(pool, flight, at);
}

/*
 * The tenant that holds more than half of the queue, or 0.  The first walk
 * leaves the only one that can (each pair of different ones cancels out), the
 * second one counts it.
 */
static Tenant
find_hoarder(Pool *pool)
{
	Tenant  tenant = 0;
	int64_t lead = 0;
	int64_t held = 0;

	for (h2o_linklist_t *at = pool->waiting.next; at != &pool->waiting;
		 at = at->next)
	{
		if (lead == 0)
			tenant = flight_at(at)->tenant;
		lead += flight_at(at)->tenant == tenant ? 1 : -1;
	}
	for (h2o_linklist_t *at = pool->waiting.next; at != &pool->waiting;
		 at = at->next)
		held += flight_at(at)->tenant == tenant ? 1 : 0;
	return held > pool->waiting_len / 2 ? tenant : 0;
}

/* Makes a place in a full queue for a call of "tenant", if it deserves one. */
static bool
make_place(Pool *pool, Tenant tenant)
{
	Tenant          hoarder = find_hoarder(pool);
	h2o_linklist_t *at = pool->waiting.prev;
	Flight         *flight;

	if (hoarder == 0 || hoarder == tenant)
		return false;
	while (flight_at(at)->tenant != hoarder)
		at = at->prev;
	flight = flight_at(at);
	pool_withdraw(pool, flight);
	flight_land(flight, NULL);
	return pool->waiting_len < pool->loop->config->queue;
}

void
pool_submit(Pool *pool, Flight *flight)
{
	int64_t places = pool->loop->config->queue;

	flight->tenant =
		pace_tenant(flight->call.target.tenant, pool->loop->id_prefix);
	/* nobody overtakes those who wait already and could be sent */
	if ((pool->settled || pool->waiting_len == 0) && try_send(pool, flight))
		return;
	if (pool->waiting_len >= places && !make_place(pool, flight->tenant))
		flight_land(flight, NULL);
	else
		make_wait(pool, flight, &pool->waiting);
}

/* For whom a walk of the queue has found no connection. */
typedef struct Blocked
{
	bool     slow; /* tenants known as slow: they share their connections */
	unsigned count;
	Tenant   tenant[BLOCKED_MAX];
} Blocked;

static bool
is_blocked(const Blocked *blocked, Tenant tenant)
{
	for (unsigned i = 0; i < blocked->count; i++)
		if (blocked->tenant[i] == tenant)
			return true;
	return false;
}

/* Tries to send one waiting flight; it waits where it was when it cannot be. */
static void
try_waiting(Pool *pool, Flight *flight, Blocked *blocked)
{
	bool is_slow = pace_is_slow(&pool->slow, flight->tenant, loop_now_ms());

	if (is_slow ? blocked->slow : is_blocked(blocked, flight->tenant))
		return;
	if (choose(pool, flight->tenant, is_slow) != NULL)
	{
		pool_withdraw(pool, flight);
		if (!try_send(pool, flight))
			make_wait_in_turn(pool, flight);
	}
	else if (is_slow)
		blocked->slow = true;
	else
		blocked->tenant[blocked->count++] = flight->tenant;
}

void
pool_pump(Pool *pool)
{
	h2o_linklist_t *at = pool->waiting.next;
	Blocked         blocked = {.slow = false, .count = 0};

	while (at != &pool->waiting && blocked.count < BLOCKED_MAX &&
		   has_room(pool))
	{
		h2o_linklist_t *next = at->next;
		unsigned        moves = pool->moves;

		try_waiting(pool, flight_at(at), &blocked);
		/* taking one out is one move; after more of them "next" may be gone */
		if (pool->moves - moves > 1)
		{
			next = pool->waiting.next;
			blocked = (Blocked){.slow = false, .count = 0};
		}
		at = next;
	}
	pool->settled = true;
}

void
pool_give_back(Pool *pool, Flight *flight)
{
	pool->settled = false;
	/* a flight whose request is gone is over: flight_land recycles it */
	if (flight->req == NULL || flight->attempts >= ATTEMPTS_MAX)
		flight_land(flight, NULL);
	else
		make_wait_in_turn(pool, flight);
}

void
pool_complete(Pool *pool, Flight *flight, PGresult *result)
{
	/* it made room: whoever comes before pool_pump has to wait for his turn */
	pool->settled = false;
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
	pool->settled = false;
	if (state == DBCONN_READY)
		atomic_fetch_add_explicit(&pool->ready, 1, memory_order_relaxed);
	else if (was_ready)
		atomic_fetch_sub_explicit(&pool->ready, 1, memory_order_relaxed);
}

void
pool_renew(Pool *pool)
{
	for (unsigned i = 0; i < pool->conn_count; i++)
		pool->conns[i].outdated = true;
}

/* Renews one connection while all others are there. */
static void
renew_one(Pool *pool)
{
	if (atomic_load_explicit(&pool->ready, memory_order_relaxed) <
		pool->conn_count)
		return;
	for (unsigned i = 0; i < pool->conn_count; i++)
		if (pool->conns[i].outdated)
		{
			dbresult_renew(&pool->conns[i]);
			return;
		}
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
	{
		DbConn *conn = &pool->conns[i];

		Tenant slow = pipeline_stalled_by(&conn->calls, loop_now_ms());

		if (slow != 0)
			pool_note_slow(pool, slow);
		dbconn_tick(conn);
	}
	renew_one(pool);
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
