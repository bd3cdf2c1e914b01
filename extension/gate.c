/*
 * gate.c
 *		The credit gate: admit, take, give back, give (see gate.h).
 *
 * Everything happens under the tenant's spinlock, in one acquisition per
 * step, and is recorded in xact.c before anything could abort: room for the record
 * is reserved first, so recording cannot fail.
 *
 * Which grant pays is decided by the purse (core/purse.h), at that instant.  A
 * transaction keeps a reference on every cell that its records name, so that
 * the cell's grant stays in it.
 */
#include "mortar.h"

#include "access/xact.h"
#include "utils/timestamp.h"

#include "loose.h"
#include "price.h"
#include "refill.h"
#include "xact.h"

/*
 * Limits that this transaction has set hold for itself at once: they are put on
 * while the mutex is held, and taken off again.
 */
static void
own_limits(MtrTenant *t, const MtrPinned *pin, int sign)
{
	t->purse.mode += sign * pin->mode;
	t->purse.floor += sign * pin->floor;
}

/* the mutex is held */
static int64
available_locked(MtrTenant *t, const MtrPinned *pin)
{
	return t->purse.available + mtr_purse_own(&t->purse, pin->own) +
		   pin->behind_uc + mtr_own_refunds(t, pin);
}

int64
mtr_available(MtrTenant *t)
{
	MtrPinned  *pin = mtr_xact_pinned(t);
	TimestampTz now = GetCurrentStatementStartTimestamp();
	int64       available;

	SpinLockAcquire(&t->mutex);
	mtr_purse_advance(&t->purse, now);
	available = available_locked(t, pin);
	SpinLockRelease(&t->mutex);
	return available;
}

/*
 * What the transaction gets back counts for itself: by so much the floor is lowered
 * while the mutex is held.  Returns how much.	Before own_limits.
 */
static int64
lower_floor(MtrTenant *t, const MtrPinned *pin)
{
	int64 own = mtr_own_refunds(t, pin);

	own = Min(own, MTR_PURSE_MAX + t->purse.floor + pin->floor);
	t->purse.floor -= own;
	return own;
}

/* what the transaction may take of the purse, with its own limits; the mutex is held */
static int64
spendable_locked(MtrTenant *t, const MtrPinned *pin)
{
	int64 floor = lower_floor(t, pin);
	int64 spendable;

	own_limits(t, pin, 1);
	spendable = mtr_purse_spendable(&t->purse, pin->own);
	own_limits(t, pin, -1);
	t->purse.floor += floor;
	return spendable;
}

bool
mtr_is_short_locked(MtrTenant *t, const MtrPinned *pin, TimestampTz now,
					int64 amount, MtrShortfall *s)
{
	bool is_short;

	mtr_purse_advance(&t->purse, Max(now, t->last_posted));
	is_short = amount > spendable_locked(t, pin);
	s->required_uc = amount;
	s->available_uc = available_locked(t, pin);
	return is_short;
}

bool
mtr_meters_cost(MtrTenant *t, int16 route, uint32 meters)
{
	const MtrPrice *prices = mtr_prices(t, route);

	for (int m = 0; m < MTR_METERS; m++)
		if ((meters & (1u << m)) && prices[m].num_uc > 0)
			return true;
	return false;
}

bool
mtr_gate_is_short(MtrTenant *t, int64 amount_uc, MtrShortfall *s)
{
	TimestampTz now = GetCurrentStatementStartTimestamp();
	MtrPinned  *pin = mtr_xact_pinned(t);
	bool        is_short;

	SpinLockAcquire(&t->mutex);
	is_short = mtr_is_short_locked(t, pin, now, amount_uc, s);
	SpinLockRelease(&t->mutex);
	return is_short;
}

bool
mtr_gate_admit(MtrTenant *t, int16 route, uint32 meters, MtrShortfall *s)
{
	return !mtr_meters_cost(t, route, meters) || !mtr_gate_is_short(t, 1, s);
}

void
mtr_ref_cell(MtrTenant *t, MtrPinned *pin, int cell)
{
	uint32 bit = 1u << cell;

	if (pin->cells & bit)
		return;
	pin->cells |= bit;
	t->purse.cell[cell].refs++;
}

