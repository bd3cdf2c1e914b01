/*
 * apikey.h - the text of an API key
 *
 * Purpose: mortar_sk_<id><secret><crc>, all three parts in base 62 (0-9A-Za-z,
 * most significant digit first, padded with '0' to a fixed width):
 *
 *		id		22 digits	the 128-bit key id: finds the stored row or cache
 *							entry without a search by secret
 *		secret	43 digits	256 random bits, uniform: the number itself is
 *							written out, no digit is drawn by a remainder
 *		crc		 6 digits	CRC-32 (IEEE 802.3) of all 75 characters before it
 *
 * Design: the fixed prefix and the checksum are for people and secret
 * scanners: a mistyped or truncated key is refused without any look-up, and a
 * scanner can tell a real key from a look-alike.  Neither adds security; that
 * is the secret's alone.  Only the prefix mortar_sk_ exists.
 *
 * Ownership: pure functions, no allocation.  What they write or point to is
 * key material: the caller wipes it.
 */
#ifndef MTR_CORE_APIKEY_H
#define MTR_CORE_APIKEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/attr.h"

#define MTR_APIKEY_PREFIX "mortar_sk_"
#define MTR_APIKEY_PREFIX_CHARS 10
#define MTR_APIKEY_ID_CHARS 22
#define MTR_APIKEY_SECRET_CHARS 43
#define MTR_APIKEY_CRC_CHARS 6
#define MTR_APIKEY_CHARS 81

/* for secret scanners; the checksum weeds out what merely looks alike */
#define MTR_APIKEY_REGEX "mortar_sk_[0-9A-Za-z]{71}"

#define MTR_APIKEY_ID_BYTES 16
#define MTR_APIKEY_RANDOM_BYTES 32

/*
 * mtr_apikey_format writes the 81 characters of a key, without a terminating
 * NUL.  id and secret_rnd are read as big-endian numbers; secret_rnd must come
 * from a cryptographic generator.
 */
extern void mtr_apikey_format(const uint8_t id[MTR_APIKEY_ID_BYTES],
							  const uint8_t secret_rnd[MTR_APIKEY_RANDOM_BYTES],
							  char          out[MTR_APIKEY_CHARS]);

/*
 * mtr_apikey_parse takes a key apart: id gets the key id, *secret points at
 * the 43 characters of the secret inside s.  It returns false, with both
 * outputs unspecified, when the length, prefix, alphabet or checksum is wrong
 * or the id does not fit 128 bits.  It knows no secret, so it need not take
 * constant time.
 */
extern bool
mtr_apikey_parse(const char *s, size_t len, uint8_t id[MTR_APIKEY_ID_BYTES],
				 const char **secret) MTR_MUSTCHECK;

/*
 * mtr_ct_equal compares n bytes in a time that depends on n alone.  n may be
 * 0: then the areas are equal.
 */
extern bool mtr_ct_equal(const void *a, const void *b, size_t n) MTR_MUSTCHECK;

#endif /* MTR_CORE_APIKEY_H */
