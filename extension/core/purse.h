/*
 * purse.h - what a tenant can spend, and which grant pays
 *
 * Purpose: a tenant's grants differ in priority, category and life time.  A
 * purse holds the next few of them in burn order, and decides at the instant
 * of a debit which of them pays.  Nothing later has to find that out again.
 *
 * Design: a fixed array of cells, one per grant, and two sources that are no
 * grants: debt (what a tenant may spend beyond its credits) and issued (a
 * tenant in unlimited mode: counted, nothing moves).  A debit takes from the
 * cells in burn order: priority, soonest end (never comes last), promotional
 * before paid, earliest start, id.  It tells its parts, so that whoever
 * undoes it gives back to the cells it came from; what returns to a grant that
 * has ended meanwhile is gone, like the rest of that grant.
 *
 * Grants start and end by themselves: every function that takes a time brings
 * the purse up to it first (next_event makes that one comparison).  That cannot be
 * undone: when the clock is set back behind judged_at, what tables say is right, and
 * the purse has to be loaded again.
 *
 * A cell counts what usage burned for good (burn_done) and how much of it is
 * in the tables (burn_flushed), both signed; only their difference means
 * something.  Debt that a grant repays is a burn of the grant and a negative
 * burn of the debt.  So tables follow memory by plain additions.
 *
 * A part that is undone goes back to where it came from, but a source never
 * gets more than is taken of it: its debt may have been repaid meanwhile, or
 * rounding have given it something.  Then the rest goes where settling would
 * put it, and is a burn of the source it should have gone to.  What has no
 * place at all waits in spare for the settling that ends every abort.
 *
 * Grants beyond MTR_PURSE_CELLS are only counted (more, more_uc); when the
 * cells do not suffice, the owner of the purse loads it again from tables.
 * They cannot repay debt, so debt > 0 with more_uc > 0 is possible, and sets
 * reload_wanted: nobody spends before the loader has made them repay it.
 *
 * Invariants: available = remaining of all LIVE cells + more_uc - debt; not
 * both debt > 0 and a LIVE cell with something remaining; of a grant that has
 * not ended, remaining + taken = amount, none of them negative.
 *
 * To load: init, mode and floor, mtr_purse_owe, add the grants, add_behind
 * those that find no cell, settle 0.  First the grants that a crash has left
 * uneven (more than their amount remains, or less than nothing), whether they
 * have ended or not; then those in force with something remaining, then those
 * that start later, each in burn order.  The purse may then hold burns that
 * tables lack: of debt that was repaid, of what was uneven.
 *
 * Ownership and locking: pure; the caller holds the lock that guards the
 * purse.  No function allocates or fails but by its result.  Times are
 * microseconds of any epoch, amounts micro-credits of at most MTR_PURSE_MAX.
 */
#ifndef MTR_CORE_PURSE_H
#define MTR_CORE_PURSE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/attr.h"

#define MTR_PURSE_CELLS 8
#define MTR_PURSE_DEBT MTR_PURSE_CELLS         /* pseudo cell */
#define MTR_PURSE_ISSUED (MTR_PURSE_CELLS + 1) /* pseudo cell */
#define MTR_PURSE_SOURCES (MTR_PURSE_CELLS + 2)
#define MTR_PURSE_MAX INT64_C(2305843009213693951) /* 2^61 - 1 */
#define MTR_PURSE_NEVER INT64_MAX

/* fewer LIVE cells with credits than this while more are behind: load again */
#define MTR_PURSE_LOW 3

enum mtr_cell_state
{
	MTR_CELL_FREE,
	MTR_CELL_INCOMING, /* granted by a transaction in progress: its own */
	MTR_CELL_FUTURE,   /* starts later */
	MTR_CELL_LIVE,
	MTR_CELL_ENDED /* expired; kept until nothing refers to it */
};

enum mtr_purse_mode
{
	MTR_PURSE_HARD,     /* never below the floor */
	MTR_PURSE_SOFT,     /* always served; what is missing is debt */
	MTR_PURSE_UNLIMITED /* no credit moves */
};

