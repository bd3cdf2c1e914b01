/*
 * gw_pool.c - which connection a call gets, how long it waits, when it retries
 *
 * The connections are stand-ins: they take what they are sent, or break, as a
 * test says.  Nothing here waits for time to pass: a test moves the moments
 * that the pool compares with its clock.
 */
// SOURCES: gateway/pool.c gateway/pipeline.c gateway/pace.c gateway/status.c
// LIBS: -DH2O_USE_LIBUV=0 -I/usr/include/postgresql -lh2o-evloop -lpq
#include "../../gateway/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../../gateway/dbresult.h"
#include "../../gateway/loop.h"

#define CONNS 2
#define DEPTH 2
#define QUEUE 3
#define FLIGHTS 16

static const char names[] = "abcdefghijklmnop";

static Loop      loop;
static Config    config;
static Flight    flights[FLIGHTS];
static h2o_req_t req;
static int       landed;
static int       breaks; /* so many sends fail from now on */
static DbConn   *sent_to;

void
dbconn_init(DbConn *conn, Pool *pool)
{
	memset(conn, 0, sizeof(*conn));
	conn->pool = pool;
	pipeline_init(&conn->calls, DEPTH);
	conn->calls.window = DEPTH;
}

void
dbconn_tick(DbConn *conn)
{
}

void
dbconn_close(DbConn *conn)
{
	pipeline_free(&conn->calls);
}

bool
dbconn_send(DbConn *conn, Flight *flight, Tenant tenant)
{
	assert_true(dbconn_has_room(conn));
	assert_int_not_equal(flight->state, FLIGHT_SENT);
	if (breaks > 0)
	{
		breaks--;
		pool_note_state(conn->pool, conn, DBCONN_DOWN);
		return false;
	}
	pipeline_append(&conn->calls, flight, tenant, loop_now_ms());
	flight->state = FLIGHT_SENT;
	sent_to = conn;
	return true;
}

void
dbresult_renew(DbConn *conn)
{
	pool_note_state(conn->pool, conn, DBCONN_RETIRING);
	pool_note_state(conn->pool, conn, DBCONN_DOWN);
	conn->outdated = false;
}

void
flight_land(Flight *flight, PGresult *result)
{
	flight->state = FLIGHT_LANDED;
	landed++;
	PQclear(result);
}

static void
bring_up(DbConn *conn)
{
	pool_note_state(&loop.pool, conn, DBCONN_CONNECTING);
	pool_note_state(&loop.pool, conn, DBCONN_GREETING);
	pool_note_state(&loop.pool, conn, DBCONN_READY);
}

static int
begin(void **state)
{
	memset(&loop, 0, sizeof(loop));
	memset(flights, 0, sizeof(flights));
	config = (Config){.connections = CONNS,
					  .depth = DEPTH,
					  .queue = QUEUE,
					  .queue_timeout_ms = 3600000};
	loop.config = &config;
	pool_init(&loop.pool, &loop);
	for (int i = 0; i < FLIGHTS; i++)
	{
		/* each of a tenant of its own, until a test says otherwise */
		flights[i].call.target.tenant = (Slice){names + i, 1};
		flights[i].req = &req;
		flights[i].arrived_ms = loop_now_ms();
	}
	landed = 0;
	breaks = 0;
	sent_to = NULL;
	return 0;
}

static int
begin_up(void **state)
{
	begin(state);
	for (int i = 0; i < CONNS; i++)
		bring_up(&loop.pool.conns[i]);
	/* as whoever changes a connection does in the end */
	pool_pump(&loop.pool);
	return 0;
}

static int
end(void **state)
{
	pool_close(&loop.pool);
	return 0;
}

/* The oldest call of "conn" is answered. */
static void
answer(DbConn *conn)
{
	Tenant  slow;
	Flight *flight = pipeline_take(&conn->calls, loop_now_ms(), &slow);

	pool_complete(&loop.pool, flight, NULL);
}

/* Flights "first" to "last" are calls of one tenant. */
static void
make_one_tenant(int first, int last)
{
	for (int i = first; i <= last; i++)
		flights[i].call.target.tenant = (Slice){names + first, 1};
}

static PGresult *
make_error(void)
{
	/* has no SQLSTATE; retries are tested where a server gives one */
	return PQmakeEmptyPGresult(NULL, PGRES_FATAL_ERROR);
}

