/*
 * problem.c
 *		What is wrong with a call, as a result row or as an error (see
 *		problem.h).
 *
 * The members of the document are the same on both ways; on the second the
 * gateway writes it, from the SQLSTATE, the message and the members in DETAIL.
 * "message" repeats "detail", and "details" and "hint" are null, because
 * clients of PostgREST look for those names.
 *
 * Nothing is shared; all memory is the call's.
 */
#include "mortar.h"

#include "problem.h"
#include "answer.h"
#include "write.h"

static const char *
status_title(int status)
{
	switch (status)
	{
#define TITLE_CASE(number, title)                                              \
	case number:                                                               \
		return title;
		MORTAR_STATUS_TITLES(TITLE_CASE)
#undef TITLE_CASE
	}
	elog(ERROR, "no title for status %d", status);
	return NULL; /* keeps the compiler quiet */
}

static void
put_problem(StringInfo b, const MtrRequest *req, int status, const char *code,
			const char *detail, const MtrShortfall *s)
{
	mtr_put(b, "{\"type\":\"" MORTAR_PROBLEM_TYPE);
	appendStringInfoString(b, code);
	mtr_put(b, "\",\"title\":");
	mtr_put_cstring(b, status_title(status));
	mtr_put(b, ",\"status\":");
	mtr_put_int(b, status);
	mtr_put(b, ",\"detail\":");
	mtr_put_cstring(b, detail);
	mtr_put(b, ",\"code\":");
	mtr_put_cstring(b, code);
	mtr_put(b, ",\"request_id\":");
	if (req->request_id != NULL)
		mtr_put_cstring(b, req->request_id);
	else
		mtr_put(b, "null");
	mtr_put(b, ",\"errors\":[],\"message\":");
	mtr_put_cstring(b, detail);
	mtr_put(b, ",\"details\":null,\"hint\":null");
	if (s != NULL)
	{
		mtr_put(b, ",\"required_uc\":");
		mtr_put_int(b, s->required_uc);
		mtr_put(b, ",\"available_uc\":");
		mtr_put_int(b, s->available_uc);
	}
	mtr_put(b, "}");
}

static void
make_problem(MtrResponse *res, const MtrRequest *req, int status,
			 const char *code, const char *detail, const MtrShortfall *s)
{
	mtr_response_reset(res);
	res->status = status;
	put_problem(&res->body, req, status, code, detail, s);
	mtr_header(res, "content-type", "application/problem+json");
	if (status == 401)
		mtr_header(res, "www-authenticate", "Bearer");
	if (status == 503)
		mtr_header(res, "retry-after", "1");
}

void
mtr_problem(MtrResponse *res, const MtrRequest *req, int status,
			const char *code, const char *detail)
{
	make_problem(res, req, status, code, detail, NULL);
}

void
mtr_problem_short(MtrResponse *res, const MtrRequest *req,
				  const MtrShortfall *s)
{
	make_problem(res, req, 402, "insufficient_credit",
				 "The tenant has no credits left.", s);
}

static void raise_mt(int sqlstate, const char *detail, const char *members)
	pg_attribute_noreturn();

static void
raise_mt(int sqlstate, const char *detail, const char *members)
{
	ereport(ERROR, (errcode(sqlstate), errmsg_internal("%s", detail),
					members != NULL ? errdetail_internal("%s", members) : 0));
}

void
mtr_raise(int sqlstate, const char *code, const char *detail)
{
	StringInfoData b;

	initStringInfo(&b);
	if (code != NULL)
		appendStringInfo(&b, "{\"code\":\"%s\"}", code);
	raise_mt(sqlstate, detail, code != NULL ? b.data : NULL);
}

static void
raise_with_error(int sqlstate, const char *code, const char *detail,
				 const char *kind, const char *where, size_t where_len,
				 const char *what) pg_attribute_noreturn();

/* one entry of errors[]; kind is "pointer" or "parameter" */
static void
raise_with_error(int sqlstate, const char *code, const char *detail,
				 const char *kind, const char *where, size_t where_len,
				 const char *what)
{
	StringInfoData b;

	initStringInfo(&b);
	appendStringInfo(&b, "{\"code\":\"%s\",\"errors\":[{\"%s\":", code, kind);
	mtr_put_string(&b, where, where_len);
	mtr_put(&b, ",\"detail\":");
	mtr_put_cstring(&b, what);
	mtr_put(&b, "}]}");
	raise_mt(sqlstate, detail, b.data);
}

void
mtr_raise_at(int sqlstate, const char *code, const char *detail,
			 const char *pointer, size_t pointer_len, const char *what)
{
	raise_with_error(sqlstate, code, detail, "pointer", pointer, pointer_len,
					 what);
}

void
mtr_raise_parameter(const char *code, const char *detail, const char *name,
					size_t name_len, const char *what)
{
	raise_with_error(MTR_ERR_BAD_REQUEST, code, detail, "parameter", name,
					 name_len, what);
}
