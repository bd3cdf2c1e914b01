/*
 * reply.c
 *		Writes responses.
 *
 * The body is sent from where it is: in the PGresult for a row, in the
 * request's pool for a problem document.  Both live until the request is
 * disposed of, which is after the last byte has left.
 *
 * Content-Length is always set, because libh2o 2.2 closes the connection after
 * any answer but 200 that lacks it.  The exceptions are those that must not
 * have one: 204, 304, and a HEAD whose handler gave no body.
 *
 * An SQL error of class MT is the extension's own: its message and detail are
 * for the client.  Of any other error only status, code and a fixed sentence
 * leave; the rest goes to the log under the request id.
 *
 * What libh2o answers by itself becomes a problem document too, with one
 * exception: bytes that are no HTTP request at all get its bare 400, because
 * there is no request yet that a filter could see.
 */
#include "reply.h"

#include "contract.h"
#include "log.h"
#include "loop.h"
#include "problem.h"
#include "request.h"
#include "status.h"

static h2o_generator_t no_generator = {NULL, NULL};

static bool
is_head(const h2o_req_t *req)
{
	return h2o_memis(req->method.base, req->method.len, H2O_STRLIT("HEAD"));
}

static void
add_header(h2o_req_t *req, Slice name, Slice value)
{
	h2o_add_header_by_str(&req->pool, &req->res.headers, name.base, name.len, 1,
						  NULL, value.base, value.len);
}

/* Sends status and headers, which are set, and the body. */
static void
send_response(h2o_req_t *req, Slice body, bool has_body)
{
	h2o_iovec_t buffer = h2o_iovec_init(body.base, body.len);
	bool        bodiless = req->res.status == 204 || req->res.status == 304;

	if (loop_is_draining(loop_of_request(req)))
		req->http1_is_persistent = 0;
	if (!bodiless && (has_body || !is_head(req)))
		req->res.content_length = body.len;
	h2o_start_response(req, &no_generator);
	if (bodiless || body.len == 0 || is_head(req))
		h2o_send(req, NULL, 0, H2O_SEND_STATE_FINAL);
	else
		h2o_send(req, &buffer, 1, H2O_SEND_STATE_FINAL);
}

/* What the extension adds to its answers, for those that are not its own. */
static void
add_common_headers(h2o_req_t *req)
{
	add_header(req, SLICE_LITERAL("cache-control"),
			   SLICE_LITERAL(MORTAR_CACHE_CONTROL));
	add_header(req, SLICE_LITERAL("vary"), SLICE_LITERAL(MORTAR_VARY));
	if (h2o_find_header_by_str(&req->headers, H2O_STRLIT("origin"), -1) == -1)
		return;
	add_header(req, SLICE_LITERAL("access-control-allow-origin"),
			   SLICE_LITERAL(MORTAR_ALLOW_ORIGIN));
	add_header(req, SLICE_LITERAL("access-control-expose-headers"),
			   SLICE_LITERAL(MORTAR_EXPOSE_HEADERS));
}

/* Writes the document into the request's pool, and the headers it needs. */
static Slice
prepare_problem(h2o_req_t *req, const Problem *problem)
{
	char *text = h2o_mem_alloc_pool(&req->pool, problem_size_max(problem));
	ProblemFacts facts;
	Slice        body = {text, problem_write(problem, text, &facts)};

	req->res.status = problem->status;
	req->res.reason = status_reason(problem->status);
	add_header(req, SLICE_LITERAL("content-type"),
			   SLICE_LITERAL(PROBLEM_CONTENT_TYPE));
	add_common_headers(req);
	add_header(req, SLICE_LITERAL("x-request-id"), problem->request_id);
	if (facts.retry_after.len > 0)
		add_header(req, SLICE_LITERAL("retry-after"), facts.retry_after);
	else if (problem->status == 503)
		add_header(req, SLICE_LITERAL("retry-after"), SLICE_LITERAL("1"));
	if (facts.members_invalid)
		log_line(LOG_LEVEL_ERROR,
				 "request %.*s: the error's detail is no JSON object",
				 (int) problem->request_id.len, problem->request_id.base);
	return body;
}

