/*
 * budget.c
 *		Ends uploads when all bodies together take too much memory.
 *
 * libh2o collects the whole body before it asks us anything, so a limit for each
 * body bounds nothing: whoever opens many connections, without any key, could
 * take all memory.  Every so often the loop adds up what its connections hold.
 * Beyond the limit the largest bodies that are still arriving lose their
 * connections, and if that is not enough, new requests with large bodies are
 * refused until some of those under way are done.
 *
 * The 503 is written past libh2o, which has sent nothing on this connection for
 * a request that is not complete.  It is a courtesy: a client that goes on
 * writing may see a reset in its place.
 *
 * A budget belongs to its loop's thread.
 */
#include "budget.h"

#include <stdio.h>
#include <sys/socket.h>

#include "log.h"
#include "loop.h"

#define LOOK_MS 50
#define LOG_MS 10000

static const char problem[] =
	"{\"type\":\"urn:mortar:problem:unavailable\",\"title\":\"Service "
	"Unavailable\",\"status\":503,\"detail\":\"Too many large bodies are on "
	"their way. Try again.\",\"code\":\"unavailable\"}\n";

/* What a look at all requests finds. */
typedef struct Look
{
	Loop   *loop;
	int64_t total;   /* bytes in all input buffers */
	int64_t largest; /* of a body that is still arriving */
} Look;

void
budget_init(Loop *loop)
{
	const Config *config = loop->config;
	int64_t       least = 2 * config->max_body_bytes;

	loop->budget =
		(Budget){.limit = config->body_memory_bytes / config->threads};
	if (loop->budget.limit < least)
		loop->budget.limit = least;
}

static int64_t
size_of(const h2o_req_t *req)
{
	return (int64_t) req->conn->callbacks->get_socket(req->conn)->input->size;
}

/* True while libh2o collects the request: it looks for the configuration that
 * belongs to the path when the body is complete. */
static bool
is_arriving(const Loop *loop, const h2o_req_t *req)
{
	return req->pathconf == NULL && req->conn->hosts == loop->door.hosts;
}

static int
look_at(h2o_req_t *req, void *data)
{
	Look *look = data;

	look->total += size_of(req);
	if (is_arriving(look->loop, req) && size_of(req) > look->largest)
		look->largest = size_of(req);
	return 0;
}

/* libh2o sees the end of the stream in its next turn. */
static void
end_upload(const h2o_req_t *req)
{
	int  fd = h2o_socket_get_fd(req->conn->callbacks->get_socket(req->conn));
	char text[512];
	int  len = snprintf(text, sizeof(text),
						"HTTP/1.1 503 Service Unavailable\r\n"
						 "connection: close\r\n"
						 "content-type: application/problem+json\r\n"
						 "retry-after: 1\r\n"
						 "content-length: %zu\r\n\r\n%s",
						sizeof(problem) - 1, problem);

	/* when this does not fit, nothing else is lost by it */
	(void) !send(fd, text, (size_t) len, MSG_DONTWAIT | MSG_NOSIGNAL);
	shutdown(fd, SHUT_RDWR);
}

static int
end_if_large(h2o_req_t *req, void *data)
{
	Look   *look = data;
	Budget *budget = &look->loop->budget;

	if (look->total > budget->limit && is_arriving(look->loop, req) &&
		size_of(req) > look->largest / 2)
	{
		end_upload(req);
		look->total -= size_of(req);
		budget->ended++;
	}
	return 0;
}

static void
report(Budget *budget)
{
	int64_t now_ms = loop_now_ms();

	if (budget->ended == 0 || now_ms < budget->log_at_ms)
		return;
	log_line(LOG_LEVEL_WARNING,
			 "request bodies took more memory than a thread's part of "
			 "--body-memory, %lld bytes: %lld uploads were ended",
			 (long long) budget->limit, (long long) budget->ended);
	budget->ended = 0;
	budget->log_at_ms = now_ms + LOG_MS;
}

void
budget_keep(Loop *loop)
{
	Budget                   *budget = &loop->budget;
	h2o_protocol_callbacks_t *http1 = &loop->group->h2o.http1.callbacks;
	Look                      look = {loop, 0, 0};

	/* as few as these cannot take more */
	if (!budget->is_spent &&
		loop->door.clients * loop->config->max_body_bytes <= budget->limit)
		return;
	if (loop_now_ms() < budget->look_at_ms)
		return;
	budget->look_at_ms = loop_now_ms() + LOOK_MS;
	http1->foreach_request(&loop->ctx, look_at, &look);
	if (look.total > budget->limit && look.largest > 0)
		http1->foreach_request(&loop->ctx, end_if_large, &look);
	budget->is_spent = look.total > budget->limit;
	report(budget);
}
