/*
 * flight.h
 *		One call on its way, owned by two sides: the HTTP request that waits for
 *		it, and the database connection that carries it.
 *
 * Either side may go first.  A request can be disposed of while its call is
 * with the database; a call can be finished while its response is still being
 * written.  The flight is recycled when both have let go:
 *
 *	 - the request side lets go in a hook of the request's memory pool, which
 *	   also drops the PGresult that the response body points into
 *	 - the database side lets go in flight_land()
 *
 * Each flight belongs to one thread; nothing here is shared.
 */
#ifndef GATEWAY_FLIGHT_H
#define GATEWAY_FLIGHT_H

#include <libpq-fe.h>
#include <h2o.h>

#include "call.h"
#include "contract.h"
#include "pace.h"

typedef enum FlightState
{
	FLIGHT_NEW,     /* with the request only */
	FLIGHT_WAITING, /* in the pool's wait queue */
	FLIGHT_SENT,    /* in a connection's queue of calls */
	FLIGHT_LANDED,  /* with the request only, answered */
} FlightState;

typedef struct Flight
{
	struct Loop   *loop;
	h2o_req_t     *req; /* NULL once the request is gone */
	FlightState    state;
	int            attempts; /* how often it was sent, or failed to be */
	bool           lost;     /* it was written, and its connection broke */
	int64_t        arrived_ms;
	Tenant         tenant;    /* set by pool_submit */
	PGresult      *result;    /* the row, or the error that replaced it */
	h2o_linklist_t link;      /* in the wait queue */
	struct Flight *next_free; /* in the thread's cache */
	CallRequest    call;
	struct sockaddr_storage peer;
	char                    request_id[32];
} Flight;

/* Recycled flights of one thread. */
typedef struct FlightCache
{
	Flight *free;
	size_t  live; /* flights that are not in the cache */
} FlightCache;

/*
 * Returns a flight for "req" in state FLIGHT_NEW.  It is recycled by itself:
 * there is no close for the request side.
 */
extern Flight *flight_open(struct Loop *loop, h2o_req_t *req);

/*
 * The database side is done: "result" (which may be NULL: the connection was
 * lost, or none was to be had) becomes the flight's.  Answers the request if it
 * is still there.  The flight must be in no queue any more.
 */
extern void flight_land(Flight *flight, PGresult *result);

/* Frees the cache itself. */
extern void flight_cache_free(FlightCache *cache);

#endif /* GATEWAY_FLIGHT_H */
