/*
 * purse_cell.h - the movements that a purse is made of; between the files
 * purse*.c, for nobody else
 *
 * Design: pay moves between a grant and whoever debits or undoes, debt_add
 * does the same for debt, repay between the two.  They keep available right,
 * so that the functions above them only decide how much goes where.
 *
 * Ownership and locking: as in purse.h.
 */
#ifndef MTR_CORE_PURSE_CELL_H
#define MTR_CORE_PURSE_CELL_H

#include "core/purse.h"

static inline int64_t
mtr_least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* what usage burned of a source and tables do not know; burns may wrap */
static inline int64_t
mtr_cell_unwritten(const struct mtr_cell *c)
{
	return (int64_t) ((uint64_t) c->burn_done - (uint64_t) c->burn_flushed);
}

/* grants behind have started or ended: what is known of them is old */
static inline bool
mtr_purse_is_stale(const struct mtr_purse *p)
{
	return p->more > 0 && p->more_event <= p->now;
}

/*
 * x > 0: out of the grant, x < 0: back into it.  What comes back to a grant
 * that has ended is gone.
 */
extern void mtr_cell_pay(struct mtr_purse *p, int cell, int64_t x);

extern void mtr_debt_add(struct mtr_purse *p, int64_t x);

/*
 * Debt is paid with at most that much, which has just come to the cell's grant
 * and is not counted there.  Returns with how much.
 */
extern int64_t mtr_cell_repay(struct mtr_purse *p, int cell, int64_t most);

/* an unused cell, else one whose grant is used up and cannot get anything back */
extern int mtr_cell_find_free(const struct mtr_purse *p);

/* takes the cell out of the burn order */
extern void mtr_cell_leave(struct mtr_purse *p, int cell);

/* finds next_event */
extern void mtr_purse_plan(struct mtr_purse *p);

/* do sums stay in range when grants have so much more?  What may come back is not
 * looked at. */
extern bool mtr_purse_has_range(const struct mtr_purse *p, int64_t amount);

/* asserts the invariants */
extern void mtr_purse_check(const struct mtr_purse *p);

#endif /* MTR_CORE_PURSE_CELL_H */
