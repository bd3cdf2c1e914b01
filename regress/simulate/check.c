/*
 * check.c - memory, tables and model say the same, after every step
 *
 * Two ways that know nothing of each other: against the model, which follows
 * the rules, and from scratch, by adding up what the transactions in progress
 * and the tables hold.  The second would find a fault in the rules themselves.
 */
#include "model.h"

#include "core/price.h"

#include <stdio.h>

__int128
cost_of(const struct counter *c, int64_t quantity)
{
	return mtr_price_total(quantity, c->num_uc, c->per_units);
}

/* counts parts that are neither usage for good nor rows of the ledger */
static bool
is_in_flight(const struct tx *tx, const struct record *r)
{
	if (r->kind == BURN)
		return true;
	/* then its row waits */
	if (r->kind == SYNC_BURN)
		return tx->state != TX_COMMITTING;
	/* in the ledger already, not in memory */
	if (r->kind == REFUND)
		return tx->state == TX_COMMITTING &&
			   (r->of >= GRANTS || m.g[r->of].where >= INCOMING);
	return (r->kind == DEBIT || r->kind == VOID) && tx->state != TX_COMMITTING;
}

__int128
in_flight(int of)
{
	__int128 sum = 0;

	for (int i = 0; i < TXS; i++)
		for (int k = 0; w.tx[i].state != TX_NONE && k < w.tx[i].n; k++)
			if (w.tx[i].record[k].of == of &&
				is_in_flight(&w.tx[i], &w.tx[i].record[k]))
				sum += w.tx[i].record[k].amount;
	return sum + reserved_of(of);
}

/* what is taken of a grant and was loose when it lost its cell */
__int128
loose_of(const struct tx *tx, int g)
{
	__int128 sum = 0;

	for (int i = 0; i < TXS; i++)
		for (int k = 0; w.tx[i].state != TX_NONE && k < w.tx[i].n; k++)
			if ((tx == NULL || tx == &w.tx[i]) && w.tx[i].record[k].of == g &&
				w.tx[i].record[k].cell == LOOSE &&
				is_in_flight(&w.tx[i], &w.tx[i].record[k]))
				sum += w.tx[i].record[k].amount;
	return sum;
}

static int64_t
unwritten(int cell)
{
	return w.purse.cell[cell].burn_done - w.purse.cell[cell].burn_flushed;
}

/* what a transaction took of each source */
static void
add_up_flight(__int128 flight[SOURCES], __int128 *usage)
{
	*usage = 0;
	for (int of = 0; of < SOURCES; of++)
	{
		flight[of] = reserved_of(of);
		*usage += reserved_of(of);
	}
	for (int i = 0; i < TXS; i++)
	{
		const struct tx *tx = &w.tx[i];

		if (tx->state == TX_NONE)
			continue;
		for (int k = 0; k < tx->n; k++)
		{
			const struct record *r = &tx->record[k];

			if (!is_in_flight(tx, r))
				continue;
			flight[r->of] += r->amount;
			if (r->kind == BURN || r->kind == SYNC_BURN)
				*usage += r->amount;
		}
		/* an abort half way: what usage cost, and what came back of it */
		*usage -= tx->back - tx->given;
	}
}

static void
check_grant(int g, __int128 flight)
{
	static const uint8_t   state[] = {[INCOMING] = MTR_CELL_INCOMING,
									  [FUTURE] = MTR_CELL_FUTURE,
									  [LIVE] = MTR_CELL_LIVE,
									  [ENDED] = MTR_CELL_ENDED};
	const struct row      *row = &w.t.row[g];
	const struct mtr_cell *c;
	int                    cell;

	cell = row->used ? mtr_purse_find(&w.purse, row->g.id) : -1;
	if (m.g[g].where < INCOMING)
	{
		REQUIRE(cell < 0, "grant %d has a cell", g);
		REQUIRE(flight == loose_of(NULL, g),
				"grant %d has no cell, but is in flight", g);
		REQUIRE(
			m.g[g].where != BEHIND || m.g[g].counted <= in_tables(g) - flight,
			"grant %d counts %ld, that is too much", g, (long) m.g[g].counted);
		REQUIRE(m.g[g].burned == w.t.burned[g], "grant %d: burns lost", g);
		return;
	}
	REQUIRE(cell >= 0, "grant %d has no cell", g);
	c = &w.purse.cell[cell];
	REQUIRE(c->state == state[m.g[g].where], "grant %d: state %d, should be %d",
			g, c->state, state[m.g[g].where]);
	REQUIRE(c->grant.remaining == m_remaining(g),
			"grant %d: remaining %ld, should be %ld", g,
			(long) c->grant.remaining, (long) m_remaining(g));
	REQUIRE(c->taken == m.g[g].taken, "grant %d: taken %ld, should be %ld", g,
			(long) c->taken, (long) m.g[g].taken);
	REQUIRE(unwritten(cell) == m.g[g].burned - w.t.burned[g],
			"grant %d: burns %ld, should be %ld", g, (long) unwritten(cell),
			(long) (m.g[g].burned - w.t.burned[g]));
	/* from scratch: nobody has spent what the grant was not good for */
	REQUIRE(flight + m.g[g].burned + row->ledger + queued_of(g) == c->taken,
			"grant %d: taken %ld is not what was spent", g, (long) c->taken);
	REQUIRE(c->taken >= 0 && c->taken <= row->g.amount,
			"grant %d: taken %ld of %ld", g, (long) c->taken,
			(long) row->g.amount);
}

