/*
 * tables.c - what is behind memory: flushes, crashes, loads
 */
#include "model.h"

#include "core/price.h"

#include <stdlib.h>
#include <string.h>

int
source_of(int cell)
{
	if (cell >= MTR_PURSE_CELLS)
		return cell - MTR_PURSE_DEBT + OF_DEBT;
	return w.purse.cell[cell].grant.id[0];
}

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

/* may that source burn rest more than memory says it did? */
static bool
may_carry(int cell, int64_t delta, int64_t rest)
{
	const struct mtr_cell *c = &w.purse.cell[cell];

	if (w.purse.mode == MTR_PURSE_UNLIMITED)
		return cell == MTR_PURSE_ISSUED;
	if (cell >= MTR_PURSE_CELLS)
		return cell == MTR_PURSE_DEBT;
	if (rest < 0)
		return delta >= -rest;
	return c->state == MTR_CELL_LIVE && c->grant.remaining >= rest;
}

static void
check_parts(int64_t cost)
{
	const struct flush *f = &w.flush;
	__int128            sum = 0;
	int64_t             booked[MTR_PURSE_SOURCES] = {0};
	int                 carriers = 0;
	bool                quiet = !tx_any();

	for (int i = 0; i < f->n; i++)
	{
		REQUIRE(f->part[i].amount != 0, "a flush has an empty part");
		REQUIRE(booked[f->part[i].cell] == 0, "a flush names a source twice");
		booked[f->part[i].cell] = f->part[i].amount;
		sum += f->part[i].amount;
	}
	REQUIRE(sum == cost, "a flush burns %ld for usage of %ld", (long) sum,
			(long) cost);
	for (int i = 0; i < MTR_PURSE_SOURCES; i++)
	{
		int64_t delta =
			w.purse.cell[i].burn_done - w.purse.cell[i].burn_flushed;

		if (booked[i] == delta)
			continue;
		carriers++;
		REQUIRE(!quiet, "a flush is uneven and nothing is in flight");
		REQUIRE(may_carry(i, delta, booked[i] - delta),
				"cell %d must not carry %ld", i, (long) (booked[i] - delta));
	}
	REQUIRE(carriers <= 1, "%d sources carry a difference", carriers);
	w.stats.carried += carriers;
}

void
flush_begin(void)
{
	struct flush *f = &w.flush;
	int64_t       cost;

	copy_usage();
	cost = price_flush();
	m_write_off_spare();
	f->n = mtr_purse_deltas(&w.purse, cost, f->part);
	check_parts(cost);
	for (int i = 0; i < f->n; i++)
		f->of[i] = source_of(f->part[i].cell);
	f->running = true;
	sim_trace("flush of %ld in %d parts", (long) cost, f->n);
}

static void
write_flush(void)
{
	const struct flush *f = &w.flush;

	w.t.last = m.now;
	for (int i = 0; i < f->n; i++)
		w.t.burned[f->of[i]] += f->part[i].amount;
	for (int c = 0; c < COUNTERS; c++)
		w.t.flushed[c] += f->qty[c];
	for (int s = 0; s < SLOTS; s++)
		w.t.slot_flushed[s] = f->upto[s];
}

void
flush_end(bool ok)
{
	struct flush *f = &w.flush;

	sim_trace("flush ends: %d", ok);
	f->running = false;
	w.stats.flushes += ok;
	w.stats.failed_flushes += !ok;
	if (!ok)
		return;
	write_flush();
	for (int s = 0; s < SLOTS; s++)
	{
		minutes_flushed(s, f->upto[s] - w.slot[s].flushed);
		w.slot[s].flushed = f->upto[s];
	}
	for (int c = 0; c < COUNTERS; c++)
		w.counter[c].flushed += f->qty[c];
	mtr_purse_flushed(&w.purse, f->part, f->n);
}

/* ---- loading ---- */

static int64_t
debt_in_tables(void)
{
	return (int64_t) (w.t.ledger_debt + w.t.burned[OF_DEBT]);
}

