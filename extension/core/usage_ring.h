/*
 * usage_ring.h - which minute a slot's unflushed usage belongs to
 *
 * Purpose: a usage slot counts a cumulative quantity; the flusher writes it
 * some time later.  The marks remember at which quantity each minute began, so
 * a late flush never moves usage into another minute.
 *
 * Design: up to eight marks in time order.  A mark covers the quantities from
 * its start to the next mark's start; the last one is open; the first one also
 * covers whatever lies before it.  Marks that are flushed already are kept
 * until their place is needed, because a reader whose snapshot is a little
 * older still asks for them.  When all eight hold unflushed usage the newest
 * usage joins the last mark's minute: its time is then early by the length of
 * the flusher's outage, but no quantity is ever lost.
 *
 * Locking: a ring is guarded by its slot's spinlock, together with the
 * quantity it describes; every function here is a few instructions, loops at
 * most eight times and cannot fail.
 */
#ifndef MTR_CORE_USAGE_RING_H
#define MTR_CORE_USAGE_RING_H

#include <stdbool.h>
#include <stdint.h>

#define MTR_RING_MARKS 8
#define MTR_RING_NEARLY_FULL 7 /* marks with unflushed usage */

/* all zero is an empty ring */
struct mtr_ring
{
	int64_t start[MTR_RING_MARKS];  /* quantity at which the minute began */
	int32_t minute[MTR_RING_MARKS]; /* minutes since 1970, UTC, ascending */
	uint8_t n;                      /* marks in use */
};

/* a stretch [from, upto) of a slot's quantity that belongs to one minute */
struct mtr_segment
{
	int64_t from;
	int64_t upto;
	int32_t minute;
};

/*
 * mtr_ring_add is called just before a quantity is added.  done_before is the
 * slot's quantity so far (never less than in an earlier call), minute the
 * present minute, flushed the quantity up to which everything is in the
 * tables.  A minute after the last mark's opens a new mark; when the ring is
 * full the oldest is dropped if it holds nothing unflushed, and otherwise the
 * quantity joins the last minute.  So does a minute at or before the last
 * mark's (the clock went back).
 */
extern void mtr_ring_add(struct mtr_ring *r, int64_t done_before,
						 int32_t minute, int64_t flushed);

/*
 * mtr_ring_segments cuts [from, upto) by minute into out, in order, without
 * gap, overlap or empty segment, and returns their number; 0 when from >= upto
 * or the ring is empty.  Two neighbours never have the same minute.
 */
extern int
mtr_ring_segments(const struct mtr_ring *r, int64_t from, int64_t upto,
				  struct mtr_segment out[MTR_RING_MARKS]);

/*
 * mtr_ring_nearly_full is true when at least MTR_RING_NEARLY_FULL marks hold
 * unflushed usage, the open one always counted: time to wake the flusher.
 */
extern bool mtr_ring_nearly_full(const struct mtr_ring *r, int64_t flushed);

#endif /* MTR_CORE_USAGE_RING_H */
