/*
 * reservation.c
 *		Reservations in shared memory (see reservation.h and reserve.h).
 *
 * A fixed array.  Those that are free form a stack whose head is one atomic word,
 * the index of the first and a count of its moves, so that one is taken and returned
 * without a lock, also while a tenant's mutex is held.
 *
 * A tenant knows how many it has, not which: they are found by walking the array
 * without a lock, and proven under the tenant's mutex.	 That is done only by who would
 * be refused or looks at the balance while some of this tenant's may have expired, by
 * the flusher, and when a slot is thrown away.
 *
 * Locking: the tenant's mutex guards its reservations, together with its counters and
 * its purse, see shmem.h.	One acquisition per reservation.
 */
#include "mortar.h"

#include "utils/timestamp.h"

#include "core/price.h"
#include "guc.h"
#include "reservation.h"
#include "slot.h"

/* ---- free ones ---- */

void
mtr_reservations_init(void)
{
	uint64 random;

	/* an id from before a crash must not name anything */
	if (!pg_strong_random(&random, sizeof(random)))
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
						errmsg("could not generate random bytes")));
	memset(MtrReservations, 0, mtr_max_reservations * sizeof(MtrReservation));
	for (int i = 0; i < mtr_max_reservations; i++)
	{
		MtrReservations[i].tenant = -1;
		pg_atomic_init_u32(&MtrReservations[i].next_free,
						   i + 1 < mtr_max_reservations ? i + 2 : 0);
	}
	pg_atomic_init_u32(&MtrShared->reservations, 0);
	pg_atomic_init_u64(&MtrShared->free_reservation, 1);
	pg_atomic_init_u64(&MtrShared->reservation_serial, random);
}

/* the head after one more move: the same index never is the same head again */
static uint64
next_head(uint64 head, uint32 first)
{
	return (((head >> 32) + 1) << 32) | first;
}

int32
mtr_reservation_take(void)
{
	uint64 head = pg_atomic_read_u64(&MtrShared->free_reservation);

	for (;;)
	{
		uint32 first = (uint32) head;
		uint32 second;

		if (first == 0)
			return -1;
		/* if another takes it meanwhile, this is wrong, and the head has moved */
		pg_read_barrier();
		second = pg_atomic_read_u32(&MtrReservations[first - 1].next_free);
		if (!pg_atomic_compare_exchange_u64(&MtrShared->free_reservation, &head,
											next_head(head, second)))
			continue;
		pg_atomic_fetch_add_u32(&MtrShared->reservations, 1);
		return (int32) first - 1;
	}
}

void
mtr_reservation_return(int32 index)
{
	uint64 head = pg_atomic_read_u64(&MtrShared->free_reservation);

	do
		pg_atomic_write_u32(&MtrReservations[index].next_free, (uint32) head);
	while (!pg_atomic_compare_exchange_u64(&MtrShared->free_reservation, &head,
										   next_head(head, index + 1)));
	pg_atomic_fetch_sub_u32(&MtrShared->reservations, 1);
}

/* ---- the tenant's mutex is held ---- */

void
mtr_reservation_fill(const MtrUsageRef *ref, int32 index, int64 qty,
					 const MtrParts *parts, int64 expires, MtrReserveId *id)
{
	MtrReservation *e = &MtrReservations[index];
	MtrTenant      *t = ref->tenant;

	id->index = index;
	id->serial = pg_atomic_add_fetch_u64(&MtrShared->reservation_serial, 1);
	e->tenant = t->index;
	e->state = MTR_RESERVATION_PENDING;
	e->given_up = false;
	e->serial = id->serial;
	e->expires = expires;
	e->usage = ref->usage;
	e->counter = ref->counter;
	mtr_reserve_begin(&t->purse, &e->r, qty, parts->part, parts->own, parts->n);
	t->reservations++;
	t->reserved_uc += e->r.total_uc;
	e->usage->taken += qty;
	e->usage->reservations++;
	if (e->counter >= 0)
	{
		MtrCounter *c = &t->counter[e->counter];

		c->priced += qty;
		/* which keeps the counter in memory: it is not flushed (counter.c) */
		c->reserved += qty;
	}
}

MtrReservation *
mtr_reservation_find(const MtrTenant *t, const MtrReserveId *id)
{
	MtrReservation *e;

	if (id->index < 0 || id->index >= mtr_max_reservations)
		return NULL;
	e = &MtrReservations[id->index];
	return e->tenant == t->index && e->serial == id->serial ? e : NULL;
}

/* takes a quantity out of the counter again; returns what it is worth now */
static int64
unprice(MtrTenant *t, MtrReservation *e, int64 qty)
{
	MtrCounter *c;
	int64       worth;

	if (e->counter < 0)
		return 0;
	c = &t->counter[e->counter];
	/* the same arithmetic that took it, so it cannot fail */
	if (!mtr_price_step(c->priced - qty, qty, c->num_uc, c->per_units, &worth))
		worth = 0;
	c->priced -= qty;
	c->reserved -= qty;
	return worth;
}

void
mtr_reservation_end(MtrTenant *t, MtrReservation *e, TimestampTz now)
{
	int64 qty = mtr_reserve_left(&e->r);

	t->reserved_uc -= mtr_reserve_left_uc(&e->r);
	mtr_reserve_release(&t->purse, Max(now, t->last_posted), &e->r,
						unprice(t, e, qty));
	e->usage->taken -= qty;
	e->usage->reservations--;
	t->reservations--;
	/* others were charged and undone at other places of the walk meanwhile */
	mtr_unflushed_settle(t);
	e->state = MTR_RESERVATION_FREE;
	e->usage = NULL;
	e->tenant = -1;
	mtr_reservation_return(e - MtrReservations);
}

