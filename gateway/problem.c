/*
 * problem.c
 *		Builds one problem document in one pass over a buffer that is known to
 *		be large enough.
 *
 * The order of members is fixed: type, title, status, detail, code, request_id,
 * errors, then message, details and hint, which clients of PostgREST expect,
 * then what the error itself brought along.  The members of the error are
 * walked twice: first for those that belong at a fixed place, then for the
 * rest.
 *
 * Nothing is allocated and nothing is kept.
 */
#include "problem.h"

#include <stdio.h>

#include "contract.h"
#include "json.h"
#include "status.h"

/* Everything in the document that is not a slice of the problem. */
#define FIXED_MAX 512

/* The members of the error that have a fixed place. */
typedef struct Found
{
	Slice code;
	Slice errors; /* raw */
} Found;

size_t
problem_size_max(const Problem *problem)
{
	/* the detail is written twice; a code may come from the members instead */
	return FIXED_MAX + 2 * JSON_STRING_MAX(problem->detail.len) +
		   2 * JSON_STRING_MAX(problem->code.len) +
		   JSON_STRING_MAX(problem->request_id.len) + 4 * problem->members.len;
}

static bool
is_code(Slice code)
{
	for (size_t i = 0; i < code.len; i++)
		if (!((code.base[i] >= 'a' && code.base[i] <= 'z') ||
			  (code.base[i] >= '0' && code.base[i] <= '9') ||
			  code.base[i] == '_'))
			return false;
	return code.len > 0;
}

static bool
is_count(Slice value)
{
	for (size_t i = 0; i < value.len; i++)
		if (value.base[i] < '0' || value.base[i] > '9')
			return false;
	return value.len > 0 && value.len <= 9;
}

/* True for a member that the document has anyway, or that hides its name. */
static bool
is_reserved(Slice key)
{
	static const char *const names[] = {
		"type",       "title",  "status",  "detail",  "code",
		"request_id", "errors", "message", "details", "hint"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (slice_equal(key, slice_of(names[i])))
			return true;
	return key.len > 0 && memchr(key.base, '\\', key.len) != NULL;
}

/* First walk: validates the members and picks those with a fixed place. */
static Found
find_members(const Problem *problem, ProblemFacts *facts)
{
	Found    found = {problem->code, SLICE_LITERAL("[]")};
	JsonWalk walk;
	Slice    key;
	Slice    value;

	*facts = (ProblemFacts){SLICE_NONE, false};
	if (problem->members.len == 0)
		return found;
	json_open(&walk, problem->members);
	while (json_next(&walk, &key, &value))
	{
		if (slice_equal(key, SLICE_LITERAL("code")) &&
			is_code(json_plain_string(value)))
			found.code = json_plain_string(value);
		else if (slice_equal(key, SLICE_LITERAL("errors")) &&
				 value.base[0] == '[')
			found.errors = value;
		else if (slice_equal(key, SLICE_LITERAL("retry_after")) &&
				 is_count(value))
			facts->retry_after = value;
	}
	if (walk.failed)
	{
		*facts = (ProblemFacts){SLICE_NONE, true};
		found = (Found){problem->code, SLICE_LITERAL("[]")};
	}
	return found;
}

static char *
put_raw(char *p, Slice s)
{
	if (s.len > 0)
		memcpy(p, s.base, s.len);
	return p + s.len;
}

static char *
put_member(char *p, const char *prefix, Slice value)
{
	p = put_raw(p, slice_of(prefix));
	return p + json_put_string(p, value);
}

/* Second walk: appends the members without a fixed place. */
static char *
put_others(char *p, Slice members)
{
	JsonWalk walk;
	Slice    key;
	Slice    value;

	json_open(&walk, members);
	while (json_next(&walk, &key, &value))
	{
		if (is_reserved(key))
			continue;
		p = put_raw(p, SLICE_LITERAL(",\""));
		p = put_raw(p, key);
		p = put_raw(p, SLICE_LITERAL("\":"));
		p = put_raw(p, value);
	}
	return p;
}

size_t
problem_write(const Problem *problem, char *dst, ProblemFacts *facts)
{
	Found       found = find_members(problem, facts);
	int         status = problem->status;
	const char *title = status_title(status);
	char        number[16];
	int         digits;
	char       *p = dst;

	if (title == NULL)
	{
		status = 500;
		title = status_title(status);
	}
	digits = snprintf(number, sizeof(number), "%d", status);

	p = put_raw(p, SLICE_LITERAL("{\"type\":\"" MORTAR_PROBLEM_TYPE));
	p = put_raw(p, found.code);
	p = put_member(p, "\",\"title\":", slice_of(title));
	p = put_raw(p, SLICE_LITERAL(",\"status\":"));
	p = put_raw(p, (Slice){number, (size_t) digits});
	p = put_member(p, ",\"detail\":", problem->detail);
	p = put_member(p, ",\"code\":", found.code);
	p = put_member(p, ",\"request_id\":", problem->request_id);
	p = put_raw(p, SLICE_LITERAL(",\"errors\":"));
	p = put_raw(p, found.errors);
	p = put_member(p, ",\"message\":", problem->detail);
	p = put_raw(p, SLICE_LITERAL(",\"details\":null,\"hint\":null"));
	if (problem->members.len > 0 && !facts->members_invalid)
		p = put_others(p, problem->members);
	*p++ = '}';
	return (size_t) (p - dst);
}
