/*
 * minutes.c - which minute unflushed usage belongs to, by a plain list
 *
 * Usage belongs to the minute of its commit, or to the latest that the slot
 * has seen when the clock has gone back.  A slot that has unflushed usage of
 * MTR_RING_MARKS minutes books what comes now under the latest of them.
 */
#include "model.h"

#include <string.h>

struct minutes
{
	int     n;
	int32_t minute[MTR_RING_MARKS];
	int64_t qty[MTR_RING_MARKS];
	bool    begun;
	int32_t latest;
};

static struct minutes unflushed[SLOTS];

void
minutes_forget(void)
{
	memset(unflushed, 0, sizeof(unflushed));
}

void
minutes_add(int slot, int32_t minute, int64_t qty)
{
	struct minutes *u = &unflushed[slot];

	if (!u->begun || (minute > u->latest && u->n < MTR_RING_MARKS))
		u->latest = minute;
	u->begun = true;
	if (u->n == 0 || u->minute[u->n - 1] != u->latest)
	{
		u->minute[u->n] = u->latest;
		u->qty[u->n++] = 0;
	}
	u->qty[u->n - 1] += qty;
}

void
minutes_check(int slot, const struct mtr_segment *segment, int n)
{
	const struct minutes *u = &unflushed[slot];

	REQUIRE(n == u->n, "slot %d: usage of %d minutes, should be %d", slot, n,
			u->n);
	for (int i = 0; i < n; i++)
		REQUIRE(segment[i].minute == u->minute[i] &&
					segment[i].upto - segment[i].from == u->qty[i],
				"slot %d: %ld in minute %d, should be %ld in %d", slot,
				(long) (segment[i].upto - segment[i].from), segment[i].minute,
				(long) u->qty[i], u->minute[i]);
}

void
minutes_flushed(int slot, int64_t qty)
{
	struct minutes *u = &unflushed[slot];
	int             gone = 0;

	for (; gone < u->n && qty >= u->qty[gone]; gone++)
		qty -= u->qty[gone];
	for (int i = gone; i < u->n; i++)
	{
		u->minute[i - gone] = u->minute[i];
		u->qty[i - gone] = u->qty[i];
	}
	u->n -= gone;
	if (u->n > 0)
		u->qty[0] -= qty;
}
