/*
 * main.c
 *		mortar-gateway: settings, start-up, signals, and the end.
 *
 * The main thread reads the settings, proves that the database welcomes us,
 * opens the listeners, starts the loops, and then only waits for signals, which
 * are blocked in every other thread.  Whatever is wrong is said in one sentence
 * before anything is served.
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config.h"
#include "contract.h"
#include "hello.h"
#include "listen.h"
#include "log.h"
#include "loop.h"
#include "pepper.h"

/* An allocation of so many bytes goes back to the system when it is freed. */
#define LARGE_BYTES (1024 * 1024)

static LoopGroup group;

/* One sentence on stderr; libpq's messages may have several lines. */
static void
complain(const char *sentence)
{
	fputs("mortar-gateway: ", stderr);
	for (const char *p = sentence; *p != '\0'; p++)
	{
		if (*p == '\t')
			continue;
		if (*p != '\n')
			fputc(*p, stderr);
		else if (p[1] != '\0')
			fputs("; ", stderr);
	}
	fputc('\n', stderr);
}

static bool
probe(const Config *config, HelloFacts *facts)
{
	char sentence[HELLO_SENTENCE_MAX];

	if (hello_probe(config, facts, sentence))
		return true;
	complain(sentence);
	return false;
}

static int
run_check(const Config *config)
{
	HelloFacts facts;

	if (!probe(config, &facts))
		return 1;
	printf("mortar-gateway %s (contract %d) is welcome: database \"%s\", "
		   "mortar %s, PostgreSQL %s\n",
		   MORTAR_VERSION, MORTAR_CONTRACT, facts.database, facts.version,
		   facts.server);
	return 0;
}

/* Each client takes a descriptor; use what the system allows, and no more. */
static void
fit_descriptor_limit(Config *config)
{
	struct rlimit limit;
	int64_t       clients;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0 ||
		getrlimit(RLIMIT_NOFILE, &limit) != 0)
	{
		log_line(LOG_LEVEL_WARNING, "cannot raise the descriptor limit: %s",
				 strerror(errno));
		return;
	}
	if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > INT32_MAX)
		return;
	clients = config_clients_max(config, (int64_t) limit.rlim_cur);
	if (clients < config->max_connections)
		log_line(LOG_LEVEL_WARNING,
				 "the limit of %lld open files allows %lld client connections, "
				 "fewer than --max-connections %lld",
				 (long long) limit.rlim_cur, (long long) clients,
				 (long long) config->max_connections);
	config->max_connections = clients;
}

static void
block_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
	if (pthread_sigmask(SIG_BLOCK, set, NULL) != 0 ||
		signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		h2o_fatal("cannot set up signals");
}

/* Waits until it is time to stop. */
static void
wait_for_end(const sigset_t *set)
{
	int number;

	while (sigwait(set, &number) == 0)
	{
		if (number != SIGHUP)
			return;
		log_access_reopen();
		log_line(LOG_LEVEL_INFO, "connecting anew to the database");
		loop_group_renew(&group);
	}
}

static bool
is_ipv6(const char *address)
{
	return strchr(address, ':') != NULL;
}

/* Opens all listeners; false after a sentence. */
static bool
open_listeners(Config *config, int *fds, int *ops_fd)
{
	return listen_open(config->listen_address, &config->port, "--port",
					   (int) config->threads, config->request_timeout_ms,
					   fds) &&
		   listen_open(config->ops_address, &config->ops_port, "--ops-port", 1,
					   config->request_timeout_ms, ops_fd);
}

static void
announce(const Config *config, const HelloFacts *facts)
{
	bool brackets = is_ipv6(config->listen_address);
	bool ops_brackets = is_ipv6(config->ops_address);

	log_line(LOG_LEVEL_INFO,
			 "mortar-gateway %s (contract %d), database \"%s\", mortar %s, "
			 "PostgreSQL %s",
			 MORTAR_VERSION, MORTAR_CONTRACT, facts->database, facts->version,
			 facts->server);
	log_line(LOG_LEVEL_INFO,
			 "listening on http://%s%s%s:%lld, ops on http://%s%s%s:%lld, %lld "
			 "threads with %lld database connections each",
			 brackets ? "[" : "", config->listen_address, brackets ? "]" : "",
			 (long long) config->port, ops_brackets ? "[" : "",
			 config->ops_address, ops_brackets ? "]" : "",
			 (long long) config->ops_port, (long long) config->threads,
			 (long long) config->connections);
}

static int
serve(Config *config)
{
	HelloFacts facts;
	sigset_t   signals;
	int        fds[256];
	int        ops_fd;
	int64_t    left_over;

	if (config->access_log != NULL && !log_access_open(config->access_log))
	{
		fprintf(stderr,
				"mortar-gateway: cannot open the access log \"%s\": "
				"%s\n",
				config->access_log, strerror(errno));
		return 1;
	}
	if (!probe(config, &facts) || !open_listeners(config, fds, &ops_fd))
		return 1;
	fit_descriptor_limit(config);
	/* else the limit grows with each large body, and the heap keeps them all;
	 * an allocator that knows no such limit has ways of its own */
	(void) mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
	block_signals(&signals);
	loop_group_init(&group, config, fds, ops_fd);
	loop_group_start(&group);
	announce(config, &facts);

	wait_for_end(&signals);
	log_line(LOG_LEVEL_INFO, "stopping: finishing what is in flight");
	left_over = loop_group_drain(&group);
	if (left_over > 0)
		log_line(LOG_LEVEL_WARNING, "%lld requests were not finished in time",
				 (long long) left_over);
	log_line(LOG_LEVEL_INFO, "stopped");
	return 0;
}

int
main(int argc, char **argv)
{
	Config config;

	switch (config_read(&config, argc, argv))
	{
		case CONFIG_SERVE:
			return serve(&config);
		case CONFIG_CHECK:
			return run_check(&config);
		case CONFIG_MAKE_PEPPER:
			return pepper_make(config.pepper_path, config.pepper_add) ? 0 : 1;
		case CONFIG_EXIT:
			return 0;
		case CONFIG_INVALID:
			break;
	}
	return 2;
}
