/*
 * loose.h
 *		Grants without a cell that this transaction has spent of, or has made.
 *
 * A purse has a few cells, and a transaction may need any number of grants.	What it
 * has used up, and has taken for rows of its own alone, needs no cell any more: only
 * the transaction knows what would have to come back.	Nor does a grant of its own for
 * which there is no cell: until it commits, nobody else can have to do with it.
 *
 * Wherever a cell is named (struct mtr_part, records), a number below -1 stands for
 * such a grant.
 */
#ifndef MORTAR_LOOSE_H
#define MORTAR_LOOSE_H

#include "stored.h"
#include "xact.h"

#define MTR_LOOSE_CELL(i) (-2 - (i))
#define MTR_LOOSE_INDEX(cell) (-2 - (cell))
#define MTR_IS_LOOSE(cell) ((cell) <= -2)

typedef struct MtrLoose
{
	MtrTenant       *tenant;   /* NULL: undone */
	bool             own;      /* granted by this transaction */
	bool             in_force; /* own: when it was granted */
	int64            taken;    /* by records of this transaction */
	struct mtr_grant grant;    /* remaining is not used */
} MtrLoose;

/* makes room for n more; raises when memory is short */
extern void mtr_loose_reserve(int n);

extern MtrLoose *mtr_loose_at(int cell);

/* the cell number of one more; room is reserved */
extern int mtr_loose_add(const MtrLoose *l);

/* has there been one in this transaction? */
extern bool mtr_loose_any(void);

/* all of them are gone: the transaction has ended */
extern void mtr_loose_reset(void);

/*
 * What records of a transaction took of it is given back; the mutex is held, and
 * settling follows.  Of an own one nobody else knows: the amount may be negative, when
 * that is undone.
 */
extern void mtr_loose_back(MtrTenant *t, MtrPinned *pin, TimestampTz now,
						   int cell, int64 amount);

/* a refund to a loose grant: at commit, or undone; the mutex is held */
extern void
mtr_loose_refund(MtrTenant *t, TimestampTz now, int cell, int64 amount);
extern void mtr_loose_unrefund(MtrTenant *t, MtrPinned *pin, int64 amount);

/* an own grant that has no cell, -1: it is none */
extern int mtr_loose_find_own(const MtrTenant *t, const pg_uuid_t *grant_id);

/* takes what is left of it, at most most; the caller notes that, returns how much */
extern int64 mtr_loose_take(MtrPinned *pin, int cell, int64 most);

/*
 * Takes from own grants that have no cell, at most amount.  Only the transaction
 * knows of it.	 Adds to *paid, where room is reserved.
 */
extern int64
mtr_loose_take_own(MtrTenant *t, TimestampTz now, int64 amount, MtrPaid *paid);

/*
 * Frees cells: their grants get loose where nothing stands against it.  Parts of
 * *paid (or NULL) that name them are renamed, too.	 Returns how many cells.	What was
 * true for MtrTenant.grants_version *version (or NULL) stays so.
 */
extern int mtr_loosen(MtrTenant *t, MtrPaid *paid, uint32 *version);

/*
 * Takes off what this transaction has spent of grants that tables show whole; those
 * of which nothing is left are dropped, but not *wanted.
 */
extern void mtr_loose_subtract(MtrStored *s, const pg_uuid_t *wanted);

#endif /* MORTAR_LOOSE_H */
