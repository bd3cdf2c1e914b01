/*
 * uuid7.h - time-ordered ids (UUID version 7, RFC 9562) and their text form
 *
 * Purpose: entries, grants, keys and rows get ids without a sequence: no
 * sequence means no shared page to fight for and nothing to renumber after a
 * restore; time order keeps index inserts at the right edge.
 *
 * Design: 48 bits of milliseconds, 12 bits of counter (rand_a, "method 1" of
 * RFC 9562 section 6.2), 62 random bits.  Within one millisecond, or while the
 * clock stands behind the last id, the counter counts on; when its 12 bits run
 * over, the millisecond is moved on instead.  Every new millisecond starts the
 * counter at a random value below 2048, which leaves room for 2048 more.
 *
 * Ownership: time and randomness are passed in; the only state is the
 * caller's, one per process.  Not safe for two threads on one state.
 */
#ifndef MTR_CORE_UUID7_H
#define MTR_CORE_UUID7_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/attr.h"

#define MTR_UUID_BYTES 16
#define MTR_UUID_CHARS 36
#define MTR_UUID7_RANDOM_BYTES 10
#define MTR_UUID7_MAX_MS ((UINT64_C(1) << 48) - 1)

/* start with all zero */
struct mtr_uuid7_state
{
	uint64_t last_ms; /* millisecond of the last id */
	uint16_t seq;     /* its counter, 12 bits */
};

/*
 * mtr_uuid7 makes the next id.  unix_ms is the wall clock in milliseconds
 * since 1970, rnd 10 fresh random bytes of cryptographic quality.  Ids made
 * with one state are strictly increasing in byte order whatever the clock
 * does, up to MTR_UUID7_MAX_MS (the year 10889), to which a later clock is
 * clamped; beyond it order ends but ids stay distinct by their random bits.
 */
extern void mtr_uuid7(uint8_t out[MTR_UUID_BYTES], uint64_t unix_ms,
					  const uint8_t           rnd[MTR_UUID7_RANDOM_BYTES],
					  struct mtr_uuid7_state *st);

/*
 * mtr_uuid_format writes the canonical 36 characters in lower case, without a
 * terminating NUL.
 */
extern void
mtr_uuid_format(const uint8_t in[MTR_UUID_BYTES], char out[MTR_UUID_CHARS]);

/*
 * mtr_uuid_parse reads exactly the canonical form (8-4-4-4-12 hexadecimal
 * digits of either case, nothing around it).  Any version is accepted.  It
 * returns false, with out unspecified, for everything else, also the braced
 * and undashed forms that the server's own type takes: a row has one URL.
 */
extern bool mtr_uuid_parse(const char *s, size_t len,
						   uint8_t out[MTR_UUID_BYTES]) MTR_MUSTCHECK;

#endif /* MTR_CORE_UUID7_H */
