/*
 * test_uuid7.c - ids are in order whatever the clock does; one text form
 */
// SOURCES: extension/core/uuid7.c
#include "core/uuid7.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const uint8_t zero_random[MTR_UUID7_RANDOM_BYTES];
static const uint8_t full_random[MTR_UUID7_RANDOM_BYTES] = {
	0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};

static unsigned
seq_of(const uint8_t id[16])
{
	return (unsigned) (id[6] & 0x0F) << 8 | id[7];
}

static uint64_t
ms_of(const uint8_t id[16])
{
	uint64_t ms = 0;

	for (int i = 0; i < 6; i++)
		ms = ms << 8 | id[i];
	return ms;
}

static void
layout(void **state)
{
	/* RFC 9562, appendix A.6: 2022-02-22 19:22:22 UTC */
	static const uint8_t   rnd[] = {0x0C, 0xC3, 0x18, 0xC4, 0xDC,
									0x0C, 0x0C, 0x07, 0x39, 0x8F};
	struct mtr_uuid7_state st = {0, 0};
	uint8_t                id[16];
	char                   text[MTR_UUID_CHARS];

	mtr_uuid7(id, UINT64_C(0x017F22E279B0), rnd, &st);
	mtr_uuid_format(id, text);
	/* the counter starts with its top bit clear: 4c3, not cc3 */
	assert_memory_equal(text, "017f22e2-79b0-74c3-98c4-dc0c0c07398f", 36);
}

static void
version_and_variant_hold_for_any_bits(void **state)
{
	const uint8_t *const   random[] = {zero_random, full_random};
	struct mtr_uuid7_state st = {0, 0};

	for (uint64_t i = 0; i < 10000; i++)
	{
		uint8_t id[16];

		mtr_uuid7(id, i / 3000, random[i % 2], &st);
		assert_int_equal(id[6] >> 4, 7);
		assert_int_equal(id[8] >> 6, 2);
		/* the other 62 bits are the random ones */
		assert_int_equal(id[8] & 0x3F, i % 2 ? 0x3F : 0);
		assert_memory_equal(id + 9, random[i % 2], 7);
	}
}

static void
ordered_within_a_millisecond(void **state)
{
	struct mtr_uuid7_state st = {0, 0};
	uint8_t                before[16] = {0};

	/* three times what one counter can hold; random bits point the other way */
	for (int i = 0; i < 3 * 4096; i++)
	{
		uint8_t rnd[10];
		uint8_t id[16];

		memset(rnd, 255 - i % 256, sizeof(rnd));
		mtr_uuid7(id, 1000, rnd, &st);
		assert_true(memcmp(before, id, 16) < 0);
		memcpy(before, id, 16);
	}
	assert_true(ms_of(before) > 1000 && ms_of(before) < 1008);
}

static void
ordered_when_the_clock_jumps(void **state)
{
	static const uint64_t clock[] = {
		5000, 5001, 1400, 0, 5000, 5001, 5002, 1, 9000, 8999, UINT64_C(1) << 47,
		17};
	struct mtr_uuid7_state st = {0, 0};
	uint8_t                before[16] = {0};

	for (size_t i = 0; i < sizeof(clock) / sizeof(clock[0]); i++)
	{
		for (int j = 0; j < 5; j++)
		{
			uint8_t id[16];

			mtr_uuid7(id, clock[i], j % 2 ? zero_random : full_random, &st);
			assert_true(memcmp(before, id, 16) < 0);
			assert_true(ms_of(id) >= clock[i]);
			memcpy(before, id, 16);
		}
	}
}

static void
counter_runs_over_into_the_millisecond(void **state)
{
	struct mtr_uuid7_state st = {1000, 4094};
	uint8_t                id[16];

	mtr_uuid7(id, 1000, full_random, &st);
	assert_int_equal(seq_of(id), 4095);
	assert_int_equal(ms_of(id), 1000);
	mtr_uuid7(id, 1000, full_random, &st);
	assert_int_equal(seq_of(id), 0x7FF);
	assert_int_equal(ms_of(id), 1001);
	/* the clock catches up: the counter goes on, then starts anew */
	mtr_uuid7(id, 1001, zero_random, &st);
	assert_int_equal(seq_of(id), 0x800);
	mtr_uuid7(id, 1002, zero_random, &st);
	assert_int_equal(seq_of(id), 0);
	assert_int_equal(ms_of(id), 1002);
}

