/*
 * meter.c
 *		Usage slots: finding, creating and claiming them (see gate.h).
 *
 * A usage slot counts one meter of one tenant, key, route and price, for
 * ever: what is in tables is its mark, the rest is here.  A slot that is not in
 * memory has no unflushed usage, so its mark is the whole truth; it is read
 * before the slot is made, and read again when something left memory in
 * between.
 *
 * A claimed slot stays: its tenant is pinned, and usage slots of pinned tenants
 * are never evicted.  Warm, a claim is one acquisition of the tenant's
 * spinlock.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "counter.h"
#include "http.h"
#include "price.h"
#include "slot.h"
#include "slot_load.h"
#include "spi.h"
#include "xact.h"

#define REMEMBERED 4096

static MtrUsage *remembered[REMEMBERED];

/* of buffered usage, and of that which is kept otherwise (sync.h) */
static MtrStmt stmt_mark = {
	.sql = "SELECT coalesce(sum(upto_qty) FILTER (WHERE NOT durable), 0)"
		   "    ::pg_catalog.int8,"
		   "  (coalesce(sum(upto_qty) FILTER (WHERE durable), 0) +"
		   "    (SELECT coalesce(sum(qty), 0) FROM mortar.usage_sync "
		   "    WHERE tenant_id = $1 AND meter = $2 AND key_id = $3"
		   "      AND route = $4 AND price_id = $5))::pg_catalog.int8 "
		   "FROM mortar.usage_marks WHERE tenant_id = $1 "
		   "AND meter = $2 AND key_id = $3 AND route = $4 AND price_id = $5",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 5,
	.argtypes = {TEXTOID, TEXTOID, UUIDOID, TEXTOID, UUIDOID},
};

static int64
read_mark(const char *tenant, const MtrUsageKey *key, int64 *durable)
{
	Datum args[5];
	int64 mark;
	bool  isnull;

	SPI_connect();
	args[0] = CStringGetTextDatum(tenant);
	args[1] = CStringGetTextDatum(mtr_meter_name((MtrMeter) key->meter));
	args[2] = UUIDPGetDatum(&key->key_id);
	args[3] = CStringGetTextDatum(mtr_route_template(key->route));
	args[4] = UUIDPGetDatum(&key->price_id);
	mtr_exec(&stmt_mark, args, NULL, MTR_SNAP_OTHERS, 1);
	mark = DatumGetInt64(mtr_first(1, &isnull));
	*durable = DatumGetInt64(mtr_first(2, &isnull));
	SPI_finish();
	return mark;
}

/* MtrShared.lock is held exclusively; NULL: no room */
static MtrUsage *
insert_locked(MtrTenant *t, const MtrUsageKey *key, const MtrPrice *price,
			  int64 mark, int64 durable)
{
	bool      found;
	MtrUsage *u;

	u = hash_search(MtrUsageHash, key, HASH_ENTER_NULL, &found);
	if (u == NULL && mtr_usage_evict_some())
		u = hash_search(MtrUsageHash, key, HASH_ENTER_NULL, &found);
	if (u == NULL || found)
		return u;

	SpinLockAcquire(&t->mutex);
	memset(&u->ring, 0, sizeof(u->ring));
	u->done = u->flushed = mark;
	u->taken = mark + durable;
	u->num_uc = price->num_uc;
	u->per_units = price->per_units;
	u->counter = 0;
	u->reservations = 0;
	pg_write_barrier(); /* the key, for readers under another mutex */
	u->live = true;
	u->next = t->usage;
	t->nusage++;
	t->usage = u;
	SpinLockRelease(&t->mutex);
	return u;
}

static MtrUsage *
find_or_make(MtrTenant *t, const MtrUsageKey *key, const MtrPrice *price)
{
	MtrUsage *u;

	LWLockAcquire(MtrShared->lock, LW_SHARED);
	u = hash_search(MtrUsageHash, key, HASH_FIND, NULL);
	LWLockRelease(MtrShared->lock);

	while (u == NULL)
	{
		uint64 before = pg_atomic_read_u64(&MtrShared->evictions);
		int64  durable;
		int64  mark = read_mark(t->tenant_id, key, &durable);
		bool   again;

		LWLockAcquire(MtrShared->lock, LW_EXCLUSIVE);
		again = pg_atomic_read_u64(&MtrShared->evictions) != before;
		if (!again)
			u = insert_locked(t, key, price, mark, durable);
		LWLockRelease(MtrShared->lock);
		if (!again)
			break;
		CHECK_FOR_INTERRUPTS();
	}
	return u;
}

