/*
 * test_price.c - prices are exact, in any order and with any part undone
 */
// SOURCES: extension/core/price.c
#include "core/price.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define UNTOUCHED INT64_C(-77)

static void
check_cost(int64_t quantity, int64_t num, int64_t per, int64_t expected)
{
	int64_t cost = UNTOUCHED;

	assert_true(mtr_price_cost(quantity, num, per, &cost));
	assert_int_equal(cost, expected);
}

static void
check_step(int64_t from, int64_t qty, int64_t num, int64_t per,
		   int64_t expected)
{
	int64_t cost = UNTOUCHED;

	assert_true(mtr_price_step(from, qty, num, per, &cost));
	assert_int_equal(cost, expected);
}

static void
cost_rounds_down(void **state)
{
	check_cost(0, 300000, 1000000000, 0);
	check_cost(1000, 300000, 1000000000, 0);
	check_cost(3333, 300000, 1000000000, 0);
	check_cost(3334, 300000, 1000000000, 1);
	check_cost(1000000000, 300000, 1000000000, 300000);
	check_cost(999999999, 300000, 1000000000, 299999);
	check_cost(12345, 0, 1, 0);
	/* "MB" is spelled by the divisor */
	check_cost(1048576, 7, 1048576, 7);
	check_cost(1048575, 7, 1048576, 6);
}

static void
cost_at_the_limits_of_int64(void **state)
{
	int64_t cost = UNTOUCHED;

	check_cost(INT64_MAX, 1, 1, INT64_MAX);
	check_cost(INT64_MAX, 2, 2, INT64_MAX);
	check_cost(INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX);
	check_cost(INT64_MAX, INT64_MAX - 1, INT64_MAX, INT64_MAX - 1);
	check_cost(INT64_MAX, 1, INT64_MAX, 1);
	check_cost(INT64_MAX - 1, 1, INT64_MAX, 0);
	check_cost(INT64_MAX / 2, 2, 1, INT64_MAX - 1);

	assert_false(mtr_price_cost(INT64_MAX, 2, 1, &cost));
	assert_false(mtr_price_cost(INT64_MAX / 2 + 1, 2, 1, &cost));
	assert_false(mtr_price_cost(INT64_MAX, INT64_MAX, 1, &cost));
	assert_false(mtr_price_cost(INT64_MAX, INT64_MAX, INT64_MAX - 1, &cost));
	assert_int_equal(cost, UNTOUCHED);
}

static void
total_has_no_limit(void **state)
{
	__int128 square = (__int128) INT64_MAX * INT64_MAX;

	assert_true(mtr_price_total(INT64_MAX, INT64_MAX, 1) == square);
	assert_true(mtr_price_total(INT64_MAX, INT64_MAX, 2) == square / 2);
	assert_true(mtr_price_total(0, INT64_MAX, 1) == 0);
}

static void
what_fits_int64(void **state)
{
	assert_true(mtr_price_fits(0, INT64_MAX, 1));
	assert_true(mtr_price_fits(INT64_MAX, 0, 1));
	assert_true(mtr_price_fits(INT64_MAX, 1, 1));
	assert_true(mtr_price_fits(INT64_MAX, INT64_MAX, INT64_MAX));
	assert_true(mtr_price_fits(4, INT64_MAX / 4, 1));
	assert_true(mtr_price_fits(8, INT64_MAX / 4, 2));
	assert_false(mtr_price_fits(5, INT64_MAX / 4, 1));
	assert_false(mtr_price_fits(9, INT64_MAX / 4, 2));
	assert_false(mtr_price_fits(INT64_MAX, 2, 1));
	assert_false(mtr_price_fits(INT64_MAX, INT64_MAX, INT64_MAX - 1));
}

