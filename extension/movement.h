/*
 * movement.h
 *		Movements of mortar.credit_ledger that others follow: a hold that is
 *		captured or released, a charge that is reversed.
 *
 * Every row says which grant's credits moved.	What follows moves the same ones: it
 * uses up parts from the first on, and gives back from the last on.
 */
#ifndef MORTAR_MOVEMENT_H
#define MORTAR_MOVEMENT_H

#include "entry.h"
#include "spi.h"

/* where a part of a movement came from */
typedef struct MtrSource
{
	const char *account; /* "available", "debt", "issued" */
	pg_uuid_t   grant_id;
	bool        of_grant; /* account is "available" */
	int64       amount;
} MtrSource;

typedef struct MtrSources
{
	char      *kind; /* of the movement; NULL: there is no such movement */
	int64      total;
	int        n;
	MtrSource *source; /* in the order of the rows; palloc'd */
} MtrSources;

/* rows of a new movement; palloc'd */
typedef struct MtrRows
{
	MtrEntry  like; /* what is the same in all of them */
	int       n;
	int       max;
	MtrEntry *row;
} MtrRows;

/*
 * Executes a statement about the tenant $1 and the id $2, which may lock what it finds,
 * with a latest snapshot.  False: it finds no row.  SPI is connected.
 */
extern bool mtr_find(MtrStmt *stmt, const char *tenant, const pg_uuid_t *id);

/* the movement that an entry belongs to; false: no such entry.	 SPI is connected. */
extern bool mtr_movement_of(const char *tenant, const pg_uuid_t *entry_id,
							pg_uuid_t *movement_id);

/*
 * Reads the movement's rows to an account, "held" or "consumed": where the credits
 * came from, also if they were held in between.  SPI is connected.
 */
extern void mtr_sources_read(const char *tenant, const pg_uuid_t *movement_id,
							 const char *to_account, MtrSources *s);

/* appends a row; grant_id NULL: of no grant */
extern void
mtr_rows_add(MtrRows *rows, const char *kind, const char *from, const char *to,
			 const pg_uuid_t *grant_id, int64 amount);

/*
 * Gives back an amount, from the last source on, of which skip was given back before:
 * appends its rows, and refunds it to the tenant at commit.  Loads grants that have no
 * cell; raises 55P03 and 22003.
 */
extern void
mtr_give_back(MtrTenant *t, const MtrSources *s, int64 skip, int64 amount,
			  const char *kind, const char *from, MtrRows *rows);

/* posts them; SPI is connected */
extern void
mtr_rows_post(MtrTenant *t, const MtrRows *rows, const pg_uuid_t *movement_id);

/* raises an error of class MT whose DETAIL has a code */
extern void mtr_refuse(int sqlstate, const char *code, const char *message)
	pg_attribute_noreturn();

#endif /* MORTAR_MOVEMENT_H */
