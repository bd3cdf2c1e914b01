/*
 * stopfile_enter.c
 *		Entering the file of a clean stop into the journal.
 *
 * One transaction per file: all its rows, and the word that its epoch was
 * clean.  The epoch's row is what makes it happen once: a file whose epoch is
 * clean already was entered before and only failed to be removed.  Or it was
 * there when the extension was created, and so is of one that was dropped: its
 * usage is nobody's.
 *
 * No tenant's slot may be loaded in between the stop and this: it would be
 * loaded without the usage in the file.  So loaders wait in mtr_stopfile_wait().
 * The transaction also makes all slots of the database stale, for one that was
 * loaded regardless (somebody has put a file back, say).
 *
 * A file that cannot be right is set aside under another name, and its epoch is
 * not clean; so is one of another version of the format, which does not say who
 * paid.  Any other failure is tried again.
 */
#include "mortar.h"

#include <unistd.h>

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/memutils.h"

#include "flush.h"
#include "flush_batch.h"
#include "spi.h"
#include "stopfile.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(mtr_enter_epoch);

typedef struct Entering
{
	MtrDb        *db;
	const char   *path;
	FILE         *file;
	MtrStopHeader header;
} Entering;

typedef struct Found
{
	List *paths;
} Found;

static MtrStmt stmt_was_entered = {
	.sql = "SELECT 1 FROM mortar.epochs WHERE epoch_id = $1 "
		   "AND database_id = " MTR_THIS_DATABASE " AND clean",
	.role = MTR_ROLE_OWNER,
	.nargs = 1,
	.argtypes = {UUIDOID},
};

static MtrStmt stmt_clean = {
	.sql = "INSERT INTO mortar.epochs "
		   "  (epoch_id, database_id, system_id, timeline, started_at, clean, "
		   "  max_loss_uc) "
		   "VALUES ($1, " MTR_THIS_DATABASE ", $2, $3, $4, true, 0) "
		   "ON CONFLICT (epoch_id, database_id) "
		   "DO UPDATE SET clean = true, max_loss_uc = 0",
	.role = MTR_ROLE_OWNER,
	.nargs = 4,
	.argtypes = {UUIDOID, INT8OID, INT4OID, TIMESTAMPTZOID},
};

static MtrStmt stmt_open = {
	.sql = "INSERT INTO mortar.epochs "
		   "  (epoch_id, database_id, system_id, timeline, started_at) "
		   "VALUES ($1, " MTR_THIS_DATABASE ", $2, $3, $4) "
		   "ON CONFLICT (epoch_id, database_id) DO NOTHING",
	.role = MTR_ROLE_OWNER,
	.nargs = 4,
	.argtypes = {UUIDOID, INT8OID, INT4OID, TIMESTAMPTZOID},
};

/* ---- reading ---- */

static bool
is_string(const char *s, size_t size)
{
	return memchr(s, '\0', size) != NULL;
}

static bool
is_sane_usage(const MtrStopRecord *r)
{
	return is_string(r->meter, sizeof(r->meter)) &&
		   is_string(r->route, sizeof(r->route)) && r->from_qty >= 0 &&
		   r->upto_qty > r->from_qty && r->upto_qty <= MTR_MAX_QUANTITY &&
		   r->num_uc >= 0 &&
		   (mtr_uuid_is_nil(&r->price_id) || r->per_units > 0);
}

static bool
is_sane_burn(const MtrStopRecord *r)
{
	bool is_grant = r->source == 0;

	return r->amount_uc != 0 && r->amount_uc >= -MTR_MAX_AMOUNT_UC &&
		   r->amount_uc <= MTR_MAX_AMOUNT_UC &&
		   (is_grant || r->source == MTR_PURSE_DEBT ||
			r->source == MTR_PURSE_ISSUED) &&
		   is_grant != mtr_uuid_is_nil(&r->grant_id);
}

static bool
is_sane(const MtrStopRecord *r)
{
	if (!is_string(r->tenant, sizeof(r->tenant)))
		return false;
	return r->kind == MTR_STOP_USAGE
			   ? is_sane_usage(r)
			   : r->kind == MTR_STOP_BURN && is_sane_burn(r);
}

/* reads all of the file once: not a row is written before all of it is right */
static void
check(Entering *e)
{
	const MtrStopHeader *h = &e->header;
	pg_crc32c            crc;
	pg_crc32c            stored;
	MtrStopRecord        r;
	bool                 sane = true;

	INIT_CRC32C(crc);
	mtr_stopfile_read(e->file, e->path, &e->header, sizeof(e->header));
	COMP_CRC32C(crc, &e->header, sizeof(e->header));
	if (!mtr_stopfile_is_ours(h))
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("file \"%s\" has a wrong header", e->path)));
	for (uint64 i = 0; i < h->nrecords; i++)
	{
		CHECK_FOR_INTERRUPTS();
		mtr_stopfile_read(e->file, e->path, &r, sizeof(r));
		COMP_CRC32C(crc, &r, sizeof(r));
		sane = sane && is_sane(&r);
	}
	FIN_CRC32C(crc);
	mtr_stopfile_read(e->file, e->path, &stored, sizeof(stored));
	if (!EQ_CRC32C(crc, stored) || !sane)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("file \"%s\" has a wrong checksum", e->path)));
}

/* ---- entering ---- */

static void
epoch_args(const MtrStopHeader *h, Datum args[4])
{
	args[0] = UUIDPGetDatum(&h->epoch_id);
	args[1] = Int64GetDatum((int64) h->system_id);
	args[2] = Int32GetDatum((int32) h->timeline);
	args[3] = TimestampTzGetDatum(h->started_at);
}

