/*
 * stopfile.c
 *		What a clean stop could not flush, written to a file by the postmaster.
 *
 * A flusher cannot see to the very last commit: on a fast shutdown it is told
 * to leave at the same time as everybody else.  The postmaster exits last, with
 * shared memory still in place and nobody left to change it.  So it writes, for
 * every database, what is unflushed to pg_stat/mortar-<database>-<epoch>.stop.
 * A file without records says as much: this epoch ended well.
 *
 * The exit code does not tell a clean stop from an immediate one; the control
 * file does: only after the shutdown checkpoint does it say "shut down".  After
 * any other end there is no file, and the epoch is not clean.
 *
 * How is that seen if no flusher was there to enter the epoch into mortar.epochs,
 * because no worker was ever free?  Whoever is the first to use Mortar in a
 * database leaves pg_stat/mortar-<database>-<epoch>.open before anything of it is
 * in memory.  The next flusher, be it of this epoch or of a later one, enters the
 * epoch of every such file, and removes them.
 *
 * Locking: none.  The callback runs in the postmaster, which may not take any
 * lock, when all other processes are gone.  An error in it would be fatal for
 * nothing: it only ever logs.  The other kind of file is written under
 * MtrShared.lock, once for a database and epoch.
 */
#include "mortar.h"

#include <unistd.h>

#include "access/xlog.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "core/usage_ring.h"
#include "core/uuid7.h"
#include "flush.h"
#include "flush_batch.h"
#include "guc.h"
#include "http.h"
#include "reservation.h"
#include "stopfile.h"

#define WAIT_MS 1000
#define WAIT_POLL_MS 10

/* a file being written */
typedef struct Output
{
	FILE       *file;
	pg_crc32c   crc;
	uint64      nrecords;
	bool        failed;
	const char *path;
} Output;

static void
put(Output *out, const void *data, size_t len)
{
	COMP_CRC32C(out->crc, data, len);
	if (!out->failed && fwrite(data, len, 1, out->file) != 1)
		out->failed = true;
}

/* the records of one usage slot; out NULL: only count them */
static uint64
put_usage(Output *out, const MtrTenant *t, const MtrUsage *u)
{
	struct mtr_segment segment[MTR_RING_MARKS];
	int                n;

	if (u->done <= u->flushed)
		return 0;
	n = mtr_flush_cut(&u->ring, u->flushed, u->done, segment);
	for (int i = 0; i < n && out != NULL; i++)
	{
		MtrStopRecord r;

		memset(&r, 0, sizeof(r));
		r.kind = MTR_STOP_USAGE;
		strlcpy(r.tenant, t->tenant_id, sizeof(r.tenant));
		strlcpy(r.meter, mtr_meter_name((MtrMeter) u->key.meter),
				sizeof(r.meter));
		strlcpy(r.route, mtr_route_template(u->key.route), sizeof(r.route));
		r.key_id = u->key.key_id;
		r.price_id = u->key.price_id;
		r.num_uc = u->num_uc;
		r.per_units = u->per_units;
		r.from_qty = segment[i].from;
		r.upto_qty = segment[i].upto;
		r.minute = segment[i].minute;
		put(out, &r, sizeof(r));
	}
	return n;
}

/* who has paid for it; changes nothing that anybody will see any more */
static uint64
put_burns(Output *out, MtrTenant *t)
{
	struct mtr_part part[MTR_PURSE_SOURCES];
	int             n = mtr_purse_unwritten(&t->purse, part);

	for (int i = 0; i < n && out != NULL; i++)
	{
		bool          is_grant = part[i].cell < MTR_PURSE_CELLS;
		MtrStopRecord r;

		memset(&r, 0, sizeof(r));
		r.kind = MTR_STOP_BURN;
		strlcpy(r.tenant, t->tenant_id, sizeof(r.tenant));
		if (is_grant)
			memcpy(r.grant_id.data, t->purse.cell[part[i].cell].grant.id,
				   UUID_LEN);
		r.source = is_grant ? 0 : part[i].cell;
		r.amount_uc = part[i].amount;
		put(out, &r, sizeof(r));
	}
	return n;
}

