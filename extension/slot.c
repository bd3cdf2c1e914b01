/*
 * slot.c
 *		Tenant slots: find, pin, create, evict.	 slot_load.c fills them.
 *
 * A slot that is not in memory has no posting in flight: a transaction that
 * moves credits pins the slot to its end.	So the tables tell all there is to
 * know about an absent tenant, and one loader may rebuild the slot from them.
 *
 * Each backend remembers where it last found a tenant.	 The pointer is proven
 * under the slot's spinlock (name, database, state, generation), so a warm call
 * takes no other lock.
 *
 * Locking: see shmem.h.  Functions named *_locked want MtrShared.lock held
 * exclusively.
 */
#include "mortar.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/memutils.h"

#include "guc.h"
#include "inval.h"
#include "refill.h"
#include "reservation.h"
#include "slot.h"
#include "slot_load.h"
#include "xact.h"

/* direct-mapped: one pointer per hash value, the latest wins */
#define REMEMBERED 2048

static MtrTenant *remembered[REMEMBERED];

static int
db_index(void)
{
	return mtr_db() - MtrShared->db;
}

static MtrTenant **
place_of(const char *tenant)
{
	uint32 hash = hash_bytes((const unsigned char *) tenant, strlen(tenant));

	return &remembered[hash % REMEMBERED];
}

static void
make_key(MtrTenantHashKey *key, int db, const char *tenant)
{
	memset(key, 0, sizeof(*key));
	key->db = db;
	strlcpy(key->tenant_id, tenant, MTR_TENANT_LEN);
}

/*
 * The mutex is held.  Grants that have started or ended in memory cannot be called
 * back.  When the clock has been set back before that, tables say something else.  That
 * waits for the end of answers that are being sent: they keep the slot (is_kept).
 */
static bool
is_ahead_of_clock(const MtrTenant *t, TimestampTz now)
{
	return t->purse.judged_at > Max(now, t->last_posted) &&
		   t->reservations == 0 && t->purse.judged_at > GetCurrentTimestamp();
}

/*
 * Proves that the slot is the tenant's and current, and pins it.  *refill: grants had
 * better be read from tables.
 */
static bool
prove_and_pin(MtrTenant *t, int db, const char *tenant, bool *refill)
{
	uint64      generation = pg_atomic_read_u64(&MtrShared->db[db].generation);
	TimestampTz now = GetCurrentStatementStartTimestamp();
	bool        ok;

	SpinLockAcquire(&t->mutex);
	ok = t->state == MTR_TENANT_READY && t->db == db &&
		 t->generation == generation && strcmp(t->tenant_id, tenant) == 0 &&
		 !is_ahead_of_clock(t, now);
	if (ok)
	{
		t->pins++;
		*refill = mtr_refill_wanted(t, now);
	}
	SpinLockRelease(&t->mutex);
	return ok;
}

/* the slot is pinned; not in time, it may be a call's turn to wait for it (gate.c) */
static void
note_pin(MtrTenant *t, const char *tenant, bool refill)
{
	mtr_xact_pin(t, tenant, false);
	if (refill)
		(void) mtr_refill(t, NULL, NULL, NULL, NULL);
}

MtrTenant *
mtr_tenant_lookup(int db, const char *tenant)
{
	MtrTenantHashKey    key;
	MtrTenantHashEntry *entry;

	make_key(&key, db, tenant);
	entry = hash_search(MtrTenantHash, &key, HASH_FIND, NULL);
	return entry != NULL ? &MtrTenants[entry->index] : NULL;
}

bool
mtr_tenant_pin_present(const char *tenant, MtrTenant **slot)
{
	int        db = db_index();
	MtrTenant *t;
	bool       ok = false;
	bool       refill = false;

	LWLockAcquire(MtrShared->lock, LW_SHARED);
	t = mtr_tenant_lookup(db, tenant);
	if (t != NULL)
		ok = prove_and_pin(t, db, tenant, &refill);
	LWLockRelease(MtrShared->lock);
	if (!ok)
		return false;

	note_pin(t, tenant, refill);
	*place_of(tenant) = t;
	*slot = t;
	return true;
}

MtrPin
mtr_tenant_try_pin(const char *tenant, MtrTenant **slot)
{
	MtrPinned  *pin = mtr_xact_find(tenant);
	MtrTenant **place;
	bool        refill = false;

	mtr_inval_refuse_dropped();
	if (pin != NULL)
	{
		*slot = pin->tenant;
		return MTR_PIN_OK;
	}

	mtr_refuse_recovery();
	mtr_xact_reserve_pin();
	place = place_of(tenant);
	if (*place != NULL && prove_and_pin(*place, db_index(), tenant, &refill))
	{
		*slot = *place;
		note_pin(*slot, tenant, refill);
		return MTR_PIN_OK;
	}
	if (mtr_tenant_pin_present(tenant, slot))
		return MTR_PIN_OK;
	return mtr_tenant_load(tenant, slot);
}

