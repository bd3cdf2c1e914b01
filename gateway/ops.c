/*
 * ops.c
 *		What a load balancer and a supervisor ask.
 *
 * /live: this process runs its loops.  /ready: each thread has at least one
 * greeted database connection, and the process is not draining; a load
 * balancer sends nothing while the answer is 503.
 *
 * Runs in the first thread; reads the other threads' atomic counters.
 */
#include "ops.h"

#include <stdio.h>

#include "loop.h"
#include "reply.h"

static void
reply_ready(Loop *loop, h2o_req_t *req)
{
	unsigned ready = 0;
	unsigned total = 0;
	bool     each = true;
	char    *body = h2o_mem_alloc_pool(&req->pool, 128);
	int      len;

	for (int i = 0; i < loop->group->count; i++)
	{
		Pool    *pool = &loop->group->loops[i].pool;
		unsigned here =
			atomic_load_explicit(&pool->ready, memory_order_relaxed);

		ready += here;
		total += (unsigned) loop->config->connections;
		each = each && here > 0;
	}
	each = each && !loop_is_draining(loop);
	len = snprintf(body, 128,
				   "{\"status\":\"%s\",\"connections\":%u,\"of\":%u}\n",
				   each                     ? "ready"
				   : loop_is_draining(loop) ? "draining"
											: "not ready",
				   ready, total);
	reply_json(req, each ? 200 : 503, (Slice){body, (size_t) len});
}

int
ops_handle(h2o_handler_t *self, h2o_req_t *req)
{
	Slice path = {req->path.base, req->path.len};
	bool  get = h2o_memis(req->method.base, req->method.len, H2O_STRLIT("GET"));
	bool  head =
		h2o_memis(req->method.base, req->method.len, H2O_STRLIT("HEAD"));

	if (!get && !head)
	{
		h2o_add_header(&req->pool, &req->res.headers, H2O_TOKEN_ALLOW, NULL,
					   H2O_STRLIT("GET, HEAD"));
		reply_json(req, 405, SLICE_LITERAL("{\"status\":\"use GET\"}\n"));
	}
	else if (slice_equal(path, SLICE_LITERAL("/live")))
		reply_json(req, 200, SLICE_LITERAL("{\"status\":\"live\"}\n"));
	else if (slice_equal(path, SLICE_LITERAL("/ready")))
		reply_ready(loop_of_request(req), req);
	else
		reply_json(req, 404, SLICE_LITERAL("{\"status\":\"not found\"}\n"));
	return 0;
}
