/*
 * expire.h
 *		Holds that have expired: what they held is free.
 *
 * Nobody waits for them: they are released (release.h) when somebody needs what they
 * held.  Until then they are counted as free by whoever asks for the balance.
 */
#ifndef MORTAR_EXPIRE_H
#define MORTAR_EXPIRE_H

#include "shmem.h"

/* what a tenant's expired holds hold, and what of it comes back to the tenant */
typedef struct MtrExpired
{
	int64 held;
	int64 freed; /* not what came from grants that have ended */
} MtrExpired;

/* which of them can have expired, and are not resolved yet: first <= expires_at <= now */
typedef struct MtrExpiredWindow
{
	TimestampTz first;
	TimestampTz now;
	uint32      version; /* of the slot's holds */
} MtrExpiredWindow;

/* in a statement about tenant $1: no row follows the hold h */
#define MTR_HOLD_IS_OPEN                                                       \
	"(SELECT r.entry_id FROM mortar.credit_ledger r "                          \
	"WHERE r.tenant_id = $1 AND r.reverses = h.hold_id LIMIT 1) IS NULL"

/*
 * Of a pinned tenant.  Reads tables only if a hold may have expired.  SPI need not be
 * connected.
 */
extern void mtr_expired_of(MtrTenant *t, MtrExpired *e);

/* the same of tables alone */
extern void
mtr_expired_stored(const char *tenant, TimestampTz last_posted, MtrExpired *e);

/* the time by which holds of the tenant expire: never back */
extern TimestampTz mtr_hold_clock(MtrTenant *t);

/* ---- for release.c ---- */

/* those that expire after until are left alone; false: none */
extern bool
mtr_expired_look(MtrTenant *t, TimestampTz until, MtrExpiredWindow *w);

/* what those of the window hold; SPI is connected, for the next one too */
extern void
mtr_expired_sum(MtrTenant *t, const MtrExpiredWindow *w, MtrExpired *e);

/*
 * The slot learns when the first open hold expires, *hold_id, which is returned;
 * DT_NOEND: there is none.
 */
extern TimestampTz
mtr_expired_put_right(MtrTenant *t, const MtrExpiredWindow *w,
					  pg_uuid_t *hold_id);

#endif /* MORTAR_EXPIRE_H */