static uint64
put_database(Output *out, int db)
{
	uint64 purged = pg_atomic_read_u64(&MtrShared->db[db].purged);
	uint64 n = 0;

	for (int i = 0; i < mtr_max_tenants; i++)
	{
		MtrTenant *t = &MtrTenants[i];

		if (t->state == MTR_TENANT_FREE || t->db != db ||
			t->generation < purged)
			continue; /* the last: of an extension that was dropped */
		for (const MtrUsage *u = t->usage; u != NULL; u = u->next)
			n += put_usage(out, t, u);
		n += put_burns(out, t);
	}
	return n;
}

/* db: an index, or -1: no records */
static void
put_file(Output *out, MtrStopHeader *h, int db)
{
	h->nrecords = db >= 0 ? put_database(NULL, db) : 0;
	INIT_CRC32C(out->crc);
	put(out, h, sizeof(*h));
	if (db >= 0)
		(void) put_database(out, db);
	FIN_CRC32C(out->crc);
	if (!out->failed && fwrite(&out->crc, sizeof(out->crc), 1, out->file) != 1)
		out->failed = true;
}

static void
make_header(MtrStopHeader *h, Oid dboid, uint64 system_id, TimeLineID timeline)
{
	memset(h, 0, sizeof(*h));
	h->magic = MTR_STOPFILE_MAGIC;
	h->version = MTR_STOPFILE_VERSION;
	h->dboid = dboid;
	h->epoch_id = MtrShared->epoch_id;
	h->started_at = MtrShared->epoch_start;
	h->system_id = system_id;
	h->timeline = timeline;
	h->record_size = sizeof(MtrStopRecord);
}

/* loss is what it means for users if this fails */
static void
write_file(MtrStopHeader *h, int db, const char *ending, const char *loss)
{
	Output out = {0};
	char   uuid[MTR_UUID_CHARS + 1];
	char   path[MAXPGPATH];
	char   temp[MAXPGPATH + 4];

	mtr_uuid_format(h->epoch_id.data, uuid);
	uuid[MTR_UUID_CHARS] = '\0';
	snprintf(path, sizeof(path),
			 PGSTAT_STAT_PERMANENT_DIRECTORY "/mortar-%u-%s%s", h->dboid, uuid,
			 ending);
	snprintf(temp, sizeof(temp), "%s.tmp", path);

	out.file = AllocateFile(temp, PG_BINARY_W);
	if (out.file == NULL)
	{
		ereport(LOG, (errcode_for_file_access(),
					  errmsg("could not create file \"%s\": %m", temp),
					  errdetail("%s", loss)));
		return;
	}
	put_file(&out, h, db);
	if (FreeFile(out.file) != 0 || out.failed)
	{
		ereport(LOG, (errcode_for_file_access(),
					  errmsg("could not write file \"%s\": %m", temp),
					  errdetail("%s", loss)));
		(void) unlink(temp);
		return;
	}
	/* makes the file's contents durable, too, and logs what goes wrong */
	(void) durable_rename(temp, path, LOG);
}

static void
write_database(int db, const ControlFileData *control)
{
	MtrStopHeader h;

	make_header(&h, MtrShared->db[db].dboid, control->system_identifier,
				control->checkPointCopy.ThisTimeLineID);
	write_file(&h, db, MTR_STOPFILE_STOP,
			   "Usage that was not flushed is lost.");
}

void
mtr_stopfile_open(Oid dboid)
{
	MtrStopHeader h;

	/* a standby has no usage, pg_upgrade's servers have none */
	if (RecoveryInProgress() || IsBinaryUpgrade)
		return;
	make_header(&h, dboid, GetSystemIdentifier(), GetWALInsertionTimeLine());
	write_file(&h, -1, MTR_STOPFILE_OPEN,
			   "Should the server crash before usage was flushed, "
			   "mortar.epochs will not tell of it.");
}

