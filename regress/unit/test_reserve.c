/*
 * test_reserve.c - what is paid for before it is used, each rule by its name
 */
// SOURCES: extension/core/reserve.c extension/core/purse.c extension/core/purse_cell.c extension/core/purse_behind.c extension/core/purse_flush.c
#include "core/reserve.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "purse_case.h"

static struct mtr_reserve r;

/* takes an amount for a quantity */
static void
reserve(int64_t qty, int64_t amount)
{
	const int64_t own[MTR_PURSE_SOURCES] = {0};

	nparts = 0;
	if (amount > 0)
		assert_int_equal(take(amount), MTR_TAKE_OK);
	mtr_reserve_begin(&p, &r, qty, part, own, nparts);
}

static int64_t
settle(int64_t qty)
{
	return mtr_reserve_settle(&p, &r, qty);
}

static void
release(int64_t worth)
{
	mtr_reserve_release(&p, NOW, &r, worth);
}

static void
begun_it_keeps_all_and_burns_nothing(void **state)
{
	int a;

	empty(MTR_PURSE_HARD, 0);
	a = add(1, 100);
	reserve(1000, 30);
	assert_int_equal(mtr_reserve_left(&r), 1000);
	assert_int_equal(mtr_reserve_left_uc(&r), 30);
	assert_int_equal(p.available, 70);
	assert_int_equal(p.cell[a].refs, 1);
	assert_true(mtr_purse_is_clean(&p));
}

static void
settled_whole_it_burns_all(void **state)
{
	int a;

	empty(MTR_PURSE_HARD, 0);
	a = add(1, 100);
	reserve(1000, 30);
	assert_int_equal(settle(1000), 30);
	assert_int_equal(unwritten(a), 30);
	assert_int_equal(mtr_reserve_left(&r), 0);
	assert_int_equal(mtr_reserve_left_uc(&r), 0);
	assert_int_equal(p.cell[a].refs, 0);
	release(0);
	assert_int_equal(p.available, 70);
	assert_int_equal(unwritten(a), 30);
}

static void
released_whole_it_gives_all_back(void **state)
{
	int a;

	empty(MTR_PURSE_HARD, 0);
	a = add(1, 100);
	reserve(1000, 30);
	release(30);
	assert_int_equal(p.available, 100);
	assert_int_equal(remaining(a), 100);
	assert_int_equal(p.cell[a].refs, 0);
	assert_int_equal(mtr_reserve_left(&r), 0);
	assert_int_equal(mtr_reserve_left_uc(&r), 0);
	assert_true(mtr_purse_is_clean(&p));
}

/* a piece that costs less than a micro-credit costs nothing, a thousand do not */
static void
pieces_burn_their_share_of_the_whole(void **state)
{
	int64_t burned = 0;

	empty(MTR_PURSE_HARD, 0);
	(void) add(1, 1000);
	reserve(1000000, 300);
	for (int i = 1; i <= 1000; i++)
	{
		burned += settle(1000);
		assert_int_equal(burned, 300 * i / 1000);
		assert_int_equal(mtr_reserve_left_uc(&r), 300 - burned);
	}
	assert_int_equal(burned, 300);
	assert_int_equal(p.available, 700);
}

static void
nothing_settled_burns_nothing(void **state)
{
	empty(MTR_PURSE_HARD, 0);
	(void) add(1, 100);
	reserve(10, 30);
	assert_int_equal(settle(0), 0);
	assert_int_equal(mtr_reserve_left(&r), 10);
	assert_true(mtr_purse_is_clean(&p));
}

