/*
 * flush_rebase.c
 *		A journal that reaches further than memory believes.
 *
 * It was written to by somebody else: a restore, or a superuser.  It was not this
 * flusher, whose COMMIT callback runs in any transaction that has committed.  So what
 * memory holds is not in the journal, and goes behind what the journal has.
 *
 * Balances were computed without those rows: all slots are loaded again.
 *
 * Locking: the tenant's mutex, for one usage slot at a time.
 */
#include "mortar.h"

#include "utils/timestamp.h"

#include "counter.h"
#include "flush_batch.h"
#include "http.h"
#include "slot.h"

/*
 * Moves all of a slot's numbers up; the mutex is held.  What its calls have paid
 * may then be one micro-credit more or less than what will be booked.
 */
static void
shift(MtrTenant *t, MtrUsage *u, int counter, int64 by, TimestampTz now)
{
	u->flushed += by;
	u->done += by;
	u->taken += by;
	for (int i = 0; i < u->ring.n; i++)
		u->ring.start[i] += by;
	if (counter >= 0)
	{
		MtrCounter *c = &t->counter[counter];
		int64       more = -mtr_counter_cost(c, c->priced);

		c->flushed += by;
		c->done += by;
		c->priced += by;
		more += mtr_counter_cost(c, c->priced);
		mtr_purse_settle(&t->purse, now, -more);
		mtr_unflushed_settle(t);
	}
}

void
mtr_batch_rebase(MtrFlushBatch *b)
{
	TimestampTz now = GetCurrentTimestamp();
	bool        moved = false;

	for (int i = 0; i < b->nslots; i++)
	{
		const MtrFlushSlot *s = &b->slot[i];
		const MtrUsageKey  *key = &s->usage->key;
		MtrJournalRow       row = {0};
		int64               mark;

		row.tenant = s->tenant->tenant_id;
		row.meter = mtr_meter_name((MtrMeter) key->meter);
		row.key_id = key->key_id;
		row.route = mtr_route_template(key->route);
		row.price_id = key->price_id;
		mark = mtr_journal_mark(&row);
		if (mark <= s->from)
			continue;
		SpinLockAcquire(&s->tenant->mutex);
		if (s->usage->key.tenant == s->tenant->index &&
			s->usage->flushed == s->from)
			shift(s->tenant, s->usage, s->counter, mark - s->from, now);
		SpinLockRelease(&s->tenant->mutex);
		moved = true;
	}
	if (moved)
		pg_atomic_fetch_add_u64(&b->db->generation, 1);
}
