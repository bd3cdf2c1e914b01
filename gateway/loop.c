/*
 * loop.c
 *		Threads, listeners, and the way out.
 *
 * Threads share nothing while they serve: each has its own libh2o context,
 * listening socket, database connections and caches.  What crosses threads is
 * the group's "draining" flag and "finished" count and the pools' "ready"
 * counts, all atomic, and an eventfd per loop that wakes it.
 *
 * libh2o keeps caches in thread-local variables, so every libh2o object of a
 * loop is made by the loop's own thread.
 *
 * Draining: a connection still in the kernel's backlog is accepted first (with
 * SO_REUSEPORT it would be reset when the listener closes), then the listener
 * closes.  An idle keep-alive connection gets its reading half shut down: what
 * the kernel has already received is still read and answered, then the stream
 * ends and libh2o closes it.  So a request that reached us is answered, and
 * nobody waits for clients that have nothing to say.
 */
#include "loop.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "access.h"
#include "log.h"
#include "ops.h"
#include "reply.h"
#include "request.h"

#define ACCEPT_BATCH 32
#define OPS_CLIENTS_MAX 64
#define IDLE_WAIT_MS 1000
#define DRAIN_WAIT_MS 20

/* Without a descriptor: how soon to try again, how often to say so. */
#define STARVED_PAUSE_MS 100
#define STARVED_LOG_MS 10000

/* -- ids ------------------------------------------------------------------ */

/* splitmix64: a counter through a good mixer */
static uint64_t
mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

uint64_t
loop_random(Loop *loop)
{
	loop->id_counter += UINT64_C(0x9E3779B97F4A7C15);
	return mix(loop->id_counter);
}

void
loop_new_id(Loop *loop, char id[LOOP_ID_BYTES])
{
	text_hex64(id, loop->id_prefix);
	text_hex64(id + 16, loop_random(loop));
}

/* -- doors ---------------------------------------------------------------- */

static void on_knock(h2o_socket_t *listener, const char *error);

static void
pause_door(Door *door)
{
	door->paused = true;
	h2o_socket_read_stop(door->socket);
}

static void
resume_door(Door *door)
{
	if (door->socket == NULL || !door->paused ||
		door->clients >= door->clients_max ||
		loop_now_ms() < door->resume_at_ms)
		return;
	door->paused = false;
	door->resume_at_ms = 0;
	h2o_socket_read_start(door->socket, on_knock);
}

static void
on_client_close(void *data)
{
	Door *door = data;

	assert(door->clients > 0);
	door->clients--;
	/* it gives back a descriptor */
	door->resume_at_ms = 0;
	resume_door(door);
}

/* Accepts one connection; false when there is none, or no descriptor. */
static bool
accept_one(Door *door)
{
	h2o_socket_t *client = h2o_evloop_socket_accept(door->socket);

	if (client == NULL)
		return false;
	door->clients++;
	client->on_close.cb = on_client_close;
	client->on_close.data = door;
	h2o_accept(&door->accept, client);
	return true;
}

/*
 * The system gave no descriptor or no memory.  Those who knock stay in the
 * kernel's queue, so the listener would be readable all the time: look again
 * later.
 */
static void
pause_starved(Door *door, const char *reason)
{
	int64_t now_ms = loop_now_ms();

	pause_door(door);
	door->resume_at_ms = now_ms + STARVED_PAUSE_MS;
	if (now_ms < door->complain_at_ms)
		return;
	door->complain_at_ms = now_ms + STARVED_LOG_MS;
	log_line(LOG_LEVEL_ERROR, "cannot accept connections: %s", reason);
}

static void
on_knock(h2o_socket_t *listener, const char *error)
{
	Door *door = listener->data;

	for (int i = 0; i < ACCEPT_BATCH && door->clients < door->clients_max; i++)
	{
		if (accept_one(door))
			continue;
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
			errno == ENOBUFS)
			pause_starved(door, strerror(errno));
		return;
	}
	if (door->clients >= door->clients_max)
		pause_door(door);
}

