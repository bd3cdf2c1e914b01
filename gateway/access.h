/*
 * access.h
 *		The access log: one JSON line per request.
 */
#ifndef GATEWAY_ACCESS_H
#define GATEWAY_ACCESS_H

#include <h2o.h>

/* Notes when a request begins to be handled. */
extern void access_begin(h2o_req_t *req);

/* Logs every request that is handled under "path". */
extern void access_register(h2o_pathconf_t *path);

#endif /* GATEWAY_ACCESS_H */
