/*
 * request_nothing.c
 *		The benchmark's peer "limit-http": the gateway with a handler that does
 *		nothing in place of request.c.
 *
 * It implements gateway/request.h and is linked with all other objects of the
 * gateway, so a request takes the same way through listener, event loop and
 * reply: what it costs is what HTTP alone costs on this machine.  The database
 * connections of the pool are made and stay idle.
 *
 * Every path is answered 200 with one JSON text, as long as the list of ten
 * tables that the other servers answer with.
 *
 * There is no state and nothing to lock.
 */
#include "request.h"

#include <assert.h>

#include "access.h"
#include "reply.h"

#define TEN_BYTES "xxxxxxxxxx"
#define HUNDRED_BYTES                                                          \
	TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES      \
		TEN_BYTES TEN_BYTES TEN_BYTES

static const char body[] =
	"\"" HUNDRED_BYTES HUNDRED_BYTES HUNDRED_BYTES HUNDRED_BYTES HUNDRED_BYTES
		HUNDRED_BYTES HUNDRED_BYTES HUNDRED_BYTES HUNDRED_BYTES HUNDRED_BYTES
			HUNDRED_BYTES HUNDRED_BYTES HUNDRED_BYTES HUNDRED_BYTES "\"";

Slice
request_choose_id(const h2o_req_t *req, char buffer[LOOP_ID_BYTES])
{
	loop_new_id(loop_of_request(req), buffer);
	return (Slice){buffer, LOOP_ID_BYTES};
}

/* reply.c wants it for requests that the pool had; here there are none */
void
request_release_socket(h2o_req_t *req)
{
	assert(!"a request came from the pool");
}

int
request_handle(h2o_handler_t *self, h2o_req_t *req)
{
	access_begin(req);
	reply_json(req, 200, (Slice){body, sizeof(body) - 1});
	return 0;
}
