/*
 * price.h
 *		The price book: which prices hold for a tenant's call now.
 *
 *		price_book.c	the backend's copy of it, and what is looked up there
 *		price.c			mortar.set_price
 *
 * A price may be for one tenant, for one route, for both or for neither.  The
 * most specific one in force holds: tenant and route, tenant, route, general; of
 * several versions the one with the latest valid_from.
 */
#ifndef MORTAR_PRICE_H
#define MORTAR_PRICE_H

#include "shmem.h"

/*
 * The price in force of every meter for the tenant's calls of a route (0: none,
 * record_usage), as an array of MTR_METERS that stays valid until the next call.
 * A meter without a price has price_id and num_uc zero.  Warm: no lock and no
 * table.  Cold: reads mortar.prices; needs a transaction, not SPI.
 */
extern const MtrPrice *mtr_prices(const MtrTenant *t, int16 route);

/*
 * The instant as of which prices are in force: the clock's, or that of the
 * latest look at a price book if the clock was set back since.
 */
extern TimestampTz mtr_price_now(MtrDb *db);

#endif /* MORTAR_PRICE_H */
