/*
 * gw_pace.c - how many calls a connection may carry, and who is slow
 */
// SOURCES: gateway/pace.c
#include "../../gateway/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define DEPTH 16

static void
fast_answers_open_the_window_one_by_one(void **state)
{
	unsigned window = 1;

	for (unsigned i = 2; i <= DEPTH; i++)
	{
		window = pace_window(window, DEPTH, 0);
		assert_int_equal(window, i);
	}
	assert_int_equal(pace_window(window, DEPTH, 9), DEPTH);
	assert_int_equal(pace_window(1, 1, 0), 1);
}

static void
slower_answers_close_it(void **state)
{
	assert_int_equal(pace_window(16, DEPTH, 10), 8);
	assert_int_equal(pace_window(16, DEPTH, PACE_SLOW_MS - 1), 8);
	assert_int_equal(pace_window(16, DEPTH, PACE_SLOW_MS), 1);
	assert_int_equal(pace_window(16, DEPTH, INT64_MAX), 1);
	assert_int_equal(pace_window(1, DEPTH, 50), 1);
}

static void
tenants_are_told_apart(void **state)
{
	Tenant seen[26 * 26];
	int    count = 0;

	for (char a = 'a'; a <= 'z'; a++)
		for (char b = 'a'; b <= 'z'; b++)
		{
			char   name[] = {a, b};
			Tenant tenant = pace_tenant((Slice){name, 2}, 7);

			assert_true(tenant != 0);
			assert_int_equal(tenant & TENANT_MARK, 0);
			assert_true(pace_is_same(tenant, tenant | TENANT_MARK));
			for (int i = 0; i < count; i++)
				assert_false(pace_is_same(seen[i], tenant));
			seen[count++] = tenant;
		}
	assert_true(pace_tenant(SLICE_LITERAL("a"), 1) !=
				pace_tenant(SLICE_LITERAL("a"), 2));
	assert_true(pace_tenant(SLICE_NONE, 1) == pace_tenant(SLICE_NONE, 1));
}

static void
the_slow_are_remembered_for_a_while(void **state)
{
	SlowTenants slow = {0};
	Tenant      a = pace_tenant(SLICE_LITERAL("a"), 1);
	Tenant      b = pace_tenant(SLICE_LITERAL("b"), 1);

	assert_false(pace_is_slow(&slow, a, 0));
	pace_note_slow(&slow, a | TENANT_MARK, 1000);
	assert_true(pace_is_slow(&slow, a, 1000));
	assert_true(pace_is_slow(&slow, a, 1000 + PACE_MEMORY_MS - 1));
	assert_false(pace_is_slow(&slow, a, 1000 + PACE_MEMORY_MS));
	assert_false(pace_is_slow(&slow, b, 1000));
	/* another one does not prolong it, another slow call does */
	pace_note_slow(&slow, b, 1500);
	assert_false(pace_is_slow(&slow, a, 1000 + PACE_MEMORY_MS));
	pace_note_slow(&slow, a, 1600);
	assert_true(pace_is_slow(&slow, a, 1000 + PACE_MEMORY_MS));
	assert_false(pace_is_slow(&slow, b, 1500 + PACE_MEMORY_MS));
}

static void
when_the_table_is_full_the_oldest_is_forgotten(void **state)
{
	SlowTenants slow = {0};

	for (Tenant t = 1; t <= PACE_TENANTS + 1; t++)
		pace_note_slow(&slow, t * 2, (int64_t) t);
	assert_false(pace_is_slow(&slow, 2, 100));
	for (Tenant t = 2; t <= PACE_TENANTS + 1; t++)
		assert_true(pace_is_slow(&slow, t * 2, 100));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fast_answers_open_the_window_one_by_one),
		cmocka_unit_test(slower_answers_close_it),
		cmocka_unit_test(tenants_are_told_apart),
		cmocka_unit_test(the_slow_are_remembered_for_a_while),
		cmocka_unit_test(when_the_table_is_full_the_oldest_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
