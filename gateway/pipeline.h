/*
 * pipeline.h
 *		The calls in flight on one database connection, in their order.
 *		PURE: includes neither h2o nor libpq.
 */
#ifndef GATEWAY_PIPELINE_H
#define GATEWAY_PIPELINE_H

#include "pace.h"

struct Flight;

typedef struct Pipeline
{
	struct Flight **flights; /* ring of depth entries */
	Tenant         *tenants; /* of the same calls; marked: known as slow */
	unsigned        depth;
	unsigned        first; /* index of the oldest call */
	unsigned        count;
	unsigned        marked;        /* how many are of tenants known as slow */
	unsigned        window;        /* how many it may hold, see pace.h */
	int64_t         head_since_ms; /* when the oldest became the oldest */
} Pipeline;

/* Sets up an empty one for at most "depth" calls; aborts without memory. */
extern void pipeline_init(Pipeline *pipeline, unsigned depth);

/* Frees what pipeline_init took. */
extern void pipeline_free(Pipeline *pipeline);

/* Forgets all calls and what was learned from them. */
extern void pipeline_reset(Pipeline *pipeline);

/* True when another call may be put in. */
static inline bool
pipeline_has_room(const Pipeline *pipeline)
{
	/* nothing stands behind a call that is expected to be slow */
	return pipeline->count < pipeline->window && pipeline->marked == 0;
}

/* Puts a call in; there must be room.  "tenant" may be marked. */
extern void pipeline_append(Pipeline *pipeline, struct Flight *flight,
							Tenant tenant, int64_t now_ms);

/*
 * Takes the oldest call out because it is answered, and learns from how long
 * that took.  There must be one.  "slow" becomes its tenant when it was slow, 0
 * otherwise.
 */
extern struct Flight *
pipeline_take(Pipeline *pipeline, int64_t now_ms, Tenant *slow);

/* Returns the call at "place", 0 being the oldest. */
static inline struct Flight *
pipeline_at(const Pipeline *pipeline, unsigned place)
{
	return pipeline->flights[(pipeline->first + place) % pipeline->depth];
}

/* Returns the tenant of the oldest call when it is slow already, else 0. */
static inline Tenant
pipeline_stalled_by(const Pipeline *pipeline, int64_t now_ms)
{
	return pipeline->count > 0 &&
				   now_ms - pipeline->head_since_ms >= PACE_SLOW_MS
			   ? pipeline->tenants[pipeline->first]
			   : 0;
}

/* True when it holds a call of "tenant". */
extern bool pipeline_carries(const Pipeline *pipeline, Tenant tenant);

#endif /* GATEWAY_PIPELINE_H */
