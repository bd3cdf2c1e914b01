/*
 * page.c
 *		Lists page by page (see page.h).
 *
 * A page ends at its limit or before the window of a response, and says where
 * the next one begins: Link: <...>; rel="next".	The cursor in it is the key of
 * the last item shown (core/cursor.h).	 The next page is read behind that key
 * through the same index as the first one, so it costs the same however far
 * into the list it is, and no item that was there all along is shown twice or
 * left out, whatever comes and goes meanwhile.
 *
 * A cursor is bound to the tenant, the route, its table and the order, but not
 * to the limit nor to the API key.	 Its MAC is made with the pepper that API
 * keys are hashed with, under a message that no API key can be: there is
 * nothing to configure, every gateway and every backend agrees, and cursors
 * outlive restarts.
 *
 * Nothing is shared; all memory is the call's.
 */
#include "mortar.h"

#include "lib/stringinfo.h"

#include "answer.h"
#include "core/apikey.h"
#include "core/uri.h"
#include "page.h"
#include "problem.h"
#include "request.h"
#include "write.h"

/* tenant, route, order, path arguments */
#define SCOPE_PARTS (3 + MTR_MAX_PATH_ARGS)

static struct mtr_slice
slice_of(const char *s)
{
	struct mtr_slice slice = {s, strlen(s)};

	return slice;
}

/* makes the cursor's MAC; false when its pepper is not there (any more) */
static bool
make_mac(const MtrRequest *req, const char *order, const struct mtr_cursor *c,
		 uint8 mac[MTR_CURSOR_MAC_BYTES])
{
	struct mtr_slice scope[SCOPE_PARTS];
	uint8            whole[32];
	uint8           *message;
	size_t           n = 0;
	size_t           len;

	scope[n++] = slice_of(req->tenant);
	scope[n++] = slice_of(req->route->path);
	scope[n++] = slice_of(order);
	for (int i = 0; i < MTR_MAX_PATH_ARGS; i++, n++)
	{
		scope[n].p = req->arg[i];
		scope[n].len = req->arg_len[i];
	}
	message = palloc(mtr_cursor_message_len(c, scope, n));
	len = mtr_cursor_message(c, scope, n, message);
	if (c->secret > PG_INT32_MAX ||
		!mtr_pepper_hmac((int) c->secret, (const char *) message, len, whole))
		return false;
	memcpy(mac, whole, MTR_CURSOR_MAC_BYTES);
	return true;
}

static void
read_cursor(const MtrRequest *req, struct mtr_slice value, MtrPage *page)
{
	uint8 mac[MTR_CURSOR_MAC_BYTES];

	if (!mtr_cursor_parse(value.p, value.len, &page->after) ||
		!make_mac(req, page->order, &page->after, mac) ||
		!mtr_ct_equal(mac, page->after.mac, sizeof(mac)))
		mtr_raise_parameter("invalid_cursor", "The cursor is not valid.",
							"cursor", strlen("cursor"),
							"not one that this list gave out");
	page->follows = true;
}

/* digits only; false for anything else and beyond int64 */
static bool
parse_count(struct mtr_slice s, int64 *count)
{
	int64 n = 0;

	if (s.len == 0)
		return false;
	for (size_t i = 0; i < s.len; i++)
	{
		if (s.p[i] < '0' || s.p[i] > '9' ||
			__builtin_mul_overflow(n, INT64CONST(10), &n) ||
			__builtin_add_overflow(n, (int64) (s.p[i] - '0'), &n))
			return false;
	}
	*count = n;
	return true;
}

static void
read_limit(struct mtr_slice value, MtrPage *page)
{
	if (!parse_count(value, &page->limit))
		mtr_raise_parameter("invalid_parameter",
							"A query parameter is not valid.", "limit",
							strlen("limit"), "not a whole number from 0 on");
	page->limit = Min(page->limit, MTR_LIMIT_MAX);
	page->limited = true;
}

static void
check_first(bool seen, struct mtr_slice name)
{
	if (seen)
		mtr_raise_parameter("invalid_parameter",
							"A query parameter is not valid.", name.p, name.len,
							"given twice");
}

void
mtr_page_read(const MtrRequest *req, const char *order, MtrPage *page)
{
	struct mtr_query q;
	struct mtr_slice name;
	struct mtr_slice value;

	page->order = order;
	page->limit = MTR_LIMIT_DEFAULT;
	page->limited = false;
	page->follows = false;
	page->more = false;
	if (req->query.len == 0)
		return;
	mtr_query_start(&q, req->query.p, req->query.len);
	while (mtr_request_parameter(&q, &name, &value))
	{
		if (name.len == 5 && memcmp(name.p, "limit", 5) == 0)
		{
			check_first(page->limited, name);
			read_limit(value, page);
		}
		else if (name.len == 6 && memcmp(name.p, "cursor", 6) == 0)
		{
			check_first(page->follows, name);
			read_cursor(req, value, page);
		}
		else
			mtr_refuse_parameter(name);
	}
}

/* the path of the request, encoded: the route's with its arguments put in */
static void
put_path(StringInfo b, const MtrRequest *req)
{
	const char *form = req->route->path;
	int         arg = 0;

	appendStringInfo(b, "/v1/%s", req->tenant);
	while (*form != '\0')
	{
		size_t plain = strcspn(form, "{");

		appendBinaryStringInfo(b, form, (int) plain);
		form += plain;
		if (*form == '\0')
			break;
		enlargeStringInfo(
			b, (int) mtr_pct_encode_len(req->arg[arg], req->arg_len[arg]));
		b->len += (int) mtr_pct_encode(req->arg[arg], req->arg_len[arg],
									   b->data + b->len);
		b->data[b->len] = '\0';
		arg++;
		form += strcspn(form, "}") + 1;
	}
}

void
mtr_page_more(MtrPage *page, const void *key, size_t len)
{
	Assert(len >= 1 && len <= MTR_CURSOR_KEY_MAX);
	memcpy(page->next.key, key, len);
	page->next.key_len = len;
	page->more = true;
}

/* Link: <...>; rel="next", relative to the server as Location is */
static void
link_next(const MtrRequest *req, MtrResponse *res, MtrPage *page)
{
	struct mtr_cursor *next = &page->next;
	StringInfoData     b;

	next->secret = (uint32) mtr_pepper_newest();
	if (!make_mac(req, page->order, next, next->mac))
		ereport(ERROR, (errcode(ERRCODE_CONFIG_FILE_ERROR),
						errmsg("cursors need a pepper, and none is loaded")));
	initStringInfo(&b);
	appendStringInfoChar(&b, '<');
	put_path(&b, req);
	appendStringInfoChar(&b, '?');
	if (page->limited)
		appendStringInfo(&b, "limit=" INT64_FORMAT "&", page->limit);
	appendStringInfoString(&b, "cursor=");
	enlargeStringInfo(&b, MTR_CURSOR_CHARS_MAX);
	b.len += (int) mtr_cursor_format(next, b.data + b.len);
	b.data[b.len] = '\0';
	appendStringInfoString(&b, ">; rel=\"next\"");
	mtr_header(res, "link", b.data);
}

void
mtr_page_headers(const MtrRequest *req, MtrResponse *res, MtrPage *page,
				 uint64 n)
{
	/* a later page does not know how many items stand before it */
	if (!page->follows)
		mtr_content_range(res, n);
	if (page->more)
		link_next(req, res, page);
}
