/*
 * text.h
 *		Byte strings as they come from a socket: never NUL terminated, never
 *		trusted.  PURE: includes neither h2o nor libpq.
 */
#ifndef GATEWAY_TEXT_H
#define GATEWAY_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A borrowed piece of memory; whoever fills it in says how long it lives. */
typedef struct Slice
{
	const char *base; /* may be NULL when len is 0 */
	size_t      len;  /* bytes */
} Slice;

#define SLICE_LITERAL(s) ((Slice){(s), sizeof(s) - 1})
#define SLICE_NONE ((Slice){NULL, 0})

/* Makes a slice of a NUL terminated string; NULL gives SLICE_NONE. */
static inline Slice
slice_of(const char *s)
{
	return (Slice){s, s == NULL ? 0 : strlen(s)};
}

/* True when both hold the same bytes. */
static inline bool
slice_equal(Slice a, Slice b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.base, b.base, a.len) == 0);
}

/*
 * True when both hold the same bytes, ASCII letters of "a" taken as lower case;
 * "lower" must be lower case already.
 */
extern bool slice_is_lower(Slice a, Slice lower);

/* Returns "s" without spaces and tabs at both ends. */
extern Slice slice_trim(Slice s);

/* True when "s" is valid UTF-8: no overlong form, surrogate, or value above
 * U+10FFFF.  NUL is valid UTF-8: see text_is_value. */
extern bool text_is_utf8(Slice s);

/* True when "s" is valid UTF-8 and holds no byte below 0x20 but tabs, and no
 * 0x7F: what a header value must be before it may reach PostgreSQL. */
extern bool text_is_value(Slice s);

/* True when "s" is a token of RFC 9110 (a method, a header name). */
extern bool text_is_token(Slice s);

/* True when "s" may be echoed as a request id: 1 to MORTAR_MAX_REQUEST_ID
 * letters, digits, underscores and hyphens. */
extern bool text_is_request_id(Slice s);

/*
 * Decodes percent-encoding once into "dst", which must have room for src.len
 * bytes, and sets *len.  Returns false on a "%" without two hex digits.
 */
extern bool text_percent_decode(Slice src, char *dst, size_t *len);

/* Writes "value" as 16 lower-case hex digits, without a NUL. */
extern void text_hex64(char dst[16], uint64_t value);

#endif /* GATEWAY_TEXT_H */
