/*
 * test_purse_flush.c - what a flush writes of a purse, and the limits of the
 * numbers, each rule by its name
 */
// SOURCES: extension/core/purse.c extension/core/purse_cell.c extension/core/purse_behind.c extension/core/purse_flush.c
#include "core/purse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "purse_case.h"

/* ---- flushes ---- */

static void
a_flush_writes_what_burned_since_the_last(void **state)
{
	int g;

	empty(MTR_PURSE_SOFT, 0);
	g = add(1, 10);
	assert_int_equal(take(15), MTR_TAKE_OK);
	nparts = deltas(0);
	assert_int_equal(nparts, 0); /* it is in flight */
	assert_true(mtr_purse_is_clean(&p));
	mtr_purse_burn(&p, g, 10);
	mtr_purse_burn(&p, DEBT, 5);
	nparts = deltas(15);
	assert_int_equal(nparts, 2);
	assert_part(0, g, 10);
	assert_part(1, DEBT, 5);
	assert_false(mtr_purse_is_clean(&p));

	/* it fails; the next one writes the same and more */
	assert_int_equal(take(1), MTR_TAKE_OK);
	mtr_purse_burn(&p, DEBT, 1);
	flush(16);
	assert_part(1, DEBT, 6);
	assert_true(mtr_purse_is_clean(&p));
	assert_int_equal(deltas(0), 0);
}

static void
not_clean_during_a_flush(void **state)
{
	int g;

	empty(MTR_PURSE_SOFT, 0);
	g = add(1, 10);
	mtr_purse_burn(&p, g, 3);
	nparts = deltas(3);
	mtr_purse_burn(&p, g, -3); /* settled meanwhile */
	assert_false(mtr_purse_is_clean(&p));
	mtr_purse_flushed(&p, part, nparts);
	assert_false(mtr_purse_is_clean(&p));
	flush(0); /* the opposite */
	assert_int_equal(nparts, 0);
}

static void
what_a_flush_books_more_is_carried_by_who_can(void **state)
{
	int g;
	int h;

	empty(MTR_PURSE_SOFT, 0);
	g = add(1, 10);
	h = add(2, 10);
	assert_int_equal(take(15), MTR_TAKE_OK);
	mtr_purse_burn(&p, g, 10);
	mtr_purse_burn(&p, h, 5);
	/* g has nothing left, h has 5 */
	nparts = deltas(20);
	assert_int_equal(nparts, 2);
	assert_part(0, g, 10);
	assert_part(1, h, 10);
	nparts = deltas(21);
	assert_int_equal(nparts, 3);
	assert_part(1, h, 5);
	assert_part(2, DEBT, 6);
	/* it was for usage that has its parts later: then the opposite */
	mtr_purse_flushed(&p, part, nparts);
	assert_int_equal(take(6), MTR_TAKE_OK);
	mtr_purse_burn(&p, h, 5);
	mtr_purse_burn(&p, DEBT, 1);
	flush(0);
	assert_int_equal(nparts, 2);
	assert_part(0, h, 5);
	assert_part(1, DEBT, -5);
	assert_true(mtr_purse_is_clean(&p));
}

static void
what_a_flush_books_less_waits(void **state)
{
	int g;
	int h;

	empty(MTR_PURSE_HARD, 0);
	g = add(1, 10);
	h = add(2, 10);
	assert_int_equal(take(15), MTR_TAKE_OK);
	mtr_purse_burn(&p, g, 3);
	mtr_purse_burn(&p, h, 5);
	/* the last to burn first */
	nparts = deltas(3);
	assert_int_equal(nparts, 1); /* what would be 0 is no part */
	assert_part(0, g, 3);
	mtr_purse_burn(&p, h, 1);
	nparts = deltas(4);
	assert_int_equal(nparts, 2);
	assert_part(0, g, 3);
	assert_part(1, h, 1);
	mtr_purse_flushed(&p, part, nparts);
	assert_int_equal(unwritten(h), 5);
	/* all of it: nothing is on its way */
	assert_int_equal(deltas(0), 0);
	assert_false(p.flushing);
	/* so does what is given back before */
	mtr_purse_burn(&p, h, -6);
	assert_int_equal(deltas(0), 0);
	mtr_purse_burn(&p, g, 1);
	flush(0);
	assert_int_equal(nparts, 2);
	assert_part(0, g, 1);
	assert_part(1, h, -1);
}

static void
unlimited_carries_on_issued(void **state)
{
	empty(MTR_PURSE_UNLIMITED, 0);
	add(1, 10);
	nparts = deltas(1);
	assert_int_equal(nparts, 1);
	assert_part(0, ISSUED, 1);
}

/* ---- limits ---- */

