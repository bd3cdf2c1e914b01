/*
 * request.c
 *		Headers and query parameters of a request (see request.h).
 *
 * Headers are not taken apart into an array of Datums: a call looks at three of
 * some ten, so the array's bytes are walked where they are, and nothing is
 * copied but a value that a handler asks for.
 *
 * Nothing is shared; all memory is the call's.
 */
#include "mortar.h"

#include "access/tupmacs.h"
#include "lib/stringinfo.h"
#include "utils/array.h"

#include "core/utf8.h"
#include "problem.h"
#include "request.h"

/* where a walk over the elements of a text[] stands */
typedef struct HeaderWalk
{
	const char  *p;
	const bits8 *nulls;
	int          i;
	int          n;
} HeaderWalk;

static void
walk_start(HeaderWalk *w, const MtrRequest *req)
{
	ArrayType *array;

	memset(w, 0, sizeof(*w));
	if (!req->has_headers)
		return;
	array = DatumGetArrayTypeP(req->headers);
	w->p = (char *) array + (ARR_HASNULL(array)
								 ? (size_t) array->dataoffset
								 : ARR_OVERHEAD_NONULLS(ARR_NDIM(array)));
	w->nulls = ARR_NULLBITMAP(array);
	w->n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
}

/* the next element; p is NULL for a null.  The caller has checked i < n. */
static struct mtr_slice
walk_element(HeaderWalk *w)
{
	struct mtr_slice s = {NULL, 0};
	int              i = w->i++;

	if (w->nulls != NULL && att_isnull(i, w->nulls))
		return s;
	s.p = VARDATA_ANY(w->p);
	s.len = VARSIZE_ANY_EXHDR(w->p);
	/* text is aligned to int, and every element's end is padded to that */
	w->p += INTALIGN(VARSIZE_ANY(w->p));
	return s;
}

/* the next header that has both a name and a value; false at the end */
static bool
walk_next(HeaderWalk *w, struct mtr_slice *name, struct mtr_slice *value)
{
	while (w->i + 1 < w->n)
	{
		*name = walk_element(w);
		*value = walk_element(w);
		if (name->p != NULL && value->p != NULL)
			return true;
	}
	return false;
}

static bool
same(struct mtr_slice a, const char *b, size_t len)
{
	return a.len == len && memcmp(a.p, b, len) == 0;
}

bool
mtr_slice_is(struct mtr_slice s, const char *word)
{
	return s.len == strlen(word) && pg_strncasecmp(s.p, word, s.len) == 0;
}

/* remembers a credential; a second one must be the same */
static void
remember(struct mtr_slice *field, struct mtr_slice value, bool *repeated)
{
	if (field->p != NULL && !same(*field, value.p, value.len))
		*repeated = true;
	*field = value;
}

void
mtr_request_head(const MtrRequest *req, MtrHead *head)
{
	HeaderWalk       w;
	struct mtr_slice name;
	struct mtr_slice value;

	memset(head, 0, sizeof(*head));
	walk_start(&w, req);
	while (walk_next(&w, &name, &value))
	{
		if (same(name, "authorization", 13))
			remember(&head->authorization, value, &head->repeated);
		else if (same(name, "apikey", 6))
			remember(&head->apikey, value, &head->repeated);
		else if (same(name, "origin", 6))
			head->origin = value;
	}
}

/* "Bearer token"; the scheme's case does not matter (RFC 9110) */
static bool
bearer_token(struct mtr_slice value, struct mtr_slice *token)
{
	const size_t n = sizeof("bearer") - 1;

	if (value.len <= n || value.p[n] != ' ' ||
		pg_strncasecmp(value.p, "bearer", n) != 0)
		return false;
	token->p = value.p + n;
	token->len = value.len - n;
	while (token->len > 0 && token->p[0] == ' ')
	{
		token->p++;
		token->len--;
	}
	return true;
}

/*
 * Both headers may carry the key, as clients of PostgREST send it.	 Two that
 * differ are refused: an end user's token beside a key would narrow what the
 * key may do, and ignoring it would run the call with too many rights.
 */