static void
the_least_loaded_connection_is_chosen(void **state)
{
	DbConn *conns = loop.pool.conns;

	for (int i = 0; i < CONNS * DEPTH; i++)
		pool_submit(&loop.pool, &flights[i]);
	assert_int_equal(conns[0].calls.count, DEPTH);
	assert_int_equal(conns[1].calls.count, DEPTH);
	assert_int_equal(loop.pool.waiting_len, 0);
	conns[1].calls.count = 0;
	pool_submit(&loop.pool, &flights[4]);
	assert_ptr_equal(sent_to, &conns[1]);
}

static void
the_queue_is_bounded_and_in_order(void **state)
{
	int total = CONNS * DEPTH + QUEUE;

	for (int i = 0; i < total; i++)
		pool_submit(&loop.pool, &flights[i]);
	assert_int_equal(loop.pool.waiting_len, QUEUE);
	assert_int_equal(landed, 0);
	pool_submit(&loop.pool, &flights[total]);
	assert_int_equal(landed, 1);
	assert_int_equal(flights[total].state, FLIGHT_LANDED);

	loop.pool.conns[0].calls.count = 1;
	pool_pump(&loop.pool);
	assert_int_equal(flights[CONNS * DEPTH].state, FLIGHT_SENT);
	assert_int_equal(flights[CONNS * DEPTH + 1].state, FLIGHT_WAITING);
	assert_int_equal(loop.pool.waiting_len, QUEUE - 1);
}

static void
nobody_overtakes_the_queue(void **state)
{
	for (int i = 0; i <= CONNS * DEPTH; i++)
		pool_submit(&loop.pool, &flights[i]);
	/* an answer has made room, and its client sends the next call at once */
	answer(&loop.pool.conns[0]);
	answer(&loop.pool.conns[0]);
	pool_submit(&loop.pool, &flights[5]);
	assert_int_equal(flights[5].state, FLIGHT_WAITING);
	pool_pump(&loop.pool);
	assert_int_equal(flights[4].state, FLIGHT_SENT);
	assert_int_equal(flights[5].state, FLIGHT_SENT);
}

static void
a_connection_stuck_in_a_slow_call_gets_no_more(void **state)
{
	DbConn *conns = loop.pool.conns;

	pool_submit(&loop.pool, &flights[0]);
	sent_to->calls.head_since_ms -= 1000;
	DbConn *slow = sent_to;
	pool_submit(&loop.pool, &flights[1]);
	pool_submit(&loop.pool, &flights[2]);
	assert_ptr_equal(sent_to, slow == &conns[0] ? &conns[1] : &conns[0]);
	assert_int_equal(slow->calls.count, 1);
	/* with room at the slow one only, the next call waits */
	pool_submit(&loop.pool, &flights[3]);
	assert_int_equal(flights[3].state, FLIGHT_WAITING);
}

static void
one_tenant_leaves_a_connection_to_the_others(void **state)
{
	DbConn *conns = loop.pool.conns;

	make_one_tenant(0, 4);
	for (int i = 0; i <= 4; i++)
		pool_submit(&loop.pool, &flights[i]);
	DbConn *theirs = conns[0].calls.count > 0 ? &conns[0] : &conns[1];
	DbConn *left = theirs == &conns[0] ? &conns[1] : &conns[0];
	assert_int_equal(theirs->calls.count, DEPTH);
	assert_int_equal(left->calls.count, 0);
	assert_int_equal(loop.pool.waiting_len, 3);
	/* whoever comes later is not in their queue */
	pool_submit(&loop.pool, &flights[5]);
	assert_int_equal(flights[5].state, FLIGHT_SENT);
	assert_ptr_equal(sent_to, left);
	/* nor when others wait as well */
	pool_submit(&loop.pool, &flights[6]);
	pool_submit(&loop.pool, &flights[7]);
	assert_int_equal(flights[7].state, FLIGHT_WAITING);
	answer(left);
	pool_pump(&loop.pool);
	assert_int_equal(flights[7].state, FLIGHT_SENT);
	assert_int_equal(flights[2].state, FLIGHT_WAITING);
	answer(theirs);
	pool_pump(&loop.pool);
	assert_int_equal(flights[2].state, FLIGHT_SENT);
}

static void
with_one_connection_a_tenant_may_use_it(void **state)
{
	bring_up(&loop.pool.conns[1]);
	make_one_tenant(0, 1);
	pool_submit(&loop.pool, &flights[0]);
	pool_submit(&loop.pool, &flights[1]);
	assert_ptr_equal(sent_to, &loop.pool.conns[1]);
	assert_int_equal(sent_to->calls.count, 2);
}

