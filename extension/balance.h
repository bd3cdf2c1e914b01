/*
 * balance.h
 *		What a tenant has, as anybody may ask for it.
 */
#ifndef MORTAR_BALANCE_H
#define MORTAR_BALANCE_H

#include "shmem.h"

typedef struct MtrBalance
{
	int64 available; /* without what is reserved; < 0: the tenant is in debt */
	int64 held;      /* by holds that have not expired */
	int64 unflushed;
	TimestampTz next_expiry; /* DT_NOEND: never */
	MtrLife     life;
	bool        frozen;
} MtrBalance;

/*
 * What the running transaction sees of a pinned tenant: its own grants count, and so
 * does what it did to the tenant's state.	Reads tables when the tenant has more grants
 * than memory knows; SPI need not be connected.
 */
extern void mtr_balance_of(MtrTenant *t, MtrBalance *b);

#endif /* MORTAR_BALANCE_H */
