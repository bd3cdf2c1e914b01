/*
 * json_text.c - string literals: read, decode, write
 *
 * See json_text.h and json.h.
 */
#include "core/json_text.h"

#include "core/hex.h"
#include "core/utf8.h"

#include <string.h>

#define UNIT_CHARS 6 /* \uXXXX */

/* read_unit reads \uXXXX at p; -1 when it is not there */
static int32_t
read_unit(const char *p, size_t avail)
{
	int32_t unit = 0;

	if (avail < UNIT_CHARS || p[0] != '\\' || p[1] != 'u')
		return -1;
	for (size_t i = 2; i < UNIT_CHARS; i++)
	{
		int digit = mtr_hex_value(p[i]);

		if (digit < 0)
			return -1;
		unit = unit * 16 + digit;
	}
	return unit;
}

/* put_utf8 stores a code point that is no surrogate */
static void
put_utf8(struct mtr_json_char *c, uint32_t code)
{
	if (code < 0x80)
	{
		c->n = 1;
		c->bytes[0] = (char) code;
		return;
	}
	c->n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	for (int i = c->n - 1; i > 0; i--)
	{
		c->bytes[i] = (char) (0x80 | (code & 0x3F));
		code >>= 6;
	}
	/* the lead byte: as many leading ones as there are bytes */
	c->bytes[0] = (char) ((0xF00 >> c->n & 0xFF) | code);
}

/* read_unicode reads \uXXXX, or two of them that make a surrogate pair */
static enum mtr_json_error
read_unicode(const char *p, size_t avail, struct mtr_json_char *c)
{
	int32_t unit = read_unit(p, avail);
	int32_t low;

	if (unit < 0)
		return MTR_JSON_MALFORMED;
	if (unit == 0)
		return MTR_JSON_NUL;
	c->used = UNIT_CHARS;
	if (unit < 0xD800 || unit > 0xDFFF)
	{
		put_utf8(c, (uint32_t) unit);
		return MTR_JSON_OK;
	}
	low = read_unit(p + UNIT_CHARS, avail - UNIT_CHARS);
	if (unit > 0xDBFF || low < 0xDC00 || low > 0xDFFF)
		return MTR_JSON_SURROGATE;
	c->used = 2 * UNIT_CHARS;
	put_utf8(c, 0x10000 + ((uint32_t) (unit - 0xD800) << 10) +
					(uint32_t) (low - 0xDC00));
	return MTR_JSON_OK;
}

static enum mtr_json_error
read_escape(const char *p, size_t avail, struct mtr_json_char *c)
{
	static const char spelled[] = "\"\\/bfnrt";
	static const char meant[] = "\"\\/\b\f\n\r\t";
	const char       *found;

	if (avail < 2)
		return MTR_JSON_MALFORMED;
	if (p[1] == 'u')
		return read_unicode(p, avail, c);
	found = memchr(spelled, p[1], sizeof(spelled) - 1);
	if (found == NULL)
		return MTR_JSON_MALFORMED;
	c->bytes[0] = meant[found - spelled];
	c->n = 1;
	c->used = 2;
	return MTR_JSON_OK;
}

enum mtr_json_error
mtr_json_read_char(const char *p, size_t avail, struct mtr_json_char *c)
{
	size_t n;

	if (p[0] == '\\')
		return read_escape(p, avail, c);
	if ((unsigned char) p[0] < 0x20)
		return MTR_JSON_MALFORMED; /* control characters must be escaped */
	n = mtr_utf8_char(p, avail);
	if (n == 0)
		return MTR_JSON_ENCODING;
	memcpy(c->bytes, p, n);
	c->n = (uint8_t) n;
	c->used = (uint8_t) n;
	return MTR_JSON_OK;
}

/* is_plain: a character of a literal that stands for itself, in one byte */
static bool
is_plain(char c)
{
	unsigned char u = (unsigned char) c;

	return u >= 0x20 && u < 0x80 && c != '"' && c != '\\';
}

