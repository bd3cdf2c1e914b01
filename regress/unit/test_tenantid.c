/*
 * test_tenantid.c - which words are tenant ids
 */
// SOURCES: extension/core/tenantid.c
#include "core/tenantid.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void
lengths(void **state)
{
	char id[66];

	memset(id, 'a', sizeof(id));
	for (size_t len = 0; len < sizeof(id); len++)
		assert_int_equal(mtr_tenant_id_valid(id, len), len >= 1 && len <= 63);
	assert_false(mtr_tenant_id_valid(NULL, 0));
}

static void
first_byte(void **state)
{
	for (int c = 0; c < 256; c++)
	{
		char id[2] = {(char) c, 'a'};
		bool expected = c != 0 && c < 128 &&
						strchr("abcdefghijklmnopqrstuvwxyz0123456789", c);

		assert_int_equal(mtr_tenant_id_valid(id, 1), expected);
		assert_int_equal(mtr_tenant_id_valid(id, 2), expected);
	}
}

static void
later_bytes(void **state)
{
	char id[63];

	for (size_t at = 1; at < sizeof(id); at++)
	{
		for (int c = 0; c < 256; c++)
		{
			bool expected = c != 0 && c < 128 &&
							strchr("abcdefghijklmnopqrstuvwxyz0123456789_-", c);

			memset(id, '7', sizeof(id));
			id[at] = (char) c;
			assert_int_equal(mtr_tenant_id_valid(id, sizeof(id)), expected);
			assert_int_equal(mtr_tenant_id_valid(id, at + 1), expected);
			assert_true(mtr_tenant_id_valid(id, at));
		}
	}
}

static void
words(void **state)
{
	assert_true(mtr_tenant_id_valid("demo", 4));
	assert_true(mtr_tenant_id_valid("0", 1));
	assert_true(mtr_tenant_id_valid("a-_-", 4));
	assert_false(mtr_tenant_id_valid("Demo", 4));
	assert_false(mtr_tenant_id_valid("-demo", 5));
	assert_false(mtr_tenant_id_valid("_demo", 5));
	assert_false(mtr_tenant_id_valid("de mo", 5));
	assert_false(mtr_tenant_id_valid("demo\n", 5));
	assert_false(mtr_tenant_id_valid("demo\0", 5));
	assert_false(mtr_tenant_id_valid("d\xc3\xa9mo", 5));
	assert_false(mtr_tenant_id_valid("a.b", 3));
	assert_false(mtr_tenant_id_valid("a%62", 4));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lengths),
		cmocka_unit_test(first_byte),
		cmocka_unit_test(later_bytes),
		cmocka_unit_test(words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
