/*
 * test_purse.c - who pays and who gets back, each rule by its name
 *
 * That the rules hold together, whatever happens in whatever order, is the
 * simulator's to show (regress/simulate).
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

/* ---- who pays ---- */

static void
burn_order(void **state)
{
	struct mtr_grant a = grant(1, 1);
	struct mtr_grant b = grant(2, 1);

	assert_int_equal(mtr_grant_compare(&a, &a), 0);
	assert_int_equal(mtr_grant_compare(&a, &b), -1);
	assert_int_equal(mtr_grant_compare(&b, &a), 1);
	/* each of these outweighs all that stand before it */
	b.effective_at = NOW - 1;
	assert_int_equal(mtr_grant_compare(&a, &b), 1);
	a.category = MTR_GRANT_PROMO;
	assert_int_equal(mtr_grant_compare(&a, &b), -1);
	b.expires_at = 5000; /* sooner than never */
	assert_int_equal(mtr_grant_compare(&a, &b), 1);
	a.expires_at = 4999;
	assert_int_equal(mtr_grant_compare(&a, &b), -1);
	a.priority = 51;
	assert_int_equal(mtr_grant_compare(&a, &b), 1);
}

static void
takes_in_burn_order_whatever_came_first(void **state)
{
	struct mtr_grant urgent = grant(3, 5);
	int              late;
	int              first;
	int              never;

	empty(MTR_PURSE_HARD, 0);
	urgent.priority = 0;
	never = add(1, 100);
	late = add_until(2, 10, NOW, 2000);
	first = mtr_purse_add(&p, NOW, &urgent, false);
	assert_int_equal(p.available, 115);

	assert_int_equal(take(20), MTR_TAKE_OK);
	assert_int_equal(nparts, 3);
	assert_part(0, first, 5);
	assert_part(1, late, 10);
	assert_part(2, never, 5);
	assert_int_equal(p.available, 95);
	assert_int_equal(remaining(never), 95);
	assert_int_equal(p.cell[never].taken, 5);
}

static void
hard_refuses_below_the_floor(void **state)
{
	empty(MTR_PURSE_HARD, 0);
	add(1, 10);
	assert_int_equal(mtr_purse_spendable(&p, 0), 10);
	assert_int_equal(take(11), MTR_TAKE_SHORT);
	assert_int_equal(nparts, 0);
	assert_int_equal(p.available, 10);
	assert_int_equal(take(10), MTR_TAKE_OK);
	assert_int_equal(take(1), MTR_TAKE_SHORT);
	assert_int_equal(mtr_purse_spendable(&p, 0), 0);
}

static void
hard_with_overdraft_owes_down_to_the_floor(void **state)
{
	int g;

	empty(MTR_PURSE_HARD, -20);
	g = add(1, 10);
	assert_int_equal(take(31), MTR_TAKE_SHORT);
	assert_int_equal(take(30), MTR_TAKE_OK);
	assert_part(0, g, 10);
	assert_part(1, DEBT, 20);
	assert_int_equal(p.available, -20);
	assert_int_equal(p.debt, 20);
	assert_int_equal(mtr_purse_spendable(&p, 0), 0);

	/* the floor is raised meanwhile: nothing, and no negative amount */
	p.floor = 0;
	assert_int_equal(mtr_purse_spendable(&p, 0), 0);
	assert_int_equal(take(1), MTR_TAKE_SHORT);
}

static void
soft_is_always_served(void **state)
{
	int g;

	empty(MTR_PURSE_SOFT, 0);
	g = add(1, 10);
	assert_int_equal(mtr_purse_spendable(&p, 0), MTR_PURSE_MAX);
	assert_int_equal(take(1000), MTR_TAKE_OK);
	assert_part(0, g, 10);
	assert_part(1, DEBT, 990);
	assert_int_equal(p.available, -990);
}

