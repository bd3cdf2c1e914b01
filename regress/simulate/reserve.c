/*
 * reserve.c - quantities that are paid for before they are used
 *
 * As in the server: reserved within a transaction, then settled piece by piece,
 * released, or expired by a clock that never goes back, which is the count of steps.
 * What is expected of a reservation is worked out beside it, in plain arrays.
 */
#include "model.h"

#include "core/price.h"

#include <string.h>

/* as the server has it */
#define MAX_QUANTITY (INT64_MAX / 4)

bool
reservations_any(void)
{
	for (int i = 0; i < RESERVATIONS; i++)
		if (w.reservation[i].used)
			return true;
	return false;
}

bool
is_reserved(int of)
{
	return reserved_of(of) != 0;
}

int64_t
reserved_of(int of)
{
	int64_t sum = 0;

	for (int i = 0; i < RESERVATIONS; i++)
		for (int k = 0; w.reservation[i].used && k < w.reservation[i].left.n;
			 k++)
			if (w.reservation[i].left.of[k] == of)
				sum += w.reservation[i].left.part[k].amount;
	return sum;
}

static struct counter *
counter_of(const struct reservation *v)
{
	return &w.counter[w.slot[v->slot].counter];
}

/* the parts that it keeps are those that it should */
static void
check(const struct reservation *v)
{
	int64_t sum = 0;

	REQUIRE(v->r.n == v->left.n, "a reservation has %d parts, should be %d",
			v->r.n, v->left.n);
	for (int k = 0; k < v->left.n; k++)
	{
		REQUIRE(v->r.part[k].cell == v->left.part[k].cell &&
					v->r.part[k].amount == v->left.part[k].amount,
				"part %d of a reservation is %ld, should be %ld", k,
				(long) v->r.part[k].amount, (long) v->left.part[k].amount);
		sum += v->r.part[k].amount;
	}
	REQUIRE(mtr_reserve_left(&v->r) == v->qty - v->settled,
			"%ld is left of a reservation", (long) mtr_reserve_left(&v->r));
	REQUIRE(mtr_reserve_left_uc(&v->r) == sum,
			"a reservation keeps %ld, its parts are %ld",
			(long) mtr_reserve_left_uc(&v->r), (long) sum);
}

/* reservations hold so many grants at most */
static bool
fits(void)
{
	int  held = 0;
	bool real = mtr_reserve_fits(&w.purse, w.parts.part, w.parts.n);

	for (int g = 0; g < GRANTS; g++)
	{
		bool is_held = is_reserved(g);

		for (int k = 0; k < w.parts.n; k++)
			is_held = is_held || w.parts.of[k] == g;
		held += is_held;
	}
	REQUIRE(real == (held <= MTR_RESERVE_CELLS), "%d grants reserved: %d", held,
			real);
	return real;
}

/* as if it had not been taken */
static void
untake(void)
{
	static const int64_t own[MTR_PURSE_SOURCES];

	mtr_reserve_untake(&w.purse, w.clock, w.parts.part, own, w.parts.n);
	for (int k = w.parts.n - 1; k >= 0; k--)
		m_back(w.parts.of[k], w.parts.part[k].amount);
	w.stats.untaken++;
}

void
act_reserve(struct tx *tx)
{
	static const int64_t own[MTR_PURSE_SOURCES];
	struct reservation  *v = NULL;
	struct counter      *c;
	int64_t              qty;
	int64_t              cost;

	for (int i = 0; i < RESERVATIONS; i++)
		if (!w.reservation[i].used)
			v = &w.reservation[i];
	if (v == NULL || tx->n == RECORDS)
		return;
	v->slot = (int) sim_below(SLOTS);
	c = counter_of(v);
	qty = (int64_t) ((__int128) sim_amount() * c->per_units / (c->num_uc + 1) %
					 (INT64_MAX / 1000000)) +
		  1;
	if (c->priced > MAX_QUANTITY - qty ||
		!mtr_price_step(c->priced, qty, c->num_uc, c->per_units, &cost) ||
		cost > MTR_PURSE_MAX)
		return;
	w.parts.n = 0;
	if (cost > 0 && !take(tx, cost, RESERVE))
		return;
	if (!fits())
	{
		untake();
		return;
	}
	v->used = true;
	v->live = false;
	v->expires = w.stats.steps + 1 + sim_below(300);
	v->qty = qty;
	v->total = cost;
	v->settled = 0;
	v->left = w.parts;
	mtr_reserve_begin(&w.purse, &v->r, qty, w.parts.part, own, w.parts.n);
	c->priced += qty;
	w.slot[v->slot].taken += qty;
	note(tx, RESERVE, (int) (v - w.reservation), -1, qty);
	w.stats.reserved++;
	sim_trace("reserve %ld for %ld", (long) qty, (long) cost);
	check(v);
}

