/*
 * expire.c
 *		Holds that have expired: which, and what they held (see expire.h).
 *
 * The slot knows a time before which no open hold expires (next_hold_expiry), so
 * tables are not asked as long as it lies ahead.  When it is past and no hold has
 * expired it is put right, by what is committed: a release that this transaction
 * has posted may still be rolled back.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "expire.h"
#include "spi.h"
#include "xact.h"

static MtrStmt stmt_sum = {
	.sql = "SELECT coalesce(sum(l.amount_uc), 0)::pg_catalog.int8,"
		   "  coalesce(sum(l.amount_uc) FILTER (WHERE"
		   "    l.from_account <> 'issued' AND (l.grant_id IS NULL"
		   "    OR coalesce(g.expires_at, 'infinity') > $3)), 0)"
		   "    ::pg_catalog.int8 "
		   "FROM (SELECT h.hold_id FROM mortar.credit_holds h"
		   "    WHERE h.tenant_id = $1 AND h.expires_at >= $2"
		   "      AND h.expires_at <= $3 AND " MTR_HOLD_IS_OPEN " OFFSET 0) o"
		   "  CROSS JOIN LATERAL (SELECT from_account, grant_id, amount_uc"
		   "      FROM mortar.credit_ledger"
		   "      WHERE tenant_id = $1 AND entry_id = o.hold_id"
		   "    UNION ALL SELECT from_account, grant_id, amount_uc"
		   "      FROM mortar.credit_ledger"
		   "      WHERE tenant_id = $1 AND movement_id = o.hold_id"
		   "        AND entry_id <> movement_id) l"
		   "  LEFT JOIN mortar.credit_grants g"
		   "    ON g.tenant_id = $1 AND g.grant_id = l.grant_id",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 3,
	.argtypes = {TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID},
};

static MtrStmt stmt_next = {
	.sql = "SELECT h.expires_at, h.hold_id FROM mortar.credit_holds h "
		   "WHERE h.tenant_id = $1 AND h.expires_at >= $2 AND " MTR_HOLD_IS_OPEN
		   " ORDER BY h.expires_at, h.hold_id",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.first_rows = true,
	.nargs = 2,
	.argtypes = {TEXTOID, TIMESTAMPTZOID},
};

TimestampTz
mtr_hold_clock(MtrTenant *t)
{
	TimestampTz now = GetCurrentTimestamp();

	SpinLockAcquire(&t->mutex);
	now = Max(now, t->last_posted);
	SpinLockRelease(&t->mutex);
	return now;
}

bool
mtr_expired_look(MtrTenant *t, TimestampTz until, MtrExpiredWindow *w)
{
	MtrPinned *pin = mtr_xact_pinned(t);

	w->now = Min(mtr_hold_clock(t), until);
	SpinLockAcquire(&t->mutex);
	w->first = Min(t->next_hold_expiry, pin->hold_expires);
	w->version = t->holds_version;
	SpinLockRelease(&t->mutex);
	return w->first <= w->now;
}

/*
 * On a standby this transaction has done nothing, and a snapshot of its own is
 * refused.	 SPI is connected.
 */
static void
sum_up(const char *tenant, const MtrExpiredWindow *w, MtrSnap snap,
	   MtrExpired *e)
{
	Datum args[3];
	bool  isnull;

	args[0] = CStringGetTextDatum(tenant);
	args[1] = TimestampTzGetDatum(w->first);
	args[2] = TimestampTzGetDatum(w->now);
	mtr_exec(&stmt_sum, args, NULL, snap, 1);
	e->held = DatumGetInt64(mtr_first(1, &isnull));
	e->freed = DatumGetInt64(mtr_first(2, &isnull));
}

TimestampTz
mtr_expired_put_right(MtrTenant *t, const MtrExpiredWindow *w,
					  pg_uuid_t *hold_id)
{
	TimestampTz next = DT_NOEND;
	Datum       args[2];
	bool        isnull;

	args[0] = CStringGetTextDatum(t->tenant_id);
	args[1] = TimestampTzGetDatum(w->first);
	mtr_exec(&stmt_next, args, NULL, MTR_SNAP_OTHERS, 1);
	if (SPI_processed > 0)
	{
		next = DatumGetTimestampTz(mtr_first(1, &isnull));
		*hold_id = *DatumGetUUIDP(mtr_first(2, &isnull));
	}
	SpinLockAcquire(&t->mutex);
	/* one that has come since may not have been read */
	if (t->holds_version == w->version)
		t->next_hold_expiry = next;
	SpinLockRelease(&t->mutex);
	return next;
}

void
mtr_expired_sum(MtrTenant *t, const MtrExpiredWindow *w, MtrExpired *e)
{
	pg_uuid_t first;

	sum_up(t->tenant_id, w, MTR_SNAP_LATEST, e);
	if (e->held == 0)
		(void) mtr_expired_put_right(t, w, &first);
}

void
mtr_expired_of(MtrTenant *t, MtrExpired *e)
{
	MtrExpiredWindow w;

	memset(e, 0, sizeof(*e));
	if (!mtr_expired_look(t, DT_NOEND, &w))
		return;
	SPI_connect();
	mtr_expired_sum(t, &w, e);
	SPI_finish();
}

void
mtr_expired_stored(const char *tenant, TimestampTz last_posted, MtrExpired *e)
{
	MtrExpiredWindow w = {.first = DT_NOBEGIN,
						  .now = Max(GetCurrentTimestamp(), last_posted)};

	SPI_connect();
	sum_up(tenant, &w, MTR_SNAP_OTHERS, e);
	SPI_finish();
}
