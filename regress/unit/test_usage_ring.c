/*
 * test_usage_ring.c - no unit of usage is lost or moved to another minute
 *
 * The model remembers the minute of every single unit.  The ring runs beside
 * it through every short history there is, from an empty ring and from rings
 * that are nearly full, and through one long random history.
 */
// SOURCES: extension/core/usage_ring.c
#include "core/usage_ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define MAX_UNITS 64

struct history
{
	struct mtr_ring ring;
	int32_t         unit_minute[MAX_UNITS]; /* the model */
	int32_t         minute;                 /* of the newest usage */
	bool            begun;
	int             done;
	int             flushed;
};

/* model_minutes counts the minutes that hold unflushed units */
static int
model_minutes(const struct history *h)
{
	int n = 0;

	for (int i = h->flushed; i < h->done; i++)
		n += i == h->flushed || h->unit_minute[i] != h->unit_minute[i - 1];
	return n;
}

static void
add(struct history *h, int32_t minute, int quantity)
{
	mtr_ring_add(&h->ring, h->done, minute, h->flushed);
	if (!h->begun || (minute > h->minute && model_minutes(h) < MTR_RING_MARKS))
		h->minute = minute;
	h->begun = true;
	for (int i = 0; i < quantity; i++)
		h->unit_minute[h->done++] = h->minute;
}

/* check_segments: out is [from, upto), unit for unit as the model has it */
static void
check_segments(const struct history *h, int from, int upto)
{
	struct mtr_segment out[MTR_RING_MARKS];
	int                n = mtr_ring_segments(&h->ring, from, upto, out);
	int                at = from;

	for (int i = 0; i < n; i++)
	{
		assert_int_equal(out[i].from, at);
		assert_true(out[i].from < out[i].upto);
		assert_true(i == 0 || out[i - 1].minute < out[i].minute);
		for (; at < out[i].upto; at++)
		{
			if (at >= h->flushed)
				assert_int_equal(out[i].minute, h->unit_minute[at]);
		}
	}
	assert_int_equal(at, from < upto ? upto : from);
}

static void
check(const struct history *h)
{
	int minutes = model_minutes(h);

	/* the open mark counts even when all of it is flushed, or nothing in it */
	if (h->begun &&
		(h->done == h->flushed || h->unit_minute[h->done - 1] != h->minute))
		minutes++;
	assert_int_equal(mtr_ring_nearly_full(&h->ring, h->flushed),
					 minutes >= MTR_RING_NEARLY_FULL);
	assert_true(h->ring.n <= MTR_RING_MARKS);
	for (int i = 1; i < h->ring.n; i++)
	{
		assert_true(h->ring.minute[i - 1] < h->ring.minute[i]);
		assert_true(h->ring.start[i - 1] <= h->ring.start[i]);
	}
	check_segments(h, h->flushed, h->done);
	check_segments(h, h->flushed + (h->done - h->flushed) / 2, h->done);
	check_segments(h, h->flushed, h->flushed + (h->done - h->flushed) / 2);
	check_segments(h, 0, h->done);
	check_segments(h, h->done, h->flushed);
}

enum
{
	FLUSHES = 3,
	ADDS = 12, /* four steps of the clock, three quantities */
	ACTIONS = FLUSHES + ADDS
};

static void
act(struct history *h, int action)
{
	if (action == 0)
		h->flushed = h->done;
	else if (action == 1)
		h->flushed += h->done > h->flushed;
	else if (action == 2)
		h->flushed += (h->done - h->flushed + 1) / 2;
	else
		add(h, h->minute + (action - FLUSHES) % 4 - 1, (action - FLUSHES) / 4);
	check(h);
}

static void
explore(const struct history *h, int depth)
{
	for (int action = 0; action < ACTIONS; action++)
	{
		struct history next = *h;

		act(&next, action);
		if (depth > 1)
			explore(&next, depth - 1);
	}
}

static void
every_history_from_empty(void **state)
{
	struct history h = {.minute = 29000000};

	check(&h);
	explore(&h, 5);
}

static void
every_history_from_nearly_full(void **state)
{
	for (int marks = 6; marks <= 9; marks++)
	{
		for (int flushed = 0; flushed <= 4; flushed++)
		{
			struct history h = {.minute = 100};

			for (int i = 0; i < marks; i++)
				add(&h, 100 + 2 * i, 2);
			h.flushed = flushed;
			check(&h);
			explore(&h, 3);
		}
	}
}

