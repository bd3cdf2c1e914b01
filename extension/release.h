/*
 * release.h
 *		Releasing holds that have expired, by entries of the ledger, when somebody
 *		would be refused for lack of credits, or get into debt.
 */
#ifndef MORTAR_RELEASE_H
#define MORTAR_RELEASE_H

#include "gate.h"

/*
 * For who is about to take amount_uc: releases as many holds that have expired as it
 * takes lest that make debt, but none that expires after until.  SPI need not be
 * connected.
 */
extern void mtr_release_for(MtrTenant *t, int64 amount_uc, TimestampTz until);

static inline void
mtr_release_before(MtrTenant *t, int64 amount_uc, TimestampTz until)
{
	/* most tenants hold nothing; an older value may be read, as a moment ago */
	if (t->next_hold_expiry != DT_NOEND)
		mtr_release_for(t, amount_uc, until);
}

/*
 * For who is short by *s: ends reservations that have expired (reserve.h), else releases
 * as many holds that have expired as it takes; false when that cannot help, with what
 * they would free added to s->available_uc.  Waits a second at most, cancellably, for
 * holds that another transaction is at, if these would help; raises 55P03 after that.
 * After true ask the gate again.  SPI need not be connected.
 */
extern bool mtr_release_expired(MtrTenant *t, MtrShortfall *s);

/*
 * mtr_take, with both.  Holds that expire after until are not released (DT_NOEND: as of
 * now): one that the caller is about to capture.
 */
extern bool mtr_take_all(MtrTenant *t, int64 amount_uc, TimestampTz until,
						 MtrPaid *paid, MtrShortfall *s);

/* releases one hold that has expired, in passing; SPI need not be connected */
extern void mtr_tidy_holds(MtrTenant *t);

#endif /* MORTAR_RELEASE_H */
