/*
 * http.c
 *		mortar.http: one HTTP call from its raw parts to its answer.
 *
 * The steps, in this order and no other:
 *
 *	 1 route		a C array; what is wrong with the path is told after step 3
 *	 2 authenticate	shared memory when warm
 *	 3 match		the key's tenant is the path's, it is neither suspended nor
 *					closed, and the key has the scope
 *	 4 admit		the credit gate, and a claim on all that step 7 needs
 *	 5 enter		tenant context and role
 *	 6 handle		the route's handler, under row-level security
 *	 7 charge		the actual cost; it becomes final when the call commits
 *
 * Steps 1 to 4 change nothing, but release holds and reservations that have expired, so
 * a refusal there is a row.  From step 6 on an error is raised, and aborting the transaction
 * takes back what was done and charged; that is also why there is no subtransaction
 * and no cleanup here.
 *
 * Ownership: everything lives in the memory context of the call.  The slices of
 * a request point into the function's arguments.  Locks: none here; gate.c and
 * auth.c take spinlocks of their own and hold none while returning.
 */
#include "mortar.h"

#include "access/xlog.h"
#include "commands/trigger.h"
#include "mb/pg_wchar.h"
#include "nodes/parsenodes.h"
#include "port/pg_bitutils.h"
#include "portability/instr_time.h"
#include "utils/builtins.h"

#include "answer.h"
#include "guc.h"
#include "http.h"
#include "life.h"
#include "problem.h"
#include "release.h"
#include "request.h"
#include "slot.h"
#include "sync.h"
#include "tenant.h"
#include "write.h"

#define PARAM_NUMBER(number, name, type, oid) PARAM_##number,
enum
{
	MORTAR_HTTP_PARAMS(PARAM_NUMBER) PARAMS
};

typedef struct Call
{
	MtrRequest       req;
	MtrResponse      res;
	struct mtr_slice tenant; /* as in the path, not verified */
	struct mtr_slice path;
	MtrHead          head;
	MtrUsageRef      usage[MTR_METERS];
	int              nusage; /* 0: this call moves no meter */
	instr_time       start;
} Call;

PG_FUNCTION_INFO_V1(mtr_http);

/* bytes of a text or bytea argument; p NULL when it is null */
static struct mtr_slice
slice_arg(FunctionCallInfo fcinfo, int argno)
{
	struct mtr_slice s = {NULL, 0};
	struct varlena  *v;

	if (PG_ARGISNULL(argno))
		return s;
	v = PG_DETOAST_DATUM_PACKED(PG_GETARG_DATUM(argno));
	s.p = VARDATA_ANY(v);
	s.len = VARSIZE_ANY_EXHDR(v);
	return s;
}

static void
read_call(FunctionCallInfo fcinfo, Call *call)
{
	MtrRequest *req = &call->req;

	memset(req, 0, sizeof(*req));
	call->nusage = 0;
	call->tenant = slice_arg(fcinfo, PARAM_TENANT);
	call->path = slice_arg(fcinfo, PARAM_PATH);
	req->method = slice_arg(fcinfo, PARAM_METHOD);
	req->query = slice_arg(fcinfo, PARAM_QUERY);
	req->body = slice_arg(fcinfo, PARAM_BODY);
	req->has_headers = !PG_ARGISNULL(PARAM_HEADERS);
	if (req->has_headers)
		req->headers = PG_GETARG_DATUM(PARAM_HEADERS);
	if (!PG_ARGISNULL(PARAM_REQUEST_ID))
		req->request_id = text_to_cstring(PG_GETARG_TEXT_PP(PARAM_REQUEST_ID));
	req->head = req->method.len == 4 && memcmp(req->method.p, "HEAD", 4) == 0;
	mtr_request_head(req, &call->head);
}

/* ends steps 1 to 4 with a problem document; false, for the caller to return */
static bool
refuse(Call *call, int status, const char *code, const char *detail)
{
	mtr_problem(&call->res, &call->req, status, code, detail);
	return false;
}

/*
 * OPTIONS, also as a browser's preflight, which carries no credentials.  What
 * it tells is the same for everybody.
 */
static void
answer_options(Call *call, const char *allow)
{
	MtrResponse *res = &call->res;

	res->status = 204;
	mtr_header(res, "allow", allow);
	if (call->head.origin.p == NULL)
		return;
	mtr_header(res, "access-control-allow-methods", allow);
	mtr_header(res, "access-control-allow-headers",
			   "Authorization, apikey, Content-Type, Prefer, X-Request-Id, "
			   "X-Client-Info, traceparent");
	mtr_header(res, "access-control-max-age", "86400");
}

