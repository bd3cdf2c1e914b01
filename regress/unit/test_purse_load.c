/*
 * test_purse_load.c - what a purse shares with tables, each rule by its name:
 * cells, grants without one, and loads
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

/* ---- cells ---- */

static void
eight_grants_have_cells_the_ninth_has_none(void **state)
{
	empty(MTR_PURSE_HARD, 0);
	fill();
	assert_int_equal(add(9, 10), -1);
	add_behind(9, 10, NOW, NEVER);
	assert_int_equal(p.available, 90);
	assert_int_equal(p.more, 1);
	assert_int_equal(p.more_uc, 10);
}

static void
a_cell_is_free_when_nothing_can_come_back_to_it(void **state)
{
	int cell = 0;

	empty(MTR_PURSE_HARD, 0);
	fill();
	assert_int_equal(take(10), MTR_TAKE_OK);
	cell = part[0].cell;
	p.cell[cell].refs = 1;
	mtr_purse_burn(&p, cell, 10);
	assert_int_equal(add(9, 1), -1);
	p.cell[cell].refs = 0;
	assert_int_equal(add(9, 1), -1); /* burns that tables do not know */
	nparts = deltas(10);
	mtr_purse_burn(&p, cell, -10);
	assert_int_equal(add(9, 1), -1); /* a flush names it */
	mtr_purse_burn(&p, cell, 10);
	mtr_purse_flushed(&p, part, nparts);
	p.cell[DEBT].refs = 1;
	assert_int_equal(add(9, 1), -1); /* it may have repaid debt in flight */
	p.cell[DEBT].refs = 0;
	assert_int_equal(add(9, 1), cell);
	assert_int_equal(p.cell[cell].taken, 0);
	assert_int_equal(p.n, MTR_PURSE_CELLS);
}

static void
an_ended_grant_leaves_its_cell(void **state)
{
	int cell;

	empty(MTR_PURSE_HARD, 0);
	cell = add_until(1, 10, NOW, NOW + 5);
	for (int i = 1; i < MTR_PURSE_CELLS; i++)
		assert_int_not_equal(add(100 + i, 10), -1);
	assert_int_equal(add(9, 1), -1);
	mtr_purse_advance(&p, NOW + 5);
	assert_int_equal(add(9, 1), cell);
}

static void
an_incoming_grant_keeps_its_cell(void **state)
{
	struct mtr_grant g = grant(1, 10);
	int              cell;

	empty(MTR_PURSE_HARD, 0);
	cell = mtr_purse_add(&p, NOW, &g, true);
	for (int i = 1; i < MTR_PURSE_CELLS; i++)
		assert_int_not_equal(add(100 + i, 10), -1);
	assert_int_equal(take_own(10, 1u << cell), MTR_TAKE_OK);
	assert_int_equal(add(9, 1), -1);
}

/* ---- grants behind ---- */

static void
again_when_the_cells_do_not_suffice(void **state)
{
	empty(MTR_PURSE_HARD, 0);
	fill();
	add_behind(109, 10, NOW, NEVER);
	assert_false(p.reload_wanted);
	assert_int_equal(take(91), MTR_TAKE_SHORT);
	assert_false(p.reload_wanted);
	assert_int_equal(take(80), MTR_TAKE_OK);
	assert_int_equal(take(10), MTR_TAKE_AGAIN);
	assert_true(p.reload_wanted);
	assert_int_equal(nparts, 0);
	assert_int_equal(p.available, 10);
}

static void
soft_owes_nothing_while_a_grant_behind_can_pay(void **state)
{
	empty(MTR_PURSE_SOFT, 0);
	fill();
	add_behind(109, 10, NOW, NEVER);
	assert_int_equal(take(81), MTR_TAKE_AGAIN);
	assert_int_equal(p.debt, 0);
}

