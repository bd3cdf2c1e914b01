/*
 * pace.c
 *		What one call's duration says about the next ones.
 *
 * The window of a connection opens by one call for each fast answer and falls
 * to one call after a slow one, so that a burst of unknown calls does not stand
 * behind a call that takes seconds.  An answer that was neither halves it.
 *
 * Slow tenants are kept in a fixed table.  While nobody is slow, which is the
 * usual case, one comparison tells so.
 *
 * Everything here belongs to one pool, and so to one thread.
 */
#include "pace.h"

#define FAST_MS 10

Tenant
pace_tenant(Slice name, uint64_t seed)
{
	uint64_t hash = seed ^ UINT64_C(0xCBF29CE484222325);

	for (size_t i = 0; i < name.len; i++)
		hash = (hash ^ (unsigned char) name.base[i]) * UINT64_C(0x100000001B3);
	/* the low bits of this hash are its weakest */
	hash ^= hash >> 32;
	hash *= UINT64_C(0xD6E8FEB86659FD93);
	hash ^= hash >> 32;
	hash &= ~TENANT_MARK;
	return hash == 0 ? ~TENANT_MARK : hash;
}

unsigned
pace_window(unsigned window, unsigned depth, int64_t took_ms)
{
	if (took_ms >= PACE_SLOW_MS)
		return 1;
	if (took_ms >= FAST_MS)
		return window > 1 ? window / 2 : 1;
	return window < depth ? window + 1 : depth;
}

void
pace_note_slow(SlowTenants *slow, Tenant tenant, int64_t now_ms)
{
	int at = 0;

	for (int i = 0; i < PACE_TENANTS; i++)
	{
		if (pace_is_same(slow->tenant[i], tenant))
		{
			at = i;
			break;
		}
		if (slow->until_ms[i] < slow->until_ms[at])
			at = i;
	}
	slow->tenant[at] = tenant & ~TENANT_MARK;
	slow->until_ms[at] = now_ms + PACE_MEMORY_MS;
	slow->last_ms = slow->until_ms[at];
}

bool
pace_is_slow(const SlowTenants *slow, Tenant tenant, int64_t now_ms)
{
	if (now_ms >= slow->last_ms)
		return false;
	for (int i = 0; i < PACE_TENANTS; i++)
		if (pace_is_same(slow->tenant[i], tenant))
			return now_ms < slow->until_ms[i];
	return false;
}
