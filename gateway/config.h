/*
 * config.h
 *		Every setting of the gateway, with its unit.
 */
#ifndef GATEWAY_CONFIG_H
#define GATEWAY_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

/* What the command line asks for. */
typedef enum ConfigAction
{
	CONFIG_SERVE,
	CONFIG_CHECK,       /* connect, say hello, print one line */
	CONFIG_MAKE_PEPPER, /* write a pepper file */
	CONFIG_EXIT,        /* --help or --version: printed already */
	CONFIG_INVALID,     /* an objection was printed */
} ConfigAction;

typedef struct Config
{
	/* where to listen */
	const char *listen_address; /* numeric */
	int64_t     port;           /* 0: any free port */
	const char *ops_address;    /* numeric */
	int64_t     ops_port;       /* -1: port + 1; 0: any free port */

	/* the database */
	const char *database;    /* conninfo or URI; NULL: PG* variables only */
	int64_t     threads;     /* event loops; 0 becomes the number of cores */
	int64_t     connections; /* per thread */
	int64_t     depth;       /* calls in flight per connection */
	int64_t     queue;       /* calls waiting per thread */
	int64_t     queue_timeout_ms;
	int64_t     call_timeout_ms;
	int64_t     connect_timeout_ms;

	/* clients */
	int64_t max_connections; /* of the whole process */
	int64_t max_uri_bytes;
	int64_t max_head_bytes;
	int64_t max_body_bytes;
	int64_t body_memory_bytes;  /* of all bodies of the process */
	int64_t request_timeout_ms; /* head and body; idle keep-alive */
	int64_t drain_timeout_ms;

	/* other */
	const char *access_log; /* NULL: none; "-": stdout */
	const char *pepper_path;
	bool        pepper_add;
} Config;

/*
 * Returns how many clients the process can have at a time with "descriptors"
 * open files: at most max_connections, and at least one for each thread.
 */
extern int64_t config_clients_max(const Config *config, int64_t descriptors);

/*
 * Fills in "config" from defaults, MORTAR_* variables and the command line, the
 * later winning.  Strings are borrowed from argv and the environment.
 */
extern ConfigAction config_read(Config *config, int argc, char **argv);

#endif /* GATEWAY_CONFIG_H */
