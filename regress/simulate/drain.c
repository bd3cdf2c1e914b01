/*
 * drain.c - durable usage: rows that calls have written, on their way into the
 * journal
 *
 * As in the server: a flush takes some rows out of the queue in the transaction in
 * which it books what memory has, and prices them behind that.  Grants that have
 * cells are held until its end; others, which are as tables say, are booked as the
 * rows say.
 */
#include "model.h"

#include "core/price.h"

#include <string.h>

__int128
queued_of(int of)
{
	__int128 sum = 0;

	for (int i = 0; i < w.t.nqueue; i++)
		sum += w.t.queue[i].part[of];
	return sum;
}

int64_t
queued_usage(int slot)
{
	int64_t sum = 0;

	for (int i = 0; i < w.t.nqueue; i++)
		sum += w.t.queue[i].qty[slot];
	return sum;
}

/* of a counter, in flight */
static int64_t
unqueued(int c)
{
	int64_t sum = 0;

	for (int i = 0; i < TXS; i++)
		for (int k = 0; w.tx[i].state == TX_OPEN || w.tx[i].state == TX_ABORTING
							? k < w.tx[i].n
							: false;
			 k++)
			if (w.tx[i].record[k].kind == SYNC &&
				w.slot[w.tx[i].record[k].of].counter == c)
				sum += w.tx[i].record[k].amount;
	return sum;
}

/* its transaction commits: from here on no crash may take it */
void
queue_write(const struct tx *tx)
{
	struct queue_row *q = &w.t.queue[w.t.nqueue];
	bool              any = false;

	memset(q, 0, sizeof(*q));
	for (int i = 0; i < tx->n; i++)
	{
		const struct record *r = &tx->record[i];

		if (r->kind == SYNC)
		{
			q->qty[r->of] += r->amount;
			w.promised[r->of] += r->amount;
			any = true;
		}
		if (r->kind == SYNC_BURN)
			q->part[r->of] += r->amount;
	}
	w.t.nqueue += any;
}

bool
queue_has_room(void)
{
	return w.t.nqueue + TXS < QUEUE;
}

bool
queue_names(int g)
{
	return queued_of(g) != 0;
}

/* what the rows should have paid, less what they have */
int64_t
queue_unpaid(void)
{
	__int128 unpaid = 0;

	for (int c = 0; c < COUNTERS; c++)
		unpaid += cost_of(&w.counter[c], w.counter[c].priced) -
				  cost_of(&w.counter[c], w.counter[c].flushed);
	for (int of = 0; of < SOURCES; of++)
		unpaid -= queued_of(of);
	return (int64_t) unpaid;
}

/* ---- a flush takes rows ---- */

static int64_t
price_rows(struct drain *d)
{
	int64_t total = 0;

	memset(d->qty, 0, sizeof(d->qty));
	memset(d->slot_qty, 0, sizeof(d->slot_qty));
	for (int i = 0; i < d->rows; i++)
		for (int s = 0; s < SLOTS; s++)
		{
			d->slot_qty[s] += w.t.queue[i].qty[s];
			d->qty[w.slot[s].counter] += w.t.queue[i].qty[s];
		}
	for (int c = 0; c < COUNTERS; c++)
	{
		const struct counter *counter = &w.counter[c];
		int64_t               cost;

		REQUIRE(mtr_price_step(counter->flushed + w.flush.qty[c], d->qty[c],
							   counter->num_uc, counter->per_units, &cost),
				"durable usage cannot be priced");
		total += cost;
	}
	return total;
}

static int
cell_of(int of)
{
	if (of >= GRANTS)
		return of - OF_DEBT + MTR_PURSE_DEBT;
	return w.t.row[of].used ? mtr_purse_find(&w.purse, w.t.row[of].g.id) : -1;
}

static void
hold(struct drain *d, int cell)
{
	if (cell >= MTR_PURSE_CELLS || (d->refs & (1u << cell)))
		return;
	d->refs |= 1u << cell;
	w.purse.cell[cell].refs++;
}

/* what the rows have paid; returns what of cost is left for those with cells */
static int64_t
collect(struct drain *d, int64_t cost)
{
	d->n = 0;
	memset(d->paid, 0, sizeof(d->paid));
	for (int i = 0; i < d->rows; i++)
		for (int of = 0; of < SOURCES; of++)
			d->paid[of] += w.t.queue[i].part[of];
	memcpy(d->booked, d->paid, sizeof(d->booked));
	for (int of = 0; of < SOURCES; of++)
	{
		int cell = d->paid[of] != 0 ? cell_of(of) : -1;

		if (cell < 0)
		{
			cost -= d->paid[of];
			continue;
		}
		hold(d, cell);
		d->part[d->n].cell = cell;
		d->part[d->n++].amount = d->paid[of];
	}
	return cost;
}

