/*
 * slot.h
 *		Tenant slots: find, load, pin, give back.
 */
#ifndef MORTAR_SLOT_H
#define MORTAR_SLOT_H

#include "shmem.h"

typedef enum MtrPin
{
	MTR_PIN_OK,
	MTR_PIN_NO_TENANT, /* no such tenant (visible to this transaction) */
	MTR_PIN_FULL,      /* no slot free, and none that could be evicted */
	MTR_PIN_BUSY,      /* another backend is still loading it */
	MTR_PIN_PENDING /* usage of the last clean stop is not in the tables yet */
} MtrPin;

/*
 * Finds the tenant's slot, loading it when it is not in memory, and pins it
 * until the end of the transaction.  Warm: one spinlock, no table, no lwlock.
 * Cold: reads tables, however long that takes, or waits a second for who does;
 * needs a transaction and a snapshot, not SPI.  Raises only for what a table read
 * may raise.
 */
extern MtrPin mtr_tenant_try_pin(const char *tenant, MtrTenant **slot);

/*
 * The same for SQL functions: raises MT404 (no such tenant), 53400 (full) or
 * 55P03 (busy or pending).
 */
extern MtrTenant *mtr_tenant_pin(const char *tenant);

/* raises the MT404 for an id that no tenant has */
extern void mtr_raise_no_tenant(const char *tenant) pg_attribute_noreturn();

/*
 * A slot for a tenant that this transaction has just inserted; private to it
 * until commit.  Raises 53400 when memory is full, 55P03 when an earlier tenant of
 * that name cannot leave it yet.
 */
extern MtrTenant *mtr_tenant_new(const char *tenant);

/*
 * What goes beyond the flushed quantity of a counter, up to upto, costs; 0 when
 * there is no such thing, and for a cost beyond int64, which no calls can have
 * paid.  The mutex is held.
 */
extern int64 mtr_counter_cost(const MtrCounter *c, int64 upto);

/*
 * What committed usage that is not flushed costs.  The mutex is held, or t is a
 * copy.
 */
extern int64 mtr_unflushed_cost(const MtrTenant *t);

/*
 * Works MtrTenant.unflushed_uc out anew.  What a call of either durability has paid
 * depends on those of the other, so that sums of such steps may drift by rounding.  The
 * mutex is held.
 */
extern void mtr_unflushed_settle(MtrTenant *t);

/*
 * The tenant's usage, and who paid for it, is in the journal; takes the mutex.
 */
extern bool mtr_tenant_is_clean(MtrTenant *t);

/*
 * Called by the commit callback with the mutex held: marks the tenant for the
 * flusher.	True when there is none, and the launcher is to be woken.
 */
extern bool mtr_tenant_mark_dirty(MtrTenant *t);

/*
 * The same if the purse has burns that tables lack, without usage: debt was repaid, or
 * what was undone is worth something else.	 moved: the transaction has taken or
 * given; otherwise only a grant that began can have changed something.
 */
extern bool mtr_tenant_note_burns(MtrTenant *t, bool moved);

/*
 * Takes the tenant's slot and its usage slots out of memory if nobody pins it
 * and it has no unflushed usage.  One that is current stays for its reservations, a
 * stale one goes, and they go with it, at the latest.	Caller holds MtrShared.lock
 * exclusively.
 */
extern bool mtr_tenant_evict(MtrTenant *t);

/* the same without asking whether usage is unflushed: DROP EXTENSION */
extern bool mtr_tenant_discard(MtrTenant *t);

/*
 * Frees clean usage slots of unpinned tenants; true when at least one was
 * freed.  Caller holds MtrShared.lock exclusively.
 */
extern bool mtr_usage_evict_some(void);

#endif /* MORTAR_SLOT_H */
