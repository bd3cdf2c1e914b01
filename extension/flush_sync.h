/*
 * flush_sync.h
 *		What was taken out of mortar.usage_sync; between flush_sync.c, which takes it,
 *		and flush_sync_rows.c, which writes it to the journal.
 */
#ifndef MORTAR_FLUSH_SYNC_H
#define MORTAR_FLUSH_SYNC_H

#include "flush_batch.h"
#include "utils/array.h"

#define MTR_DRAIN_COLUMNS 14

/* of a row of the journal: meter, key_id, route, price_id, minute */
#define MTR_DRAIN_KEYS 5

/* column by column, as the statement wants them */
typedef struct MtrDrain
{
	int              taken; /* rows of the queue */
	int              nrows; /* of the journal */
	ArrayBuildState *column[MTR_DRAIN_COLUMNS];
} MtrDrain;

/* copy a row into the current memory context, which must live until it is written */
extern void
mtr_drain_row(MtrDrain *d, const char *tenant, const pg_uuid_t *movement_id,
			  const Datum keys[MTR_DRAIN_KEYS], int64 qty, int64 cost);
extern void
mtr_drain_burn(MtrDrain *d, const char *tenant, const pg_uuid_t *movement_id,
			   Datum account, Datum grant_id, int64 amount);

#endif /* MORTAR_FLUSH_SYNC_H */
