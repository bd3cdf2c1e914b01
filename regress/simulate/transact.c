/*
 * transact.c - how transactions end
 *
 * As in the server: an abort gives the parts back, prices what it undoes, and
 * settles the difference.  The end of a transaction may be cut anywhere
 * between two records, as it is when the server lets go of the spinlock.
 */
#include "model.h"

#include "core/price.h"

#include <string.h>

bool
tx_any(void)
{
	for (int i = 0; i < TXS; i++)
		if (w.tx[i].state != TX_NONE)
			return true;
	return false;
}

/* do tables show more than memory counts, but for this transaction? */
bool
tx_is_giving(const struct tx *tx)
{
	return tx->behind > 0 || tx->loose > 0;
}

/* is there nothing but debits of it? */
static bool
is_debited(const struct tx *tx, int cell)
{
	for (int k = 0; k < tx->n; k++)
		if (tx->record[k].cell == cell && tx->record[k].kind != USAGE &&
			tx->record[k].kind != DEBIT && tx->record[k].kind != VOID)
			return false;
	return true;
}

static void
let_go(struct tx *tx, int cell, int g)
{
	bool was_giving = tx_is_giving(tx);

	m.g[g].where = NOWHERE;
	tx->refs &= ~(1u << cell);
	for (int k = 0; k < tx->n; k++)
	{
		if (tx->record[k].cell != cell || tx->record[k].kind == USAGE)
			continue;
		tx->record[k].cell = LOOSE;
		tx->loose++;
		w.incoming += tx->record[k].amount;
	}
	w.giving += !was_giving && tx_is_giving(tx);
	w.version++;
	w.stats.detached++;
}

void
tx_detach(struct tx *tx)
{
	mtr_purse_advance(&w.purse, w.clock);
	m_advance(w.clock);
	if (w.giving != (tx_is_giving(tx) ? 1 : 0))
		return;
	for (int cell = 0; cell < MTR_PURSE_CELLS; cell++)
	{
		int              g = source_of(cell);
		struct mtr_grant grant;
		bool             may;

		if (!(tx->refs & (1u << cell)) || !is_debited(tx, cell))
			continue;
		may = m_may_detach(g, tx) && w.purse.cell[cell].refs == 1 &&
			  w.purse.cell[MTR_PURSE_DEBT].refs == 0;
		REQUIRE(mtr_purse_detach(&w.purse, w.clock, cell, &grant) == may,
				"grant %d loses its cell: %d", g, !may);
		if (!may)
			continue;
		sim_trace("grant %d is loose", g);
		let_go(tx, cell, g);
	}
}

static void
undo_loose(struct tx *tx, const struct record *r)
{
	struct mtr_grant g = w.t.row[r->of].g;

	g.remaining = r->amount;
	w.incoming -= r->amount;
	mtr_purse_return(&w.purse, w.clock, &g);
	m_advance(w.clock);
	m_return(r->of, r->amount);
	tx->loose--;
	w.giving -= !tx_is_giving(tx);
	w.version++;
	w.stats.returned++;
}

void
tx_begin(struct tx *tx)
{
	memset(tx, 0, sizeof(*tx));
	tx->state = TX_OPEN;
}

void
tx_hold(struct tx *tx, int cell)
{
	if (cell < 0 || (tx->refs & (1u << cell)))
		return;
	tx->refs |= 1u << cell;
	w.purse.cell[cell].refs++;
}

static void
undo(struct tx *tx, const struct record *r)
{
	struct counter *c;
	int64_t         cost = 0;

	switch (r->kind)
	{
		case USAGE:
		case SYNC:
			c = &w.counter[w.slot[r->of].counter];
			REQUIRE(mtr_price_step(c->priced - r->amount, r->amount, c->num_uc,
								   c->per_units, &cost),
					"what was paid cannot be priced");
			c->priced -= r->amount;
			c->queued -= r->kind == SYNC ? r->amount : 0;
			w.slot[r->of].taken -= r->amount;
			tx->back += cost;
			break;
		case BURN:
		case SYNC_BURN:
			tx->given += r->amount;
			/* fall through */
		case DEBIT:
		case VOID:
			if (r->cell == LOOSE)
			{
				undo_loose(tx, r);
				break;
			}
			mtr_purse_back(&w.purse, w.clock, r->cell, r->amount);
			m_advance(w.clock);
			m_back(r->of, r->amount);
			break;
		case GRANT:
			if (r->cell >= 0)
			{
				/* nothing names it any more */
				w.purse.cell[r->cell].refs--;
				tx->refs &= ~(1u << r->cell);
				mtr_purse_drop(&w.purse, r->cell);
				m_drop(r->of);
				tx->own &= ~(1u << r->cell);
			}
			else
			{
				w.incoming -= r->amount;
				tx->behind--;
				w.giving -= !tx_is_giving(tx);
			}
			w.t.row[r->of].used = false;
			break;
		case REFUND:
			w.incoming -= r->amount;
			break;
		case RESERVE:
			reservation_end(r->of);
			break;
	}
}

static void
settle(struct tx *tx)
{
	mtr_purse_settle(&w.purse, w.clock, tx->back - tx->given);
	m_advance(w.clock);
	m_settle(tx->back - tx->given);
	tx->back = 0;
	tx->given = 0;
}

