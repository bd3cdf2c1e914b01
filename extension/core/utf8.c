/*
 * utf8.c - strict UTF-8
 *
 * The table of well-formed byte sequences (Unicode, chapter 3, table 3-7) as
 * code: only the second byte has a range of its own for four lead bytes; that
 * is what keeps out overlong forms, surrogates and values above U+10FFFF.
 * Runs of ASCII, which is most of what arrives, are taken eight bytes at once.
 */
#include "core/utf8.h"

#include <stdint.h>
#include <string.h>

#define HIGH_BITS UINT64_C(0x8080808080808080)

static bool
in_range(char c, unsigned char low, unsigned char high)
{
	unsigned char u = (unsigned char) c;

	return u >= low && u <= high;
}

size_t
mtr_utf8_char(const char *s, size_t len)
{
	unsigned char lead;
	unsigned char low = 0x80;
	unsigned char high = 0xBF;
	size_t        n;

	if (len == 0)
		return 0;
	lead = (unsigned char) s[0];
	if (lead < 0x80)
		return 1;
	if (lead < 0xC2 || lead > 0xF4)
		return 0; /* continuation byte, overlong, or above U+13FFFF */
	n = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
	if (len < n)
		return 0;
	if (lead == 0xE0)
		low = 0xA0; /* below: overlong */
	else if (lead == 0xED)
		high = 0x9F; /* above: surrogates */
	else if (lead == 0xF0)
		low = 0x90; /* below: overlong */
	else if (lead == 0xF4)
		high = 0x8F; /* above: more than U+10FFFF */
	if (!in_range(s[1], low, high))
		return 0;
	for (size_t i = 2; i < n; i++)
	{
		if (!in_range(s[i], 0x80, 0xBF))
			return 0;
	}
	return n;
}

bool
mtr_utf8_valid(const char *s, size_t len)
{
	size_t i = 0;

	while (i < len)
	{
		size_t n;

		if (len - i >= sizeof(uint64_t))
		{
			uint64_t word;

			memcpy(&word, s + i, sizeof(word));
			if ((word & HIGH_BITS) == 0)
			{
				i += sizeof(word);
				continue;
			}
		}
		n = mtr_utf8_char(s + i, len - i);
		if (n == 0)
			return false;
		i += n;
	}
	return true;
}

bool
mtr_utf8_clean(const char *s, size_t len)
{
	/* memchr must not see a NULL pointer, even for no bytes */
	if (len == 0)
		return true;
	return memchr(s, '\0', len) == NULL && mtr_utf8_valid(s, len);
}
