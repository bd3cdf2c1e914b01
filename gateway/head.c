/*
 * head.c
 *		Raw head checks and target split.
 *
 * libh2o keeps the first of two Content-Length headers, lets Transfer-Encoding
 * override a length, keeps the last of two Host headers, accepts bare line
 * feeds and folded lines, and removes the framing headers before a handler
 * sees them.  A proxy in front of us may decide each of these differently, and
 * then a request hides inside another one's body.  So the handler looks at the
 * bytes again, here, and refuses what is not read in one way only.
 *
 * The target is split on the raw bytes for a similar reason: libh2o's
 * normalised path has "%2F" decoded and dot segments collapsed, which would
 * make two different names one.  Nothing is decoded here but the tenant; the
 * rest is the extension's to read.
 *
 * All functions read borrowed memory and keep nothing.
 */
#include "head.h"

/* Counts that only matter as 0, 1, or more. */
typedef struct Framing
{
	int  content_length;
	int  transfer_encoding;
	int  host;
	bool http_1_0;
} Framing;

/*
 * Takes one line off "rest".  Returns false when there is none or it ends in a
 * bare line feed.
 */
static bool
take_line(Slice *rest, Slice *line)
{
	const char *end;

	if (rest->len == 0)
		return false;
	end = memchr(rest->base, '\n', rest->len);
	if (end == NULL || end == rest->base || end[-1] != '\r')
		return false;
	line->base = rest->base;
	line->len = (size_t) (end - 1 - rest->base);
	rest->len -= (size_t) (end + 1 - rest->base);
	rest->base = end + 1;
	return true;
}

static bool
is_length(Slice value)
{
	if (value.len == 0 || value.len > 18)
		return false;
	for (size_t i = 0; i < value.len; i++)
		if (value.base[i] < '0' || value.base[i] > '9')
			return false;
	return true;
}

/* Notes what one header line means for the framing; returns the objection. */
static const char *
check_header(Slice line, Framing *framing)
{
	const char *colon;
	Slice       name;
	Slice       value;

	if (line.base[0] == ' ' || line.base[0] == '\t')
		return "The head has a folded line.";
	colon = memchr(line.base, ':', line.len);
	if (colon == NULL)
		return "The head has a line without a colon.";
	name = (Slice){line.base, (size_t) (colon - line.base)};
	value = (Slice){colon + 1, line.len - name.len - 1};
	if (!text_is_token(name))
		return "The head has a malformed header name.";

	if (slice_is_lower(name, SLICE_LITERAL("content-length")))
	{
		if (++framing->content_length > 1)
			return "There is more than one Content-Length header.";
		if (!is_length(slice_trim(value)))
			return "The Content-Length header is not a number.";
	}
	else if (slice_is_lower(name, SLICE_LITERAL("transfer-encoding")))
	{
		if (++framing->transfer_encoding > 1)
			return "There is more than one Transfer-Encoding header.";
		if (!slice_is_lower(slice_trim(value), SLICE_LITERAL("chunked")))
			return "The transfer encoding is not supported.";
	}
	else if (slice_is_lower(name, SLICE_LITERAL("host")) && ++framing->host > 1)
		return "There is more than one Host header.";
	return NULL;
}

/* The objection that only the whole head allows, or NULL. */
static const char *
check_framing(const Framing *framing)
{
	if (framing->content_length > 0 && framing->transfer_encoding > 0)
		return "There is a Content-Length beside a Transfer-Encoding header.";
	if (framing->transfer_encoding > 0 && framing->http_1_0)
		return "HTTP/1.0 has no transfer encoding.";
	if (framing->host == 0 && !framing->http_1_0)
		return "The Host header is missing.";
	return NULL;
}

bool
head_check(Slice raw, HeadInfo *info)
{
	Framing framing = {0, 0, 0, false};
	Slice   rest = raw;
	Slice   line;

	*info = (HeadInfo){0, false, NULL};
	/* the parser forgives one empty line before the request, and so do we */
	if (!take_line(&rest, &line) ||
		(line.len == 0 && !take_line(&rest, &line)) || line.len == 0)
		info->why = "The request line is malformed.";
	else
		framing.http_1_0 = line.base[line.len - 1] == '0';

	while (info->why == NULL)
	{
		if (!take_line(&rest, &line))
			info->why = "A line of the head does not end in CR LF.";
		else if (line.len == 0)
			break;
		else
			info->why = check_header(line, &framing);
	}
	if (info->why == NULL)
		info->why = check_framing(&framing);
	info->length = raw.len - rest.len;
	info->chunked = framing.transfer_encoding > 0;
	return info->why == NULL;
}

/*
 * Cuts "http://authority" off an absolute target, which RFC 9112 tells a
 * server to accept; a target without a path becomes empty.
 */
static Slice
origin_form(Slice target)
{
	static const char *const schemes[] = {"http://", "https://"};

	for (size_t i = 0; i < 2; i++)
	{
		Slice       scheme = slice_of(schemes[i]);
		Slice       rest;
		const char *slash;

		if (target.len < scheme.len ||
			!slice_is_lower((Slice){target.base, scheme.len}, scheme))
			continue;
		rest = (Slice){target.base + scheme.len, target.len - scheme.len};
		slash = rest.len == 0 ? NULL : memchr(rest.base, '/', rest.len);
		if (slash == NULL)
			return SLICE_NONE;
		return (Slice){slash, rest.len - (size_t) (slash - rest.base)};
	}
	return target;
}

/* Decodes the tenant segment; false when it is not a name at all. */
static bool
decode_tenant(Slice raw, char *buffer, Slice *out)
{
	size_t len;

	if (memchr(raw.base, '%', raw.len) != NULL)
	{
		if (!text_percent_decode(raw, buffer, &len))
			return false;
		raw = (Slice){buffer, len};
	}
	/* a decoded slash or dot segment would be another path than it looks */
	if (memchr(raw.base, '/', raw.len) != NULL ||
		memchr(raw.base, '\0', raw.len) != NULL ||
		slice_equal(raw, SLICE_LITERAL(".")) ||
		slice_equal(raw, SLICE_LITERAL("..")))
		return false;
	*out = raw;
	return text_is_utf8(raw);
}

TargetVerdict
target_split(Slice target, char *buffer, Target *out)
{
	static const Slice prefix = {"/v1/", 4};
	const char        *question;
	const char        *slash;
	Slice              rest;

	*out = (Target){SLICE_NONE, SLICE_NONE, SLICE_NONE, false};
	rest = origin_form(target);
	question = rest.len == 0 ? NULL : memchr(rest.base, '?', rest.len);
	if (question != NULL)
	{
		out->has_query = true;
		out->query.base = question + 1;
		out->query.len = rest.len - (size_t) (question - rest.base) - 1;
		rest.len = (size_t) (question - rest.base);
	}
	if (rest.len <= prefix.len || memcmp(rest.base, prefix.base, prefix.len))
		return TARGET_OUTSIDE;
	rest.base += prefix.len;
	rest.len -= prefix.len;

	slash = memchr(rest.base, '/', rest.len);
	if (slash == rest.base)
		return TARGET_OUTSIDE;
	if (slash != NULL)
	{
		out->path.base = slash;
		out->path.len = rest.len - (size_t) (slash - rest.base);
		rest.len = (size_t) (slash - rest.base);
	}
	return decode_tenant(rest, buffer, &out->tenant) ? TARGET_OK
													 : TARGET_ENCODING;
}
