/*
 * base64url.h - bytes as text that needs no escape in a URL (RFC 4648, 5)
 *
 * Purpose: tokens that a client passes back to us as they are.
 *
 * Design: no padding, and one spelling for one sequence of bytes: what is
 * decoded and encoded again is the same text.  So two texts that differ never
 * mean the same token.
 *
 * Ownership: pure functions, no allocation.
 */
#ifndef MTR_CORE_BASE64URL_H
#define MTR_CORE_BASE64URL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/attr.h"

/* the number of characters that len bytes take */
#define MTR_BASE64URL_CHARS(len) (((len) *4 + 2) / 3)

/* the number of bytes that a text of len characters can at most hold */
#define MTR_BASE64URL_BYTES(len) ((len) *3 / 4)

/*
 * mtr_base64url_encode writes MTR_BASE64URL_CHARS(len) characters, without a
 * terminating NUL, and returns their number.  out must not overlap in.
 */
extern size_t mtr_base64url_encode(const uint8_t *in, size_t len, char *out);

/*
 * mtr_base64url_decode writes MTR_BASE64URL_BYTES(len) bytes, which must not
 * overlap in, and returns their number.  It returns -1, with out unspecified,
 * for a character outside the alphabet (padding, white space), a length that
 * no bytes have, and unused bits that are not zero.
 */
extern ssize_t
mtr_base64url_decode(const char *in, size_t len, uint8_t *out) MTR_MUSTCHECK;

#endif /* MTR_CORE_BASE64URL_H */
