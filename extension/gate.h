/*
 * gate.h
 *		The credit gate: take, give back, price and count, all in shared memory.
 *
 * Debits take from the slot at once, so two spenders can never both spend the
 * last credit; credits reach the slot when their transaction commits.	Every
 * movement is remembered by xact.c and undone when its (sub)transaction
 * aborts.	No table, no row lock, no WAL.
 */
#ifndef MORTAR_GATE_H
#define MORTAR_GATE_H

#include "utils/timestamp.h"

#include "shmem.h"

/* a usage slot and its counter, claimed and pinned for this transaction */
typedef struct MtrUsageRef
{
	MtrTenant *tenant;
	MtrUsage  *usage;
	int16      counter; /* index into tenant->counter, -1: free */
} MtrUsageRef;

typedef struct MtrShortfall
{
	int64 required_uc;
	int64 available_uc;
} MtrShortfall;

/* which sources paid, and how much, for what was taken in one step */
typedef struct MtrParts
{
	int             n;
	struct mtr_part part[MTR_PURSE_SOURCES];

	/* of each part: what this transaction itself gets back at commit has paid */
	int64 own[MTR_PURSE_SOURCES];
} MtrParts;

/* the same for a movement, which any number of grants may pay; palloc'd */
typedef struct MtrPaid
{
	int              n;
	int              max;
	struct mtr_part *part;
	int64 *own; /* of each, what comes back to the transaction itself */
} MtrPaid;

/*
 * Spendable credits of a pinned tenant as this transaction sees them: the
 * slot's, plus what the transaction granted itself, or gets back, and has not
 * spent.
 */
extern int64 mtr_available(MtrTenant *t);

/*
 * Step 4 of a request: true when the tenant may start a call of the route that
 * moves the given meters (bit mask of 1 << MtrMeter).  False exactly when nothing above
 * the floor is left and one of the meters has a price above 0 there; then *s is
 * filled (required_uc 1).
 */
extern bool
mtr_gate_admit(MtrTenant *t, int16 route, uint32 meters, MtrShortfall *s);

/* would taking that much be short now?  Then *s is filled. */
extern bool mtr_gate_is_short(MtrTenant *t, int64 amount_uc, MtrShortfall *s);

/* has one of these meters (bit mask) a price above 0? */
extern bool mtr_meters_cost(MtrTenant *t, int16 route, uint32 meters);

/*
 * Claims the usage slot of (tenant, meter, key, route) under the price in
 * force (or unpriced) until the end of the transaction.  Warm: no table.
 * False when memory is full or the slot's minutes are (the flusher has not
 * run for long): the caller answers 503 or raises 53400.  key_id NULL: none.
 */
extern bool
mtr_usage_claim(MtrTenant *t, MtrMeter meter, int16 route,
				const pg_uuid_t *key_id, bool priced, MtrUsageRef *ref);

/*
 * Prices and takes n quantities of one tenant in one step.  All or nothing:
 * false (with *s) when credits do not suffice.	 Quantities become usage when
 * the transaction commits.
 *
 * Buffered: when the cost of what is unflushed, calls in flight included, would pass the
 * tenant's max_unflushed_uc, it wakes the flusher and waits for a second at most,
 * cancellably, before it takes anything.  Raises 53400 after that.	Otherwise writes a
 * row for each quantity, see sync.h.
 *
 * Raises 22003 beyond MTR_MAX_QUANTITY, or when all that the price ever charged the
 * tenant would pass int64.
 */
extern bool mtr_usage_charge(MtrUsageRef *refs, const int64 *qty, int n,
							 MtrDurability durability, MtrShortfall *s);

/* what that would cost now, all together; 0 if it would be out of range */
extern int64 mtr_usage_cost(const MtrUsageRef *refs, const int64 *qty, int n);

/* ---- what rows of the ledger book ---- */

/*
 * Takes an amount > 0 in burn order, own grants first; *paid says from where.	All or
 * nothing: false (with *s) when credits do not suffice.  The grants that are named are
 * this transaction's to give back until its end.  Raises 55P03 when the purse has to be
 * loaded again and cannot be.	take.c
 */
extern bool
mtr_take(MtrTenant *t, int64 amount_uc, MtrPaid *paid, MtrShortfall *s);

/* puts back what mtr_take has taken a moment ago, in this very call */
extern void mtr_untake(MtrTenant *t, MtrPaid *paid);

/* room for n more parts */
extern void mtr_paid_reserve(MtrPaid *paid, int n);

/*
 * What a part's source is called in mortar.credit_ledger: 'available', 'debt' or
 * 'issued'; a grant also has its id.
 */
extern const char *mtr_part_account(const struct mtr_part *part);
extern pg_uuid_t   mtr_part_grant(MtrTenant *t, const struct mtr_part *part);

/*
 * Announces a grant of this transaction: spendable by it at once, by others when it
 * commits, if it is in force then.  Raises 22003 when the balance could pass the
 * limit.
 */
extern void mtr_give(MtrTenant *t, const struct mtr_grant *grant);

/*
 * The cell of a grant, loaded into one if it has none: it keeps it until this transaction
 * ends, or takes again when nothing is left of it.	 A loose one (loose.h) for an own grant
 * that has no cell.  -1 when the grant has ended (or does not exist): what comes back to it
 * is gone, and nothing is left to be taken.  Raises 55P03.
 */
extern int mtr_grant_cell(MtrTenant *t, const pg_uuid_t *grant_id);

/*
 * The same for mtr_refund(), which does not need one: a loose grant, if so.  Also the cell
 * of one that has ended, if it has one: tables may show it uneven by what comes back.
 */
extern int mtr_refund_cell(MtrTenant *t, const pg_uuid_t *grant_id);

