/*
 * test_json_check.c - what is JSON, what is wrong with the rest, and where
 */
// SOURCES: extension/core/json_check.c extension/core/json_keys.c
// SOURCES: extension/core/json_number.c extension/core/json_text.c
// SOURCES: extension/core/utf8.c
#include "core/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/*
 * check_bytes copies the document to a block of its own exact size, so that a
 * look beyond its end is seen.
 */
static void
check_bytes(const char *s, size_t len, enum mtr_json_error error, size_t offset,
			const char *pointer)
{
	struct mtr_json_report report;
	char                  *copy = malloc(len > 0 ? len : 1);

	assert_non_null(copy);
	memcpy(copy, s, len);
	if (mtr_json_check(copy, len, NULL, &report) != error)
		fail_msg("%.*s: error %d, not %d", (int) len, s, report.error, error);
	assert_int_equal(report.error, error);
	if (report.offset != offset)
		fail_msg("%.*s: offset %zu, not %zu", (int) len, s, report.offset,
				 offset);
	assert_false(report.pointer_cut);
	assert_int_equal(report.pointer_len, strlen(pointer));
	assert_memory_equal(report.pointer, pointer, report.pointer_len);
	free(copy);
}

static void
check(const char *s, enum mtr_json_error error, size_t offset,
	  const char *pointer)
{
	check_bytes(s, strlen(s), error, offset, pointer);
}

