/*
 * test_uri.c - raw paths, path segments and query strings
 */
// SOURCES: extension/core/uri.c extension/core/utf8.c
#include "core/uri.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define MAX_SEGMENTS 4

/* check_split: expected is the segments joined by '|', or NULL for refused */
static void
check_split(const char *raw, const char *expected)
{
	struct mtr_slice seg[MAX_SEGMENTS];
	int              n = mtr_path_split(raw, strlen(raw), seg, MAX_SEGMENTS);
	size_t           at = 0;

	if (expected == NULL)
	{
		assert_int_equal(n, -1);
		return;
	}
	assert_true(n >= 0);
	for (int i = 0; i < n; i++)
	{
		if (i > 0)
			assert_int_equal(expected[at++], '|');
		assert_true(at + seg[i].len <= strlen(expected));
		assert_memory_equal(seg[i].p, expected + at, seg[i].len);
		at += seg[i].len;
	}
	assert_int_equal(at, strlen(expected));
}

static void
split(void **state)
{
	check_split("", "");
	check_split("/db", "db");
	check_split("/db/rows/x", "db|rows|x");
	check_split("/a/b/c/d", "a|b|c|d");
	check_split("/a%2Fb/%2e%2E", "a%2Fb|%2e%2E");
	check_split("/./..", ".|..");
	check_split("/a;b=c", "a;b=c");
	assert_int_equal(mtr_path_split(NULL, 0, NULL, 0), 0);
}

static void
split_refuses_other_shapes(void **state)
{
	struct mtr_slice seg[1];

	check_split("/", NULL);
	check_split("//", NULL);
	check_split("/db/", NULL);
	check_split("//db", NULL);
	check_split("/db//rows", NULL);
	check_split("db", NULL);
	check_split("db/rows", NULL);
	check_split(" /db", NULL);
	check_split("/a/b/c/d/e", NULL);
	check_split("/a/b/c/d/", NULL);
	assert_int_equal(mtr_path_split("/a", 2, seg, 1), 1);
	assert_int_equal(mtr_path_split("/a/b", 4, seg, 1), -1);
	assert_int_equal(mtr_path_split("/a", 2, NULL, 0), -1);
}

static void
check_decode(const char *in, bool plus, const char *expected, size_t len)
{
	char    out[64];
	char    in_place[64];
	size_t  n = strlen(in);
	ssize_t got = mtr_pct_decode(in, n, out, plus);

	memcpy(in_place, in, n);
	assert_int_equal(mtr_pct_decode(in_place, n, in_place, plus), got);
	if (expected == NULL)
	{
		assert_int_equal(got, -1);
		return;
	}
	assert_int_equal(got, len);
	assert_memory_equal(out, expected, len);
	assert_memory_equal(in_place, expected, len);
}

static void
decode(void **state)
{
	check_decode("", false, "", 0);
	check_decode("abc", false, "abc", 3);
	check_decode("%61%62c", false, "abc", 3);
	check_decode("a+b", false, "a+b", 3);
	check_decode("a+b", true, "a b", 3);
	check_decode("a%2Bb%2bc", true, "a+b+c", 5);
	check_decode("%00", false, "\0", 1);
	check_decode("%ff%FF", false, "\xff\xff", 2);
	/* once, not twice */
	check_decode("%2541", false, "%41", 3);
	check_decode("%25%34%31", false, "%41", 3);
}

static void
decode_refuses_bad_escapes(void **state)
{
	static const char *const bad[] = {"%",     "a%",   "%4",    "%%",
									  "%4g",   "%g4",  "%-1",   "% 1",
									  "%0x41", "ab%4", "%41%4", "%+1"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		check_decode(bad[i], false, NULL, 0);
		check_decode(bad[i], true, NULL, 0);
	}
}

static void
decode_takes_exactly_the_hexadecimal_digits(void **state)
{
	for (int a = 0; a < 256; a++)
	{
		bool is_hex = a != 0 && a < 128 && strchr("0123456789abcdefABCDEF", a);
		char high[3] = {'%', (char) a, '5'};
		char low[3] = {'%', '5', (char) a};
		char out[3];

		assert_int_equal(mtr_pct_decode(high, 3, out, false), is_hex ? 1 : -1);
		assert_int_equal(mtr_pct_decode(low, 3, out, false), is_hex ? 1 : -1);
	}
}

static void
check_segment(const char *in, const char *expected)
{
	char    out[64];
	ssize_t got = mtr_segment_decode(in, strlen(in), out);

	if (expected == NULL)
	{
		assert_int_equal(got, -1);
		return;
	}
	assert_int_equal(got, strlen(expected));
	assert_memory_equal(out, expected, strlen(expected));
}

static void
segments(void **state)
{
	check_segment("notes", "notes");
	check_segment("a+b", "a+b");
	check_segment("Haven%20Arts%20&%20Ideas", "Haven Arts & Ideas");
	check_segment("%D0%BF%D1%80%D0%B8", "\xd0\xbf\xd1\x80\xd0\xb8");
	check_segment("\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80");
	check_segment("a.b,c%22d", "a.b,c\"d");
	check_segment("...", "...");
	check_segment(".a", ".a");
	check_segment("..a", "..a");
	check_segment("a..", "a..");
	check_segment("%5C", "\\");
	check_segment("%252F", "%2F");
}

