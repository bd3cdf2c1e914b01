/*
 * gw_status.c - SQLSTATE to HTTP, as the contract's tables say
 */
// SOURCES: gateway/status.c
#include "../../gateway/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "contract.h"

static void
check(const char *state, bool had_body, int status, const char *code,
	  bool is_public, bool is_retry)
{
	StatusMapping mapping = status_from_sqlstate(state, had_body);

	assert_int_equal(mapping.status, status);
	assert_string_equal(mapping.code, code);
	assert_int_equal(mapping.is_public, is_public);
	assert_int_equal(mapping.is_retry, is_retry);
}

static void
class_mt_is_public(void **state)
{
	check("MT400", false, 400, "bad_request", true, false);
	check("MT402", false, 402, "insufficient_credit", true, false);
	check("MT412", true, 412, "precondition_failed", true, false);
	check("MT428", true, 428, "precondition_required", true, false);
	/* not in the contract: nobody knows what it may say */
	check("MT999", true, 500, "internal_error", false, false);
}

static void
other_states_are_private(void **state)
{
	check("23505", true, 409, "conflict", false, false);
	check("23503", true, 409, "conflict", false, false);
	check("23502", true, 422, "validation_failed", false, false);
	check("42P01", false, 404, "not_found", false, false);
	check("42703", false, 400, "bad_request", false, false);
	check("42501", false, 403, "forbidden", false, false);
	check("55P03", false, 503, "retry_later", false, false);
	check("57014", false, 504, "timeout", false, false);
	check("53300", false, 503, "unavailable", false, false);
	check("57P01", false, 503, "unavailable", false, false);
	check("08006", false, 503, "unavailable", false, false);
	check("XX000", false, 500, "internal_error", false, false);
	check("P0001", false, 500, "internal_error", false, false);
	check(NULL, false, 500, "internal_error", false, false);
	check("", false, 500, "internal_error", false, false);
}

static void
serialization_failures_are_retried(void **state)
{
	check("40001", false, 503, "retry_later", false, true);
	check("40P01", false, 503, "retry_later", false, true);
	check("40002", false, 500, "internal_error", false, false);
}

static void
data_exceptions_depend_on_the_body(void **state)
{
	check("22P02", true, 422, "validation_failed", false, false);
	check("22P02", false, 400, "bad_request", false, false);
	check("22003", false, 400, "bad_request", false, false);
}

static void
every_mapped_status_has_a_title(void **state)
{
#define CHECK_MAP(prefix, status, code) assert_non_null(status_title(status));
#define CHECK_MT(sqlstate, status, code, title)                                \
	assert_string_equal(status_title(status), title);
	MORTAR_SQLSTATE_MAP(CHECK_MAP)
	MORTAR_MT_ERRORS(CHECK_MT)
	assert_null(status_title(200));
	assert_string_equal(status_reason(201), "Created");
	assert_string_equal(status_reason(404), "Not Found");
	assert_string_equal(status_reason(299), "OK");
	assert_string_equal(status_reason(599), "Error");
}

static bool
is_stale(const char *state, const char *position, const char *context,
		 const char *function)
{
	ServerError error = {state, position, context, function};

	return status_is_statement_stale(&error);
}

static void
errors_before_the_call_are_told_from_errors_in_it(void **state)
{
	const char *inside = "SQL statement \"SELECT 1\"";

	/* the statement's own words */
	assert_true(is_stale("42883", "15", NULL, "ParseFuncOrColumn"));
	assert_true(is_stale("42501", "15", NULL, "aclcheck_error"));
	assert_true(is_stale("3F000", "15", NULL, "get_namespace_oid"));
	/* on the way into the function */
	assert_true(is_stale("26000", NULL, NULL, "FetchPreparedStatement"));
	assert_true(is_stale("0A000", NULL, NULL, "RevalidateCachedQuery"));
	assert_true(is_stale("42804", NULL, NULL, "tupledesc_match"));
	assert_true(is_stale("42501", NULL, NULL, "aclcheck_error"));
	assert_true(is_stale("58P01", NULL, NULL, "internal_load_library"));
	assert_true(is_stale("42883", NULL, NULL, "load_external_function"));

	/* the same, raised by what the call does */
	assert_false(is_stale("42883", NULL, inside, "ParseFuncOrColumn"));
	assert_false(is_stale("42501", NULL, inside, "aclcheck_error"));
	assert_false(is_stale("0A000", NULL, inside, "RevalidateCachedQuery"));
	assert_false(is_stale("42804", NULL, inside, "tupledesc_match"));
	/* the call's own refusals have neither position nor context */
	assert_false(is_stale("MT404", NULL, NULL, "mtr_raise"));
	assert_false(is_stale("42501", NULL, NULL, "mtr_require_role"));
	assert_false(is_stale("0A000", NULL, NULL, "require_utf8"));
	/* another error at the same places; or one that says next to nothing */
	assert_false(is_stale("57014", "15", NULL, "ProcessInterrupts"));
	assert_false(is_stale("53200", NULL, NULL, "AllocSetAlloc"));
	assert_false(is_stale("42501", NULL, NULL, NULL));
	assert_false(is_stale(NULL, NULL, NULL, NULL));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(class_mt_is_public),
		cmocka_unit_test(other_states_are_private),
		cmocka_unit_test(serialization_failures_are_retried),
		cmocka_unit_test(errors_before_the_call_are_told_from_errors_in_it),
		cmocka_unit_test(data_exceptions_depend_on_the_body),
		cmocka_unit_test(every_mapped_status_has_a_title),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
