/*
 * act.c - what calls do within a transaction
 *
 * The glue between purse, prices and usage slots, as the server has it: usage
 * is priced and taken in one step, and its parts are noted.
 */
#include "model.h"

#include "core/price.h"

#include <string.h>

/* as the server has it */
#define MAX_QUANTITY (INT64_MAX / 4)

void
note(struct tx *tx, enum kind kind, int of, int cell, int64_t amount)
{
	tx->record[tx->n++] = (struct record){.kind = kind,
										  .level = tx->level,
										  .of = of,
										  .cell = cell,
										  .amount = amount};
	if (kind != USAGE)
		tx_hold(tx, cell);
}

static void
note_parts(struct tx *tx, enum kind kind, const struct mtr_part *part, int n,
		   const int *of, const int64_t *expected, int k)
{
	REQUIRE(n == k, "%d parts, should be %d", n, k);
	w.parts.n = n;
	for (int i = 0; i < n; i++)
	{
		REQUIRE(source_of(part[i].cell) == of[i] &&
					part[i].amount == expected[i],
				"part %d is %ld of %d, should be %ld of %d", i,
				(long) part[i].amount, source_of(part[i].cell),
				(long) expected[i], of[i]);
		w.parts.of[i] = of[i];
		w.parts.part[i] = part[i];
		if (kind == RESERVE)
			tx_hold(tx, part[i].cell);
		else
			note(tx, kind, of[i], part[i].cell, part[i].amount);
	}
}

/* all that cells have: the rest follows when there are others in cells */
static void
drain(struct tx *tx, int64_t amount)
{
	struct mtr_part part[MTR_PURSE_SOURCES];
	int64_t         expected[GRANTS + 2];
	int             of[GRANTS + 2];
	int64_t         sum;
	int             n;
	int             k;

	m_drain(amount, tx, of, expected, &k);
	sum = mtr_purse_drain(&w.purse, w.clock, amount, tx->own, part, &n);
	sim_trace("drain %ld of %ld", (long) sum, (long) amount);
	w.stats.drained += n;
	note_parts(tx, DEBIT, part, n, of, expected, k);
}

/* false: it was refused, and nothing has changed */
static bool
take_within(struct tx *tx, int64_t amount, enum kind kind)
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
		if (result == MTR_TAKE_AGAIN && kind == DEBIT && sim_percent(50))
			drain(tx, amount);
		return false;
	}
	note_parts(tx, kind, part, n, of, expected, k);
	return true;
}