static void
what_fits_is_at_most_the_limit(void **state)
{
	int g;

	empty(MTR_PURSE_HARD, 0);
	assert_true(mtr_purse_fits(&p, MTR_PURSE_MAX));
	g = add(1, MTR_PURSE_MAX - 5);
	assert_true(mtr_purse_fits(&p, 5));
	assert_false(mtr_purse_fits(&p, 6));
	assert_int_equal(add(2, 6), -1);
	add_behind(2, 6, NOW, NEVER);
	add_behind(2, 6, NOW + 5, NEVER);
	assert_int_equal(p.more, 0);
	add_behind(2, 3, NOW, NEVER);
	add_behind(3, 2, NOW + 5, NEVER);
	assert_int_equal(p.more, 2);
	assert_false(mtr_purse_fits(&p, 1));

	/* what is in flight may come back */
	empty(MTR_PURSE_HARD, 0);
	g = add(1, MTR_PURSE_MAX);
	assert_int_equal(take(MTR_PURSE_MAX), MTR_TAKE_OK);
	p.cell[g].refs = 1;
	assert_false(mtr_purse_fits(&p, 1));
	mtr_purse_burn(&p, g, MTR_PURSE_MAX);
	p.cell[g].refs = 0;
	assert_false(mtr_purse_fits(&p, 1));
	flush(MTR_PURSE_MAX);
	assert_true(mtr_purse_fits(&p, MTR_PURSE_MAX));
}

static void
no_debit_is_beyond_the_limit(void **state)
{
	empty(MTR_PURSE_HARD, -MTR_PURSE_MAX);
	add(1, MTR_PURSE_MAX);
	assert_int_equal(mtr_purse_spendable(&p, 0), MTR_PURSE_MAX);
	assert_int_equal(take(MTR_PURSE_MAX + 1), MTR_TAKE_SHORT);
	assert_int_equal(take(INT64_MAX), MTR_TAKE_SHORT);
	assert_int_equal(take(MTR_PURSE_MAX), MTR_TAKE_OK);
	assert_int_equal(take(MTR_PURSE_MAX), MTR_TAKE_OK);
	assert_int_equal(p.available, -MTR_PURSE_MAX);
	assert_int_equal(take(1), MTR_TAKE_SHORT);
}

static void
soft_debt_ends_at_the_limit(void **state)
{
	empty(MTR_PURSE_SOFT, 0);
	assert_int_equal(take(MTR_PURSE_MAX), MTR_TAKE_OK);
	assert_int_equal(take(1), MTR_TAKE_SHORT);
	mtr_purse_burn(&p, DEBT, MTR_PURSE_MAX);
	flush(MTR_PURSE_MAX);
	/* repaid, but a crash would bring it back */
	assert_int_equal(add(1, MTR_PURSE_MAX), 0);
	assert_int_equal(p.debt, 0);
	assert_int_equal(take(1), MTR_TAKE_SHORT);
	flush(0);
	assert_int_equal(take(MTR_PURSE_MAX), MTR_TAKE_OK);
}

static void
unlimited_counts_up_to_the_limit_before_a_flush(void **state)
{
	empty(MTR_PURSE_UNLIMITED, 0);
	assert_int_equal(take(MTR_PURSE_MAX), MTR_TAKE_OK);
	assert_int_equal(take(1), MTR_TAKE_AGAIN);
	assert_true(p.reload_wanted);
	mtr_purse_burn(&p, ISSUED, MTR_PURSE_MAX);
	flush(MTR_PURSE_MAX);
	assert_int_equal(take(MTR_PURSE_MAX), MTR_TAKE_OK);
	mtr_purse_back(&p, NOW, ISSUED, MTR_PURSE_MAX);
	mtr_purse_back(&p, NOW, ISSUED, MTR_PURSE_MAX); /* a refund */
	assert_int_equal(take(MTR_PURSE_MAX), MTR_TAKE_OK);
}

static void
never_is_no_event(void **state)
{
	int g;

	empty(MTR_PURSE_HARD, 0);
	g = add(1, 10);
	mtr_purse_advance(&p, INT64_MAX);
	assert_int_equal(p.cell[g].state, MTR_CELL_LIVE);
	assert_int_equal(p.available, 10);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flush_writes_what_burned_since_the_last),
		cmocka_unit_test(not_clean_during_a_flush),
		cmocka_unit_test(what_a_flush_books_more_is_carried_by_who_can),
		cmocka_unit_test(what_a_flush_books_less_waits),
		cmocka_unit_test(unlimited_carries_on_issued),
		cmocka_unit_test(what_fits_is_at_most_the_limit),
		cmocka_unit_test(no_debit_is_beyond_the_limit),
		cmocka_unit_test(soft_debt_ends_at_the_limit),
		cmocka_unit_test(unlimited_counts_up_to_the_limit_before_a_flush),
		cmocka_unit_test(never_is_no_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
