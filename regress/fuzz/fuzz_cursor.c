/*
 * fuzz_cursor.c - cursors: what is read as a token is written the same again,
 * and any key, secret and MAC can be written and read
 */
// SOURCES: extension/core/cursor.c extension/core/base64url.c
#include "core/cursor.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static void
try_message(const struct mtr_cursor *c, const uint8_t *data, size_t size)
{
	const struct mtr_slice scope[] = {
		{(const char *) data, size / 2},
		{(const char *) data + size / 2, size - size / 2},
	};
	size_t   len = mtr_cursor_message_len(c, scope, 2);
	uint8_t *out = malloc(len);

	require(out != NULL);
	require(mtr_cursor_message(c, scope, 2, out) == len);
	require(size == 0 ||
			memcmp(out + len - scope[1].len, scope[1].p, scope[1].len) == 0);
	free(out);
}

/* as_text reads the input as a token */
static void
as_text(const uint8_t *data, size_t size)
{
	struct mtr_cursor c;
	char              token[MTR_CURSOR_CHARS_MAX];

	if (!mtr_cursor_parse((const char *) data, size, &c))
		return;
	require(c.key_len >= 1 && c.key_len <= MTR_CURSOR_KEY_MAX);
	require(mtr_cursor_format(&c, token) == size);
	require(memcmp(token, data, size) == 0);
	try_message(&c, data, size);
}

/* as_fields makes a token of the input: secret, MAC, key */
static void
as_fields(const uint8_t *data, size_t size)
{
	const size_t      fixed = sizeof(uint32_t) + MTR_CURSOR_MAC_BYTES;
	struct mtr_cursor c;
	struct mtr_cursor back;
	char              token[MTR_CURSOR_CHARS_MAX];
	size_t            len;

	if (size <= fixed)
		return;
	memcpy(&c.secret, data, sizeof(c.secret));
	memcpy(c.mac, data + sizeof(c.secret), sizeof(c.mac));
	c.key_len = size - fixed;
	if (c.key_len > MTR_CURSOR_KEY_MAX)
		c.key_len = MTR_CURSOR_KEY_MAX;
	memcpy(c.key, data + fixed, c.key_len);
	len = mtr_cursor_format(&c, token);
	require(mtr_cursor_parse(token, len, &back));
	require(back.secret == c.secret && back.key_len == c.key_len);
	require(memcmp(back.key, c.key, c.key_len) == 0);
	require(memcmp(back.mac, c.mac, sizeof(c.mac)) == 0);
	try_message(&c, data, size);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	as_text(data, size);
	as_fields(data, size);
	return 0;
}
