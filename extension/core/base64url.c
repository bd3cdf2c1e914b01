/*
 * base64url.c - bytes as text that needs no escape in a URL
 *
 * Both ways push bits through an accumulator: the oldest bits leave first.
 */
#include "core/base64url.h"

size_t
mtr_base64url_encode(const uint8_t *in, size_t len, char *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
								 "abcdefghijklmnopqrstuvwxyz0123456789-_";
	uint32_t          bits = 0;
	int               n = 0; /* bits that have not left yet, below 6 */
	size_t            o = 0;

	for (size_t i = 0; i < len; i++)
	{
		bits = (bits << 8 | in[i]) & 0xFFFF;
		for (n += 8; n >= 6; n -= 6)
			out[o++] = digits[bits >> (n - 6) & 0x3F];
	}
	if (n > 0)
		out[o++] = digits[bits << (6 - n) & 0x3F];
	return o;
}

/* digit_value returns 0 to 63, or -1 when c is not of the alphabet */
static int
digit_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '-')
		return 62;
	return c == '_' ? 63 : -1;
}

ssize_t
mtr_base64url_decode(const char *in, size_t len, uint8_t *out)
{
	uint32_t bits = 0;
	int      n = 0; /* bits that have not left yet, below 8 */
	size_t   o = 0;

	if (len % 4 == 1)
		return -1;
	for (size_t i = 0; i < len; i++)
	{
		int value = digit_value(in[i]);

		if (value < 0)
			return -1;
		bits = (bits << 6 | (uint32_t) value) & 0x3FFF;
		n += 6;
		if (n >= 8)
		{
			n -= 8;
			out[o++] = (uint8_t) (bits >> n);
		}
	}
	if ((bits & ((1u << n) - 1)) != 0)
		return -1;
	return (ssize_t) o;
}
