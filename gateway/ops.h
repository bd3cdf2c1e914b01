/*
 * ops.h
 *		/live and /ready, on a listener of their own.
 */
#ifndef GATEWAY_OPS_H
#define GATEWAY_OPS_H

#include <h2o.h>

/* Handles one request on the ops listener. */
extern int ops_handle(h2o_handler_t *self, h2o_req_t *req);

#endif /* GATEWAY_OPS_H */
