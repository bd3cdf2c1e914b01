/*
 * transact.c - what calls do, and the end of their transactions
 *
 * The glue between purse, prices and usage slots, as the server has it: usage
 * is priced and taken in one step, its parts are noted; an abort gives the
 * parts back, prices what it undoes, and settles the difference.  The end of a
 * transaction may be cut anywhere between two records, as it is when the
 * server lets go of the spinlock.
 */
#include "model.h"

#include "core/price.h"

#include <string.h>

/* as the server has it */
#define MAX_QUANTITY (INT64_MAX / 4)

bool
tx_any(void)
{
	for (int i = 0; i < TXS; i++)
		if (w.tx[i].state != TX_NONE)
			return true;
	return false;
}

void
tx_begin(struct tx *tx)
{
	memset(tx, 0, sizeof(*tx));
	tx->state = TX_OPEN;
}

static void
hold(struct tx *tx, int cell)
{
	if (cell < 0 || (tx->refs & (1u << cell)))
		return;
	tx->refs |= 1u << cell;
	w.purse.cell[cell].refs++;
}

static void
note(struct tx *tx, enum kind kind, int of, int cell, int64_t amount)
{
	tx->record[tx->n++] = (struct record){.kind = kind,
										  .level = tx->level,
										  .of = of,
										  .cell = cell,
										  .amount = amount};
	if (kind != USAGE)
		hold(tx, cell);
}

/* false: it was refused, and nothing has changed */
static bool
take(struct tx *tx, int64_t amount, enum kind kind)
{
	struct mtr_purse before;
	struct mtr_part  part[MTR_PURSE_SOURCES];
	int64_t          expected[GRANTS + 2];
	int              of[GRANTS + 2];
	int              n;
	int              k;
	enum mtr_take    result;
	enum mtr_take    should;

	mtr_purse_advance(&w.purse, w.clock);
	m_advance(w.clock);
	before = w.purse;
	should = m_take(amount, tx, of, expected, &k);
	result = mtr_purse_take(&w.purse, w.clock, amount, tx->own, part, &n);
	if (result == MTR_TAKE_AGAIN && w.purse.mode == MTR_PURSE_UNLIMITED &&
		amount > MTR_PURSE_MAX - before.cell[MTR_PURSE_ISSUED].taken)
		should = result;
	REQUIRE(result == should, "take %ld says %d, should say %d", (long) amount,
			result, should);
	sim_trace("take %ld: %d", (long) amount, result);
	w.stats.ok += result == MTR_TAKE_OK;
	w.stats.short_of += result == MTR_TAKE_SHORT;
	w.stats.again += result == MTR_TAKE_AGAIN;
	if (result != MTR_TAKE_OK)
	{
		before.reload_wanted = w.purse.reload_wanted;
		REQUIRE(memcmp(&before, &w.purse, sizeof(before)) == 0,
				"a refusal has changed the purse");
		REQUIRE(result != MTR_TAKE_AGAIN || w.purse.reload_wanted,
				"again, but nobody loads");
		return false;
	}
	REQUIRE(n == k, "take %ld has %d parts, should have %d", (long) amount, n,
			k);
	for (int i = 0; i < n; i++)
	{
		REQUIRE(source_of(part[i].cell) == of[i] &&
					part[i].amount == expected[i],
				"part %d of %ld is %ld of %d, should be %ld of %d", i,
				(long) amount, (long) part[i].amount, source_of(part[i].cell),
				(long) expected[i], of[i]);
		note(tx, kind, of[i], part[i].cell, part[i].amount);
	}
	return true;
}

/* often all that can be spent, or one more */
static int64_t
debit_amount(const struct tx *tx)
{
	int64_t x = mtr_purse_spendable(&w.purse, tx->own) + sim_below(2);

	return x > 0 && x <= MTR_PURSE_MAX && sim_percent(20) ? x : sim_amount();
}

static void
act_usage(struct tx *tx)
{
	int      n = 1 + (int) sim_below(3);
	int      slot[3];
	int64_t  qty[3];
	int64_t  total = 0;
	uint32_t counters = 0;

	for (int i = 0; i < n; i++)
	{
		const struct counter *c;
		int64_t               cost;

		slot[i] = (int) sim_below(SLOTS);
		/* meters differ within one call, so do their counters */
		if (counters & (1u << w.slot[slot[i]].counter))
			return;
		counters |= 1u << w.slot[slot[i]].counter;
		c = &w.counter[w.slot[slot[i]].counter];
		qty[i] = (int64_t) ((__int128) sim_amount() * c->per_units /
							(c->num_uc + 1) % (INT64_MAX / 1000000)) +
				 1;
		if (c->priced > MAX_QUANTITY - qty[i])
			return;
		if (!mtr_price_step(c->priced, qty[i], c->num_uc, c->per_units,
							&cost) ||
			cost > MTR_PURSE_MAX)
			cost = INT64_MAX / 4;
		total += cost;
	}
	/* room for what was noted: all or nothing */
	if (tx->n + n + MTR_PURSE_SOURCES > RECORDS)
		return;
	if (total > 0 && !take(tx, total, BURN))
		return;
	for (int i = 0; i < n; i++)
	{
		w.slot[slot[i]].taken += qty[i];
		w.counter[w.slot[slot[i]].counter].priced += qty[i];
		note(tx, USAGE, slot[i], -1, qty[i]);
	}
}

