/*
 * sync.h
 *		Usage that no crash may take: durability sync and group.
 *
 *		sync.c			what a call writes, and what a load reads of it
 *		flush_sync.c	the flusher's part
 *
 * A call with either durability is charged in memory like any other: the price's
 * counter and the purse move at once.	Its quantities are not counted in usage slots,
 * though, but stand in rows of mortar.usage_sync that its own transaction writes, one
 * per meter, with what it has paid and who has paid.  The queue has no row that two
 * calls share, so that nobody waits for anybody.  The flusher moves its rows to the
 * journal, in one transaction each time.
 *
 * Group is sync with a pause before the write to disk, so that calls that commit at the
 * same time share one.
 *
 * What is where, so that every reader sees each unit once, whenever he looks:
 *
 *	 - usage() reads journal and queue with one snapshot, and adds what usage slots
 *	   hold beyond the marks of buffered usage.  Durable usage never is in a usage
 *	   slot, and in the journal it counts up by itself (column durable), so moving it
 *	   changes neither those marks nor anything in memory that usage() reads.
 *	 - Whoever reads tables to fill memory (a slot, its purse, a counter) takes journal
 *	   and queue together: priced = marks + queue, and of a grant remains what the marks
 *	   of burns and the queue leave.  The sum is the same before and after a move.
 *
 * What moves in memory with a move, and why nobody sees half of it:
 *
 *	 - MtrCounter.flushed, done and queued, MtrTenant.queued: in the COMMIT callback of
 *	   the flusher, who pins the slot and holds the counters from before he reads the
 *	   queue.  So no slot is loaded, evicted or replaced, and no counter recycled
 *	   or brought back, in between.	 Between the commit and the callback only the flusher
 *	   would look at these numbers.
 *	 - Nothing else.  Cells of the purse have been debited by the calls and count their
 *	   parts neither as done nor as flushed burns; their grants may lose them while the
 *	   rows are still in the queue.
 *
 * Rounding: a row has paid f(p + q) - f(p) at the time of the call, the journal books it by
 * the walk of all usage, f(x + q) - f(x).  The difference goes to a source like that of
 * any flush (core/purse.h), and evens out when all usage is in the journal.  A crash
 * forgets which usage came in between; the load then settles f(marks + queue) -
 * f(marks) less what the rows have paid, so that balance and price agree again.
 *
 * Other ends: rows of a transaction that aborts vanish, and memory takes back as it
 * does for any call.  A row may be visible a moment before its transaction's callback
 * has run: it may be moved meanwhile, as that transaction pins the slot as well, and
 * MtrTenant.queued, which is below zero then, only matters when nobody pins.  Rows that
 * a crash, a stop or a restored dump has left are found by the first flusher, who loads
 * their tenants.  A standby reads tables alone.
 */
#ifndef MORTAR_SYNC_H
#define MORTAR_SYNC_H

#include "gate.h"

/* the tenant's, as this transaction sees it */
extern MtrDurability mtr_durability(MtrTenant *t);

extern const char *mtr_durability_name(MtrDurability durability);

/* a function's argument; raises 22023 for null and what is none */
extern MtrDurability mtr_durability_arg(FunctionCallInfo fcinfo, int argno);

/*
 * Writes what mtr_usage_charge has charged into mortar.usage_sync, and sees to it that
 * the transaction commits to disk: cost[i] for qty[i] of refs[i], which parts have paid
 * together.  Raises 25006 in a read-only transaction, and what writing a row may
 * raise.
 */
extern void
mtr_sync_write(const MtrUsageRef *refs, const int64 *qty, const int64 *cost,
			   int n, const MtrParts *parts, MtrDurability durability);

/* the queue's rows of one tenant */
typedef struct MtrUndrained
{
	int64 rows;
	int64 unpaid_uc; /* what prices say, less what the rows have paid */
} MtrUndrained;

/*
 * Reads that, for a tenant whose slot is absent, or whose rows nobody can move for
 * another reason.  Needs no SPI connection.
 */
extern void mtr_undrained_read(const char *tenant, MtrUndrained *q);

#endif /* MORTAR_SYNC_H */
