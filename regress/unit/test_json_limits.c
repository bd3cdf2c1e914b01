/*
 * test_json_limits.c - large objects, memory, and pointers that do not fit
 */
// SOURCES: extension/core/json_check.c extension/core/json_keys.c
// SOURCES: extension/core/json_number.c extension/core/json_text.c
// SOURCES: extension/core/utf8.c
#include "core/json.h"

#include "core/json_keys.h"
#include "json_mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/*
 * object_of writes {"<prefix>0":0,...} with n keys, and the key of number
 * again at the end unless again is negative.  The caller frees it.
 */
static char *
object_of(int n, const char *prefix, int again, size_t *len)
{
	size_t room = (size_t) (n + 1) * (strlen(prefix) + 16) + 3;
	char  *s = malloc(room);
	size_t at = 0;

	assert_non_null(s);
	s[at++] = '{';
	for (int i = 0; i < n + (again >= 0); i++)
	{
		int written = snprintf(s + at, room - at, "%s\"%s%x\":0",
							   i > 0 ? "," : "", prefix, i < n ? i : again);

		assert_true(written > 0 && (size_t) written < room - at);
		at += (size_t) written;
	}
	s[at++] = '}';
	*len = at;
	return s;
}

/* a quadratic search through these would take hours */
static void
many_keys(void **state)
{
	static const int again[] = {-1, 0, 1, 149999, 299998, 299999};

	for (size_t i = 0; i < sizeof(again) / sizeof(again[0]); i++)
	{
		struct counted         c = {0};
		struct mtr_json_mem    mem = {counted_alloc, counted_free, &c};
		struct mtr_json_report report;
		size_t                 len;
		char                  *s = object_of(300000, "", again[i], &len);

		assert_int_equal(mtr_json_check(s, len, &mem, &report),
						 again[i] < 0 ? MTR_JSON_OK : MTR_JSON_DUPLICATE_KEY);
		if (again[i] >= 0)
		{
			char expected[16];
			int  n = snprintf(expected, sizeof(expected), "/%x", again[i]);

			assert_int_equal(report.pointer_len, n);
			assert_memory_equal(report.pointer, expected, report.pointer_len);
			/* the second one is the last member: "key":0} */
			assert_int_equal(report.offset, len - (size_t) n - 4);
		}
		assert_int_equal(c.live, 0);
		assert_true(c.bytes > 0 && c.bytes <= len * MTR_JSON_MEM_PER_BYTE);
		free(s);
	}
}

static void
memory_is_bounded_for_the_shortest_keys(void **state)
{
	/* {"":0,"":0,... is the most keys a byte can buy */
	for (size_t n = 1; n < 5000; n = n * 5 / 4 + 1)
	{
		struct counted         c = {0};
		struct mtr_json_mem    mem = {counted_alloc, counted_free, &c};
		struct mtr_json_report report;
		size_t                 len = n * 5 + 1;
		char                  *s = malloc(len);

		assert_non_null(s);
		for (size_t i = 0; i < n; i++)
			memcpy(s + i * 5, i == 0 ? "{\"\":0" : ",\"\":0", 5);
		s[len - 1] = '}';
		assert_int_equal(mtr_json_check(s, len, &mem, &report),
						 n > 1 ? MTR_JSON_DUPLICATE_KEY : MTR_JSON_OK);
		if (n > 1)
			assert_int_equal(report.offset, 6);
		assert_int_equal(c.live, 0);
		assert_true(c.bytes <= len * MTR_JSON_MEM_PER_BYTE);
		free(s);
	}
}

static void
memory_follows_the_open_objects(void **state)
{
	/* a thousand rows of 60 keys: never more than 64 keys at once */
	struct counted         c = {0};
	struct mtr_json_mem    mem = {counted_alloc, counted_free, &c};
	struct mtr_json_report report;
	size_t                 row_len;
	char                  *row = object_of(60, "k", -1, &row_len);
	size_t                 len = 1000 * (row_len + 1) + 1;
	char                  *s = malloc(len);

	assert_non_null(s);
	for (size_t i = 0; i < 1000; i++)
	{
		s[i * (row_len + 1)] = i == 0 ? '[' : ',';
		memcpy(s + i * (row_len + 1) + 1, row, row_len);
	}
	s[len - 1] = ']';
	assert_int_equal(mtr_json_check(s, len, &mem, &report), MTR_JSON_OK);
	assert_int_equal(c.calls, 0);
	free(row);
	free(s);
}

static void
at_and_above_the_keys_that_need_no_memory(void **state)
{
	for (int n = MTR_JSON_KEYS_INLINE - 1; n <= MTR_JSON_KEYS_INLINE + 1; n++)
	{
		struct mtr_json_report report;
		size_t                 len;
		char                  *s = object_of(n, "k", -1, &len);

		assert_int_equal(mtr_json_check(s, len, NULL, &report),
						 n <= MTR_JSON_KEYS_INLINE ? MTR_JSON_OK
												   : MTR_JSON_MEMORY);
		free(s);
	}
}

