/*
 * loop.h
 *		One thread: an event loop with its listener, clients and pool.
 */
#ifndef GATEWAY_LOOP_H
#define GATEWAY_LOOP_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>
#include <h2o.h>

#include "budget.h"
#include "call.h"
#include "config.h"
#include "flight.h"
#include "pool.h"

/* Length of a request id made here. */
#define LOOP_ID_BYTES 32

/* A listening socket of a loop, and the clients that came through it. */
typedef struct Door
{
	struct Loop     *loop;
	h2o_socket_t    *socket; /* NULL: none, or closed */
	h2o_accept_ctx_t accept;
	h2o_hostconf_t  *hosts[2];
	int              fd;      /* -1: this loop has no such door */
	int64_t          clients; /* open connections */
	int64_t          clients_max;
	bool             paused;         /* accepts no more for now */
	int64_t          resume_at_ms;   /* paused for want of something until */
	int64_t          complain_at_ms; /* the next line in the log about it */
} Door;

typedef struct Loop
{
	/* set before the thread starts */
	struct LoopGroup *group;
	const Config     *config;
	int               wake_fd; /* eventfd that says: look at the group */

	/* this thread's alone */
	h2o_context_t ctx;
	h2o_socket_t *wake;
	Door          door; /* requests */
	Door          ops;  /* /live and /ready; only in the first loop */
	FlightCache   flights;
	CallParams    params;
	Budget        budget;
	uint64_t      id_prefix;
	uint64_t      id_counter;
	int           renewals; /* of the group's, those begun */
	bool          draining; /* has begun to */
	int64_t       drain_deadline_ms;

	/* read by ops, see pool.h */
	Pool pool;

	pthread_t thread;
	int64_t
		left_over; /* unfinished at the deadline; read once the group is done */
} Loop;

/* All threads. */
typedef struct LoopGroup
{
	Loop            *loops;
	int              count;
	h2o_globalconf_t h2o;      /* read only once threads run */
	atomic_bool      draining; /* set once by main */
	atomic_int       renewals; /* how often main asked for new connections */
	sem_t            done;     /* posted by each thread at its end */
	atomic_int       finished; /* threads that are at their end */
} LoopGroup;

/* Prepares what the threads share.  "fds" has one listening socket for each of
 * config->threads, "ops_fd" is one more. */
extern void loop_group_init(LoopGroup *group, const Config *config,
							const int *fds, int ops_fd);

/* Starts the threads; exits with a sentence when that fails. */
extern void loop_group_start(LoopGroup *group);

/* Asks all loops to make their database connections anew, one by one. */
extern void loop_group_renew(LoopGroup *group);

/*
 * Asks all loops to accept no more and finish, waits for them, and returns the
 * number of requests that were not finished in time.
 */
extern int64_t loop_group_drain(LoopGroup *group);

/* The loop that a request belongs to. */
static inline Loop *
loop_of_request(const h2o_req_t *req)
{
	return H2O_STRUCT_FROM_MEMBER(Loop, ctx, req->conn->ctx);
}

/* True from the moment main has asked to drain. */
static inline bool
loop_is_draining(const Loop *loop)
{
	return atomic_load_explicit(&loop->group->draining, memory_order_relaxed);
}

/* Milliseconds of a clock that never steps; good to a few ms, and cheap. */
static inline int64_t
loop_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Writes a new request id, unique over threads and restarts. */
extern void loop_new_id(Loop *loop, char id[LOOP_ID_BYTES]);

/* Random enough for jitter; not for secrets. */
extern uint64_t loop_random(Loop *loop);

#endif /* GATEWAY_LOOP_H */
