/*
 * test_purse_detach.c - debits that more grants pay than there are cells, and
 * grants without one that are counted in one step, each rule by its name
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

static struct mtr_grant loose;

/* one grant of 10 that a debit has used up, and one behind it */
static int
used_up(void)
{
	int cell;

	empty(MTR_PURSE_HARD, 0);
	cell = add(1, 10);
	assert_int_equal(take(10), MTR_TAKE_OK);
	p.cell[cell].refs = 1;
	return cell;
}

static bool
detach(int cell)
{
	return mtr_purse_detach(&p, NOW, cell, &loose);
}

static void
what_cells_have_is_drained_in_burn_order(void **state)
{
	empty(MTR_PURSE_HARD, 0);
	fill();
	add_behind(109, 10, NOW, NEVER);
	assert_int_equal(take(85), MTR_TAKE_AGAIN);
	assert_int_equal(mtr_purse_drain(&p, NOW, 75, 0, part, &nparts), 75);
	assert_int_equal(nparts, 8);
	assert_part(7, mtr_purse_find(&p, grant(108, 0).id), 5);
	assert_int_equal(mtr_purse_drain(&p, NOW, 10, 0, part, &nparts), 5);
	assert_int_equal(p.available, 10);
}

static void
a_used_up_grant_gives_up_its_cell(void **state)
{
	int cell = used_up();

	assert_true(detach(cell));
	assert_memory_equal(loose.id, grant(1, 0).id, 16);
	assert_int_equal(p.n, 0);
	assert_int_equal(p.cell[cell].state, MTR_CELL_FREE);
	assert_int_equal(p.cell[cell].refs, 0);
}

static void
it_keeps_its_cell_while_others_or_a_flush_need_it(void **state)
{
	int cell = used_up();

	p.cell[cell].refs = 2;
	assert_false(detach(cell));
	p.cell[cell].refs = 1;
	p.cell[DEBT].refs = 1;
	assert_false(detach(cell));
	p.cell[DEBT].refs = 0;
	mtr_purse_burn(&p, cell, 1);
	assert_false(detach(cell));
	mtr_purse_burn(&p, cell, -1);
	p.flushing = true;
	assert_false(detach(cell));
	p.flushing = false;
	mtr_purse_back(&p, NOW, cell, 1);
	assert_false(detach(cell));
}

static void
an_own_grant_that_starts_later_gives_up_its_cell(void **state)
{
	struct mtr_grant g = grant(1, 10);
	int              cell;

	empty(MTR_PURSE_HARD, 0);
	g.effective_at = NOW + 1;
	cell = mtr_purse_add(&p, NOW, &g, true);
	p.cell[cell].refs = 1;
	assert_true(detach(cell));
	g.effective_at = NOW;
	cell = mtr_purse_add(&p, NOW, &g, true);
	p.cell[cell].refs = 1;
	assert_false(detach(cell));
}

static void
what_comes_back_is_counted_behind_or_in_the_cell(void **state)
{
	assert_true(detach(used_up()));
	loose.remaining = 4;
	mtr_purse_return(&p, NOW, &loose);
	assert_int_equal(p.more_uc, 4);
	assert_int_equal(p.available, 4);
	mtr_purse_forget_behind(&p, NOW);
	assert_int_not_equal(mtr_purse_add(&p, NOW, &loose, false), -1);
	loose.remaining = 6;
	mtr_purse_return(&p, NOW, &loose);
	assert_int_equal(p.more_uc, 0);
	assert_int_equal(p.available, 10);
}

static void
grants_behind_are_counted_in_one_step(void **state)
{
	struct mtr_behind b = {0};
	struct mtr_grant  g = grant(3, 10);

	empty(MTR_PURSE_HARD, 0);
	mtr_behind_count(&b, NOW, &g);
	g = grant(2, 5);
	mtr_behind_count(&b, NOW, &g);
	g.effective_at = NOW + 7;
	mtr_behind_count(&b, NOW, &g);
	g.expires_at = NOW;
	mtr_behind_count(&b, NOW, &g);
	assert_true(mtr_purse_add_all_behind(&p, NOW, &b));
	assert_int_equal(p.more, 3);
	assert_int_equal(p.more_uc, 15);
	assert_int_equal(p.more_later, 5);
	assert_int_equal(p.next_event, NOW + 7);
	assert_int_equal(p.more_first.id[0], 2);
	/* one has started: nobody knows any more what they are */
	mtr_purse_forget_behind(&p, NOW);
	assert_false(mtr_purse_add_all_behind(&p, NOW + 7, &b));
	assert_int_equal(p.more, 0);
}

static void
what_does_not_fit_is_not_counted_in_one_step(void **state)
{
	struct mtr_behind b = {0};
	struct mtr_grant  g = grant(2, MTR_PURSE_MAX);

	empty(MTR_PURSE_HARD, 0);
	mtr_behind_count(&b, NOW, &g);
	assert_true(mtr_purse_add_all_behind(&p, NOW, &b));
	assert_false(mtr_purse_add_all_behind(&p, NOW, &b));
	mtr_behind_count(&b, NOW, &g);
	mtr_purse_forget_behind(&p, NOW);
	assert_false(mtr_purse_add_all_behind(&p, NOW, &b));
	assert_int_equal(p.more, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_cells_have_is_drained_in_burn_order),
		cmocka_unit_test(a_used_up_grant_gives_up_its_cell),
		cmocka_unit_test(it_keeps_its_cell_while_others_or_a_flush_need_it),
		cmocka_unit_test(an_own_grant_that_starts_later_gives_up_its_cell),
		cmocka_unit_test(what_comes_back_is_counted_behind_or_in_the_cell),
		cmocka_unit_test(grants_behind_are_counted_in_one_step),
		cmocka_unit_test(what_does_not_fit_is_not_counted_in_one_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
