/*
 * flush_batch.h
 *		The parts of a flusher, from the outside in; nobody else needs them.
 *
 *		flusher.c		the process: claim, epoch, loop, leaving
 *		flush_pass.c	one look at all dirty tenants; failures and quarantine
 *		flush_batch.c	what is copied out of memory, and what is noted after
 *		flush_xact.c	one transaction, with its time limits
 *		flush_journal.c rows on their way into the journal
 *		flush_sync.c	rows of mortar.usage_sync on their way there
 */
#ifndef MORTAR_FLUSH_BATCH_H
#define MORTAR_FLUSH_BATCH_H

#include "shmem.h"

#include "utils/elog.h"

/* one transaction writes at most so many tenants and rows */
#define MTR_FLUSH_TENANTS 1000
#define MTR_FLUSH_ROWS 10000

/* ---- flush_journal.c ---- */

typedef struct MtrJournalRow
{
	const char *tenant;
	pg_uuid_t   movement_id; /* one per tenant and flush */
	const char *meter;
	pg_uuid_t   key_id;
	const char *route;
	pg_uuid_t   price_id;
	int64       from_qty;
	int64       upto_qty;
	int32       minute; /* minutes since 1970, UTC */
	int64       cost_uc;
} MtrJournalRow;

/* one source's part in paying for the rows of a movement */
typedef struct MtrBurnRow
{
	const char *tenant;
	pg_uuid_t   movement_id;
	const char *account;  /* as mtr_part_account */
	pg_uuid_t   grant_id; /* all zero: none */
	int64       amount_uc;
} MtrBurnRow;

#define MTR_JOURNAL_COLUMNS 10
#define MTR_BURN_COLUMNS 5

/* rows not written yet, column by column as the statement wants them */
typedef struct MtrJournal
{
	int    nrows;
	int    nburns;
	Datum *column[MTR_JOURNAL_COLUMNS];
	Datum *burn[MTR_BURN_COLUMNS];
} MtrJournal;

/* a journal with room for MTR_FLUSH_ROWS of each, in the current memory context */
extern void mtr_journal_init(MtrJournal *j);

/*
 * Copy the row into the current memory context, which must live until it is
 * written.  The journal must not be full; *row may name each grant of a tenant once
 * until it is written.
 */
extern void mtr_journal_add(MtrJournal *j, const MtrJournalRow *row);
extern void mtr_journal_burn(MtrJournal *j, const MtrBurnRow *row);

/*
 * Inserts the rows into mortar.usage_journal and mortar.credit_burns and moves the marks
 * of both, in one statement; empties the journal.  Needs SPI.
 */
extern void mtr_journal_write(MtrJournal *j, const pg_uuid_t *epoch_id);

/*
 * How far the journal reaches for the usage slot of row (from_qty and what
 * follows it are not looked at), 0 when there is no mark.  Needs SPI.
 */
extern int64 mtr_journal_mark(const MtrJournalRow *row);

/* the sum of all marks of a tenant, meter and price.  Needs SPI. */
extern int64 mtr_journal_priced(const char *tenant, const char *meter,
								const pg_uuid_t *price_id);

/* ---- flush_xact.c ---- */

typedef enum MtrFlushResult
{
	MTR_FLUSH_OK,
	MTR_FLUSH_FAILED, /* rolled back; *error says why */
	MTR_FLUSH_GONE    /* the extension is not in this database */
} MtrFlushResult;

/*
 * Runs step(arg) in a transaction of its own, with SPI connected, a snapshot
 * set and the journal locked against DROP EXTENSION.  An error is caught and
 * copied to *error, in the current memory context.
 */
extern MtrFlushResult mtr_flush_transaction(void (*step)(void *arg), void *arg,
											int timeout_ms, ErrorData **error);

/* time limits of transactions */
#define MTR_FLUSH_TIMEOUT_MS 5000
#define MTR_STOPFILE_TIMEOUT_MS 60000 /* may be much, and happens once */

/* ---- flush_batch.c ---- */

/* a usage slot of the batch, and how far the batch takes it */
typedef struct MtrFlushSlot
{
	MtrTenant *tenant;
	MtrUsage  *usage;
	int64      from;
	int64      upto;
	int        counter; /* index into tenant->counter, -1: unpriced */
} MtrFlushSlot;

/* a tenant of the batch, and who has paid for its usage */
typedef struct MtrFlushTenant
{
	int32           index;
	int             nparts;
	struct mtr_part part[MTR_PURSE_SOURCES];
} MtrFlushTenant;