static void
step_at_the_limits_of_int64(void **state)
{
	int64_t cost = UNTOUCHED;

	check_step(INT64_MAX, 0, INT64_MAX, 1, 0);
	check_step(INT64_MAX - 1, 1, 1, 1, 1);
	check_step(0, INT64_MAX, 1, 1, INT64_MAX);
	/* f(from) is far beyond int64, the difference is not */
	check_step(INT64_MAX - 1, 1, INT64_MAX, 1, INT64_MAX);

	assert_false(mtr_price_step(INT64_MAX, 1, 1, 1, &cost));
	assert_false(mtr_price_step(1, INT64_MAX, 0, 1, &cost));
	assert_false(mtr_price_step(INT64_MAX, INT64_MAX, 0, 1, &cost));
	assert_false(mtr_price_step(INT64_MAX - 2, 2, INT64_MAX, 1, &cost));
	assert_false(mtr_price_step(0, INT64_MAX, 2, 1, &cost));
	assert_int_equal(cost, UNTOUCHED);
}

static void
steps_agree_with_small_numbers(void **state)
{
	for (int64_t per = 1; per <= 12; per++)
		for (int64_t num = 0; num <= 12; num++)
			for (int64_t from = 0; from <= 30; from++)
				for (int64_t qty = 0; qty <= 30; qty++)
					check_step(from, qty, num, per,
							   (from + qty) * num / per - from * num / per);
}

/* a small generator: the same numbers in every run */
static uint32_t
next_random(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t) (*seed >> 33);
}

/*
 * A counter as the gate keeps it.  Calls pay when they start and are undone, in
 * whatever order they end, by what their bytes cost at that moment.
 */
struct counter
{
	int64_t x;
	int64_t paid;
};

static void
pay(struct counter *c, int64_t qty)
{
	int64_t cost;

	assert_true(mtr_price_step(c->x, qty, 300000, 1000000000, &cost));
	c->x += qty;
	c->paid += cost;
}

static void
undo(struct counter *c, int64_t qty)
{
	int64_t cost;

	assert_true(mtr_price_step(c->x - qty, qty, 300000, 1000000000, &cost));
	c->x -= qty;
	c->paid -= cost;
}

static void
a_million_answers_cost_exactly_300000(void **state)
{
	enum
	{
		IN_FLIGHT = 64,
		WANTED = 1000000,
		BYTES = 1000
	};
	uint64_t       seed = 1;
	struct counter c = {0, 0};
	int            in_flight = 0;
	int            kept = 0;
	int            undone = 0;

	while (kept < WANTED)
	{
		if (in_flight < IN_FLIGHT && kept + in_flight < WANTED &&
			next_random(&seed) % 2 == 0)
		{
			pay(&c, BYTES);
			in_flight++;
		}
		else if (in_flight > 0)
		{
			in_flight--;
			if (next_random(&seed) % 10 == 0)
			{
				undo(&c, BYTES);
				undone++;
			}
			else
				kept++;
		}
	}
	assert_int_equal(c.x, INT64_C(1000000000));
	assert_int_equal(c.paid, 300000);
	assert_true(undone > 100000 && undone < 125000);
}

static void
sizes_of_every_kind_add_up(void **state)
{
	uint64_t       seed = 7;
	struct counter c = {0, 0};
	int64_t        expected;

	for (int i = 0; i < 200000; i++)
	{
		int64_t qty = next_random(&seed) % 100000;

		pay(&c, qty);
		if (next_random(&seed) % 10 == 0)
			undo(&c, qty);
	}
	assert_true(mtr_price_cost(c.x, 300000, 1000000000, &expected));
	assert_int_equal(c.paid, expected);
	while (c.x > 0)
		undo(&c, c.x < 12345 ? c.x : 12345);
	assert_int_equal(c.paid, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cost_rounds_down),
		cmocka_unit_test(cost_at_the_limits_of_int64),
		cmocka_unit_test(total_has_no_limit),
		cmocka_unit_test(what_fits_int64),
		cmocka_unit_test(step_at_the_limits_of_int64),
		cmocka_unit_test(steps_agree_with_small_numbers),
		cmocka_unit_test(a_million_answers_cost_exactly_300000),
		cmocka_unit_test(sizes_of_every_kind_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
