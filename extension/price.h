/*
 * price.h
 *		The prices in force, as the gate needs them.
 */
#ifndef MORTAR_PRICE_H
#define MORTAR_PRICE_H

#include "shmem.h"

/*
 * The price in force of every meter, as an array of MTR_METERS that stays
 * valid until the next call.  Warm: no lock and no table.	Cold: reads
 * mortar.prices; needs a transaction, not SPI.
 */
extern const MtrPrice *mtr_prices(void);

#endif /* MORTAR_PRICE_H */