static void
slow_tenants_count_as_one(void **state)
{
	DbConn *conns = loop.pool.conns;

	for (int i = 0; i < 4; i++)
	{
		flights[i].tenant =
			pace_tenant(flights[i].call.target.tenant, loop.id_prefix);
		if (i < 3)
			pool_note_slow(&loop.pool, flights[i].tenant);
	}
	pool_submit(&loop.pool, &flights[0]);
	DbConn *slow = sent_to;
	pool_submit(&loop.pool, &flights[1]);
	pool_submit(&loop.pool, &flights[2]);
	assert_int_equal(flights[1].state, FLIGHT_WAITING);
	/* nothing is put behind a slow tenant's call */
	pool_submit(&loop.pool, &flights[3]);
	pool_submit(&loop.pool, &flights[4]);
	assert_ptr_equal(sent_to, slow == &conns[0] ? &conns[1] : &conns[0]);
	assert_int_equal(sent_to->calls.count, 2);
	assert_int_equal(slow->calls.count, 1);
	answer(slow);
	pool_pump(&loop.pool);
	assert_int_equal(flights[1].state, FLIGHT_SENT);
	assert_int_equal(flights[2].state, FLIGHT_WAITING);
}

static void
a_running_slow_call_is_remembered(void **state)
{
	pool_submit(&loop.pool, &flights[0]);
	sent_to->calls.head_since_ms -= PACE_SLOW_MS - 50;
	pool_tick(&loop.pool);
	assert_false(
		pace_is_slow(&loop.pool.slow, flights[0].tenant, loop_now_ms()));
	sent_to->calls.head_since_ms -= 50;
	pool_tick(&loop.pool);
	assert_true(
		pace_is_slow(&loop.pool.slow, flights[0].tenant, loop_now_ms()));
}

static void
a_hoarder_gives_way_when_the_queue_is_full(void **state)
{
	make_one_tenant(0, DEPTH + QUEUE - 2);
	for (int i = 0; i <= DEPTH + QUEUE - 2; i++)
		pool_submit(&loop.pool, &flights[i]);
	assert_int_equal(loop.pool.waiting_len, QUEUE - 1);
	/* fill the other connection, and the queue */
	for (int i = 8; i < 8 + DEPTH + 1; i++)
		pool_submit(&loop.pool, &flights[i]);
	assert_int_equal(loop.pool.waiting_len, QUEUE);
	assert_int_equal(landed, 0);

	pool_submit(&loop.pool, &flights[12]);
	assert_int_equal(flights[12].state, FLIGHT_WAITING);
	assert_int_equal(landed, 1);
	assert_int_equal(flights[DEPTH + QUEUE - 2].state, FLIGHT_LANDED);
	/* nobody holds more than half of it any more */
	pool_submit(&loop.pool, &flights[13]);
	assert_int_equal(flights[13].state, FLIGHT_LANDED);
	assert_int_equal(loop.pool.waiting_len, QUEUE);
}

static void
connections_are_renewed_one_by_one(void **state)
{
	DbConn *conns = loop.pool.conns;

	pool_renew(&loop.pool);
	for (int i = 0; i < CONNS; i++)
	{
		pool_tick(&loop.pool);
		pool_tick(&loop.pool);
		assert_int_equal(atomic_load(&loop.pool.ready), CONNS - 1);
		assert_int_equal(conns[i].state, DBCONN_DOWN);
		bring_up(&conns[i]);
	}
	pool_tick(&loop.pool);
	assert_int_equal(atomic_load(&loop.pool.ready), CONNS);
}

static void
calls_wait_for_a_database_that_is_away(void **state)
{
	pool_submit(&loop.pool, &flights[0]);
	assert_int_equal(flights[0].state, FLIGHT_WAITING);
	assert_int_equal(pool_wait_ms(&loop.pool, 1000) < 1000, 1);
	bring_up(&loop.pool.conns[0]);
	pool_pump(&loop.pool);
	assert_int_equal(flights[0].state, FLIGHT_SENT);
	assert_int_equal(atomic_load(&loop.pool.ready), 1);
	bring_up(&loop.pool.conns[1]);
	assert_int_equal(pool_wait_ms(&loop.pool, 1000), 1000);
}

static void
the_oldest_expire_first(void **state)
{
	for (int i = 0; i < 3; i++)
		pool_submit(&loop.pool, &flights[i]);
	flights[0].arrived_ms -= config.queue_timeout_ms;
	flights[1].arrived_ms -= config.queue_timeout_ms - 60000;
	pool_tick(&loop.pool);
	assert_int_equal(flights[0].state, FLIGHT_LANDED);
	assert_int_equal(flights[1].state, FLIGHT_WAITING);
	assert_int_equal(loop.pool.waiting_len, 2);
}