/* rows have paid more, or less, than is booked: who may carry that? */
static void
check_placed(const struct drain *d, int64_t rest)
{
	int carriers = 0;

	for (int of = 0; of < SOURCES; of++)
	{
		int64_t more = d->booked[of] - d->paid[of];
		int     cell;

		if (more == 0)
			continue;
		cell = cell_of(of);
		REQUIRE(cell >= MTR_PURSE_DEBT || (d->refs & (1u << cell)),
				"source %d carries %ld, and may go", of, (long) more);
		if (rest < 0 && more < 0 && d->booked[of] >= 0)
			continue; /* it waits for another flush */
		carriers++;
		if (w.purse.mode == MTR_PURSE_UNLIMITED)
			REQUIRE(of == OF_ISSUED, "source %d must not carry %ld", of,
					(long) more);
		else
			REQUIRE(of == OF_DEBT || (more > 0 && m.g[of].where == LIVE &&
									  m_remaining(of) >= more),
					"source %d must not carry %ld", of, (long) more);
	}
	REQUIRE(carriers <= 1, "%d sources carry a difference", carriers);
}

void
drain_copy(int most)
{
	struct drain    *d = &w.flush.drain;
	struct mtr_purse before = w.purse;
	int64_t          cost;
	int64_t          rest;
	__int128         sum = 0;

	d->refs = 0;
	d->rows = most < w.t.nqueue ? most : w.t.nqueue;
	cost = price_rows(d);
	rest = collect(d, cost);
	for (int i = 0; i < d->n; i++)
		rest -= d->part[i].amount;
	if (d->rows > 0)
		d->n = mtr_purse_place(&w.purse, rest, d->part, d->n);
	for (int of = 0; of < SOURCES; of++)
		if (cell_of(of) >= 0)
			d->booked[of] = 0;
	for (int i = 0; i < d->n; i++)
		d->booked[source_of(d->part[i].cell)] += d->part[i].amount;
	for (int of = 0; of < SOURCES; of++)
		sum += d->booked[of];
	REQUIRE(sum == cost, "a drain burns %ld for usage of %ld", (long) sum,
			(long) cost);
	check_placed(d, rest);
	for (int i = 0; i < MTR_PURSE_SOURCES; i++)
		before.cell[i].refs = w.purse.cell[i].refs;
	REQUIRE(memcmp(&before, &w.purse, sizeof(before)) == 0,
			"placing parts has changed the purse");
	w.stats.moved += d->rows;
	w.stats.misplaced += rest != 0;
	sim_trace("drain of %d rows for %ld, rest %ld", d->rows, (long) cost,
			  (long) rest);
}

bool
drain_names(int g)
{
	return w.flush.drain.paid[g] != 0 &&
		   (w.flush.drain.refs & (1u << cell_of(g))) != 0;
}

/* the rows are on disk in the journal, and not in the queue any more */
void
drain_write(void)
{
	const struct drain *d = &w.flush.drain;

	for (int of = 0; of < SOURCES; of++)
		w.t.burned[of] += d->booked[of];
	for (int c = 0; c < COUNTERS; c++)
		w.t.flushed[c] += d->qty[c];
	for (int s = 0; s < SLOTS; s++)
		w.t.slot_durable[s] += d->slot_qty[s];
	w.t.nqueue -= d->rows;
	memmove(&w.t.queue[0], &w.t.queue[d->rows],
			sizeof(w.t.queue[0]) * (size_t) w.t.nqueue);
}

void
drain_end(bool ok)
{
	struct drain *d = &w.flush.drain;

	for (int of = 0; ok && of < SOURCES; of++)
	{
		int64_t more = d->booked[of] - d->paid[of];

		m_burn(of, d->paid[of]);
		if (more != 0)
			mtr_purse_rebook(&w.purse, cell_of(of), more);
	}
	for (int c = 0; ok && c < COUNTERS; c++)
	{
		w.counter[c].queued -= d->qty[c];
		w.counter[c].done += d->qty[c];
		w.counter[c].flushed += d->qty[c];
	}
	for (int i = 0; i < MTR_PURSE_CELLS; i++)
		if (d->refs & (1u << i))
			w.purse.cell[i].refs--;
	memset(d, 0, sizeof(*d));
}

/* ---- nothing of it is ever lost, or counted twice ---- */

void
check_queue(void)
{
	for (int s = 0; s < SLOTS; s++)
		REQUIRE(w.promised[s] == w.t.slot_durable[s] + queued_usage(s),
				"slot %d: of durable usage %ld was promised, there is %ld", s,
				(long) w.promised[s],
				(long) (w.t.slot_durable[s] + queued_usage(s)));
	for (int c = 0; c < COUNTERS; c++)
	{
		int64_t queued = unqueued(c);

		for (int s = 0; s < SLOTS; s++)
			queued += w.slot[s].counter == c ? queued_usage(s) : 0;
		REQUIRE(w.counter[c].queued == queued,
				"counter %d: %ld waits, should be %ld", c,
				(long) w.counter[c].queued, (long) queued);
	}
}
