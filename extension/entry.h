/*
 * entry.h
 *		Rows of mortar.credit_ledger.
 */
#ifndef MORTAR_ENTRY_H
#define MORTAR_ENTRY_H

#include "gate.h"

typedef struct MtrEntry
{
	const char      *tenant;
	const char      *kind;
	const char      *from;
	const char      *to;
	int64            amount_uc;
	const pg_uuid_t *grant_id;     /* NULL: none */
	TimestampTz      effective_at; /* 0: when it is posted */
	const pg_uuid_t *reverses;     /* NULL: nothing */
	Datum            meta;         /* 0: an empty object */
} MtrEntry;

/*
 * Posts a movement of one row under *movement_id, at the time that it is, but never
 * before the tenant's last entry.	SPI is connected.
 */
extern void
mtr_post(MtrTenant *t, const MtrEntry *e, const pg_uuid_t *movement_id);

/*
 * Posts a movement with a row for each part: e->from is the part's account, grant and
 * amount are the part's.
 */
extern void mtr_post_parts(MtrTenant *t, const MtrEntry *e, const MtrPaid *paid,
						   const pg_uuid_t *movement_id);

/*
 * Posts a movement of several rows, all at one time; the first one's entry_id is the
 * movement's id.
 */
extern void mtr_post_rows(MtrTenant *t, const MtrEntry *rows, int n,
						  const pg_uuid_t *movement_id);

/* an amount_uc argument: 1 .. MTR_MAX_AMOUNT_UC; raises 22003, 22004, 22023 */
extern int64 mtr_amount_arg(FunctionCallInfo fcinfo, int argno);

#endif /* MORTAR_ENTRY_H */