static void
open_door(Door *door, Loop *loop, h2o_hostconf_t *host, int64_t clients_max)
{
	door->loop = loop;
	door->hosts[0] = host;
	door->hosts[1] = NULL;
	door->accept.ctx = &loop->ctx;
	door->accept.hosts = door->hosts;
	door->clients_max = clients_max < 1 ? 1 : clients_max;
	if (door->fd < 0)
		return;
	door->socket = h2o_evloop_socket_create(loop->ctx.loop, door->fd,
											H2O_SOCKET_FLAG_DONT_READ);
	door->socket->data = door;
	h2o_socket_read_start(door->socket, on_knock);
}

static void
close_door(Door *door)
{
	if (door->socket == NULL)
		return;
	while (door->clients < door->clients_max && accept_one(door))
		;
	h2o_socket_close(door->socket);
	door->socket = NULL;
}

/* -- draining ------------------------------------------------------------- */

/* Ends the stream of a client that has sent nothing since its answer; whoever
 * asks /ready is let alone. */
static int
end_if_idle(h2o_req_t *req, void *data)
{
	Loop         *loop = data;
	h2o_socket_t *socket = req->conn->callbacks->get_socket(req->conn);

	if (req->conn->hosts == loop->door.hosts && req->version == 0 &&
		socket->input->size == 0)
		shutdown(h2o_socket_get_fd(socket), SHUT_RD);
	return 0;
}

static void
end_idle_clients(Loop *loop)
{
	loop->group->h2o.http1.callbacks.foreach_request(&loop->ctx, end_if_idle,
													 loop);
}

static void
begin_drain(Loop *loop)
{
	loop->draining = true;
	loop->drain_deadline_ms = loop_now_ms() + loop->config->drain_timeout_ms;
	close_door(&loop->door);
	h2o_context_request_shutdown(&loop->ctx);
}

static void
on_wake(h2o_socket_t *socket, const char *error)
{
	Loop    *loop = socket->data;
	uint64_t count;

	if (read(loop->wake_fd, &count, sizeof(count)) != (ssize_t) sizeof(count))
		return;
	if (loop_is_draining(loop) && !loop->draining)
		begin_drain(loop);
	if (loop->renewals != atomic_load(&loop->group->renewals))
	{
		loop->renewals = atomic_load(&loop->group->renewals);
		pool_renew(&loop->pool);
	}
}

/* The loop that answers /ready stays until all others are done. */
static bool
are_others_done(Loop *loop)
{
	return loop->ops.fd < 0 ||
		   atomic_load(&loop->group->finished) == loop->group->count - 1;
}

/* True when a draining loop has nothing left to do, or no time. */
static bool
is_drained(Loop *loop)
{
	if (!loop->draining)
		return false;
	if (loop->flights.live == 0 && loop->door.clients == 0 &&
		are_others_done(loop))
		return true;
	if (loop_now_ms() < loop->drain_deadline_ms)
	{
		end_idle_clients(loop);
		return false;
	}
	loop->left_over = (int64_t) loop->flights.live;
	return true;
}

/* -- the thread ----------------------------------------------------------- */

static void
open_loop(Loop *loop)
{
	LoopGroup    *group = loop->group;
	const Config *config = loop->config;

	h2o_context_init(&loop->ctx, h2o_evloop_create(), &group->h2o);
	if (getrandom(&loop->id_prefix, sizeof(loop->id_prefix), 0) < 0 ||
		getrandom(&loop->id_counter, sizeof(loop->id_counter), 0) < 0)
		h2o_fatal("no random numbers");
	loop->wake = h2o_evloop_socket_create(loop->ctx.loop, loop->wake_fd,
										  H2O_SOCKET_FLAG_DONT_READ);
	loop->wake->data = loop;
	h2o_socket_read_start(loop->wake, on_wake);
	pool_init(&loop->pool, loop);
	budget_init(loop);
	open_door(&loop->door, loop, group->h2o.hosts[0],
			  config->max_connections / config->threads);
	open_door(&loop->ops, loop, group->h2o.hosts[1], OPS_CLIENTS_MAX);
}

/* The longest wait for events. */
static int
longest_wait_ms(const Loop *loop)
{
	if (loop->draining)
		return DRAIN_WAIT_MS;
	if (loop->door.resume_at_ms > 0 || loop->ops.resume_at_ms > 0)
		return STARVED_PAUSE_MS;
	return IDLE_WAIT_MS;
}