void
mtr_raise_no_tenant(const char *tenant)
{
	ereport(ERROR, (errcode(MTR_ERR_NOT_FOUND),
					errmsg("there is no tenant \"%s\"", tenant)));
}

MtrTenant *
mtr_tenant_pin(const char *tenant)
{
	MtrTenant *t = NULL;

	switch (mtr_tenant_try_pin(tenant, &t))
	{
		case MTR_PIN_OK:
			break;
		case MTR_PIN_NO_TENANT:
			mtr_raise_no_tenant(tenant);
		case MTR_PIN_FULL:
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("no tenant slot is free"),
					 errdetail("All %d slots are in use by running "
							   "transactions or hold unflushed usage.",
							   mtr_max_tenants),
					 errhint("Try again, or raise mortar.max_tenants.")));
			break;
		case MTR_PIN_BUSY:
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("tenant \"%s\" is still being loaded", tenant),
					 errhint("Try again.")));
			break;
		case MTR_PIN_PENDING:
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("usage from before the last stop of the server has "
							"not been entered yet"),
					 errhint("Try again.  The view mortar.flusher and the "
							 "server's log say what goes wrong.")));
			break;
	}
	return t;
}

bool
mtr_tenant_is_clean(MtrTenant *t)
{
	bool clean;

	SpinLockAcquire(&t->mutex);
	clean =
		t->unflushed == 0 && t->queued == 0 && mtr_purse_is_clean(&t->purse);
	SpinLockRelease(&t->mutex);
	return clean;
}

/* in the commit callback, with the tenant's mutex held */
bool
mtr_tenant_mark_dirty(MtrTenant *t)
{
	uint64            bit = UINT64CONST(1) << (t->index % 64);
	pg_atomic_uint64 *word = &MtrDirty[t->index / 64];
	MtrDb            *db = &MtrShared->db[t->db];
	bool              first;

	if ((pg_atomic_read_u64(word) & bit) == 0)
		pg_atomic_fetch_or_u64(word, bit);
	first = pg_atomic_read_u32(&db->dirty) == 0;
	if (first)
		pg_atomic_write_u32(&db->dirty, 1);

	/*
	 * A running flusher looks by itself; one that is about to leave looks once
	 * more after it has said so.  Whichever of the two comes second sees the
	 * other: hence the barrier between our flag and its state.	Only the first
	 * wakes the launcher, which does not forget until the flag is taken.
	 */
	pg_memory_barrier();
	return first && db->flusher_state == MTR_FLUSHER_NONE;
}

bool
mtr_tenant_note_burns(MtrTenant *t, bool moved)
{
	const struct mtr_cell *debt = &t->purse.cell[MTR_PURSE_DEBT];

	if (moved ? mtr_purse_is_clean(&t->purse)
			  : debt->burn_done == debt->burn_flushed)
		return false;
	return mtr_tenant_mark_dirty(t);
}

/* takes an unpinned slot out of memory, with its usage slots */
static void
remove_locked(MtrTenant *t)
{
	MtrTenantHashKey key;
	MtrUsage        *u = t->usage;

	Assert(t->reservations == 0);
	make_key(&key, t->db, t->tenant_id);
	while (u != NULL)
	{
		MtrUsage *next = u->next;

		u->live = false; /* remembered pointers must not match */
		hash_search(MtrUsageHash, &u->key, HASH_REMOVE, NULL);
		u = next;
	}
	hash_search(MtrTenantHash, &key, HASH_REMOVE, NULL);
	pg_atomic_fetch_and_u64(&MtrDirty[t->index / 64],
							~(UINT64CONST(1) << (t->index % 64)));

	SpinLockAcquire(&t->mutex);
	t->state = MTR_TENANT_FREE;
	t->usage = NULL;
	t->nusage = t->unflushed = 0;
	t->tenant_id[0] = '\0';
	memset(t->counter, 0, sizeof(t->counter));
	SpinLockRelease(&t->mutex);

	t->next_free = MtrShared->free_tenant;
	MtrShared->free_tenant = t->index;
	pg_atomic_fetch_add_u64(&MtrShared->evictions, 1);
}

/* reservations keep it, unless it is stale, gone with its extension or database */
static bool
is_kept(const MtrTenant *t)
{
	MtrDb *db = &MtrShared->db[t->db];

	return t->reservations > 0 &&
		   t->generation == pg_atomic_read_u64(&db->generation);
}

/*
 * Nobody can pin the slot between the test and the removal: pinning from a
 * remembered pointer wants state READY and a current generation, which are
 * taken away under the mutex together with the test.
 */
static bool
retire(MtrTenant *t)
{
	bool ok;

	SpinLockAcquire(&t->mutex);
	ok = t->state == MTR_TENANT_READY && t->pins == 0 && !is_kept(t);
	if (ok)
		t->generation = 0;
	SpinLockRelease(&t->mutex);
	if (ok && t->reservations > 0)
		mtr_reservations_end(t);
	return ok;
}