static void
unlimited_moves_no_credit(void **state)
{
	empty(MTR_PURSE_UNLIMITED, 0);
	add(1, 10);
	assert_int_equal(take(1000), MTR_TAKE_OK);
	assert_int_equal(nparts, 1);
	assert_part(0, ISSUED, 1000);
	mtr_purse_back(&p, NOW, ISSUED, 400);
	mtr_purse_burn(&p, ISSUED, 600);
	mtr_purse_settle(&p, NOW, 1);
	assert_int_equal(p.available, 10);
	assert_int_equal(p.debt, 0);
	assert_int_equal(unwritten(ISSUED), 599);
}

static void
own_grants_pay_first_and_for_nobody_else(void **state)
{
	struct mtr_grant g = grant(2, 50);
	int              shared;
	int              own;

	empty(MTR_PURSE_HARD, 0);
	shared = add(1, 10);
	own = mtr_purse_add(&p, NOW, &g, true);
	assert_int_equal(p.available, 10);
	assert_int_equal(mtr_purse_spendable(&p, 0), 10);
	assert_int_equal(mtr_purse_spendable(&p, 1u << own), 60);
	assert_int_equal(take(11), MTR_TAKE_SHORT);
	assert_int_equal(take_own(61, 1u << own), MTR_TAKE_SHORT);

	assert_int_equal(take_own(55, 1u << own), MTR_TAKE_OK);
	assert_part(0, own, 50);
	assert_part(1, shared, 5);
	assert_int_equal(p.available, 5);
}

static void
own_grants_pay_only_while_in_force(void **state)
{
	struct mtr_grant g = grant(2, 50);
	uint32_t         own;

	empty(MTR_PURSE_HARD, 0);
	g.effective_at = NOW + 1;
	g.expires_at = NOW + 5;
	own = 1u << mtr_purse_add(&p, NOW, &g, true);
	assert_int_equal(mtr_purse_spendable(&p, own), 0);
	assert_int_equal(take_own(1, own), MTR_TAKE_SHORT);
	mtr_purse_advance(&p, NOW + 1);
	assert_int_equal(take_own(1, own), MTR_TAKE_OK);
	mtr_purse_advance(&p, NOW + 5);
	assert_int_equal(mtr_purse_spendable(&p, own), 0);
	assert_int_equal(take_own(1, own), MTR_TAKE_SHORT);
}

/* what a grant of its own would repay cannot be spent before */
static void
own_grants_answer_for_debt(void **state)
{
	struct mtr_grant g = grant(2, 50);
	int              own;

	empty(MTR_PURSE_SOFT, 0);
	assert_int_equal(take(30), MTR_TAKE_OK);
	p.mode = MTR_PURSE_HARD;
	own = mtr_purse_add(&p, NOW, &g, true);
	assert_int_equal(mtr_purse_spendable(&p, 1u << own), 20);
	assert_int_equal(take_own(21, 1u << own), MTR_TAKE_SHORT);
	assert_int_equal(take_own(20, 1u << own), MTR_TAKE_OK);
	mtr_purse_arrive(&p, NOW, own);
	assert_int_equal(p.available, 0);
	assert_int_equal(p.debt, 0);
}

/* ---- coming, starting, ending ---- */

static void
an_incoming_grant_counts_from_its_commit(void **state)
{
	struct mtr_grant g = grant(1, 50);
	int              cell;

	empty(MTR_PURSE_HARD, 0);
	cell = mtr_purse_add(&p, NOW, &g, true);
	assert_int_equal(p.cell[cell].state, MTR_CELL_INCOMING);
	assert_int_equal(p.available, 0);
	mtr_purse_arrive(&p, NOW, cell);
	assert_int_equal(p.cell[cell].state, MTR_CELL_LIVE);
	assert_int_equal(p.available, 50);
	assert_int_equal(mtr_purse_find(&p, g.id), cell);
}

