/*
 * listen.c
 *		One socket per thread on the same port, by SO_REUSEPORT.
 *
 * The kernel then spreads connections over the threads, and no two threads ever
 * race for one accept.  The price: with SO_REUSEPORT a second gateway could
 * silently join the port and take half of the traffic.  So a socket without
 * that option tries the port first, and fails if anyone is there.
 *
 * Called from main before threads start.
 */
#include "listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 4096

static bool
set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) == 0;
}

/* Returns a bound socket, or -1 with errno set. */
static int
bind_one(const struct addrinfo *where, bool share)
{
	int fd =
		socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int saved;

	if (fd < 0)
		return -1;
	if (set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1) &&
		(!share || set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1)) &&
		bind(fd, where->ai_addr, where->ai_addrlen) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

/*
 * Accepted connections inherit these.  A client that stops reading its answer
 * is dropped after "stuck_ms", since libh2o puts no limit on writing.
 */
static bool
start_listening(int fd, int64_t stuck_ms)
{
	return set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1) &&
		   set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int) stuck_ms) &&
		   listen(fd, BACKLOG) == 0;
}

static int64_t
port_of(int fd)
{
	struct sockaddr_storage address;
	socklen_t               len = sizeof(address);
	in_port_t               port;

	if (getsockname(fd, (struct sockaddr *) &address, &len) != 0)
		return 0;
	if (address.ss_family == AF_INET6)
		port = ((struct sockaddr_in6 *) &address)->sin6_port;
	else
		port = ((struct sockaddr_in *) &address)->sin_port;
	return ntohs(port);
}

static void
set_port(struct addrinfo *where, int64_t port)
{
	in_port_t wire = htons((uint16_t) port);

	if (where->ai_family == AF_INET6)
		((struct sockaddr_in6 *) where->ai_addr)->sin6_port = wire;
	else
		((struct sockaddr_in *) where->ai_addr)->sin_port = wire;
}

/* Opens all sockets on a resolved address; -1 with errno, or how many. */
static int
open_all(struct addrinfo *where, int64_t *port, int count, int64_t stuck_ms,
		 int *fds)
{
	int probe;

	set_port(where, *port);
	probe = bind_one(where, false);
	if (probe < 0)
		return -1;
	*port = port_of(probe);
	set_port(where, *port);
	close(probe);
	for (int i = 0; i < count; i++)
	{
		fds[i] = bind_one(where, true);
		if (fds[i] < 0 || !start_listening(fds[i], stuck_ms))
		{
			int saved = errno;

			for (int j = 0; j <= i; j++)
				if (fds[j] >= 0)
					close(fds[j]);
			errno = saved;
			return -1;
		}
	}
	return count;
}

bool
listen_open(const char *address, int64_t *port, const char *flag, int count,
			int64_t stuck_ms, int *fds)
{
	struct addrinfo  hints = {.ai_flags = AI_NUMERICHOST | AI_PASSIVE,
							  .ai_socktype = SOCK_STREAM};
	struct addrinfo *where;
	bool             opened;

	if (getaddrinfo(address, NULL, &hints, &where) != 0)
	{
		fprintf(stderr, "mortar-gateway: \"%s\" is not a numeric address\n",
				address);
		return false;
	}
	opened = open_all(where, port, count, stuck_ms, fds) == count;
	if (!opened && errno == EADDRINUSE)
		fprintf(stderr,
				"mortar-gateway: port %lld on %s is in use by another "
				"program: stop it, or choose another %s\n",
				(long long) *port, address, flag);
	else if (!opened)
		fprintf(stderr, "mortar-gateway: cannot listen on %s port %lld: %s\n",
				address, (long long) *port, strerror(errno));
	freeaddrinfo(where);
	return opened;
}
