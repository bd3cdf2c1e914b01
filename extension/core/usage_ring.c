/*
 * usage_ring.c - which minute a slot's unflushed usage belongs to
 *
 * See usage_ring.h for the model.  Called under a spinlock: no calls out, no
 * loop longer than MTR_RING_MARKS.
 */
#include "core/usage_ring.h"

#include <assert.h>

/* drop_oldest removes the first mark; the second now covers its quantities */
static void
drop_oldest(struct mtr_ring *r)
{
	for (int i = 1; i < r->n; i++)
	{
		r->start[i - 1] = r->start[i];
		r->minute[i - 1] = r->minute[i];
	}
	r->n--;
}

void
mtr_ring_add(struct mtr_ring *r, int64_t done_before, int32_t minute,
			 int64_t flushed)
{
	int last = r->n - 1;

	assert(r->n <= MTR_RING_MARKS);
	assert(last < 0 || done_before >= r->start[last]);

	if (last >= 0 && minute <= r->minute[last])
		return;

	/*
	 * A mark under which nothing was counted is of no use: re-date it.  Not the
	 * first one, which also covers everything before it.
	 */
	if (last > 0 && r->start[last] == done_before)
	{
		r->minute[last] = minute;
		return;
	}
	if (r->n == MTR_RING_MARKS)
	{
		if (flushed < r->start[1])
			return; /* unflushed usage in the oldest mark: join the last */
		drop_oldest(r);
	}
	r->start[r->n] = done_before;
	r->minute[r->n] = minute;
	r->n++;
}

int
mtr_ring_segments(const struct mtr_ring *r, int64_t from, int64_t upto,
				  struct mtr_segment out[MTR_RING_MARKS])
{
	int n = 0;

	for (int i = 0; i < r->n && from < upto; i++)
	{
		int64_t end = upto;

		if (i + 1 < r->n && r->start[i + 1] < upto)
			end = r->start[i + 1];
		if (end <= from)
			continue; /* this minute was over before the range began */
		out[n].from = from;
		out[n].upto = end;
		out[n].minute = r->minute[i];
		n++;
		from = end;
	}
	return n;
}

bool
mtr_ring_nearly_full(const struct mtr_ring *r, int64_t flushed)
{
	int unflushed = r->n;

	for (int i = 1; i < r->n && r->start[i] <= flushed; i++)
		unflushed--;
	return unflushed >= MTR_RING_NEARLY_FULL;
}