void
mtr_reservation_settle(MtrTenant *t, MtrReservation *e, int64 qty,
					   TimestampTz now)
{
	MtrUsage *u = e->usage;

	if (u->done == u->flushed)
		t->unflushed++;
	mtr_ring_add(&u->ring, u->done, mtr_minute_of(now), u->flushed);
	u->done += qty;
	if (e->counter >= 0)
	{
		t->counter[e->counter].done += qty;
		t->counter[e->counter].reserved -= qty;
		mtr_unflushed_settle(t);
	}
	t->reserved_uc -= mtr_reserve_settle(&t->purse, &e->r, qty);
	if (mtr_reserve_left(&e->r) == 0)
		mtr_reservation_end(t, e, now);
}

/* it may be the next to expire, whatever who is looking has found so far */
static void
note_due(MtrTenant *t, int64 expires)
{
	t->reserve_due = Min(t->reserve_due, expires);
	t->reserve_version++;
}

void
mtr_reservation_renew(MtrTenant *t, MtrReservation *e, int64 expires)
{
	Assert(e->state == MTR_RESERVATION_LIVE);
	if (expires < e->expires)
		note_due(t, expires);
	e->expires = expires;
}

void
mtr_reservation_commit(MtrTenant *t, const MtrReserveId *id, TimestampTz now)
{
	MtrReservation *e = mtr_reservation_find(t, id);

	/* nobody else ends one that is pending */
	Assert(e != NULL);
	if (e == NULL)
		return;
	mtr_reserve_commit(&e->r);
	e->state = MTR_RESERVATION_LIVE;
	if (e->given_up)
		mtr_reservation_end(t, e, now);
	else
		note_due(t, e->expires);
}

void
mtr_reservation_undo(MtrTenant *t, const MtrReserveId *id, TimestampTz now)
{
	MtrReservation *e = mtr_reservation_find(t, id);

	Assert(e != NULL);
	if (e != NULL)
		mtr_reservation_end(t, e, now);
}

void
mtr_reservation_give_up(MtrTenant *t, const MtrReserveId *id)
{
	MtrReservation *e = mtr_reservation_find(t, id);

	Assert(e != NULL);
	if (e != NULL)
		e->given_up = true;
}

/* ---- found by walking the array ---- */

/* every is true: ends it in any case.  *next: when it expires, if that is earlier */
static bool
end_if_due(MtrTenant *t, MtrReservation *e, bool every, TimestampTz now,
		   int64 now_ms, int64 *next)
{
	bool ended = false;
	bool wake = false;

	SpinLockAcquire(&t->mutex);
	if (e->tenant == t->index && e->state == MTR_RESERVATION_LIVE)
	{
		ended = every || e->expires <= now_ms;
		if (!ended)
			*next = Min(*next, e->expires);
		else
		{
			mtr_reservation_end(t, e, now);
			wake = mtr_tenant_note_burns(t, true);
		}
	}
	SpinLockRelease(&t->mutex);
	if (wake)
		mtr_wake_launcher();
	return ended;
}

bool
mtr_reservations_expire_due(MtrTenant *t)
{
	TimestampTz now = GetCurrentTimestamp();
	int64       now_ms = mtr_now_ms();
	int64       next = PG_INT64_MAX;
	bool        ended = false;
	int64       due;
	uint32      version;

	SpinLockAcquire(&t->mutex);
	due = t->reserve_due;
	version = t->reserve_version;
	SpinLockRelease(&t->mutex);
	if (due > now_ms)
		return false;
	for (int i = 0; i < mtr_max_reservations; i++)
		if (MtrReservations[i].tenant == t->index)
			ended |=
				end_if_due(t, &MtrReservations[i], false, now, now_ms, &next);
	SpinLockAcquire(&t->mutex);
	/* one that has come since may have been missed */
	if (t->reserve_version == version)
		t->reserve_due = next;
	SpinLockRelease(&t->mutex);
	return ended;
}

bool
mtr_reservations_expire_all(void)
{
	TimestampTz now;
	int64       now_ms;
	int64       next = PG_INT64_MAX;
	bool        ended = false;

	if (pg_atomic_read_u32(&MtrShared->reservations) == 0)
		return false;
	now = GetCurrentTimestamp();
	now_ms = mtr_now_ms();
	for (int i = 0; i < mtr_max_reservations; i++)
	{
		MtrReservation *e = &MtrReservations[i];
		int32           tenant = e->tenant;

		if (tenant >= 0 && e->expires <= now_ms)
			ended |=
				end_if_due(&MtrTenants[tenant], e, false, now, now_ms, &next);
	}
	return ended;
}

void
mtr_reservations_end(MtrTenant *t)
{
	TimestampTz now = GetCurrentTimestamp();
	int64       next = 0;

	for (int i = 0; t->reservations > 0 && i < mtr_max_reservations; i++)
		if (MtrReservations[i].tenant == t->index)
			(void) end_if_due(t, &MtrReservations[i], true, now, 0, &next);
	/* those that are not live are of transactions, which pin the tenant */
	Assert(t->reservations == 0);
}

void
mtr_reservations_stop(void)
{
	TimestampTz now = GetCurrentTimestamp();

	for (int i = 0; i < mtr_max_reservations; i++)
	{
		MtrReservation *e = &MtrReservations[i];

		if (e->tenant >= 0 && e->state == MTR_RESERVATION_LIVE)
			mtr_reservation_end(&MtrTenants[e->tenant], e, now);
	}
}