void
tx_rollback_to_savepoint(struct tx *tx)
{
	sim_trace("rollback to %d", tx->level);
	while (tx->n > 0 && tx->record[tx->n - 1].level >= tx->level)
	{
		struct record r = tx->record[--tx->n];

		undo(tx, &r);
	}
	settle(tx);
	tx->level--;
}

void
tx_release_savepoint(struct tx *tx)
{
	tx->level--;
	for (int i = 0; i < tx->n; i++)
		if (tx->record[i].level > tx->level)
			tx->record[i].level = tx->level;
}

/* in place of another, but rather not of a grant that has got back something else */
static void
note_charge(int of, int64_t amount)
{
	struct charge *c = &w.charge[sim_below(CHARGES)];

	for (int i = 0;
		 i < 4 && c->amount > 0 && c->of < GRANTS && w.t.burned[c->of] < 0; i++)
		c = &w.charge[sim_below(CHARGES)];
	*c = (struct charge){.of = of, .amount = amount};
}

/* from here on it is in the tables */
static void
write_rows(const struct tx *tx)
{
	w.t.last = m.now;
	if (tx->limits)
	{
		w.t.mode = tx->mode;
		w.t.floor = tx->floor;
	}
	queue_write(tx);
	for (int i = 0; i < tx->n; i++)
	{
		const struct record *r = &tx->record[i];
		int64_t              x = r->kind == REFUND ? -r->amount : r->amount;

		if (r->kind == GRANT)
			w.t.row[r->of].committed = true;
		if (r->kind != DEBIT && r->kind != VOID && r->kind != REFUND)
			continue;
		if (r->of < GRANTS)
			w.t.row[r->of].ledger += x;
		else if (r->of == OF_DEBT)
			w.t.ledger_debt += x;
		if (r->kind != DEBIT)
			continue;
		/* two that can come back at one time */
		note_charge(r->of, x - x / 2);
		if (x > 1)
			note_charge(r->of, x / 2);
	}
}

void
tx_end(struct tx *tx, bool commit)
{
	sim_trace("%s", commit ? "commit" : "abort");
	tx->state = commit ? TX_COMMITTING : TX_ABORTING;
	if (commit)
		write_rows(tx);
	w.stats.commits += commit;
	w.stats.aborts += !commit;
}

static void
arrive(const struct record *r)
{
	struct mtr_grant *g = &w.t.row[r->of].g;

	mtr_purse_advance(&w.purse, w.clock);
	m_advance(w.clock);
	if (r->cell >= 0)
	{
		mtr_purse_arrive(&w.purse, w.clock, r->cell);
		m_arrive(r->of);
		return;
	}
	w.incoming -= r->amount;
	w.version++;
	mtr_purse_add_behind(&w.purse, w.clock, g);
	m_behind(r->of, g->amount);
}

void
count_usage(int slot, int64_t qty)
{
	struct slot *s = &w.slot[slot];

	mtr_ring_add(&s->ring, s->done, (int32_t) (w.clock / 1000), s->flushed);
	minutes_add(slot, (int32_t) (w.clock / 1000), qty);
	s->done += qty;
	w.counter[s->counter].done += qty;
}

static void
finish(struct tx *tx, const struct record *r)
{
	switch (r->kind)
	{
		case USAGE:
			count_usage(r->of, r->amount);
			break;
		case RESERVE:
			reservation_commit(r->of);
			break;
		case BURN:
			mtr_purse_burn(&w.purse, r->cell, r->amount);
			m_burn(r->of, r->amount);
			break;
		case SYNC: /* stands in its row */
			break;
		case SYNC_BURN:
			if (r->of == OF_ISSUED)
				mtr_purse_back(&w.purse, w.clock, r->cell, r->amount);
			m_advance(w.purse.now);
			break;
		case GRANT:
			arrive(r);
			break;
		case REFUND:
			w.incoming -= r->amount;
			tx->refunded = true;
			if (r->cell < 0)
				break; /* it has ended: tables say if it is of use */
			mtr_purse_back(&w.purse, w.clock, r->cell, r->amount);
			m_advance(w.clock);
			m_back(r->of, r->amount);
			break;
		case DEBIT:
		case VOID:
			if (r->cell == LOOSE)
				w.incoming -= r->amount;
			break;
	}
}

void
tx_go_on(struct tx *tx, int records)
{
	for (; tx->n > 0 && records > 0; records--)
	{
		struct record r = tx->record[--tx->n];

		if (tx->state == TX_ABORTING)
			undo(tx, &r);
		else
			finish(tx, &r);
	}
	if (tx->n > 0)
		return;
	if (tx->state == TX_ABORTING || tx->refunded)
		settle(tx);
	if (tx->state == TX_COMMITTING && tx->limits)
	{
		w.purse.mode = tx->mode;
		w.purse.floor = tx->floor;
	}
	w.giving -= tx_is_giving(tx);
	w.version += tx->loose > 0;
	if (tx->gone)
	{
		w.version += tx->state == TX_COMMITTING;
		w.gone--;
		w.purse.reload_wanted = true;
	}
	for (int i = 0; i < MTR_PURSE_SOURCES; i++)
		if (tx->refs & (1u << i))
			w.purse.cell[i].refs--;
	tx->state = TX_NONE;
}