static void
ref_parts(MtrTenant *t, MtrPinned *pin, const MtrParts *parts)
{
	for (int i = 0; i < parts->n; i++)
		if (parts->part[i].cell != MTR_PURSE_ISSUED)
			mtr_ref_cell(t, pin, parts->part[i].cell);
}

int64
mtr_drain_locked(MtrTenant *t, MtrPinned *pin, TimestampTz now, int64 amount,
				 MtrParts *parts)
{
	int64 taken;

	memset(parts->own, 0, sizeof(parts->own));
	own_limits(t, pin, 1);
	taken = mtr_purse_drain(&t->purse, Max(now, t->last_posted), amount,
							pin->own, parts->part, &parts->n);
	own_limits(t, pin, -1);
	ref_parts(t, pin, parts);
	return taken;
}

int64
mtr_behind_locked(MtrTenant *t, const MtrPinned *pin, int64 amount)
{
	int64 lack = 0;

	if (pin->behind_uc == 0 || t->purse.mode + pin->mode == MTR_PURSE_UNLIMITED)
		return 0;
	/* what is missing to the floor comes first, as it does for own cells */
	if (t->purse.mode + pin->mode == MTR_PURSE_HARD)
		lack = t->purse.floor + pin->floor - t->purse.available -
			   mtr_purse_own(&t->purse, pin->own) - mtr_own_refunds(t, pin);
	return Min(amount, pin->behind_uc - Min(Max(lack, 0), pin->behind_uc));
}

bool
mtr_is_behind_enough(MtrTenant *t, int64 amount)
{
	MtrPinned *pin = mtr_xact_pinned(t);
	bool       is_enough;

	if (pin->behind_uc == 0 || amount <= 0)
		return false;
	SpinLockAcquire(&t->mutex);
	amount -= mtr_behind_locked(t, pin, amount);
	is_enough = amount <= spendable_locked(t, pin);
	SpinLockRelease(&t->mutex);
	return is_enough;
}

/* a part that the purse has paid, beside those that came back to the transaction */
static void
add_part(MtrParts *parts, const struct mtr_part *part)
{
	for (int i = 0; i < parts->n; i++)
		if (parts->part[i].cell == part->cell)
		{
			parts->part[i].amount += part->amount;
			return;
		}
	parts->part[parts->n++] = *part;
}

/*
 * What the transaction gets back it spends before anything else, in the modes in
 * which credits move.
 */
static enum mtr_take
take_with_refunds(MtrTenant *t, const MtrPinned *pin, TimestampTz now,
				  int64 amount, MtrParts *parts)
{
	struct mtr_purse *p = &t->purse;
	MtrParts          rest = {.n = 0};
	enum mtr_take     result = MTR_TAKE_OK;
	int64             floor;
	int64             own = 0;

	mtr_purse_advance(p, now);
	parts->n = 0;
	floor = lower_floor(t, pin);
	own_limits(t, pin, 1);
	if (p->mode != MTR_PURSE_UNLIMITED &&
		amount <= mtr_purse_spendable(p, pin->own))
		own = mtr_take_own_refunds(t, pin, amount, parts);
	p->floor += Min(own, floor);
	if (amount > own)
		result =
			mtr_purse_take(p, now, amount - own, pin->own, rest.part, &rest.n);
	own_limits(t, pin, -1);
	p->floor += floor - Min(own, floor);
	if (result != MTR_TAKE_OK)
		parts->n = 0;
	for (int i = 0; i < rest.n; i++)
		add_part(parts, &rest.part[i]);
	return result;
}

MtrTaken
mtr_take_locked(MtrTenant *t, MtrPinned *pin, TimestampTz now, int64 amount,
				MtrParts *parts, MtrShortfall *s)
{
	enum mtr_take result;

	now = Max(now, t->last_posted);
	memset(parts->own, 0, sizeof(parts->own));
	if (pin->refunds)
		result = take_with_refunds(t, pin, now, amount, parts);
	else
	{
		own_limits(t, pin, 1);
		result = mtr_purse_take(&t->purse, now, amount, pin->own, parts->part,
								&parts->n);
		own_limits(t, pin, -1);
	}
	ref_parts(t, pin, parts);
	if (result == MTR_TAKE_OK)
		return MTR_TAKEN;
	s->required_uc = amount;
	s->available_uc = available_locked(t, pin);
	return result == MTR_TAKE_AGAIN ? MTR_TAKEN_AGAIN : MTR_TAKEN_SHORT;
}

