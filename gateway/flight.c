/*
 * flight.c
 *		The two-sided life of a call; see flight.h for the rules.
 *
 * The hook on the request's side is a small shared object in the request's
 * pool that points to the flight.  libh2o runs its destructor when the request
 * is disposed of, for whatever reason, and after the last byte of the response
 * has left or was given up.
 */
#include "flight.h"

#include <assert.h>

#include "loop.h"
#include "pool.h"
#include "reply.h"

static void
recycle(Flight *flight)
{
	FlightCache *cache = &flight->loop->flights;

	assert(flight->req == NULL);
	assert(!h2o_linklist_is_linked(&flight->link));
	PQclear(flight->result);
	flight->result = NULL;
	flight->next_free = cache->free;
	cache->free = flight;
	cache->live--;
}

/* Destructor of the hook: the request is going away. */
static void
on_request_gone(void *hook)
{
	Flight *flight = *(Flight **) hook;

	flight->req = NULL;
	switch (flight->state)
	{
		case FLIGHT_WAITING:
			pool_withdraw(&flight->loop->pool, flight);
			recycle(flight);
			break;
		case FLIGHT_NEW:
		case FLIGHT_LANDED:
			recycle(flight);
			break;
		case FLIGHT_SENT:
			/* the connection still counts on it; flight_land recycles */
			break;
	}
}

Flight *
flight_open(Loop *loop, h2o_req_t *req)
{
	FlightCache *cache = &loop->flights;
	Flight      *flight = cache->free;
	Flight     **hook;

	if (flight != NULL)
		cache->free = flight->next_free;
	else
	{
		flight = h2o_mem_alloc(sizeof(*flight));
		memset(flight, 0, sizeof(*flight));
		flight->loop = loop;
	}
	cache->live++;
	flight->req = req;
	flight->state = FLIGHT_NEW;
	flight->attempts = 0;
	flight->lost = false;
	flight->arrived_ms = loop_now_ms();
	assert(flight->result == NULL);

	hook = h2o_mem_alloc_shared(&req->pool, sizeof(Flight *), on_request_gone);
	*hook = flight;
	return flight;
}

void
flight_land(Flight *flight, PGresult *result)
{
	assert(flight->state == FLIGHT_SENT || flight->state == FLIGHT_WAITING ||
		   flight->state == FLIGHT_NEW);
	assert(!h2o_linklist_is_linked(&flight->link));
	assert(flight->result == NULL);

	flight->state = FLIGHT_LANDED;
	flight->result = result;
	if (flight->req == NULL)
		recycle(flight);
	else
		reply_flight(flight);
}

void
flight_cache_free(FlightCache *cache)
{
	while (cache->free != NULL)
	{
		Flight *flight = cache->free;

		cache->free = flight->next_free;
		free(flight);
	}
}
