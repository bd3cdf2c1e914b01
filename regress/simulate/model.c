/*
 * model.c - what should be, by the rules, in plain arrays (see model.h)
 */
#include "model.h"

#include <string.h>

struct model m;

static int64_t
min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t
m_remaining(int g)
{
	switch (m.g[g].where)
	{
		case INCOMING:
		case FUTURE:
		case LIVE:
			return w.t.row[g].g.amount - m.g[g].taken;
		default:
			return 0;
	}
}

bool
m_stale(void)
{
	for (int g = 0; g < GRANTS; g++)
		if (m.g[g].where == BEHIND && m.g[g].event <= m.now)
			return true;
	return false;
}

int64_t
m_available(void)
{
	int64_t sum = -m.debt;

	for (int g = 0; g < GRANTS; g++)
	{
		if (m.g[g].where == LIVE)
			sum += m_remaining(g);
		if (m.g[g].where == BEHIND)
			sum += m.g[g].counted;
	}
	return sum;
}

bool
m_burns_before(int a, int b)
{
	const struct mtr_grant *x = &w.t.row[a].g;
	const struct mtr_grant *y = &w.t.row[b].g;

	if (x->priority != y->priority)
		return x->priority < y->priority;
	if (x->expires_at != y->expires_at)
		return x->expires_at < y->expires_at;
	if (x->category != y->category)
		return x->category == MTR_GRANT_PROMO;
	if (x->effective_at != y->effective_at)
		return x->effective_at < y->effective_at;
	return memcmp(x->id, y->id, sizeof(x->id)) < 0;
}

/* all grants that are there, in burn order */
int
m_sorted(enum where where, int list[GRANTS])
{
	int n = 0;

	for (int g = 0; g < GRANTS; g++)
	{
		int i = n;

		if (m.g[g].where != where)
			continue;
		for (; i > 0 && m_burns_before(g, list[i - 1]); i--)
			list[i] = list[i - 1];
		list[i] = g;
		n++;
	}
	return n;
}

static void
repay_from(int g, int64_t most)
{
	int64_t x = min64(most, m.debt);

	m.debt -= x;
	m.burned_debt -= x;
	m.g[g].burned += x;
	w.stats.repaid += x > 0;
}

static void
begins(int g)
{
	int64_t before = m.debt;

	m.g[g].where = LIVE;
	repay_from(g, m_remaining(g));
	m.g[g].taken += before - m.debt;
}

void
m_init(int64_t now)
{
	for (int g = 0; g < GRANTS; g++)
		m.g[g] = (struct model_grant){.burned = w.t.burned[g]};
	m.now = now;
	m.debt = 0;
	m.spare = 0;
	m.burned_debt = w.t.burned[OF_DEBT];
	m.burned_issued = w.t.burned[OF_ISSUED];
}

/* the next instant at which a grant in a cell starts or ends */
static int64_t
next_instant(void)
{
	int64_t at = MTR_PURSE_NEVER;

	for (int g = 0; g < GRANTS; g++)
	{
		if (m.g[g].where == FUTURE)
			at = min64(at, w.t.row[g].g.effective_at);
		if (m.g[g].where == LIVE)
			at = min64(at, w.t.row[g].g.expires_at);
	}
	return at;
}

void
m_advance(int64_t now)
{
	int     list[GRANTS];
	int64_t at;

	if (now <= m.now)
		return;
	while ((at = next_instant()) <= now && at != MTR_PURSE_NEVER)
	{
		int n;

		m.now = at;
		for (int g = 0; g < GRANTS; g++)
			if (m.g[g].where == LIVE && w.t.row[g].g.expires_at == at)
				m.g[g].where = ENDED;
		n = m_sorted(FUTURE, list);
		for (int i = 0; i < n; i++)
			if (w.t.row[list[i]].g.effective_at == at)
				begins(list[i]);
	}
	m.now = now;
}

void
m_owe(int64_t debt)
{
	if (debt >= 0)
		m.debt = debt;
	else
	{
		m.burned_debt -= debt;
		m.spare -= debt;
	}
}

void
m_add(int g, int64_t remaining)
{
	int64_t amount = w.t.row[g].g.amount;
	int64_t over = remaining > amount ? remaining - amount : 0;

	if (remaining < 0)
		over = remaining;
	m.g[g].where = INCOMING;
	m.g[g].taken = amount - (remaining - over);
	m.g[g].burned += over;
	m.spare += over;
}

void
m_arrive(int g)
{
	const struct mtr_grant *row = &w.t.row[g].g;

	if (row->expires_at <= m.now)
		m.g[g].where = ENDED;
	else if (row->effective_at > m.now)
		m.g[g].where = FUTURE;
	else
		begins(g);
}

void
m_behind(int g, int64_t remaining)
{
	const struct mtr_grant *row = &w.t.row[g].g;

	if (row->expires_at <= m.now || remaining <= 0)
		return;
	w.stats.behind++;
	m.g[g].where = BEHIND;
	m.g[g].counted = row->effective_at <= m.now ? remaining : 0;
	m.g[g].event =
		row->effective_at <= m.now ? row->expires_at : row->effective_at;
}

/* of a grant that had lost its cell, to wherever it is now */
void
m_return(int g, int64_t x)
{
	int64_t counted = m.g[g].where == BEHIND ? m.g[g].counted : 0;

	if (m.g[g].where >= INCOMING)
	{
		m_back(g, x);
		return;
	}
	m_behind(g, x);
	if (m.g[g].where == BEHIND)
		m.g[g].counted += counted;
}

