/*
 * pace.h
 *		How many calls a connection may carry, and whose calls are slow.
 *		PURE: includes neither h2o nor libpq.
 */
#ifndef GATEWAY_PACE_H
#define GATEWAY_PACE_H

#include "text.h"

/* A call that has been running for so long is slow: nothing is put behind it,
 * and its tenant is remembered. */
#define PACE_SLOW_MS 100

/* For how long a tenant is remembered after its last slow call. */
#define PACE_MEMORY_MS 2000

/* Tenants that are remembered at a time. */
#define PACE_TENANTS 64

/*
 * A tenant as the pool knows it: a keyed hash of its name, never 0.  The lowest
 * bit is free for whoever stores one.
 */
typedef uint64_t Tenant;

#define TENANT_MARK UINT64_C(1)

/* Returns the tenant of that name. */
extern Tenant pace_tenant(Slice name, uint64_t seed);

/* True when both are the same tenant, marked or not. */
static inline bool
pace_is_same(Tenant a, Tenant b)
{
	return ((a ^ b) & ~TENANT_MARK) == 0;
}

/*
 * Returns how many calls a connection may carry from now on, from 1 to "depth",
 * when the one that was just answered took "took_ms" since it was its turn.
 * Begin with 1.
 */
extern unsigned pace_window(unsigned window, unsigned depth, int64_t took_ms);

/* The tenants that lately had a slow call.  Begin with all bytes zero. */
typedef struct SlowTenants
{
	Tenant  tenant[PACE_TENANTS];
	int64_t until_ms[PACE_TENANTS];
	int64_t last_ms; /* nobody is remembered from then on */
} SlowTenants;

/* Remembers "tenant"; when all places are taken, the one seen longest ago is
 * forgotten. */
extern void pace_note_slow(SlowTenants *slow, Tenant tenant, int64_t now_ms);

/* True when "tenant" is remembered. */
extern bool
pace_is_slow(const SlowTenants *slow, Tenant tenant, int64_t now_ms);

#endif /* GATEWAY_PACE_H */