enum mtr_json_error
mtr_json_scan_string(const char *s, size_t len, size_t *pos,
					 struct mtr_json_text *text)
{
	text->start = ++*pos;
	text->escaped = false;
	for (;;)
	{
		struct mtr_json_char c;
		enum mtr_json_error  error;

		while (*pos < len && is_plain(s[*pos]))
			++*pos;
		if (*pos == len)
			return MTR_JSON_MALFORMED;
		if (s[*pos] == '"')
		{
			text->len = *pos - text->start;
			++*pos;
			return MTR_JSON_OK;
		}
		error = mtr_json_read_char(s + *pos, len - *pos, &c);
		if (error != MTR_JSON_OK)
			return error;
		if (s[*pos] == '\\')
			text->escaped = true;
		*pos += c.used;
	}
}

ssize_t
mtr_json_decode(const char *raw, size_t len, char *out)
{
	size_t o = 0;

	if (len < 2 || raw[0] != '"' || raw[len - 1] != '"')
		return -1;
	for (size_t i = 1; i < len - 1;)
	{
		struct mtr_json_char c;

		if (raw[i] == '"' ||
			mtr_json_read_char(raw + i, len - 1 - i, &c) != MTR_JSON_OK)
			return -1;
		memcpy(out + o, c.bytes, c.n);
		o += c.n;
		i += c.used;
	}
	return (ssize_t) o;
}

/* short_escape gives the letter after the backslash, or 0 when c has none */
static char
short_escape(char c)
{
	switch (c)
	{
		case '"':
		case '\\':
			return c;
		case '\b':
			return 'b';
		case '\f':
			return 'f';
		case '\n':
			return 'n';
		case '\r':
			return 'r';
		case '\t':
			return 't';
		default:
			return 0;
	}
}

#define WORD sizeof(uint64_t)
#define EACH_BYTE (~UINT64_C(0) / 255) /* 1 in each byte of a word */

/*
 * must_escape: is one of the word's bytes to be written as an escape?  Of bytes below
 * 0x80, subtracting n sets the top bit of those below n, and perhaps of some above
 * such a one.
 */
static inline bool
must_escape(uint64_t w)
{
	uint64_t control = w - EACH_BYTE * 0x20;
	uint64_t quote = (w ^ EACH_BYTE * '"') - EACH_BYTE;
	uint64_t backslash = (w ^ EACH_BYTE * '\\') - EACH_BYTE;

	return ((control | quote | backslash) & ~w & EACH_BYTE * 0x80) != 0;
}

/* copy_plain copies whole words up to the first that holds an escape */
static size_t
copy_plain(const char *s, size_t len, char *out)
{
	size_t n = 0;

	while (len - n >= WORD)
	{
		uint64_t w;

		memcpy(&w, s + n, WORD);
		if (must_escape(w))
			break;
		memcpy(out + n, &w, WORD);
		n += WORD;
	}
	return n;
}

/* escape_char writes one byte of a string; returns how many it wrote */
static size_t
escape_char(char c, char *out)
{
	static const char digits[] = "0123456789abcdef";
	char              letter = short_escape(c);

	if (letter != 0)
	{
		out[0] = '\\';
		out[1] = letter;
		return 2;
	}
	if ((unsigned char) c < 0x20)
	{
		memcpy(out, "\\u00", 4);
		out[4] = digits[(unsigned char) c >> 4];
		out[5] = digits[c & 0x0F];
		return UNIT_CHARS;
	}
	out[0] = c;
	return 1;
}

size_t
mtr_json_escape(const char *s, size_t len, char *out)
{
	size_t o = 0;
	size_t i = 0;

	out[o++] = '"';
	while (i < len)
	{
		size_t plain = copy_plain(s + i, len - i, out + o);
		size_t end;

		o += plain;
		i += plain;
		/* the word that has an escape, or what is left, byte by byte */
		for (end = len - i < WORD ? len : i + WORD; i < end; i++)
			o += escape_char(s[i], out + o);
	}
	out[o++] = '"';
	return o;
}