static int
free_row(void)
{
	for (int g = 0; g < GRANTS; g++)
		if (!w.t.row[g].used)
			return g;
	return -1;
}

static void
draw_grant(struct mtr_grant *g, int row)
{
	static const int64_t life[] = {1, 10, 100, 1000, 10000};

	memset(g, 0, sizeof(*g));
	w.serial++;
	g->id[0] = (uint8_t) row;
	/* ids are no order: the serial stands in them backwards */
	for (int i = 0; i < 8; i++)
		g->id[15 - i] = (uint8_t) (w.serial * 0x9e3779b97f4a7c15u >> 8 * i);
	if (__builtin_mul_overflow(sim_amount(), 1 + sim_below(20), &g->amount) ||
		g->amount > MTR_PURSE_MAX)
		g->amount = MTR_PURSE_MAX;
	g->remaining = g->amount;
	g->priority = (int16_t) (sim_below(3) * 50);
	g->category = (uint8_t) sim_below(2);
	g->effective_at = w.clock;
	if (sim_percent(25))
		g->effective_at += sim_below(3 * w.mood.pace * life[sim_below(4)] + 2);
	g->expires_at = MTR_PURSE_NEVER;
	if (sim_percent(70))
		g->expires_at = g->effective_at + 1 +
						sim_below(w.mood.pace * life[sim_below(5)] + 2);
}

static void
act_grant(struct tx *tx)
{
	int               row = free_row();
	struct mtr_grant *g;
	int               cell;

	if (row < 0 || tx->n == RECORDS)
		return;
	g = &w.t.row[row].g;
	draw_grant(g, row);
	mtr_purse_advance(&w.purse, w.clock);
	m_advance(w.clock);
	if (!mtr_purse_fits(&w.purse, g->amount) ||
		!mtr_purse_fits(&w.purse, g->amount + w.incoming))
		return;
	w.t.row[row].used = true;
	w.t.row[row].committed = false;
	w.t.row[row].ledger = 0;
	w.t.burned[row] = 0;
	m.g[row] = (struct model_grant){.where = NOWHERE};
	cell = mtr_purse_add(&w.purse, w.clock, g, true);
	sim_trace("grant %d: %ld, cell %d, %ld..%ld", row, (long) g->amount, cell,
			  (long) g->effective_at, (long) g->expires_at);
	if (cell >= 0)
	{
		m_add(row, g->amount);
		m_lose_cells(row);
		tx->own |= 1u << cell;
	}
	else
		w.incoming += g->amount;
	note(tx, GRANT, row, cell, g->amount);
}

static void
act_void(struct tx *tx)
{
	int     cell = (int) sim_below(MTR_PURSE_CELLS);
	int     state;
	int64_t x;
	int64_t most = sim_percent(50) ? MTR_PURSE_MAX : sim_amount();
	int64_t should = 0;
	int     g;

	mtr_purse_advance(&w.purse, w.clock);
	m_advance(w.clock);
	state = w.purse.cell[cell].state;
	if (state == MTR_CELL_FREE || tx->n == RECORDS)
		return;
	g = source_of(cell);
	if (m.g[g].where == LIVE || m.g[g].where == FUTURE)
		should = m_remaining(g) < most ? m_remaining(g) : most;
	x = mtr_purse_take_cell(&w.purse, w.clock, cell, most);
	sim_trace("void %ld of %d", (long) x, g);
	REQUIRE(x == should, "void takes %ld of %d, should take %ld", (long) x, g,
			(long) should);
	m.g[g].taken += x;
	if (x > 0)
		note(tx, VOID, g, cell, x);
}

/* gives back a charge that is committed; memory learns it at commit */
static void
act_refund(struct tx *tx)
{
	struct charge *c = &w.charge[sim_below(CHARGES)];
	int64_t        x;
	int            cell = c->of - OF_DEBT + MTR_PURSE_DEBT;

	if (c->amount == 0 || tx->n == RECORDS)
		return;
	x = 1 + sim_below(c->amount);
	if (c->of < GRANTS)
		cell = mtr_purse_find(&w.purse, w.t.row[c->of].g.id);
	mtr_purse_advance(&w.purse, w.clock);
	m_advance(w.clock);
	if (!mtr_purse_fits(&w.purse, x + w.incoming) ||
		(cell < 0 && w.scale > INT64_C(1) << 50))
		return;
	sim_trace("refund %ld to %d", (long) x, c->of);
	c->amount -= x;
	w.incoming += x;
	note(tx, REFUND, c->of, cell, x);
}

