/*
 * reserve.c
 *		Credits for an answer that is sent in pieces (see reserve.h).
 *
 * Locking: each step is one acquisition of the tenant's mutex.	 Whoever settles or
 * releases has the tenant pinned, so that its slot stays where it is.
 */
#include "mortar.h"

#include "utils/timestamp.h"

#include "guc.h"
#include "life.h"
#include "reserve.h"
#include "slot.h"
#include "xact.h"

typedef enum Reserved
{
	RESERVED,
	RESERVED_FULL, /* no reservation is free */
	RESERVED_OUT_OF_RANGE,
	RESERVED_SHORT,
	RESERVED_GRANTS, /* reservations would hold too many */
	RESERVED_AGAIN   /* the purse has to be loaded again */
} Reserved;

/* one try to reserve */
typedef struct Try
{
	MtrUsageRef  *ref;
	int64         qty;
	int64         expires;
	int64         total;
	MtrParts      parts;
	MtrShortfall *shortfall;
	MtrReserveId *id;
} Try;

static void
check_ttl(int64 ttl_ms)
{
	if (ttl_ms < 1 || ttl_ms > MTR_RESERVE_MAX_TTL_MS)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("time to live of a reservation out of range"),
						errdetail("It is 1 to " INT64_FORMAT " milliseconds.",
								  MTR_RESERVE_MAX_TTL_MS)));
}

static void
check_quantity(int64 qty, int64 least)
{
	if (qty < least)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("quantity must not be less than " INT64_FORMAT,
							   least)));
}

/* the mutex is held; an entry of memory is at hand before anything is taken */
static Reserved
reserve_locked(Try *try, MtrPinned *pin, int32 index, TimestampTz now)
{
	MtrTenant *t = pin->tenant;
	MtrTaken   taken = MTR_TAKEN;
	int64      cost;

	try->parts.n = 0;
	if (!mtr_price_locked(t, try->ref, &try->qty, 1, &cost, &try->total))
		return RESERVED_OUT_OF_RANGE;
	if (try->total > 0)
		taken = mtr_take_locked(t, pin, now, try->total, &try->parts,
								try->shortfall);
	if (taken != MTR_TAKEN)
		return taken == MTR_TAKEN_SHORT ? RESERVED_SHORT : RESERVED_AGAIN;
	if (!mtr_reserve_fits(&t->purse, try->parts.part, try->parts.n))
	{
		mtr_reserve_untake(&t->purse, Max(now, t->last_posted), try->parts.part,
						   try->parts.own, try->parts.n);
		return RESERVED_GRANTS;
	}
	mtr_reservation_fill(try->ref, index, try->qty, &try->parts, try->expires,
						 try->id);
	return RESERVED;
}

static Reserved
try_reserve(Try *try)
{
	MtrTenant  *t = try->ref->tenant;
	MtrPinned  *pin = mtr_xact_pinned(t);
	TimestampTz now = GetCurrentTimestamp();
	int32       index = mtr_reservation_take();
	Reserved    result;

	if (index < 0)
		return RESERVED_FULL;
	SpinLockAcquire(&t->mutex);
	result = reserve_locked(try, pin, index, now);
	SpinLockRelease(&t->mutex);
	if (result != RESERVED)
		mtr_reservation_return(index);
	return result;
}

static void
raise_refusal(MtrTenant *t, Reserved result, int64 total)
{
	if (result == RESERVED_FULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("no reservation is free"),
				 errdetail("All %d are in use by answers that are being sent.",
						   mtr_max_reservations),
				 errhint("Try again, or raise mortar.max_reservations.")));
	if (result == RESERVED_GRANTS)
		ereport(
			ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("too many grants of tenant \"%s\" would pay for answers "
					"that are being sent",
					t->tenant_id),
			 errdetail("At most %d grants can.", MTR_RESERVE_CELLS),
			 errhint("Try again, or give credits in larger grants.")));
	if (result == RESERVED_OUT_OF_RANGE)
		ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
						errmsg("usage quantity out of range")));
	/* usage is burned by cells, and what has none is not there before the commit */
	if (result == RESERVED_SHORT && mtr_is_behind_enough(t, total))
		mtr_raise_many_grants(t);
}