static void
documents(void **state)
{
	static const char *const good[] = {
		"{}",
		"[]",
		"null",
		"true",
		"false",
		"\"\"",
		"0",
		"-0",
		"10",
		"-1",
		"1.5",
		"0.1234567890123456789012345",
		"9223372036854775808",
		"1e400",
		"1E+9",
		"1e-09",
		"-0.0e-0",
		" \t\r\n[ \t\r\n] \t\r\n",
		"[1,2,3]",
		"[[],{},[{}],[[]]]",
		"{\"a\":1}",
		" { \"a\" : 1 , \"b\" : [ true , null ] } ",
		"{\"\":0}",
		"{\"a\":{\"a\":{\"a\":1}},\"b\":{\"a\":1}}",
		"[{\"a\":1},{\"a\":1}]",
		"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\"",
		"\"\\u0001\\u001f\\uffff\\uFFFE\\ud7ff\\ue000\"",
		"\"\\ud83d\\ude00\\uD800\\uDC00\\udbff\\udfff\"",
		"\"\x7f\xc2\x80\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf\"",
		"{\"\\u0061\":1,\"b\":2}",
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		check(good[i], MTR_JSON_OK, strlen(good[i]), "");
}

static const struct
{
	const char *s;
	size_t      offset;
	const char *pointer;
} malformed_cases[] = {
	{"", 0, ""},
	{"  ", 2, ""},
	{"x", 0, ""},
	{"\xef\xbb\xbf{}", 0, ""},
	{"{} {}", 3, ""},
	{"[] x", 3, ""},
	{"1 2", 2, ""},
	{"{}}", 2, ""},
	{"[", 1, "/0"},
	{"{", 1, ""},
	{"]", 0, ""},
	{"[1", 2, ""},
	{"[1,", 3, "/1"},
	{"[1,]", 3, "/1"},
	{"[,1]", 1, "/0"},
	{"[1 2]", 3, ""},
	{"[1}", 2, ""},
	{"{\"a\":1]", 6, ""},
	{"{a:1}", 1, ""},
	{"{'a':1}", 1, ""},
	{"{1:1}", 1, ""},
	{"{\"a\"}", 4, ""},
	{"{\"a\" 1}", 5, ""},
	{"{\"a\":}", 5, "/a"},
	{"{\"a\":1,}", 7, ""},
	{"{\"a\":1,,\"b\":2}", 7, ""},
	{"{,\"a\":1}", 1, ""},
	{"{\"a\":1 \"b\":2}", 7, ""},
	{"{\"a\"::1}", 5, "/a"},
	{"tru", 3, ""},
	{"truth", 3, ""},
	{"truex", 4, ""},
	{"nul", 3, ""},
	{"NULL", 0, ""},
	{"[falsy]", 5, "/0"},
	{"NaN", 0, ""},
	{"Infinity", 0, ""},
	{"-", 1, ""},
	{"-x", 1, ""},
	{"+1", 0, ""},
	{"01", 1, ""},
	{"-01", 2, ""},
	{"1.", 2, ""},
	{".5", 0, ""},
	{"1.e5", 2, ""},
	{"1e", 2, ""},
	{"1e+", 3, ""},
	{"1e+-1", 3, ""},
	{"0x10", 1, ""},
	{"1,2", 1, ""},
	{"[1.5.5]", 4, ""},
	{"// c\n1", 0, ""},
	{"[1]/**/", 3, ""},
	{"\"", 1, ""},
	{"\"abc", 4, ""},
	{"\"\\\"", 3, ""},
	{"\"\\", 1, ""},
	{"\"\\x\"", 1, ""},
	{"\"\\'\"", 1, ""},
	{"\"a\\U0041\"", 2, ""},
	{"\"\\u\"", 1, ""},
	{"\"\\u123\"", 1, ""},
	{"\"\\u12g4\"", 1, ""},
	{"\"\\u-123\"", 1, ""},
	{"\"\n\"", 1, ""},
	{"\"a\tb\"", 2, ""},
	{"\"\x1f\"", 1, ""},
	{"{\"a\":{\"b\":[1,{\"c\":x}]}}", 18, "/a/b/1/c"},
	{"\f1", 0, ""},
	{"\xc2\xa0", 0, ""},
};

static void
malformed(void **state)
{
	for (size_t i = 0; i < sizeof(malformed_cases) / sizeof(malformed_cases[0]);
		 i++)
		check(malformed_cases[i].s, MTR_JSON_MALFORMED,
			  malformed_cases[i].offset, malformed_cases[i].pointer);
	check_bytes("\"a\0b\"", 5, MTR_JSON_MALFORMED, 2, "");
	check_bytes("\"\\\0\"", 4, MTR_JSON_MALFORMED, 1, "");
	check_bytes("\0", 1, MTR_JSON_MALFORMED, 0, "");
	check_bytes("[1\0]", 4, MTR_JSON_MALFORMED, 2, "");
	check_bytes("1\0", 2, MTR_JSON_MALFORMED, 1, "");
	check_bytes("[]\0", 3, MTR_JSON_MALFORMED, 2, "");
}

static void
every_beginning_of_a_document_is_malformed(void **state)
{
	static const char good[] =
		"{\"a\":[1.5e+3,-2,true,false,null,\"\\u00e4\\n\xc3\xa4\"],"
		"\"b\":{\"c\":{}},\"d\":[[]]}";
	struct mtr_json_report report;

	for (size_t len = 0; len < sizeof(good) - 1; len++)
	{
		char *copy = malloc(len > 0 ? len : 1);

		assert_non_null(copy);
		memcpy(copy, good, len);
		assert_int_not_equal(mtr_json_check(copy, len, NULL, &report),
							 MTR_JSON_OK);
		assert_true(report.offset <= len);
		/* cut inside a character it is the encoding, else the grammar */
		assert_int_equal(report.error, (good[len - (len > 0)] & 0xFF) == 0xC3
										   ? MTR_JSON_ENCODING
										   : MTR_JSON_MALFORMED);
		free(copy);
	}
	check(good, MTR_JSON_OK, sizeof(good) - 1, "");
}

static void
encoding(void **state)
{
	check("\"\x80\"", MTR_JSON_ENCODING, 1, "");
	check("[\"a\xff\"]", MTR_JSON_ENCODING, 3, "/0");
	check("\"\xc0\x80\"", MTR_JSON_ENCODING, 1, "");
	check("{\"k\":\"\xed\xa0\x80\"}", MTR_JSON_ENCODING, 6, "/k");
	check("{\"k\xc3\":1}", MTR_JSON_ENCODING, 3, "");
	check("\"\xf4\x90\x80\x80\"", MTR_JSON_ENCODING, 1, "");
	check("\"\xc3", MTR_JSON_ENCODING, 1, "");
	check("\"\xe2\x82\"", MTR_JSON_ENCODING, 1, "");
}

static void
nul_and_surrogates(void **state)
{
	check("\"\\u0000\"", MTR_JSON_NUL, 1, "");
	check("{\"a\":[\"x\\u0000\"]}", MTR_JSON_NUL, 8, "/a/0");
	check("{\"a\":{\"x\\u0000\":1}}", MTR_JSON_NUL, 8, "/a");
	check("\"\\ud800\"", MTR_JSON_SURROGATE, 1, "");
	check("\"\\udbff\"", MTR_JSON_SURROGATE, 1, "");
	check("\"\\udc00\"", MTR_JSON_SURROGATE, 1, "");
	check("\"\\udfff\"", MTR_JSON_SURROGATE, 1, "");
	check("\"\\ud800x\"", MTR_JSON_SURROGATE, 1, "");
	check("\"\\ud800xudc00\"", MTR_JSON_SURROGATE, 1, "");
	check("\"\\ud800\\xdc00\"", MTR_JSON_SURROGATE, 1, "");
	check("\"\\ud800\\n\"", MTR_JSON_SURROGATE, 1, "");
	check("\"\\ud800\\u0041\"", MTR_JSON_SURROGATE, 1, "");
	check("\"\\ud800\\ud800\"", MTR_JSON_SURROGATE, 1, "");
	check("\"\\udc00\\ud800\"", MTR_JSON_SURROGATE, 1, "");
	check("\"\\ud83d\\ude00\\ude00\"", MTR_JSON_SURROGATE, 13, "");
	check("\"\\ud800", MTR_JSON_SURROGATE, 1, "");
	check("\"\\ud800\\udc0", MTR_JSON_SURROGATE, 1, "");
	check("{\"\\ud800\":1}", MTR_JSON_SURROGATE, 2, "");
}

static void
depth(void **state)
{
	char s[400];

	for (size_t n = 62; n <= 67; n++)
	{
		struct mtr_json_report report;
		size_t                 at = 0;

		/* arrays and objects in turn: [{"":[{"":[...]}]}] */
		for (size_t i = 0; i < n; i++)
		{
			if (i % 2 == 0)
				s[at++] = '[';
			else
			{
				memcpy(s + at, "{\"\":", 4);
				at += 4;
			}
		}
		if (n % 2 == 0)
			s[at++] = '1';
		for (size_t i = n; i > 0; i--)
			s[at++] = i % 2 == 1 ? ']' : '}';
		assert_int_equal(mtr_json_check(s, at, NULL, &report),
						 n <= 64 ? MTR_JSON_OK : MTR_JSON_DEPTH);
		if (n > 64)
		{
			assert_int_equal(report.offset, 32 * (1 + 4));
			assert_int_equal(report.pointer_len, 32 * 3);
			assert_memory_equal(report.pointer, "/0//0//0/", 9);
		}
	}
	/* closing counts down */
	check("[[[]],[[[]]],{},{\"a\":[]}]", MTR_JSON_OK, 25, "");
}

static void
depth_is_no_recursion(void **state)
{
	enum
	{
		DEEP = 3000000
	};
	char                  *s = malloc(DEEP);
	struct mtr_json_report report;

	assert_non_null(s);
	memset(s, '[', DEEP);
	assert_int_equal(mtr_json_check(s, DEEP, NULL, &report), MTR_JSON_DEPTH);
	assert_int_equal(report.offset, 64);
	free(s);
}

static void
numbers_that_do_not_fit(void **state)
{
	const enum mtr_json_error number = MTR_JSON_NUMBER;

	check("1e131072", number, 0, "");
	check("[{\"a\":1},{\"b\":[0,-1e400000]}]", number, 17, "/1/b/1");
	check("{\"a\":1e131071,\"b\":1e-16383,\"c\":0e131072}", MTR_JSON_OK, 40,
		  "");
	/* the first mistake of two counts */
	check("1e400000e", number, 0, "");
}

static void
duplicate_keys(void **state)
{
	const enum mtr_json_error dup = MTR_JSON_DUPLICATE_KEY;

	check("{\"role\":\"user\",\"role\":\"admin\"}", dup, 15, "/role");
	check("{\"a\":1,\"b\":2,\"a\":3}", dup, 13, "/a");
	check("{\"\":1,\"\":2}", dup, 6, "/");
	check("[{\"a\":1},{\"b\":{\"c\":1,\"c\":2}}]", dup, 21, "/1/b/c");
	/* the same text, spelled in other ways */
	check("{\"a\":1,\"\\u0061\":2}", dup, 7, "/a");
	check("{\"\\u0061\":1,\"a\":2}", dup, 12, "/a");
	check("{\"\\u00E9\":1,\"\xc3\xa9\":2}", dup, 12, "/\xc3\xa9");
	check("{\"\\ud83d\\ude00\":1,\"\xf0\x9f\x98\x80\":2}", dup, 18,
		  "/\xf0\x9f\x98\x80");
	check("{\"\\/\":1,\"/\":2}", dup, 8, "/~1");
	check("{\"~/~\":1,\"~\\/~\":2}", dup, 9, "/~0~1~0");
	check("{\"\\n\":1,\"\\u000a\":2}", dup, 8, "/\n");
	/* the first that repeats, in document order */
	check("{\"b\":1,\"a\":1,\"b\":2,\"a\":2,\"a\":3}", dup, 13, "/b");
	check("{\"a\":1,\"b\":1,\"b\":2,\"a\":2,\"b\":3}", dup, 13, "/b");
	/* what is different stays different */
	check("{\"a\":1,\"A\":2,\"a \":3,\"\":4,\"aa\":5}", MTR_JSON_OK, 32, "");
	check("{\"e\\u0301\":1,\"\\u00e9\":2}", MTR_JSON_OK, 24, "");
	check("{\"\\\\u0061\":1,\"a\":2}", MTR_JSON_OK, 19, "");
	/* an object and its parents and neighbours do not mix */
	check("{\"a\":{\"a\":{\"b\":1},\"b\":2},\"b\":3}", MTR_JSON_OK, 31, "");
	check("{\"a\":{\"b\":1},\"c\":{\"d\":1},\"a\":1}", dup, 25, "/a");
}

static void
keys_with_one_hash_are_different(void **state)
{
	/* pairs of words with the same 32-bit FNV-1a hash */
	check("{\"costarring\":1,\"liquid\":2}", MTR_JSON_OK, 27, "");
	check("{\"liquid\":1,\"costarring\":2,\"declinate\":3,\"macallums\":4,"
		  "\"altarage\":5,\"zinke\":6}",
		  MTR_JSON_OK, 78, "");
	check("{\"liquid\":1,\"costarring\":2,\"liquid\":3}",
		  MTR_JSON_DUPLICATE_KEY, 27, "/liquid");
	check("{\"liquid\":1,\"costarring\":2,\"\\u006ciquid\":3}",
		  MTR_JSON_DUPLICATE_KEY, 27, "/liquid");
	check("{\"liquid\":1,\"\\u0063ostarring\":2}", MTR_JSON_OK, 32, "");
	/* one hash, and one the beginning of the other */
	check("{\"key\":1,\"keyI07DIA\":2}", MTR_JSON_OK, 23, "");
	check("{\"\\u006bey\":1,\"keyI07DIA\":2}", MTR_JSON_OK, 28, "");
	check("{\"key\":1,\"\\u006beyI07DIA\":2}", MTR_JSON_OK, 28, "");
}

static void
the_first_error_counts(void **state)
{
	check("[\"\\u0000\",x]", MTR_JSON_NUL, 2, "/0");
	check("[x,\"\\u0000\"]", MTR_JSON_MALFORMED, 1, "/0");
	check("{\"a\":1,\"a\":2", MTR_JSON_MALFORMED, 12, "");
	check("[{\"a\":1,\"a\":2}", MTR_JSON_DUPLICATE_KEY, 8, "/0/a");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(documents),
		cmocka_unit_test(malformed),
		cmocka_unit_test(every_beginning_of_a_document_is_malformed),
		cmocka_unit_test(encoding),
		cmocka_unit_test(nul_and_surrogates),
		cmocka_unit_test(depth),
		cmocka_unit_test(depth_is_no_recursion),
		cmocka_unit_test(numbers_that_do_not_fit),
		cmocka_unit_test(duplicate_keys),
		cmocka_unit_test(keys_with_one_hash_are_different),
		cmocka_unit_test(the_first_error_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
