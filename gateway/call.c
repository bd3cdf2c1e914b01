/*
 * call.c
 *		mortar.http(): parameters from a request, an answer from a row.
 *
 * Parameters are binary, so they point straight into the request: nothing is
 * copied but the headers, which become one text[] in the thread's scratch
 * buffer.  The answer points straight into the PGresult.
 *
 * The order of parameters and columns comes from the contract, by the enums
 * below; a column that is not what the contract says is reported, not guessed.
 */
#include "call.h"

#include "contract.h"

#define PARAM_ENUM(name, sql, type, oid) PARAM_##name,
#define PARAM_OID(name, sql, type, oid) oid,
#define COLUMN_ENUM(name, sql, type, oid) COLUMN_##name,
#define COLUMN_OID(name, sql, type, oid) oid,

enum
{
	MORTAR_HTTP_PARAMS(PARAM_ENUM) PARAM_TOTAL
};

enum
{
	MORTAR_HTTP_COLUMNS(COLUMN_ENUM) COLUMN_TOTAL
};

_Static_assert(PARAM_TOTAL <= CALL_PARAMS_MAX, "CALL_PARAMS_MAX is too small");

static const Oid column_types[] = {MORTAR_HTTP_COLUMNS(COLUMN_OID)};

const char call_statement[] = MORTAR_HTTP_SQL;
const int  call_param_count = PARAM_TOTAL;
const Oid  call_param_types[] = {MORTAR_HTTP_PARAMS(PARAM_OID)};

/*
 * Headers that speak about this connection and not about the request.  libh2o
 * has taken Host, Content-Length, Transfer-Encoding, Expect and Upgrade away
 * already; X-Request-Id is a parameter of its own.
 */
static bool
is_passed(const h2o_header_t *header)
{
	Slice name = {header->name->base, header->name->len};

	if (h2o_iovec_is_token(header->name))
		return header->name != &H2O_TOKEN_CONNECTION->buf &&
			   header->name != &H2O_TOKEN_KEEP_ALIVE->buf &&
			   header->name != &H2O_TOKEN_TE->buf &&
			   header->name != &H2O_TOKEN_HTTP2_SETTINGS->buf;
	return !slice_equal(name, SLICE_LITERAL("x-request-id")) &&
		   !slice_equal(name, SLICE_LITERAL("proxy-connection")) &&
		   !slice_equal(name, SLICE_LITERAL("trailer"));
}

static void
set_param(CallParams *params, int at, Slice value)
{
	/* NULL is SQL NULL, but an empty slice is an empty string */
	params->values[at] = value.base == NULL ? "" : value.base;
	params->lengths[at] = (int) value.len;
}

static void
reserve_scratch(CallParams *params, size_t size)
{
	if (size <= params->scratch_size)
		return;
	params->scratch = h2o_mem_realloc(params->scratch, 2 * size);
	params->scratch_size = 2 * size;
}

static Slice
bind_headers(CallParams *params, const h2o_headers_t *headers)
{
	ArrayWriter writer;
	size_t      total = 0;

	for (size_t i = 0; i < headers->size; i++)
		total += headers->entries[i].name->len + headers->entries[i].value.len;
	reserve_scratch(params, BIND_ARRAY_SIZE(2 * headers->size, total));

	bind_array_begin(&writer, params->scratch, params->scratch_size);
	for (size_t i = 0; i < headers->size; i++)
	{
		const h2o_header_t *header = &headers->entries[i];

		if (!is_passed(header))
			continue;
		bind_array_add(&writer, (Slice){header->name->base, header->name->len});
		bind_array_add(&writer, slice_trim((Slice){header->value.base,
												   header->value.len}));
	}
	return bind_array_end(&writer);
}

void
call_bind(CallParams *params, const CallRequest *request)
{
	const h2o_req_t *req = request->req;

	for (int i = 0; i < PARAM_TOTAL; i++)
	{
		params->values[i] = NULL;
		params->lengths[i] = 0;
		params->formats[i] = 1;
	}
	set_param(params, PARAM_TENANT, request->target.tenant);
	set_param(params, PARAM_METHOD, (Slice){req->method.base, req->method.len});
	set_param(params, PARAM_PATH, request->target.path);
	if (request->target.has_query)
		set_param(params, PARAM_QUERY, request->target.query);
	set_param(params, PARAM_HEADERS, bind_headers(params, &req->headers));
	if (req->entity.len > 0)
		set_param(params, PARAM_BODY,
				  (Slice){req->entity.base, req->entity.len});
	if (request->peer != NULL)
	{
		size_t len = bind_inet(params->inet, request->peer);

		if (len > 0)
			set_param(params, PARAM_PEER, (Slice){params->inet, len});
	}
	set_param(params, PARAM_REQUEST_ID, request->request_id);
}

static Slice
column(const PGresult *result, int at)
{
	return (Slice){PQgetvalue(result, 0, at),
				   (size_t) PQgetlength(result, 0, at)};
}

const char *
call_decode(const PGresult *result, CallAnswer *answer)
{
	if (PQntuples(result) != 1 || PQnfields(result) != COLUMN_TOTAL)
		return "the result is not one row of the contract's columns";
	for (int i = 0; i < COLUMN_TOTAL; i++)
		if (PQfformat(result, i) != 1 || PQftype(result, i) != column_types[i])
			return "a column has another type than the contract says";
	if (!PQgetisnull(result, 0, COLUMN_NEXT))
		return "there is a further window, which this gateway cannot fetch";
	if (PQgetisnull(result, 0, COLUMN_STATUS) ||
		PQgetlength(result, 0, COLUMN_STATUS) != 2)
		return "there is no status";
	answer->status = bind_get_int16(PQgetvalue(result, 0, COLUMN_STATUS));
	if (answer->status < 200 || answer->status > 599)
		return "the status is not from 200 to 599";

	answer->headers = (ArrayReader){NULL, NULL, 0};
	if (!PQgetisnull(result, 0, COLUMN_HEADERS) &&
		!bind_array_open(&answer->headers, column(result, COLUMN_HEADERS)))
		return "the headers are not a text array";
	if (answer->headers.left % 2 != 0)
		return "the headers are not pairs";

	answer->has_body = !PQgetisnull(result, 0, COLUMN_BODY);
	answer->body = answer->has_body ? column(result, COLUMN_BODY) : SLICE_NONE;
	return NULL;
}
