/*
 * slot_load.h
 *		Filling a tenant's slot from tables; between slot.c and slot_load.c.
 */
#ifndef MORTAR_SLOT_LOAD_H
#define MORTAR_SLOT_LOAD_H

#include "slot.h"

/* how long one waits for memory or for somebody else, and how often one looks */
#define MTR_SLOT_WAIT_MS 1000
#define MTR_SLOT_POLL_MS 20

/* sleeps, cancellably */
extern void mtr_slot_nap(int ms);

/* loads the slot of a tenant that is not in memory, or stale; pins it */
extern MtrPin mtr_tenant_load(const char *tenant, MtrTenant **slot);

/* pins the tenant's slot if it is in memory and current; takes the lwlock */
extern bool mtr_tenant_pin_present(const char *tenant, MtrTenant **slot);

/* the slot of that name whatever its state; any mode of the lwlock is held */
extern MtrTenant *mtr_tenant_lookup(int db, const char *tenant);

/*
 * Takes a slot that nobody may use any more out of memory, if nobody pins it:
 * with its usage when that is of an extension that was dropped, else only when
 * all of it is flushed.  MtrShared.lock is held exclusively.
 */
extern bool mtr_tenant_clear_locked(MtrTenant *t);

/*
 * A slot in the given state with one pin, or NULL when memory is full, the tenant
 * has one already, or db was given up for this database meanwhile (then mtr_db()
 * has another).  MtrShared.lock is held exclusively.
 */
extern MtrTenant *
mtr_tenant_insert_locked(int db, const char *tenant, MtrTenantState state);

#endif /* MORTAR_SLOT_LOAD_H */
