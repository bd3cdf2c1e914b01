/*
 * reserve.h - a quantity that is paid for before it is used
 *
 * Purpose: an answer that is sent in pieces is priced and paid for as a whole
 * before its first piece.  What was sent becomes usage piece by piece; what was
 * not comes back.
 *
 * Design: a reservation keeps what sources of a purse have paid for it, in burn
 * order.  When settled of its qty units are used, floor(total_uc * settled / qty)
 * of it is burned: a share of the whole, so that however many pieces there are,
 * their rounding never adds up to a micro-credit.  It is taken from the front, so
 * that what is first to burn has burned, and what comes back is the last.
 *
 * What is left at the end comes back like what a call has taken: its parts, and by
 * settling the difference to what the quantity is worth now (core/purse.h).
 *
 * A source may have paid with what comes back to it at the commit of the very
 * transaction that reserves (own).  The purse has not paid that before the commit.
 *
 * Ownership and locking: pure; the caller holds the lock that guards the purse.  A
 * reservation holds a reference to every source that has a part in it.
 */
#ifndef MTR_CORE_RESERVE_H
#define MTR_CORE_RESERVE_H

#include "core/purse.h"

/*
 * Reservations may last: so many cells they may hold among them, so that calls have
 * the others.
 */
#define MTR_RESERVE_CELLS 4

struct mtr_reserve
{
	int64_t         qty; /* > 0 */
	int64_t         total_uc;
	int64_t         settled; /* of qty */
	int32_t         n;       /* parts that are left, none of them 0 */
	struct mtr_part part[MTR_PURSE_SOURCES];
	int64_t         own[MTR_PURSE_SOURCES]; /* of each; all 0 once committed */
};

/*
 * mtr_reserve_begin notes that n parts, which have been taken, pay for qty; own says
 * of each how much of it the purse has not paid.
 */
extern void
mtr_reserve_begin(struct mtr_purse *p, struct mtr_reserve *r, int64_t qty,
				  const struct mtr_part *part, const int64_t *own, int n);

/*
 * mtr_reserve_fits is false when with these parts too many cells would be held; then
 * mtr_reserve_untake undoes the debit that has just said them.
 */
extern bool mtr_reserve_fits(const struct mtr_purse *p,
							 const struct mtr_part *part, int n) MTR_MUSTCHECK;
extern void
mtr_reserve_untake(struct mtr_purse *p, int64_t now,
				   const struct mtr_part *part, const int64_t *own, int n);

/* the transaction has committed: the purse has paid all of it */
extern void mtr_reserve_commit(struct mtr_reserve *r);

/* the quantity that is neither used nor given back */
extern int64_t mtr_reserve_left(const struct mtr_reserve *r);

/* what is kept for it, own included */
extern int64_t mtr_reserve_left_uc(const struct mtr_reserve *r);

/*
 * mtr_reserve_settle is for qty units, 0 .. mtr_reserve_left, that have been used:
 * their share burns for good.  Returns how much that is.
 */
extern int64_t
mtr_reserve_settle(struct mtr_purse *p, struct mtr_reserve *r, int64_t qty);

/*
 * mtr_reserve_release gives back what is left, worth that much now, and ends the
 * reservation.
 */
extern void mtr_reserve_release(struct mtr_purse *p, int64_t now,
								struct mtr_reserve *r, int64_t worth);

#endif /* MTR_CORE_RESERVE_H */