static void
an_aborted_grant_is_gone(void **state)
{
	struct mtr_grant g = grant(1, 50);
	int              cell;

	empty(MTR_PURSE_HARD, 0);
	cell = mtr_purse_add(&p, NOW, &g, true);
	p.cell[cell].refs = 1;
	assert_int_equal(take_own(20, 1u << cell), MTR_TAKE_OK);
	mtr_purse_back(&p, NOW, cell, 20);
	mtr_purse_drop(&p, cell);
	assert_int_equal(mtr_purse_find(&p, g.id), -1);
	assert_int_equal(p.n, 0);
	assert_int_equal(p.available, 0);
	/* its transaction still counts on the cell */
	assert_int_equal(p.cell[cell].refs, 1);
	assert_int_not_equal(add(2, 1), cell);
}

static void
a_grant_pays_debt_when_it_comes(void **state)
{
	struct mtr_grant g = grant(1, 50);
	int              cell;

	empty(MTR_PURSE_SOFT, 0);
	assert_int_equal(take(30), MTR_TAKE_OK);
	mtr_purse_burn(&p, DEBT, 30);
	cell = mtr_purse_add(&p, NOW, &g, true);
	assert_int_equal(p.debt, 30);
	mtr_purse_arrive(&p, NOW, cell);
	assert_int_equal(p.debt, 0);
	assert_int_equal(p.available, 20);
	assert_int_equal(remaining(cell), 20);
	assert_int_equal(unwritten(cell), 30);
	assert_int_equal(unwritten(DEBT), 0);
}

static void
a_grant_pays_debt_when_it_starts(void **state)
{
	int small;
	int big;

	empty(MTR_PURSE_SOFT, 0);
	small = add_until(1, 10, NOW + 5, NEVER);
	big = add_until(2, 100, NOW + 6, NEVER);
	assert_int_equal(take(30), MTR_TAKE_OK);
	assert_int_equal(p.next_event, NOW + 5);
	mtr_purse_advance(&p, NOW + 5);
	assert_int_equal(p.debt, 20);
	assert_int_equal(remaining(small), 0);
	mtr_purse_advance(&p, NOW + 6);
	assert_int_equal(p.available, 80);
	assert_int_equal(unwritten(small), 10);
	assert_int_equal(unwritten(big), 20);
	assert_int_equal(unwritten(DEBT), -30);
}

static void
what_remains_at_the_end_is_gone(void **state)
{
	int g;

	empty(MTR_PURSE_HARD, 0);
	g = add_until(1, 10, NOW, NOW + 5);
	add(2, 3);
	assert_int_equal(p.next_event, NOW + 5);
	mtr_purse_advance(&p, NOW + 4);
	assert_int_equal(p.available, 13);
	mtr_purse_advance(&p, NOW + 5);
	assert_int_equal(p.available, 3);
	assert_int_equal(p.cell[g].state, MTR_CELL_ENDED);
	assert_int_equal(remaining(g), 0);
	assert_int_equal(p.next_event, NEVER);
}

static void
a_grant_that_came_and_went_unseen_has_paid_debt(void **state)
{
	struct mtr_grant g = grant(1, 100);
	int              unseen;
	int              later;

	empty(MTR_PURSE_SOFT, 0);
	g.priority = 0;
	g.effective_at = NOW + 20;
	later = mtr_purse_add(&p, NOW, &g, false);
	unseen = add_until(2, 10, NOW + 5, NOW + 10);
	assert_int_equal(take(30), MTR_TAKE_OK);
	mtr_purse_advance(&p, NOW + 30);
	assert_int_equal(p.cell[unseen].state, MTR_CELL_ENDED);
	assert_int_equal(unwritten(unseen), 10);
	assert_int_equal(unwritten(later), 20);
	assert_int_equal(p.available, 80);
}

