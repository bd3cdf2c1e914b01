/*
 * reservation.h
 *		Reservations in shared memory: where they come from, who ends them.
 *
 * Between reserve.c, whose interface is for the path of a request (reserve.h), and
 * those who end reservations otherwise: transactions, evictions, and whoever finds
 * that one has expired.
 */
#ifndef MORTAR_RESERVATION_H
#define MORTAR_RESERVATION_H

#include "gate.h"

/* names a reservation for ever: no other has its serial, nor had before a crash */
typedef struct MtrReserveId
{
	int32  index;
	uint64 serial;
} MtrReserveId;

/* lays out memory, when it is initialised */
extern void mtr_reservations_init(void);

/*
 * Takes a free one out of the list; -1: there is none.	 The caller fills or returns it
 * before anything can fail.
 */
extern int32 mtr_reservation_take(void);
extern void  mtr_reservation_return(int32 index);

/* ---- the tenant's mutex is held ---- */

/* makes it a reservation of this transaction, for what has just been taken */
extern void
mtr_reservation_fill(const MtrUsageRef *ref, int32 index, int64 qty,
					 const MtrParts *parts, int64 expires, MtrReserveId *id);

/* NULL: the tenant has none of that name (any more) */
extern MtrReservation *
mtr_reservation_find(const MtrTenant *t, const MtrReserveId *id);

/* gives back what is left of it, and frees it */
extern void
mtr_reservation_end(MtrTenant *t, MtrReservation *e, TimestampTz now);

/* part of it was used; *id is gone with the last */
extern void mtr_reservation_settle(MtrTenant *t, MtrReservation *e, int64 qty,
								   TimestampTz now);

/* sets when a live one expires */
extern void
mtr_reservation_renew(MtrTenant *t, MtrReservation *e, int64 expires);

/* the end of its transaction, see xact_apply.c */
extern void
mtr_reservation_commit(MtrTenant *t, const MtrReserveId *id, TimestampTz now);
extern void
mtr_reservation_undo(MtrTenant *t, const MtrReserveId *id, TimestampTz now);
extern void mtr_reservation_give_up(MtrTenant *t, const MtrReserveId *id);

/* ---- no lock is held ---- */

/* ends those of a tenant that have expired; true: there were some */
extern bool mtr_reservations_expire_due(MtrTenant *t);

static inline bool
mtr_reservations_expire(MtrTenant *t)
{
	/* most tenants have none; an older value may be read, as a moment ago */
	return t->reservations > 0 && mtr_reservations_expire_due(t);
}

/* the same for all tenants of all databases */
extern bool mtr_reservations_expire_all(void);

/*
 * Ends all of a tenant that nobody pins and that is about to leave memory.	 The caller
 * holds MtrShared.lock exclusively.
 */
extern void mtr_reservations_end(MtrTenant *t);

/* ends all that there are, without locks: the server stops, and nobody is left */
extern void mtr_reservations_stop(void);

#endif /* MORTAR_RESERVATION_H */
