/*
 * test_apikey.c - the text of API keys, and comparing secrets
 */
// SOURCES: extension/core/apikey.c
#include "core/apikey.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define CHECKED_CHARS (MTR_APIKEY_CHARS - MTR_APIKEY_CRC_CHARS)

static const char digits[] =
	"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/* computed elsewhere, with other big numbers and another CRC-32 */
static const struct
{
	uint8_t     id[16];
	uint8_t     secret[32];
	const char *text;
} known[] = {
	{{0},
	 {0},
	 "mortar_sk_0000000000000000000000"
	 "0000000000000000000000000000000000000000000"
	 "3wdkOI"},
	{{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
	  0xFF, 0xFF, 0xFF, 0xFF},
	 {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
	  0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
	  0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF},
	 "mortar_sk_7n42DGM5Tflk9n8mt7Fhc7"
	 "yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp1"
	 "3mxrpD"},
	{{0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x0B,
	  0x0C, 0x0D, 0x0E, 0x0F},
	 {0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4A,
	  0x4B, 0x4C, 0x4D, 0x4E, 0x4F, 0x50, 0x51, 0x52, 0x53, 0x54, 0x55,
	  0x56, 0x57, 0x58, 0x59, 0x5A, 0x5B, 0x5C, 0x5D, 0x5E, 0x5F},
	 "mortar_sk_000SYW7RiJxkEgOGusQGwp"
	 "FEgKooW5RLbIKrUYErGAWCWMtO7YYD7L8rb7x51oVyx"
	 "2cULPi"},
};

/* seal writes the checksum of a key that a test made up, bit by bit */
static void
seal(char key[MTR_APIKEY_CHARS])
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < CHECKED_CHARS; i++)
	{
		crc ^= (unsigned char) key[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ UINT32_C(0xEDB88320) : crc >> 1;
	}
	crc = ~crc;
	for (size_t i = MTR_APIKEY_CHARS; i > CHECKED_CHARS; i--)
	{
		key[i - 1] = digits[crc % 62];
		crc /= 62;
	}
}

static void
known_keys(void **state)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
	{
		char        text[MTR_APIKEY_CHARS];
		uint8_t     id[16];
		const char *secret;

		mtr_apikey_format(known[i].id, known[i].secret, text);
		assert_int_equal(strlen(known[i].text), MTR_APIKEY_CHARS);
		assert_memory_equal(text, known[i].text, MTR_APIKEY_CHARS);
		assert_true(mtr_apikey_parse(text, sizeof(text), id, &secret));
		assert_memory_equal(id, known[i].id, 16);
		assert_ptr_equal(secret, text + 32);
	}
}

static void
every_id_bit_survives(void **state)
{
	static const uint8_t rnd[32] = {1};

	for (int bit = 0; bit < 128; bit++)
	{
		uint8_t     id[16] = {0};
		uint8_t     back[16];
		char        text[MTR_APIKEY_CHARS];
		const char *secret;

		id[bit / 8] = (uint8_t) (1 << bit % 8);
		mtr_apikey_format(id, rnd, text);
		assert_true(mtr_apikey_parse(text, sizeof(text), back, &secret));
		assert_memory_equal(id, back, 16);
	}
}

static void
every_secret_bit_counts(void **state)
{
	static const uint8_t id[16] = {0};
	uint8_t              rnd[32] = {0};
	char                 first[MTR_APIKEY_CHARS];

	mtr_apikey_format(id, rnd, first);
	for (int bit = 0; bit < 256; bit++)
	{
		char text[MTR_APIKEY_CHARS];

		rnd[bit / 8] = (uint8_t) (1 << bit % 8);
		mtr_apikey_format(id, rnd, text);
		rnd[bit / 8] = 0;
		assert_memory_not_equal(text + 32, first + 32, MTR_APIKEY_SECRET_CHARS);
	}
}

static void
one_wrong_byte_anywhere_is_refused(void **state)
{
	uint8_t     id[16];
	const char *secret;

	for (size_t at = 0; at < MTR_APIKEY_CHARS; at++)
	{
		for (int c = 0; c < 256; c++)
		{
			char text[MTR_APIKEY_CHARS];

			memcpy(text, known[2].text, sizeof(text));
			if (text[at] == (char) c)
				continue;
			text[at] = (char) c;
			assert_false(mtr_apikey_parse(text, sizeof(text), id, &secret));
		}
	}
}