static void
again_when_a_grant_behind_has_started(void **state)
{
	empty(MTR_PURSE_HARD, 0);
	fill();
	add_behind(109, 10, NOW + 5, NEVER);
	assert_int_equal(p.available, 80);
	assert_int_equal(p.more_later, 10);
	assert_int_equal(p.next_event, NOW + 5);
	assert_int_equal(take(81), MTR_TAKE_SHORT);
	assert_false(mtr_purse_is_low(&p));
	mtr_purse_advance(&p, NOW + 5);
	assert_true(p.reload_wanted);
	assert_int_equal(take(81), MTR_TAKE_AGAIN);
	assert_int_equal(take(80), MTR_TAKE_OK);
	/* it stays so, whatever happens next */
	assert_int_equal(p.next_event, NEVER);
	mtr_purse_advance(&p, NOW + 6);
	assert_int_equal(take(1), MTR_TAKE_AGAIN);
}

static void
the_end_of_a_grant_behind_is_an_event(void **state)
{
	empty(MTR_PURSE_HARD, 0);
	fill();
	add_behind(109, 10, NOW, NOW + 5);
	assert_true(p.reload_wanted); /* it burns before those that never end */
	p.reload_wanted = false;
	mtr_purse_advance(&p, NOW + 4);
	assert_false(p.reload_wanted);
	mtr_purse_advance(&p, NOW + 5);
	assert_true(p.reload_wanted);
}

static void
low_when_few_cells_can_pay(void **state)
{
	empty(MTR_PURSE_HARD, 0);
	fill();
	assert_int_equal(take(60), MTR_TAKE_OK);
	assert_false(mtr_purse_is_low(&p)); /* nothing is behind */
	add_behind(109, 10, NOW + 5, NEVER);
	assert_false(mtr_purse_is_low(&p)); /* it could not pay */
	add_behind(110, 10, NOW, NEVER);
	assert_true(mtr_purse_is_low(&p));

	empty(MTR_PURSE_HARD, 0);
	fill();
	add_behind(110, 10, NOW, NEVER);
	assert_int_equal(take(59), MTR_TAKE_OK);
	assert_false(mtr_purse_is_low(&p)); /* three can */
	assert_int_equal(take(1), MTR_TAKE_OK);
	assert_true(mtr_purse_is_low(&p));
}

static void
a_grant_behind_that_burns_first_wants_a_load(void **state)
{
	empty(MTR_PURSE_HARD, 0);
	fill();
	add_behind(1, 10, NOW, NEVER); /* by its id */
	assert_true(p.reload_wanted);
}

static void
debt_beside_grants_behind_wants_a_load(void **state)
{
	empty(MTR_PURSE_SOFT, 0);
	mtr_purse_owe(&p, 100);
	fill();
	add_behind(109, 50, NOW, NEVER);
	assert_int_equal(p.debt, 20);
	assert_int_equal(p.available, 30);
	assert_true(p.reload_wanted);
	assert_int_equal(take(1), MTR_TAKE_AGAIN);

	/* it may also come by settling */
	empty(MTR_PURSE_SOFT, 0);
	fill();
	add_behind(109, 50, NOW, NEVER);
	assert_int_equal(take(80), MTR_TAKE_OK);
	mtr_purse_settle(&p, NOW, -1);
	assert_int_equal(p.debt, 1);
	assert_true(p.reload_wanted);
}

static void
a_grant_in_a_cell_beside_those_behind_wants_a_load(void **state)
{
	int cell;

	empty(MTR_PURSE_HARD, 0);
	cell = add_until(1, 10, NOW, NOW + 5);
	for (int i = 1; i < MTR_PURSE_CELLS; i++)
		assert_int_not_equal(add(100 + i, 10), -1);
	add_behind(109, 10, NOW, NEVER);
	mtr_purse_advance(&p, NOW + 5);
	assert_false(p.reload_wanted);
	assert_int_equal(add(110, 10), cell); /* it burns after 109 */
	assert_true(p.reload_wanted);
}

static void
forgotten_grants_behind_are_not_counted(void **state)
{
	empty(MTR_PURSE_HARD, 0);
	fill();
	add_behind(109, 10, NOW, NEVER);
	add_behind(110, 5, NOW + 5, NEVER);
	p.reload_wanted = true;
	mtr_purse_forget_behind(&p, NOW);
	assert_int_equal(p.more, 0);
	assert_int_equal(p.available, 80);
	assert_int_equal(p.next_event, NEVER);
	assert_false(p.reload_wanted);
	assert_int_equal(take(81), MTR_TAKE_SHORT);
	assert_true(mtr_purse_fits(&p, MTR_PURSE_MAX - 80));
}

