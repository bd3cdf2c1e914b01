/*
 * counter.h
 *		Counters of prices: a tenant's slot has a few, brought in as needed.
 */
#ifndef MORTAR_COUNTER_H
#define MORTAR_COUNTER_H

#include "xact.h"

/* the place of a price's counter, -1: not in memory; the tenant's mutex is held */
extern int
mtr_counter_find_locked(const MtrTenant *t, const pg_uuid_t *price_id);

/*
 * Takes a reference to the counter of the usage slot's price, for the
 * transaction of the pin, and returns its place; -1 when it is not in memory.
 * The tenant's mutex is held.
 */
extern int mtr_counter_claim_locked(MtrPinned *pin, MtrUsage *u);

/*
 * Brings the counter of a price into memory, if it is not there, and takes a
 * reference to it for this transaction, which pins the tenant.  False when all
 * places are taken by counters that are held or have something to be flushed.
 * Reads mortar.usage_marks.
 */
extern bool
mtr_counter_bring(MtrTenant *t, MtrMeter meter, const MtrPrice *price);

#endif /* MORTAR_COUNTER_H */
