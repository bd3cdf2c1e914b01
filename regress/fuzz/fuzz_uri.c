/*
 * fuzz_uri.c - paths and queries: pieces are where they should be, and what
 * was decoded can be encoded and decoded again
 */
// SOURCES: extension/core/uri.c extension/core/utf8.c
#include "core/uri.h"

#include "core/utf8.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SEGMENTS 16

/* block gives memory of exactly n bytes, so that an overrun is seen */
static char *
block(size_t n)
{
	char *p = malloc(n > 0 ? n : 1);

	require(p != NULL);
	return p;
}

static void
there_and_back(const char *text, size_t len)
{
	size_t n = mtr_pct_encode_len(text, len);
	char  *encoded = block(n);
	char  *back = block(n);

	require(n <= 3 * len);
	require(mtr_pct_encode(text, len, encoded) == n);
	require(mtr_pct_decode(encoded, n, back, false) == (ssize_t) len);
	require(len == 0 || memcmp(back, text, len) == 0);
	free(encoded);
	free(back);
}

static void
try_segment(const struct mtr_slice *seg)
{
	char   *out = block(seg->len);
	ssize_t n = mtr_segment_decode(seg->p, seg->len, out);

	if (n >= 0)
	{
		size_t len = (size_t) n;
		char  *again = block(3 * len);
		char  *back = block(3 * len);
		size_t encoded = mtr_pct_encode(out, len, again);

		require(len > 0 && len <= seg->len);
		require(mtr_utf8_clean(out, len));
		require(memchr(out, '/', len) == NULL);
		require(!(len == 1 && out[0] == '.'));
		require(!(len == 2 && out[0] == '.' && out[1] == '.'));
		require(mtr_segment_decode(again, encoded, back) == n);
		require(memcmp(back, out, len) == 0);
		free(again);
		free(back);
	}
	free(out);
}

static void
try_path(const char *raw, size_t len)
{
	struct mtr_slice seg[MAX_SEGMENTS];
	int              n = mtr_path_split(raw, len, seg, MAX_SEGMENTS);
	const char      *at = raw;

	if (n < 0)
		return;
	require(n <= MAX_SEGMENTS);
	for (int i = 0; i < n; i++)
	{
		require(seg[i].len > 0 && seg[i].p == at + 1 && *at == '/');
		require(memchr(seg[i].p, '/', seg[i].len) == NULL);
		at = seg[i].p + seg[i].len;
		try_segment(&seg[i]);
	}
	require(at == raw + len);
}

static void
try_query(const char *raw, size_t len)
{
	struct mtr_query q;
	struct mtr_slice name;
	struct mtr_slice value;
	const char      *at = raw;

	mtr_query_start(&q, raw, len);
	while (mtr_query_next(&q, &name, &value))
	{
		char   *out = block(value.len);
		ssize_t n = mtr_pct_decode(value.p, value.len, out, true);

		for (; at != name.p; at++)
			require(*at == '&');
		at = value.p + value.len;
		require(at <= raw + len && (at == raw + len || *at == '&'));
		require(name.len == 0 || memchr(name.p, '=', name.len) == NULL);
		require(name.len == 0 || memchr(name.p, '&', name.len) == NULL);
		require(value.len == 0 || memchr(value.p, '&', value.len) == NULL);
		if (n >= 0)
			there_and_back(out, (size_t) n);
		free(out);
	}
	for (; at != raw + len; at++)
		require(*at == '&');
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char      *raw = (const char *) data;
	struct mtr_slice all = {raw, size};

	try_path(raw, size);
	try_query(raw, size);
	try_segment(&all);
	there_and_back(raw, size);
	return 0;
}
