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
	MTR_RECORD_CREDIT,
	MTR_RECORD_USAGE,
	MTR_RECORD_LIFE,
	MTR_RECORD_LIMIT
} MtrRecordKind;

typedef struct MtrRecord
{
	MtrRecordKind kind;
	int           nest;
	int           pin;  /* index into pins */
	int           prev; /* older record of the same pin, -1: none */
	MtrUsage     *usage;
	int16         counter;
	int64         amount; /* credit, debit from the slot, quantity, or step of
						* MtrTenant.life or of its max_unflushed_uc */
	int64         from_pending;
} MtrRecord;

extern MtrPinned *mtr_pins;
extern int        mtr_npins;
extern MtrRecord *mtr_records;
extern int        mtr_nrecords;

#endif /* MORTAR_XACT_RECORD_H */
