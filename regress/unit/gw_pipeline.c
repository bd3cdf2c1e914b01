/*
 * gw_pipeline.c - calls leave in the order in which they came
 */
// SOURCES: gateway/pipeline.c gateway/pace.c
#include "../../gateway/pipeline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#define DEPTH 4

/* The pipeline never looks into a flight; these stand for addresses. */
struct Flight
{
	int number;
};

static struct Flight flights[100];
static Pipeline      pipeline;

static int
begin(void **state)
{
	pipeline_init(&pipeline, DEPTH);
	return 0;
}

static int
end(void **state)
{
	pipeline_free(&pipeline);
	return 0;
}

static void
calls_leave_in_order_round_the_ring(void **state)
{
	Tenant   slow;
	unsigned in = 0;
	unsigned out = 0;

	while (out < 90)
	{
		while (pipeline_has_room(&pipeline))
		{
			pipeline_append(&pipeline, &flights[in], (in + 1) * 2, 0);
			in++;
		}
		for (unsigned i = 0; i < pipeline.count; i++)
			assert_ptr_equal(pipeline_at(&pipeline, i), &flights[out + i]);
		assert_true(pipeline_carries(&pipeline, (out + 1) * 2));
		assert_true(pipeline_carries(&pipeline, in * 2));
		assert_false(pipeline_carries(&pipeline, out * 2));
		assert_false(pipeline_carries(&pipeline, (in + 1) * 2));
		assert_ptr_equal(pipeline_take(&pipeline, 0, &slow), &flights[out]);
		assert_true(slow == 0);
		out++;
	}
	assert_int_equal(in - out, DEPTH - 1);
}

static void
a_slow_answer_closes_the_window(void **state)
{
	Tenant slow;

	pipeline.window = DEPTH;
	for (int i = 0; i < 3; i++)
		pipeline_append(&pipeline, &flights[i], 2, 1000);
	assert_true(pipeline_stalled_by(&pipeline, 1000 + PACE_SLOW_MS - 1) == 0);
	assert_true(pipeline_stalled_by(&pipeline, 1000 + PACE_SLOW_MS) == 2);
	pipeline_take(&pipeline, 1000 + PACE_SLOW_MS, &slow);
	assert_true(slow == 2);
	assert_int_equal(pipeline.window, 1);
	assert_false(pipeline_has_room(&pipeline));
	/* the next one's time begins with the answer */
	assert_true(pipeline_stalled_by(&pipeline, 1000 + PACE_SLOW_MS) == 0);
	pipeline_take(&pipeline, 1001 + PACE_SLOW_MS, &slow);
	assert_true(slow == 0);
	assert_int_equal(pipeline.window, 2);
	assert_true(pipeline_has_room(&pipeline));
}

static void
nothing_stands_behind_a_marked_call(void **state)
{
	Tenant slow;

	pipeline.window = DEPTH;
	pipeline_append(&pipeline, &flights[0], 2, 0);
	pipeline_append(&pipeline, &flights[1], 4 | TENANT_MARK, 0);
	assert_false(pipeline_has_room(&pipeline));
	assert_true(pipeline_carries(&pipeline, 4));
	pipeline_take(&pipeline, 0, &slow);
	assert_false(pipeline_has_room(&pipeline));
	pipeline_take(&pipeline, 0, &slow);
	assert_true(pipeline_has_room(&pipeline));
	assert_int_equal(pipeline.marked, 0);
}

static void
a_reset_forgets_everything(void **state)
{
	pipeline.window = DEPTH;
	pipeline_append(&pipeline, &flights[0], 2 | TENANT_MARK, 0);
	pipeline_reset(&pipeline);
	assert_int_equal(pipeline.count, 0);
	assert_int_equal(pipeline.window, 1);
	assert_true(pipeline_has_room(&pipeline));
	assert_false(pipeline_carries(&pipeline, 2));
	assert_true(pipeline_stalled_by(&pipeline, INT64_MAX) == 0);
}

int
main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(calls_leave_in_order_round_the_ring),
		TEST(a_slow_answer_closes_the_window),
		TEST(nothing_stands_behind_a_marked_call),
		TEST(a_reset_forgets_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