static void
write_all(void)
{
	bool             crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);

	if (!crc_ok || control->state != DB_SHUTDOWNED)
		return;
	/* who has paid for what was sent is exact when the rest is given back */
	mtr_reservations_stop();
	for (int i = 0; i < MTR_MAX_DBS; i++)
		if (OidIsValid(MtrShared->db[i].dboid))
			write_database(i, control);
}

static void
at_exit(int code, Datum arg)
{
	if (code != 0 || MtrShared == NULL)
		return;
	PG_TRY();
	{
		write_all();
	}
	PG_CATCH();
	{
		EmitErrorReport();
		FlushErrorState();
	}
	PG_END_TRY();
}

void
mtr_stopfile_init(void)
{
	if (!IsUnderPostmaster && !IsBinaryUpgrade)
		on_shmem_exit(at_exit, (Datum) 0);
}

/* ---- finding files ---- */

static bool
ends_with(const char *s, const char *end)
{
	size_t n = strlen(s);
	size_t m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

void
mtr_stopfile_each(Oid dboid, const char                           *ending,
				  bool (*func)(const char *path, void *arg), void *arg)
{
	char           prefix[64];
	char           path[MAXPGPATH];
	DIR           *dir = AllocateDir(PGSTAT_STAT_PERMANENT_DIRECTORY);
	struct dirent *entry;

	snprintf(prefix, sizeof(prefix), "mortar-%u-", dboid);
	while ((entry = ReadDirExtended(dir, PGSTAT_STAT_PERMANENT_DIRECTORY,
									LOG)) != NULL)
	{
		if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 ||
			(ending != NULL && !ends_with(entry->d_name, ending)))
			continue;
		snprintf(path, sizeof(path), "%s/%s", PGSTAT_STAT_PERMANENT_DIRECTORY,
				 entry->d_name);
		if (!func(path, arg))
			break;
	}
	FreeDir(dir);
}

bool
mtr_stopfile_is_ours(const MtrStopHeader *h)
{
	return h->magic == MTR_STOPFILE_MAGIC &&
		   h->version == MTR_STOPFILE_VERSION &&
		   h->record_size == sizeof(MtrStopRecord) &&
		   h->dboid == MyDatabaseId && h->system_id == GetSystemIdentifier();
}

bool
mtr_stopfile_header(const char *path, MtrStopHeader *h)
{
	FILE *file = AllocateFile(path, PG_BINARY_R);
	bool  ok;

	if (file == NULL)
		return false;
	ok = fread(h, sizeof(*h), 1, file) == 1 && mtr_stopfile_is_ours(h);
	(void) FreeFile(file);
	return ok;
}

/* a file that cannot be read may hold usage, one without records does not */
static bool
note_pending(const char *path, void *arg)
{
	MtrStopHeader h;

	if (mtr_stopfile_header(path, &h) && h.nrecords == 0)
		return true;
	*(bool *) arg = true;
	return false;
}

static bool
is_pending(MtrDb *db)
{
	bool pending = false;
	bool entered;

	SpinLockAcquire(&db->mutex);
	entered = db->epoch_entered;
	SpinLockRelease(&db->mutex);
	if (!entered)
		mtr_stopfile_each(db->dboid, MTR_STOPFILE_STOP, note_pending, &pending);
	return pending;
}

static bool
forget(const char *path, void *arg)
{
	if (unlink(path) != 0)
		ereport(LOG, (errcode_for_file_access(),
					  errmsg("could not remove file \"%s\": %m", path)));
	return true;
}

bool
mtr_stopfile_wait(MtrDb *db)
{
	int waited = 0;

	if (RecoveryInProgress())
		return true;
	while (is_pending(db))
	{
		/* this database's flusher is wanted now, not when its turn comes */
		if (waited == 0)
		{
			pg_atomic_write_u32(&db->dirty, 1);
			mtr_wake_launcher();
		}
		if (waited >= WAIT_MS)
			return false;
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 WAIT_POLL_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		waited += WAIT_POLL_MS;
	}
	return true;
}

void
mtr_stopfile_forget(Oid dboid, const char *ending)
{
	mtr_stopfile_each(dboid, ending, forget, NULL);
}
