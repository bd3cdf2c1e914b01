/*
 * reserve.h
 *		Credits for an answer that is sent in pieces: reserve, settle, release.
 *
 * A call whose answer goes out over several transactions, perhaps of several backends,
 * reserves all of its quantity in the first one: priced and taken in one step, like
 * any usage (gate.h), so that nothing is sent that could not be paid.	What was sent is
 * settled, and becomes usage at once; what was not is released, or comes back by
 * itself when nobody has settled anything for as long as its time to live.
 *
 * Kept in shared memory alone, nothing of it is written: after a crash there is no
 * reservation, and nothing is charged but what was settled (and that as buffered usage
 * is, see README).  A clean stop writes what was settled and forgets the rest.
 *
 *		reserve.c			this interface
 *		reservation.c		memory, expiry
 *		core/reserve.c		who pays for which piece
 *
 * Reserving belongs to its transaction: until that commits nobody can settle, and an
 * abort of it, or of a savepoint before, gives back.  Settling and releasing do not:
 * what was sent was sent, whatever becomes of the transaction that says so.
 *
 * A reservation pins nothing, but its tenant is not evicted.  It is dropped when the
 * tenant has to be loaded again because tables were changed behind Mortar's back, with
 * the extension and with the database.	 Its id then names nothing, as after the end.
 *
 * The grants that pay for it keep their cells in the purse to its end, like those of a
 * transaction in progress (core/purse.h).	All of a tenant's reservations may hold
 * MTR_RESERVE_CELLS of them; the other cells are for its calls, of which one that would
 * need more has to try again (55P03).	Debt that is reserved keeps grants that are used up
 * in their cells.
 *
 * A settled piece is unflushed usage.	It was paid and sent, so that max_unflushed_uc
 * does not stop it; what comes next waits for the flusher, who is woken.  The same if
 * the tenant's durability is group or sync: the pieces are buffered all the same.
 */
#ifndef MORTAR_RESERVE_H
#define MORTAR_RESERVE_H

#include "reservation.h"

/* the longest time to live */
#define MTR_RESERVE_MAX_TTL_MS INT64CONST(86400000)

/*
 * Reserves a quantity, 1 .. MTR_MAX_QUANTITY, of a claimed usage slot, for ttl_ms, 1 ..
 * MTR_RESERVE_MAX_TTL_MS, from now on.	 It does not expire before its transaction has
 * ended.  All or nothing: false (with *s) when credits do not suffice; as for
 * mtr_usage_charge, holds that have expired may help.
 *
 * Raises MT423 and MT403 when the usage has a price and the tenant is frozen or closed,
 * 53400 when no reservation is free (mortar.max_reservations) or too many grants would
 * have to pay for it or for all reservations, 55P03 when grants cannot be loaded now,
 * 22003 as mtr_usage_charge, 22023, 25006 on a standby, 25000 in parallel mode.	The
 * transaction cannot be prepared.
 */
extern bool mtr_reserve(MtrUsageRef *ref, int64 qty, int64 ttl_ms,
						MtrShortfall *s, MtrReserveId *id);

/*
 * A quantity, 0 .. what is left, was sent: it is usage from now on, also if this
 * transaction aborts.	The reservation lives for ttl_ms from now, and ends when nothing
 * is left.	 False, and nothing has changed, when the pinned tenant has no such
 * reservation: it has expired, ended or was dropped, or is another tenant's, or its
 * transaction has not committed yet.  Nothing more may be sent then.
 *
 * Raises 22003, with nothing changed, for more than is left; 22023, 25006, 25000.
 */
extern bool mtr_settle(MtrTenant *t, MtrReserveId id, int64 qty, int64 ttl_ms);

/*
 * Nothing more will be sent: gives back what is left, also if this transaction aborts.
 * Called in the transaction that reserves, it does so when that commits.  Nothing happens
 * when the pinned tenant has no such reservation.	Raises 25006, 25000.
 */
extern void mtr_release(MtrTenant *t, MtrReserveId id);

/* could it be settled now? */
extern bool mtr_reserve_id_valid(MtrTenant *t, MtrReserveId id);

#endif /* MORTAR_RESERVE_H */