static void
the_last_to_burn_gives_way(void **state)
{
	struct mtr_grant first = grant(1, 7);
	int              last;

	empty(MTR_PURSE_HARD, 0);
	fill();
	last = p.order[MTR_PURSE_CELLS - 1];
	assert_false(mtr_purse_has_room(&p));
	/* but not for one that burns later, and not while something is afoot */
	assert_int_equal(mtr_purse_demote(&p, NOW, &p.cell[last].grant), -1);
	for (int i = 0; i < MTR_PURSE_CELLS; i++)
		p.cell[i].refs = 1;
	assert_int_equal(mtr_purse_demote(&p, NOW, NULL), -1);
	for (int i = 0; i < MTR_PURSE_CELLS; i++)
		p.cell[i].refs = 0;
	p.cell[DEBT].refs = 1;
	assert_int_equal(mtr_purse_demote(&p, NOW, NULL), -1);
	p.cell[DEBT].refs = 0;
	p.flushing = true;
	assert_int_equal(mtr_purse_demote(&p, NOW, NULL), -1);
	p.flushing = false;

	assert_int_equal(mtr_purse_demote(&p, NOW, &first), last);
	assert_int_equal(p.available, 80);
	assert_int_equal(p.more_uc, 10);
	assert_int_equal(mtr_purse_add(&p, NOW, &first, false), last);
	assert_int_equal(p.available, 87);
	assert_false(p.reload_wanted); /* it burns before the one behind */
}

static void
one_with_burns_unwritten_does_not_give_way(void **state)
{
	int last;

	empty(MTR_PURSE_HARD, 0);
	fill();
	last = p.order[MTR_PURSE_CELLS - 1];
	mtr_purse_burn(&p, last, 1);
	assert_int_equal(mtr_purse_demote(&p, NOW, NULL),
					 p.order[MTR_PURSE_CELLS - 2]);
}

static void
one_that_starts_later_gives_way_to_any(void **state)
{
	struct mtr_grant g = grant(200, 1);
	int              future;

	empty(MTR_PURSE_HARD, 0);
	future = add_until(1, 10, NOW + 5, NEVER);
	for (int i = 1; i < MTR_PURSE_CELLS; i++)
		assert_int_not_equal(add(100 + i, 10), -1);
	assert_true(mtr_purse_has_room(&p));
	assert_int_equal(mtr_purse_demote(&p, NOW, &g), future);
	assert_int_equal(p.more_later, 10);
	assert_int_equal(p.next_event, NOW + 5);
}

/* ---- loads ---- */

static void
debt_of_tables_is_repaid_by_a_load(void **state)
{
	int g;

	empty(MTR_PURSE_HARD, 0);
	mtr_purse_owe(&p, 30);
	assert_int_equal(p.available, -30);
	g = add(1, 100);
	assert_int_equal(p.available, 70);
	assert_false(mtr_purse_is_clean(&p));
	flush(0);
	assert_int_equal(nparts, 2);
	assert_part(0, g, 30);
	assert_part(1, DEBT, -30);
	assert_true(mtr_purse_is_clean(&p));
}

/* a crash has undone what was owed, not that it was repaid */
static void
repaid_debt_that_never_was_comes_back(void **state)
{
	struct mtr_grant g = grant(1, 100);
	int              cell;

	empty(MTR_PURSE_HARD, 0);
	mtr_purse_owe(&p, -30);
	assert_int_equal(p.debt, 0);
	g.remaining = 70;
	cell = mtr_purse_add(&p, NOW, &g, false);
	assert_int_equal(p.cell[cell].taken, 30);
	mtr_purse_settle(&p, NOW, 0);
	assert_int_equal(p.available, 100);
	flush(0);
	assert_part(0, cell, -30);
	assert_part(1, DEBT, 30);
}

