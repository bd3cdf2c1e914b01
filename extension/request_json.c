/*
 * request_json.c
 *		The body of a request as checked JSON (see request.h).
 *
 * The server's jsonb would take documents that it cannot give back as they
 * were: of two equal keys it keeps the last.	So the text is checked first, and
 * what is wrong is said with a JSON pointer.
 *
 * Nothing is shared; all memory is the call's.
 */
#include "mortar.h"

#include "lib/stringinfo.h"

#include "problem.h"
#include "request.h"

static void *
json_alloc(void *ctx, size_t size)
{
	return palloc(size);
}

static void
json_free(void *ctx, void *ptr)
{
	pfree(ptr);
}

const struct mtr_json_mem mtr_json_palloc = {
	.alloc = json_alloc,
	.free = json_free,
};

/* "; charset=utf-8" and the like: no other charset may be named */
static bool
parameters_are_utf8(const char *p)
{
	while (p != NULL)
	{
		static const char charset[] = "charset=";
		struct mtr_slice  v;

		p++;
		p += strspn(p, " \t");
		v.p = p;
		v.len = strcspn(p, "; \t");
		p = strchr(p, ';');
		if (v.len < sizeof(charset) - 1 ||
			pg_strncasecmp(v.p, charset, sizeof(charset) - 1) != 0)
			continue;
		v.p += sizeof(charset) - 1;
		v.len -= sizeof(charset) - 1;
		if (!mtr_slice_is(v, "utf-8") && !mtr_slice_is(v, "\"utf-8\""))
			return false;
	}
	return true;
}

/* application/json or application/something+json, in UTF-8 */
static bool
media_type_is_json(const char *type)
{
	static const char application[] = "application/";
	struct mtr_slice  t;
	const char       *suffix = "+json";

	if (type == NULL)
		return false;
	type += strspn(type, " \t");
	if (pg_strncasecmp(type, application, sizeof(application) - 1) != 0)
		return false;
	t.p = type + sizeof(application) - 1;
	t.len = strcspn(t.p, "; \t");
	if (!mtr_slice_is(t, "json"))
	{
		if (t.len <= strlen(suffix))
			return false;
		t.p += t.len - strlen(suffix);
		t.len = strlen(suffix);
		if (!mtr_slice_is(t, suffix))
			return false;
	}
	return parameters_are_utf8(strchr(type, ';'));
}

static void
check_media_type(const MtrRequest *req)
{
	const char *coding = mtr_request_header(req, "content-encoding");

	if (!media_type_is_json(mtr_request_header(req, "content-type")))
		mtr_raise(MTR_ERR_MEDIA_TYPE, NULL,
				  "The body must be application/json in UTF-8.");
	if (coding != NULL && pg_strcasecmp(coding, "identity") != 0)
		mtr_raise(MTR_ERR_MEDIA_TYPE, NULL,
				  "A body with a content coding is not supported.");
}

/* JSON, but nothing that could be stored and given back as it was meant */
static void
raise_unstorable(const struct mtr_json_report *r, const char *code,
				 const char *what)
{
	mtr_raise_at(MTR_ERR_INVALID, code, "The body cannot be stored.",
				 r->pointer, r->pointer_len, what);
}

static void
raise_report(const struct mtr_json_report *r)
{
	switch (r->error)
	{
		case MTR_JSON_OK:
			break;
		case MTR_JSON_MALFORMED:
			mtr_raise(MTR_ERR_BAD_REQUEST, "invalid_json",
					  psprintf("The body is not JSON: error at byte %zu.",
							   r->offset));
		case MTR_JSON_ENCODING:
			mtr_raise(MTR_ERR_BAD_REQUEST, "invalid_encoding",
					  psprintf("The body is not UTF-8: error at byte %zu.",
							   r->offset));
		case MTR_JSON_DUPLICATE_KEY:
			raise_unstorable(r, "duplicate_key",
							 "the object has this member twice");
			break;
		case MTR_JSON_NUL:
			raise_unstorable(r, "invalid_character", "U+0000 cannot be stored");
			break;
		case MTR_JSON_SURROGATE:
			raise_unstorable(r, "invalid_character",
							 "half of a surrogate pair");
			break;
		case MTR_JSON_DEPTH:
			raise_unstorable(
				r, "too_deep",
				psprintf("more than %d objects and arrays in one another",
						 MTR_JSON_MAX_DEPTH));
			break;
		case MTR_JSON_NUMBER:
			raise_unstorable(r, "number_out_of_range",
							 "a number has at most 131072 digits before and "
							 "16383 after the decimal point");
			break;
		case MTR_JSON_MEMORY:
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("no memory to check a request body of JSON")));
	}
}

void
mtr_request_json(const MtrRequest *req, struct mtr_json_value *root)
{
	struct mtr_json_report report;

	if (req->body.len == 0)
		mtr_raise(MTR_ERR_BAD_REQUEST, "invalid_json",
				  "The request has no body.");
	check_media_type(req);
	if (mtr_json_check(req->body.p, req->body.len, &mtr_json_palloc, &report) !=
		MTR_JSON_OK)
		raise_report(&report);
	if (!mtr_json_root(req->body.p, req->body.len, root))
		elog(ERROR, "a checked body has no JSON value");
}

/* RFC 6901: "~" and "/" in a name are written "~0" and "~1" */
void
mtr_raise_member(const char *prefix, struct mtr_slice key, const char *code,
				 const char *detail, const char *what)
{
	StringInfoData pointer;

	initStringInfo(&pointer);
	appendStringInfo(&pointer, "%s/", prefix);
	for (size_t i = 0; i < key.len; i++)
	{
		if (key.p[i] == '~')
			appendStringInfoString(&pointer, "~0");
		else if (key.p[i] == '/')
			appendStringInfoString(&pointer, "~1");
		else
			appendStringInfoChar(&pointer, key.p[i]);
	}
	mtr_raise_at(MTR_ERR_INVALID, code, detail, pointer.data,
				 (size_t) pointer.len, what);
}
