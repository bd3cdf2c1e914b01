/*
 * request.h
 *		The handler for everything that arrives on the public listener.
 */
#ifndef GATEWAY_REQUEST_H
#define GATEWAY_REQUEST_H

#include <h2o.h>

#include "loop.h"

/*
 * Handles one request whose head and body are complete: refuses it, or submits
 * a call to this thread's pool.  Always returns 0: the request is ours.
 */
extern int request_handle(h2o_handler_t *self, h2o_req_t *req);

/*
 * Returns the client's X-Request-Id if it may be echoed, else makes one in
 * "buffer", which must live as long as the request.
 */
extern Slice
request_choose_id(const h2o_req_t *req, char buffer[LOOP_ID_BYTES]);

/*
 * Gives the client's socket back to libh2o, before anything is sent.  Must be
 * called for every request that request_handle submitted to the pool.
 */
extern void request_release_socket(h2o_req_t *req);

#endif /* GATEWAY_REQUEST_H */