static void
a_broken_connection_is_followed_by_another(void **state)
{
	breaks = 1;
	pool_submit(&loop.pool, &flights[0]);
	assert_int_equal(flights[0].state, FLIGHT_SENT);
	assert_int_equal(flights[0].attempts, 2);
	assert_int_equal(atomic_load(&loop.pool.ready), 1);

	breaks = 1;
	pool_submit(&loop.pool, &flights[1]);
	assert_int_equal(flights[1].state, FLIGHT_WAITING);
	assert_int_equal(atomic_load(&loop.pool.ready), 0);
}

static void
a_call_is_sent_at_most_three_times(void **state)
{
	for (int i = 1; i <= 3; i++)
	{
		pool_submit(&loop.pool, &flights[0]);
		assert_int_equal(flights[0].state, FLIGHT_SENT);
		assert_int_equal(flights[0].attempts, i);
		sent_to->calls.count = 0;
		pool_give_back(&loop.pool, &flights[0]);
		if (i < 3)
		{
			assert_int_equal(flights[0].state, FLIGHT_WAITING);
			pool_withdraw(&loop.pool, &flights[0]);
		}
	}
	assert_int_equal(flights[0].state, FLIGHT_LANDED);
}

static void
who_comes_back_is_first_in_line(void **state)
{
	for (int i = 0; i < CONNS * DEPTH + 1; i++)
		pool_submit(&loop.pool, &flights[i]);
	pool_give_back(&loop.pool, &flights[0]);
	loop.pool.conns[0].calls.count = 1;
	pool_pump(&loop.pool);
	assert_int_equal(flights[0].state, FLIGHT_SENT);
	assert_int_equal(flights[4].state, FLIGHT_WAITING);
}

static void
those_who_come_back_keep_their_order(void **state)
{
	for (int i = 0; i < CONNS * DEPTH + 1; i++)
	{
		flights[i].arrived_ms = i;
		pool_submit(&loop.pool, &flights[i]);
	}
	/* two of one pipeline, the older one first, and one of another */
	pool_give_back(&loop.pool, &flights[1]);
	pool_give_back(&loop.pool, &flights[3]);
	pool_give_back(&loop.pool, &flights[0]);
	for (int i = 0; i < 4; i++)
	{
		static const int order[] = {0, 1, 3, 4};
		Flight          *next =
			H2O_STRUCT_FROM_MEMBER(Flight, link, loop.pool.waiting.next);

		assert_ptr_equal(next, &flights[order[i]]);
		pool_withdraw(&loop.pool, next);
	}
	assert_int_equal(loop.pool.waiting_len, 0);
}

static void
a_call_whose_request_is_gone_is_not_sent_again(void **state)
{
	pool_submit(&loop.pool, &flights[0]);
	flights[0].req = NULL;
	pool_give_back(&loop.pool, &flights[0]);
	assert_int_equal(flights[0].state, FLIGHT_LANDED);
}

static void
an_error_that_is_no_conflict_lands(void **state)
{
	pool_submit(&loop.pool, &flights[0]);
	pool_complete(&loop.pool, &flights[0], make_error());
	assert_int_equal(flights[0].state, FLIGHT_LANDED);
	assert_int_equal(flights[0].attempts, 1);
}

int
main(void)
{
#define UP(test) cmocka_unit_test_setup_teardown(test, begin_up, end)
#define DOWN(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		UP(the_least_loaded_connection_is_chosen),
		UP(the_queue_is_bounded_and_in_order),
		UP(nobody_overtakes_the_queue),
		UP(a_connection_stuck_in_a_slow_call_gets_no_more),
		UP(one_tenant_leaves_a_connection_to_the_others),
		DOWN(with_one_connection_a_tenant_may_use_it),
		UP(slow_tenants_count_as_one),
		UP(a_running_slow_call_is_remembered),
		UP(a_hoarder_gives_way_when_the_queue_is_full),
		UP(connections_are_renewed_one_by_one),
		DOWN(calls_wait_for_a_database_that_is_away),
		DOWN(the_oldest_expire_first),
		UP(a_broken_connection_is_followed_by_another),
		UP(a_call_is_sent_at_most_three_times),
		UP(who_comes_back_is_first_in_line),
		UP(those_who_come_back_keep_their_order),
		UP(a_call_whose_request_is_gone_is_not_sent_again),
		UP(an_error_that_is_no_conflict_lands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
