/*
 * release.h
 *		Releasing holds that have expired, by entries of the ledger, when somebody
 *		would be refused for lack of credits, or get into debt.
 */
#ifndef MORTAR_RELEASE_H
#define MORTAR_RELEASE_H

#include "gate.h"

/*
 * For who is short by *s: ends reservations that have expired (reserve.h), else releases
 * as many holds that have expired as it takes; false when that cannot help, with what
 * they would free added to s->available_uc.  Waits a second at most, cancellably, for
 * holds that another transaction is at, if these would help; raises 55P03 after that.
 * After true ask the gate again.  SPI need not be connected.
 */
extern bool mtr_release_expired(MtrTenant *t, MtrShortfall *s);

/*
 * mtr_take, after holds that have expired are released, as many as it takes lest it make
 * debt, or be refused.  None that expires after until (DT_NOEND: all that have): one that
 * the caller is about to capture.
 */
extern bool mtr_take_all(MtrTenant *t, int64 amount_uc, TimestampTz until,
						 MtrPaid *paid, MtrShortfall *s);

/* mtr_usage_charge, likewise; raises MT402 */
extern void mtr_usage_charge_all(MtrUsageRef *refs, const int64 *qty, int n,
								 MtrDurability durability);

/* releases one hold that has expired, in passing; SPI need not be connected */
extern void mtr_tidy_holds(MtrTenant *t);

#endif /* MORTAR_RELEASE_H */