static void
clock_beyond_48_bits_is_clamped(void **state)
{
	struct mtr_uuid7_state st = {0, 0};
	uint8_t                id[16];

	mtr_uuid7(id, MTR_UUID7_MAX_MS, zero_random, &st);
	assert_true(ms_of(id) == MTR_UUID7_MAX_MS);
	assert_int_equal(seq_of(id), 0);
	mtr_uuid7(id, MTR_UUID7_MAX_MS + 1, zero_random, &st);
	assert_true(ms_of(id) == MTR_UUID7_MAX_MS);
	assert_int_equal(seq_of(id), 1);
	mtr_uuid7(id, UINT64_MAX, zero_random, &st);
	assert_int_equal(seq_of(id), 2);
	st.seq = 4095;
	mtr_uuid7(id, UINT64_MAX, zero_random, &st);
	assert_true(ms_of(id) == MTR_UUID7_MAX_MS);
	assert_int_equal(id[6] >> 4, 7);
}

static void
format_and_parse_are_inverse(void **state)
{
	uint8_t id[16];

	for (int i = 0; i < 256; i++)
	{
		char    text[MTR_UUID_CHARS];
		uint8_t back[16];

		for (int j = 0; j < 16; j++)
			id[j] = (uint8_t) (i + j * 17);
		mtr_uuid_format(id, text);
		assert_true(mtr_uuid_parse(text, sizeof(text), back));
		assert_memory_equal(id, back, 16);
	}
}

static void
parse_takes_either_case(void **state)
{
	static const uint8_t expected[16] = {0x01, 0x9A, 0xBC, 0xDE, 0xFa, 0xbc,
										 0x7d, 0xef, 0x80, 0x12, 0x34, 0x56,
										 0x78, 0x9a, 0xbc, 0xde};
	uint8_t              id[16];

	assert_true(mtr_uuid_parse("019ABCDE-faBC-7DEF-8012-3456789aBcDe", 36, id));
	assert_memory_equal(id, expected, 16);
}

static void
parse_refuses_every_other_byte(void **state)
{
	static const char good[] = "019abcde-fabc-7def-8012-3456789abcde";
	uint8_t           id[16];

	for (size_t at = 0; at < 36; at++)
	{
		for (int c = 0; c < 256; c++)
		{
			char text[36];
			bool is_hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
						  (c >= 'A' && c <= 'F');
			bool expected = good[at] == '-' ? c == '-' : is_hex;

			memcpy(text, good, 36);
			text[at] = (char) c;
			assert_int_equal(mtr_uuid_parse(text, 36, id), expected);
		}
	}
}

static void
parse_refuses_other_lengths_and_forms(void **state)
{
	static const char good[] = "019abcde-fabc-7def-8012-3456789abcde0";
	uint8_t           id[16];

	for (size_t len = 0; len <= 37; len++)
		assert_int_equal(mtr_uuid_parse(good, len, id), len == 36);
	assert_false(mtr_uuid_parse(NULL, 0, id));
	assert_false(
		mtr_uuid_parse("{19abcde-fabc-7def-8012-3456789abcd}", 36, id));
	assert_false(
		mtr_uuid_parse("019abcdefabc7def80123456789abcde0000", 36, id));
	assert_false(
		mtr_uuid_parse("019a-bcde-fabc-7def-8012-3456789abcd", 36, id));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layout),
		cmocka_unit_test(version_and_variant_hold_for_any_bits),
		cmocka_unit_test(ordered_within_a_millisecond),
		cmocka_unit_test(ordered_when_the_clock_jumps),
		cmocka_unit_test(counter_runs_over_into_the_millisecond),
		cmocka_unit_test(clock_beyond_48_bits_is_clamped),
		cmocka_unit_test(format_and_parse_are_inverse),
		cmocka_unit_test(parse_takes_either_case),
		cmocka_unit_test(parse_refuses_every_other_byte),
		cmocka_unit_test(parse_refuses_other_lengths_and_forms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