static void
memory_that_fails(void **state)
{
	size_t len;
	char  *s = object_of(1000, "k", -1, &len);

	/* 1,000 keys: 128, 256, 512 and 1,024 entries */
	for (size_t fail_at = 1; fail_at <= 5; fail_at++)
	{
		struct counted         c = {.fail_at = fail_at};
		struct mtr_json_mem    mem = {counted_alloc, counted_free, &c};
		struct mtr_json_report report;

		assert_int_equal(mtr_json_check(s, len, &mem, &report),
						 fail_at <= 4 ? MTR_JSON_MEMORY : MTR_JSON_OK);
		assert_int_equal(c.live, 0);
	}
	free(s);
}

static void *arena_next;

static void *
arena_alloc(void *ctx, size_t size)
{
	char *block = arena_next;

	arena_next = block + size;
	assert_true(block + size <= (char *) ctx);
	return block;
}

static void
memory_without_free(void **state)
{
	static uint64_t        arena[8192];
	struct mtr_json_mem    mem = {arena_alloc, NULL, arena + 8192};
	struct mtr_json_report report;
	size_t                 len;
	char                  *s = object_of(1000, "k", 17, &len);

	arena_next = arena;
	assert_int_equal(mtr_json_check(s, len, &mem, &report),
					 MTR_JSON_DUPLICATE_KEY);
	assert_memory_equal(report.pointer, "/k11", report.pointer_len);
	free(s);
}

static void
documents_beyond_the_limit(void **state)
{
	struct mtr_json_report report;

	/* refused by its length: not one byte is read */
	assert_int_equal(
		mtr_json_check(NULL, (size_t) MTR_JSON_MAX_BYTES + 1, NULL, &report),
		MTR_JSON_MEMORY);
	assert_int_equal(report.offset, 0);
	assert_int_equal(report.pointer_len, 0);
	/* at the limit it is read, and this one fails at its first byte */
	assert_int_equal(mtr_json_check("x", MTR_JSON_MAX_BYTES, NULL, &report),
					 MTR_JSON_MALFORMED);
}

/* check_cut: a key of n bytes, then a bad value below it */
static void
check_cut(size_t n, const char *character, bool cut)
{
	struct mtr_json_report report;
	size_t                 width = strlen(character);
	char                   s[2048];
	size_t                 at = 0;

	memcpy(s, "{\"a\":[{\"", 8);
	at = 8;
	for (size_t i = 0; i < n; i++, at += width)
		memcpy(s + at, character, width);
	memcpy(s + at, "\":x}]}", 6);
	at += 6;
	assert_int_equal(mtr_json_check(s, at, NULL, &report), MTR_JSON_MALFORMED);
	assert_int_equal(report.pointer_cut, cut);
	if (cut)
		assert_int_equal(report.pointer_len, 4);
	else
		assert_true(report.pointer_len > 4 &&
					report.pointer_len <= MTR_JSON_POINTER_BYTES);
	assert_memory_equal(report.pointer, "/a/0", 4);
}

static void
pointers_are_cut_between_tokens(void **state)
{
	/* "/a/0/" leaves 507 bytes */
	check_cut(506, "k", false);
	check_cut(507, "k", false);
	check_cut(508, "k", true);
	check_cut(253, "~", false);
	check_cut(254, "~", true);
	check_cut(253, "\xc3\xa4", false);
	check_cut(254, "\xc3\xa4", true);
	check_cut(1000, "/", true);
	check_cut(84, "\\u00e4\xc3\xa4\xc3\xa4", false);
	check_cut(85, "\\u00e4\xc3\xa4\xc3\xa4", true);
}

static void
pointers_count_elements(void **state)
{
	enum
	{
		ELEMENTS = 100001
	};
	struct mtr_json_report report;
	char                  *s = malloc(2 * ELEMENTS + 2);
	size_t                 at = 0;

	assert_non_null(s);
	for (int i = 0; i < ELEMENTS; i++)
	{
		s[at++] = i == 0 ? '[' : ',';
		s[at++] = i == ELEMENTS - 1 ? 'x' : '1';
	}
	s[at++] = ']';
	assert_int_equal(mtr_json_check(s, at, NULL, &report), MTR_JSON_MALFORMED);
	assert_int_equal(report.pointer_len, 7);
	assert_memory_equal(report.pointer, "/100000", 7);
	free(s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_keys),
		cmocka_unit_test(memory_is_bounded_for_the_shortest_keys),
		cmocka_unit_test(memory_follows_the_open_objects),
		cmocka_unit_test(at_and_above_the_keys_that_need_no_memory),
		cmocka_unit_test(memory_that_fails),
		cmocka_unit_test(memory_without_free),
		cmocka_unit_test(documents_beyond_the_limit),
		cmocka_unit_test(pointers_are_cut_between_tokens),
		cmocka_unit_test(pointers_count_elements),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