bool
mtr_tenant_discard(MtrTenant *t)
{
	if (!retire(t))
		return false;
	remove_locked(t);
	return true;
}

bool
mtr_tenant_evict(MtrTenant *t)
{
	uint64 generation = t->generation;

	if (!retire(t))
		return false;
	if (!mtr_tenant_is_clean(t))
	{
		/* somebody may have pinned and used it just before; it stays */
		SpinLockAcquire(&t->mutex);
		t->generation = generation;
		SpinLockRelease(&t->mutex);
		return false;
	}
	Assert(t->unflushed_uc == 0);
	remove_locked(t);
	return true;
}

bool
mtr_tenant_clear_locked(MtrTenant *t)
{
	if (t->generation < pg_atomic_read_u64(&MtrShared->db[t->db].purged))
		return mtr_tenant_discard(t);
	return mtr_tenant_evict(t);
}

/* a free slot, if need be by evicting one; -1: none */
static int32
take_free_locked(void)
{
	for (int i = 0; MtrShared->free_tenant < 0 && i < mtr_max_tenants; i++)
	{
		MtrTenant *t = &MtrTenants[MtrShared->clock_hand];

		MtrShared->clock_hand = (MtrShared->clock_hand + 1) % mtr_max_tenants;
		if (t->state == MTR_TENANT_READY && t->pins == 0 && !is_kept(t))
			(void) mtr_tenant_evict(t);
	}
	if (MtrShared->free_tenant >= 0)
	{
		MtrTenant *t = &MtrTenants[MtrShared->free_tenant];

		MtrShared->free_tenant = t->next_free;
		return t->index;
	}
	return -1;
}

MtrTenant *
mtr_tenant_insert_locked(int db, const char *tenant, MtrTenantState state)
{
	MtrTenantHashKey    key;
	MtrTenantHashEntry *entry;
	int32               index;
	MtrTenant          *t;
	bool                found;

	if (MtrShared->db[db].dboid != MyDatabaseId)
		return NULL;
	index = take_free_locked();
	if (index < 0)
		return NULL;
	t = &MtrTenants[index];
	make_key(&key, db, tenant);
	entry = hash_search(MtrTenantHash, &key, HASH_ENTER_NULL, &found);
	if (entry == NULL || found)
	{
		t->next_free = MtrShared->free_tenant;
		MtrShared->free_tenant = index;
		return NULL;
	}
	entry->index = index;

	SpinLockAcquire(&t->mutex);
	t->state = state;
	t->db = db;
	t->generation = pg_atomic_read_u64(&MtrShared->db[db].generation);
	t->pins = 1;
	t->life = MTR_LIFE_ACTIVE;
	t->frozen = false;
	mtr_purse_init(&t->purse);
	t->held = t->unflushed_uc = t->releasing_uc = t->queued = 0;
	t->reservations = 0;
	t->reserved_uc = 0;
	t->reserve_due = PG_INT64_MAX;
	t->next_hold_expiry = DT_NOEND;
	t->durability = MTR_DURABLE_BUFFERED;
	t->giving = 0;
	t->giving_uc = 0;
	t->gone = 0;
	t->refilled_at = 0;
	t->max_unflushed_uc = MTR_DEFAULT_MAX_UNFLUSHED_UC;
	t->last_posted = 0;
	t->usage = NULL;
	strlcpy(t->tenant_id, tenant, MTR_TENANT_LEN);
	SpinLockRelease(&t->mutex);
	return t;
}

MtrTenant *
mtr_tenant_new(const char *tenant)
{
	MtrTenant *t = NULL;
	bool       occupied = false;

	mtr_xact_reserve_pin();
	for (int waited = 0; waited < MTR_SLOT_WAIT_MS; waited += MTR_SLOT_POLL_MS)
	{
		int        db = db_index();
		MtrTenant *old;

		/* of a creation that was rolled back, or of a dropped extension */
		LWLockAcquire(MtrShared->lock, LW_EXCLUSIVE);
		old = mtr_tenant_lookup(db, tenant);
		occupied = old != NULL && !mtr_tenant_clear_locked(old);
		if (!occupied)
			t = mtr_tenant_insert_locked(db, tenant, MTR_TENANT_NEW);
		LWLockRelease(MtrShared->lock);
		if (t != NULL)
			break;
		mtr_wake_flushers();
		mtr_slot_nap(MTR_SLOT_POLL_MS);
	}
	if (occupied)
		ereport(
			ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("an earlier tenant \"%s\" is still in memory", tenant),
			 errdetail("A running transaction uses it, or it has usage that "
					   "was not flushed."),
			 errhint("Try again.")));
	if (t == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("no tenant slot is free"),
				 errhint("Create fewer tenants in one transaction, or raise "
						 "mortar.max_tenants.")));
	mtr_xact_pin(t, tenant, true);
	return t;
}