static void
undo(struct tx *tx, const struct record *r)
{
	struct counter *c;
	int64_t         cost = 0;

	switch (r->kind)
	{
		case USAGE:
			c = &w.counter[w.slot[r->of].counter];
			REQUIRE(mtr_price_step(c->priced - r->amount, r->amount, c->num_uc,
								   c->per_units, &cost),
					"what was paid cannot be priced");
			c->priced -= r->amount;
			w.slot[r->of].taken -= r->amount;
			tx->back += cost;
			break;
		case BURN:
			tx->given += r->amount;
			/* fall through */
		case DEBIT:
		case VOID:
			mtr_purse_back(&w.purse, w.clock, r->cell, r->amount);
			m_advance(w.clock);
			m_back(r->of, r->amount);
			break;
		case GRANT:
			if (r->cell >= 0)
			{
				mtr_purse_drop(&w.purse, r->cell);
				m_drop(r->of);
				tx->own &= ~(1u << r->cell);
			}
			else
				w.incoming -= r->amount;
			w.t.row[r->of].used = false;
			break;
		case REFUND:
			w.incoming -= r->amount;
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

static void
rollback_to_savepoint(struct tx *tx)
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

static void
release_savepoint(struct tx *tx)
{
	tx->level--;
	for (int i = 0; i < tx->n; i++)
		if (tx->record[i].level > tx->level)
			tx->record[i].level = tx->level;
}

void
tx_act(struct tx *tx)
{
	int what = (int) sim_below(100 + w.mood.grant + w.mood.refund);

	if (what < 60)
		act_usage(tx);
	else if (what < 75)
	{
		if (tx->n + MTR_PURSE_SOURCES <= RECORDS)
			(void) take(tx, debit_amount(tx), DEBIT);
	}
	else if (what < 80)
		act_void(tx);
	else if (what < 88)
		tx->level += tx->level < 4;
	else if (what < 94 && tx->level > 0)
		rollback_to_savepoint(tx);
	else if (what < 100 && tx->level > 0)
		release_savepoint(tx);
	else if (what < 100 + w.mood.grant)
		act_grant(tx);
	else
		act_refund(tx);
}

/* from here on it is in the tables */
static void
write_rows(const struct tx *tx)
{
	w.t.last = m.now;
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
		if (r->kind == DEBIT)
			w.charge[sim_below(CHARGES)] =
				(struct charge){.of = r->of, .amount = x};
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
	mtr_purse_add_behind(&w.purse, w.clock, g);
	m_behind(r->of, g->amount);
}

static void
finish(struct tx *tx, const struct record *r)
{
	struct slot *s = &w.slot[r->of < SLOTS ? r->of : 0];

	switch (r->kind)
	{
		case USAGE:
			mtr_ring_add(&s->ring, s->done, (int32_t) (w.clock / 1000),
						 s->flushed);
			minutes_add(r->of, (int32_t) (w.clock / 1000), r->amount);
			s->done += r->amount;
			w.counter[s->counter].done += r->amount;
			break;
		case BURN:
			mtr_purse_burn(&w.purse, r->cell, r->amount);
			m_burn(r->of, r->amount);
			break;
		case GRANT:
			arrive(r);
			break;
		case REFUND:
			w.incoming -= r->amount;
			tx->refunded = true;
			if (r->cell < 0)
			{
				/* it has no cell: whoever loads next finds it */
				w.purse.reload_wanted = true;
				break;
			}
			mtr_purse_back(&w.purse, w.clock, r->cell, r->amount);
			m_advance(w.clock);
			m_back(r->of, r->amount);
			break;
		case DEBIT:
		case VOID:
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
	for (int i = 0; i < MTR_PURSE_SOURCES; i++)
		if (tx->refs & (1u << i))
			w.purse.cell[i].refs--;
	tx->state = TX_NONE;
}

void
tx_set_mode(void)
{
	int mode = sim_percent(w.mood.unlimited)
				   ? MTR_PURSE_UNLIMITED
				   : (sim_percent(60) ? MTR_PURSE_HARD : MTR_PURSE_SOFT);

	w.purse.mode = w.t.mode = (uint8_t) mode;
	w.purse.floor = w.t.floor =
		sim_percent(50) ? 0 : -(sim_amount() % MTR_PURSE_MAX);
}