static void
check_sources(const __int128 flight[SOURCES])
{
	const struct mtr_purse *p = &w.purse;

	for (int g = 0; g < GRANTS; g++)
		check_grant(g, flight[g]);
	REQUIRE(p->available == m_available(), "available %ld, should be %ld",
			(long) p->available, (long) m_available());
	REQUIRE(p->debt == m.debt, "debt %ld, should be %ld", (long) p->debt,
			(long) m.debt);
	REQUIRE(p->spare == m.spare, "spare %ld, should be %ld", (long) p->spare,
			(long) m.spare);
	REQUIRE(unwritten(MTR_PURSE_DEBT) == m.burned_debt - w.t.burned[OF_DEBT],
			"burns of debt %ld, should be %ld",
			(long) unwritten(MTR_PURSE_DEBT),
			(long) (m.burned_debt - w.t.burned[OF_DEBT]));
	REQUIRE(unwritten(MTR_PURSE_ISSUED) ==
				m.burned_issued - w.t.burned[OF_ISSUED],
			"burns of issued %ld", (long) unwritten(MTR_PURSE_ISSUED));
	REQUIRE(flight[OF_DEBT] + w.t.ledger_debt + m.burned_debt +
					queued_of(OF_DEBT) ==
				p->debt,
			"debt %ld is not what was spent", (long) p->debt);
}

/* burns are what usage cost, in memory and in tables */
static void
check_costs(__int128 usage)
{
	__int128 burned = w.t.burned_gone + m.burned_debt + m.burned_issued;
	__int128 written = w.t.burned_gone;
	__int128 priced = 0;
	__int128 flushed = 0;

	for (int of = 0; of < SOURCES; of++)
	{
		written += w.t.burned[of];
		burned += queued_of(of);
	}
	for (int g = 0; g < GRANTS; g++)
		burned += m.g[g].burned;
	for (int c = 0; c < COUNTERS; c++)
	{
		int64_t taken = 0;
		int64_t done = 0;

		for (int s = 0; s < SLOTS; s++)
		{
			taken += w.slot[s].counter == c ? w.slot[s].taken : 0;
			done += w.slot[s].counter == c
						? w.slot[s].done + w.t.slot_durable[s]
						: 0;
		}
		REQUIRE(w.counter[c].priced == taken && w.counter[c].done == done,
				"counter %d is not the sum of its slots", c);
		priced += cost_of(&w.counter[c], taken);
		flushed += cost_of(&w.counter[c], w.t.flushed[c]);
	}
	REQUIRE(burned - w.purse.spare + usage == priced,
			"calls have paid %ld more than their price",
			(long) (burned - w.purse.spare + usage - priced));
	REQUIRE(written == flushed, "tables: burns are %ld more than costs",
			(long) (written - flushed));
}

/* whoever spends next spends in burn order, or the purse is loaded first */
static void
check_order(void)
{
	const struct mtr_purse *p = &w.purse;

	for (int g = 0; g < GRANTS; g++)
	{
		if (m.g[g].where != BEHIND)
			continue;
		REQUIRE(!m_stale() || p->reload_wanted, "stale and nobody knows");
		REQUIRE(m.g[g].counted == 0 || m.debt == 0 || p->reload_wanted,
				"debt beside grant %d, and nobody loads", g);
		for (int k = 0; m.g[g].counted > 0 && k < GRANTS; k++)
			REQUIRE(m.g[k].where != LIVE || m_remaining(k) == 0 ||
						!m_burns_before(g, k) || p->reload_wanted,
					"grant %d is behind and burns before %d, and nobody loads",
					g, k);
	}
	for (int g = 0; m.debt > 0 && g < GRANTS; g++)
		REQUIRE(m.g[g].where != LIVE || m_remaining(g) == 0,
				"debt beside credits of grant %d", g);
}

void
check_all(void)
{
	__int128 flight[SOURCES];
	__int128 usage;

	REQUIRE(w.purse.now == m.now, "the purse lives at another time");
	add_up_flight(flight, &usage);
	check_sources(flight);
	check_costs(usage);
	check_queue();
	check_order();
}

/* what a failure needs to be understood */
void
dump_all(void)
{
	const struct mtr_purse *p = &w.purse;

	printf("available %ld floor %ld debt %ld (tables: ledger %ld, burned %ld) "
		   "mode %d spare %ld now %ld more %ld later %ld, loads: %d\n",
		   (long) p->available, (long) p->floor, (long) p->debt,
		   (long) w.t.ledger_debt, (long) w.t.burned[OF_DEBT], p->mode,
		   (long) p->spare, (long) p->now, (long) p->more_uc,
		   (long) p->more_later, p->reload_wanted);
	for (int g = 0; g < GRANTS; g++)
	{
		const struct row *row = &w.t.row[g];

		if (row->used)
			printf("%s %d where %d priority %d amount %ld ledger %ld burned "
				   "%ld, memory: taken %ld burned %ld, %ld..%ld\n",
				   row->committed ? "grant" : "(grant)", g, m.g[g].where,
				   row->g.priority, (long) row->g.amount, (long) row->ledger,
				   (long) w.t.burned[g], (long) m.g[g].taken,
				   (long) m.g[g].burned, (long) row->g.effective_at,
				   (long) row->g.expires_at);
	}
}
