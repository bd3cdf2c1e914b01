/*
 * xact.h
 *		What a transaction owes shared memory when it ends.
 *
 * The one place with transaction callbacks.  Modules record what they did;
 * commit makes it final, abort undoes it, newest first; a subtransaction's
 * abort undoes its own part.
 *
 * The COMMIT callback runs when the commit can no longer be refused: an error
 * there is a server crash.	 It only does arithmetic under a spinlock, atomics
 * and latches; all it touches was claimed and pinned before.
 */
#ifndef MORTAR_XACT_H
#define MORTAR_XACT_H

#include "gate.h"

/* registers the callbacks; called once per backend, from _PG_init */
extern void mtr_xact_init(void);

/*
 * Makes room for n more records.  Call before changing shared memory, so that
 * running out of memory changes nothing.
 */
extern void mtr_xact_reserve(int n);

/* this transaction already pins the tenant of that name; NULL if not */
extern MtrTenant *mtr_xact_pinned(const char *tenant);

/* the caller has raised t->pins by one; the end of the transaction lowers it */
extern void mtr_xact_pin(MtrTenant *t, bool is_new);

/* credits that this transaction has granted the tenant and not yet spent */
extern int64 *mtr_xact_pending(MtrTenant *t);

/* records; see gate.c for what they mean */
extern void mtr_xact_debit(MtrTenant *t, int64 from_slot, int64 from_pending);
extern void mtr_xact_credit(MtrTenant *t, int64 amount);
extern void mtr_xact_claim(const MtrUsageRef *ref);
extern void
mtr_xact_usage(const MtrUsageRef *ref, int64 qty, int64 from_pending);

/* a counter already claimed by this transaction: nothing to hold again */
extern bool mtr_xact_has_claim(const MtrUsageRef *ref);

/* a price was set: the database's prices are read again after commit */
extern void mtr_xact_price_changed(MtrDb *db);

/* a key whose cached copy is void after commit; the caller has pinned it */
extern void mtr_xact_key_changed(MtrKey *key);

/* tables were changed by somebody else's statement, or all was dropped */
extern void mtr_xact_foreign_write(MtrDb *db);
extern void mtr_xact_purge(MtrDb *db);

/* run at commit of the current transaction (flusher); nothing may fail in it */
extern void mtr_xact_on_commit(void (*func)(void *arg), void *arg);

#endif /* MORTAR_XACT_H */