static void
what_burns_first_is_used_first_and_let_go(void **state)
{
	int a;
	int b;

	empty(MTR_PURSE_SOFT, 0);
	a = add_until(1, 10, NOW, NOW + 1);
	b = add(2, 10);
	reserve(30, 30);
	assert_int_equal(p.cell[a].refs + p.cell[b].refs + p.cell[DEBT].refs, 3);
	assert_int_equal(settle(9), 9);
	assert_int_equal(unwritten(a), 9);
	assert_int_equal(p.cell[a].refs, 1);
	assert_int_equal(settle(6), 6);
	assert_int_equal(unwritten(a), 10);
	assert_int_equal(unwritten(b), 5);
	assert_int_equal(p.cell[a].refs, 0);
	assert_int_equal(p.cell[b].refs, 1);
	assert_int_equal(r.n, 2);

	release(15);
	assert_int_equal(p.debt, 0);
	assert_int_equal(remaining(b), 5);
	assert_int_equal(p.cell[b].refs + p.cell[DEBT].refs, 0);
	assert_int_equal(unwritten(b), 5);
	assert_int_equal(unwritten(DEBT), 0);
}

static void
what_ended_meanwhile_does_not_come_back(void **state)
{
	int a;

	empty(MTR_PURSE_HARD, 0);
	a = add_until(1, 10, NOW, NOW + 5);
	reserve(10, 10);
	assert_int_equal(settle(4), 4);
	mtr_reserve_release(&p, NOW + 5, &r, 6);
	assert_int_equal(p.available, 0);
	assert_int_equal(unwritten(a), 4);
}

/* others were charged and undone meanwhile: the rest is at another place */
static void
what_the_rest_is_worth_now_is_settled(void **state)
{
	int a;

	empty(MTR_PURSE_HARD, 0);
	a = add(1, 100);
	reserve(3, 10);
	assert_int_equal(settle(1), 3);
	release(6); /* and not 7 */
	assert_int_equal(p.available, 96);
	assert_int_equal(unwritten(a), 4);
	reserve(3, 10);
	assert_int_equal(settle(1), 3);
	release(8);
	assert_int_equal(p.available, 94);
	assert_int_equal(unwritten(a), 6);
}

static void
issued_is_counted_alone(void **state)
{
	empty(MTR_PURSE_UNLIMITED, 0);
	reserve(100, 50);
	assert_int_equal(p.cell[ISSUED].refs, 0);
	assert_int_equal(settle(20), 10);
	assert_int_equal(unwritten(ISSUED), 10);
	release(40);
	assert_int_equal(unwritten(ISSUED), 10);
	assert_int_equal(p.cell[ISSUED].taken, 10);
	flush(10);
	assert_int_equal(p.cell[ISSUED].taken, 0);
}

static void
what_is_free_has_no_parts(void **state)
{
	empty(MTR_PURSE_HARD, 0);
	reserve(100, 0);
	assert_int_equal(r.n, 0);
	assert_int_equal(settle(60), 0);
	assert_int_equal(mtr_reserve_left(&r), 40);
	release(0);
	assert_true(mtr_purse_is_clean(&p));
}

/* paid with what comes back at the commit: before it the purse has not paid */
static void
own_refunds_stay_with_their_transaction(void **state)
{
	int64_t own[MTR_PURSE_SOURCES] = {4};
	int     a;

	empty(MTR_PURSE_HARD, 0);
	a = add(1, 100);
	assert_int_equal(take(10), MTR_TAKE_OK); /* refunded at commit */
	assert_int_equal(take(6), MTR_TAKE_OK);
	part[0].amount = 10;
	mtr_reserve_begin(&p, &r, 10, part, own, 1);
	assert_int_equal(mtr_reserve_left_uc(&r), 10);
	release(10);
	assert_int_equal(remaining(a), 90);

	assert_int_equal(take(6), MTR_TAKE_OK);
	part[0].amount = 10;
	mtr_reserve_begin(&p, &r, 10, part, own, 1);
	mtr_reserve_commit(&r);
	mtr_purse_back(&p, NOW, a, 10 - 4); /* the rest of the refund */
	mtr_purse_settle(&p, NOW, 0);
	assert_int_equal(remaining(a), 90);
	assert_int_equal(settle(5), 5);
	release(5);
	assert_int_equal(remaining(a), 95);
	assert_int_equal(unwritten(a), 5);
}

