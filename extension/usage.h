/*
 * usage.h
 *		Usage as anybody may ask for it: tables plus what memory still holds.
 */
#ifndef MORTAR_USAGE_H
#define MORTAR_USAGE_H

#include "mortar.h"

#include "utils/timestamp.h"

typedef struct MtrUsageTotals
{
	int64 quantity[MTR_METERS];
	int64 cost_uc;
} MtrUsageTotals;

/*
 * Totals of a tenant in [since, until), at minute precision; includes usage
 * that is not flushed yet.	 Reads tables as mortar_owner; the caller has
 * checked rights.	Needs no SPI connection.
 */
extern void mtr_usage_totals(const char *tenant, TimestampTz since,
							 TimestampTz until, MtrUsageTotals *totals);

#endif /* MORTAR_USAGE_H */