static void
make_stale(void *arg)
{
	MtrDb *db = arg;

	pg_atomic_fetch_add_u64(&db->generation, 1);
}

static void
enter_file(void *arg)
{
	Entering *e = arg;
	Datum     args[4];

	e->file = AllocateFile(e->path, PG_BINARY_R);
	if (e->file == NULL)
		ereport(ERROR, (errcode_for_file_access(),
						errmsg("could not open file \"%s\": %m", e->path)));
	check(e);

	epoch_args(&e->header, args);
	mtr_exec(&stmt_was_entered, args, NULL, MTR_SNAP_WRITE, 1);
	if (SPI_processed > 0)
		ereport(
			LOG,
			(errmsg("mortar: file \"%s\" is removed: it was entered before, "
					"or its extension was dropped",
					e->path)));
	else
	{
		if (fseek(e->file, sizeof(MtrStopHeader), SEEK_SET) != 0)
			ereport(ERROR, (errcode_for_file_access(),
							errmsg("could not read file \"%s\": %m", e->path)));
		mtr_stopfile_rows(e->file, e->path, &e->header);
		mtr_exec(&stmt_clean, args, NULL, MTR_SNAP_WRITE, 0);
		if (e->header.nrecords > 0)
			mtr_xact_on_commit(make_stale, e->db);
	}
	(void) FreeFile(e->file);
}

/* ---- files ---- */

static bool
note_path(const char *path, void *arg)
{
	Found *found = arg;

	found->paths = lappend(found->paths, pstrdup(path));
	return true;
}

/* names hold the epoch's id, which begins with a time */
static int
older_first(const ListCell *a, const ListCell *b)
{
	return strcmp(lfirst(a), lfirst(b));
}

/* can trying again not help?  A constraint that refuses rows may be removed. */
static bool
is_hopeless(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_DATA_CORRUPTED ||
		   ERRCODE_TO_CATEGORY(error->sqlerrcode) ==
			   ERRCODE_TO_CATEGORY(ERRCODE_DATA_EXCEPTION);
}

static void
put_aside(const char *path, const ErrorData *error)
{
	char *aside = psprintf("%s.bad", path);

	ereport(
		LOG,
		(errmsg("mortar: usage of a clean stop could not be entered: %s",
				error->message),
		 errhint("The file is kept as \"%s\", and its epoch is marked as not "
				 "clean.  Given its old name, it is tried again after the "
				 "next start.",
				 aside)));
	(void) durable_rename(path, aside, LOG);
}

static MtrFlushResult
enter_one(MtrDb *db, const char *path)
{
	Entering      *e = palloc0(sizeof(Entering));
	ErrorData     *error;
	MtrFlushResult result;

	e->db = db;
	e->path = path;
	result =
		mtr_flush_transaction(enter_file, e, MTR_STOPFILE_TIMEOUT_MS, &error);
	if (result == MTR_FLUSH_OK && unlink(path) != 0)
		ereport(LOG, (errcode_for_file_access(),
					  errmsg("could not remove file \"%s\": %m", path)));
	if (result == MTR_FLUSH_FAILED && is_hopeless(error))
	{
		put_aside(path, error);
		result = MTR_FLUSH_OK;
	}
	else if (result == MTR_FLUSH_FAILED)
		mtr_flush_note_error(db, "usage of a clean stop could not be entered",
							 error);
	return result;
}

MtrFlushResult
mtr_stopfile_enter(MtrDb *db)
{
	MemoryContext context = AllocSetContextCreate(
		CurrentMemoryContext, "mortar stop files", ALLOCSET_DEFAULT_SIZES);
	MemoryContext  old = MemoryContextSwitchTo(context);
	Found          found = {NIL};
	MtrFlushResult result = MTR_FLUSH_OK;
	ListCell      *lc;

	mtr_stopfile_each(MyDatabaseId, MTR_STOPFILE_STOP, note_path, &found);
	list_sort(found.paths, older_first);
	foreach (lc, found.paths)
	{
		result = enter_one(db, lfirst(lc));
		if (result != MTR_FLUSH_OK)
			break;
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return result;
}

static bool
enter_open(const char *path, void *arg)
{
	MtrStopHeader h;
	Datum         args[4];

	if (mtr_stopfile_header(path, &h))
	{
		epoch_args(&h, args);
		mtr_exec(&stmt_open, args, NULL, MTR_SNAP_WRITE, 0);
	}
	return true;
}

void
mtr_stopfile_enter_open(void)
{
	mtr_stopfile_each(MyDatabaseId, MTR_STOPFILE_OPEN, enter_open, NULL);
}

/*
 * A file that is there already when the extension is created.  The running epoch
 * may have one, too, of an extension that was dropped in it.
 */
static bool
note_old(const char *path, void *arg)
{
	MtrStopHeader h;
	Datum         args[4];

	if (mtr_stopfile_header(path, &h) &&
		memcmp(&h.epoch_id, &MtrShared->epoch_id, UUID_LEN) != 0)
	{
		epoch_args(&h, args);
		mtr_exec(&stmt_clean, args, NULL, MTR_SNAP_WRITE, 0);
	}
	return true;
}

/*
 * Called last by the install script.  The running epoch is on record from the
 * first instant, lest a crash before the first flush go unseen; and files that
 * are there already are of an earlier extension: they will not be entered.
 */
Datum
mtr_enter_epoch(PG_FUNCTION_ARGS)
{
	mtr_require_preload();
	SPI_connect();
	mtr_flush_epoch(false);
	mtr_stopfile_each(MyDatabaseId, NULL, note_old, NULL);
	SPI_finish();
	PG_RETURN_VOID();
}
