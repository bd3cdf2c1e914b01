/*
 * test_json_number.c - which numbers the server can hold
 *
 * That the server agrees is tested in regress/sql/http_bulk.sql.
 */
// SOURCES: extension/core/json_number.c
#include "core/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define BEFORE 131072
#define AFTER 16383

/* fits looks at a copy in a block of its own exact size */
static bool
fits(const char *number, size_t len)
{
	char *copy = malloc(len);
	bool  answer;

	assert_non_null(copy);
	memcpy(copy, number, len);
	answer = mtr_json_number_fits(copy, len);
	free(copy);
	return answer;
}

/* built is head, n times the digit, tail */
static bool
built(const char *head, char digit, size_t n, const char *tail)
{
	size_t before = strlen(head);
	size_t after = strlen(tail);
	char  *number = malloc(before + n + after);
	bool   answer;

	assert_non_null(number);
	memcpy(number, head, before);
	memset(number + before, digit, n);
	memcpy(number + before + n, tail, after);
	answer = fits(number, before + n + after);
	free(number);
	return answer;
}

static void
check(const char *number, bool expected)
{
	if (fits(number, strlen(number)) != expected)
		fail_msg("%s: not %d", number, expected);
}

static void
digits(void **state)
{
	assert_true(built("", '9', BEFORE, ""));
	assert_true(built("-", '9', BEFORE, ".5"));
	assert_false(built("", '9', BEFORE + 1, ""));
	assert_true(built("0.", '0', AFTER, ""));
	assert_true(built("-7.", '9', AFTER, ""));
	assert_false(built("0.", '0', AFTER + 1, ""));
	assert_false(built("7.", '1', AFTER + 1, ""));
	assert_false(built("7.", '1', 8000000, ""));
	assert_false(built("", '1', 8000000, ""));
}

static void
exponents(void **state)
{
	static const struct
	{
		const char *number;
		bool        fits;
	} cases[] = {
		{"0", true},
		{"-0.0", true},
		{"1e131071", true},
		{"9.99E+131071", true},
		{"-1e131072", false},
		{"0.1e131072", true},
		{"0.1e131073", false},
		{"0.001e131074", true},
		{"0.001e131075", false},
		{"10e131070", true},
		{"10e131071", false},
		{"1e-16383", true},
		{"1e-16384", false},
		{"1.0e-16382", true},
		{"1.0e-16383", false},
		{"1.5e16384", true},
		{"100e-16383", true},
		{"100e-16384", false},
		/* a zero has digits only behind the point */
		{"0e131072", true},
		{"0e1073741822", true},
		{"0e1073741823", false},
		{"0e-16383", true},
		{"0e-16384", false},
		{"0.000e99999999999999999999", false},
		{"1e-99999999999999999999", false},
		{"1e99999999999999999999", false},
		{"1e000000000000000000000001", true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check(cases[i].number, cases[i].fits);
}

static void
exponents_make_up_for_digits(void **state)
{
	assert_true(built("0.", '0', 200000, "1e200001"));
	assert_true(built("0.", '0', 200000, "1e331072"));
	assert_false(built("0.", '0', 200000, "1e331073"));
	assert_false(built("0.", '0', 200000, "1e0"));
	assert_true(built("1", '0', 140000, "e-8929"));
	assert_false(built("1", '0', 140000, "e-8928"));
	/* zeros behind the point are digits, too */
	assert_true(built("1", '0', 140000, "e-16383"));
	assert_false(built("1", '0', 140000, "e-16384"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digits),
		cmocka_unit_test(exponents),
		cmocka_unit_test(exponents_make_up_for_digits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
