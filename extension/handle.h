/*
 * handle.h
 *		What the handlers share with one another.
 */
#ifndef MORTAR_HANDLE_H
#define MORTAR_HANDLE_H

#include "http.h"

/* handle_tables.c */

/* the path's {t} as text */
extern Datum mtr_table_datum(const MtrRequest *req);

extern void mtr_raise_no_table(void) pg_attribute_noreturn();

/*
 * Keeps the path's table from being dropped (exclusive: from being written to)
 * until the transaction ends.  Taken before the statement that looks at it.
 */
extern void mtr_table_lock(const MtrRequest *req, bool exclusive);

/*
 * mtr_check_table raises MT404 when there is no such table; between
 * SPI_connect and SPI_finish.	 Another tenant's table looks like none.
 */
extern void mtr_check_table(Datum tenant, Datum table);

/*
 * The path of a table ("tables", id NULL) or a row ("rows"), encoded so that
 * fetching it leads there.
 */
extern const char *
mtr_location(const MtrRequest *req, const char *kind, const char *table,
			 size_t table_len, const pg_uuid_t *id);

#endif /* MORTAR_HANDLE_H */
