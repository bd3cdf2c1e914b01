/*
 * locks.c
 *		Mortar's locks of the lock manager (see locks.h).
 */
#include "locks.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lock.h"

static uint64
add_hash(uint64 hash, const char *bytes, size_t len)
{
	return hash_bytes_extended((const unsigned char *) bytes, (int) len, hash);
}

static LOCKTAG
tag_of(MtrLock kind, uint64 hash)
{
	LOCKTAG tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (hash >> 32),
						 (uint32) hash, kind);
	return tag;
}

static LOCKTAG
tenant_tag(MtrLock kind, const char *tenant)
{
	return tag_of(kind,
				  tenant == NULL ? 0 : add_hash(0, tenant, strlen(tenant)));
}

void
mtr_lock(MtrLock kind, const char *tenant)
{
	LOCKTAG tag = tenant_tag(kind, tenant);

	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

static LOCKTAG
part_tag(MtrLock kind, const char *tenant, const char *name, size_t name_len)
{
	uint64 hash = add_hash(0, tenant, strlen(tenant));

	return tag_of(kind, add_hash(hash, name, name_len));
}

void
mtr_lock_part(MtrLock kind, const char *tenant, const char *name,
			  size_t name_len, LOCKMODE mode)
{
	LOCKTAG tag = part_tag(kind, tenant, name, name_len);

	Assert(mode == ShareLock || mode == ExclusiveLock);
	(void) LockAcquire(&tag, mode, false, false);
}

bool
mtr_try_lock(MtrLock kind, const char *tenant)
{
	LOCKTAG tag = tenant_tag(kind, tenant);

	return LockAcquire(&tag, ExclusiveLock, false, true) !=
		   LOCKACQUIRE_NOT_AVAIL;
}

void
mtr_unlock(MtrLock kind, const char *tenant)
{
	LOCKTAG tag = tenant_tag(kind, tenant);

	(void) LockRelease(&tag, ExclusiveLock, false);
}
