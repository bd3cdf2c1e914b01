/*
 * xact_record.h
 *		What a transaction has done to shared memory so far; between
 *		xact_record.c, which notes it, xact.c, which knows when it ends, and
 *		xact_apply.c, which then makes it final or undoes it.
 *
 * Two arrays, kept for the life of the backend and emptied at the end of every
 * transaction: pins (one per tenant slot) and records (one per movement,
 * merged where two of the same kind follow each other at one level).
 *
 * The records of a subtransaction always form the tail of the array: what came
 * before it has a lower nesting level, and a committed subtransaction's
 * records pass to its parent's level.	Movements commute, so undoing them in any
 * order gives the same sums.
 */
#ifndef MORTAR_XACT_RECORD_H
#define MORTAR_XACT_RECORD_H

#include "xact.h"

typedef enum MtrRecordKind
{
	MTR_RECORD_DEBIT,
	MTR_RECORD_BURN,
	MTR_RECORD_BURN_OWN,
	MTR_RECORD_GRANT,
	MTR_RECORD_REFUND,
	MTR_RECORD_HOLD,
	MTR_RECORD_UNHOLD,
	MTR_RECORD_RELEASING,
	MTR_RECORD_USAGE,
	MTR_RECORD_LIFE,
	MTR_RECORD_FROZEN,
	MTR_RECORD_LIMIT,
	MTR_RECORD_MODE,
	MTR_RECORD_FLOOR,
	MTR_RECORD_DURABILITY,
	MTR_RECORD_DURABLE_USAGE,
	MTR_RECORD_DURABLE_BURN,
	MTR_RECORD_DURABLE_BURN_OWN,
	MTR_RECORD_QUEUE,
	MTR_RECORD_DRAIN,
	MTR_RECORD_REBOOK,
	MTR_RECORD_RESERVE,
	MTR_RECORD_UNRESERVE
} MtrRecordKind;

typedef struct MtrRecord
{
	MtrRecordKind kind;
	int           nest;
	int           pin;   /* index into pins */
	int           prev;  /* older record of the same pin, -1: none */
	MtrUsage     *usage; /* USAGE, durable or not */
	int32         which; /* of usage: counter; of the purse: cell or loose
						  * grant; of a reservation: its place; else -1 */
	int64 amount; /* micro-credits, quantity, rows, a setting's step, or a
				   * reservation's serial */
} MtrRecord;

/* the time of this end, in the ways it is needed */
typedef struct MtrEnd
{
	bool        is_commit;
	TimestampTz now;
	int32       minute; /* since the Unix epoch, of usage */
} MtrEnd;

/* ---- xact_apply.c; the tenant's mutex is held ---- */

/* *wake: the launcher is to be woken */
extern void mtr_record_commit(const MtrRecord *r, MtrTenant *t,
							  const MtrEnd *end, bool *wake);
extern void mtr_record_undo(const MtrRecord *r, MtrTenant *t, MtrPinned *pin,
							TimestampTz now);

/* ---- xact_record.c ---- */

extern MtrPinned *mtr_pins;
extern int        mtr_npins;
extern MtrRecord *mtr_records;
extern int        mtr_nrecords;

#endif /* MORTAR_XACT_RECORD_H */
