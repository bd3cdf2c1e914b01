/*
 * gw_problem.c - problem documents, and the merge of an error's own members
 */
// SOURCES: gateway/problem.c gateway/json.c gateway/status.c gateway/text.c
#include "../../gateway/problem.h"

#include "../../gateway/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static Problem
make_problem(int status, const char *code, const char *detail,
			 const char *members)
{
	return (Problem){status, slice_of(code), slice_of(detail),
					 SLICE_LITERAL("id-1"), slice_of(members)};
}

/* Writes into exactly the promised size; the caller frees. */
static Slice
write_problem(const Problem *problem, ProblemFacts *facts)
{
	char *text = malloc(problem_size_max(problem));

	assert_non_null(text);
	return (Slice){text, problem_write(problem, text, facts)};
}

static void
check_text(Problem problem, const char *expected)
{
	ProblemFacts facts;
	Slice        text = write_problem(&problem, &facts);

	assert_int_equal(text.len, strlen(expected));
	assert_memory_equal(text.base, expected, text.len);
	free((void *) text.base);
}

static void
a_problem_has_the_members_of_the_contract(void **state)
{
	check_text(
		make_problem(404, "not_found", "no \"such\"\n thing", NULL),
		"{\"type\":\"urn:mortar:problem:not_found\",\"title\":\"Not Found\","
		"\"status\":404,\"detail\":\"no \\\"such\\\"\\u000a thing\","
		"\"code\":\"not_found\",\"request_id\":\"id-1\",\"errors\":[],"
		"\"message\":\"no \\\"such\\\"\\u000a thing\",\"details\":null,"
		"\"hint\":null}");
}

static void
members_of_the_error_are_merged(void **state)
{
	check_text(
		make_problem(
			402, "x", "d",
			" { \"required_uc\" : 12 ,\"code\":\"insufficient_credit\","
			"\"errors\":[{\"pointer\":\"/a\"}],\"o\":{\"a\":[1,{}]}} "),
		"{\"type\":\"urn:mortar:problem:insufficient_credit\",\"title\":"
		"\"Payment Required\",\"status\":402,\"detail\":\"d\",\"code\":"
		"\"insufficient_credit\",\"request_id\":\"id-1\",\"errors\":[{"
		"\"pointer\":\"/a\"}],\"message\":\"d\",\"details\":null,\"hint\":null,"
		"\"required_uc\":12,\"o\":{\"a\":[1,{}]}}");
}

static void
members_cannot_replace_what_the_document_says(void **state)
{
	check_text(
		make_problem(409, "conflict", "d",
					 "{\"status\":200,\"title\":\"t\",\"type\":1,\"detail\":2,"
					 "\"message\":3,\"request_id\":4,\"hint\":5,\"details\":6,"
					 "\"code\":\"UP\",\"errors\":{},\"st\\u0061tus\":7}"),
		"{\"type\":\"urn:mortar:problem:conflict\",\"title\":\"Conflict\","
		"\"status\":409,\"detail\":\"d\",\"code\":\"conflict\",\"request_id\":"
		"\"id-1\",\"errors\":[],\"message\":\"d\",\"details\":null,\"hint\":"
		"null}");
}

static void
an_unknown_status_becomes_500(void **state)
{
	Problem      problem = make_problem(299, "x", "d", NULL);
	ProblemFacts facts;
	Slice        text = write_problem(&problem, &facts);

	assert_non_null(memmem(text.base, text.len, "\"status\":500", 12));
	free((void *) text.base);
}

