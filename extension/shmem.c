/*
 * shmem.c
 *		Sizes and lays out shared memory; knows which databases use Mortar.
 *
 * See shmem.h for what lies there and which lock guards it.
 */
#include "mortar.h"

#include "access/twophase.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

#include "flush.h"
#include "guc.h"
#include "inval.h"
#include "reservation.h"
#include "shmem.h"
#include "slot.h"

StaticAssertDecl(sizeof(MtrTenantHashKey) == sizeof(int32) + MTR_TENANT_LEN,
				 "the hash key of tenants must have no padding");
StaticAssertDecl(sizeof(MtrUsageKey) == 8 + 2 * sizeof(pg_uuid_t),
				 "the hash key of usage slots must have no padding");
StaticAssertDecl(sizeof(MtrKeyHashKey) == sizeof(int32) + sizeof(pg_uuid_t),
				 "the hash key of API keys must have no padding");

MtrSharedState   *MtrShared = NULL;
MtrTenant        *MtrTenants = NULL;
pg_atomic_uint64 *MtrDirty = NULL;
MtrReservation   *MtrReservations = NULL;
HTAB             *MtrTenantHash = NULL;
HTAB             *MtrUsageHash = NULL;
HTAB             *MtrKeyHash = NULL;
MtrContextMirror *MtrMirrors = NULL;

static shmem_request_hook_type prev_shmem_request = NULL;
static shmem_startup_hook_type prev_shmem_startup = NULL;

static MtrDb *my_db = NULL;

/*
 * Backends, workers, auxiliary processes and prepared transactions: the
 * number that InitProcGlobal uses, which is not yet known when memory is
 * requested.
 */
static int
mirror_count(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS + max_prepared_xacts;
}

static Size
tenant_size(void)
{
	/* a slot's first fields must not share a cache line with its neighbour */
	StaticAssertStmt(offsetof(MtrTenant, purse.spare) <= 64,
					 "the fields of every call fit in one cache line");
	return mul_size(mtr_max_tenants, sizeof(MtrTenant));
}

static void
request(void)
{
	Size size;

	if (prev_shmem_request)
		prev_shmem_request();

	size = MAXALIGN(sizeof(MtrSharedState));
	size = add_size(size, add_size(tenant_size(), PG_CACHE_LINE_SIZE));
	size = add_size(size, mul_size(MTR_DIRTY_WORDS, sizeof(pg_atomic_uint64)));
	size = add_size(size, mul_size(mirror_count(), sizeof(MtrContextMirror)));
	size =
		add_size(size, mul_size(mtr_max_reservations, sizeof(MtrReservation)));
	size = add_size(
		size, hash_estimate_size(mtr_max_tenants, sizeof(MtrTenantHashEntry)));
	size = add_size(size,
					hash_estimate_size(mtr_max_usage_slots, sizeof(MtrUsage)));
	size = add_size(size, hash_estimate_size(mtr_max_keys, sizeof(MtrKey)));
	RequestAddinShmemSpace(size);
	RequestNamedLWLockTranche("mortar", 1);
}

