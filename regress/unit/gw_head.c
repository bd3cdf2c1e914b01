/*
 * gw_head.c - heads that two servers could read differently, and targets
 */
// SOURCES: gateway/head.c gateway/text.c
#include "../../gateway/head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define LINE "GET /v1/demo HTTP/1.1\r\n"
#define HOST "Host: a\r\n"

static bool
is_sound(const char *head, HeadInfo *info)
{
	size_t len = strlen(head);
	char  *copy = malloc(len);
	bool   sound;

	assert_non_null(copy);
	memcpy(copy, head, len);
	sound = head_check((Slice){copy, len}, info);
	free(copy);
	assert_int_equal(sound, info->why == NULL);
	return sound;
}

static void
accept_head(const char *head, bool chunked)
{
	HeadInfo info;

	if (!is_sound(head, &info))
		fail_msg("refused (%s): %s", info.why, head);
	assert_int_equal(info.length, strlen(head));
	assert_int_equal(info.chunked, chunked);
}

static void
refuse(const char *head, const char *word)
{
	HeadInfo info;

	if (is_sound(head, &info))
		fail_msg("accepted: %s", head);
	if (strstr(info.why, word) == NULL)
		fail_msg("refused with \"%s\": %s", info.why, head);
}

static void
plain_heads_are_accepted(void **state)
{
	accept_head(LINE HOST "\r\n", false);
	accept_head("\r\n" LINE HOST "\r\n", false);
	accept_head(LINE "hOST:a\r\nX:\r\nY: \t \r\n\r\n", false);
	accept_head(LINE HOST "Content-Length: 0\r\n\r\n", false);
	accept_head(LINE HOST "content-length:\t12 \r\n\r\n", false);
	accept_head(LINE HOST "Transfer-Encoding: Chunked\r\n\r\n", true);
	accept_head("GET / HTTP/1.0\r\n\r\n", false);
	accept_head(LINE "Host:\r\n\r\n", false);
	accept_head(LINE HOST "X-Content-Length: 1\r\nX-Content-Length: 2\r\n\r\n",
				false);
}

static void
what_follows_the_head_is_ignored(void **state)
{
	HeadInfo info;

	assert_true(is_sound(LINE HOST "\r\nContent-Length: 1\n\n", &info));
	assert_int_equal(info.length, strlen(LINE HOST "\r\n"));
}

static void
doubled_framing_headers_are_refused(void **state)
{
	refuse(LINE HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
		   "more than one Content-Length");
	refuse(LINE HOST "Content-Length: 5\r\ncontent-length: 6\r\n\r\n",
		   "more than one Content-Length");
	refuse(LINE HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: "
					 "chunked\r\n\r\n",
		   "more than one Transfer-Encoding");
	refuse(LINE HOST HOST "\r\n", "more than one Host");
	refuse(LINE HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		   "beside a Transfer-Encoding");
	refuse(LINE HOST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
		   "beside a Transfer-Encoding");
	refuse(LINE "\r\n", "Host header is missing");
}

static void
odd_framing_values_are_refused(void **state)
{
	refuse(LINE HOST "Content-Length: 5, 5\r\n\r\n", "not a number");
	refuse(LINE HOST "Content-Length: +5\r\n\r\n", "not a number");
	refuse(LINE HOST "Content-Length: -0\r\n\r\n", "not a number");
	refuse(LINE HOST "Content-Length: 0x5\r\n\r\n", "not a number");
	refuse(LINE HOST "Content-Length:\r\n\r\n", "not a number");
	refuse(LINE HOST "Content-Length: 1234567890123456789\r\n\r\n",
		   "not a number");
	refuse(LINE HOST "Transfer-Encoding: gzip, chunked\r\n\r\n",
		   "not supported");
	refuse(LINE HOST "Transfer-Encoding: xchunked\r\n\r\n", "not supported");
	refuse("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.0");
}

