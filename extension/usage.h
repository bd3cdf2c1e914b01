/*
 * usage.h
 *		Usage as anybody may ask for it: tables plus what memory still holds.
 */
#ifndef MORTAR_USAGE_H
#define MORTAR_USAGE_H

#include "mortar.h"

#include "utils/snapshot.h"
#include "utils/timestamp.h"

#include "shmem.h"

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

/* a stretch of one usage slot that a snapshot of the tables does not hold */
typedef struct MtrUnflushed
{
	MtrUsageKey key;
	int32       minute; /* since the Unix epoch */
	int64       qty;
	int64       cost_uc;
} MtrUnflushed;

/*
 * What memory holds of a tenant beyond the marks that the snapshot sees, with
 * costs as the flusher will find them.	 palloc'd array of *n.	SPI is
 * connected.  Does not load or pin the tenant.
 */
extern MtrUnflushed *
mtr_unflushed(const char *tenant, Snapshot snapshot, int *n);

#endif /* MORTAR_USAGE_H */
