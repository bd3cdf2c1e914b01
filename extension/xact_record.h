/*
 * xact_record.h
 *		What a transaction has done to shared memory so far; between
 *		xact_record.c, which notes it, and xact.c, which makes it final or undoes
 *		it.
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
	MTR_RECORD_FLOOR
} MtrRecordKind;

typedef struct MtrRecord
{
	MtrRecordKind kind;
	int           nest;
	int           pin;   /* index into pins */
	int           prev;  /* older record of the same pin, -1: none */
	MtrUsage     *usage; /* USAGE */
	int32         which; /* USAGE: counter; of the purse: cell or loose grant;
						  * else -1 */
	int64 amount;        /* micro-credits, quantity, or the step of a setting */
} MtrRecord;

extern MtrPinned *mtr_pins;
extern int        mtr_npins;
extern MtrRecord *mtr_records;
extern int        mtr_nrecords;

#endif /* MORTAR_XACT_RECORD_H */
