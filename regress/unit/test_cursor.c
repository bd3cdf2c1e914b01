/*
 * test_cursor.c - cursors: tokens, and the message that their MAC covers
 */
// SOURCES: extension/core/cursor.c extension/core/base64url.c
#include "core/cursor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct mtr_cursor
sample(size_t key_len)
{
	struct mtr_cursor c;

	memset(&c, 0, sizeof(c));
	c.secret = 0x01020304;
	c.key_len = key_len;
	for (size_t i = 0; i < key_len; i++)
		c.key[i] = (uint8_t) (i * 7 + key_len);
	for (size_t i = 0; i < sizeof(c.mac); i++)
		c.mac[i] = (uint8_t) (0xF0 + i);
	return c;
}

static void
there_and_back(void **state)
{
	for (size_t key_len = 1; key_len <= MTR_CURSOR_KEY_MAX; key_len++)
	{
		struct mtr_cursor c = sample(key_len);
		struct mtr_cursor back;
		char              token[MTR_CURSOR_CHARS_MAX];
		size_t            len = mtr_cursor_format(&c, token);

		assert_int_equal(len,
						 MTR_BASE64URL_CHARS(MTR_CURSOR_HEAD_BYTES + key_len +
											 MTR_CURSOR_MAC_BYTES));
		assert_true(mtr_cursor_parse(token, len, &back));
		assert_int_equal(back.secret, c.secret);
		assert_int_equal(back.key_len, key_len);
		assert_memory_equal(back.key, c.key, key_len);
		assert_memory_equal(back.mac, c.mac, sizeof(c.mac));
	}
}

/* a token is never read as another one: every changed byte shows */
static void
changed_tokens(void **state)
{
	struct mtr_cursor c = sample(16);
	char              token[MTR_CURSOR_CHARS_MAX];
	size_t            len = mtr_cursor_format(&c, token);

	for (size_t at = 0; at < len; at++)
	{
		char was = token[at];

		for (int byte = 0; byte < 256; byte++)
		{
			struct mtr_cursor other;

			token[at] = (char) byte;
			if (token[at] == was || !mtr_cursor_parse(token, len, &other))
				continue;
			assert_true(other.secret != c.secret ||
						other.key_len != c.key_len ||
						memcmp(other.key, c.key, c.key_len) != 0 ||
						memcmp(other.mac, c.mac, sizeof(c.mac)) != 0);
		}
		token[at] = was;
	}
}

static void
no_tokens(void **state)
{
	struct mtr_cursor c = sample(MTR_CURSOR_KEY_MAX);
	struct mtr_cursor out;
	char              token[MTR_CURSOR_CHARS_MAX + 4];
	char              longest[MTR_CURSOR_CHARS_MAX];
	size_t            len = mtr_cursor_format(&c, longest);

	assert_int_equal(len, MTR_CURSOR_CHARS_MAX);
	memcpy(token, longest, len);
	memset(token + len, 'A', 4);
	for (size_t extra = 1; extra <= 4; extra++)
		assert_false(mtr_cursor_parse(token, len + extra, &out));
	assert_false(mtr_cursor_parse(NULL, 0, &out));
	/* an empty key; another format */
	memset(token, 'A', sizeof(token));
	token[1] = 'Q';
	assert_true(mtr_cursor_parse(token, MTR_BASE64URL_CHARS(22), &out));
	assert_false(mtr_cursor_parse(token, MTR_BASE64URL_CHARS(21), &out));
	token[1] = 'g';
	assert_false(mtr_cursor_parse(token, MTR_BASE64URL_CHARS(22), &out));
}

/* message gives the bytes that the MAC covers, in a block of the exact size */
static uint8_t *
message(const struct mtr_cursor *c, const struct mtr_slice *scope, size_t n,
		size_t *len)
{
	uint8_t *bytes;

	*len = mtr_cursor_message_len(c, scope, n);
	bytes = malloc(*len);
	assert_non_null(bytes);
	assert_int_equal(mtr_cursor_message(c, scope, n, bytes), *len);
	return bytes;
}

static void
message_is_as_documented(void **state)
{
	static const uint8_t   expected[] = "mortar page cursor\0\1\1\2\3\4"
										"\0\0\0\2\x02\x09\0\0\0\1t\0\0\0\0";
	const struct mtr_slice scope[] = {{"t", 1}, {NULL, 0}};
	struct mtr_cursor      c = sample(2);
	size_t                 len;
	uint8_t               *bytes = message(&c, scope, 2, &len);

	assert_int_equal(len, sizeof(expected) - 1);
	assert_memory_equal(bytes, expected, len);
	free(bytes);
}

/* whatever differs, in the cursor or in what it is for, is in the message */
static void
messages_differ(void **state)
{
	const struct mtr_slice scopes[][2] = {
		{{"a", 1}, {"bc", 2}}, {{"ab", 2}, {"c", 1}}, {{"abc", 3}, {"", 0}},
		{{"", 0}, {"abc", 3}}, {{"A", 1}, {"bc", 2}},
	};
	struct mtr_cursor cursors[4];
	uint8_t          *bytes[20];
	size_t            len[20];
	size_t            n = 0;

	for (size_t i = 0; i < 4; i++)
		cursors[i] = sample(i == 3 ? 9 : 8);
	cursors[1].secret++;
	cursors[2].key[7]++;
	for (size_t i = 0; i < 4; i++)
		for (size_t j = 0; j < 5; j++, n++)
			bytes[n] = message(&cursors[i], scopes[j], 2, &len[n]);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++)
			assert_true(len[i] != len[j] ||
						memcmp(bytes[i], bytes[j], len[i]) != 0);
	while (n-- > 0)
		free(bytes[n]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(changed_tokens),
		cmocka_unit_test(no_tokens),
		cmocka_unit_test(message_is_as_documented),
		cmocka_unit_test(messages_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
