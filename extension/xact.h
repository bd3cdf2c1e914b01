/*
 * xact.h
 *		What a transaction owes shared memory when it ends.
 *
 * The one place with transaction callbacks.  Modules record what they did;
 * commit makes it final, abort undoes it; a subtransaction's abort undoes its
 * own part.
 *
 * The COMMIT callback runs when the commit can no longer be refused: an error
 * there is a server crash.	 It only does arithmetic under a spinlock, atomics
 * and latches; all it touches was claimed and pinned before.
 */
#ifndef MORTAR_XACT_H
#define MORTAR_XACT_H

#include "gate.h"
#include "reservation.h"

/* in MtrPinned.claimed: a usage slot, perhaps one without a counter */
#define MTR_CLAIMED_USAGE (1u << 31)

/* a tenant slot that this transaction pins, and what it owes it */
struct MtrPinned
{
	MtrTenant  *tenant;
	uint32      hash;       /* of the tenant's id, to find it quickly */
	bool        is_new;     /* the tenant was created by this transaction */
	int         nest;       /* ... at this nesting level */
	uint32      claimed;    /* bit per counter held; MTR_CLAIMED_USAGE */
	uint32      cells;      /* bit per cell of the purse that holds one */
	uint32      own;        /* of these, the transaction's own grants */
	uint32      burned;     /* of these, those that records but debits name */
	int         behind;     /* own grants that have no cell */
	int64       behind_uc;  /* of these, what is left and in force */
	int         loose;      /* grants spent of that have none any more */
	int64       giving_uc;  /* of both, as counted in MtrTenant.giving_uc */
	int         life;       /* what is added to MtrTenant.life at commit */
	int64       limit;      /* ... to MtrTenant.max_unflushed_uc */
	int         mode;       /* ... to the purse's mode */
	int64       floor;      /* ... to the purse's floor */
	int         durability; /* ... to MtrTenant.durability */
	int64       back;       /* of undone parts, less what they are worth now */
	int64       refund[MTR_PURSE_SOURCES]; /* comes back at commit, per cell */
	bool        refunds;      /* some did, or were spent meanwhile */
	bool        refund_gone;  /* also to ended grants without a cell */
	int64       unhold;       /* taken from MtrTenant.held at commit */
	int64       releasing_uc; /* of that, as in MtrTenant.releasing_uc */
	TimestampTz hold_expires; /* of new holds the first to expire; DT_NOEND */
	int         frozen;       /* what is added to MtrTenant.frozen at commit */
	int64       charged[MTR_COUNTERS]; /* quantity, per counter */
	int         last;                  /* newest record, -1: none */
	bool        undone;  /* records of a subtransaction, not settled yet */
	bool        durable; /* counters have moved for durable usage, see sync.h */
};

/* is it counted in MtrTenant.giving? */
static inline bool
mtr_is_giving(const MtrPinned *pin)
{
	return pin->behind > 0 || pin->loose > 0;
}

/* registers the callbacks; called once, from _PG_init */
extern void mtr_xact_init(void);

/*
 * Makes room for one more pin, or n more records.	Call before changing shared memory,
 * so that running out of memory changes nothing.  The first moves all pins.
 */
extern void mtr_xact_reserve_pin(void);
extern void mtr_xact_reserve(int n);

/* the pin of the tenant with that name, NULL if this transaction has none */
extern MtrPinned *mtr_xact_find(const char *tenant);

/* the pin of a tenant that is pinned; valid until the next mtr_xact_reserve_pin */
extern MtrPinned *mtr_xact_pinned(MtrTenant *t);

/*
 * The caller has raised t->pins by one; the end of the transaction lowers it.
 * is_new: the slot is in state NEW, and becomes READY or nothing.
 */
extern void mtr_xact_pin(MtrTenant *t, const char *tenant, bool is_new);

/*
 * Gives up a pin that was only needed to read: if it is the newest one and
 * nothing was recorded or claimed with it.	 A pin keeps a tenant in memory and
 * from being loaded again, so readers do not hold it to the end.
 */
extern void mtr_xact_unpin_unused(MtrTenant *t);

/*
 * A part of a debit, which rows of this transaction book; a negative one is what comes
 * back to an own grant that has no cell.
 */
extern void mtr_xact_debit(MtrTenant *t, const struct mtr_part *part);

/* takes back what the same level has noted */
extern void mtr_xact_undebit(MtrTenant *t, const struct mtr_part *part);

/* a part of what usage costs, which the flusher books; durable: by a row of its own */
extern void
mtr_xact_burn(MtrTenant *t, const struct mtr_part *part, bool durable);

/*
 * The same, but what paid is what the transaction itself gets back at commit; the
 * caller notes that there is less of it.
 */
extern void
mtr_xact_burn_own(MtrTenant *t, const struct mtr_part *part, bool durable);

/*
 * A grant of this transaction, in an INCOMING cell or loose.  In the second case the
 * caller has raised giving_uc, and giving if mtr_is_giving() was false.
 */
extern void mtr_xact_grant(MtrTenant *t, int cell);

/*
 * Comes back to a cell at commit, or (cell -1) to a grant that has none; a negative
 * amount is what the transaction has spent of it.
 */
extern void mtr_xact_refund(MtrTenant *t, const struct mtr_part *part);

/* the caller has added to MtrTenant.held */
extern void mtr_xact_hold(MtrTenant *t, int64 amount, TimestampTz expires_at);

/* taken from MtrTenant.held at commit */
extern void mtr_xact_unhold(MtrTenant *t, int64 amount);

/* part of that, of a hold that has expired: added to MtrTenant.releasing_uc */
extern void mtr_xact_releasing(MtrTenant *t, int64 amount);

/* a quantity that was priced; durable: it stands in a row of mortar.usage_sync */
extern void mtr_xact_usage(const MtrUsageRef *ref, int64 qty, bool durable);

/*
 * A reservation of this transaction (reserve.h), which parts have paid; and that it is
 * to be released when it commits.  The caller has reserved a record for it and one for
 * each part; for the second, one.	That one does nothing if it is another
 * transaction's.
 */
extern void
mtr_xact_reserved(MtrTenant *t, const MtrReserveId *id, const MtrParts *parts);
extern void mtr_xact_unreserve(MtrTenant *t, const MtrReserveId *id);

/* rows of mortar.usage_sync that come (> 0) or go with the commit */
extern void mtr_xact_queue(MtrTenant *t, int64 rows);

/*
 * At commit, a quantity of a counter that this transaction holds goes from the queue to
 * the journal; and amount more than was burned is in the tables as burned by a source.
 */
extern void mtr_xact_drain(MtrTenant *t, int counter, int64 qty);
extern void mtr_xact_rebook(MtrTenant *t, const struct mtr_part *part);

/*
 * The transaction has suspended, resumed or closed the tenant.	 The caller
 * holds a lock to the end of the transaction that keeps others from doing so.
 */
extern void mtr_xact_life(MtrTenant *t, MtrLife life);

/* the same for freezing it, or not any more */
extern void mtr_xact_frozen(MtrTenant *t, bool frozen);

/*
 * The transaction has set the tenant's limits: for itself at once, for others when
 * it commits.  The caller has reserved four records, and holds a lock to the end
 * of the transaction that keeps others from doing so.
 */
extern void
mtr_xact_limit(MtrTenant *t, enum mtr_purse_mode mode, int64 overdraft_uc,
			   int64 max_unflushed_uc, MtrDurability durability);

/* run in the COMMIT callback (flusher); nothing may fail in it */
extern void mtr_xact_on_commit(void (*func)(void *arg), void *arg);

#endif /* MORTAR_XACT_H */