void
reservation_commit(int i)
{
	mtr_reserve_commit(&w.reservation[i].r);
	w.reservation[i].live = true;
}

void
reservation_end(int i)
{
	struct reservation *v = &w.reservation[i];
	struct counter     *c = counter_of(v);
	int64_t             left = v->qty - v->settled;
	int64_t             paid = 0;
	int64_t             worth;

	check(v);
	REQUIRE(
		mtr_price_step(c->priced - left, left, c->num_uc, c->per_units, &worth),
		"what was paid cannot be priced");
	c->priced -= left;
	w.slot[v->slot].taken -= left;
	mtr_reserve_release(&w.purse, w.clock, &v->r, worth);
	m_advance(w.clock);
	for (int k = 0; k < v->left.n; k++)
	{
		m_back(v->left.of[k], v->left.part[k].amount);
		paid += v->left.part[k].amount;
	}
	m_settle(worth - paid);
	sim_trace("reservation %d ends: %ld worth %ld, paid %ld", i, (long) left,
			  (long) worth, (long) paid);
	v->used = false;
}

/* of the whole so much has burned when so much of it has been used */
static int64_t
burned_at(const struct reservation *v, int64_t settled)
{
	return (int64_t) ((__int128) v->total * settled / v->qty);
}

static void
settle(struct reservation *v, int64_t qty)
{
	int64_t share = burned_at(v, v->settled + qty) - burned_at(v, v->settled);
	int64_t rest = share;
	int     used = 0;

	count_usage(v->slot, qty);
	v->settled += qty;
	REQUIRE(mtr_reserve_settle(&w.purse, &v->r, qty) == share,
			"%ld settled burn other than %ld", (long) qty, (long) share);
	sim_trace("settle %ld for %ld", (long) qty, (long) share);
	for (int k = 0; k < v->left.n && rest > 0; k++)
	{
		int64_t *part = &v->left.part[k].amount;
		int64_t  x = rest < *part ? rest : *part;

		m_burn(v->left.of[k], x);
		*part -= x;
		rest -= x;
		used += *part == 0;
	}
	v->left.n -= used;
	memmove(v->left.of, v->left.of + used, sizeof(int) * (size_t) v->left.n);
	memmove(v->left.part, v->left.part + used,
			sizeof(struct mtr_part) * (size_t) v->left.n);
	check(v);
	w.stats.settled++;
}

static void
settle_some(int i)
{
	struct reservation *v = &w.reservation[i];
	int64_t             left = v->qty - v->settled;

	settle(v, sim_percent(20) ? left : 1 + sim_below(left));
	v->expires = w.stats.steps + 1 + sim_below(300);
	if (v->settled == v->qty)
		reservation_end(i);
}

void
reservations_step(void)
{
	int                 i = (int) sim_below(RESERVATIONS);
	struct reservation *v = &w.reservation[i];

	if (!v->used || !v->live)
		return;
	if (v->expires <= w.stats.steps)
	{
		w.stats.expired++;
		reservation_end(i);
	}
	else if (sim_percent(70))
		settle_some(i);
	else if (sim_percent(30))
	{
		w.stats.released++;
		reservation_end(i);
	}
}

/* a clean stop, or tables that have to be read again */
void
reservations_end(void)
{
	for (int i = 0; i < RESERVATIONS; i++)
		if (w.reservation[i].used)
			reservation_end(i);
}

void
reservations_forget(void)
{
	for (int i = 0; i < RESERVATIONS; i++)
		w.reservation[i].used = false;
}