static void
time_never_goes_back(void **state)
{
	int g;

	empty(MTR_PURSE_HARD, 0);
	g = add_until(1, 10, NOW, NOW + 5);
	mtr_purse_advance(&p, NOW + 5);
	mtr_purse_advance(&p, NOW);
	assert_int_equal(p.cell[g].state, MTR_CELL_ENDED);
	assert_int_equal(take(1), MTR_TAKE_SHORT);
	/* nor does a grant start again that is over by now */
	g = add_until(2, 10, NOW, NOW + 5);
	assert_int_equal(p.cell[g].state, MTR_CELL_ENDED);
	assert_int_equal(p.available, 0);
}

/* ---- giving back ---- */

static void
back_to_where_it_came_from(void **state)
{
	int g;

	empty(MTR_PURSE_SOFT, 0);
	g = add(1, 10);
	assert_int_equal(take(15), MTR_TAKE_OK);
	mtr_purse_back(&p, NOW, DEBT, 5);
	mtr_purse_back(&p, NOW, g, 10);
	mtr_purse_settle(&p, NOW, 0);
	assert_int_equal(p.available, 10);
	assert_int_equal(p.debt, 0);
	assert_int_equal(p.cell[g].taken, 0);
	assert_true(mtr_purse_is_clean(&p));
}

static void
back_to_an_ended_grant_vanishes(void **state)
{
	int g;

	empty(MTR_PURSE_HARD, 0);
	g = add_until(1, 10, NOW, NOW + 5);
	assert_int_equal(take(10), MTR_TAKE_OK);
	mtr_purse_back(&p, NOW + 5, g, 10);
	assert_int_equal(p.available, 0);
	assert_int_equal(p.cell[g].taken, 0);
	assert_true(mtr_purse_is_clean(&p));
}

static void
back_to_a_grant_pays_debt_first(void **state)
{
	int g;

	empty(MTR_PURSE_SOFT, 0);
	g = add(1, 10);
	assert_int_equal(take(10), MTR_TAKE_OK);
	assert_int_equal(take(4), MTR_TAKE_OK);
	assert_part(0, DEBT, 4);
	mtr_purse_back(&p, NOW, g, 10);
	assert_int_equal(p.debt, 0);
	assert_int_equal(p.available, 6);
	assert_int_equal(p.cell[g].taken, 4);
	assert_int_equal(unwritten(g), 4);
	assert_int_equal(unwritten(DEBT), -4);
}

static void
back_to_debt_that_was_repaid_goes_to_a_grant(void **state)
{
	int g;

	empty(MTR_PURSE_SOFT, 0);
	assert_int_equal(take(10), MTR_TAKE_OK);
	g = add(1, 8); /* repays 8 of it */
	assert_int_equal(p.available, -2);
	mtr_purse_back(&p, NOW, DEBT, 10);
	assert_int_equal(p.debt, 0);
	assert_int_equal(p.available, 8);
	assert_int_equal(remaining(g), 8);
	/* nothing was burned in the end */
	assert_int_equal(unwritten(g), 0);
	assert_int_equal(unwritten(DEBT), 0);
}

/* rounding has given the grant what a transaction had taken of it */
static void
no_grant_gets_more_than_it_was(void **state)
{
	int g;
	int h;

	empty(MTR_PURSE_HARD, 0);
	g = add(1, 10);
	h = add(2, 10);
	assert_int_equal(take(14), MTR_TAKE_OK);
	mtr_purse_settle(&p, NOW, 4); /* to h, the last */
	assert_int_equal(remaining(h), 10);
	mtr_purse_back(&p, NOW, h, 4); /* no place in h: to g */
	assert_int_equal(remaining(h), 10);
	assert_int_equal(remaining(g), 4);
	assert_int_equal(unwritten(h), 0);
	assert_int_equal(unwritten(g), -4);
	/* no place anywhere: it waits for the settling */
	mtr_purse_back(&p, NOW, g, 10);
	assert_int_equal(p.spare, 4);
	assert_int_equal(p.available, 20);
	mtr_purse_settle(&p, NOW, -4);
	assert_int_equal(p.spare, 0);
	assert_int_equal(p.available, 20);
	assert_true(mtr_purse_is_clean(&p));
}