const char *
mtr_part_account(const struct mtr_part *part)
{
	if (part->cell == MTR_PURSE_DEBT)
		return "debt";
	return part->cell == MTR_PURSE_ISSUED ? "issued" : "available";
}

pg_uuid_t
mtr_part_grant(MtrTenant *t, const struct mtr_part *part)
{
	pg_uuid_t id = {{0}};

	/* constant while this transaction holds its reference */
	if (MTR_IS_LOOSE(part->cell))
		memcpy(id.data, mtr_loose_at(part->cell)->grant.id, UUID_LEN);
	else if (part->cell < MTR_PURSE_CELLS)
		memcpy(id.data, t->purse.cell[part->cell].grant.id, UUID_LEN);
	return id;
}

void
mtr_raise_out_of_range(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("balance out of range"),
			 errdetail("A balance is at most " INT64_FORMAT " micro-credits.",
					   MTR_MAX_AMOUNT_UC)));
}

/*
 * The mutex is held.  A cell for the grant, another grant's if need be: a
 * transaction may spend its own at once.
 */
static int
add_locked(MtrTenant *t, TimestampTz now, const struct mtr_grant *grant)
{
	struct mtr_purse *p = &t->purse;
	int               cell = mtr_purse_add(p, now, grant, true);

	if (cell < 0 && mtr_purse_demote(p, now, NULL) >= 0)
		cell = mtr_purse_add(p, now, grant, true);
	return cell;
}

/* the mutex is held: nobody reads grants from tables before this one is counted */
static void
count_behind(MtrTenant *t, MtrPinned *pin, const MtrLoose *l)
{
	t->giving += mtr_is_giving(pin) ? 0 : 1;
	t->giving_uc += l->grant.amount;
	pin->behind++;
	pin->behind_uc += l->in_force ? l->grant.amount : 0;
	pin->giving_uc += l->grant.amount;
}

void
mtr_give(MtrTenant *t, const struct mtr_grant *grant)
{
	MtrPinned  *pin;
	TimestampTz now = GetCurrentTimestamp();
	MtrLoose    l = {.tenant = t, .own = true, .grant = *grant};
	int         cell = -1;
	bool        ok;

	Assert(grant->amount > 0 && grant->amount <= MTR_MAX_AMOUNT_UC);
	mtr_xact_reserve(1);
	mtr_loose_reserve(1);
	pin = mtr_xact_pinned(t);
	SpinLockAcquire(&t->mutex);
	now = Max(now, t->last_posted);
	l.in_force = grant->effective_at <= now;
	/* each of the two is at most a quarter of int64 */
	ok = mtr_purse_fits(&t->purse, grant->amount + t->giving_uc);
	if (ok && grant->expires_at > now)
	{
		cell = add_locked(t, now, grant);
		t->grants_version++;
		if (cell >= 0)
			mtr_ref_cell(t, pin, cell);
		else
			count_behind(t, pin, &l);
	}
	SpinLockRelease(&t->mutex);
	if (!ok)
		mtr_raise_out_of_range();
	if (grant->expires_at > now)
		mtr_xact_grant(t, cell >= 0 ? cell : mtr_loose_add(&l));
}

/* the mutex is held; one that has ended is found for a refund only */
static int
find_grant(MtrTenant *t, MtrPinned *pin, const pg_uuid_t *grant_id,
		   bool is_refund, bool *ended)
{
	int cell = mtr_purse_find(&t->purse, grant_id->data);

	*ended =
		cell >= 0 && !is_refund && t->purse.cell[cell].state == MTR_CELL_ENDED;
	if (cell >= 0 && !*ended)
		mtr_ref_cell(t, pin, cell);
	return *ended ? -1 : cell;
}

/*
 * loose: what to take when there is no cell for it (NULL: wait).  is_there (NULL: wait):
 * set to false when one would have to.
 */
