/*
 * fuzz_apikey.c - API keys: no input confuses the parser
 *
 * The input is tried as a key; its first 48 bytes are also made into a key,
 * which must come back, and must not once one byte of it is changed.
 */
// SOURCES: extension/core/apikey.c
#include "core/apikey.h"
#include "fuzz.h"

#include <string.h>

#define RAW_BYTES (MTR_APIKEY_ID_BYTES + MTR_APIKEY_RANDOM_BYTES)

static void
try_as_key(const char *s, size_t len)
{
	static const uint8_t rnd[MTR_APIKEY_RANDOM_BYTES];
	uint8_t              id[MTR_APIKEY_ID_BYTES];
	char                 again[MTR_APIKEY_CHARS];
	const char          *secret;

	if (!mtr_apikey_parse(s, len, id, &secret))
		return;
	require(len == MTR_APIKEY_CHARS);
	require(secret == s + MTR_APIKEY_PREFIX_CHARS + MTR_APIKEY_ID_CHARS);
	/* an id has one spelling */
	mtr_apikey_format(id, rnd, again);
	require(memcmp(again, s, MTR_APIKEY_PREFIX_CHARS + MTR_APIKEY_ID_CHARS) ==
			0);
}

static void
make_and_break(const uint8_t *data, size_t size)
{
	char        key[MTR_APIKEY_CHARS];
	uint8_t     id[MTR_APIKEY_ID_BYTES];
	const char *secret;
	size_t      at;

	mtr_apikey_format(data, data + MTR_APIKEY_ID_BYTES, key);
	require(mtr_apikey_parse(key, sizeof(key), id, &secret));
	require(mtr_ct_equal(id, data, sizeof(id)));
	if (size < RAW_BYTES + 2 || data[RAW_BYTES + 1] == 0)
		return;
	at = data[RAW_BYTES] % sizeof(key);
	key[at] = (char) (key[at] ^ data[RAW_BYTES + 1]);
	require(!mtr_apikey_parse(key, sizeof(key), id, &secret));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_as_key((const char *) data, size);
	if (size >= RAW_BYTES)
		make_and_break(data, size);
	return 0;
}
