/*
 * price.c - exact prices in 128 bits
 *
 * See price.h for the telescoping sum that makes them exact.  A product of two
 * non-negative int64 is below 2^126, so nothing here can overflow 128 bits.
 */
#include "core/price.h"

#include <assert.h>

__int128
mtr_price_total(int64_t quantity, int64_t num_uc, int64_t per_units)
{
	assert(quantity >= 0);
	assert(num_uc >= 0);
	assert(per_units > 0);

	return (__int128) quantity * num_uc / per_units;
}

bool
mtr_price_cost(int64_t quantity, int64_t num_uc, int64_t per_units,
			   int64_t *cost)
{
	__int128 total = mtr_price_total(quantity, num_uc, per_units);

	if (total > INT64_MAX)
		return false;
	*cost = (int64_t) total;
	return true;
}

bool
mtr_price_step(int64_t from, int64_t qty, int64_t num_uc, int64_t per_units,
			   int64_t *cost)
{
	int64_t  upto;
	int64_t  product;
	__int128 step;

	assert(from >= 0);
	assert(qty >= 0);

	if (__builtin_add_overflow(from, qty, &upto))
		return false;
	if (!__builtin_mul_overflow(upto, num_uc, &product))
	{
		/* as nearly always: 64 bits are enough, and divide much faster */
		*cost = product / per_units - from * num_uc / per_units;
		return true;
	}
	step = mtr_price_total(upto, num_uc, per_units) -
		   mtr_price_total(from, num_uc, per_units);
	if (step > INT64_MAX)
		return false;
	*cost = (int64_t) step;
	return true;
}

bool
mtr_price_fits(int64_t quantity, int64_t num_uc, int64_t per_units)
{
	int64_t product;

	return !__builtin_mul_overflow(quantity, num_uc, &product) ||
		   mtr_price_total(quantity, num_uc, per_units) <= INT64_MAX;
}
