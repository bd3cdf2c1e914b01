/*
 * auth.c
 *		Verifying API keys, from shared memory when warm.
 *
 * The cache holds what the table says, also of keys that are revoked or
 * expired; times are judged at every use.
 *
 * How a revocation holds at the instant of commit: the revoking transaction
 * puts the key into the cache and pins it there, and its COMMIT callback marks
 * it invalid.  A loader that read the table before that and stores its answer
 * after is caught by MtrDb.key_generation, which the callback bumps first and
 * the loader compares under the lock that guards the cache.
 *
 * Unknown ids are not cached: they cost a table lookup, and the same HMAC as
 * known ones.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "auth.h"
#include "core/apikey.h"
#include "keys.h"
#include "spi.h"
#include "inval.h"

#define REMEMBERED 2048

static MtrKey *remembered[REMEMBERED];

static MtrStmt stmt_key = {
	.sql = "SELECT tenant_id, hash, pepper_version, scopes, not_before, "
		   "expires_at, revoked_at FROM mortar.api_keys WHERE key_id = $1",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 1,
	.argtypes = {UUIDOID},
};

/* what authentication needs of a key, copied out of the cache */
typedef struct Facts
{
	char        tenant_id[MTR_TENANT_LEN];
	uint8       hash[32];
	int32       pepper_version;
	uint32      scopes;
	TimestampTz not_before;
	TimestampTz expires_at;
	TimestampTz revoked_at;
} Facts;

static void
make_hash_key(MtrKeyHashKey *hk, const pg_uuid_t *id)
{
	memset(hk, 0, sizeof(*hk));
	hk->db = mtr_db() - MtrShared->db;
	hk->key_id = *id;
}

static MtrKey **
place_of(const pg_uuid_t *id)
{
	uint32 n;

	/* the end of a UUIDv7 is random */
	memcpy(&n, id->data + UUID_LEN - sizeof(n), sizeof(n));
	return &remembered[n % REMEMBERED];
}

/* copies the facts out if the entry is the key's, loaded and current */
static bool
copy_facts(MtrKey *k, const MtrKeyHashKey *hk, Facts *f)
{
	uint64 generation = pg_atomic_read_u64(&MtrShared->db[hk->db].generation);
	bool   ok;

	SpinLockAcquire(&k->mutex);
	ok = k->valid && k->generation == generation &&
		 memcmp(&k->key, hk, sizeof(*hk)) == 0;
	if (ok)
	{
		memcpy(f->tenant_id, k->tenant_id, MTR_TENANT_LEN);
		memcpy(f->hash, k->hash, sizeof(f->hash));
		f->pepper_version = k->pepper_version;
		f->scopes = k->scopes;
		f->not_before = k->not_before;
		f->expires_at = k->expires_at;
		f->revoked_at = k->revoked_at;
		k->used = true;
	}
	SpinLockRelease(&k->mutex);
	return ok;
}

static TimestampTz
time_cell(int col, TimestampTz if_null)
{
	bool  isnull;
	Datum d = mtr_first(col, &isnull);

	return isnull ? if_null : DatumGetTimestampTz(d);
}

/* reads the table; false when there is no such key */
static bool
read_key(const pg_uuid_t *id, Facts *f)
{
	Datum args[1];
	bool  isnull;
	bool  known;
	bool  found;

	memset(f, 0, sizeof(*f));
	args[0] = UUIDPGetDatum(id);
	SPI_connect();
	mtr_exec(&stmt_key, args, NULL, MTR_SNAP_OTHERS, 1);
	found = SPI_processed == 1;
	if (found)
	{
		bytea *hash = DatumGetByteaPP(mtr_first(2, &isnull));

		strlcpy(f->tenant_id, mtr_cell(0, 1), MTR_TENANT_LEN);
		if (VARSIZE_ANY_EXHDR(hash) == sizeof(f->hash))
			memcpy(f->hash, VARDATA_ANY(hash), sizeof(f->hash));
		else
			found = false;
		f->pepper_version = DatumGetInt32(mtr_first(3, &isnull));
		f->scopes = mtr_scopes_of_array(
			DatumGetArrayTypeP(mtr_first(4, &isnull)), &known);
		f->not_before = time_cell(5, DT_NOBEGIN);
		f->expires_at = time_cell(6, DT_NOEND);
		f->revoked_at = time_cell(7, DT_NOEND);
	}
	SPI_finish();
	return found;
}

/*
 * Frees entries that nobody pins and nobody used since the last look; the
 * second round takes used ones too.  The lock is held exclusively.
 */
static void
evict_keys_locked(void)
{
	int freed = 0;

	for (int round = 0; round < 2 && freed == 0; round++)
	{
		HASH_SEQ_STATUS scan;
		MtrKey         *k;

		hash_seq_init(&scan, MtrKeyHash);
		while ((k = hash_seq_search(&scan)) != NULL)
		{
			bool take;

			SpinLockAcquire(&k->mutex);
			take = k->pins == 0 && !k->used;
			k->used = false;
			if (take)
				k->valid = false;
			SpinLockRelease(&k->mutex);
			if (take)
			{
				hash_search(MtrKeyHash, &k->key, HASH_REMOVE, NULL);
				freed++;
			}
		}
	}
}

/*
 * The cache entry of a key, made if need be; NULL when the cache is full of
 * pinned entries.  The lock is held exclusively.
 */
