/*
 * flush.h
 *		Background work: the launcher, the flushers, the file of a clean stop.
 */
#ifndef MORTAR_FLUSH_H
#define MORTAR_FLUSH_H

#include "nodes/pg_list.h"

#include "shmem.h"

/* registers the static launcher; only while preloading, not for pg_upgrade */
extern void             mtr_launcher_init(void);
extern PGDLLEXPORT void mtr_launcher_main(Datum arg);
extern PGDLLEXPORT void mtr_flusher_main(Datum arg);

/*
 * Oids of all databases, or of those that a client may connect to.  In a
 * transaction of its own; the list is in the current memory context.
 */
extern List *mtr_list_databases(bool connectable);
extern bool  mtr_database_exists(Oid dboid);

/* installs the ProcessUtility hook (DROP DATABASE and its kin, DROP EXTENSION) */
extern void mtr_utility_init(void);

/* stopfile.c: called by the postmaster's exit callback, registered at start */
extern void mtr_stopfile_init(void);

/*
 * Leaves word in a file that the database is used in this epoch, for the case
 * that no flusher comes to say so in mortar.epochs.  Failures are logged.
 */
extern void mtr_stopfile_open(Oid dboid);

/*
 * Waits, for a second at most, until no usage of before the last clean stop is
 * left to be entered into this database's tables; false when there is still
 * some.  Before that no tenant's slot may be loaded: it would miss that usage.
 * Cheap once the epoch was entered, a look at a directory before.  Does not wait
 * in recovery.
 */
extern bool mtr_stopfile_wait(MtrDb *db);

#endif /* MORTAR_FLUSH_H */
