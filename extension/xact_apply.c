/*
 * xact_apply.c
 *		What a record means for the slot when its transaction ends (see
 *		xact_record.h): made final, or undone.
 *
 * Nothing here may fail.
 */
#include "mortar.h"

#include "core/price.h"
#include "loose.h"
#include "slot.h"
#include "xact_record.h"

/* the tenant's mutex is held, as it is for all that follow */
static void
commit_usage(const MtrRecord *r, MtrTenant *t, const MtrEnd *end, bool *wake)
{
	MtrUsage *u = r->usage;

	if (u->done == u->flushed)
		t->unflushed++;
	mtr_ring_add(&u->ring, u->done, end->minute, u->flushed);
	u->done += r->amount;
	if (r->which >= 0)
		t->counter[r->which].done += r->amount;
	if (mtr_tenant_mark_dirty(t))
		*wake = true;
}

/* the flusher has moved it */
static void
commit_drain(const MtrRecord *r, MtrTenant *t)
{
	MtrCounter *c = &t->counter[r->which];

	c->queued -= r->amount;
	c->done += r->amount;
	c->flushed += r->amount;
}

/* an own grant that has no cell */
static void
commit_loose(const MtrLoose *l, MtrTenant *t, TimestampTz now)
{
	struct mtr_grant g = l->grant;

	g.remaining = g.amount - l->taken;
	mtr_purse_add_behind(&t->purse, now, &g);
	t->grants_version++;
	t->refilled_at = 0; /* it may burn first: whoever comes next reads it */
}

static MtrReserveId
id_of(const MtrRecord *r)
{
	MtrReserveId id = {.index = r->which, .serial = (uint64) r->amount};

	return id;
}

/* the newest record comes first: whether it was given up is known before */
static void
commit_reservation(const MtrRecord *r, MtrTenant *t, TimestampTz now)
{
	const MtrReserveId id = id_of(r);

	if (r->kind == MTR_RECORD_RESERVE)
		mtr_reservation_commit(t, &id, now);
	else
		mtr_reservation_give_up(t, &id);
}

void
mtr_record_commit(const MtrRecord *r, MtrTenant *t, const MtrEnd *end,
				  bool *wake)
{
	switch (r->kind)
	{
		case MTR_RECORD_QUEUE:
			t->queued += r->amount;
			if (r->amount > 0 && mtr_tenant_mark_dirty(t))
				*wake = true;
			break;
		case MTR_RECORD_DRAIN:
			commit_drain(r, t);
			break;
		case MTR_RECORD_REBOOK:
			mtr_purse_rebook(&t->purse, r->which, r->amount);
			break;
		case MTR_RECORD_DURABLE_BURN:
			/* its row says so; of this source only what is in flight counts */
			if (r->which == MTR_PURSE_ISSUED)
				mtr_purse_back(&t->purse, end->now, r->which, r->amount);
			break;
		case MTR_RECORD_USAGE:
			commit_usage(r, t, end, wake);
			break;
		case MTR_RECORD_BURN:
		case MTR_RECORD_BURN_OWN:
			mtr_purse_burn(&t->purse, r->which, r->amount);
			break;
		case MTR_RECORD_GRANT:
			if (MTR_IS_LOOSE(r->which))
				commit_loose(mtr_loose_at(r->which), t, end->now);
			else
				mtr_purse_arrive(&t->purse, end->now, r->which);
			break;
		case MTR_RECORD_RESERVE:
		case MTR_RECORD_UNRESERVE:
			commit_reservation(r, t, end->now);
			break;
		case MTR_RECORD_REFUND: /* to a cell: summed up in the pin */
			if (MTR_IS_LOOSE(r->which))
				mtr_loose_refund(t, end->now, r->which, r->amount);
			break;
		case MTR_RECORD_DEBIT: /* taken for good already */
		case MTR_RECORD_HOLD:  /* summed up in the pin, like those below */
		case MTR_RECORD_UNHOLD:
		case MTR_RECORD_RELEASING:
		case MTR_RECORD_LIFE:
		case MTR_RECORD_FROZEN:
		case MTR_RECORD_LIMIT:
		case MTR_RECORD_MODE:
		case MTR_RECORD_FLOOR:
		case MTR_RECORD_DURABILITY:
		case MTR_RECORD_DURABLE_USAGE: /* stand in its row */
		case MTR_RECORD_DURABLE_BURN_OWN:
			break;
	}
}