/* step 2 */
static bool
authenticate(Call *call)
{
	struct mtr_slice token;

	switch (mtr_request_credential(&call->head, &token))
	{
		case MTR_CREDENTIAL_ONE:
			break;
		case MTR_CREDENTIAL_NONE:
			return refuse(call, 401, "missing_credential",
						  "Send an API key, as Authorization: Bearer or as "
						  "apikey.");
		case MTR_CREDENTIAL_UNCLEAR:
			return refuse(call, 401, "invalid_credential",
						  "Send one API key, as Authorization: Bearer or as "
						  "apikey.");
	}
	switch (mtr_authenticate(token.p, token.len, &call->req.who))
	{
		case MTR_AUTH_OK:
			return true;
		case MTR_AUTH_INVALID:
			break;
		case MTR_AUTH_EXPIRED:
			return refuse(call, 401, "expired_credential",
						  "The API key has expired.");
		case MTR_AUTH_EARLY:
			return refuse(call, 401, "early_credential",
						  "The API key is not valid yet.");
		case MTR_AUTH_NO_PEPPER:
			return refuse(call, 503, "unavailable",
						  "API keys cannot be checked at the moment.");
	}
	return refuse(call, 401, "invalid_credential", "The API key is not valid.");
}

/*
 * Step 3, first part.	The answer does not depend on whether the path's tenant
 * exists or could exist.
 */
static bool
match_tenant(Call *call)
{
	const char *own = call->req.who.tenant_id;

	if (call->tenant.len != strlen(own) || call->tenant.p == NULL ||
		memcmp(call->tenant.p, own, call->tenant.len) != 0)
		return refuse(call, 403, "tenant_mismatch",
					  "The API key belongs to another tenant.");
	call->req.tenant = own;
	return true;
}

/*
 * Step 3, second part.	 Pins the tenant's slot, which all further steps use; the
 * state in it is that of the latest commit.
 */
static bool
match_life(Call *call)
{
	const char *code;
	const char *detail;

	if (mtr_tenant_try_pin(call->req.tenant, &call->req.slot) != MTR_PIN_OK)
		return refuse(call, 503, "unavailable",
					  "The tenant cannot be served at the moment.");
	if (mtr_life_refusal(mtr_life(call->req.slot), &code, &detail))
		return refuse(call, 403, code, detail);
	return true;
}

/* what step 1 found wrong with the request line */
static bool
refuse_route(Call *call, int status, const char *allow)
{
	if (status == 404)
		return refuse(call, 404, "not_found", "There is no such path.");
	if (status == 400)
		return refuse(call, 400, "invalid_encoding",
					  "A path segment must be percent-encoded UTF-8 text "
					  "without \"/\" and NUL, and neither \".\" nor \"..\".");
	refuse(call, 405, "method_not_allowed",
		   "The path does not answer this method.");
	mtr_header(&call->res, "allow", allow);
	return false;
}

/* step 3, third part */
static bool
match_scope(Call *call)
{
	uint32 scope = call->req.route->scope;

	if ((call->req.who.scopes & scope) == scope)
		return true;
	return refuse(call, 403, "insufficient_scope",
				  psprintf("The API key lacks the scope \"%s\".",
						   mtr_scope_name(pg_rightmost_one_pos32(scope))));
}

/* claims a usage slot per meter, so that the end of the call cannot fail */
static bool
claim_usage(Call *call)
{
	static const MtrMeter meters[] = {MTR_METER_REQUESTS,
									  MTR_METER_EGRESS_BYTES};
	const MtrRoute       *route = call->req.route;

	if (mtr_egress_mode == MTR_EGRESS_OFF)
		return true;
	for (size_t i = 0; i < lengthof(meters); i++)
		if (!mtr_usage_claim(call->req.slot, meters[i], route->id,
							 &call->req.who.key_id, route->gated,
							 &call->usage[i]))
			return false;
	call->nusage = lengthof(meters);
	return true;
}

/* holds that have expired make room; nothing else is changed before step 6 */
static bool
has_credits(Call *call, uint32 meters)
{
	MtrShortfall s;

	while (!mtr_gate_admit(call->req.slot, call->req.route->id, meters, &s))
		if (!mtr_release_expired(call->req.slot, &s))
		{
			mtr_problem_short(&call->res, &call->req, &s);
			return false;
		}
	return true;
}

/* step 4 */
static bool
admit(Call *call)
{
	const uint32 meters =
		1u << MTR_METER_REQUESTS | 1u << MTR_METER_EGRESS_BYTES;

	if (call->req.body.len > MORTAR_MAX_BODY)
		return refuse(
			call, 413, "content_too_large",
			psprintf("A body may have at most %d bytes.", MORTAR_MAX_BODY));
	if (call->req.route->gated && mtr_is_frozen(call->req.slot) &&
		mtr_meters_cost(call->req.slot, call->req.route->id, meters))
		return refuse(call, 423, "frozen", "The tenant is frozen.");
	if (call->req.route->gated && !has_credits(call, meters))
		return false;
	if (!claim_usage(call))
		return refuse(call, 503, "unavailable",
					  "Usage cannot be counted at the moment.");
	return true;
}

