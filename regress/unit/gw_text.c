/*
 * gw_text.c - the gateway's validators, beside slow definitions of the same
 */
// SOURCES: gateway/text.c
#include "../../gateway/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "utf8_model.h"

/* Copies to the heap, so that a read past the end is caught. */
static Slice
heap(const void *bytes, size_t len)
{
	char *p = malloc(len + (len == 0));

	assert_non_null(p);
	if (len > 0)
		memcpy(p, bytes, len);
	return (Slice){p, len};
}

static bool
model_utf8(Slice s, bool controls_allowed)
{
	for (size_t i = 0, n; i < s.len; i += n)
	{
		unsigned char c = (unsigned char) s.base[i];

		n = model_char((const unsigned char *) s.base + i, s.len - i);
		if (n == 0 ||
			(!controls_allowed && c != '\t' && (c < 0x20 || c == 0x7F)))
			return false;
	}
	return true;
}

static void
compare(const void *bytes, size_t len)
{
	Slice s = heap(bytes, len);

	assert_int_equal(text_is_utf8(s), model_utf8(s, true));
	assert_int_equal(text_is_value(s), model_utf8(s, false));
	free((void *) s.base);
}

static void
every_pair_of_bytes_at_every_place_of_a_word(void **state)
{
	for (unsigned pair = 0; pair < 65536; pair++)
		for (size_t at = 0; at < 8; at++)
		{
			char s[10];

			memset(s, 'a', sizeof(s));
			s[at] = (char) (pair >> 8);
			s[at + 1] = (char) (pair & 255);
			compare(s, sizeof(s));
		}
}

static void
sequences_of_three_and_four_bytes(void **state)
{
	static const unsigned char edges[] = {0x00, 0x7F, 0x80, 0x8F, 0x90,
										  0x9F, 0xA0, 0xBF, 0xC0, 0xFF};
	const size_t               count = sizeof(edges);

	for (unsigned first = 0x80; first < 256; first++)
		for (size_t i = 0; i < count * count * count; i++)
		{
			unsigned char s[4] = {(unsigned char) first, edges[i % count],
								  edges[i / count % count],
								  edges[i / count / count]};

			for (size_t len = 1; len <= 4; len++)
				compare(s, len);
		}
}

static void
a_tab_is_the_only_control_character_of_a_value(void **state)
{
	for (int c = 0; c < 0x20; c++)
	{
		char s[] = {'a', (char) c, 'b'};

		assert_int_equal(text_is_value((Slice){s, sizeof(s)}), c == '\t');
	}
	assert_false(text_is_value(SLICE_LITERAL("a\x7F"
											 "b")));
	/* at any place of a longer one */
	assert_true(text_is_value(SLICE_LITERAL("\tone\t\ttwo three four\tfive")));
}

static void
empty_strings_are_valid_values_but_no_tokens(void **state)
{
	assert_true(text_is_utf8(SLICE_NONE));
	assert_true(text_is_value(SLICE_NONE));
	assert_false(text_is_token(SLICE_NONE));
	assert_false(text_is_request_id(SLICE_NONE));
}

static void
a_token_has_no_delimiter(void **state)
{
	for (int c = 0; c < 256; c++)
	{
		char s[3] = {'a', (char) c, 'b'};
		bool expected =
			c > 0x20 && c < 0x7F && strchr("\"(),/:;<=>?@[\\]{}", c) == NULL;

		assert_int_equal(text_is_token((Slice){s, 3}), expected);
	}
}

static void
a_request_id_has_at_most_64_word_characters(void **state)
{
	char s[65];

	memset(s, '-', sizeof(s));
	assert_true(text_is_request_id((Slice){s, 1}));
	assert_true(text_is_request_id((Slice){s, 64}));
	assert_false(text_is_request_id((Slice){s, 65}));
	for (int c = 0; c < 256; c++)
	{
		bool expected = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
						(c >= 'A' && c <= 'Z') || c == '_' || c == '-';

		s[1] = (char) c;
		assert_int_equal(text_is_request_id((Slice){s, 3}), expected);
	}
}

static void
check_decode(const char *from, const char *to)
{
	Slice  s = heap(from, strlen(from));
	char  *out = malloc(s.len + 1);
	size_t len = 99;

	assert_non_null(out);
	if (to == NULL)
		assert_false(text_percent_decode(s, out, &len));
	else
	{
		assert_true(text_percent_decode(s, out, &len));
		assert_int_equal(len, strlen(to));
		assert_memory_equal(out, to, len);
	}
	free(out);
	free((void *) s.base);
}

static void
percent_encoding_is_decoded_once(void **state)
{
	check_decode("", "");
	check_decode("abc", "abc");
	check_decode("%61%2f%2F", "a//");
	check_decode("%2561", "%61");
	check_decode("a+b", "a+b");
	check_decode("%", NULL);
	check_decode("%6", NULL);
	check_decode("a%zz", NULL);
	check_decode("%6g", NULL);
	check_decode("%g6", NULL);
	check_decode("% 6", NULL);
}

static void
slices_trim_and_compare(void **state)
{
	Slice s = slice_trim(SLICE_LITERAL(" \t a b\t "));

	assert_true(slice_equal(s, SLICE_LITERAL("a b")));
	assert_int_equal(slice_trim(SLICE_LITERAL(" \t ")).len, 0);
	assert_true(slice_is_lower(SLICE_LITERAL("CoNTent-Length"),
							   SLICE_LITERAL("content-length")));
	assert_false(slice_is_lower(SLICE_LITERAL("content-lengt"),
								SLICE_LITERAL("content-length")));
	assert_false(slice_is_lower(SLICE_LITERAL("@"), SLICE_LITERAL("`")));
	assert_true(slice_equal(SLICE_NONE, SLICE_LITERAL("")));
}

static void
hex_has_sixteen_digits(void **state)
{
	char s[16];

	text_hex64(s, UINT64_C(0x0123456789ABCDEF));
	assert_memory_equal(s, "0123456789abcdef", 16);
	text_hex64(s, 0);
	assert_memory_equal(s, "0000000000000000", 16);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_pair_of_bytes_at_every_place_of_a_word),
		cmocka_unit_test(sequences_of_three_and_four_bytes),
		cmocka_unit_test(a_tab_is_the_only_control_character_of_a_value),
		cmocka_unit_test(empty_strings_are_valid_values_but_no_tokens),
		cmocka_unit_test(a_token_has_no_delimiter),
		cmocka_unit_test(a_request_id_has_at_most_64_word_characters),
		cmocka_unit_test(percent_encoding_is_decoded_once),
		cmocka_unit_test(slices_trim_and_compare),
		cmocka_unit_test(hex_has_sixteen_digits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
