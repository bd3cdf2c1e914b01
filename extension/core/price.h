/*
 * price.h - exact prices
 *
 * Purpose: a price is a fraction, num_uc micro-credits for every per_units
 * units, and the cost of a counter that stands at x is
 *
 *		f(x) = floor(x * num_uc / per_units)
 *
 * computed in 128 bits.
 *
 * Design: a single call must never be rounded by itself: a million answers of
 * 1,000 bytes at 0.3 credit per GB would round to nothing or to twice too
 * much.  So a counter is cumulative and a step of qty units costs
 * f(from + qty) - f(from).  Those differences telescope: whatever the order of
 * the steps, and however many of them were taken back, the costs that remain
 * add up to f(quantity that remains).
 *
 * Ownership: pure functions of their arguments, re-entrant.
 *
 * All arguments must be >= 0 and the divisor > 0 (asserted).
 */
#ifndef MTR_CORE_PRICE_H
#define MTR_CORE_PRICE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/attr.h"

/*
 * mtr_price_cost computes f(quantity), the cost in micro-credits of a counter
 * that stands at quantity units.  It returns false, and leaves *cost alone,
 * when the cost does not fit int64.
 */
extern bool mtr_price_cost(int64_t quantity, int64_t num_uc, int64_t per_units,
						   int64_t *cost) MTR_MUSTCHECK;

/*
 * mtr_price_total is f(quantity) without a range check: below 2^126, so it
 * always fits the result.  It serves sums over several counters, which are
 * range-checked once at the end.
 */
extern __int128
mtr_price_total(int64_t quantity, int64_t num_uc, int64_t per_units);

/*
 * mtr_price_step computes f(from + qty) - f(from): what qty more units cost on
 * a counter that stands at from, and equally what taking them back returns to
 * a counter that stands at from + qty.  It returns false, and leaves *cost
 * alone, when from + qty or the difference does not fit int64.  f(from) itself
 * need not fit.
 */
extern bool mtr_price_step(int64_t from, int64_t qty, int64_t num_uc,
						   int64_t per_units, int64_t *cost) MTR_MUSTCHECK;

/* does f(quantity) fit int64? */
extern bool mtr_price_fits(int64_t quantity, int64_t num_uc, int64_t per_units);

#endif /* MTR_CORE_PRICE_H */