static void
a_long_history(void **state)
{
	uint64_t       seed = 3;
	struct history h = {.minute = 1};

	for (int step = 0; step < 300000; step++)
	{
		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
		/* flush seldom, so that the ring fills up */
		act(&h, (seed >> 60) == 0 ? (int) (seed >> 40 & 3) % 3
								  : FLUSHES + (int) ((seed >> 33) % ADDS));
		if (h.done > MAX_UNITS - 4)
			h = (struct history){.minute = h.minute};
	}
}

static void
full_ring_joins_the_last_minute(void **state)
{
	struct mtr_ring    r = {0};
	struct mtr_segment out[MTR_RING_MARKS];

	for (int i = 0; i < MTR_RING_MARKS; i++)
	{
		assert_int_equal(mtr_ring_nearly_full(&r, 0), i >= 7);
		mtr_ring_add(&r, i * 10, 1000 + i, 0);
	}
	assert_true(mtr_ring_nearly_full(&r, 0));
	assert_true(mtr_ring_nearly_full(&r, 10));
	assert_true(mtr_ring_nearly_full(&r, 19));
	assert_false(mtr_ring_nearly_full(&r, 20));

	/* one unit of the oldest mark is not flushed: nothing can be dropped */
	mtr_ring_add(&r, 80, 2000, 9);
	assert_int_equal(r.n, 8);
	assert_int_equal(r.minute[7], 1007);
	assert_int_equal(mtr_ring_segments(&r, 0, 90, out), 8);
	assert_int_equal(out[7].from, 70);
	assert_int_equal(out[7].upto, 90);

	/* now it is */
	mtr_ring_add(&r, 90, 2000, 10);
	assert_int_equal(r.n, 8);
	assert_int_equal(r.minute[0], 1001);
	assert_int_equal(r.minute[7], 2000);
	assert_int_equal(r.start[7], 90);
}

static void
before_the_first_mark_and_the_limits(void **state)
{
	struct mtr_ring    r = {0};
	struct mtr_segment out[MTR_RING_MARKS];

	assert_int_equal(mtr_ring_segments(&r, 0, 10, out), 0);
	assert_false(mtr_ring_nearly_full(&r, 0));

	mtr_ring_add(&r, 100, INT32_MIN, 100);
	mtr_ring_add(&r, INT64_MAX - 1, INT32_MAX, 100);
	mtr_ring_add(&r, INT64_MAX, INT32_MAX, 100);
	assert_int_equal(r.n, 2);
	assert_int_equal(mtr_ring_segments(&r, 5, INT64_MAX, out), 2);
	assert_int_equal(out[0].from, 5);
	assert_int_equal(out[0].upto, INT64_MAX - 1);
	assert_int_equal(out[0].minute, INT32_MIN);
	assert_int_equal(out[1].upto, INT64_MAX);
	assert_int_equal(out[1].minute, INT32_MAX);
	assert_int_equal(mtr_ring_segments(&r, 7, 7, out), 0);
	assert_int_equal(mtr_ring_segments(&r, 8, 7, out), 0);
}

static void
the_first_mark_keeps_what_lies_before_it(void **state)
{
	struct mtr_ring    r = {0};
	struct mtr_segment out[MTR_RING_MARKS];

	mtr_ring_add(&r, 100, 10, 90);
	mtr_ring_add(&r, 100, 11, 90);
	assert_int_equal(mtr_ring_segments(&r, 90, 110, out), 2);
	assert_int_equal(out[0].upto, 100);
	assert_int_equal(out[0].minute, 10);
	assert_int_equal(out[1].minute, 11);
}

static void
a_minute_without_usage_takes_no_mark(void **state)
{
	struct mtr_ring r = {0};

	mtr_ring_add(&r, 0, 10, 0);
	mtr_ring_add(&r, 5, 11, 0);
	for (int minute = 12; minute < 100; minute++)
		mtr_ring_add(&r, 5, minute, 0);
	assert_int_equal(r.n, 2);
	assert_int_equal(r.minute[1], 99);
	assert_int_equal(r.start[1], 5);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_history_from_empty),
		cmocka_unit_test(every_history_from_nearly_full),
		cmocka_unit_test(a_long_history),
		cmocka_unit_test(full_ring_joins_the_last_minute),
		cmocka_unit_test(before_the_first_mark_and_the_limits),
		cmocka_unit_test(the_first_mark_keeps_what_lies_before_it),
		cmocka_unit_test(a_minute_without_usage_takes_no_mark),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