static HTAB *
make_hash(const char *name, long n, Size keysize, Size entrysize)
{
	HASHCTL info;

	memset(&info, 0, sizeof(info));
	info.keysize = keysize;
	info.entrysize = entrysize;
	return ShmemInitHash(name, n, n, &info,
						 HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
}

static void
init_tenants(void)
{
	memset(MtrTenants, 0, tenant_size());
	for (int i = 0; i < mtr_max_tenants; i++)
	{
		SpinLockInit(&MtrTenants[i].mutex);
		MtrTenants[i].index = i;
		MtrTenants[i].next_free = i + 1 < mtr_max_tenants ? i + 1 : -1;
	}
	MtrShared->free_tenant = 0;
}

static void
init_shared(void)
{
	memset(MtrShared, 0, sizeof(*MtrShared));
	MtrShared->lock = &GetNamedLWLockTranche("mortar")->lock;
	mtr_new_id(&MtrShared->epoch_id);
	MtrShared->epoch_start = GetCurrentTimestamp();
	pg_atomic_init_u64(&MtrShared->evictions, 0);
	for (int i = 0; i < MTR_MAX_DBS; i++)
	{
		SpinLockInit(&MtrShared->db[i].mutex);
		pg_atomic_init_u64(&MtrShared->db[i].generation, 1);
		pg_atomic_init_u64(&MtrShared->db[i].price_generation, 1);
		pg_atomic_init_u64(&MtrShared->db[i].price_time, 0);
		pg_atomic_init_u64(&MtrShared->db[i].key_generation, 1);
		pg_atomic_init_u64(&MtrShared->db[i].purged, 0);
		pg_atomic_init_u32(&MtrShared->db[i].sweep_wanted, 0);
		pg_atomic_init_u32(&MtrShared->db[i].dirty, 0);
	}
	init_tenants();
	for (int i = 0; i < MTR_DIRTY_WORDS; i++)
		pg_atomic_init_u64(&MtrDirty[i], 0);
	memset(MtrMirrors, 0, mirror_count() * sizeof(MtrContextMirror));
	mtr_reservations_init();
}

static void
startup(void)
{
	bool found;

	if (prev_shmem_startup)
		prev_shmem_startup();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	MtrShared = ShmemInitStruct("mortar", sizeof(MtrSharedState), &found);
	MtrTenants = ShmemInitStruct("mortar tenants", tenant_size(), &found);
	MtrDirty = ShmemInitStruct(
		"mortar dirty", MTR_DIRTY_WORDS * sizeof(pg_atomic_uint64), &found);
	MtrMirrors = ShmemInitStruct(
		"mortar contexts", mirror_count() * sizeof(MtrContextMirror), &found);
	MtrReservations =
		ShmemInitStruct("mortar reservations",
						mtr_max_reservations * sizeof(MtrReservation), &found);
	MtrTenantHash =
		make_hash("mortar tenant hash", mtr_max_tenants,
				  sizeof(MtrTenantHashKey), sizeof(MtrTenantHashEntry));
	MtrUsageHash = make_hash("mortar usage", mtr_max_usage_slots,
							 sizeof(MtrUsageKey), sizeof(MtrUsage));
	MtrKeyHash = make_hash("mortar keys", mtr_max_keys, sizeof(MtrKeyHashKey),
						   sizeof(MtrKey));
	if (!found)
		init_shared();
	LWLockRelease(AddinShmemInitLock);

	mtr_stopfile_init();
}

void
mtr_shmem_init(void)
{
	prev_shmem_request = shmem_request_hook;
	shmem_request_hook = request;
	prev_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = startup;
}

MtrDb *
mtr_db_find(Oid dboid)
{
	MtrDb *found = NULL;

	LWLockAcquire(MtrShared->lock, LW_SHARED);
	for (int i = 0; i < MTR_MAX_DBS && found == NULL; i++)
		if (MtrShared->db[i].dboid == dboid)
			found = &MtrShared->db[i];
	LWLockRelease(MtrShared->lock);
	return found;
}

/* caller holds the lock exclusively */
static MtrDb *
claim_db(Oid dboid)
{
	MtrDb *free_db = NULL;

	for (int i = 0; i < MTR_MAX_DBS; i++)
	{
		MtrDb *db = &MtrShared->db[i];

		if (db->dboid == dboid)
			return db;
		if (free_db == NULL && !OidIsValid(db->dboid))
			free_db = db;
	}
	if (free_db != NULL)
	{
		/* before anybody can have usage in memory */
		mtr_stopfile_open(dboid);
		free_db->dboid = dboid;
	}
	return free_db;
}

MtrDb *
mtr_db(void)
{
	mtr_require_preload();
	mtr_inval_refuse_dropped();
	Assert(OidIsValid(MyDatabaseId));

	if (my_db != NULL && my_db->dboid == MyDatabaseId)
		return my_db;
	LWLockAcquire(MtrShared->lock, LW_EXCLUSIVE);
	my_db = claim_db(MyDatabaseId);
	LWLockRelease(MtrShared->lock);
	if (my_db == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("more than %d databases use Mortar", MTR_MAX_DBS),
				 errhint("Drop the extension or the database where it is not "
						 "needed.")));
	return my_db;
}

/* caller holds the lock exclusively; returns whether nothing is left */
static bool
purge_tenants(int db)
{
	bool all = true;

	for (int i = 0; i < mtr_max_tenants; i++)
	{
		MtrTenant *t = &MtrTenants[i];

		if (t->state != MTR_TENANT_FREE && t->db == db &&
			!mtr_tenant_discard(t))
			all = false;
	}
	return all;
}