static void
the_largest_quantity_and_amount_fit(void **state)
{
	const int64_t qty = INT64_MAX / 4;

	empty(MTR_PURSE_HARD, 0);
	(void) add(1, MTR_PURSE_MAX);
	reserve(qty, MTR_PURSE_MAX);
	assert_int_equal(settle(qty - 1), MTR_PURSE_MAX - 1);
	assert_int_equal(settle(1), 1);
	assert_int_equal(p.available, 0);
}

static void
its_grants_keep_their_cells(void **state)
{
	int cell;

	empty(MTR_PURSE_HARD, 0);
	fill();
	reserve(40, 40);
	assert_int_equal(add(1, 10), -1);
	assert_int_equal(settle(10), 10);
	assert_int_equal(add(1, 10), -1); /* it is not written yet */
	flush(10);
	cell = add(1, 10);
	assert_int_not_equal(cell, -1);
	assert_int_equal(add(2, 10), -1);
	release(30);
	assert_int_equal(p.available, 80);
}

static void
so_many_cells_may_be_held(void **state)
{
	const int64_t    own[MTR_PURSE_SOURCES] = {0};
	struct mtr_purse before;

	empty(MTR_PURSE_SOFT, 0);
	fill();
	before = p;
	assert_int_equal(take(10 * MTR_RESERVE_CELLS), MTR_TAKE_OK);
	assert_true(mtr_reserve_fits(&p, part, nparts));
	mtr_reserve_untake(&p, NOW, part, own, nparts);
	assert_memory_equal(&p, &before, sizeof(p));
	assert_int_equal(take(10 * MTR_RESERVE_CELLS + 1), MTR_TAKE_OK);
	assert_false(mtr_reserve_fits(&p, part, nparts));
	assert_int_equal(take(100), MTR_TAKE_OK);
	assert_part(nparts - 1, DEBT, 61);
	mtr_reserve_untake(&p, NOW, part, own, nparts);
	assert_int_equal(p.available, 39);
	assert_int_equal(p.debt, 0);

	empty(MTR_PURSE_SOFT, 0);
	fill();
	reserve(35, 35);
	assert_int_equal(take(45), MTR_TAKE_OK);
	assert_int_equal(nparts, 5); /* of the fourth grant what is left, too */
	assert_false(mtr_reserve_fits(&p, part, nparts));
	mtr_reserve_untake(&p, NOW, part, own, nparts);
	assert_int_equal(settle(20), 20); /* two of them are let go */
	assert_int_equal(take(15), MTR_TAKE_OK);
	assert_true(mtr_reserve_fits(&p, part, nparts));

	/* debt and what is issued is in no cell */
	part[0].cell = DEBT;
	part[1].cell = ISSUED;
	assert_true(mtr_reserve_fits(&p, part, 2));
	part[0].cell = p.order[3];
	p.cell[p.order[3]].reserved = UINT16_MAX;
	assert_false(mtr_reserve_fits(&p, part, 1));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(begun_it_keeps_all_and_burns_nothing),
		cmocka_unit_test(settled_whole_it_burns_all),
		cmocka_unit_test(released_whole_it_gives_all_back),
		cmocka_unit_test(pieces_burn_their_share_of_the_whole),
		cmocka_unit_test(nothing_settled_burns_nothing),
		cmocka_unit_test(what_burns_first_is_used_first_and_let_go),
		cmocka_unit_test(what_ended_meanwhile_does_not_come_back),
		cmocka_unit_test(what_the_rest_is_worth_now_is_settled),
		cmocka_unit_test(issued_is_counted_alone),
		cmocka_unit_test(what_is_free_has_no_parts),
		cmocka_unit_test(own_refunds_stay_with_their_transaction),
		cmocka_unit_test(the_largest_quantity_and_amount_fit),
		cmocka_unit_test(its_grants_keep_their_cells),
		cmocka_unit_test(so_many_cells_may_be_held),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