StaticAssertDecl(MTR_FLUSH_TENANTS *MTR_PURSE_SOURCES <= MTR_FLUSH_ROWS,
				 "the journal has room for all parts of a batch");

typedef struct MtrFlushBatch
{
	MtrDb          *db;
	int             ntenants;
	MtrFlushTenant *tenant; /* [MTR_FLUSH_TENANTS] */
	int             nslots;
	MtrFlushSlot *slot; /* [MTR_FLUSH_ROWS]; those of a tenant stand together */
	MtrJournal    journal;
	struct MtrDrain *drain; /* flush_sync.c; NULL: nothing */
	int              nrows; /* that mtr_batch_write has written */
	TimestampTz      started;
} MtrFlushBatch;

/*
 * Cuts [from, upto), which is not empty, by minute; a ring that knows no minute
 * leaves all of it to the present one.  Returns the number of segments.
 */
extern int mtr_flush_cut(const struct mtr_ring *ring, int64 from, int64 upto,
						 struct mtr_segment segment[MTR_RING_MARKS]);

/* makes room for the batch in the current memory context, once */
extern void mtr_batch_init(MtrFlushBatch *b, MtrDb *db);

/* empties it */
extern void mtr_batch_begin(MtrFlushBatch *b);

/*
 * Copies what is unflushed of a tenant into the batch and takes its dirty bit
 * away.  False when the batch is full: then the bit stays, and the tenant, or what
 * is more of it than any batch can hold, is for another batch.	 Within a flush
 * transaction only.
 */
extern bool mtr_batch_add(MtrFlushBatch *b, int32 tenant);

/*
 * Writes the batch, and sees to it that memory learns of it at commit.  Needs
 * SPI.
 */
extern void mtr_batch_write(MtrFlushBatch *b);

/* after a rollback: all tenants of the batch are dirty again */
extern void mtr_batch_undo(MtrFlushBatch *b);

/*
 * The tenant is this database's, not of an extension that was dropped, and has
 * its dirty bit set.
 */
extern bool mtr_flush_is_dirty(MtrDb *db, int32 tenant);

/* the next dirty tenant of the database at or after this index, -1: none */
extern int32 mtr_flush_next_dirty(MtrDb *db, int32 from);

/* enters this epoch's row; flushed: moves its last_flush_at.  Needs SPI. */
extern void mtr_flush_epoch(bool flushed);

/* the database of this session, as mortar.epochs.database_id has it */
#define MTR_THIS_DATABASE                                                      \
	"(SELECT oid FROM pg_catalog.pg_database "                                 \
	"WHERE datname = pg_catalog.current_database())"

/*
 * Of slots whose journal reaches further than memory believes, moves the
 * numbers in memory up.  Needs SPI.
 */
extern void mtr_batch_rebase(MtrFlushBatch *b);

/* ---- flush_sync.c; within a flush transaction, needs SPI ---- */

/*
 * Takes a tenant's rows out of mortar.usage_sync and adds them to the batch, as many as
 * fit.	 False: there may be more.  No lock is held.
 */
extern bool mtr_drain_add(MtrFlushBatch *b, int32 tenant);

/* writes what was added to the journal; returns how many rows that were */
extern int mtr_drain_write(MtrFlushBatch *b);

/*
 * Loads the tenants that have rows in mortar.usage_sync and are not in memory, so that
 * these are moved.  False: some could not be loaded now.
 */
extern bool mtr_drain_find(void);

/* ---- flush_pass.c ---- */

/*
 * Flushes everything that is dirty, as far as it can be.  With force, tenants
 * and databases whose last flush failed are tried again at once.
 */
extern MtrFlushResult mtr_flush_pass(MtrDb *db, bool force);

/* notes an error in the MtrDb and, not too often, in the log */
extern void
mtr_flush_note_error(MtrDb *db, const char *what, const ErrorData *error);

/* ---- stopfile_enter.c ---- */

/*
 * Enters the files of clean stops that this database has.  FAILED: something
 * is left, try again later; the error has been noted.
 */
extern MtrFlushResult mtr_stopfile_enter(MtrDb *db);

/*
 * Enters epochs of which only a file tells that this database was seen in them,
 * without a word of how they ended.  Needs SPI.
 */
extern void mtr_stopfile_enter_open(void);

#endif /* MORTAR_FLUSH_BATCH_H */