/* steps 1 to 4; false when res holds the answer already */
static bool
may_handle(Call *call)
{
	const char *allow = NULL;
	int         wrong = mtr_route_find(call->path, &call->req, &allow);

	if (wrong == 0 && call->req.route == NULL)
	{
		answer_options(call, allow);
		return false;
	}
	/* a standby has neither slots nor keys in memory */
	if (RecoveryInProgress())
		return refuse(call, 503, "unavailable", "The server is a standby.");
	if (!authenticate(call) || !match_tenant(call) || !match_life(call))
		return false;
	if (wrong != 0)
		return refuse_route(call, wrong, allow);
	return match_scope(call) && admit(call);
}

/*
 * SET CONSTRAINTS ALL IMMEDIATE.  Deferred triggers and constraints of the
 * product's tables must run while the tenant's role and context are in force,
 * not at COMMIT, as whoever the session is.
 */
static void
fire_deferred_triggers(void)
{
	ConstraintsSetStmt *stmt = makeNode(ConstraintsSetStmt);

	stmt->constraints = NIL;
	stmt->deferred = false;
	AfterTriggerSetState(stmt);
}

/* steps 5 and 6 */
static void
handle(Call *call)
{
	MtrRequest *req = &call->req;
	MtrUserSave save;

	mtr_context_set(req->tenant, &req->who.key_id);
	mtr_become(MTR_ROLE_TENANT, &save);
	req->route->handler(req, &call->res);
	if (req->route->writes)
		fire_deferred_triggers();
	mtr_unbecome(&save);
}

/* the stronger of the tenant's and the server's */
static MtrDurability
durability_of(const Call *call)
{
	MtrDurability own = mtr_durability(call->req.slot);
	MtrDurability all = mtr_egress_mode == MTR_EGRESS_SYNC ? MTR_DURABLE_SYNC
						: mtr_egress_mode == MTR_EGRESS_GROUP
							? MTR_DURABLE_GROUP
							: MTR_DURABLE_BUFFERED;

	return Max(own, all);
}

/* step 7; meters in the order of claim_usage */
static void
charge_usage(Call *call)
{
	int64 quantity[MTR_METERS];

	if (call->nusage == 0)
		return;
	quantity[0] = 1;
	quantity[1] = call->req.head ? 0 : mtr_body_len(&call->res);
	mtr_usage_charge_all(call->usage, quantity, call->nusage,
						 durability_of(call));
}

/* Server-Timing: "mortar;dur=0.123", milliseconds inside the server */
static const char *
timing(const Call *call)
{
	static const char start[] = "mortar;dur=";
	instr_time        now;
	uint64            us;
	char             *value = palloc(sizeof(start) + MTR_INT_CHARS + 4);
	char             *p = value + sizeof(start) - 1;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, call->start);
	us = INSTR_TIME_GET_MICROSEC(now);
	memcpy(value, start, sizeof(start) - 1);
	p = mtr_format_int(p, (int64) (us / 1000));
	*p++ = '.';
	p = pg_ultostr_zeropad(p, (uint32) (us % 1000), 3);
	*p = '\0';
	return value;
}

/* headers of an answer that a handler made */
static void
handled_headers(Call *call)
{
	MtrResponse *res = &call->res;
	char        *credits = palloc(MTR_CREDITS_CHARS);
	char        *end;

	if (mtr_body_len(res) > 0)
		mtr_header(res, "content-type", "application/json");
	end = mtr_format_credits(credits, mtr_available(call->req.slot));
	*end = '\0';
	mtr_header(res, "x-mortar-credits-remaining", credits);
	mtr_header(res, "server-timing", timing(call));
}

/* bodies are bytes, so no conversion stands between a client and its data */
static void
require_utf8(void)
{
	if (GetDatabaseEncoding() != PG_UTF8)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("mortar.http needs a database with encoding UTF8"),
				 errdetail("This database has encoding %s.",
						   GetDatabaseEncodingName())));
}

/*
 * mortar.http(tenant text, method text, path bytea, query bytea,
 *		headers text[], body bytea, peer inet, request_id text)
 *	returns (status int2, headers text[], body bytea, next bytea)
 *
 * Not strict: every argument may be null, see contract.h.
 */
Datum
mtr_http(PG_FUNCTION_ARGS)
{
	Call call;

	INSTR_TIME_SET_CURRENT(call.start);
	mtr_require_preload();
	require_utf8();
	read_call(fcinfo, &call);
	mtr_response_init(&call.res);
	if (may_handle(&call))
	{
		handle(&call);
		charge_usage(&call);
		handled_headers(&call);
	}
	mtr_common_headers(&call.res, call.head.origin.p != NULL);
	return mtr_answer_row(&call.res, call.req.head);
}
