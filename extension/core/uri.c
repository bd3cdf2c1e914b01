/*
 * uri.c - raw request paths and query strings
 *
 * See uri.h: split first, decode once, normalise nothing.
 */
#include "core/uri.h"

#include "core/hex.h"
#include "core/utf8.h"

#include <string.h>

int
mtr_path_split(const char *raw, size_t len, struct mtr_slice *seg, int max)
{
	size_t at = 0;
	int    n = 0;

	while (at < len)
	{
		size_t start;

		if (raw[at] != '/')
			return -1; /* only the first byte: segments end at a slash */
		start = ++at;
		while (at < len && raw[at] != '/')
			at++;
		if (at == start || n >= max)
			return -1;
		seg[n].p = raw + start;
		seg[n].len = at - start;
		n++;
	}
	return n;
}

ssize_t
mtr_pct_decode(const char *in, size_t len, char *out, bool plus_is_space)
{
	size_t o = 0;

	for (size_t i = 0; i < len; i++)
	{
		char c = in[i];

		if (c == '%')
		{
			int high;
			int low;

			if (len - i < 3)
				return -1;
			high = mtr_hex_value(in[i + 1]);
			low = mtr_hex_value(in[i + 2]);
			if (high < 0 || low < 0)
				return -1;
			c = (char) (high << 4 | low);
			i += 2;
		}
		else if (c == '+' && plus_is_space)
			c = ' ';
		out[o++] = c;
	}
	return (ssize_t) o;
}

ssize_t
mtr_segment_decode(const char *in, size_t len, char *out)
{
	ssize_t decoded = mtr_pct_decode(in, len, out, false);
	size_t  n;

	if (decoded <= 0)
		return -1;
	n = (size_t) decoded;
	if (memchr(out, '/', n) != NULL || !mtr_utf8_clean(out, n))
		return -1;
	if (out[0] == '.' && (n == 1 || (n == 2 && out[1] == '.')))
		return -1;
	return decoded;
}

/* is_unreserved names RFC 3986's characters that never need an escape */
static bool
is_unreserved(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		   (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' ||
		   c == '~';
}

size_t
mtr_pct_encode_len(const char *in, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += is_unreserved(in[i]) ? 1 : 3;
	return n;
}

size_t
mtr_pct_encode(const char *in, size_t len, char *out)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t            o = 0;

	for (size_t i = 0; i < len; i++)
	{
		unsigned char c = (unsigned char) in[i];

		if (is_unreserved(in[i]))
			out[o++] = in[i];
		else
		{
			out[o++] = '%';
			out[o++] = digits[c >> 4];
			out[o++] = digits[c & 0x0F];
		}
	}
	return o;
}

void
mtr_query_start(struct mtr_query *q, const char *raw, size_t len)
{
	q->p = raw;
	q->end = len > 0 ? raw + len : raw;
}

bool
mtr_query_next(struct mtr_query *q, struct mtr_slice *name,
			   struct mtr_slice *value)
{
	const char *pair;
	const char *equals;
	size_t      len;

	while (q->p != q->end && *q->p == '&')
		q->p++;
	if (q->p == q->end)
		return false;

	pair = q->p;
	while (q->p != q->end && *q->p != '&')
		q->p++;
	len = (size_t) (q->p - pair);
	equals = memchr(pair, '=', len);

	name->p = pair;
	name->len = equals ? (size_t) (equals - pair) : len;
	value->p = equals ? equals + 1 : q->p;
	value->len = (size_t) (q->p - value->p);
	return true;
}