MtrCredential
mtr_request_credential(const MtrHead *head, struct mtr_slice *token)
{
	token->p = NULL;
	token->len = 0;
	if (head->repeated)
		return MTR_CREDENTIAL_UNCLEAR;
	if (head->authorization.p == NULL)
	{
		*token = head->apikey;
		return token->p == NULL ? MTR_CREDENTIAL_NONE : MTR_CREDENTIAL_ONE;
	}
	if (!bearer_token(head->authorization, token))
		return MTR_CREDENTIAL_UNCLEAR;
	if (head->apikey.p != NULL && !same(head->apikey, token->p, token->len))
		return MTR_CREDENTIAL_UNCLEAR;
	return MTR_CREDENTIAL_ONE;
}

const char *
mtr_request_header(const MtrRequest *req, const char *wanted)
{
	size_t           wanted_len = strlen(wanted);
	StringInfoData   joined;
	HeaderWalk       w;
	struct mtr_slice name;
	struct mtr_slice value;

	joined.data = NULL;
	walk_start(&w, req);
	while (walk_next(&w, &name, &value))
	{
		if (!same(name, wanted, wanted_len))
			continue;
		if (joined.data == NULL)
			initStringInfo(&joined);
		else
			appendStringInfoString(&joined, ", ");
		appendBinaryStringInfo(&joined, value.p, (int) value.len);
	}
	return joined.data;
}

static struct mtr_slice
trimmed(const char *p, const char *end)
{
	struct mtr_slice s;

	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	while (p < end && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	s.p = p;
	s.len = (size_t) (end - p);
	return s;
}

/* is this one preference, without its parameters, name=value? */
static bool
preference_is(const char *p, const char *end, const char *name,
			  const char *value)
{
	const char      *semicolon = memchr(p, ';', (size_t) (end - p));
	const char      *equals;
	struct mtr_slice v;

	if (semicolon != NULL)
		end = semicolon;
	equals = memchr(p, '=', (size_t) (end - p));
	if (equals == NULL || !mtr_slice_is(trimmed(p, equals), name))
		return false;
	v = trimmed(equals + 1, end);
	if (v.len >= 2 && v.p[0] == '"' && v.p[v.len - 1] == '"')
	{
		v.p++;
		v.len -= 2;
	}
	return mtr_slice_is(v, value);
}

bool
mtr_request_prefers(const MtrRequest *req, const char *name, const char *value)
{
	const char *p = mtr_request_header(req, "prefer");

	while (p != NULL)
	{
		const char *comma = strchr(p, ',');
		const char *end = comma != NULL ? comma : p + strlen(p);

		if (preference_is(p, end, name, value))
			return true;
		p = comma != NULL ? comma + 1 : NULL;
	}
	return false;
}

/* decodes a name or value of the query string; raises MT400 */
static struct mtr_slice
query_text(struct mtr_slice raw)
{
	char            *out = palloc(raw.len + 1);
	ssize_t          len = mtr_pct_decode(raw.p, raw.len, out, true);
	struct mtr_slice s;

	if (len < 0 || !mtr_utf8_clean(out, (size_t) len))
		mtr_raise(MTR_ERR_BAD_REQUEST, "invalid_encoding",
				  "The query string is not percent-encoded UTF-8 text.");
	s.p = out;
	s.len = (size_t) len;
	return s;
}

bool
mtr_request_parameter(struct mtr_query *q, struct mtr_slice *name,
					  struct mtr_slice *value)
{
	if (!mtr_query_next(q, name, value))
		return false;
	*name = query_text(*name);
	*value = query_text(*value);
	return true;
}

void
mtr_refuse_parameter(struct mtr_slice name)
{
	mtr_raise_parameter("unsupported_parameter",
						"A query parameter is not supported here.", name.p,
						name.len, "not supported");
}

void
mtr_request_no_query(const MtrRequest *req)
{
	struct mtr_query q;
	struct mtr_slice name;
	struct mtr_slice value;

	if (req->query.len == 0)
		return;
	mtr_query_start(&q, req->query.p, req->query.len);
	if (mtr_request_parameter(&q, &name, &value))
		mtr_refuse_parameter(name);
}
