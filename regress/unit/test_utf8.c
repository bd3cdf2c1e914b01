/*
 * test_utf8.c - strict UTF-8 beside a decoder written from its definition
 */
// SOURCES: extension/core/utf8.c
#include "core/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "utf8_model.h"

static void
check_char(const unsigned char *s, size_t len)
{
	size_t expected = model_char(s, len);

	if (mtr_utf8_char((const char *) s, len) != expected)
		fail_msg("%zu bytes %02x %02x %02x %02x", len, s[0], s[1], s[2], s[3]);
}

static void
all_sequences_of_up_to_three_bytes(void **state)
{
	unsigned char s[4] = {0};

	for (unsigned a = 0; a < 256; a++)
	{
		s[0] = (unsigned char) a;
		check_char(s, 1);
		for (unsigned b = 0; b < 256; b++)
		{
			s[1] = (unsigned char) b;
			check_char(s, 2);
			for (unsigned c = 0; a >= 0xE0 && c < 256; c++)
			{
				s[2] = (unsigned char) c;
				check_char(s, 3);
			}
		}
	}
}

static void
sequences_of_four_bytes(void **state)
{
	static const unsigned char edges[] = {0x00, 0x7F, 0x80, 0x8F, 0x90,
										  0x9F, 0xA0, 0xBF, 0xC0, 0xFF};
	unsigned char              s[4];

	for (unsigned a = 0xF0; a < 256; a++)
		for (unsigned b = 0; b < 256; b++)
			for (size_t c = 0; c < sizeof(edges); c++)
				for (size_t d = 0; d < sizeof(edges); d++)
				{
					s[0] = (unsigned char) a;
					s[1] = (unsigned char) b;
					s[2] = edges[c];
					s[3] = edges[d];
					check_char(s, 4);
				}
}

static void
every_character_alone_and_cut_short(void **state)
{
	for (uint32_t code = 0x80; code <= 0x10FFFF; code++)
	{
		char   s[4];
		size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

		for (size_t i = n - 1; i > 0; i--)
			s[i] = (char) (0x80 | (code >> 6 * (n - 1 - i) & 0x3F));
		s[0] = (char) ((n == 2   ? 0xC0
						: n == 3 ? 0xE0
								 : 0xF0) |
					   code >> 6 * (n - 1));
		assert_int_equal(mtr_utf8_valid(s, n), code < 0xD800 || code > 0xDFFF);
		assert_false(mtr_utf8_valid(s, n - 1));
		assert_false(mtr_utf8_valid(s + 1, n - 1));
	}
}

static void
a_bad_byte_is_found_wherever_it_is(void **state)
{
	static const char *const bad[] = {"\x80",
									  "\xff",
									  "\xc0\x80",
									  "\xed\xa0\x80",
									  "\xf4\x90\x80\x80",
									  "\xe2\x82",
									  "\xf0\x9f\x98"};
	char                     text[48];

	for (size_t offset = 0; offset < 40; offset++)
	{
		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		{
			size_t n = strlen(bad[i]);

			memset(text, 'a', sizeof(text));
			assert_true(mtr_utf8_valid(text, offset + n + 3));
			memcpy(text + offset, bad[i], n);
			assert_false(mtr_utf8_valid(text, offset + n));
			assert_false(mtr_utf8_valid(text, offset + n + 3));
			assert_true(mtr_utf8_valid(text, offset));
		}
	}
}

static void
good_characters_wherever_they_are(void **state)
{
	static const char *const good[] = {
		"\xc2\x80",     "\xdf\xbf",         "\xe0\xa0\x80",    "\xed\x9f\xbf",
		"\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"};
	char text[48];

	for (size_t offset = 0; offset < 40; offset++)
	{
		for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		{
			size_t n = strlen(good[i]);

			memset(text, '~', sizeof(text));
			memcpy(text + offset, good[i], n);
			for (size_t more = 0; more < 4; more++)
				assert_true(mtr_utf8_valid(text, offset + n + more));
			assert_false(mtr_utf8_valid(text, offset + n - 1));
		}
	}
}

static void
nul_is_valid_but_not_clean(void **state)
{
	char text[20];

	assert_true(mtr_utf8_valid(NULL, 0));
	assert_true(mtr_utf8_clean(NULL, 0));
	assert_true(mtr_utf8_valid("\0", 1));
	assert_false(mtr_utf8_clean("\0", 1));
	for (size_t at = 0; at < sizeof(text); at++)
	{
		memset(text, 'x', sizeof(text));
		assert_true(mtr_utf8_clean(text, sizeof(text)));
		text[at] = '\0';
		assert_true(mtr_utf8_valid(text, sizeof(text)));
		assert_false(mtr_utf8_clean(text, sizeof(text)));
		assert_true(mtr_utf8_clean(text, at));
	}
	assert_false(mtr_utf8_clean("a\xff", 2));
	assert_false(mtr_utf8_clean("\xc0\x80", 2));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_sequences_of_up_to_three_bytes),
		cmocka_unit_test(sequences_of_four_bytes),
		cmocka_unit_test(every_character_alone_and_cut_short),
		cmocka_unit_test(a_bad_byte_is_found_wherever_it_is),
		cmocka_unit_test(good_characters_wherever_they_are),
		cmocka_unit_test(nul_is_valid_but_not_clean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
