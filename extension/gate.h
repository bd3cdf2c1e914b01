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

/* which sources paid for a movement, and how much */
typedef struct MtrParts
{
	int             n;
	struct mtr_part part[MTR_PURSE_SOURCES];

	/* of each part: what this transaction itself gets back at commit has paid */
	int64 own[MTR_PURSE_SOURCES];
} MtrParts;

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

/* ---- what rows of the ledger book; gate.c ---- */

/*
 * Takes an amount > 0 in burn order, own grants first; *parts says from where.
 * False (with *s) when credits do not suffice.	 The cells that are named keep their
 * grants to the end of the transaction.  Raises 55P03 when the purse has to be
 * loaded again and cannot be.
 */
extern bool
mtr_take(MtrTenant *t, int64 amount_uc, MtrParts *parts, MtrShortfall *s);

/* puts back what mtr_take has taken a moment ago, in this very call */
extern void mtr_untake(MtrTenant *t, const MtrParts *parts);

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
 * The cell of a grant, loaded into one if it has none: it keeps it to the end of the
 * transaction.  -1 when the grant has ended (or does not exist): what comes back to
 * it is gone, and nothing is left to be taken.	 Raises 55P03.
 */
extern int mtr_grant_cell(MtrTenant *t, const pg_uuid_t *grant_id);

/*
 * Takes back what is left of a grant, at most most; *part says how much, 0 maybe.
 * Cell as above.
 */
extern void
mtr_take_grant(MtrTenant *t, int cell, int64 most, struct mtr_part *part);

/* ---- refund.c ---- */

/*
 * At commit, amount goes to a cell: of a grant as above, MTR_PURSE_DEBT or
 * MTR_PURSE_ISSUED; -1: to a grant that has ended, so it is gone.	The transaction
 * itself may spend it at once.	 Raises 22003 when the balance could pass the limit.
 */
extern void mtr_refund(MtrTenant *t, int cell, int64 amount);

/* adds to what is held, at once; raises 22003 when that could pass the limit */
extern void mtr_hold_begin(MtrTenant *t, int64 amount, TimestampTz expires_at);

/* takes from it, at commit */
extern void mtr_hold_end(MtrTenant *t, int64 amount);

/* ---- between gate.c and charge.c ---- */

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
typedef enum MtrPaid
{
	MTR_PAID_ENTRY,  /* entries that this transaction posts */
	MTR_PAID_USAGE,  /* buffered usage, which the flusher books */
	MTR_PAID_DURABLE /* usage with a row of its own, see sync.h */
} MtrPaid;

/*
 * Notes what was taken.  The caller has reserved records: two for each part, for usage
 * three.
 */
extern void mtr_note_parts(MtrTenant *t, const MtrParts *parts, MtrPaid what);

/* the cell keeps its grant to the end of the transaction; the mutex is held */
extern void mtr_ref_cell(MtrTenant *t, MtrPinned *pin, int cell);

/* raises the 22003 of a balance that would pass the limit */
extern void mtr_raise_out_of_range(void) pg_attribute_noreturn();

/* the mutex is held */
extern MtrTaken mtr_take_locked(MtrTenant *t, MtrPinned *pin, TimestampTz now,
								int64 amount, MtrParts *parts, MtrShortfall *s);

/*
 * Would it be short?  The same rules, and *s, without taking.  The mutex is held.
 */
extern bool mtr_is_short_locked(MtrTenant *t, const MtrPinned *pin,
								TimestampTz now, int64 amount, MtrShortfall *s);

/*
 * Loads the purse of a pinned tenant again, or sleeps a little; raises 55P03 when that
 * has gone on since deadline (set on the first call, when it is 0).
 */
extern void mtr_gate_again(MtrTenant *t, int64 *deadline);

/* raises MT402 with required_uc and available_uc in its detail */
extern void mtr_raise_short(const MtrShortfall *s) pg_attribute_noreturn();

#endif /* MORTAR_GATE_H */