static void
swapped_neighbours_are_refused(void **state)
{
	uint8_t     id[16];
	const char *secret;

	for (size_t at = 0; at + 1 < MTR_APIKEY_CHARS; at++)
	{
		char text[MTR_APIKEY_CHARS];

		memcpy(text, known[2].text, sizeof(text));
		text[at] = known[2].text[at + 1];
		text[at + 1] = known[2].text[at];
		if (text[at] != text[at + 1])
			assert_false(mtr_apikey_parse(text, sizeof(text), id, &secret));
	}
}

static void
other_lengths_are_refused(void **state)
{
	char        text[MTR_APIKEY_CHARS + 2];
	uint8_t     id[16];
	const char *secret;

	memset(text, '0', sizeof(text));
	memcpy(text, known[1].text, MTR_APIKEY_CHARS);
	for (size_t len = 0; len <= sizeof(text); len++)
		assert_int_equal(mtr_apikey_parse(text, len, id, &secret),
						 len == MTR_APIKEY_CHARS);
	assert_false(mtr_apikey_parse(NULL, 0, id, &secret));
}

static void
sealed_but_wrong_keys_are_refused(void **state)
{
	static const char outside[] = "/:@[`{-_ \0\x7f\x80\xff";
	char              text[MTR_APIKEY_CHARS];
	uint8_t           id[16];
	const char       *secret;

	/* a checksum over other characters, or another prefix, is no key */
	for (size_t at = 0; at < CHECKED_CHARS; at++)
	{
		for (size_t i = 0; i < sizeof(outside) - 1; i++)
		{
			memcpy(text, known[2].text, sizeof(text));
			if (text[at] == outside[i])
				continue;
			text[at] = outside[i];
			seal(text);
			assert_false(mtr_apikey_parse(text, sizeof(text), id, &secret));
		}
	}
	memcpy(text, known[2].text, sizeof(text));
	memcpy(text, "mortar_pk_", 10);
	seal(text);
	assert_false(mtr_apikey_parse(text, sizeof(text), id, &secret));
}

static void
ids_above_128_bits_are_refused(void **state)
{
	/* 2^128 - 1 is 7n42DGM5Tflk9n8mt7Fhc7 */
	static const struct
	{
		const char *id;
		bool        fits;
	} cases[] = {
		{"7n42DGM5Tflk9n8mt7Fhc6", true},  {"7n42DGM5Tflk9n8mt7Fhc7", true},
		{"7n42DGM5Tflk9n8mt7Fhc8", false}, {"7n42DGM5Tflk9n8mt7Fhcz", false},
		{"7n42DGM5Tflk9n8mt7Fhd0", false}, {"7n42DGM5Tflk9n8mt7Fi00", false},
		{"7n42DGM5Tflk9n8mt7G000", false}, {"8000000000000000000000", false},
		{"zzzzzzzzzzzzzzzzzzzzzz", false}, {"7mzzzzzzzzzzzzzzzzzzzz", true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		char        text[MTR_APIKEY_CHARS];
		uint8_t     id[16];
		const char *secret;

		memcpy(text, known[0].text, sizeof(text));
		memcpy(text + MTR_APIKEY_PREFIX_CHARS, cases[i].id,
			   MTR_APIKEY_ID_CHARS);
		seal(text);
		assert_int_equal(mtr_apikey_parse(text, sizeof(text), id, &secret),
						 cases[i].fits);
	}
}

static void
constant_time_comparison_sees_every_bit(void **state)
{
	uint8_t a[64];
	uint8_t b[64];

	for (size_t i = 0; i < sizeof(a); i++)
		a[i] = b[i] = (uint8_t) (i * 37);
	assert_true(mtr_ct_equal(a, b, sizeof(a)));
	assert_true(mtr_ct_equal(a, a, sizeof(a)));
	for (size_t i = 0; i < sizeof(a); i++)
	{
		for (int bit = 0; bit < 8; bit++)
		{
			b[i] ^= (uint8_t) (1 << bit);
			assert_false(mtr_ct_equal(a, b, sizeof(a)));
			assert_false(mtr_ct_equal(a, b, i + 1));
			assert_true(mtr_ct_equal(a, b, i));
			b[i] = a[i];
		}
	}
	assert_true(mtr_ct_equal(NULL, NULL, 0));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_keys),
		cmocka_unit_test(every_id_bit_survives),
		cmocka_unit_test(every_secret_bit_counts),
		cmocka_unit_test(one_wrong_byte_anywhere_is_refused),
		cmocka_unit_test(swapped_neighbours_are_refused),
		cmocka_unit_test(other_lengths_are_refused),
		cmocka_unit_test(sealed_but_wrong_keys_are_refused),
		cmocka_unit_test(ids_above_128_bits_are_refused),
		cmocka_unit_test(constant_time_comparison_sees_every_bit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
