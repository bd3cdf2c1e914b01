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

/*
 * Spendable credits of a pinned tenant as this transaction sees them: the
 * slot's, plus what the transaction granted itself and has not spent.
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
 * the transaction commits.  When the cost of what is unflushed, calls in flight
 * included, would pass the tenant's max_unflushed_uc, it wakes the flusher and
 * waits for a second at most, cancellably, before it takes anything.  Raises 53400
 * after that, and 22003 beyond MTR_MAX_QUANTITY, or when all that the price ever
 * charged the tenant would pass int64.
 */
extern bool
mtr_usage_charge(MtrUsageRef *refs, const int64 *qty, int n, MtrShortfall *s);

/* takes an amount > 0; false (with *s) when credits do not suffice */
extern bool mtr_take(MtrTenant *t, int64 amount_uc, MtrShortfall *s);

/* puts back what mtr_take has taken in this transaction */
extern void mtr_untake(MtrTenant *t, int64 amount_uc);

/*
 * Announces a credit of this transaction: spendable by it at once, by others
 * when it commits.	 Raises 22003 when the balance would pass the limit.
 */
extern void mtr_give(MtrTenant *t, int64 amount_uc);

/* raises MT402 with required_uc and available_uc in its detail */
extern void mtr_raise_short(const MtrShortfall *s) pg_attribute_noreturn();

#endif /* MORTAR_GATE_H */
