/*
 * fuzz_gw_problem.c - any detail and any members give one valid JSON object
 *
 * The first byte says how many of the others are the detail; the rest are the
 * members.  The document must be an object that the walk accepts, with each of
 * the contract's members exactly once.
 */
// SOURCES: gateway/problem.c gateway/json.c gateway/status.c gateway/text.c
#include "../../gateway/problem.h"

#include "../../gateway/json.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static const char *const fixed[] = {
	"type",       "title",  "status",  "detail",  "code",
	"request_id", "errors", "message", "details", "hint"};

#define FIXED_TOTAL (sizeof(fixed) / sizeof(fixed[0]))

static void
check_document(Slice text)
{
	int      seen[FIXED_TOTAL] = {0};
	JsonWalk walk;
	Slice    key;
	Slice    value;

	json_open(&walk, text);
	while (json_next(&walk, &key, &value))
		for (size_t i = 0; i < FIXED_TOTAL; i++)
			seen[i] += slice_equal(key, slice_of(fixed[i]));
	require(!walk.failed && walk.closed);
	for (size_t i = 0; i < FIXED_TOTAL; i++)
		require(seen[i] == 1);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Problem      problem = {422, SLICE_LITERAL("validation_failed"), SLICE_NONE,
							SLICE_LITERAL("id"), SLICE_NONE};
	ProblemFacts facts;
	char        *text;
	size_t       len;
	size_t       max;

	if (size == 0)
		return 0;
	len = data[0] < size - 1 ? data[0] : size - 1;
	problem.detail = (Slice){(const char *) data + 1, len};
	problem.members = (Slice){(const char *) data + 1 + len, size - 1 - len};
	/* the server's text is valid UTF-8 by its encoding */
	if (!text_is_utf8(problem.detail))
		return 0;
	max = problem_size_max(&problem);
	text = malloc(max);
	require(text != NULL);
	len = problem_write(&problem, text, &facts);
	require(len <= max);
	check_document((Slice){text, len});
	free(text);
	return 0;
}
