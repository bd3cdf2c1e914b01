/*
 * release.c
 *		Holds that have expired are released (see release.h).
 *
 * A release gives back at commit.  Until then others see the hold as one that another
 * transaction is at, as they do one that is being captured while it expires.  They are
 * not refused for lack of what was free a moment ago, but wait a little for that
 * transaction's end.  MtrTenant.releasing_uc bridges the moment in which tables show
 * the release, and the purse does not have it yet.
 *
 * Whoever asks which ones have expired reads all holds from the first open one on.  Lest
 * these become ever more, who makes a new hold releases the first one, if that needs no
 * waiting.
 *
 * Any number of holds may have to be released at once: each of them is locked by its
 * row, and needs no memory afterwards.
 */
#include "mortar.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "expire.h"
#include "life.h"
#include "movement.h"
#include "release.h"
#include "reservation.h"
#include "slot_load.h"
#include "spi.h"
#include "xact.h"

/* holds that are looked for at one time */
#define BATCH 32

/* how often one looks whether another transaction is done with a hold */
#define AT_IT_POLL_MS 5

/* longer than a commit that tables show takes to reach the slot */
#define CALLBACK_MS 50

/* after the one with $2 and $4 */
static MtrStmt stmt_some = {
	.sql = "SELECT h.hold_id, h.expires_at FROM mortar.credit_holds h "
		   "WHERE h.tenant_id = $1 AND (h.expires_at, h.hold_id) > ($2, $4)"
		   "  AND h.expires_at <= $3 AND " MTR_HOLD_IS_OPEN
		   " ORDER BY h.expires_at, h.hold_id",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.first_rows = true,
	.nargs = 4,
	.argtypes = {TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, UUIDOID},
};

static MtrStmt stmt_follower = {
	.sql = "SELECT entry_id FROM mortar.credit_ledger "
		   "WHERE tenant_id = $1 AND reverses = $2",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 2,
	.argtypes = {TEXTOID, UUIDOID},
};

static MtrStmt stmt_try_lock = {
	.sql = "SELECT FROM mortar.credit_holds WHERE tenant_id = $1 "
		   "AND hold_id = $2 FOR UPDATE SKIP LOCKED",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 2,
	.argtypes = {TEXTOID, UUIDOID},
};

/* locks the hold; false: another transaction is at it, or was a moment ago */
static bool
lock_open(const char *tenant, const pg_uuid_t *hold_id)
{
	return mtr_find(&stmt_try_lock, tenant, hold_id) &&
		   !mtr_find(&stmt_follower, tenant, hold_id);
}

/* the hold is locked and open; SPI is connected */
static void
post_release(MtrTenant *t, const pg_uuid_t *hold_id)
{
	const char *tenant = t->tenant_id;
	MtrRows     rows = {.like = {.tenant = tenant, .reverses = hold_id}};
	MtrSources  sources;
	pg_uuid_t   movement_id;

	rows.like.meta =
		DirectFunctionCall1(jsonb_in, CStringGetDatum("{\"expired\":true}"));
	mtr_sources_read(tenant, hold_id, "held", &sources);
	mtr_give_back(t, &sources, 0, sources.total, "release", "held", &rows);
	mtr_hold_release(t, sources.total);
	mtr_new_id(&movement_id);
	mtr_rows_post(t, &rows, &movement_id);
}

/* SPI is connected */
static bool
is_easy(MtrTenant *t, const pg_uuid_t *hold_id)
{
	MtrSources sources;

	mtr_sources_read(t->tenant_id, hold_id, "held", &sources);
	for (int i = 0; i < sources.n; i++)
		if (sources.source[i].of_grant &&
			!mtr_refund_at_once(t, &sources.source[i].grant_id))
			return false;
	return true;
}

/* false: as lock_open; or one would have to wait and must not */
static bool
release_one(MtrTenant *t, const pg_uuid_t *hold_id, bool may_wait)
{
	bool is_open;

	/* of its own, so that its memory is free afterwards */
	SPI_connect();
	is_open =
		lock_open(t->tenant_id, hold_id) && (may_wait || is_easy(t, hold_id));
	if (is_open)
		post_release(t, hold_id);
	SPI_finish();
	return is_open;
}

/* the next holds of the window, after the one with the last id; moves both on */
static int
next_holds(MtrTenant *t, MtrExpiredWindow *w, pg_uuid_t *last, pg_uuid_t *ids)
{
	Datum args[4];
	bool  isnull;
	int   n;

	args[0] = CStringGetTextDatum(t->tenant_id);
	args[1] = TimestampTzGetDatum(w->first);
	args[2] = TimestampTzGetDatum(w->now);
	args[3] = UUIDPGetDatum(last);
	mtr_exec(&stmt_some, args, NULL, MTR_SNAP_LATEST, BATCH);
	n = (int) SPI_processed;
	for (int i = 0; i < n; i++)
	{
		HeapTuple tuple = SPI_tuptable->vals[i];
		TupleDesc desc = SPI_tuptable->tupdesc;

		ids[i] = *DatumGetUUIDP(SPI_getbinval(tuple, desc, 1, &isnull));
		w->first = DatumGetTimestampTz(SPI_getbinval(tuple, desc, 2, &isnull));
	}
	if (n > 0)
		*last = ids[n - 1];
	return n;
}

/*
 * Until upto_uc is available, or all are released that can be.	 True when one was
 * released at least.
 */
static bool
release_holds(MtrTenant *t, MtrExpiredWindow *w, int64 upto_uc)
{
	pg_uuid_t last = {{0}};
	pg_uuid_t ids[BATCH];
	bool      released = false;
	int       n;

	while ((n = next_holds(t, w, &last, ids)) > 0)
		for (int i = 0; i < n; i++)
		{
			if (!release_one(t, &ids[i], true))
				continue;
			released = true;
			if (mtr_available(t) >= upto_uc)
				return true;
		}
	return released;
}