enum mtr_grant_category
{
	MTR_GRANT_PROMO,
	MTR_GRANT_PAID
};

/*
 * What is known of a grant.  Tables may, after a crash, say that a little more
 * remains than its amount, or less than nothing: mtr_purse_add evens that out.
 */
struct mtr_grant
{
	uint8_t id[16];
	int64_t amount; /* what was granted, > 0 */
	int64_t remaining;
	int64_t effective_at;
	int64_t expires_at; /* MTR_PURSE_NEVER */
	int16_t priority;   /* 0 .. 100, lowest first */
	uint8_t category;   /* enum mtr_grant_category */
};

struct mtr_cell
{
	struct mtr_grant grant;    /* of the pseudo cells nothing is set */
	uint8_t          state;    /* enum mtr_cell_state; pseudo cells: LIVE */
	uint16_t         reserved; /* of these, reservations (core/reserve.h) */
	int32_t          refs;     /* transactions that may still give back; of the
							 * pseudo cell of debt too */
	int64_t          taken;    /* of a grant: ever, net, in flight included */
	int64_t          burn_done;
	int64_t          burn_flushed;
};

/*
 * All zero is an empty purse in hard mode with floor 0, but for the events.
 * What every debit reads stands first.
 */
struct mtr_purse
{
	int64_t          available;
	int64_t          floor;      /* refuse below; <= 0 */
	int64_t          debt;       /* >= 0 */
	int64_t          next_event; /* when a grant starts or ends next */
	int64_t          now;        /* the latest time that it has seen */
	int32_t          more;       /* grants that have no cell, in force or not */
	uint8_t          mode;       /* enum mtr_purse_mode */
	bool             reload_wanted;
	bool             flushing; /* parts are on their way into the tables */
	uint8_t          n;        /* cells that are not FREE */
	uint8_t          order[MTR_PURSE_CELLS]; /* their indexes, in burn order */
	int64_t          spare;                  /* given back and not placed yet */
	int64_t          more_uc;    /* of grants in force that have no cell */
	int64_t          more_later; /* of grants without a cell that start later */
	int64_t          more_event; /* when one of either starts or ends first */
	int64_t          judged_at;  /* when a grant last started or ended for it */
	struct mtr_grant more_first; /* of those in force, the first to burn */
	struct mtr_cell  cell[MTR_PURSE_SOURCES];
};

/* one source's part of a debit, or of what a flush writes (then signed) */
struct mtr_part
{
	int32_t cell;
	int64_t amount;
};

/* what there is to know of any number of grants that have no cell */
struct mtr_behind
{
	int32_t          n;
	bool             too_much; /* beyond any balance: sums are wrong */
	int64_t          uc;       /* of those in force */
	int64_t          later;    /* of those that start later */
	int64_t          event;    /* when one of either starts or ends first */
	struct mtr_grant first;    /* of those in force, the first to burn */
};

enum mtr_take
{
	MTR_TAKE_OK,
	MTR_TAKE_SHORT, /* hard mode: credits and overdraft do not suffice; any
					 * mode: no balance or debt can be that high */
	MTR_TAKE_AGAIN  /* the purse must be loaded again first: reload_wanted */
};

/* empties it: no grant, no debt, hard mode, floor 0 */
extern void mtr_purse_init(struct mtr_purse *p);

/*
 * mtr_purse_advance starts and ends grants as of now.  A purse never goes back
 * in time: an earlier now changes nothing.
 */
extern void mtr_purse_advance(struct mtr_purse *p, int64_t now);

/*
 * mtr_purse_owe is for the loader: the debt that tables say.  It is negative
 * when a grant has repaid debt that a crash has undone; then a grant gets it
 * back.
 */
extern void mtr_purse_owe(struct mtr_purse *p, int64_t debt);

/*
 * mtr_purse_fits is true when amount more can be granted or refunded, so that
 * no sum ever leaves int64: ask before.
 */
