/*
 * uuid7.c - time-ordered ids and their text form
 *
 * See uuid7.h for the layout and the promise of order.
 */
#include "core/uuid7.h"

#include "core/hex.h"

#include <string.h>

#define SEQ_MAX 0x0FFF  /* 12 bits */
#define SEQ_SEED 0x07FF /* a new millisecond starts in the lower half */

/* the characters of the canonical form after which no digit but '-' comes */
static bool
is_dash_position(size_t i)
{
	return i == 8 || i == 13 || i == 18 || i == 23;
}

void
mtr_uuid7(uint8_t out[MTR_UUID_BYTES], uint64_t unix_ms,
		  const uint8_t rnd[MTR_UUID7_RANDOM_BYTES], struct mtr_uuid7_state *st)
{
	uint16_t seed = (uint16_t) ((rnd[0] << 8 | rnd[1]) & SEQ_SEED);

	if (unix_ms > MTR_UUID7_MAX_MS)
		unix_ms = MTR_UUID7_MAX_MS;
	if (unix_ms > st->last_ms)
	{
		st->last_ms = unix_ms;
		st->seq = seed;
	}
	else if (st->seq < SEQ_MAX)
		st->seq++;
	else
	{
		if (st->last_ms < MTR_UUID7_MAX_MS)
			st->last_ms++;
		st->seq = seed;
	}

	for (int i = 0; i < 6; i++)
		out[i] = (uint8_t) (st->last_ms >> (40 - 8 * i));
	out[6] = (uint8_t) (0x70 | st->seq >> 8);
	out[7] = (uint8_t) (st->seq & 0xFF);
	memcpy(out + 8, rnd + 2, 8);
	out[8] = (uint8_t) (0x80 | (out[8] & 0x3F)); /* the RFC's variant */
}

void
mtr_uuid_format(const uint8_t in[MTR_UUID_BYTES], char out[MTR_UUID_CHARS])
{
	static const char digits[] = "0123456789abcdef";
	size_t            o = 0;

	for (size_t i = 0; i < MTR_UUID_BYTES; i++)
	{
		if (is_dash_position(o))
			out[o++] = '-';
		out[o++] = digits[in[i] >> 4];
		out[o++] = digits[in[i] & 0x0F];
	}
}

bool
mtr_uuid_parse(const char *s, size_t len, uint8_t out[MTR_UUID_BYTES])
{
	size_t at = 0;

	if (len != MTR_UUID_CHARS)
		return false;
	for (size_t i = 0; i < MTR_UUID_BYTES; i++)
	{
		int high;
		int low;

		if (is_dash_position(at) && s[at++] != '-')
			return false;
		high = mtr_hex_value(s[at++]);
		low = mtr_hex_value(s[at++]);
		if (high < 0 || low < 0)
			return false;
		out[i] = (uint8_t) (high << 4 | low);
	}
	return true;
}