bool
mtr_reserve(MtrUsageRef *ref, int64 qty, int64 ttl_ms, MtrShortfall *s,
			MtrReserveId *id)
{
	MtrTenant *t = ref->tenant;
	Try        try = {.ref = ref, .qty = qty, .shortfall = s, .id = id};
	MtrAgain   again = {0};
	Reserved   result;

	mtr_refuse_recovery();
	check_quantity(qty, 1);
	check_ttl(ttl_ms);
	if (ref->usage->num_uc > 0)
		mtr_require_movable(t);
	mtr_xact_reserve(1 + MTR_PURSE_SOURCES);
	mtr_gate_refresh(t);
	try.expires = mtr_now_ms() + ttl_ms;
	while ((result = try_reserve(&try)) != RESERVED)
	{
		if (result == RESERVED_AGAIN)
			mtr_gate_again(t, &again, NULL);
		else if (result == RESERVED_GRANTS && mtr_reservations_expire(t))
			continue;
		else if (result != RESERVED_FULL || !mtr_reservations_expire_all())
			break;
	}
	mtr_gate_done(&again);
	if (result == RESERVED)
		mtr_xact_reserved(t, id, &try.parts);
	else
		raise_refusal(t, result, try.total);
	return result == RESERVED;
}

/* the mutex is held; NULL: it cannot be settled, since it has expired perhaps */
static MtrReservation *
find_live(MtrTenant *t, const MtrReserveId *id, TimestampTz now, int64 now_ms,
		  bool *wake)
{
	MtrReservation *e = mtr_reservation_find(t, id);

	if (e == NULL || e->state != MTR_RESERVATION_LIVE)
		return NULL;
	if (e->expires > now_ms)
		return e;
	mtr_reservation_end(t, e, now);
	*wake = mtr_tenant_note_burns(t, true);
	return NULL;
}

/* the mutex is held; *urgent: the flusher is to come at once */
static void
settle_locked(MtrTenant *t, MtrReservation *e, int64 qty, int64 expires,
			  TimestampTz now, bool *wake, bool *urgent)
{
	mtr_reservation_renew(t, e, expires);
	if (qty == 0)
		return;
	mtr_reservation_settle(t, e, qty, now);
	*wake = mtr_tenant_mark_dirty(t);
	*urgent = t->unflushed_uc > t->max_unflushed_uc ||
			  t->durability != MTR_DURABLE_BUFFERED;
}

bool
mtr_settle(MtrTenant *t, MtrReserveId id, int64 qty, int64 ttl_ms)
{
	TimestampTz     now = GetCurrentTimestamp();
	int64           now_ms = mtr_now_ms();
	MtrReservation *e;
	int64           left = 0;
	bool            wake = false;
	bool            urgent = false;

	mtr_refuse_recovery();
	check_quantity(qty, 0);
	check_ttl(ttl_ms);
	mtr_xact_reserve(0);
	SpinLockAcquire(&t->mutex);
	e = find_live(t, &id, now, now_ms, &wake);
	if (e != NULL)
		left = mtr_reserve_left(&e->r);
	if (e != NULL && qty <= left)
		settle_locked(t, e, qty, now_ms + ttl_ms, now, &wake, &urgent);
	SpinLockRelease(&t->mutex);
	if (wake)
		mtr_wake_launcher();
	if (urgent)
		mtr_wake_flusher(&MtrShared->db[t->db]);
	if (e != NULL && qty > left)
		ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
						errmsg("more was sent than is reserved"),
						errdetail("Sent were " INT64_FORMAT " units, and "
								  "reserved are " INT64_FORMAT ".",
								  qty, left)));
	return e != NULL;
}

void
mtr_release(MtrTenant *t, MtrReserveId id)
{
	TimestampTz     now = GetCurrentTimestamp();
	MtrReservation *e;
	bool            pending;
	bool            wake = false;

	mtr_refuse_recovery();
	mtr_xact_reserve(1);
	SpinLockAcquire(&t->mutex);
	e = mtr_reservation_find(t, &id);
	pending = e != NULL && e->state == MTR_RESERVATION_PENDING;
	if (e != NULL && !pending)
	{
		mtr_reservation_end(t, e, now);
		wake = mtr_tenant_note_burns(t, true);
	}
	SpinLockRelease(&t->mutex);
	if (wake)
		mtr_wake_launcher();
	if (pending)
		mtr_xact_unreserve(t, &id);
}

bool
mtr_reserve_id_valid(MtrTenant *t, MtrReserveId id)
{
	TimestampTz     now = GetCurrentTimestamp();
	int64           now_ms = mtr_now_ms();
	MtrReservation *e;
	bool            wake = false;

	mtr_refuse_recovery();
	SpinLockAcquire(&t->mutex);
	e = find_live(t, &id, now, now_ms, &wake);
	SpinLockRelease(&t->mutex);
	if (wake)
		mtr_wake_launcher();
	return e != NULL;
}