extern bool mtr_purse_fits(const struct mtr_purse *p, int64_t amount);

/*
 * mtr_purse_spendable is what a debit may take now: available less the floor
 * in hard mode, plus what remains of INCOMING cells in the bit mask own that
 * are in force; MTR_PURSE_MAX in the other modes.  Never negative.
 */
extern int64_t mtr_purse_spendable(const struct mtr_purse *p, uint32_t own);

/* what remains of INCOMING cells in the bit mask own that are in force */
extern int64_t mtr_purse_own(const struct mtr_purse *p, uint32_t own);

/*
 * mtr_purse_take debits amount > 0: own INCOMING cells first (they do not
 * count in available), then LIVE cells in burn order, then debt.  On OK,
 * part[0 .. *n-1] says which cells paid; otherwise nothing changed.
 */
extern enum mtr_take
mtr_purse_take(struct mtr_purse *p, int64_t now, int64_t amount, uint32_t own,
			   struct mtr_part part[MTR_PURSE_SOURCES], int *n) MTR_MUSTCHECK;

/*
 * mtr_purse_drain is for a debit that said AGAIN, although the purse was loaded a
 * moment ago: it takes what the cells have of amount, whatever the floor, own ones
 * first.  Returns how much that is, the sum of its parts.
 */
extern int64_t
mtr_purse_drain(struct mtr_purse *p, int64_t now, int64_t amount, uint32_t own,
				struct mtr_part part[MTR_PURSE_SOURCES], int *n);

/*
 * mtr_purse_detach takes the cell from a grant that nobody but the caller refers to,
 * for debits alone, and of which nothing is left; or from the caller's own INCOMING
 * one that is not in force.  What the caller has taken then comes back by
 * mtr_purse_return, if it does.  False: nothing has changed.
 *
 * Until the caller's rows are committed or undone, tables show more of the grant than
 * there is: nobody reads grants meanwhile but who knows that.
 */
extern bool mtr_purse_detach(struct mtr_purse *p, int64_t now, int cell,
							 struct mtr_grant *grant) MTR_MUSTCHECK;

/*
 * mtr_purse_return gives back what was taken of a grant that was detached,
 * grant->remaining: to its cell if it has got one since.  As mtr_purse_back.
 */
extern void mtr_purse_return(struct mtr_purse *p, int64_t now,
							 const struct mtr_grant *grant);

/*
 * mtr_purse_take_cell debits as much of one grant as is left, at most amount,
 * in any mode, without looking at the floor: a grant that is taken back.
 * Returns what it took; 0 when the grant has ended.
 */
extern int64_t
mtr_purse_take_cell(struct mtr_purse *p, int64_t now, int cell, int64_t amount);

/*
 * mtr_purse_back undoes a part of a debit, or refunds it.  While the tenant is
 * in debt, what comes back to a grant repays debt.  Whoever undoes parts
 * settles in the end, be it 0.
 */
extern void
mtr_purse_back(struct mtr_purse *p, int64_t now, int cell, int64_t amount);

/* a part became usage for good: it moves burn_done */
extern void mtr_purse_burn(struct mtr_purse *p, int cell, int64_t amount);

/*
 * mtr_purse_settle gives (delta > 0) or takes (delta < 0) the few
 * micro-credits by which the price of what was undone differs from what its
 * parts were; whatever the floor.  They belong to usage of others, so
 * burn_done moves too.
 */
extern void mtr_purse_settle(struct mtr_purse *p, int64_t now, int64_t delta);

/*
 * mtr_purse_add finds a cell for a grant; -1 when none is free, or when it
 * does not fit (mtr_purse_fits).  incoming: of a transaction in progress;
 * otherwise it counts at once and pays debt first.
 */
extern int mtr_purse_add(struct mtr_purse *p, int64_t now,
						 const struct mtr_grant *grant, bool incoming);

/* the transaction of an INCOMING cell has committed; pays debt first */
extern void mtr_purse_arrive(struct mtr_purse *p, int64_t now, int cell);

