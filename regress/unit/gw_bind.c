/*
 * gw_bind.c - PostgreSQL's binary text[], inet and integers
 */
// SOURCES: gateway/bind.c gateway/text.c
#include "../../gateway/bind.h"

#include <arpa/inet.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void
an_empty_array_has_no_dimension(void **state)
{
	static const char expected[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25};
	char              buffer[BIND_ARRAY_SIZE(0, 0)];
	ArrayWriter       writer;
	ArrayReader       reader;
	Slice             array;

	bind_array_begin(&writer, buffer, sizeof(buffer));
	array = bind_array_end(&writer);
	assert_int_equal(array.len, sizeof(expected));
	assert_memory_equal(array.base, expected, sizeof(expected));
	assert_true(bind_array_open(&reader, array));
	assert_int_equal(reader.left, 0);
}

static void
two_elements_have_the_bytes_of_array_send(void **state)
{
	/* SELECT encode(array_send(ARRAY['a','']), 'hex') */
	static const char expected[] = {0, 0,  0, 1, 0,   0, 0, 0, 0, 0,
									0, 25, 0, 0, 0,   2, 0, 0, 0, 1,
									0, 0,  0, 1, 'a', 0, 0, 0, 0};
	char              buffer[BIND_ARRAY_SIZE(2, 1)];
	ArrayWriter       writer;
	ArrayReader       reader;
	Slice             array;
	Slice             element;

	assert_int_equal(sizeof(buffer), sizeof(expected));
	bind_array_begin(&writer, buffer, sizeof(buffer));
	bind_array_add(&writer, SLICE_LITERAL("a"));
	bind_array_add(&writer, SLICE_NONE);
	array = bind_array_end(&writer);
	assert_int_equal(array.len, sizeof(expected));
	assert_memory_equal(array.base, expected, sizeof(expected));

	assert_true(bind_array_open(&reader, array));
	assert_int_equal(reader.left, 2);
	assert_true(bind_array_next(&reader, &element));
	assert_true(slice_equal(element, SLICE_LITERAL("a")));
	assert_true(bind_array_next(&reader, &element));
	assert_int_equal(element.len, 0);
	assert_int_equal(reader.left, 0);
}

/* Reads all elements of a heap copy of the array; false on any objection. */
static bool
reads(const char *bytes, size_t len)
{
	char       *copy = malloc(len + (len == 0));
	ArrayReader reader;
	Slice       element;
	bool        ok;

	assert_non_null(copy);
	memcpy(copy, bytes, len);
	ok = bind_array_open(&reader, (Slice){copy, len});
	while (ok && reader.left > 0)
		ok = bind_array_next(&reader, &element);
	free(copy);
	return ok;
}

static void
a_cut_or_odd_array_is_refused(void **state)
{
	char good[] = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 25,  0,
				   0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 'a', 'b'};

	assert_true(reads(good, sizeof(good)));
	for (size_t len = 0; len < sizeof(good); len++)
		assert_false(reads(good, len));
	good[11] = 17; /* bytea[] */
	assert_false(reads(good, sizeof(good)));
	good[11] = 25;
	good[3] = 2; /* two dimensions */
	assert_false(reads(good, sizeof(good)));
	good[3] = 1;
	good[15] = 2; /* more elements than bytes */
	assert_false(reads(good, sizeof(good)));
	good[15] = 1;
	good[12] = (char) 0x80; /* a negative number of elements */
	assert_false(reads(good, sizeof(good)));
	good[12] = 0;
	memset(good + 20, 0xFF, 4); /* a NULL element */
	assert_false(reads(good, sizeof(good)));
}

static void
addresses_become_inet(void **state)
{
	struct sockaddr_in  in = {.sin_family = AF_INET};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	struct sockaddr     local = {.sa_family = AF_UNIX};
	char                out[BIND_INET_MAX];
	static const char   expected4[] = {2, 32, 0, 4, 127, 0, 0, 1};
	static const char   expected6[] = {3, (char) 128, 0, 16};

	assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &in.sin_addr), 1);
	assert_int_equal(bind_inet(out, (struct sockaddr *) &in), 8);
	assert_memory_equal(out, expected4, 8);

	assert_int_equal(inet_pton(AF_INET6, "2001:db8::1", &in6.sin6_addr), 1);
	assert_int_equal(bind_inet(out, (struct sockaddr *) &in6), 20);
	assert_memory_equal(out, expected6, 4);
	assert_memory_equal(out + 4, &in6.sin6_addr, 16);

	assert_int_equal(inet_pton(AF_INET6, "::ffff:127.0.0.1", &in6.sin6_addr),
					 1);
	assert_int_equal(bind_inet(out, (struct sockaddr *) &in6), 8);
	assert_memory_equal(out, expected4, 8);

	assert_int_equal(bind_inet(out, &local), 0);
}

static void
integers_are_big_endian(void **state)
{
	static const int32_t values[] = {0, 1, -1, 256, INT_MAX, INT_MIN};
	char                 bytes[5];

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
	{
		/* at an odd address, as in a result row */
		bind_put_int32(bytes + 1, values[i]);
		assert_int_equal(bind_get_int32(bytes + 1), values[i]);
	}
	bind_put_int32(bytes, 0x01020304);
	assert_memory_equal(bytes, "\1\2\3\4", 4);
	assert_int_equal(bind_get_int16("\1\2"), 258);
	assert_int_equal(bind_get_int16("\xFF\xFF"), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_array_has_no_dimension),
		cmocka_unit_test(two_elements_have_the_bytes_of_array_send),
		cmocka_unit_test(a_cut_or_odd_array_is_refused),
		cmocka_unit_test(addresses_become_inet),
		cmocka_unit_test(integers_are_big_endian),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
