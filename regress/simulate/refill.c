/*
 * refill.c - grants on their way from tables into cells
 *
 * As in the server: who reads notes which grants have a cell, reads the
 * others, and puts them into the purse if nobody else has got a cell or lost
 * one meanwhile.  Anything may happen between these three.
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

int64_t
in_tables(int g)
{
	return (int64_t) (w.t.row[g].g.amount - w.t.row[g].ledger - w.t.burned[g] -
					  queued_of(g));
}

/*
 * A crash may leave a grant with more than it is worth, or less than nothing;
 * a refund to one that has ended, with more.
 */
bool
is_uneven(int g)
{
	return in_tables(g) < 0 || in_tables(g) > w.t.row[g].g.amount;
}

static int64_t listed_at;

static int
compare_rows(const void *a, const void *b)
{
	int  x = *(const int *) a;
	int  y = *(const int *) b;
	bool later_x = w.t.row[x].g.effective_at > listed_at;
	bool later_y = w.t.row[y].g.effective_at > listed_at;

	if (is_uneven(x) != is_uneven(y))
		return is_uneven(x) ? -1 : 1;
	if (later_x != later_y)
		return later_x ? 1 : -1;
	return m_burns_before(x, y) ? -1 : 1;
}

int
list_grants(int list[], int64_t remaining[], const bool except[], int wanted,
			int64_t now)
{
	int n = 0;

	for (int g = 0; g < GRANTS; g++)
	{
		const struct row *row = &w.t.row[g];

		if (!row->used || !row->committed || (except != NULL && except[g]))
			continue;
		if (is_uneven(g) ||
			(row->g.expires_at > now && (in_tables(g) > 0 || g == wanted)))
			list[n++] = g;
	}
	listed_at = now;
	qsort(list, (size_t) n, sizeof(int), compare_rows);
	for (int i = 0; i < n; i++)
	{
		remaining[i] = in_tables(list[i]);
		w.stats.uneven += is_uneven(list[i]);
	}
	return n;
}

static int
add(int row, int64_t remaining, int64_t now, bool incoming)
{
	struct mtr_grant g = w.t.row[row].g;
	int              cell;

	g.remaining = remaining;
	cell = mtr_purse_add(&w.purse, now, &g, incoming);
	m_advance(now);
	if (cell < 0)
		return -1;
	m_add(row, remaining);
	m_lose_cells(row);
	if (!incoming)
		m_arrive(row);
	return cell;
}

/* the model says which one gives way */
static bool
demote(int than, int64_t now)
{
	int     sources[MTR_PURSE_CELLS];
	int     expected;
	int     cell;
	int64_t remaining;

	mtr_purse_advance(&w.purse, now);
	m_advance(now);
	for (int i = 0; i < MTR_PURSE_CELLS; i++)
		sources[i] = w.purse.cell[i].state == MTR_CELL_FREE ? -1 : source_of(i);
	expected = m_demote(than);
	cell = mtr_purse_demote(&w.purse, now, than < 0 ? NULL : &w.t.row[than].g);
	REQUIRE((cell < 0 ? -1 : sources[cell]) == expected,
			"grant %d gives way, should be %d", cell < 0 ? -1 : sources[cell],
			expected);
	if (cell < 0)
		return false;
	sim_trace("grant %d loses cell %d", expected, cell);
	w.stats.demoted++;
	REQUIRE(in_flight(expected) == loose_of(NULL, expected) &&
				in_flight(OF_DEBT) == 0 && !flush_names(expected),
			"grant %d gives way while in use", expected);
	remaining = m_remaining(expected);
	m.g[expected].where = NOWHERE;
	m_behind(expected, remaining);
	return true;
}

static int
place(int row, int64_t remaining, int64_t now)
{
	struct mtr_grant g = w.t.row[row].g;
	int              cell = add(row, remaining, now, false);

	if (cell < 0 && g.effective_at <= now && demote(row, now))
		cell = add(row, remaining, now, false);
	if (cell >= 0)
		return cell;
	g.remaining = remaining;
	mtr_purse_add_behind(&w.purse, now, &g);
	m_behind(row, remaining);
	return -1;
}

/* the server's way: few get cells, the rest is added in one step */
struct queue
{
	struct mtr_grant  g[GRANTS];
	int               n;
	int               tail;
	int               later;
	int               later_tail;
	int64_t           event;
	struct mtr_behind behind;
};

static void
queue_up(struct queue *q, const int list[], const int64_t remaining[], int n,
		 int64_t read_at)
{
	struct mtr_behind ahead = {0};
	int               full = 0;
	int               i = 0;

	memset(q, 0, sizeof(*q));
	q->n = n;
	for (int k = 0; k < n; k++)
	{
		q->g[k] = w.t.row[list[k]].g;
		q->g[k].remaining = remaining[k];
	}
	for (; i < n && full < MTR_PURSE_CELLS; i++)
	{
		if (!is_uneven(list[i]) && q->g[i].effective_at > read_at)
			break;
		full += !is_uneven(list[i]) && remaining[i] > 0;
	}
	q->tail = i;
	while (i < n && (is_uneven(list[i]) || q->g[i].effective_at <= read_at))
		i++;
	q->later = i;
	q->later_tail = i + MTR_PURSE_CELLS < n ? i + MTR_PURSE_CELLS : n;
	for (i = 0; i < n; i++)
		mtr_behind_count(i < q->tail || (i >= q->later && i < q->later_tail)
							 ? &ahead
							 : &q->behind,
						 read_at, &q->g[i]);
	q->event = ahead.n > 0 ? ahead.event : MTR_PURSE_NEVER;
	if (q->behind.n > 0 && q->behind.event < q->event)
		q->event = q->behind.event;
}