static int64_t
in_tables(int g)
{
	return (int64_t) (w.t.row[g].g.amount - w.t.row[g].ledger - w.t.burned[g]);
}

static bool
in_force(int g, int64_t now)
{
	return w.t.row[g].g.effective_at <= now;
}

/*
 * A crash may leave a grant with more than it is worth, or less than nothing;
 * a refund to one that has no cell, with more.
 */
static bool
is_uneven(int g)
{
	return in_tables(g) < 0 || in_tables(g) > w.t.row[g].g.amount;
}

static int64_t loaded_at;

static int
compare_rows(const void *a, const void *b)
{
	int  x = *(const int *) a;
	int  y = *(const int *) b;
	bool fx = in_force(x, loaded_at);
	bool fy = in_force(y, loaded_at);

	if (is_uneven(x) != is_uneven(y))
		return is_uneven(x) ? -1 : 1;
	if (fx != fy)
		return fx ? -1 : 1;
	return m_burns_before(x, y) ? -1 : 1;
}

void
load(void)
{
	int list[GRANTS];
	int n = 0;

	/* time does not run back; after a crash, as far as it was written */
	loaded_at = w.clock > w.purse.now ? w.clock : w.purse.now;
	loaded_at = loaded_at > w.t.last ? loaded_at : w.t.last;
	mtr_purse_init(&w.purse);
	mtr_purse_advance(&w.purse, loaded_at);
	w.purse.mode = w.t.mode;
	w.purse.floor = w.t.floor;
	m_init(loaded_at);
	mtr_purse_owe(&w.purse, debt_in_tables());
	m_owe(debt_in_tables());
	w.stats.uneven += debt_in_tables() < 0;
	for (int g = 0; g < GRANTS; g++)
		if (w.t.row[g].used && w.t.row[g].committed &&
			(is_uneven(g) ||
			 (in_tables(g) != 0 && w.t.row[g].g.expires_at > loaded_at)))
			list[n++] = g;
	qsort(list, (size_t) n, sizeof(int), compare_rows);
	for (int i = 0; i < n; i++)
	{
		struct mtr_grant g = w.t.row[list[i]].g;

		g.remaining = in_tables(list[i]);
		w.stats.uneven += is_uneven(list[i]);
		if (mtr_purse_add(&w.purse, loaded_at, &g, false) >= 0)
		{
			m_add(list[i], g.remaining);
			m_arrive(list[i]);
			continue;
		}
		REQUIRE(i >= MTR_PURSE_CELLS, "no cell for grant %d of %d", i, n);
		mtr_purse_add_behind(&w.purse, loaded_at, &g);
		m_behind(list[i], g.remaining);
	}
	mtr_purse_settle(&w.purse, loaded_at, 0);
	m_settle(0);
	for (int s = 0; s < SLOTS; s++)
		w.slot[s].taken = w.slot[s].done = w.slot[s].flushed =
			w.t.slot_flushed[s];
	for (int c = 0; c < COUNTERS; c++)
		w.counter[c].priced = w.counter[c].done = w.counter[c].flushed =
			w.t.flushed[c];
	w.stats.loads++;
	sim_trace("load: %d grants, available %ld", n, (long) w.purse.available);
}

/* all memory is lost, with what is in flight; the disk is not */
void
crash(void)
{
	__int128 lost = 0;

	sim_trace("crash");
	w.stats.crashes++;
	/* the commit of a flush may be on disk though nobody saw its end */
	if (w.flush.running && sim_percent(50))
		write_flush();
	w.flush.running = false;
	for (int c = 0; c < COUNTERS; c++)
		lost += cost_of(&w.counter[c], w.counter[c].done) -
				cost_of(&w.counter[c], w.t.flushed[c]);
	REQUIRE(lost >= 0, "a crash has lost less than nothing");
	w.stats.lost_uc += lost > INT32_MAX ? INT32_MAX : (int64_t) lost;
	for (int i = 0; i < TXS; i++)
		w.tx[i].state = TX_NONE;
	for (int g = 0; g < GRANTS; g++)
		w.t.row[g].used = w.t.row[g].used && w.t.row[g].committed;
	for (int s = 0; s < SLOTS; s++)
		memset(&w.slot[s].ring, 0, sizeof(w.slot[s].ring));
	minutes_forget();
	w.incoming = 0;
	w.purse.now = INT64_MIN;
	load();
}