static void
settling_gives_to_debt_first_and_takes_from_the_first(void **state)
{
	int g;
	int h;

	empty(MTR_PURSE_SOFT, 0);
	g = add(1, 10);
	h = add(2, 10);
	assert_int_equal(take(22), MTR_TAKE_OK);
	mtr_purse_settle(&p, NOW, 3);
	assert_int_equal(p.debt, 0);
	assert_int_equal(remaining(h), 1);
	assert_int_equal(unwritten(DEBT), -2);
	assert_int_equal(unwritten(h), -1);
	mtr_purse_back(&p, NOW, g, 3);
	mtr_purse_settle(&p, NOW, -5);
	assert_int_equal(remaining(g), 0);
	assert_int_equal(remaining(h), 0);
	assert_int_equal(p.debt, 1);
	assert_int_equal(unwritten(g), 3);
	assert_int_equal(unwritten(h), 0);
	assert_int_equal(unwritten(DEBT), -1);
}

static void
a_grant_taken_back_is_taken_as_far_as_it_is_left(void **state)
{
	struct mtr_grant g = grant(3, 7);
	int              live;
	int              future;
	int              incoming;

	empty(MTR_PURSE_UNLIMITED, 0);
	live = add_until(1, 10, NOW, NOW + 5);
	future = add_until(2, 10, NOW + 100, NEVER);
	incoming = mtr_purse_add(&p, NOW, &g, true);
	assert_int_equal(mtr_purse_take_cell(&p, NOW, live, 4), 4);
	assert_int_equal(mtr_purse_take_cell(&p, NOW, live, 100), 6);
	assert_int_equal(p.available, 0);
	assert_int_equal(mtr_purse_take_cell(&p, NOW, future, 3), 3);
	assert_int_equal(mtr_purse_take_cell(&p, NOW, incoming, 3), 3);
	mtr_purse_back(&p, NOW, future, 3);
	assert_int_equal(remaining(future), 10);
	assert_int_equal(mtr_purse_take_cell(&p, NOW + 5, live, 1), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(burn_order),
		cmocka_unit_test(takes_in_burn_order_whatever_came_first),
		cmocka_unit_test(hard_refuses_below_the_floor),
		cmocka_unit_test(hard_with_overdraft_owes_down_to_the_floor),
		cmocka_unit_test(soft_is_always_served),
		cmocka_unit_test(unlimited_moves_no_credit),
		cmocka_unit_test(own_grants_pay_first_and_for_nobody_else),
		cmocka_unit_test(own_grants_pay_only_while_in_force),
		cmocka_unit_test(own_grants_answer_for_debt),
		cmocka_unit_test(an_incoming_grant_counts_from_its_commit),
		cmocka_unit_test(an_aborted_grant_is_gone),
		cmocka_unit_test(a_grant_pays_debt_when_it_comes),
		cmocka_unit_test(a_grant_pays_debt_when_it_starts),
		cmocka_unit_test(what_remains_at_the_end_is_gone),
		cmocka_unit_test(a_grant_that_came_and_went_unseen_has_paid_debt),
		cmocka_unit_test(time_never_goes_back),
		cmocka_unit_test(back_to_where_it_came_from),
		cmocka_unit_test(back_to_an_ended_grant_vanishes),
		cmocka_unit_test(back_to_a_grant_pays_debt_first),
		cmocka_unit_test(back_to_debt_that_was_repaid_goes_to_a_grant),
		cmocka_unit_test(no_grant_gets_more_than_it_was),
		cmocka_unit_test(settling_gives_to_debt_first_and_takes_from_the_first),
		cmocka_unit_test(a_grant_taken_back_is_taken_as_far_as_it_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