static void
place_range(struct mtr_purse *p, const struct queue *q, int from, int upto,
			int64_t now)
{
	for (int i = from; i < upto; i++)
	{
		int cell = mtr_purse_add(p, now, &q->g[i], false);

		if (cell < 0 && q->g[i].effective_at <= now &&
			mtr_purse_demote(p, now, &q->g[i]) >= 0)
			cell = mtr_purse_add(p, now, &q->g[i], false);
		if (cell < 0)
			mtr_purse_add_behind(p, now, &q->g[i]);
	}
}

static void
place_queue(struct mtr_purse *p, const struct queue *q, int64_t now)
{
	mtr_purse_advance(p, now);
	if (q->event <= p->now)
	{
		place_range(p, q, 0, q->n, now);
		return;
	}
	place_range(p, q, 0, q->tail, now);
	place_range(p, q, q->later, q->later_tail, now);
	w.stats.queued += q->behind.n > 0;
	if (!mtr_purse_add_all_behind(p, now, &q->behind))
	{
		place_range(p, q, q->tail, q->later, now);
		place_range(p, q, q->later_tail, q->n, now);
	}
}

void
load_grants(const int list[], const int64_t remaining[], int n, int64_t now,
			int64_t read_at, int64_t unpaid)
{
	struct mtr_purse other = w.purse;
	struct queue     q;

	queue_up(&q, list, remaining, n, read_at);
	place_queue(&other, &q, now);
	for (int i = 0; i < n; i++)
		(void) place(list[i], remaining[i], now);
	REQUIRE(memcmp(&other, &w.purse, sizeof(other)) == 0,
			"placed in one step, the purse is another one");
	mtr_purse_settle(&w.purse, now, -unpaid);
	m_settle(-unpaid);
}

int
add_incoming(int row)
{
	int64_t amount = w.t.row[row].g.amount;
	int     cell = add(row, amount, w.clock, true);

	if (cell < 0 && demote(-1, w.clock))
		cell = add(row, amount, w.clock, true);
	return cell;
}

void
refill_forget(void)
{
	w.refill.tx = NULL;
}

/* one reader at a time, and only when tables show no grant before memory does */
void
refill_begin(struct tx *tx, int wanted)
{
	struct refill *r = &w.refill;

	if (r->tx != NULL || w.giving != (tx_is_giving(tx) ? 1 : 0))
	{
		w.stats.waits++;
		return;
	}
	r->tx = tx;
	r->read = false;
	r->version = w.version;
	r->wanted = wanted;
	for (int g = 0; g < GRANTS; g++)
		r->known[g] = m.g[g].where >= INCOMING;
	sim_trace("refill begins");
}

static void
place_wanted(struct refill *r, int i, int64_t now)
{
	int cell = add(r->list[i], r->remaining[i], now, false);

	if (cell < 0 && demote(-1, now))
		cell = add(r->list[i], r->remaining[i], now, false);
	if (cell < 0)
		return;
	tx_hold(r->tx, cell);
	r->n--;
	memmove(&r->list[i], &r->list[i + 1], sizeof(int) * (size_t) (r->n - i));
	memmove(&r->remaining[i], &r->remaining[i + 1],
			sizeof(int64_t) * (size_t) (r->n - i));
}

/* not while something comes back to some of them that no cell would learn of */
static void
skip_ended(struct refill *r)
{
	int kept = 0;

	for (int i = 0; i < r->n; i++)
	{
		if (w.t.row[r->list[i]].g.expires_at <= w.purse.now)
			continue;
		r->list[kept] = r->list[i];
		r->remaining[kept++] = r->remaining[i];
	}
	w.stats.skipped += r->n - kept;
	r->n = kept;
}

static void
apply(struct refill *r)
{
	int64_t now = r->now > w.t.last ? r->now : w.t.last;

	if (w.version != r->version || w.giving != (tx_is_giving(r->tx) ? 1 : 0))
	{
		w.stats.stale_refills++;
		return;
	}
	w.version++;
	w.stats.refills++;
	mtr_purse_forget_behind(&w.purse, now);
	m_advance(now);
	m_forget_behind();
	if (w.gone > 0)
		skip_ended(r);
	for (int i = 0; i < r->n; i++)
		if (r->list[i] == r->wanted)
		{
			place_wanted(r, i, now);
			break;
		}
	load_grants(r->list, r->remaining, r->n, now, r->now, 0);
	sim_trace("refilled, available %ld", (long) w.purse.available);
}

/* who reads knows what it has spent itself of grants that have no cell */
static void
subtract_loose(struct refill *r)
{
	int kept = 0;

	for (int i = 0; i < r->n; i++)
	{
		int64_t loose = (int64_t) loose_of(r->tx, r->list[i]);

		r->list[kept] = r->list[i];
		r->remaining[kept] = r->remaining[i] - loose;
		if (loose == 0 || r->remaining[kept] != 0 || r->list[i] == r->wanted)
			kept++;
	}
	r->n = kept;
}

void
refill_go_on(void)
{
	struct refill *r = &w.refill;

	if (!r->read)
	{
		/* as the purse will see it, whose time does not run back */
		r->now = w.clock > w.purse.now ? w.clock : w.purse.now;
		r->n = list_grants(r->list, r->remaining, r->known, r->wanted, r->now);
		subtract_loose(r);
		r->read = true;
		return;
	}
	apply(r);
	r->tx = NULL;
}
