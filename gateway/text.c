/*
 * text.c
 *		UTF-8, tokens, percent-encoding and hex digits.
 *
 * Each function reads its slice once from left to right and keeps nothing, so
 * there is nothing to own or to lock here.  ASCII is by far the most frequent
 * input, so the two validators skip eight bytes at a time while they see no
 * byte that needs a look.
 */
#include "text.h"

#include "contract.h"

#define ONES UINT64_C(0x0101010101010101)
#define HIGHS UINT64_C(0x8080808080808080)

bool
slice_is_lower(Slice a, Slice lower)
{
	if (a.len != lower.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
	{
		char c = a.base[i];

		if (c >= 'A' && c <= 'Z')
			c = (char) (c + ('a' - 'A'));
		if (c != lower.base[i])
			return false;
	}
	return true;
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t';
}

Slice
slice_trim(Slice s)
{
	while (s.len > 0 && is_blank(s.base[s.len - 1]))
		s.len--;
	while (s.len > 0 && is_blank(s.base[0]))
	{
		s.base++;
		s.len--;
	}
	return s;
}

/*
 * Returns the length of the UTF-8 sequence of two to four bytes at "p", or 0
 * when it is not one.  "left" is at least 1, and the first byte is above 0x7F.
 */
static size_t
utf8_sequence(const unsigned char *p, size_t left)
{
	unsigned char low = 0x80;
	unsigned char high = 0xBF;
	size_t        len;

	if (p[0] >= 0xC2 && p[0] <= 0xDF)
		len = 2;
	else if (p[0] >= 0xE0 && p[0] <= 0xEF)
		len = 3;
	else if (p[0] >= 0xF0 && p[0] <= 0xF4)
		len = 4;
	else
		return 0;
	if (left < len)
		return 0;

	/* overlong forms, surrogates and the end of Unicode show in byte two */
	if (p[0] == 0xE0)
		low = 0xA0;
	else if (p[0] == 0xED)
		high = 0x9F;
	else if (p[0] == 0xF0)
		low = 0x90;
	else if (p[0] == 0xF4)
		high = 0x8F;
	if (p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++)
		if (p[i] < 0x80 || p[i] > 0xBF)
			return 0;
	return len;
}

/* True when no byte of the word is above 0x7F. */
static bool
word_is_ascii(uint64_t word)
{
	return (word & HIGHS) == 0;
}

/*
 * True when every byte of the word is printable ASCII.  The middle terms set
 * the high bit of a byte below 0x20 and of a byte equal to 0x7F; a borrow can
 * only come from a byte that fails by itself, so there is no false "true".
 */
static bool
word_is_printable(uint64_t word)
{
	uint64_t del = word ^ (ONES * 0x7F);

	return ((word | (word - ONES * 0x20) | (del - ONES)) & HIGHS) == 0;
}

/*
 * True when "s" is valid UTF-8 and, where "printable" asks for it, holds no
 * control character but tabs.  Inline: each caller gets a loop of its own.
 */
static inline bool
is_text(Slice s, bool printable)
{
	const unsigned char *p = (const unsigned char *) s.base;
	size_t               left = s.len;

	while (left > 0)
	{
		uint64_t word;
		size_t   step = 1;

		if (left >= sizeof(word))
		{
			memcpy(&word, p, sizeof(word));
			if (printable ? word_is_printable(word) : word_is_ascii(word))
			{
				p += sizeof(word);
				left -= sizeof(word);
				continue;
			}
		}
		if (printable && ((*p < 0x20 && *p != '\t') || *p == 0x7F))
			return false;
		if (*p > 0x7F && (step = utf8_sequence(p, left)) == 0)
			return false;
		p += step;
		left -= step;
	}
	return true;
}

bool
text_is_utf8(Slice s)
{
	return is_text(s, false);
}

bool
text_is_value(Slice s)
{
	return is_text(s, true);
}

static bool
is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		   (c >= '0' && c <= '9') || c == '_';
}

bool
text_is_token(Slice s)
{
	for (size_t i = 0; i < s.len; i++)
	{
		/* strchr would find the NUL at the end of the list */
		if (!is_word(s.base[i]) &&
			(s.base[i] == '\0' || strchr("!#$%&'*+-.^`|~", s.base[i]) == NULL))
			return false;
	}
	return s.len > 0;
}

bool
text_is_request_id(Slice s)
{
	if (s.len == 0 || s.len > MORTAR_MAX_REQUEST_ID)
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (!is_word(s.base[i]) && s.base[i] != '-')
			return false;
	return true;
}

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool
text_percent_decode(Slice src, char *dst, size_t *len)
{
	size_t out = 0;

	for (size_t i = 0; i < src.len; i++)
	{
		int high;
		int low;

		if (src.base[i] != '%')
		{
			dst[out++] = src.base[i];
			continue;
		}
		if (src.len - i < 3 || (high = hex_digit(src.base[i + 1])) < 0 ||
			(low = hex_digit(src.base[i + 2])) < 0)
			return false;
		dst[out++] = (char) (high * 16 + low);
		i += 2;
	}
	*len = out;
	return true;
}

void
text_hex64(char dst[16], uint64_t value)
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 15; i >= 0; i--)
	{
		dst[i] = digits[value & 15];
		value >>= 4;
	}
}
