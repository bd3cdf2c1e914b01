/*
 * test_json_walk.c - members, elements, strings; writing literals
 */
// SOURCES: extension/core/json_check.c extension/core/json_keys.c
// SOURCES: extension/core/json_number.c extension/core/json_text.c
// SOURCES: extension/core/json_walk.c
// SOURCES: extension/core/utf8.c
#include "core/json.h"

#include "json_mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static struct mtr_json_value
root_of(const char *s)
{
	struct mtr_json_report report;
	struct mtr_json_value  root;

	assert_int_equal(mtr_json_check(s, strlen(s), NULL, &report), MTR_JSON_OK);
	assert_true(mtr_json_root(s, strlen(s), &root));
	return root;
}

static void
check_raw(const struct mtr_json_value *value, enum mtr_json_kind kind,
		  const char *raw)
{
	assert_int_equal(value->kind, kind);
	assert_int_equal(value->raw.len, strlen(raw));
	assert_memory_equal(value->raw.p, raw, value->raw.len);
}

static void
roots(void **state)
{
	static const struct
	{
		const char        *s;
		enum mtr_json_kind kind;
		const char        *raw;
	} cases[] = {
		{"{}", MTR_JSON_KIND_OBJECT, "{}"},
		{" [1, 2] ", MTR_JSON_KIND_ARRAY, "[1, 2]"},
		{"\n\"a]\"\t", MTR_JSON_KIND_STRING, "\"a]\""},
		{" -1.5e+3 ", MTR_JSON_KIND_NUMBER, "-1.5e+3"},
		{"0", MTR_JSON_KIND_NUMBER, "0"},
		{"9", MTR_JSON_KIND_NUMBER, "9"},
		{"true", MTR_JSON_KIND_TRUE, "true"},
		{"\rfalse\r", MTR_JSON_KIND_FALSE, "false"},
		{"null ", MTR_JSON_KIND_NULL, "null"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		struct mtr_json_value root = root_of(cases[i].s);

		check_raw(&root, cases[i].kind, cases[i].raw);
	}
}

static void
members(void **state)
{
	static const char *const docs[] = {
		"{\"id\":1,\"t\\u0069tle\":\"a\\\"}\",\"list\":[{\"x\":[\"]\"]},2],"
		"\"o\":{\"a\":\"}\"},\"n\":null,\"b\":true,\"c\":false,\"\":-0.5e1}",
		" { \"id\" : 1 , \"t\\u0069tle\" : \"a\\\"}\" , \"list\" :\n"
		"[{\"x\":[\"]\"]},2] , \"o\" : {\"a\":\"}\"} , \"n\" : null ,"
		"\"b\":true , \"c\" : false, \"\" :\t-0.5e1 } "};
	static const struct
	{
		const char        *key;
		enum mtr_json_kind kind;
		const char        *raw;
	} expected[] = {
		{"id", MTR_JSON_KIND_NUMBER, "1"},
		{"title", MTR_JSON_KIND_STRING, "\"a\\\"}\""},
		{"list", MTR_JSON_KIND_ARRAY, "[{\"x\":[\"]\"]},2]"},
		{"o", MTR_JSON_KIND_OBJECT, "{\"a\":\"}\"}"},
		{"n", MTR_JSON_KIND_NULL, "null"},
		{"b", MTR_JSON_KIND_TRUE, "true"},
		{"c", MTR_JSON_KIND_FALSE, "false"},
		{"", MTR_JSON_KIND_NUMBER, "-0.5e1"},
	};

	for (size_t d = 0; d < 2; d++)
	{
		struct counted        c = {0};
		struct mtr_json_mem   mem = {counted_alloc, counted_free, &c};
		struct mtr_json_value root = root_of(docs[d]);
		struct mtr_json_iter  it;
		struct mtr_slice      key;
		struct mtr_json_value value;

		mtr_json_open(&it, &root, &mem);
		for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		{
			assert_true(mtr_json_next_member(&it, &key, &value));
			assert_int_equal(key.len, strlen(expected[i].key));
			assert_memory_equal(key.p, expected[i].key, key.len);
			check_raw(&value, expected[i].kind, expected[i].raw);
			/* only the escaped key took memory */
			assert_int_equal(c.live, i == 1);
			if (c.live > 0)
				counted_free(&c, (void *) (uintptr_t) key.p);
		}
		assert_false(mtr_json_next_member(&it, &key, &value));
		assert_int_equal(it.error, MTR_JSON_OK);
		assert_false(mtr_json_next_member(&it, &key, &value));
		assert_int_equal(c.calls, 1);
	}
}

static void
elements(void **state)
{
	struct mtr_json_value root =
		root_of("[ 1,\"a,b\" , [2,[3]],{\"x\":[4]}, null,true,false ]");
	static const struct
	{
		enum mtr_json_kind kind;
		const char        *raw;
	} expected[] = {
		{MTR_JSON_KIND_NUMBER, "1"},      {MTR_JSON_KIND_STRING, "\"a,b\""},
		{MTR_JSON_KIND_ARRAY, "[2,[3]]"}, {MTR_JSON_KIND_OBJECT, "{\"x\":[4]}"},
		{MTR_JSON_KIND_NULL, "null"},     {MTR_JSON_KIND_TRUE, "true"},
		{MTR_JSON_KIND_FALSE, "false"},
	};
	struct mtr_json_iter  it;
	struct mtr_json_value value;

	mtr_json_open(&it, &root, NULL);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
	{
		assert_true(mtr_json_next_element(&it, &value));
		check_raw(&value, expected[i].kind, expected[i].raw);
	}
	assert_false(mtr_json_next_element(&it, &value));
	assert_int_equal(it.error, MTR_JSON_OK);
}

static void
empty_containers(void **state)
{
	static const char *const docs[] = {"{}", "[]", "{ \n}", "[\t ]"};

	for (size_t i = 0; i < sizeof(docs) / sizeof(docs[0]); i++)
	{
		struct mtr_json_value root = root_of(docs[i]);
		struct mtr_json_iter  it;
		struct mtr_json_value value;
		struct mtr_slice      key;

		mtr_json_open(&it, &root, NULL);
		assert_false(mtr_json_next_element(&it, &value));
		assert_false(mtr_json_next_member(&it, &key, &value));
		assert_int_equal(it.error, MTR_JSON_OK);
	}
}

static void
walks_of_what_is_no_container(void **state)
{
	static const char *const docs[] = {"1", "\"{}\"", "null"};

	for (size_t i = 0; i < sizeof(docs) / sizeof(docs[0]); i++)
	{
		struct mtr_json_value root = root_of(docs[i]);
		struct mtr_json_iter  it;
		struct mtr_json_value value;

		mtr_json_open(&it, &root, NULL);
		assert_int_equal(it.error, MTR_JSON_MALFORMED);
		assert_false(mtr_json_next_element(&it, &value));
		assert_int_equal(it.error, MTR_JSON_MALFORMED);
	}
}

static void
unchecked_documents_end_early(void **state)
{
	static const char *const no_root[] = {
		"", " ", "]", "{", "[[]", "\"", "\"\\", "{]", "{} 1", "x", ":", "/"};
	static const char *const bad_arrays[] = {"[1 2]", "[,]", "[x]",
											 "[\"a\":1]"};
	static const char *const bad_objects[] = {
		"{1:2}", "{\"a\"}", "{\"a\":}", "{\"a\",1}", "{x:1}", "{:1}"};
	struct mtr_json_value root;
	struct mtr_json_iter  it;
	struct mtr_json_value value;
	struct mtr_slice      key;

	for (size_t i = 0; i < sizeof(no_root) / sizeof(no_root[0]); i++)
	{
		/* "{]" counts as closed; a walk then finds nothing in it */
		bool found = mtr_json_root(no_root[i], strlen(no_root[i]), &root);

		assert_int_equal(found, strcmp(no_root[i], "{]") == 0);
	}
	assert_false(mtr_json_root(NULL, 0, &root));

	for (size_t i = 0; i < sizeof(bad_arrays) / sizeof(bad_arrays[0]); i++)
	{
		const char *s = bad_arrays[i];

		assert_true(mtr_json_root(s, strlen(s), &root));
		mtr_json_open(&it, &root, NULL);
		while (mtr_json_next_element(&it, &value))
			assert_true(value.raw.p + value.raw.len < s + strlen(s));
		assert_int_equal(it.error, MTR_JSON_MALFORMED);
		assert_false(mtr_json_next_element(&it, &value));
		assert_int_equal(it.error, MTR_JSON_MALFORMED);
	}
	for (size_t i = 0; i < sizeof(bad_objects) / sizeof(bad_objects[0]); i++)
	{
		const char *s = bad_objects[i];

		assert_true(mtr_json_root(s, strlen(s), &root));
		mtr_json_open(&it, &root, NULL);
		assert_false(mtr_json_next_member(&it, &key, &value));
		assert_int_equal(it.error, MTR_JSON_MALFORMED);
		assert_false(mtr_json_next_member(&it, &key, &value));
		assert_int_equal(it.error, MTR_JSON_MALFORMED);
	}
}

static void
keys_without_memory(void **state)
{
	struct counted        c = {.fail_at = 1};
	struct mtr_json_mem   mem = {counted_alloc, counted_free, &c};
	struct mtr_json_value root = root_of("{\"a\":1,\"\\n\":2,\"b\":3}");
	struct mtr_json_iter  it;
	struct mtr_json_value value;
	struct mtr_slice      key;

	for (int with = 0; with < 2; with++)
	{
		mtr_json_open(&it, &root, with ? &mem : NULL);
		assert_true(mtr_json_next_member(&it, &key, &value));
		assert_false(mtr_json_next_member(&it, &key, &value));
		assert_int_equal(it.error, MTR_JSON_MEMORY);
		assert_false(mtr_json_next_member(&it, &key, &value));
		assert_int_equal(it.error, MTR_JSON_MEMORY);
	}
}

static void
strings(void **state)
{
	struct counted        c = {0};
	struct mtr_json_mem   mem = {counted_alloc, counted_free, &c};
	struct mtr_json_value value = root_of("\"notes\"");
	struct mtr_slice      text;

	assert_int_equal(mtr_json_string(&value, NULL, &text), MTR_JSON_OK);
	assert_int_equal(text.len, 5);
	assert_ptr_equal(text.p, value.raw.p + 1);

	value = root_of("\"\"");
	assert_int_equal(mtr_json_string(&value, NULL, &text), MTR_JSON_OK);
	assert_int_equal(text.len, 0);

	value = root_of("\"\\ud83d\\ude00\\t\"");
	assert_int_equal(mtr_json_string(&value, NULL, &text), MTR_JSON_MEMORY);
	assert_int_equal(mtr_json_string(&value, &mem, &text), MTR_JSON_OK);
	assert_int_equal(text.len, 5);
	assert_memory_equal(text.p, "\xf0\x9f\x98\x80\t", 5);
	counted_free(&c, (void *) (uintptr_t) text.p);

	value = root_of("12");
	assert_int_equal(mtr_json_string(&value, &mem, &text), MTR_JSON_MALFORMED);
	/* a literal that the checker would have refused */
	value = (struct mtr_json_value){{"\"\\u0000\"", 8}, MTR_JSON_KIND_STRING};
	assert_int_equal(mtr_json_string(&value, &mem, &text), MTR_JSON_MALFORMED);
	assert_int_equal(c.live, 0);
}

static void
decode(void **state)
{
	static const struct
	{
		const char *raw;
		const char *text; /* NULL: refused */
	} cases[] = {
		{"\"\"", ""},
		{"\"abc\"", "abc"},
		{"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
		{"\"\\u0041\\u00e9\\u20AC\"", "A\xc3\xa9\xe2\x82\xac"},
		{"\"\\u007f\\u0080\\u07ff\\u0800\\uffff\"",
		 "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf"},
		{"\"\\ud800\\udc00\\udbff\\udfff\"",
		 "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
		{"", NULL},
		{"\"", NULL},
		{"abc", NULL},
		{"\"abc", NULL},
		{"abc\"", NULL},
		{"\"a\"b\"", NULL},
		{"\"\\\"", NULL},
		{"\"\\u0041", NULL},
		{"\"\\u00\"", NULL},
		{"\"\\u0000\"", NULL},
		{"\"\\ud800\"", NULL},
		{"\"\\ud800\\u\"", NULL},
		{"\"\n\"", NULL},
		{"\"\xff\"", NULL},
		{"\"\xc3\"", NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		size_t  len = strlen(cases[i].raw);
		char   *out = malloc(len > 2 ? len - 2 : 1);
		ssize_t got;

		assert_non_null(out);
		got = mtr_json_decode(cases[i].raw, len, out);
		if (cases[i].text == NULL)
			assert_int_equal(got, -1);
		else
		{
			assert_int_equal(got, strlen(cases[i].text));
			assert_memory_equal(out, cases[i].text, (size_t) got);
		}
		free(out);
	}
}

static void
escape(void **state)
{
	char   all[0x80];
	char   out[6 * 0x80 + 2];
	char   back[6 * 0x80];
	size_t n;

	n = mtr_json_escape("a\"b\\c/\b\f\n\r\t\x01\x1f\x7f\xc3\xa9", 16, out);
	assert_int_equal(n, 35);
	assert_memory_equal(out,
						"\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0001\\u001f"
						"\x7f\xc3\xa9\"",
						n);
	assert_int_equal(mtr_json_escape(NULL, 0, out), 2);
	assert_memory_equal(out, "\"\"", 2);

	/* every ASCII character but NUL comes back */
	for (int i = 1; i < 0x80; i++)
		all[i - 1] = (char) i;
	n = mtr_json_escape(all, 0x7F, out);
	assert_int_equal(mtr_json_decode(out, n, back), 0x7F);
	assert_memory_equal(back, all, 0x7F);

	/* nothing else is escaped */
	assert_int_equal(mtr_json_escape(" !~/", 4, out), 6);
	assert_memory_equal(out, "\" !~/\"", 6);

	/* the bound is reached and never passed */
	memset(all, 0x01, sizeof(all));
	assert_int_equal(mtr_json_escape(all, sizeof(all), out),
					 mtr_json_escape_max(sizeof(all)));
}

/*
 * Whole words are copied where nothing is to be escaped: every byte value, at every
 * place of strings of up to three words, between plain bytes of the edges of what is
 * plain, beside each of these escaped alone.
 */
static void
escape_in_words(void **state)
{
	static const char around[] = {' ', 'a', '~',    '!',         '#',
								  '[', ']', '\x7f', (char) 0x80, (char) 0xFF};
	char              in[24];
	char              out[6 * sizeof(in) + 2];
	char              one[8];

	(void) state;
	for (size_t a = 0; a < sizeof(around); a++)
		for (size_t len = 1; len <= sizeof(in); len++)
			for (size_t at = 0; at < len; at++)
				for (int c = 0; c < 256; c++)
				{
					size_t escaped;

					memset(in, around[a], len);
					in[at] = (char) c;
					escaped = mtr_json_escape(&in[at], 1, one) - 2;
					assert_int_equal(mtr_json_escape(in, len, out),
									 len + 1 + escaped);
					assert_memory_equal(out + 1, in, at);
					assert_memory_equal(out + 1 + at, one + 1, escaped);
					assert_memory_equal(out + 1 + at + escaped, in + at + 1,
										len - at - 1);
				}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(roots),
		cmocka_unit_test(members),
		cmocka_unit_test(elements),
		cmocka_unit_test(empty_containers),
		cmocka_unit_test(walks_of_what_is_no_container),
		cmocka_unit_test(unchecked_documents_end_early),
		cmocka_unit_test(keys_without_memory),
		cmocka_unit_test(strings),
		cmocka_unit_test(decode),
		cmocka_unit_test(escape),
		cmocka_unit_test(escape_in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