bool
take(struct tx *tx, int64_t amount, enum kind kind)
{
	uint8_t mode = w.purse.mode;
	int64_t floor = w.purse.floor;
	bool    ok;

	if (tx->limits)
	{
		w.purse.mode = tx->mode;
		w.purse.floor = tx->floor;
	}
	ok = take_within(tx, amount, kind);
	w.purse.mode = mode;
	w.purse.floor = floor;
	return ok;
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
	bool     is_sync = sim_percent(w.mood.sync) && queue_has_room();

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
	if (total > 0 && !take(tx, total, is_sync ? SYNC_BURN : BURN))
		return;
	for (int i = 0; i < n; i++)
	{
		w.slot[slot[i]].taken += qty[i];
		w.counter[w.slot[slot[i]].counter].priced += qty[i];
		w.counter[w.slot[slot[i]].counter].queued += is_sync ? qty[i] : 0;
		note(tx, is_sync ? SYNC : USAGE, slot[i], -1, qty[i]);
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
	w.version++;
	cell = add_incoming(row);
	sim_trace("grant %d: %ld, cell %d, %ld..%ld", row, (long) g->amount, cell,
			  (long) g->effective_at, (long) g->expires_at);
	if (cell >= 0)
		tx->own |= 1u << cell;
	else
	{
		w.incoming += g->amount;
		w.giving += !tx_is_giving(tx);
		tx->behind++;
	}
	note(tx, GRANT, row, cell, g->amount);
}

/* a grant of which something is wanted: it must have a cell */
static int
draw_known(struct tx *tx, int of)
{
	int cell = of == OF_DEBT || of == OF_ISSUED
				   ? of - OF_DEBT + MTR_PURSE_DEBT
				   : mtr_purse_find(&w.purse, w.t.row[of].g.id);

	if (cell < 0 && w.t.row[of].g.expires_at > w.clock)
		refill_begin(tx, of);
	return cell;
}

/* not another's that is not committed */
static bool
is_foreign(const struct tx *tx, int g)
{
	if (w.t.row[g].committed)
		return false;
	for (int i = 0; i < tx->n; i++)
		if (tx->record[i].kind == GRANT && tx->record[i].of == g)
			return false;
	return true;
}

static void
act_void(struct tx *tx)
{
	int     g = (int) sim_below(GRANTS);
	int     cell;
	int64_t x;
	int64_t most = sim_percent(50) ? MTR_PURSE_MAX : sim_amount();
	int64_t should = 0;

	mtr_purse_advance(&w.purse, w.clock);
	m_advance(w.clock);
	if (!w.t.row[g].used || is_foreign(tx, g) || tx->n == RECORDS)
		return;
	cell = draw_known(tx, g);
	if (cell < 0)
		return;
	if (m.g[g].where != ENDED)
		should = m_remaining(g) < most ? m_remaining(g) : most;
	x = mtr_purse_take_cell(&w.purse, w.clock, cell, most);
	sim_trace("void %ld of %d", (long) x, g);
	REQUIRE(x == should, "void takes %ld of %d, should take %ld", (long) x, g,
			(long) should);
	m.g[g].taken += x;
	if (x > 0)
		note(tx, VOID, g, cell, x);
}

/*
 * One of a grant that has ended, has no cell, and has got back something else: together
 * it would be more than was spent of it.  NULL: there is none.
 */
static struct charge *
draw_excess(void)
{
	for (int i = 0; i < CHARGES; i++)
	{
		int of = w.charge[i].of;

		if (w.charge[i].amount > 0 && of < GRANTS && w.t.burned[of] < 0 &&
			m.g[of].where == NOWHERE && w.t.row[of].g.expires_at <= w.clock)
			return &w.charge[i];
	}
	return NULL;
}

/* gives back a charge that is committed; memory learns it at commit */
static void
act_refund(struct tx *tx, struct charge *c)
{
	int64_t x;
	int     cell;

	if (c->amount == 0 || tx->n == RECORDS)
		return;
	mtr_purse_advance(&w.purse, w.clock);
	m_advance(w.clock);
	x = sim_percent(30) ? c->amount : 1 + sim_below(c->amount);
	cell = draw_known(tx, c->of);
	if (w.refill.tx == tx || !mtr_purse_fits(&w.purse, x + w.incoming) ||
		(cell < 0 && w.t.row[c->of].g.expires_at > w.purse.now))
		return;
	sim_trace("refund %ld to %d", (long) x, c->of);
	c->amount -= x;
	w.incoming += x;
	if (cell < 0 && !tx->gone)
	{
		tx->gone = true;
		w.gone++;
	}
	note(tx, REFUND, c->of, cell, x);
}

/* limits that hold for their own transaction at once, for others at commit */
static void
act_limits(struct tx *tx)
{
	for (int i = 0; i < TXS; i++)
		if (w.tx[i].state != TX_NONE && w.tx[i].limits)
			return;
	tx->limits = true;
	tx->mode = sim_percent(w.mood.unlimited)
				   ? MTR_PURSE_UNLIMITED
				   : (sim_percent(60) ? MTR_PURSE_HARD : MTR_PURSE_SOFT);
	tx->floor = sim_percent(50) ? 0 : -(sim_amount() % MTR_PURSE_MAX);
}

void
tx_act(struct tx *tx)
{
	int what =
		(int) sim_below(100 + w.mood.grant + w.mood.refund + w.mood.reserve);
	struct charge *excess = draw_excess();

	if (excess != NULL && sim_percent(20))
		act_refund(tx, excess);
	else if (what < 60)
		act_usage(tx);
	else if (what < 75)
	{
		if (tx->n + MTR_PURSE_SOURCES <= RECORDS &&
			!take(tx, debit_amount(tx), DEBIT) && sim_percent(70))
		{
			tx_detach(tx);
			refill_begin(tx, -1);
		}
	}
	else if (what < 78)
		act_void(tx);
	else if (what < 79)
		tx_detach(tx);
	else if (what < 80)
		act_limits(tx);
	else if (what < 88)
		tx->level += tx->level < 4;
	else if (what < 94 && tx->level > 0)
		tx_rollback_to_savepoint(tx);
	else if (what < 100 && tx->level > 0)
		tx_release_savepoint(tx);
	else if (what < 100 + w.mood.grant)
		act_grant(tx);
	else if (what < 100 + w.mood.grant + w.mood.refund)
		act_refund(tx, &w.charge[sim_below(CHARGES)]);
	else
		act_reserve(tx);
}
