/*
 * access.h
 *		The access log: one JSON line per request.
 */
#ifndef GATEWAY_ACCESS_H
#define GATEWAY_ACCESS_H

#include <h2o.h>

/* Logs every request that is handled under "path". */
extern void access_register(h2o_pathconf_t *path);

#endif /* GATEWAY_ACCESS_H */