static void
odd_lines_are_refused(void **state)
{
	refuse(LINE HOST "Transfer-Encoding : chunked\r\n\r\n", "header name");
	refuse(LINE HOST " Content-Length: 5\r\n\r\n", "folded");
	refuse(LINE HOST "X: a\r\n\tContent-Length: 5\r\n\r\n", "folded");
	refuse(LINE HOST ": 5\r\n\r\n", "header name");
	refuse(LINE HOST "nocolon\r\n\r\n", "colon");
	refuse(LINE HOST "X: a\nContent-Length: 5\r\n\r\n", "CR LF");
	refuse(LINE HOST "X: a\r\n\n", "CR LF");
	refuse(LINE HOST "X: a", "CR LF");
	refuse(LINE HOST, "CR LF");
	refuse("GET / HTTP/1.1\n" HOST "\r\n", "request line");
	refuse("\n" LINE HOST "\r\n", "request line");
	refuse("\r\n\r\n" LINE HOST "\r\n", "request line");
	refuse("", "request line");
}

/* NULL for path means that the target is refused; "-" that it is outside. */
static void
check_target(const char *target, const char *tenant, const char *path,
			 const char *query)
{
	size_t        len = strlen(target);
	char         *copy = malloc(len + 1);
	char         *buffer = malloc(len + 1);
	Target        out;
	TargetVerdict verdict;

	assert_non_null(copy);
	assert_non_null(buffer);
	memcpy(copy, target, len);
	verdict = target_split((Slice){copy, len}, buffer, &out);
	if (path == NULL)
		assert_int_equal(verdict, TARGET_ENCODING);
	else if (strcmp(path, "-") == 0)
		assert_int_equal(verdict, TARGET_OUTSIDE);
	else
	{
		assert_int_equal(verdict, TARGET_OK);
		assert_true(slice_equal(out.tenant, slice_of(tenant)));
		assert_true(slice_equal(out.path, slice_of(path)));
		assert_int_equal(out.has_query, query != NULL);
		assert_true(slice_equal(out.query, slice_of(query)));
	}
	free(copy);
	free(buffer);
}

static void
targets_are_split_on_raw_bytes(void **state)
{
	check_target("/v1/demo", "demo", "", NULL);
	check_target("/v1/demo/", "demo", "/", NULL);
	check_target("/v1/demo?", "demo", "", "");
	check_target("/v1/demo/a/b?c=/v1/x?y", "demo", "/a/b", "c=/v1/x?y");
	check_target("/v1/demo/a%2Fb/../c//d", "demo", "/a%2Fb/../c//d", NULL);
	check_target("/v1/d%65mo/x", "demo", "/x", NULL);
	check_target("/v1/%C3%A4/x", "\xC3\xA4", "/x", NULL);
	check_target("/v1/\xC3\xA4/x", "\xC3\xA4", "/x", NULL);
	check_target("/v1/a%25/x", "a%", "/x", NULL);
	check_target("http://h/v1/demo/x?y", "demo", "/x", "y");
	check_target("HTTPS://h:1/v1/demo", "demo", "", NULL);
}

static void
targets_outside_are_told_apart(void **state)
{
	static const char *const outside[] = {
		"",          "/",        "*",         "/v1",          "/v1/",
		"/v1?x",     "/v1//a",   "/v2/demo",  "v1/demo",      "//v1/demo",
		"/V1/demo",  "/v1%2Fa",  "http://h",  "ftp://h/v1/a", "/v10/demo",
		"http:///x", "/v1/?a/b", "/%76%31/a", "/./v1/demo"};

	for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++)
		check_target(outside[i], NULL, "-", NULL);
}

static void
tenants_that_cannot_be_decoded_are_refused(void **state)
{
	static const char *const refused[] = {
		"/v1/a%2Fb/x", "/v1/%00/x",     "/v1/a%00",     "/v1/%",
		"/v1/%4/x",    "/v1/%zz",       "/v1/%FF/x",    "/v1/\xFF/x",
		"/v1/%C0%80",  "/v1/%ED%A0%80", "/v1/../x",     "/v1/./x",
		"/v1/%2e%2E",  "/v1/%2E/x",     "/v1/a%C3/%A4", "/v1/%2f"};

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		check_target(refused[i], NULL, NULL, NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_heads_are_accepted),
		cmocka_unit_test(what_follows_the_head_is_ignored),
		cmocka_unit_test(doubled_framing_headers_are_refused),
		cmocka_unit_test(odd_framing_values_are_refused),
		cmocka_unit_test(odd_lines_are_refused),
		cmocka_unit_test(targets_are_split_on_raw_bytes),
		cmocka_unit_test(targets_outside_are_told_apart),
		cmocka_unit_test(tenants_that_cannot_be_decoded_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
