/*
 * pipeline.c
 *		A ring of calls, and beside it the ring of their tenants.
 *
 * The server answers in order, so calls enter at one end and leave at the
 * other.  The tenants have an array of their own because the pool looks through
 * all of them for each call that it sends.
 *
 * A pipeline owns its arrays, not the calls.  It belongs to one thread.
 */
#include "pipeline.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

void
pipeline_init(Pipeline *pipeline, unsigned depth)
{
	pipeline->depth = depth;
	pipeline->flights = calloc(depth, sizeof(pipeline->flights[0]));
	pipeline->tenants = calloc(depth, sizeof(pipeline->tenants[0]));
	if (pipeline->flights == NULL || pipeline->tenants == NULL)
	{
		fputs("mortar-gateway: no memory\n", stderr);
		abort();
	}
	pipeline_reset(pipeline);
}

void
pipeline_free(Pipeline *pipeline)
{
	free(pipeline->flights);
	free(pipeline->tenants);
	pipeline->flights = NULL;
	pipeline->tenants = NULL;
}

void
pipeline_reset(Pipeline *pipeline)
{
	pipeline->first = 0;
	pipeline->count = 0;
	pipeline->marked = 0;
	pipeline->window = 1;
	pipeline->head_since_ms = 0;
}

void
pipeline_append(Pipeline *pipeline, struct Flight *flight, Tenant tenant,
				int64_t now_ms)
{
	unsigned at = (pipeline->first + pipeline->count) % pipeline->depth;

	assert(pipeline_has_room(pipeline));
	if (pipeline->count == 0)
		pipeline->head_since_ms = now_ms;
	pipeline->flights[at] = flight;
	pipeline->tenants[at] = tenant;
	pipeline->count++;
	if (tenant & TENANT_MARK)
		pipeline->marked++;
}

struct Flight *
pipeline_take(Pipeline *pipeline, int64_t now_ms, Tenant *slow)
{
	struct Flight *flight = pipeline->flights[pipeline->first];
	Tenant         tenant = pipeline->tenants[pipeline->first];

	assert(pipeline->count > 0);
	*slow = pipeline_stalled_by(pipeline, now_ms);
	pipeline->window = pace_window(pipeline->window, pipeline->depth,
								   now_ms - pipeline->head_since_ms);
	pipeline->first = (pipeline->first + 1) % pipeline->depth;
	pipeline->count--;
	if (tenant & TENANT_MARK)
		pipeline->marked--;
	pipeline->head_since_ms = now_ms;
	return flight;
}

bool
pipeline_carries(const Pipeline *pipeline, Tenant tenant)
{
	for (unsigned i = 0; i < pipeline->count; i++)
		if (pace_is_same(
				pipeline->tenants[(pipeline->first + i) % pipeline->depth],
				tenant))
			return true;
	return false;
}
