/*
 * json_text.h - inside core/json*.c: the characters of a string literal
 *
 * Design: everything that looks into a string (checking, comparing keys,
 * decoding, naming a member in a JSON pointer) reads it one decoded character
 * at a time through one function, so they cannot disagree about what a
 * literal means.
 *
 * Ownership: pure functions, no allocation.
 */
#ifndef MTR_CORE_JSON_TEXT_H
#define MTR_CORE_JSON_TEXT_H

#include "core/json.h"

#include <stdint.h>

/* one decoded character */
struct mtr_json_char
{
	char    bytes[4]; /* in UTF-8 */
	uint8_t n;        /* how many of them, 1 to 4 */
	uint8_t used;     /* bytes of the literal that spelled it, 1 to 12 */
};

/* what mtr_json_scan_string found between the quotes */
struct mtr_json_text
{
	size_t start;   /* offset of the first byte after the opening quote */
	size_t len;     /* raw bytes between the quotes */
	bool   escaped; /* contains a backslash: raw text is not the text */
};

/* mtr_json_is_space names JSON's four white space characters */
static inline bool
mtr_json_is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/*
 * mtr_json_read_char reads the character at p, of which avail (> 0) bytes are
 * left; p is inside a literal and not at its closing quote.  It returns
 * MTR_JSON_OK, _MALFORMED, _ENCODING, _NUL or _SURROGATE.
 */
extern enum mtr_json_error
mtr_json_read_char(const char *p, size_t avail,
				   struct mtr_json_char *c) MTR_MUSTCHECK;

/*
 * mtr_json_scan_string checks the literal whose opening quote is at s[*pos]
 * and moves *pos behind its closing quote, or, on an error, to the character
 * at fault.
 */
extern enum mtr_json_error
mtr_json_scan_string(const char *s, size_t len, size_t *pos,
					 struct mtr_json_text *text) MTR_MUSTCHECK;

#endif /* MTR_CORE_JSON_TEXT_H */
