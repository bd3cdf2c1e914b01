/*
 * flush.c - usage and who paid for it, on its way into tables
 *
 * In three steps, as in the server: who burned what, what was used, and the
 * commit of both.  Anything may happen in between.
 */
#include "model.h"

#include "core/price.h"

#include <string.h>

/* the usage that a flush books: cut by minute, and all of it */
static void
copy_usage(void)
{
	struct flush *f = &w.flush;

	memset(f->qty, 0, sizeof(f->qty));
	for (int s = 0; s < SLOTS; s++)
	{
		struct slot       *slot = &w.slot[s];
		struct mtr_segment segment[MTR_RING_MARKS];
		int64_t            at = slot->flushed;
		int n = mtr_ring_segments(&slot->ring, at, slot->done, segment);

		for (int i = 0; i < n; i++)
		{
			REQUIRE(segment[i].from == at && segment[i].upto > at,
					"slot %d: usage has gaps", s);
			at = segment[i].upto;
		}
		REQUIRE(at == slot->done, "slot %d: usage is missing", s);
		minutes_check(s, segment, n);
		f->upto[s] = slot->done;
		f->qty[slot->counter] += slot->done - slot->flushed;
	}
}

static int64_t
price_flush(void)
{
	int64_t total = 0;

	for (int c = 0; c < COUNTERS; c++)
	{
		const struct counter *counter = &w.counter[c];
		int64_t               cost;

		REQUIRE(mtr_price_step(counter->flushed, w.flush.qty[c],
							   counter->num_uc, counter->per_units, &cost),
				"usage cannot be priced");
		total += cost;
	}
	return total;
}

/* what is booked besides what was asked for is booked by who can */
static void
check_carried(const int64_t asked[], const int64_t booked[], __int128 rest)
{
	int carriers = 0;

	for (int i = 0; i < MTR_PURSE_SOURCES; i++)
	{
		const struct mtr_cell *c = &w.purse.cell[i];
		int64_t                more = booked[i] - asked[i];

		if (more == 0)
			continue;
		if (rest < 0)
		{
			REQUIRE(more < 0 && booked[i] >= 0,
					"cell %d must not wait with %ld of %ld", i, (long) -more,
					(long) asked[i]);
			continue;
		}
		carriers++;
		if (w.purse.mode == MTR_PURSE_UNLIMITED)
			REQUIRE(i == MTR_PURSE_ISSUED, "cell %d must not carry %ld", i,
					(long) more);
		else
			REQUIRE(i == MTR_PURSE_DEBT ||
						(i < MTR_PURSE_CELLS && c->state == MTR_CELL_LIVE &&
						 c->grant.remaining >= more),
					"cell %d must not carry %ld", i, (long) more);
	}
	REQUIRE(carriers <= 1, "%d sources carry a difference", carriers);
}

static void
check_parts(int64_t cost)
{
	const struct flush *f = &w.flush;
	__int128            rest = cost;
	__int128            sum = 0;
	int64_t             asked[MTR_PURSE_SOURCES] = {0};
	int64_t             booked[MTR_PURSE_SOURCES] = {0};

	for (int i = 0; i < f->nasked; i++)
	{
		asked[f->asked[i].cell] = f->asked[i].amount;
		rest -= f->asked[i].amount;
	}
	for (int i = 0; i < f->n; i++)
	{
		REQUIRE(f->part[i].amount != 0, "a flush has an empty part");
		REQUIRE(booked[f->part[i].cell] == 0, "a flush names a source twice");
		booked[f->part[i].cell] = f->part[i].amount;
		sum += f->part[i].amount;
	}
	REQUIRE(sum == cost, "a flush burns %ld for usage of %ld", (long) sum,
			(long) cost);
	REQUIRE(rest == 0 || tx_any() || reservations_any() || !f->quiet ||
				f->asked_at != w.stats.steps,
			"a flush is uneven by %ld and nothing is in flight", (long) rest);
	check_carried(asked, booked, rest);
	w.stats.carried += rest != 0;
}

bool
flush_names(int g)
{
	const struct flush *f = &w.flush;

	for (int i = 0; f->state == FLUSH_ASKED && i < f->nasked; i++)
		if (f->of[i] == g)
			return true;
	for (int i = 0; f->state == FLUSH_COPIED && i < f->n; i++)
		if (f->of[i] == g)
			return true;
	return f->state == FLUSH_COPIED && drain_names(g);
}

void
flush_ask(void)
{
	struct flush *f = &w.flush;

	m_write_off_spare();
	f->nasked = mtr_purse_unwritten(&w.purse, f->asked);
	for (int i = 0; i < f->nasked; i++)
	{
		const struct mtr_cell *c = &w.purse.cell[f->asked[i].cell];

		f->of[i] = source_of(f->asked[i].cell);
		REQUIRE(f->asked[i].amount == c->burn_done - c->burn_flushed,
				"a flush does not know what burned");
	}
	f->asked_at = w.stats.steps;
	f->quiet = !tx_any() && !reservations_any() && w.t.nqueue == 0;
	f->state = FLUSH_ASKED;
}

void
flush_copy(int rows)
{
	struct flush *f = &w.flush;
	int64_t       cost;

	copy_usage();
	cost = price_flush();
	memcpy(f->part, f->asked, sizeof(f->part));
	f->n = mtr_purse_carry(&w.purse, cost, f->part, f->nasked);
	check_parts(cost);
	for (int i = 0; i < f->n; i++)
		f->of[i] = source_of(f->part[i].cell);
	drain_copy(rows);
	f->state = FLUSH_COPIED;
	sim_trace("flush of %ld in %d parts", (long) cost, f->n);
}

void
flush_write(void)
{
	const struct flush *f = &w.flush;

	w.t.last = m.now;
	for (int i = 0; i < f->n; i++)
		w.t.burned[f->of[i]] += f->part[i].amount;
	for (int c = 0; c < COUNTERS; c++)
		w.t.flushed[c] += f->qty[c];
	for (int s = 0; s < SLOTS; s++)
		w.t.slot_flushed[s] = f->upto[s];
	drain_write();
}

void
flush_end(bool ok)
{
	struct flush *f = &w.flush;

	sim_trace("flush ends: %d", ok);
	f->state = FLUSH_NONE;
	w.stats.flushes += ok;
	w.stats.failed_flushes += !ok;
	if (ok)
		flush_write();
	drain_end(ok);
	if (!ok)
		return;
	for (int s = 0; s < SLOTS; s++)
	{
		minutes_flushed(s, f->upto[s] - w.slot[s].flushed);
		w.slot[s].flushed = f->upto[s];
	}
	for (int c = 0; c < COUNTERS; c++)
		w.counter[c].flushed += f->qty[c];
	/* as in the server, where a flush without parts is noted nowhere */
	if (f->n > 0)
		mtr_purse_flushed(&w.purse, f->part, f->n);
}

void
flush_whole(void)
{
	if (w.flush.state == FLUSH_ASKED)
		flush_copy(QUEUE);
	if (w.flush.state == FLUSH_COPIED)
		flush_end(true);
	flush_ask();
	flush_copy(QUEUE);
	flush_end(true);
}
