/*
 * request.c
 *		From a parsed request to a call, or to a refusal.
 *
 * The order of checks: framing (a request that could be two requests is
 * answered first, and its connection closed), sizes, the route's first
 * segments, then the bytes that would reach PostgreSQL as text.  What the path
 * means below /v1/{tenant} is the extension's business.
 *
 * While a call is under way libh2o does not read from the client, and for that
 * it takes the socket out of epoll and puts it back after the answer: two
 * system calls for each request.  So the socket is kept in epoll, with reading
 * switched off.  If the client does send something meanwhile, the socket goes
 * back to libh2o's way, since epoll would report it again and again.
 *
 * All slices point into the request's memory, which libh2o keeps until the
 * response is complete; nothing here outlives the flight.
 */
#include "request.h"

#include "access.h"
#include "flight.h"
#include "head.h"
#include "loop.h"
#include "pool.h"
#include "reply.h"

/* A body that counts when memory is short. */
#define LARGE_BODY_BYTES 65536

static const Refusal bad_head = {431, "head_too_large",
								 "The request head is too large.", true};
static const Refusal bad_uri = {414, "uri_too_long",
								"The request target is too long.", true};
static const Refusal bad_method = {400, "bad_request",
								   "The method is not a token.", true};
static const Refusal bad_encoding = {
	400, "invalid_encoding",
	"A header value is not UTF-8, or has a control character.", false};
static const Refusal bad_tenant = {400, "invalid_encoding",
								   "The tenant in the path cannot be decoded.",
								   false};
static const Refusal no_memory = {503, "unavailable",
								  "Too many large bodies are under way. Try "
								  "again.",
								  true};
static const Refusal not_found = {
	404, "not_found", "There is nothing outside /v1/{tenant}.", false};

Slice
request_choose_id(const h2o_req_t *req, char buffer[LOOP_ID_BYTES])
{
	ssize_t at =
		h2o_find_header_by_str(&req->headers, H2O_STRLIT("x-request-id"), -1);

	if (at != -1)
	{
		h2o_iovec_t value = req->headers.entries[at].value;
		Slice       id = slice_trim((Slice){value.base, value.len});

		if (text_is_request_id(id))
			return id;
	}
	loop_new_id(loop_of_request(req), buffer);
	return (Slice){buffer, LOOP_ID_BYTES};
}

/* Looks at the raw head, which still lies at the start of the input buffer. */
static bool
is_framing_sound(h2o_req_t *req, HeadInfo *info)
{
	h2o_socket_t *socket = req->conn->callbacks->get_socket(req->conn);

	return head_check((Slice){socket->input->bytes, socket->input->size}, info);
}

static bool
are_values_sound(const h2o_headers_t *headers)
{
	for (size_t i = 0; i < headers->size; i++)
	{
		h2o_iovec_t value = headers->entries[i].value;

		if (!text_is_value(slice_trim((Slice){value.base, value.len})))
			return false;
	}
	return true;
}

/* Everything but the framing.  Returns the refusal, or NULL. */
static const Refusal *
check(const Loop *loop, h2o_req_t *req, const HeadInfo *info, Target *target)
{
	const Config *config = loop->config;
	Slice         raw = {req->path.base, req->path.len};
	char         *buffer;

	if (loop->budget.is_spent && req->entity.len > LARGE_BODY_BYTES)
		return &no_memory;
	if (raw.len > (size_t) config->max_uri_bytes)
		return &bad_uri;
	if (info->length > (size_t) config->max_head_bytes)
		return &bad_head;
	if (!text_is_token((Slice){req->method.base, req->method.len}))
		return &bad_method;
	buffer = h2o_mem_alloc_pool(&req->pool, raw.len);
	switch (target_split(raw, buffer, target))
	{
		case TARGET_OUTSIDE:
			return &not_found;
		case TARGET_ENCODING:
			return &bad_tenant;
		case TARGET_OK:
			break;
	}
	return are_values_sound(&req->headers) ? NULL : &bad_encoding;
}

static const struct sockaddr *
find_peer(h2o_req_t *req, Flight *flight)
{
	struct sockaddr *peer = (struct sockaddr *) &flight->peer;

	return req->conn->callbacks->get_peername(req->conn, peer) > 0 ? peer
																   : NULL;
}

static void
on_client_impatient(h2o_socket_t *socket, const char *error)
{
	h2o_socket_read_stop(socket);
	h2o_socket_dont_read(socket, 0);
}

static void
keep_socket_polled(h2o_req_t *req)
{
	h2o_socket_t *socket = req->conn->callbacks->get_socket(req->conn);

	h2o_socket_dont_read(socket, 1);
	h2o_socket_read_start(socket, on_client_impatient);
}

void
request_release_socket(h2o_req_t *req)
{
	on_client_impatient(req->conn->callbacks->get_socket(req->conn), NULL);
}

int
request_handle(h2o_handler_t *self, h2o_req_t *req)
{
	Loop          *loop = loop_of_request(req);
	Flight        *flight = flight_open(loop, req);
	CallRequest   *call = &flight->call;
	HeadInfo       info;
	const Refusal *refusal;

	access_begin(req);
	call->req = req;
	call->request_id = request_choose_id(req, flight->request_id);
	if (!is_framing_sound(req, &info))
	{
		Refusal framing = {400, "bad_request", info.why, true};

		reply_refusal(req, call->request_id, &framing);
		return 0;
	}
	/* libh2o's chunk parser is lenient: nothing may follow such a body */
	if (info.chunked)
		req->http1_is_persistent = 0;
	refusal = check(loop, req, &info, &call->target);
	if (refusal != NULL)
	{
		reply_refusal(req, call->request_id, refusal);
		return 0;
	}
	call->peer = find_peer(req, flight);
	keep_socket_polled(req);
	pool_submit(&loop->pool, flight);
	return 0;
}