static void
uneven_grants_are_evened_out(void **state)
{
	struct mtr_grant more = grant(1, 10);
	struct mtr_grant less = grant(2, 10);
	struct mtr_grant used = grant(3, 10);
	int              cell[3];

	empty(MTR_PURSE_HARD, 0);
	more.remaining = 13;
	less.remaining = -2;
	used.remaining = 5;
	cell[0] = mtr_purse_add(&p, NOW, &more, false);
	cell[1] = mtr_purse_add(&p, NOW, &less, false);
	cell[2] = mtr_purse_add(&p, NOW, &used, false);
	mtr_purse_settle(&p, NOW, 0);
	assert_int_equal(remaining(cell[0]), 10);
	assert_int_equal(remaining(cell[1]), 0);
	assert_int_equal(remaining(cell[2]), 6);
	assert_int_equal(p.available, 16);
	flush(0);
	assert_part(0, cell[0], 3);
	assert_part(1, cell[1], -2);
	assert_part(2, cell[2], -1);
}

static void
spare_is_written_off_when_nothing_is_in_flight(void **state)
{
	struct mtr_grant more = grant(1, 10);
	int              cell;

	empty(MTR_PURSE_HARD, 0);
	more.remaining = 13;
	cell = mtr_purse_add(&p, NOW, &more, false);
	mtr_purse_settle(&p, NOW, 0);
	assert_int_equal(p.spare, 3);
	assert_false(mtr_purse_is_clean(&p));
	p.cell[DEBT].refs = 1;
	flush(0);
	assert_int_equal(p.spare, 3);
	p.cell[DEBT].refs = 0;
	flush(0);
	assert_int_equal(p.spare, 0);
	assert_int_equal(p.available, 10);
	assert_int_equal(p.cell[cell].burn_flushed, 3);
	assert_int_equal(p.cell[ISSUED].burn_flushed, -3);
	assert_true(mtr_purse_is_clean(&p));
}

/* what cannot be undone when the clock is set back; passing time alone can */
static void
it_says_when_a_grant_last_started_or_ended(void **state)
{
	empty(MTR_PURSE_HARD, 0);
	(void) add_until(1, 10, NOW, NOW + 5);
	(void) add_until(2, 10, NOW + 7, NEVER);
	mtr_purse_advance(&p, NOW + 4);
	assert_true(p.judged_at < NOW);
	mtr_purse_advance(&p, NOW + 6);
	assert_int_equal(p.judged_at, NOW + 5);
	mtr_purse_advance(&p, NOW + 9);
	assert_int_equal(p.judged_at, NOW + 7);
	mtr_purse_advance(&p, NOW + 3);
	assert_int_equal(p.judged_at, NOW + 7);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eight_grants_have_cells_the_ninth_has_none),
		cmocka_unit_test(a_cell_is_free_when_nothing_can_come_back_to_it),
		cmocka_unit_test(an_ended_grant_leaves_its_cell),
		cmocka_unit_test(an_incoming_grant_keeps_its_cell),
		cmocka_unit_test(again_when_the_cells_do_not_suffice),
		cmocka_unit_test(soft_owes_nothing_while_a_grant_behind_can_pay),
		cmocka_unit_test(again_when_a_grant_behind_has_started),
		cmocka_unit_test(the_end_of_a_grant_behind_is_an_event),
		cmocka_unit_test(low_when_few_cells_can_pay),
		cmocka_unit_test(a_grant_behind_that_burns_first_wants_a_load),
		cmocka_unit_test(debt_beside_grants_behind_wants_a_load),
		cmocka_unit_test(a_grant_in_a_cell_beside_those_behind_wants_a_load),
		cmocka_unit_test(forgotten_grants_behind_are_not_counted),
		cmocka_unit_test(the_last_to_burn_gives_way),
		cmocka_unit_test(one_with_burns_unwritten_does_not_give_way),
		cmocka_unit_test(one_that_starts_later_gives_way_to_any),
		cmocka_unit_test(debt_of_tables_is_repaid_by_a_load),
		cmocka_unit_test(repaid_debt_that_never_was_comes_back),
		cmocka_unit_test(uneven_grants_are_evened_out),
		cmocka_unit_test(spare_is_written_off_when_nothing_is_in_flight),
		cmocka_unit_test(it_says_when_a_grant_last_started_or_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
