/*
 * refill.h
 *		Grants on their way from tables into a purse.
 */
#ifndef MORTAR_REFILL_H
#define MORTAR_REFILL_H

#include "stored.h"

/*
 * Grants in the order of MtrStored, on their way into a purse.	Only the first few can
 * get cells, so that the others, of which there may be many, are summed up before the
 * purse's lock is taken: those of [tail, later) and [later_tail, ngrants).
 */
typedef struct MtrQueue
{
	const MtrStored  *stored;
	int               skip; /* one that is not in it, -1: none */
	int               tail;
	int               later;
	int               later_tail;
	bool              demoted; /* one has lost its cell for another */
	bool              skip_ended;
	TimestampTz       event;  /* when the first of all starts or ends */
	struct mtr_behind behind; /* sums of the others */
} MtrQueue;

extern void mtr_queue_grants(MtrQueue *q, const MtrStored *s, int skip);

/*
 * Fills the purse of a slot that nobody uses yet.	True when it then holds burns
 * that tables lack: the tenant is dirty.
 */
extern bool mtr_purse_load(struct mtr_purse *p, TimestampTz now, MtrQueue *q);

/*
 * Reads the grants of a pinned tenant that have no cell, and gives them cells as far
 * as there are some for them.	False when that is not possible now; try again.
 *
 * wanted (or NULL): a grant that needs a cell.	 *cell is the one it has got, which
 * this transaction holds, or -1; *exists is false when there is no such grant,
 * or it has ended; when there was no cell for it, *grant (or NULL) is what it is.
 */
extern bool mtr_refill(MtrTenant *t, const pg_uuid_t *wanted, int *cell,
					   bool *exists, struct mtr_grant *grant);

/*
 * The same for one that takes all that it gets, step by step: the grants that found no
 * cell are kept (all zero at first), and not read again as long as nobody else has
 * changed anything.	mtr_kept_free() when it has enough.
 */
struct MtrKept
{
	bool      is_valid;
	uint32    version; /* MtrTenant.grants_version that it is true for */
	MtrStored stored;
};

typedef struct MtrKept MtrKept;

extern bool mtr_refill_kept(MtrTenant *t, MtrKept *kept);
extern void mtr_kept_free(MtrKept *kept);

/* the mutex is held: would it help to read them, as far as can be seen? */
extern bool mtr_refill_wanted(MtrTenant *t, TimestampTz now);

#endif /* MORTAR_REFILL_H */