static MtrKey *
entry_locked(const MtrKeyHashKey *hk)
{
	bool    found;
	MtrKey *k = hash_search(MtrKeyHash, hk, HASH_ENTER_NULL, &found);

	if (k == NULL)
	{
		evict_keys_locked();
		k = hash_search(MtrKeyHash, hk, HASH_ENTER_NULL, &found);
	}
	if (k == NULL || found)
		return k;

	/* an element that was used before: a stale reader may hold its mutex */
	if (k->magic != MTR_KEY_MAGIC)
	{
		SpinLockInit(&k->mutex);
		k->magic = MTR_KEY_MAGIC;
	}
	SpinLockAcquire(&k->mutex);
	k->valid = false;
	k->used = true;
	k->pins = 0;
	SpinLockRelease(&k->mutex);
	return k;
}

/* puts facts into the cache; false when the key was changed in between */
static bool
store_facts(const MtrKeyHashKey *hk, const Facts *f, uint64 key_generation,
			uint64 generation)
{
	MtrDb  *db = &MtrShared->db[hk->db];
	MtrKey *k = NULL;
	bool    current;

	LWLockAcquire(MtrShared->lock, LW_EXCLUSIVE);
	current = pg_atomic_read_u64(&db->key_generation) == key_generation;
	if (current)
		k = entry_locked(hk);
	if (k != NULL)
	{
		SpinLockAcquire(&k->mutex);
		memcpy(k->tenant_id, f->tenant_id, MTR_TENANT_LEN);
		memcpy(k->hash, f->hash, sizeof(k->hash));
		k->pepper_version = f->pepper_version;
		k->scopes = f->scopes;
		k->not_before = f->not_before;
		k->expires_at = f->expires_at;
		k->revoked_at = f->revoked_at;
		k->generation = generation;
		/* a callback may have bumped the number since it was compared */
		current = pg_atomic_read_u64(&db->key_generation) == key_generation;
		k->valid = current;
		SpinLockRelease(&k->mutex);
		*place_of(&hk->key_id) = k;
	}
	LWLockRelease(MtrShared->lock);
	return current;
}

static bool
load_key(const MtrKeyHashKey *hk, Facts *f)
{
	MtrDb *db = &MtrShared->db[hk->db];

	for (;;)
	{
		uint64 generation = pg_atomic_read_u64(&db->generation);
		uint64 key_generation = pg_atomic_read_u64(&db->key_generation);

		if (!read_key(&hk->key_id, f))
			return false;
		if (store_facts(hk, f, key_generation, generation))
			return true;
		CHECK_FOR_INTERRUPTS();
	}
}

static bool
find_key(const pg_uuid_t *id, Facts *f)
{
	MtrKeyHashKey hk;
	MtrKey      **place = place_of(id);
	MtrKey       *k;
	bool          ok = false;

	make_hash_key(&hk, id);
	if (*place != NULL && copy_facts(*place, &hk, f))
		return true;

	LWLockAcquire(MtrShared->lock, LW_SHARED);
	k = hash_search(MtrKeyHash, &hk, HASH_FIND, NULL);
	if (k != NULL)
		ok = copy_facts(k, &hk, f);
	LWLockRelease(MtrShared->lock);
	if (ok)
	{
		*place = k;
		return true;
	}
	return load_key(&hk, f);
}

MtrAuth
mtr_authenticate(const char *token, size_t len, MtrIdentity *who)
{
	const char *secret;
	uint8       hash[32];
	Facts       f;
	bool        known;
	TimestampTz now;

	memset(who, 0, sizeof(*who));
	if (!mtr_apikey_parse(token, len, who->key_id.data, &secret))
		return MTR_AUTH_INVALID;

	mtr_refuse_recovery();
	known = find_key(&who->key_id, &f);
	if (!mtr_pepper_hmac(known ? f.pepper_version : mtr_pepper_newest(), secret,
						 MTR_APIKEY_SECRET_CHARS, hash))
		return MTR_AUTH_NO_PEPPER;
	if (!known || !mtr_ct_equal(hash, f.hash, sizeof(hash)))
		return MTR_AUTH_INVALID;

	now = GetCurrentTimestamp();
	if (f.revoked_at != DT_NOEND)
		return MTR_AUTH_INVALID;
	if (f.expires_at != DT_NOEND && now >= f.expires_at)
		return MTR_AUTH_EXPIRED;
	if (now < f.not_before)
		return MTR_AUTH_EARLY;
	strlcpy(who->tenant_id, f.tenant_id, MTR_TENANT_LEN);
	who->scopes = f.scopes;
	return MTR_AUTH_OK;
}

void
mtr_key_invalidate_at_commit(const pg_uuid_t *key_id)
{
	MtrKeyHashKey hk;
	MtrKey       *k;

	make_hash_key(&hk, key_id);
	mtr_inval_reserve_key();
	LWLockAcquire(MtrShared->lock, LW_EXCLUSIVE);
	k = entry_locked(&hk);
	if (k != NULL)
	{
		SpinLockAcquire(&k->mutex);
		k->pins++;
		SpinLockRelease(&k->mutex);
	}
	LWLockRelease(MtrShared->lock);
	if (k != NULL)
		mtr_inval_key_changed(k);
	else
		/* no room to name the key: let everything be read again */
		mtr_inval_foreign_write(mtr_db());
}
