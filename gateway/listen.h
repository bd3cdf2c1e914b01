/*
 * listen.h
 *		Listening TCP sockets.
 */
#ifndef GATEWAY_LISTEN_H
#define GATEWAY_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Makes "count" listening sockets for one numeric address and port, which share
 * the incoming connections.  *port is set when it was 0.  On failure prints one
 * sentence, which names "flag" as the way to another port, closes what it opened
 * and returns false.
 */
extern bool listen_open(const char *address, int64_t *port, const char *flag,
						int count, int64_t stuck_ms, int *fds);

#endif /* GATEWAY_LISTEN_H */
