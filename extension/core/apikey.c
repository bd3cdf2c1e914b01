/*
 * apikey.c - the text of an API key
 *
 * See apikey.h for the format.  Base 62 is plain positional notation: a number
 * is divided by 62 again and again, digits come out from the right.
 */
#include "core/apikey.h"

#include <string.h>

#define BASE 62
#define CHECKED_CHARS                                                          \
	(MTR_APIKEY_PREFIX_CHARS + MTR_APIKEY_ID_CHARS + MTR_APIKEY_SECRET_CHARS)

_Static_assert(sizeof(MTR_APIKEY_PREFIX) - 1 == MTR_APIKEY_PREFIX_CHARS,
			   "length of the prefix");
_Static_assert(CHECKED_CHARS + MTR_APIKEY_CRC_CHARS == MTR_APIKEY_CHARS,
			   "the parts make up the key");

/*
 * The CRC-32 of IEEE 802.3, reflected, four bits at a time: a table of 16
 * entries that a reader can check, and still well below a microsecond a key.
 */
static uint32_t
crc32_ieee(const char *s, size_t len)
{
	static const uint32_t table[16] = {
		0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4,
		0x4DB26158, 0x5005713C, 0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
		0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C};
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < len; i++)
	{
		crc ^= (unsigned char) s[i];
		crc = crc >> 4 ^ table[crc & 0x0F];
		crc = crc >> 4 ^ table[crc & 0x0F];
	}
	return ~crc;
}

/*
 * base62_write writes the big-endian number of n bytes (at most 32) as exactly
 * width digits; the caller chose a width that holds it.
 */
static void
base62_write(const uint8_t *number, size_t n, char *out, size_t width)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
								 "abcdefghijklmnopqrstuvwxyz";
	uint8_t           rest[MTR_APIKEY_RANDOM_BYTES];

	memcpy(rest, number, n);
	for (size_t at = width; at > 0; at--)
	{
		unsigned remainder = 0;

		for (size_t i = 0; i < n; i++)
		{
			unsigned dividend = remainder << 8 | rest[i];

			rest[i] = (uint8_t) (dividend / BASE);
			remainder = dividend % BASE;
		}
		out[at - 1] = digits[remainder];
	}
	/* all of it was written, so rest is zero: no copy of a secret stays */
}

static void
crc_write(const char *s, char out[MTR_APIKEY_CRC_CHARS])
{
	uint32_t crc = crc32_ieee(s, CHECKED_CHARS);
	uint8_t  bytes[4];

	for (int i = 0; i < 4; i++)
		bytes[i] = (uint8_t) (crc >> (24 - 8 * i));
	base62_write(bytes, sizeof(bytes), out, MTR_APIKEY_CRC_CHARS);
}

void
mtr_apikey_format(const uint8_t id[MTR_APIKEY_ID_BYTES],
				  const uint8_t secret_rnd[MTR_APIKEY_RANDOM_BYTES],
				  char          out[MTR_APIKEY_CHARS])
{
	char *at = out;

	memcpy(at, MTR_APIKEY_PREFIX, MTR_APIKEY_PREFIX_CHARS);
	at += MTR_APIKEY_PREFIX_CHARS;
	base62_write(id, MTR_APIKEY_ID_BYTES, at, MTR_APIKEY_ID_CHARS);
	at += MTR_APIKEY_ID_CHARS;
	base62_write(secret_rnd, MTR_APIKEY_RANDOM_BYTES, at,
				 MTR_APIKEY_SECRET_CHARS);
	crc_write(out, out + CHECKED_CHARS);
}

/*
 * base62_read reads at most 10 digits, which fit a word; *ok becomes false at a
 * character that is none.
 */
static uint64_t
base62_read(const char *s, size_t n, bool *ok)
{
	/* digit + 1, 0: none */
	static const uint8_t value[256] = {
#define TEN(c, n)                                                              \
	[(c) + 0] = (n) + 1, [(c) + 1] = (n) + 2, [(c) + 2] = (n) + 3,             \
		   [(c) + 3] = (n) + 4, [(c) + 4] = (n) + 5, [(c) + 5] = (n) + 6,      \
		   [(c) + 6] = (n) + 7, [(c) + 7] = (n) + 8, [(c) + 8] = (n) + 9,      \
		   [(c) + 9] = (n) + 10
#define SIX(c, n)                                                              \
	[(c) + 0] = (n) + 1, [(c) + 1] = (n) + 2, [(c) + 2] = (n) + 3,             \
		   [(c) + 3] = (n) + 4, [(c) + 4] = (n) + 5, [(c) + 5] = (n) + 6
		TEN('0', 0),  TEN('A', 10), TEN('K', 20), SIX('U', 30),
		TEN('a', 36), TEN('k', 46), SIX('u', 56),
#undef TEN
#undef SIX
	};
	uint64_t number = 0;

	for (size_t i = 0; i < n; i++)
	{
		uint8_t digit = value[(unsigned char) s[i]];

		*ok &= digit != 0;
		number = number * BASE + (uint64_t) (digit - 1);
	}
	return number;
}

/* id_read reads 22 digits; false when the number does not fit 128 bits */
static bool
id_read(const char *s, uint8_t id[MTR_APIKEY_ID_BYTES])
{
	const uint64_t    ten_digits = UINT64_C(839299365868340224); /* 62^10 */
	bool              ok = true;
	unsigned __int128 number = base62_read(s, 2, &ok);

	_Static_assert(MTR_APIKEY_ID_CHARS == 22, "2 and twice 10");
	for (size_t i = 2; i < MTR_APIKEY_ID_CHARS; i += 10)
	{
		uint64_t digits = base62_read(s + i, 10, &ok);

		if (__builtin_mul_overflow(number, ten_digits, &number) ||
			__builtin_add_overflow(number, digits, &number))
			return false;
	}
	for (size_t i = MTR_APIKEY_ID_BYTES; i > 0; i--)
	{
		id[i - 1] = (uint8_t) number;
		number >>= 8;
	}
	return ok;
}

/* the digits of the secret stay text; all that matters is that they are digits */
static bool
secret_check(const char *s)
{
	bool ok = true;

	for (size_t i = 0; i < MTR_APIKEY_SECRET_CHARS; i++)
		(void) base62_read(s + i, 1, &ok);
	return ok;
}

bool
mtr_apikey_parse(const char *s, size_t len, uint8_t id[MTR_APIKEY_ID_BYTES],
				 const char **secret)
{
	bool     ok = true;
	uint64_t crc;

	if (len != MTR_APIKEY_CHARS ||
		memcmp(s, MTR_APIKEY_PREFIX, MTR_APIKEY_PREFIX_CHARS) != 0)
		return false;
	crc = base62_read(s + CHECKED_CHARS, MTR_APIKEY_CRC_CHARS, &ok);
	if (!ok || crc != crc32_ieee(s, CHECKED_CHARS))
		return false;
	*secret = s + MTR_APIKEY_PREFIX_CHARS + MTR_APIKEY_ID_CHARS;
	return secret_check(*secret) && id_read(s + MTR_APIKEY_PREFIX_CHARS, id);
}

bool
mtr_ct_equal(const void *a, const void *b, size_t n)
{
	/* volatile: the compiler may not stop at the first difference */
	const volatile uint8_t *x = a;
	const volatile uint8_t *y = b;
	volatile uint8_t        difference = 0;

	for (size_t i = 0; i < n; i++)
		difference = (uint8_t) (difference | (x[i] ^ y[i]));
	return difference == 0;
}