/* returns what the quantity is worth now */
static int64
undo_usage(const MtrRecord *r, MtrTenant *t)
{
	MtrCounter *c;
	int64       worth;

	r->usage->taken -= r->amount;
	if (r->which < 0)
		return 0;
	c = &t->counter[r->which];
	/* the same arithmetic that took it, so it cannot fail */
	if (!mtr_price_step(c->priced - r->amount, r->amount, c->num_uc,
						c->per_units, &worth))
		worth = 0;
	c->priced -= r->amount;
	if (r->kind == MTR_RECORD_DURABLE_USAGE)
		c->queued -= r->amount;
	return worth;
}

/* whatever was taken of it has been undone before */
static void
undo_grant(const MtrRecord *r, MtrTenant *t, MtrPinned *pin)
{
	uint32    bit;
	MtrLoose *l;

	if (MTR_IS_LOOSE(r->which))
	{
		l = mtr_loose_at(r->which);
		t->giving_uc -= l->grant.amount;
		pin->giving_uc -= l->grant.amount;
		pin->behind_uc -= l->in_force ? l->grant.amount : 0;
		pin->behind--;
		if (!mtr_is_giving(pin))
			t->giving--;
		l->tenant = NULL;
		return;
	}
	bit = 1u << r->which;
	if (pin->cells & bit)
		t->purse.cell[r->which].refs--;
	pin->cells &= ~bit;
	pin->own &= ~bit;
	pin->burned &= ~bit;
	mtr_purse_drop(&t->purse, r->which);
}

static void
undo_reservation(const MtrRecord *r, MtrTenant *t, TimestampTz now)
{
	const MtrReserveId id = id_of(r);

	mtr_reservation_undo(t, &id, now);
}

static void
undo_debit(const MtrRecord *r, MtrTenant *t, MtrPinned *pin, TimestampTz now)
{
	if (r->amount != 0 && MTR_IS_LOOSE(r->which))
		mtr_loose_back(t, pin, now, r->which, r->amount);
	else if (r->amount > 0)
		mtr_purse_back(&t->purse, now, r->which, r->amount);
}

void
mtr_record_undo(const MtrRecord *r, MtrTenant *t, MtrPinned *pin,
				TimestampTz now)
{
	switch (r->kind)
	{
		case MTR_RECORD_RESERVE:
			undo_reservation(r, t, now);
			break;
		case MTR_RECORD_BURN:
		case MTR_RECORD_DURABLE_BURN:
			pin->back -= r->amount;
			mtr_purse_back(&t->purse, now, r->which, r->amount);
			break;
		case MTR_RECORD_BURN_OWN: /* the purse has not paid it */
		case MTR_RECORD_DURABLE_BURN_OWN:
			pin->back -= r->amount;
			break;
		case MTR_RECORD_DEBIT:
			undo_debit(r, t, pin, now);
			break;
		case MTR_RECORD_GRANT:
			undo_grant(r, t, pin);
			break;
		case MTR_RECORD_HOLD:
			t->held -= r->amount;
			break;
		case MTR_RECORD_USAGE:
			pin->back += undo_usage(r, t);
			if (r->which >= 0)
				pin->charged[r->which] -= r->amount;
			break;
		case MTR_RECORD_DURABLE_USAGE:
			pin->back += undo_usage(r, t);
			break;
		case MTR_RECORD_LIFE: /* the slot has not seen it */
			pin->life -= (int) r->amount;
			break;
		case MTR_RECORD_LIMIT:
			pin->limit -= r->amount;
			break;
		case MTR_RECORD_MODE:
			pin->mode -= (int) r->amount;
			break;
		case MTR_RECORD_FLOOR:
			pin->floor -= r->amount;
			break;
		case MTR_RECORD_DURABILITY:
			pin->durability -= (int) r->amount;
			break;
		case MTR_RECORD_FROZEN:
			pin->frozen -= (int) r->amount;
			break;
		case MTR_RECORD_REFUND:
			if (MTR_IS_LOOSE(r->which))
				mtr_loose_unrefund(t, pin, r->amount);
			else if (r->which >= 0)
				pin->refund[r->which] -= r->amount;
			break;
		case MTR_RECORD_UNHOLD:
			pin->unhold -= r->amount;
			break;
		case MTR_RECORD_RELEASING:
			t->releasing_uc -= r->amount;
			pin->releasing_uc -= r->amount;
			break;
		case MTR_RECORD_QUEUE: /* the slot has not seen it */
		case MTR_RECORD_DRAIN:
		case MTR_RECORD_REBOOK:
		case MTR_RECORD_UNRESERVE:
			break;
	}
}