static void *
run_loop(void *data)
{
	Loop *loop = data;

	open_loop(loop);
	while (!is_drained(loop))
	{
		int max_ms = longest_wait_ms(loop);

		/* -1 is an interrupted wait, no failure */
		h2o_evloop_run(loop->ctx.loop, pool_wait_ms(&loop->pool, max_ms));
		pool_tick(&loop->pool);
		budget_keep(loop);
		resume_door(&loop->door);
		resume_door(&loop->ops);
	}
	pool_close(&loop->pool);
	atomic_fetch_add(&loop->group->finished, 1);
	sem_post(&loop->group->done);

	/* the thread-local caches of libh2o would be lost with the thread, and
	 * the process is about to end: sleep until it does */
	for (;;)
		pause();
	return NULL;
}

/* -- the group ------------------------------------------------------------ */

static h2o_pathconf_t *
add_host(LoopGroup *group, const char *name,
		 int (*handle)(h2o_handler_t *, h2o_req_t *))
{
	h2o_hostconf_t *host = h2o_config_register_host(
		&group->h2o, h2o_iovec_init(name, strlen(name)), 65535);
	h2o_pathconf_t *path = h2o_config_register_path(host, "/", 0);

	h2o_create_handler(path, sizeof(h2o_handler_t))->on_req = handle;
	reply_register_filter(&host->fallback_path);
	return path;
}

void
loop_group_init(LoopGroup *group, const Config *config, const int *fds,
				int ops_fd)
{
	h2o_pathconf_t *path;

	h2o_config_init(&group->h2o);
	group->h2o.server_name = h2o_iovec_init("", 0);
	group->h2o.max_request_entity_size = (size_t) config->max_body_bytes;
	group->h2o.http1.req_timeout = (uint64_t) config->request_timeout_ms;
	group->h2o.http1.upgrade_to_http2 = 0;
	path = add_host(group, "requests", request_handle);
	if (log_access_enabled())
	{
		access_register(path);
		access_register(&group->h2o.hosts[0]->fallback_path);
	}
	add_host(group, "ops", ops_handle);

	atomic_init(&group->draining, false);
	atomic_init(&group->renewals, 0);
	atomic_init(&group->finished, 0);
	if (sem_init(&group->done, 0, 0) != 0)
		h2o_fatal("no semaphore");
	group->count = (int) config->threads;
	group->loops = calloc((size_t) group->count, sizeof(group->loops[0]));
	if (group->loops == NULL)
		h2o_fatal("no memory");
	for (int i = 0; i < group->count; i++)
	{
		Loop *loop = &group->loops[i];

		loop->group = group;
		loop->config = config;
		loop->door.fd = fds[i];
		loop->ops.fd = i == 0 ? ops_fd : -1;
		loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (loop->wake_fd < 0)
			h2o_fatal("no descriptor for an eventfd");
	}
}

void
loop_group_start(LoopGroup *group)
{
	for (int i = 0; i < group->count; i++)
	{
		int error = pthread_create(&group->loops[i].thread, NULL, run_loop,
								   &group->loops[i]);

		if (error != 0)
		{
			fprintf(stderr, "mortar-gateway: cannot start thread %d: %s\n", i,
					strerror(error));
			exit(1);
		}
	}
}

static void
wake_all(LoopGroup *group)
{
	const uint64_t one = 1;

	for (int i = 0; i < group->count; i++)
		if (write(group->loops[i].wake_fd, &one, sizeof(one)) < 0)
			log_line(LOG_LEVEL_ERROR, "cannot wake thread %d: %s", i,
					 strerror(errno));
}

void
loop_group_renew(LoopGroup *group)
{
	atomic_fetch_add(&group->renewals, 1);
	wake_all(group);
}

int64_t
loop_group_drain(LoopGroup *group)
{
	int64_t left_over = 0;

	atomic_store(&group->draining, true);
	wake_all(group);
	for (int i = 0; i < group->count; i++)
		while (sem_wait(&group->done) != 0)
			;
	for (int i = 0; i < group->count; i++)
		left_over += group->loops[i].left_over;
	return left_over;
}
