/*
 * tables.c - what is behind memory: loads, crashes, and rest
 */
#include "model.h"

#include <string.h>

int
source_of(int cell)
{
	if (cell >= MTR_PURSE_CELLS)
		return cell - MTR_PURSE_DEBT + OF_DEBT;
	return w.purse.cell[cell].grant.id[0];
}

/* ---- loading ---- */

static int64_t
debt_in_tables(void)
{
	return (int64_t) (w.t.ledger_debt + w.t.burned[OF_DEBT] +
					  queued_of(OF_DEBT));
}

static void
load_usage(void)
{
	for (int c = 0; c < COUNTERS; c++)
	{
		w.counter[c].done = w.counter[c].flushed = w.t.flushed[c];
		w.counter[c].queued = 0;
	}
	for (int s = 0; s < SLOTS; s++)
	{
		w.slot[s].done = w.slot[s].flushed = w.t.slot_flushed[s];
		w.slot[s].taken =
			w.slot[s].done + w.t.slot_durable[s] + queued_usage(s);
		w.counter[w.slot[s].counter].queued += queued_usage(s);
	}
	for (int c = 0; c < COUNTERS; c++)
		w.counter[c].priced = w.counter[c].done + w.counter[c].queued;
}

void
load(int64_t now)
{
	int     list[GRANTS];
	int64_t remaining[GRANTS];
	int     n;

	/* time does not run back for a tenant, as far as it was written */
	if (now < w.clock)
		now = w.clock;
	if (now < w.t.last)
		now = w.t.last;
	mtr_purse_init(&w.purse);
	mtr_purse_advance(&w.purse, now);
	w.purse.mode = w.t.mode;
	w.purse.floor = w.t.floor;
	m_init(now);
	mtr_purse_owe(&w.purse, debt_in_tables());
	m_owe(debt_in_tables());
	w.stats.uneven += debt_in_tables() < 0;
	load_usage();
	n = list_grants(list, remaining, NULL, -1, now);
	load_grants(list, remaining, n, now, now, queue_unpaid());
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
	if (w.flush.state == FLUSH_COPIED && sim_percent(50))
		flush_write();
	w.flush.state = FLUSH_NONE;
	memset(&w.flush.drain, 0, sizeof(w.flush.drain));
	w.stats.waited += w.t.nqueue;
	refill_forget();
	reservations_forget();
	w.giving = 0;
	w.gone = 0;
	for (int s = 0; s < SLOTS; s++)
	{
		int c = w.slot[s].counter;

		/* of durable usage nothing, see check_queue */
		lost += cost_of(&w.counter[c], w.slot[s].done) -
				cost_of(&w.counter[c], w.t.slot_flushed[s]);
	}
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
	load(INT64_MIN);
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

/* nothing is in flight, and tables know all */
static void
stop_all(void)
{
	refill_forget();
	for (int i = 0; i < TXS; i++)
	{
		if (w.tx[i].state == TX_OPEN)
			tx_end(&w.tx[i], !sim_percent(w.mood.abort));
		if (w.tx[i].state != TX_NONE)
			tx_go_on(&w.tx[i], RECORDS);
	}
	reservations_end();
	if (w.flush.state == FLUSH_COPIED)
		flush_end(sim_percent(50));
	w.flush.state = FLUSH_NONE;
	flush_whole();
	flush_whole();
	REQUIRE(mtr_purse_is_clean(&w.purse), "at rest a flush is wanted");
	REQUIRE(w.t.nqueue == 0, "at rest rows wait");
	compare_with_tables();
}

/* reads the grants behind while the tenant is in use, if only by this reader */
static void
refill_whole(void)
{
	tx_begin(&w.tx[0]);
	refill_begin(&w.tx[0], -1);
	while (w.refill.tx != NULL)
		refill_go_on();
	tx_end(&w.tx[0], true);
	tx_go_on(&w.tx[0], RECORDS);
}

void
come_to_rest(void)
{
	bool    again = sim_percent(50);
	int64_t available;
	bool    known;

	sim_trace("rest");
	stop_all();
	mtr_purse_advance(&w.purse, w.clock);
	m_advance(w.clock);
	available = w.purse.available;
	known = !w.purse.reload_wanted;
	for (int g = 0; g < GRANTS; g++)
		known = known && !(w.t.row[g].used && is_uneven(g));
	if (!mtr_purse_is_clean(&w.purse))
		return; /* a grant has started and paid debt */
	/* it is progress: it does not want to be done again and again */
	for (int i = 0; i == 0 || mtr_purse_is_low(&w.purse); i++)
	{
		REQUIRE(i < GRANTS, "loading does not end");
		if (again)
			refill_whole();
		else
			load(w.purse.now);
		check_all();
		REQUIRE(!known || w.purse.available == available,
				"%ld available, loaded again %ld", (long) available,
				(long) w.purse.available);
		flush_whole();
	}
	for (int g = 0; g < GRANTS; g++)
		REQUIRE(!w.t.row[g].used || !is_uneven(g) ||
					w.t.row[g].g.expires_at <= w.purse.now,
				"at rest %ld of %ld is left of grant %d", (long) in_tables(g),
				(long) w.t.row[g].g.amount, g);
}

static bool
is_named(int g)
{
	if (queue_names(g))
		return true;
	for (int i = 0; w.refill.tx != NULL && i < w.refill.n; i++)
		if (w.refill.list[i] == g)
			return true;
	for (int i = 0; i < TXS; i++)
		for (int k = 0; w.tx[i].state != TX_NONE && k < w.tx[i].n; k++)
			if (w.tx[i].record[k].kind != USAGE &&
				w.tx[i].record[k].kind != RESERVE && w.tx[i].record[k].of == g)
				return true;
	return is_reserved(g);
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