void
reply_refusal(h2o_req_t *req, Slice request_id, const Refusal *refusal)
{
	Problem problem = {refusal->status, slice_of(refusal->code),
					   slice_of(refusal->detail), request_id, SLICE_NONE};
	Slice   body = prepare_problem(req, &problem);

	if (refusal->close)
		req->http1_is_persistent = 0;
	send_response(req, body, true);
}

void
reply_json(h2o_req_t *req, int status, Slice body)
{
	req->res.status = status;
	req->res.reason = status_reason(status);
	add_header(req, SLICE_LITERAL("content-type"),
			   SLICE_LITERAL("application/json"));
	add_header(req, SLICE_LITERAL("cache-control"), SLICE_LITERAL("no-store"));
	send_response(req, body, true);
}

/* -- flights -------------------------------------------------------------- */

/* Headers that are the gateway's to set, whatever a row says. */
static bool
is_own_header(Slice name)
{
	static const char *const names[] = {"content-length", "x-request-id",
										"connection", "transfer-encoding"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (slice_is_lower(name, slice_of(names[i])))
			return true;
	return false;
}

/*
 * Takes over the row's headers.  A name that is no token or a value with a
 * line feed would be a response of its own: that row is not sent.
 */
static bool
add_row_headers(h2o_req_t *req, ArrayReader *headers)
{
	Slice name;
	Slice value;

	while (headers->left > 0)
	{
		if (!bind_array_next(headers, &name) || headers->left == 0 ||
			!bind_array_next(headers, &value) || !text_is_token(name) ||
			!text_is_value(value))
			return false;
		if (!is_own_header(name))
			add_header(req, name, value);
	}
	return true;
}

static void
reply_internal_error(Flight *flight, const char *reason)
{
	static const Refusal internal = {500, "internal_error",
									 "An internal error occurred.", false};

	log_line(LOG_LEVEL_ERROR, "request %.*s: the row cannot be sent: %s",
			 (int) flight->call.request_id.len, flight->call.request_id.base,
			 reason);
	reply_refusal(flight->req, flight->call.request_id, &internal);
}

static void
reply_row(Flight *flight)
{
	h2o_req_t  *req = flight->req;
	CallAnswer  answer;
	const char *objection = call_decode(flight->result, &answer);

	if (objection == NULL && !add_row_headers(req, &answer.headers))
	{
		req->res.headers = (h2o_headers_t){NULL, 0, 0};
		objection = "a header is malformed";
	}
	if (objection != NULL)
	{
		reply_internal_error(flight, objection);
		return;
	}
	req->res.status = answer.status;
	req->res.reason = status_reason(answer.status);
	add_header(req, SLICE_LITERAL("x-request-id"), flight->call.request_id);
	send_response(req, answer.body, answer.has_body);
}

/* The sentence for an SQL error whose own words must not leave. */
static Slice
fixed_detail(int status)
{
	switch (status)
	{
		case 400:
			return SLICE_LITERAL("A value in the request is not valid.");
		case 403:
			return SLICE_LITERAL("This is not allowed.");
		case 404:
			return SLICE_LITERAL("There is no such thing.");
		case 409:
			return SLICE_LITERAL("This conflicts with what is stored.");
		case 422:
			return SLICE_LITERAL("A value in the body is not valid.");
		case 503:
			return SLICE_LITERAL("The service cannot do this now. Try again.");
		case 504:
			return SLICE_LITERAL("The call took too long and was undone.");
		case 500:
			return SLICE_LITERAL("An internal error occurred.");
		default:
			return slice_of(status_reason(status));
	}
}

static void
log_sql_error(const Flight *flight, const char *state, int status)
{
	const char *message =
		PQresultErrorField(flight->result, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail =
		PQresultErrorField(flight->result, PG_DIAG_MESSAGE_DETAIL);
	const char *context = PQresultErrorField(flight->result, PG_DIAG_CONTEXT);

	log_line(status >= 500 ? LOG_LEVEL_ERROR : LOG_LEVEL_WARNING,
			 "request %.*s: %d for SQLSTATE %s: %s; detail: %s; context: %s",
			 (int) flight->call.request_id.len, flight->call.request_id.base,
			 status, state == NULL ? "none" : state,
			 message == NULL ? PQresultErrorMessage(flight->result) : message,
			 detail == NULL ? "none" : detail,
			 context == NULL ? "none" : context);
}

static void
reply_error(Flight *flight)
{
	h2o_req_t    *req = flight->req;
	const char   *state = PQresultErrorField(flight->result, PG_DIAG_SQLSTATE);
	StatusMapping mapping = status_from_sqlstate(state, req->entity.len > 0);
	Problem       problem = {mapping.status, slice_of(mapping.code),
							 fixed_detail(mapping.status), flight->call.request_id,
							 SLICE_NONE};

	if (mapping.is_public)
	{
		Slice detail = slice_of(
			PQresultErrorField(flight->result, PG_DIAG_MESSAGE_PRIMARY));

		/* a function of the product may have changed the client encoding */
		if (detail.len > 0 && text_is_utf8(detail))
			problem.detail = detail;
		problem.members = slice_of(
			PQresultErrorField(flight->result, PG_DIAG_MESSAGE_DETAIL));
	}
	else
		log_sql_error(flight, state, mapping.status);
	send_response(req, prepare_problem(req, &problem), true);
}

void
reply_flight(Flight *flight)
{
	static const Refusal busy = {503, "unavailable",
								 "The service is busy. Try again.", false};
	static const Refusal lost = {503, "unavailable",
								 "The database connection was lost. It is not "
								 "known whether the call took effect.",
								 false};

	request_release_socket(flight->req);
	if (flight->result == NULL)
		reply_refusal(flight->req, flight->call.request_id,
					  flight->lost ? &lost : &busy);
	else if (PQresultStatus(flight->result) == PGRES_TUPLES_OK)
		reply_row(flight);
	else
		reply_error(flight);
}

/* -- libh2o's own errors -------------------------------------------------- */

/* An output stream that sends its own text instead of what it is given. */
typedef struct Replacement
{
	h2o_ostream_t super;
	h2o_iovec_t   body;
} Replacement;

static void
send_replacement(h2o_ostream_t *self, h2o_req_t *req, h2o_iovec_t *bufs,
				 size_t count, h2o_send_state_t state)
{
	Replacement *replacement = (Replacement *) self;

	h2o_ostream_send_next(self, req, &replacement->body, is_head(req) ? 0 : 1,
						  state);
}

/* libh2o answers before any handler of ours: 400, 413 or 417. */
static void
on_own_error(h2o_filter_t *self, h2o_req_t *req, h2o_ostream_t **slot)
{
	char   *id = h2o_mem_alloc_pool(&req->pool, LOOP_ID_BYTES);
	bool    too_large = req->res.status == 413;
	Problem problem = {
		too_large ? 413 : 400,
		slice_of(too_large ? "content_too_large" : "bad_request"),
		slice_of(too_large ? "The body is too large."
						   : "The body cannot be read."),
		request_choose_id(req, id), SLICE_NONE};
	Replacement *replacement;
	Slice        body;

	memset(&req->res.headers, 0, sizeof(req->res.headers));
	body = prepare_problem(req, &problem);
	req->res.content_length = body.len;
	replacement =
		(Replacement *) h2o_add_ostream(req, sizeof(*replacement), slot);
	replacement->super.do_send = send_replacement;
	replacement->body = h2o_iovec_init(body.base, body.len);
	h2o_setup_next_ostream(req, &replacement->super.next);
}

void
reply_register_filter(h2o_pathconf_t *path)
{
	h2o_filter_t *filter = h2o_create_filter(path, sizeof(*filter));

	filter->on_setup_ostream = on_own_error;
}