static void
segments_refused(void **state)
{
	static const char *const bad[] = {
		"",     ".",         "..",  "%2e",   "%2E",          "%2e%2e",
		".%2e", "%2E.",      "a/b", "a%2Fb", "a%2fb",        "%2F",
		"%00",  "a%00b",     "%",   "%zz",   "%FF",          "%C0%80",
		"\xff", "%ED%A0%80", "%C3", "\xc3",  "%F4%90%80%80", "%E2%82"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check_segment(bad[i], NULL);
}

static void
encode(void **state)
{
	static const char in[] = "aAzZ09-._~ /%?#&=+\"\\\0\x7f\xc3\xa9";
	static const char expected[] = "aAzZ09-._~%20%2F%25%3F%23%26%3D%2B%22%5C"
								   "%00%7F%C3%A9";
	char              out[3 * sizeof(in)];

	assert_int_equal(mtr_pct_encode_len(in, sizeof(in) - 1),
					 sizeof(expected) - 1);
	assert_int_equal(mtr_pct_encode(in, sizeof(in) - 1, out),
					 sizeof(expected) - 1);
	assert_memory_equal(out, expected, sizeof(expected) - 1);
	assert_int_equal(mtr_pct_encode_len(NULL, 0), 0);
	assert_int_equal(mtr_pct_encode(NULL, 0, out), 0);
}

static void
every_byte_comes_back(void **state)
{
	char   all[256];
	char   encoded[3 * 256];
	char   back[3 * 256];
	size_t n;

	for (int i = 0; i < 256; i++)
		all[i] = (char) i;
	n = mtr_pct_encode(all, sizeof(all), encoded);
	assert_int_equal(n, mtr_pct_encode_len(all, sizeof(all)));
	for (size_t i = 0; i < n; i++)
		assert_true(encoded[i] > ' ' && encoded[i] < 0x7F && encoded[i] != '/');
	assert_int_equal(mtr_pct_decode(encoded, n, back, false), 256);
	assert_memory_equal(back, all, 256);
	assert_int_equal(mtr_pct_decode(encoded, n, back, true), 256);
	assert_memory_equal(back, all, 256);
}

/* check_query: expected is "name>value|name>value", all raw */
static void
check_query(const char *raw, const char *expected)
{
	struct mtr_query q;
	struct mtr_slice name;
	struct mtr_slice value;
	char             got[256];
	size_t           n = 0;

	mtr_query_start(&q, raw, strlen(raw));
	while (mtr_query_next(&q, &name, &value))
	{
		assert_true(n + name.len + value.len + 2 <= sizeof(got));
		if (n > 0)
			got[n++] = '|';
		memcpy(got + n, name.p, name.len);
		n += name.len;
		got[n++] = '>';
		memcpy(got + n, value.p, value.len);
		n += value.len;
	}
	assert_false(mtr_query_next(&q, &name, &value));
	assert_int_equal(n, strlen(expected));
	assert_memory_equal(got, expected, n);
}

static void
query(void **state)
{
	check_query("", "");
	check_query("a=1", "a>1");
	check_query("a=1&b=2", "a>1|b>2");
	check_query("a=1&a=2", "a>1|a>2");
	check_query("a", "a>");
	check_query("a=", "a>");
	check_query("=x", ">x");
	check_query("=", ">");
	check_query("a=b=c", "a>b=c");
	check_query("a&b=&=c", "a>|b>|>c");
	check_query("&", "");
	check_query("&&a=1&&&b&", "a>1|b>");
	check_query("a=1;b=2", "a>1;b=2");
	check_query("col=eq.%26%3D&x=+", "col>eq.%26%3D|x>+");
	check_query("?a=1", "?a>1");
}

static void
query_without_bytes(void **state)
{
	struct mtr_query q;
	struct mtr_slice name;
	struct mtr_slice value;

	mtr_query_start(&q, NULL, 0);
	assert_false(mtr_query_next(&q, &name, &value));
	/* only the bytes given count */
	mtr_query_start(&q, "a=1&b=2", 3);
	assert_true(mtr_query_next(&q, &name, &value));
	assert_int_equal(value.len, 1);
	assert_false(mtr_query_next(&q, &name, &value));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(split),
		cmocka_unit_test(split_refuses_other_shapes),
		cmocka_unit_test(decode),
		cmocka_unit_test(decode_refuses_bad_escapes),
		cmocka_unit_test(decode_takes_exactly_the_hexadecimal_digits),
		cmocka_unit_test(segments),
		cmocka_unit_test(segments_refused),
		cmocka_unit_test(encode),
		cmocka_unit_test(every_byte_comes_back),
		cmocka_unit_test(query),
		cmocka_unit_test(query_without_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