static void
retry_after_is_found_when_it_is_a_count(void **state)
{
	static const struct
	{
		const char *members;
		const char *expected;
	} cases[] = {{"{\"retry_after\":7}", "7"},
				 {"{\"retry_after\":\"7\"}", NULL},
				 {"{\"retry_after\":-7}", NULL},
				 {"{\"retry_after\":7.5}", NULL},
				 {"{\"retry_after\":12345678901}", NULL},
				 {"{}", NULL}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		Problem      problem = make_problem(409, "x", "d", cases[i].members);
		ProblemFacts facts;
		Slice        text = write_problem(&problem, &facts);

		assert_false(facts.members_invalid);
		assert_true(
			slice_equal(facts.retry_after, slice_of(cases[i].expected)));
		free((void *) text.base);
	}
}

static void
malformed_members_are_left_out(void **state)
{
	static const char *const malformed[] = {"x",
											"[]",
											"{",
											"{\"a\"}",
											"{\"a\":}",
											"{\"a\":1",
											"{\"a\":1,}",
											"{\"a\":1}x",
											"{\"a\":01}",
											"{\"a\":1.}",
											"{\"a\":1e}",
											"{\"a\":tru}",
											"{\"a\":[1}",
											"{\"a\":{]}",
											"{\"a\":\"\n\"}",
											"{\"a\":\"\\x\"}",
											"{\"a\":\"\\u12g4\"}",
											"{\"a\":\"\xFF\"}",
											"{'a':1}",
											"{\"a\":1}{}",
											"{\"code\":\"ok\",\"b\":",
											"{\"a\":[,]}",
											"{,}"};
	Problem                  bare = make_problem(400, "x", "d", NULL);

	for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++)
	{
		Problem      problem = make_problem(400, "x", "d", malformed[i]);
		ProblemFacts facts;
		Slice        expected = write_problem(&bare, &facts);
		Slice        text = write_problem(&problem, &facts);

		if (!facts.members_invalid || !slice_equal(text, expected))
			fail_msg("merged %s", malformed[i]);
		free((void *) text.base);
		free((void *) expected.base);
	}
}

static void
nesting_is_bounded(void **state)
{
	for (int depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++)
	{
		char         members[512] = "{\"a\":";
		size_t       len = strlen(members);
		Problem      problem;
		ProblemFacts facts;

		memset(members + len, '[', (size_t) depth);
		members[len + (size_t) depth] = '1';
		memset(members + len + (size_t) depth + 1, ']', (size_t) depth);
		members[len + 2 * (size_t) depth + 1] = '}';
		problem = make_problem(400, "x", "d", members);
		free((void *) write_problem(&problem, &facts).base);
		assert_int_equal(facts.members_invalid, depth > JSON_DEPTH_MAX);
	}
}

static void
the_promised_size_holds_for_the_worst_input(void **state)
{
	char         detail[1000];
	char         code[1000];
	char         members[2100];
	ProblemFacts facts;
	Problem      problem = {500,
							{code, 0},
							{detail, sizeof(detail)},
							SLICE_LITERAL("id"),
							SLICE_NONE};

	memset(detail, 1, sizeof(detail));
	memset(code, 'c', sizeof(code));
	/* under the address sanitizer a byte too many stops the test */
	problem.code.len = sizeof(code);
	free((void *) write_problem(&problem, &facts).base);

	memcpy(members, "{\"code\":\"", 9);
	memcpy(members + 9, code, sizeof(code));
	memcpy(members + 1009, "\",\"errors\":[\"", 13);
	memset(members + 1022, 'e', 1000);
	memcpy(members + 2022, "\"]}", 4);
	problem.members = slice_of(members);
	free((void *) write_problem(&problem, &facts).base);
	assert_false(facts.members_invalid);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_problem_has_the_members_of_the_contract),
		cmocka_unit_test(members_of_the_error_are_merged),
		cmocka_unit_test(members_cannot_replace_what_the_document_says),
		cmocka_unit_test(an_unknown_status_becomes_500),
		cmocka_unit_test(retry_after_is_found_when_it_is_a_count),
		cmocka_unit_test(malformed_members_are_left_out),
		cmocka_unit_test(nesting_is_bounded),
		cmocka_unit_test(the_promised_size_holds_for_the_worst_input),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