bool
reload(void)
{
	if (tx_any())
	{
		w.stats.waits++;
		return false;
	}
	if (w.flush.running)
		flush_end(true);
	for (int i = 0; i < 2; i++)
	{
		flush_begin();
		flush_end(true);
	}
	REQUIRE(mtr_purse_is_clean(&w.purse), "two flushes are not enough");
	load();
	return true;
}

/* ---- rest: nothing is in flight, and memory is what tables say ---- */

static void
compare_with_tables(void)
{
	for (int g = 0; g < GRANTS; g++)
		if (m.g[g].where >= INCOMING && m.g[g].where != ENDED)
			REQUIRE(m_remaining(g) == in_tables(g),
					"at rest %ld remains of grant %d, tables say %ld",
					(long) m_remaining(g), g, (long) in_tables(g));
	REQUIRE(w.purse.debt == debt_in_tables(),
			"at rest debt is not what tables say");
	REQUIRE(w.purse.spare == 0, "at rest there is spare");
	for (int i = 0; i < MTR_PURSE_SOURCES; i++)
		REQUIRE(w.purse.cell[i].refs == 0, "at rest cell %d is referred to", i);
}

void
come_to_rest(void)
{
	int64_t available;
	bool    known;

	sim_trace("rest");
	for (int i = 0; i < TXS; i++)
	{
		if (w.tx[i].state == TX_OPEN)
			tx_end(&w.tx[i], !sim_percent(w.mood.abort));
		if (w.tx[i].state != TX_NONE)
			tx_go_on(&w.tx[i], RECORDS);
	}
	if (w.flush.running)
		flush_end(sim_percent(50));
	for (int i = 0; i < 2; i++)
	{
		flush_begin();
		flush_end(true);
	}
	REQUIRE(mtr_purse_is_clean(&w.purse), "at rest a flush is wanted");
	compare_with_tables();
	mtr_purse_advance(&w.purse, w.clock);
	m_advance(w.clock);
	available = w.purse.available;
	known = !w.purse.reload_wanted;
	if (!mtr_purse_is_clean(&w.purse))
		return; /* a grant has started and paid debt */
	/* loading is progress: it does not want to be done again and again */
	for (int i = 0; i == 0 || mtr_purse_is_low(&w.purse); i++)
	{
		REQUIRE(i < GRANTS, "loading does not end");
		load();
		check_all();
		REQUIRE(!known || w.purse.available == available,
				"%ld available, loaded again %ld", (long) available,
				(long) w.purse.available);
		flush_begin();
		flush_end(true);
	}
	for (int g = 0; g < GRANTS; g++)
		REQUIRE(!w.t.row[g].used || !is_uneven(g),
				"at rest %ld of %ld is left of grant %d", (long) in_tables(g),
				(long) w.t.row[g].g.amount, g);
}

static bool
is_named(int g)
{
	for (int i = 0; i < TXS; i++)
		for (int k = 0; w.tx[i].state != TX_NONE && k < w.tx[i].n; k++)
			if (w.tx[i].record[k].kind != USAGE && w.tx[i].record[k].of == g)
				return true;
	return false;
}

/* rows that nothing refers to any more make room for others */
void
remove_old_rows(void)
{
	for (int g = 0; g < GRANTS; g++)
	{
		const struct row *row = &w.t.row[g];
		bool              over = row->g.expires_at < w.clock - 1000000;

		if (!row->used || !row->committed || m.g[g].where != NOWHERE ||
			is_named(g) || is_uneven(g) || (in_tables(g) != 0 && !over))
			continue;
		for (int i = 0; i < CHARGES; i++)
			if (w.charge[i].of == g)
				w.charge[i].amount = 0;
		w.t.burned_gone += w.t.burned[g];
		w.t.burned[g] = 0;
		m.g[g].burned = 0;
		w.t.row[g].used = false;
	}
}