static int
cell_of_grant(MtrTenant *t, const pg_uuid_t *grant_id, MtrLoose *loose,
			  bool *is_there)
{
	MtrPinned *pin = mtr_xact_pinned(t);
	MtrAgain   again = {0};
	int        own = mtr_loose_find_own(t, grant_id);

	if (own != -1)
		return mtr_loose_at(own)->grant.expires_at > GetCurrentTimestamp() ? own
																		   : -1;
	for (;;)
	{
		TimestampTz now = GetCurrentTimestamp();
		bool        ended;
		bool        exists = true;
		bool        is_loaded;
		int         cell;

		SpinLockAcquire(&t->mutex);
		mtr_purse_advance(&t->purse, Max(now, t->last_posted));
		cell = find_grant(t, pin, grant_id, loose != NULL, &ended);
		SpinLockRelease(&t->mutex);
		if (cell >= 0 || ended)
			return cell;
		is_loaded = mtr_refill(t, grant_id, &cell, &exists,
							   loose != NULL ? &loose->grant : NULL);
		if (is_loaded && !exists)
			return -1;
		if (cell >= 0)
			return cell;
		if (is_loaded && loose != NULL)
			return mtr_loose_add(loose);
		if (is_there != NULL)
		{
			*is_there = false;
			return -1;
		}
		mtr_gate_wait(t, &again);
	}
}

int
mtr_grant_cell(MtrTenant *t, const pg_uuid_t *grant_id)
{
	return cell_of_grant(t, grant_id, NULL, NULL);
}

/*
 * It has ended, and had no cell when that was looked up: one that it has got since, or
 * -1, and then it gets none before this transaction ends.
 */
static int
cell_of_ended(MtrTenant *t, const pg_uuid_t *grant_id)
{
	MtrPinned *pin = mtr_xact_pinned(t);
	int        cell;

	SpinLockAcquire(&t->mutex);
	cell = mtr_purse_find(&t->purse, grant_id->data);
	if (cell >= 0)
		mtr_ref_cell(t, pin, cell);
	else if (!pin->refund_gone)
	{
		t->gone++;
		pin->refund_gone = true;
	}
	SpinLockRelease(&t->mutex);
	return cell;
}

int
mtr_refund_cell(MtrTenant *t, const pg_uuid_t *grant_id)
{
	MtrLoose loose = {.tenant = t};
	int      cell;

	mtr_loose_reserve(1);
	cell = cell_of_grant(t, grant_id, &loose, NULL);
	return cell == -1 ? cell_of_ended(t, grant_id) : cell;
}

bool
mtr_refund_at_once(MtrTenant *t, const pg_uuid_t *grant_id)
{
	MtrLoose loose = {.tenant = t};
	bool     is_there = true;

	mtr_loose_reserve(1);
	(void) cell_of_grant(t, grant_id, &loose, &is_there);
	return is_there;
}

void
mtr_take_grant(MtrTenant *t, int cell, int64 most, struct mtr_part *part)
{
	MtrPinned  *pin = mtr_xact_pinned(t);
	TimestampTz now = GetCurrentTimestamp();

	Assert(MTR_IS_LOOSE(cell) || (pin->cells & (1u << cell)));
	mtr_xact_reserve(1);
	part->cell = cell;
	if (MTR_IS_LOOSE(cell))
		part->amount = mtr_loose_take(pin, cell, most);
	else
	{
		SpinLockAcquire(&t->mutex);
		part->amount = mtr_purse_take_cell(&t->purse, Max(now, t->last_posted),
										   cell, most);
		SpinLockRelease(&t->mutex);
	}
	if (part->amount > 0)
		mtr_xact_debit(t, part);
}

void
mtr_raise_short(const MtrShortfall *s)
{
	ereport(
		ERROR,
		(errcode(MTR_ERR_CREDIT), errmsg("Not enough credits."),
		 errdetail(
			 "{\"code\":\"insufficient_credit\",\"required_uc\":" INT64_FORMAT
			 ",\"available_uc\":" INT64_FORMAT "}",
			 s->required_uc, s->available_uc)));
}
