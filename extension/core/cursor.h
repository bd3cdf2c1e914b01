/*
 * cursor.h - where the next page of a list begins, as a token for clients
 *
 * Purpose: a list is read page by page without an offset.  The token holds the
 * key of the last item that was shown, and the next page begins behind it, so
 * that items which come or go between two pages move no others.
 *
 * Design: format byte, number of the secret, key, and a MAC that ends it, in
 * base64url.  The MAC also covers what the token is for (its scope: tenant,
 * list, table, order), which the token does not contain: one that was given
 * out for another list fails like one that was tampered with.  Nothing is
 * stored, so a token is good for every gateway and after every restart, as
 * long as the secret is.
 *
 * The MAC itself is the caller's: HMAC of mtr_cursor_message, cut to
 * MTR_CURSOR_MAC_BYTES.  The message is unambiguous, each part with its length
 * in front, and begins with words that nothing else signed with that secret
 * begins with.
 *
 * Ownership: pure functions, no allocation.
 */
#ifndef MTR_CORE_CURSOR_H
#define MTR_CORE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/attr.h"
#include "core/base64url.h"
#include "core/slice.h"

#define MTR_CURSOR_KEY_MAX 63
#define MTR_CURSOR_MAC_BYTES 16
#define MTR_CURSOR_HEAD_BYTES 5
#define MTR_CURSOR_BYTES_MAX                                                   \
	(MTR_CURSOR_HEAD_BYTES + MTR_CURSOR_KEY_MAX + MTR_CURSOR_MAC_BYTES)
#define MTR_CURSOR_CHARS_MAX MTR_BASE64URL_CHARS(MTR_CURSOR_BYTES_MAX)

struct mtr_cursor
{
	uint32_t secret;  /* the number of the secret that the MAC is made with */
	size_t   key_len; /* 1 to MTR_CURSOR_KEY_MAX */
	uint8_t  key[MTR_CURSOR_KEY_MAX];
	uint8_t  mac[MTR_CURSOR_MAC_BYTES];
};

/* mtr_cursor_message_len is the number of bytes that mtr_cursor_message writes
 */
extern size_t
mtr_cursor_message_len(const struct mtr_cursor *c,
					   const struct mtr_slice *scope, size_t nscope);

/*
 * mtr_cursor_message writes what the MAC is made of: everything in the cursor
 * but the MAC, and the scope, whose parts are each below 4 GiB.  out has room
 * for mtr_cursor_message_len bytes.  It returns the length written.
 */
extern size_t
mtr_cursor_message(const struct mtr_cursor *c, const struct mtr_slice *scope,
				   size_t nscope, uint8_t *out);

/*
 * mtr_cursor_format writes the token, at most MTR_CURSOR_CHARS_MAX characters
 * of A-Z a-z 0-9 - _ without a terminating NUL, and returns their number.
 */
extern size_t
mtr_cursor_format(const struct mtr_cursor *c, char out[MTR_CURSOR_CHARS_MAX]);

/*
 * mtr_cursor_parse reads exactly what mtr_cursor_format writes.  It returns
 * false, with c unspecified, for everything else.  The MAC is not checked.
 */
extern bool
mtr_cursor_parse(const char *s, size_t len, struct mtr_cursor *c) MTR_MUSTCHECK;

#endif /* MTR_CORE_CURSOR_H */
