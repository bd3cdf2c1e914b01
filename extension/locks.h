/*
 * locks.h
 *		Mortar's locks of the lock manager: what each one guards.
 *
 * They serialise what takes longer than a spinlock may be held, and go away by
 * themselves when their holder fails or dies.  An advisory lock tag carries
 * them, so pg_locks shows them as locktype "advisory" with the number below in
 * objsubid; users' own advisory locks have 1 or 2 there, so the two never meet.
 * They belong to the current database.  Different things whose hashes are equal
 * share a lock, which costs a wait and nothing else.
 *
 * There is room for a few thousand of them in the whole server.  So what one
 * transaction may do to any number of things is guarded by locks of rows instead:
 * a hold is resolved, a movement reversed, a grant taken back (hold.c, reverse.c).
 *
 * None of these is taken under MtrShared.lock or a spinlock.
 */
#ifndef MORTAR_LOCKS_H
#define MORTAR_LOCKS_H

#include "mortar.h"

#include "storage/lockdefs.h"

typedef enum MtrLock
{
	/* a tenant: who holds it fills the tenant's slot from tables */
	MTR_LOCK_LOAD = 0x4d31,

	/* a tenant's idempotency key: one call at a time uses it */
	MTR_LOCK_IDEMPOTENCY = 0x4d32,

	/* a tenant's document table; share: its rows are written, exclusive: it goes */
	MTR_LOCK_DOC_TABLE = 0x4d33,

	/*
	 * The extension: DROP holds it, CREATE takes it.  Nothing of a new
	 * extension can be in memory before memory knows that the old one is gone.
	 */
	MTR_LOCK_EXTENSION = 0x4d34,

	/* a tenant: its state is changed, in the table and then in the slot */
	MTR_LOCK_LIFE = 0x4d35,

	/* a tenant: its limits are changed, in the table and then in the slot */
	MTR_LOCK_LIMIT = 0x4d36
} MtrLock;

/*
 * The first two wait, and hold until the transaction ends, COMMIT callbacks
 * included; a subtransaction that aborts gives back what it took.  They raise
 * 40P01 on a deadlock, 57014 when the wait is cancelled, 55P03 after
 * lock_timeout and 53200 when the server's lock table is full.  Taking one twice
 * is no error.
 */

/* exclusively; tenant is NULL for a lock that is about no tenant */
extern void mtr_lock(MtrLock kind, const char *tenant);

/* one thing of a tenant, by name; mode is ShareLock or ExclusiveLock */
extern void mtr_lock_part(MtrLock kind, const char *tenant, const char *name,
						  size_t name_len, LOCKMODE mode);

/*
 * Exclusively if that is possible at once, else false.  Held until mtr_unlock,
 * which whoever got true calls, or the end of the (sub)transaction.  Raises
 * 53200 only.
 */
extern bool mtr_try_lock(MtrLock kind, const char *tenant);

extern void mtr_unlock(MtrLock kind, const char *tenant);

#endif /* MORTAR_LOCKS_H */