/* nothing is left of it, nothing unwritten, and nobody else has to do with it */
bool
m_may_detach(int g, const struct tx *tx)
{
	for (int i = 0; i < TXS; i++)
		for (int k = 0; w.tx[i].state != TX_NONE && k < w.tx[i].n; k++)
		{
			const struct record *r = &w.tx[i].record[k];

			if (r->kind != USAGE && r->kind != RESERVE && r->of == g &&
				&w.tx[i] != tx && r->cell >= 0)
				return false;
		}
	return m.g[g].where >= LIVE && m_remaining(g) == 0 &&
		   m.g[g].burned == w.t.burned[g] && !w.purse.flushing;
}

void
m_drop(int g)
{
	REQUIRE(m.g[g].taken == 0, "grant %d is dropped and was spent", g);
	m.g[g].where = NOWHERE;
}

/* a grant may only give its cell to another when nothing can come back to it */
void
m_lose_cells(int added)
{
	for (int g = 0; g < GRANTS; g++)
	{
		if (g == added || m.g[g].where < INCOMING ||
			mtr_purse_find(&w.purse, w.t.row[g].g.id) >= 0)
			continue;
		REQUIRE(m.g[g].where >= LIVE, "grant %d lost its cell early", g);
		REQUIRE(m_remaining(g) == 0, "grant %d lost its cell with credits", g);
		REQUIRE(m.g[g].burned == w.t.burned[g],
				"grant %d lost its cell with burns unwritten", g);
		REQUIRE(in_flight(g) == loose_of(NULL, g),
				"grant %d lost its cell while in use", g);
		REQUIRE(in_flight(OF_DEBT) == 0,
				"grant %d lost its cell and may have repaid debt in flight", g);
		REQUIRE(!w.purse.flushing && !flush_names(g),
				"grant %d lost its cell during a flush", g);
		m.g[g].where = NOWHERE;
	}
}

void
m_forget_behind(void)
{
	for (int g = 0; g < GRANTS; g++)
		if (m.g[g].where == BEHIND)
			m.g[g].where = NOWHERE;
}

/* tables know all about it, and nobody is about to change that */
static bool
at_rest(int g)
{
	int cell = mtr_purse_find(&w.purse, w.t.row[g].g.id);

	for (int i = 0; i < TXS; i++)
		if (w.tx[i].state != TX_NONE &&
			(w.tx[i].refs & (1u << cell | 1u << MTR_PURSE_DEBT)))
			return false;
	return m.g[g].burned == w.t.burned[g] && !w.purse.flushing &&
		   !is_reserved(g) && !is_reserved(OF_DEBT) &&
		   !(w.flush.drain.refs & (1u << cell));
}

int
m_demote(int than)
{
	int list[GRANTS];

	for (int n = m_sorted(FUTURE, list); n-- > 0;)
		if (at_rest(list[n]))
			return list[n];
	for (int n = m_sorted(LIVE, list); n-- > 0;)
		if ((than < 0 || m_burns_before(than, list[n])) && at_rest(list[n]))
			return list[n];
	return -1;
}

/* to grants there, the last to burn first */
static int64_t
give_to(enum where where, int64_t x)
{
	int list[GRANTS];
	int n = m_sorted(where, list);

	while (n-- > 0 && x > 0)
	{
		struct model_grant *g = &m.g[list[n]];
		int64_t             part = min64(x, g->taken);

		g->taken -= part;
		g->burned -= part;
		x -= part;
	}
	return x;
}

static int64_t
give(int64_t x)
{
	int64_t part = min64(x, m.debt);

	m.debt -= part;
	m.burned_debt -= part;
	x = give_to(LIVE, x - part);
	return give_to(ENDED, x);
}

void
m_burn(int of, int64_t x)
{
	if (of == OF_DEBT)
		m.burned_debt += x;
	else if (of == OF_ISSUED)
		m.burned_issued += x;
	else
		m.g[of].burned += x;
}

void
m_back(int of, int64_t x)
{
	int64_t part;

	if (of == OF_ISSUED)
		return;
	if (of == OF_DEBT)
	{
		part = min64(x, m.debt);
		m.debt -= part;
	}
	else
	{
		part = m.debt;
		if (m.g[of].where == LIVE)
			repay_from(of, x);
		x -= part - m.debt;
		part = min64(x, m.g[of].taken);
		m.g[of].taken -= part;
	}
	if (x > part)
	{
		m_burn(of, x - part);
		m.spare += give(x - part);
		w.stats.spares += m.spare > 0;
	}
}

void
m_settle(int64_t delta)
{
	int list[GRANTS];
	int n;

	if (w.purse.mode == MTR_PURSE_UNLIMITED)
	{
		m.burned_issued -= delta;
		delta = 0;
	}
	delta += m.spare;
	m.spare = 0;
	if (delta >= 0)
	{
		m.spare = give(delta);
		return;
	}
	n = m_sorted(LIVE, list);
	for (int i = 0; i < n; i++)
	{
		int64_t part = min64(-delta, m_remaining(list[i]));

		m.g[list[i]].taken += part;
		m.g[list[i]].burned += part;
		delta += part;
	}
	m.debt -= delta;
	m.burned_debt -= delta;
}

void
m_write_off_spare(void)
{
	for (int i = 0; i < TXS; i++)
		if (w.tx[i].state != TX_NONE && w.tx[i].refs != 0)
			return;
	for (int of = 0; of <= OF_DEBT; of++)
		if (is_reserved(of))
			return;
	m.burned_issued -= m.spare;
	w.stats.written_off += m.spare != 0;
	m.spare = 0;
}