/*
 * Unlinks a usage slot if its tenant is unpinned and it has nothing to flush.
 * From then on nobody claims it, and it can leave the hash table.
 */
static bool
unlink_clean(MtrTenant *t, MtrUsage *u)
{
	MtrUsage **link = &t->usage;
	bool       ok;

	SpinLockAcquire(&t->mutex);
	ok = t->pins == 0 && u->reservations == 0 && u->done == u->flushed;
	if (ok)
	{
		while (*link != u)
			link = &(*link)->next;
		*link = u->next;
		u->live = false;
		t->nusage--;
	}
	SpinLockRelease(&t->mutex);
	return ok;
}

bool
mtr_usage_evict_some(void)
{
	HASH_SEQ_STATUS scan;
	MtrUsage       *u;
	int             freed = 0;

	hash_seq_init(&scan, MtrUsageHash);
	while ((u = hash_seq_search(&scan)) != NULL)
	{
		if (unlink_clean(&MtrTenants[u->key.tenant], u))
		{
			hash_search(MtrUsageHash, &u->key, HASH_REMOVE, NULL);
			freed++;
		}
	}
	if (freed > 0)
		pg_atomic_fetch_add_u64(&MtrShared->evictions, 1);
	return freed > 0;
}

typedef enum Claim
{
	CLAIM_OK,
	CLAIM_NEARLY_FULL, /* claimed, but there may be no room for a minute */
	CLAIM_NO_USAGE,    /* the usage slot is not where it was */
	CLAIM_NO_COUNTER   /* nor is the price's counter in memory */
} Claim;

/* proves the slot, finds its counter and takes a reference; mutex held */
static Claim
claim_locked(MtrUsageRef *ref, const MtrUsageKey *key, MtrPinned *pin)
{
	MtrUsage *u = ref->usage;

	if (!u->live)
		return CLAIM_NO_USAGE;
	pg_read_barrier();
	if (memcmp(&u->key, key, sizeof(*key)) != 0)
		return CLAIM_NO_USAGE;
	ref->counter = -1;
	if (u->num_uc > 0)
	{
		ref->counter = (int16) mtr_counter_claim_locked(pin, u);
		if (ref->counter < 0)
			return CLAIM_NO_COUNTER;
	}
	pin->claimed |= MTR_CLAIMED_USAGE;
	return mtr_ring_nearly_full(&u->ring, u->flushed) ? CLAIM_NEARLY_FULL
													  : CLAIM_OK;
}

/* false when there was no room, or no room for another minute */
static bool
try_claim(const MtrUsageKey *key, const MtrPrice *price, MtrUsageRef *ref)
{
	MtrTenant *t = ref->tenant;
	uint32     hash = hash_bytes((const unsigned char *) key, sizeof(*key));
	MtrUsage **place = &remembered[hash % REMEMBERED];

	for (;;)
	{
		MtrPinned *pin;
		Claim      claim = CLAIM_NO_USAGE;

		ref->usage = *place;
		pin = mtr_xact_pinned(t);
		if (ref->usage != NULL)
		{
			SpinLockAcquire(&t->mutex);
			claim = claim_locked(ref, key, pin);
			SpinLockRelease(&t->mutex);
		}
		if (claim == CLAIM_OK || claim == CLAIM_NEARLY_FULL)
			return claim == CLAIM_OK;
		if (claim == CLAIM_NO_USAGE)
			*place = find_or_make(t, key, price);
		if (*place == NULL)
			return false;
		if (claim == CLAIM_NO_COUNTER &&
			!mtr_counter_bring(t, (MtrMeter) key->meter, price))
			return false;
		CHECK_FOR_INTERRUPTS();
	}
}

bool
mtr_usage_claim(MtrTenant *t, MtrMeter meter, int16 route,
				const pg_uuid_t *key_id, bool priced, MtrUsageRef *ref)
{
	MtrPrice    price = {0};
	MtrUsageKey key;

	if (priced)
		price = mtr_prices(t, route)[meter];
	memset(&key, 0, sizeof(key));
	key.tenant = t->index;
	key.meter = meter;
	key.route = route;
	if (key_id != NULL)
		key.key_id = *key_id;
	key.price_id = price.price_id;

	ref->tenant = t;
	for (int waited = 0; waited < MTR_SLOT_WAIT_MS; waited += MTR_SLOT_POLL_MS)
	{
		if (try_claim(&key, &price, ref))
			return true;
		mtr_wake_flushers();
		mtr_slot_nap(MTR_SLOT_POLL_MS);
	}
	return false;
}
