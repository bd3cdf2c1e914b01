/*
 * gw_flight.c - a call owned by two sides, which let go in either order
 *
 * The request is a bare one with its memory pool: clearing the pool is what
 * libh2o does when a request goes away.  Pool and replies are stand-ins that
 * note what they are asked; the sanitizer sees a flight that is lost or freed
 * twice.
 */
// SOURCES: gateway/flight.c
// LIBS: -DH2O_USE_LIBUV=0 -I/usr/include/postgresql -lh2o-evloop -lpq
#include "../../gateway/flight.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../../gateway/loop.h"
#include "../../gateway/pool.h"
#include "../../gateway/reply.h"

static Loop      loop;
static h2o_req_t req;
static int       replies;
static int       withdrawals;

void
reply_flight(Flight *flight)
{
	assert_ptr_equal(flight->req, &req);
	assert_int_equal(flight->state, FLIGHT_LANDED);
	replies++;
}

void
pool_withdraw(Pool *pool, Flight *flight)
{
	assert_ptr_equal(pool, &loop.pool);
	assert_int_equal(flight->state, FLIGHT_WAITING);
	withdrawals++;
}

static int
begin(void **state)
{
	memset(&loop, 0, sizeof(loop));
	memset(&req, 0, sizeof(req));
	h2o_mem_init_pool(&req.pool);
	replies = 0;
	withdrawals = 0;
	return 0;
}

static int
end(void **state)
{
	assert_int_equal(loop.flights.live, 0);
	flight_cache_free(&loop.flights);
	return 0;
}

static void
request_goes_away(void)
{
	h2o_mem_clear_pool(&req.pool);
}

static void
answered_then_gone(void **state)
{
	Flight *flight = flight_open(&loop, &req);

	flight->state = FLIGHT_SENT;
	flight_land(flight, PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK));
	assert_int_equal(replies, 1);
	/* the response body may still point into the result */
	assert_non_null(flight->result);
	assert_int_equal(loop.flights.live, 1);
	request_goes_away();
	assert_int_equal(loop.flights.live, 0);
}

static void
gone_then_landed(void **state)
{
	Flight *flight = flight_open(&loop, &req);

	flight->state = FLIGHT_SENT;
	request_goes_away();
	assert_null(flight->req);
	/* the connection still counts on it */
	assert_int_equal(loop.flights.live, 1);
	flight_land(flight, PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK));
	assert_int_equal(replies, 0);
	assert_int_equal(loop.flights.live, 0);
}

static void
gone_while_waiting(void **state)
{
	Flight *flight = flight_open(&loop, &req);

	flight->state = FLIGHT_WAITING;
	request_goes_away();
	assert_int_equal(withdrawals, 1);
	assert_int_equal(loop.flights.live, 0);
}

static void
refused_without_a_call(void **state)
{
	flight_open(&loop, &req);
	request_goes_away();
	assert_int_equal(withdrawals, 0);
	assert_int_equal(loop.flights.live, 0);
}

static void
a_flight_is_used_again_and_clean(void **state)
{
	Flight *flight = flight_open(&loop, &req);

	flight->state = FLIGHT_SENT;
	flight->attempts = 3;
	flight->lost = true;
	flight_land(flight, NULL);
	request_goes_away();

	h2o_mem_init_pool(&req.pool);
	assert_ptr_equal(flight_open(&loop, &req), flight);
	assert_int_equal(flight->state, FLIGHT_NEW);
	assert_int_equal(flight->attempts, 0);
	assert_false(flight->lost);
	assert_null(flight->result);
	request_goes_away();
}

static void
many_flights_of_many_requests(void **state)
{
	enum
	{
		COUNT = 100
	};
	Flight    *flights[COUNT];
	h2o_req_t *reqs = calloc(COUNT, sizeof(reqs[0]));

	assert_non_null(reqs);
	for (int i = 0; i < COUNT; i++)
	{
		h2o_mem_init_pool(&reqs[i].pool);
		flights[i] = flight_open(&loop, &reqs[i]);
		flights[i]->state = FLIGHT_SENT;
	}
	/* every third request leaves before its call lands, the others after */
	for (int i = 0; i < COUNT; i += 3)
		h2o_mem_clear_pool(&reqs[i].pool);
	for (int i = COUNT - 1; i >= 0; i--)
	{
		if (flights[i]->req != NULL)
			flights[i]->req = &req;
		flight_land(flights[i], PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK));
	}
	assert_int_equal(replies, COUNT - (COUNT + 2) / 3);
	for (int i = 0; i < COUNT; i++)
		if (i % 3 != 0)
			h2o_mem_clear_pool(&reqs[i].pool);
	free(reqs);
}

int
main(void)
{
#define WITH_LOOP(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		WITH_LOOP(answered_then_gone),
		WITH_LOOP(gone_then_landed),
		WITH_LOOP(gone_while_waiting),
		WITH_LOOP(refused_without_a_call),
		WITH_LOOP(a_flight_is_used_again_and_clean),
		WITH_LOOP(many_flights_of_many_requests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
