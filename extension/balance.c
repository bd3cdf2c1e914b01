/*
 * balance.c
 *		What a tenant has: mortar.balance().
 *
 * From the tenant's slot, read under one lock; on a standby from tables, as of now.
 */
#include "mortar.h"

#include "access/xlog.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "balance.h"
#include "expire.h"
#include "life.h"
#include "loose.h"
#include "reservation.h"
#include "slot.h"
#include "stored.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(mtr_balance);

/* when the first grant ends of which something is left */
static TimestampTz
first_end(const struct mtr_grant *grants, int n)
{
	TimestampTz first = DT_NOEND;

	for (int i = 0; i < n; i++)
		if (grants[i].remaining > 0)
			first = Min(first, grants[i].expires_at);
	return first;
}

/* the same of all that this transaction may know of */
static TimestampTz
next_expiry(const char *tenant, const struct mtr_purse *p, uint32 own)
{
	struct mtr_grant grants[MTR_PURSE_CELLS];
	pg_uuid_t        ids[MTR_PURSE_CELLS];
	int              n = 0;
	TimestampTz      first;
	MtrStored        s;

	for (int i = 0; i < p->n; i++)
	{
		int cell = p->order[i];

		memcpy(ids[i].data, p->cell[cell].grant.id, UUID_LEN);
		if (p->cell[cell].state != MTR_CELL_INCOMING || (own & (1u << cell)))
			grants[n++] = p->cell[cell].grant;
	}
	first = first_end(grants, n);
	if (p->more > 0 && mtr_grants_stored(tenant, ids, p->n, NULL, p->now, &s))
	{
		mtr_loose_subtract(&s, NULL);
		first = Min(first, first_end(s.grants, s.ngrants));
	}
	return first;
}

void
mtr_balance_of(MtrTenant *t, MtrBalance *b)
{
	MtrPinned       *pin = mtr_xact_pinned(t);
	TimestampTz      now = GetCurrentTimestamp();
	struct mtr_purse purse;
	MtrExpired       expired;
	int64            own;

	(void) mtr_reservations_expire(t);
	SpinLockAcquire(&t->mutex);
	mtr_purse_advance(&t->purse, Max(now, t->last_posted));
	purse = t->purse;
	b->held = t->held - pin->unhold;
	b->unflushed = mtr_unflushed_cost(t);
	own = mtr_own_refunds(t, pin);
	SpinLockRelease(&t->mutex);
	b->available = purse.available + mtr_purse_own(&purse, pin->own) +
				   pin->behind_uc + own;
	mtr_expired_of(t, &expired);
	b->available += expired.freed;
	b->held -= expired.held;
	b->next_expiry = next_expiry(t->tenant_id, &purse, pin->own);
	b->life = mtr_life(t);
	b->frozen = mtr_is_frozen(t);
}

static void
balance_of_slot(const char *tenant, MtrBalance *b)
{
	MtrTenant *t = mtr_tenant_pin(tenant);

	mtr_balance_of(t, b);
	mtr_xact_unpin_unused(t);
}

static void
balance_of_tables(const char *tenant, MtrBalance *b)
{
	MtrStored  s;
	MtrExpired expired;

	if (!mtr_tenant_stored(tenant, &s))
		mtr_raise_no_tenant(tenant);
	mtr_expired_stored(tenant, s.last_posted, &expired);
	b->available = mtr_stored_available(&s) + expired.freed;
	b->held = s.held - expired.held;
	b->unflushed = 0;
	b->next_expiry = first_end(s.grants, s.ngrants);
	b->life = s.life;
	b->frozen = s.frozen;
}

/*
 * mortar.balance(tenant text) returns (available_uc, held_uc, unflushed_uc,
 *		debt_uc, next_expiry, state)
 *
 * From the slot; on a standby from tables.
 */
Datum
mtr_balance(PG_FUNCTION_ARGS)
{
	char       tenant[MTR_TENANT_LEN];
	TupleDesc  desc;
	MtrBalance b;
	Datum      values[6];
	bool       nulls[6] = {false};

	mtr_require_preload();
	mtr_tenant_arg(fcinfo, 0, tenant);
	mtr_check_tenant_right(tenant, true);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	if (RecoveryInProgress())
		balance_of_tables(tenant, &b);
	else
		balance_of_slot(tenant, &b);

	values[0] = Int64GetDatum(b.available);
	values[1] = Int64GetDatum(b.held);
	values[2] = Int64GetDatum(b.unflushed);
	values[3] = Int64GetDatum(Max(-b.available, 0));
	values[4] = TimestampTzGetDatum(b.next_expiry);
	nulls[4] = TIMESTAMP_IS_NOEND(b.next_expiry);
	values[5] = CStringGetTextDatum(mtr_state_name(b.life, b.frozen));
	PG_RETURN_DATUM(HeapTupleGetDatum(
		heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
