/*
 * flush.h
 *		Background work: the launcher, the flushers, the file of a clean stop.
 */
#ifndef MORTAR_FLUSH_H
#define MORTAR_FLUSH_H

#include "shmem.h"

/* registers the static launcher; only while preloading, not for pg_upgrade */
extern void             mtr_launcher_init(void);
extern PGDLLEXPORT void mtr_launcher_main(Datum arg);
extern PGDLLEXPORT void mtr_flusher_main(Datum arg);

/* installs the ProcessUtility hook (DROP DATABASE and its kin, DROP EXTENSION) */
extern void mtr_utility_init(void);

/* stopfile.c: called by the postmaster's exit callback, registered at start */
extern void mtr_stopfile_init(void);

/*
 * True while usage of an earlier epoch waits in a file to be entered into this
 * database's tables.  A tenant's slot must not be loaded meanwhile.  Cheap once
 * the epoch was entered, a look at a directory before.
 */
extern bool mtr_stopfile_pending(MtrDb *db);

#endif /* MORTAR_FLUSH_H */
