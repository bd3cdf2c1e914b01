/*
 * purse_case.h - a purse to try one rule on
 *
 * To be included after cmocka.h, by one file of a test.
 */
#ifndef PURSE_CASE_H
#define PURSE_CASE_H

#include "core/purse.h"

#define NOW 1000
#define NEVER MTR_PURSE_NEVER
#define DEBT MTR_PURSE_DEBT
#define ISSUED MTR_PURSE_ISSUED

static struct mtr_purse p;
static struct mtr_part  part[MTR_PURSE_SOURCES];
static int              nparts;

/* a paid grant in force, that never ends, of the middle priority */
static inline struct mtr_grant
grant(int id, int64_t amount)
{
	return (struct mtr_grant){.id = {(uint8_t) id},
							  .amount = amount,
							  .remaining = amount,
							  .effective_at = NOW,
							  .expires_at = NEVER,
							  .priority = 50,
							  .category = MTR_GRANT_PAID};
}

static inline void
empty(enum mtr_purse_mode mode, int64_t floor)
{
	mtr_purse_init(&p);
	mtr_purse_advance(&p, NOW);
	p.mode = (uint8_t) mode;
	p.floor = floor;
}

static inline int
add(int id, int64_t amount)
{
	struct mtr_grant g = grant(id, amount);

	return mtr_purse_add(&p, NOW, &g, false);
}

static inline int
add_until(int id, int64_t amount, int64_t effective_at, int64_t expires_at)
{
	struct mtr_grant g = grant(id, amount);

	g.effective_at = effective_at;
	g.expires_at = expires_at;
	return mtr_purse_add(&p, NOW, &g, false);
}

static inline enum mtr_take
take_own(int64_t amount, uint32_t own)
{
	return mtr_purse_take(&p, NOW, amount, own, part, &nparts);
}

static inline enum mtr_take
take(int64_t amount)
{
	return take_own(amount, 0);
}

static inline void
assert_part(int i, int cell, int64_t amount)
{
	assert_true(i < nparts);
	assert_int_equal(part[i].cell, cell);
	assert_int_equal(part[i].amount, amount);
}

static inline int64_t
remaining(int cell)
{
	return p.cell[cell].grant.remaining;
}

static inline int64_t
unwritten(int cell)
{
	return p.cell[cell].burn_done - p.cell[cell].burn_flushed;
}

/* fills the purse's cells with grants 101 .. 108 of 10 each */
static inline void
fill(void)
{
	for (int i = 1; i <= MTR_PURSE_CELLS; i++)
		assert_int_not_equal(add(100 + i, 10), -1);
}

static inline void
add_behind(int id, int64_t amount, int64_t effective_at, int64_t expires_at)
{
	struct mtr_grant g = grant(id, amount);

	g.effective_at = effective_at;
	g.expires_at = expires_at;
	mtr_purse_add_behind(&p, NOW, &g);
}

static inline int64_t
sum_of_parts(void)
{
	int64_t sum = 0;

	for (int i = 0; i < nparts; i++)
		sum += part[i].amount;
	return sum;
}

/* what a flush of usage for cost writes */
static inline int
deltas(int64_t cost)
{
	int n = mtr_purse_unwritten(&p, part);

	return mtr_purse_carry(&p, cost, part, n);
}

static inline void
flush(int64_t cost)
{
	nparts = deltas(cost);
	assert_int_equal(sum_of_parts(), cost);
	mtr_purse_flushed(&p, part, nparts);
}

#endif /* PURSE_CASE_H */
