/*
 * spi.h
 *		Kept SPI plans of Mortar's own statements.
 *
 * A statement is a static MtrStmt: its text, parameter types and the one role
 * it runs under.  It is prepared once per session, with a generic plan.  One plan
 * never serves two roles: alternating between roles would plan it anew each time.
 *
 * A plan lasts until the next ANALYZE.	 For a table of one page the planner
 * prefers to read all of it, and such a plan costs more with every row that
 * comes until then; by_index is for statements on tables that grow, all of
 * whose tables have an index that leads to the rows.
 */
#ifndef MORTAR_SPI_H
#define MORTAR_SPI_H

#include "mortar.h"

#include "executor/spi.h"
#include "utils/snapshot.h"

#define MTR_STMT_MAX_ARGS 16

/*
 * The search_path that all of Mortar's own statements run under: nothing but
 * pg_catalog for functions and operators.  Temporary tables and types would
 * still come first, so statements name the schema of every table and type.
 * (Naming pg_temp last would make that needless, but the path would then be
 * worked out again at every change of role, twice in every call.)
 */
#define MTR_SAFE_PATH ""

typedef struct MtrStmt
{
	const char *sql;
	MtrRole     role;
	bool        first_rows; /* read up to a limit, in the order of an index */
	bool        by_index;   /* never read a whole table, however small it is */
	bool        plan_anew;  /* for each execution, with its parameters */
	int         nargs;
	Oid         argtypes[MTR_STMT_MAX_ARGS];
	SPIPlanPtr  plan; /* kept; NULL until first used */
} MtrStmt;

typedef enum MtrSnap
{
	MTR_SNAP_READ,   /* the caller's active snapshot, read only: cheapest */
	MTR_SNAP_WRITE,  /* as any statement of this transaction would see */
	MTR_SNAP_LATEST, /* everything committed by now and the transaction's own
					  * earlier work, whatever the isolation level */
	MTR_SNAP_OTHERS  /* everything committed by now, without the
					  * transaction's own work; read only.	For
					  * statements that fill a cache: waits a second for
					  * a lock, then raises 55P03 */
} MtrSnap;

/*
 * Executes the statement under its role.  Must be called between SPI_connect
 * and SPI_finish; leaves SPI_processed and SPI_tuptable.  nulls as for
 * SPI_execute_plan (NULL: none).  limit 0: all rows.  Switches to the role and
 * back, unless the current user already is that role.
 */
extern void mtr_exec(MtrStmt *stmt, Datum *args, const char *nulls,
					 MtrSnap snap, long limit);

/*
 * What mtr_exec_each calls with each row; the slot's columns are ready.  Its memory
 * context is the query's, so what it keeps must be the caller's already.
 */
typedef void (*MtrRowFunc)(TupleTableSlot *slot, void *arg);

/*
 * The same with MTR_SNAP_READ and no nulls, for what is written into an answer as it
 * is read: rows are not copied, and SPI_tuptable is NULL afterwards.
 */
extern void mtr_exec_each(MtrStmt *stmt, Datum *args, long limit,
						  MtrRowFunc each, void *arg);

/* the same at a registered snapshot of the caller's; read only */
extern void mtr_exec_at(MtrStmt *stmt, Datum *args, const char *nulls,
						Snapshot snapshot, long limit);

/*
 * True while a statement of Mortar's own runs; triggers that look for foreign
 * writers ask.	 Reset when a (sub)transaction aborts.
 */
extern bool mtr_own_statement(void);
extern void mtr_own_statement_reset(void);

/* column of the first row of the last statement; raises XX000 if no row */
extern Datum mtr_first(int col, bool *isnull);

/* reads column col (1-based) of row as text into palloc'd C string, or NULL */
extern char *mtr_cell(uint64 row, int col);

#endif /* MORTAR_SPI_H */