static void
purge_keys(int db)
{
	HASH_SEQ_STATUS scan;
	MtrKey         *k;

	hash_seq_init(&scan, MtrKeyHash);
	while ((k = hash_seq_search(&scan)) != NULL)
	{
		bool take;

		SpinLockAcquire(&k->mutex);
		take = k->key.db == db && k->pins == 0;
		if (take)
			k->valid = false;
		SpinLockRelease(&k->mutex);
		if (take)
			hash_search(MtrKeyHash, &k->key, HASH_REMOVE, NULL);
	}
}

static void
reset_db(MtrDb *db)
{
	SpinLockAcquire(&db->mutex);
	db->dboid = InvalidOid;
	pg_atomic_fetch_add_u64(&db->price_generation, 1);
	pg_atomic_write_u64(&db->price_time, 0);
	db->epoch_entered = false;
	db->blocked_by = 0;

	/* nothing of these is for the next database's eyes */
	db->flusher_failures = 0;
	db->last_flush = 0;
	db->flushed_rows = 0;
	db->last_error_at = 0;
	db->last_error[0] = '\0';
	SpinLockRelease(&db->mutex);
	pg_atomic_write_u32(&db->dirty, 0);
}

void
mtr_db_purge(Oid dboid)
{
	LWLockAcquire(MtrShared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < MTR_MAX_DBS; i++)
	{
		MtrDb *db = &MtrShared->db[i];

		if (db->dboid != dboid)
			continue;
		pg_atomic_fetch_add_u64(&db->generation, 1);
		purge_keys(i);
		if (purge_tenants(i))
			reset_db(db);
	}
	LWLockRelease(MtrShared->lock);
}

/* caller holds the lock exclusively; how many slots are left */
static int
sweep_locked(MtrDb *db)
{
	int    index = db - MtrShared->db;
	int    left = 0;
	uint64 purged;

	/* first: who drops an extension from now on asks for another sweep */
	(void) pg_atomic_exchange_u32(&db->sweep_wanted, 0);
	purged = pg_atomic_read_u64(&db->purged);
	for (int i = 0; i < mtr_max_tenants; i++)
	{
		MtrTenant *t = &MtrTenants[i];

		if (t->state == MTR_TENANT_FREE || t->db != index)
			continue;
		if (t->generation < purged && mtr_tenant_discard(t))
			continue;
		left++;
		if (t->generation < purged)
			pg_atomic_write_u32(&db->sweep_wanted, 1);
	}
	return left;
}

void
mtr_db_sweep(MtrDb *db)
{
	LWLockAcquire(MtrShared->lock, LW_EXCLUSIVE);
	(void) sweep_locked(db);
	LWLockRelease(MtrShared->lock);
}

void
mtr_db_forget(MtrDb *db)
{
	LWLockAcquire(MtrShared->lock, LW_EXCLUSIVE);
	if (db->dboid == MyDatabaseId && sweep_locked(db) == 0)
	{
		pg_atomic_fetch_add_u64(&db->generation, 1);
		purge_keys(db - MtrShared->db);
		reset_db(db);
	}
	LWLockRelease(MtrShared->lock);
}

/* false: there is none */
static bool
wake(MtrDb *db)
{
	Latch *latch;

	SpinLockAcquire(&db->mutex);
	latch = db->flusher_latch;
	SpinLockRelease(&db->mutex);
	/* a latch is in a PGPROC: it may be another process's by now, no harm */
	if (latch != NULL)
		SetLatch(latch);
	return latch != NULL;
}

void
mtr_wake_flusher(MtrDb *db)
{
	if (!wake(db))
		mtr_wake_launcher();
}

void
mtr_wake_flushers(void)
{
	for (int i = 0; i < MTR_MAX_DBS; i++)
		(void) wake(&MtrShared->db[i]);
	mtr_wake_launcher();
}

void
mtr_wake_launcher(void)
{
	/*
	 * Read without the lock: the launcher's latch lives in its PGPROC and
	 * stays valid memory; a stale one is woken for nothing.
	 */
	Latch *latch = MtrShared->launcher_latch;

	if (latch != NULL)
		SetLatch(latch);
}