/* the tenant's limits as this transaction sees them */
static enum mtr_purse_mode
limits_of(MtrTenant *t, int64 *floor)
{
	MtrPinned *pin = mtr_xact_pinned(t);
	int        mode;

	SpinLockAcquire(&t->mutex);
	mode = t->purse.mode + pin->mode;
	*floor = t->purse.floor + pin->floor;
	SpinLockRelease(&t->mutex);
	return (enum mtr_purse_mode) mode;
}

/*
 * For who is about to take amount_uc: releases as many holds that have expired as it
 * takes lest that make debt, but none that expires after until.
 */
static void
release_for(MtrTenant *t, int64 amount_uc, TimestampTz until)
{
	int64               floor;
	enum mtr_purse_mode mode = limits_of(t, &floor);
	int64               available = mtr_available(t);
	MtrExpiredWindow    w;
	MtrExpired          e;

	if (amount_uc == 0)
		return;
	if (available < amount_uc && mtr_reservations_expire(t))
		available = mtr_available(t);
	if (XactReadOnly || mtr_is_frozen(t) || mode == MTR_PURSE_UNLIMITED ||
		available >= amount_uc || !mtr_expired_look(t, until, &w))
		return;
	SPI_connect();
	mtr_expired_sum(t, &w, &e);
	/* not for who will be refused all the same */
	if (e.freed > 0 &&
		(mode == MTR_PURSE_SOFT || amount_uc + floor <= available + e.freed))
		(void) release_holds(t, &w, amount_uc);
	SPI_finish();
}

/* true when one was released at least; *e is what had expired before that */
static bool
release_some(MtrTenant *t, TimestampTz until, int64 least, MtrExpired *e)
{
	MtrExpiredWindow w;
	bool             released = false;

	memset(e, 0, sizeof(*e));
	if (!mtr_expired_look(t, until, &w))
		return false;
	SPI_connect();
	mtr_expired_sum(t, &w, e);
	if (e->freed > 0 && mtr_available(t) + e->freed >= least)
		released = release_holds(t, &w, least);
	SPI_finish();
	return released;
}

void
mtr_tidy_holds(MtrTenant *t)
{
	MtrExpiredWindow w;
	pg_uuid_t        first;

	if (!mtr_expired_look(t, DT_NOEND, &w))
		return;
	SPI_connect();
	if (mtr_expired_put_right(t, &w, &first) <= w.now)
		(void) release_one(t, &first, false);
	SPI_finish();
}

/* what other transactions in progress are releasing */
static int64
coming(MtrTenant *t)
{
	const MtrPinned *pin = mtr_xact_pinned(t);
	int64            uc;

	SpinLockAcquire(&t->mutex);
	uc = t->releasing_uc - pin->releasing_uc;
	SpinLockRelease(&t->mutex);
	return uc;
}

static void
raise_at_it(const MtrTenant *t)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("credits of tenant \"%s\" are about to come back",
					t->tenant_id),
			 errdetail("They were held, the hold has expired, and another "
					   "transaction that releases or captures it has not "
					   "ended."),
			 errhint("Try again.")));
}

/*
 * Tables are read first, then what is coming, then the purse: a release that the tables
 * show already is still coming, or has come.
 */
static bool
release_until(MtrTenant *t, TimestampTz until, MtrShortfall *s)
{
	int64 began = mtr_now_ms();
	int64 floor;
	int64 least;

	if (mtr_reservations_expire(t)) /* also when read-only or frozen */
		return true;
	(void) limits_of(t, &floor);
	least = s->required_uc + floor;
	/* refused for another reason, or more cannot be done */
	if (XactReadOnly || mtr_is_frozen(t) || s->available_uc >= least)
		return false;
	for (;;)
	{
		MtrExpired e;
		int64      late;
		int64      available;

		if (release_some(t, until, least, &e))
			return true;
		late = coming(t);
		available = mtr_available(t);
		if (available >= least)
			return true;
		if (available + e.freed >= least &&
			mtr_now_ms() >= began + MTR_SLOT_WAIT_MS)
			raise_at_it(t);
		s->available_uc = available + e.freed;
		if (s->available_uc < least && (s->available_uc + late < least ||
										mtr_now_ms() >= began + CALLBACK_MS))
			return false;
		mtr_slot_nap(AT_IT_POLL_MS);
	}
}

bool
mtr_release_expired(MtrTenant *t, MtrShortfall *s)
{
	return release_until(t, DT_NOEND, s);
}

/* most tenants hold nothing; an older value may be read, as a moment ago */
static bool
has_holds(const MtrTenant *t)
{
	return t->next_hold_expiry != DT_NOEND;
}

bool
mtr_take_all(MtrTenant *t, int64 amount_uc, TimestampTz until, MtrPaid *paid,
			 MtrShortfall *s)
{
	if (has_holds(t))
		release_for(t, amount_uc, until);
	while (!mtr_take(t, amount_uc, paid, s))
		if (!release_until(t, until, s))
			return false;
	return true;
}

void
mtr_usage_charge_all(MtrUsageRef *refs, const int64 *qty, int n,
					 MtrDurability durability)
{
	MtrTenant   *t = refs[0].tenant;
	MtrShortfall s;

	if (has_holds(t))
		release_for(t, mtr_usage_cost(refs, qty, n), DT_NOEND);
	while (!mtr_usage_charge(refs, qty, n, durability, &s))
		if (!mtr_release_expired(t, &s))
			mtr_raise_short(&s);
}