/* would that have its answer at once, now and later in this transaction? */
extern bool mtr_refund_at_once(MtrTenant *t, const pg_uuid_t *grant_id);

/*
 * Takes back what is left of a grant, at most most; *part says how much, 0 maybe.
 * Cell as above.
 */
extern void
mtr_take_grant(MtrTenant *t, int cell, int64 most, struct mtr_part *part);

/* ---- refund.c ---- */

/*
 * At commit, amount goes to a cell: of a grant as above, MTR_PURSE_DEBT or
 * MTR_PURSE_ISSUED; -1: to one that has ended and has no cell.	The transaction
 * itself may spend it at once.	 Raises 22003 when the balance could pass the limit.
 */
extern void mtr_refund(MtrTenant *t, int cell, int64 amount);

/* adds to what is held, at once; raises 22003 when that could pass the limit */
extern void mtr_hold_begin(MtrTenant *t, int64 amount, TimestampTz expires_at);

/* takes from it, at commit */
extern void mtr_hold_end(MtrTenant *t, int64 amount);

/* the same of a hold that has expired; until then others know that it is coming */
extern void mtr_hold_release(MtrTenant *t, int64 amount);

/* ---- between gate.c, take.c and charge.c ---- */

typedef enum MtrTaken
{
	MTR_TAKEN,
	MTR_TAKEN_SHORT,
	MTR_TAKEN_AGAIN /* the purse has to be loaded again first */
} MtrTaken;

typedef struct MtrPinned MtrPinned;

/*
 * What this transaction gets back at commit and may spend already.	 The mutex is
 * held, for the next one too.
 */
extern int64 mtr_own_refunds(const MtrTenant *t, const MtrPinned *pin);

/*
 * Takes from that, in burn order, as much of amount as grants get back; says so in
 * *parts, and returns what it took.
 */
extern int64 mtr_take_own_refunds(const MtrTenant *t, const MtrPinned *pin,
								  int64 amount, MtrParts *parts);

/* what was taken pays for */
typedef enum MtrPurpose
{
	MTR_FOR_ENTRIES, /* entries that this transaction posts */
	MTR_FOR_USAGE,   /* buffered usage, which the flusher books */
	MTR_FOR_DURABLE  /* usage with a row of its own, see sync.h */
} MtrPurpose;

/*
 * Notes what was taken.  The caller has reserved records: two for each part, for usage
 * three.
 */
extern void
mtr_note_parts(MtrTenant *t, const MtrParts *parts, MtrPurpose what);

/* the cell keeps its grant to the end of the transaction; the mutex is held */
extern void mtr_ref_cell(MtrTenant *t, MtrPinned *pin, int cell);

/* raises the 22003 of a balance that would pass the limit */
extern void mtr_raise_out_of_range(void) pg_attribute_noreturn();

/* the mutex is held */
extern MtrTaken mtr_take_locked(MtrTenant *t, MtrPinned *pin, TimestampTz now,
								int64 amount, MtrParts *parts, MtrShortfall *s);

/*
 * Takes what the cells have of amount, when taking all of it said AGAIN although the
 * purse has been loaded.  Returns how much.	The mutex is held.
 */
extern int64 mtr_drain_locked(MtrTenant *t, MtrPinned *pin, TimestampTz now,
							  int64 amount, MtrParts *parts);

/* what own grants without a cell could pay of amount; the mutex is held */
extern int64
mtr_behind_locked(MtrTenant *t, const MtrPinned *pin, int64 amount);

/*
 * Would it be short?  The same rules, and *s, without taking.  The mutex is held.
 */
extern bool mtr_is_short_locked(MtrTenant *t, const MtrPinned *pin,
								TimestampTz now, int64 amount, MtrShortfall *s);

/* how it goes to load the purse again */
typedef struct MtrAgain
{
	int64           deadline; /* 0: nobody waits */
	bool            loaded;   /* the last time it was loaded */
	struct MtrKept *kept;     /* what was read for that, or NULL */
	bool            is_usage;
} MtrAgain;

/*
 * Makes room in the purse of a pinned tenant and loads it again, or sleeps a little.
 * *paid: what the caller has taken so far (NULL: it takes all at once).	Raises 55P03
 * when that has gone on for too long, 53400 when it would be for ever.	take.c
 */
extern void mtr_gate_again(MtrTenant *t, MtrAgain *again, MtrPaid *paid);

/*
 * When what a subtransaction took of loose grants has come back, they may burn before
 * those in cells: then loads the purse again, if that is possible now.	 Nobody else
 * does while this transaction has loose grants.
 */
extern void mtr_gate_refresh(MtrTenant *t);

/* raises that 53400 */
extern void mtr_raise_many_grants(const MtrTenant *t) pg_attribute_noreturn();

/*
 * Would credits suffice for amount, if the grants without a cell that this transaction
 * has made could pay for usage?
 */
extern bool mtr_is_behind_enough(MtrTenant *t, int64 amount);

/* it is over */
extern void mtr_gate_done(MtrAgain *again);

/*
 * What n quantities cost, each and together.  The mutex is held.  False when a counter
 * would leave its range; a cost beyond int64 is one that nobody can pay.  charge.c
 */
extern bool
mtr_price_locked(MtrTenant *t, const MtrUsageRef *refs, const int64 *qty, int n,
				 int64 *cost, int64 *total);

/* the same when something has to be waited for */
extern void mtr_gate_wait(MtrTenant *t, MtrAgain *again);

/* raises MT402 with required_uc and available_uc in its detail */
extern void mtr_raise_short(const MtrShortfall *s) pg_attribute_noreturn();

#endif /* MORTAR_GATE_H */
