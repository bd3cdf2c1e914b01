/*
 * test_base64url.c - bytes as text for URLs
 */
// SOURCES: extension/core/base64url.c
#include "core/base64url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void
check(const char *bytes, size_t len, const char *text)
{
	char    encoded[64];
	uint8_t decoded[64];

	assert_int_equal(MTR_BASE64URL_CHARS(len), strlen(text));
	assert_int_equal(MTR_BASE64URL_BYTES(strlen(text)), len);
	assert_int_equal(
		mtr_base64url_encode((const uint8_t *) bytes, len, encoded),
		strlen(text));
	assert_memory_equal(encoded, text, strlen(text));
	assert_int_equal(mtr_base64url_decode(text, strlen(text), decoded), len);
	assert_memory_equal(decoded, bytes, len);
}

/* RFC 4648, section 10, and the two digits that differ from plain base64 */
static void
vectors(void **state)
{
	check("", 0, "");
	check("f", 1, "Zg");
	check("fo", 2, "Zm8");
	check("foo", 3, "Zm9v");
	check("foob", 4, "Zm9vYg");
	check("fooba", 5, "Zm9vYmE");
	check("foobar", 6, "Zm9vYmFy");
	check("\xfb\xff\xbf\0", 4, "-_-_AA");
}

static void
one_spelling(void **state)
{
	static const char *const bad[] = {
		"Z",    "Zm9vY", "Zh",     "Zm9",   "Zm9=",  "Zg==",     "Zm9v=",
		"Zm 9", " Zm9v", "Zm9v\n", "Zm+v",  "Zm/v",  "Zm9v\xc3", "@m9v",
		"[m9v", "`m9v",  "{m9v",   "Zm9v.", "Zm9v:",
	};
	uint8_t out[16];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (mtr_base64url_decode(bad[i], strlen(bad[i]), out) != -1)
			fail_msg("%s was decoded", bad[i]);
	assert_int_equal(mtr_base64url_decode("Zm\0v", 4, out), -1);
}

/* of all texts of up to three characters, each is refused or comes back */
static void
all_short_texts(void **state)
{
	size_t good = 0;

	for (uint32_t i = 0; i < UINT32_C(1) << 24; i++)
	{
		const char text[3] = {(char) (i >> 16), (char) (i >> 8), (char) i};
		size_t     len = text[0] != '\0' ? 3 : text[1] != '\0' ? 2 : 1;
		uint8_t    bytes[2];
		char       again[3];
		ssize_t    n = mtr_base64url_decode(text + 3 - len, len, bytes);

		if (n < 0)
			continue;
		good++;
		assert_int_equal(n, len - 1);
		assert_int_equal(mtr_base64url_encode(bytes, (size_t) n, again), len);
		assert_memory_equal(again, text + 3 - len, len);
	}
	assert_int_equal(good, 256 + 65536);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vectors),
		cmocka_unit_test(one_spelling),
		cmocka_unit_test(all_short_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