/* the transaction of an INCOMING cell has aborted; everything taken is back */
extern void mtr_purse_drop(struct mtr_purse *p, int cell);

/*
 * Counts a grant that has no cell, in force or not yet.  One that does not fit
 * is not counted.
 */
extern void mtr_purse_add_behind(struct mtr_purse *p, int64_t now,
								 const struct mtr_grant *grant);

/* mtr_behind_count adds a grant to *b, which is all zero at first, as of now */
extern void mtr_behind_count(struct mtr_behind *b, int64_t now,
							 const struct mtr_grant *grant);

/*
 * mtr_purse_add_all_behind counts them all, as mtr_purse_add_behind each of them,
 * in one step.  False, and nothing has changed, when one of them has started or
 * ended since, or when they do not fit: then count one by one.
 */
extern bool mtr_purse_add_all_behind(struct mtr_purse *p, int64_t now,
									 const struct mtr_behind *b) MTR_MUSTCHECK;

/*
 * mtr_purse_forget_behind uncounts all grants without a cell: the loader has
 * read them again, and adds them.
 */
extern void mtr_purse_forget_behind(struct mtr_purse *p, int64_t now);

/*
 * mtr_purse_demote takes the cell from a grant that starts later, or else from
 * the one that burns last of those that burn after *than (NULL: of all), and
 * counts it as one behind.  Only one that tables know all about: nothing in
 * flight, nothing unwritten.  Returns the cell, free now, or -1.
 */
extern int mtr_purse_demote(struct mtr_purse *p, int64_t now,
							const struct mtr_grant *than);

/* true when a grant in force could have a cell and another need not lose it */
extern bool mtr_purse_has_room(const struct mtr_purse *p);

/* the cell of a grant, -1: it has none */
extern int mtr_purse_find(const struct mtr_purse *p, const uint8_t id[16]);

/* -1, 0, 1: a burns before, with, after b */
extern int
mtr_grant_compare(const struct mtr_grant *a, const struct mtr_grant *b);

/* true when grants behind are wanted in cells, as far as can be foreseen */
extern bool mtr_purse_is_low(const struct mtr_purse *p);

/* true when tables know all that burned; false during a flush */
extern bool mtr_purse_is_clean(const struct mtr_purse *p);

/*
 * A flush asks for mtr_purse_unwritten, copies usage, and then makes the parts
 * sum to what that costs by mtr_purse_carry.  In that order: what ends in
 * between has its usage booked, and who pays for it is put right by the next
 * flush.  Both return the number of parts, none of them 0.
 *
 * mtr_purse_unwritten says burn_done - burn_flushed of every source.  Until
 * mtr_purse_flushed, or the next call, no cell gets another grant; a flush
 * that fails needs no other call.
 */
extern int mtr_purse_unwritten(struct mtr_purse *p,
							   struct mtr_part   part[MTR_PURSE_SOURCES]);

/*
 * mtr_purse_carry puts the difference between cost and the sum of n parts,
 * which calls in flight make, on sources that can carry it.
 */
extern int mtr_purse_carry(struct mtr_purse *p, int64_t cost,
						   struct mtr_part part[MTR_PURSE_SOURCES], int n);

/*
 * mtr_purse_place is what mtr_purse_carry does, for parts that do not count as burns of
 * the purse because tables have them anyway: it adds rest, of either sign, to n of
 * them.  When they are in the tables, mtr_purse_rebook says of a source by how much
 * more, and a later flush writes the opposite.  The caller holds refs on the grants.
 */
extern int  mtr_purse_place(const struct mtr_purse *p, int64_t rest,
							struct mtr_part part[MTR_PURSE_SOURCES], int n);
extern void mtr_purse_rebook(struct mtr_purse *p, int cell, int64_t amount);

/* the parts are in the tables */
extern void
mtr_purse_flushed(struct mtr_purse *p, const struct mtr_part *part, int n);

#endif /* MTR_CORE_PURSE_H */
