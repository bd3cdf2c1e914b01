/*
 * fuzz_json.c - JSON: what is accepted comes back through the walk
 *
 * An accepted document is walked to its last leaf and written again; the copy
 * must be accepted and be written the same.  Documents that are not accepted
 * are walked too: that must end and stay inside the bytes.
 */
// SOURCES: extension/core/json_check.c extension/core/json_keys.c
// SOURCES: extension/core/json_number.c extension/core/json_text.c
// SOURCES: extension/core/json_walk.c
// SOURCES: extension/core/utf8.c
#include "core/json.h"

#include "core/utf8.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static void *
take(void *ctx, size_t size)
{
	size_t *taken = ctx;
	void   *p = malloc(size);

	require(p != NULL);
	*taken += size;
	return p;
}

static void
give_back(void *ctx, void *p)
{
	free(p);
}

struct output
{
	char  *p;
	size_t len;
	size_t room;
};

static void
put(struct output *out, const char *bytes, size_t n)
{
	require(n <= out->room - out->len);
	if (n > 0)
		memcpy(out->p + out->len, bytes, n);
	out->len += n;
}

static void
put_string(struct output *out, struct mtr_slice text, struct mtr_slice raw)
{
	require(mtr_json_escape_max(text.len) <= out->room - out->len);
	require(mtr_utf8_clean(text.p, text.len));
	out->len += mtr_json_escape(text.p, text.len, out->p + out->len);
	if (text.p < raw.p || text.p > raw.p + raw.len)
		free((void *) (uintptr_t) text.p);
}

static void put_value(struct output *out, const struct mtr_json_value *value,
					  const struct mtr_json_mem *mem, int depth);

static void
put_container(struct output *out, const struct mtr_json_value *container,
			  const struct mtr_json_mem *mem, int depth)
{
	bool                  is_array = container->kind == MTR_JSON_KIND_ARRAY;
	bool                  first = true;
	struct mtr_json_iter  it;
	struct mtr_json_value value;
	struct mtr_slice      key;

	put(out, is_array ? "[" : "{", 1);
	mtr_json_open(&it, container, mem);
	while (is_array ? mtr_json_next_element(&it, &value)
					: mtr_json_next_member(&it, &key, &value))
	{
		if (!first)
			put(out, ",", 1);
		first = false;
		if (!is_array)
		{
			put_string(out, key, container->raw);
			put(out, ":", 1);
		}
		put_value(out, &value, mem, depth + 1);
	}
	require(it.error == MTR_JSON_OK);
	put(out, is_array ? "]" : "}", 1);
}

static void
put_value(struct output *out, const struct mtr_json_value *value,
		  const struct mtr_json_mem *mem, int depth)
{
	struct mtr_slice text;

	require(depth <= MTR_JSON_MAX_DEPTH);
	switch (value->kind)
	{
		case MTR_JSON_KIND_OBJECT:
		case MTR_JSON_KIND_ARRAY:
			put_container(out, value, mem, depth);
			break;
		case MTR_JSON_KIND_STRING:
			require(mtr_json_string(value, mem, &text) == MTR_JSON_OK);
			put_string(out, text, value->raw);
			break;
		default:
			put(out, value->raw.p, value->raw.len);
			break;
	}
}

/* write_again gives the document rewritten without white space */
static struct output
write_again(const char *s, size_t len)
{
	size_t                taken = 0;
	struct mtr_json_mem   mem = {take, give_back, &taken};
	struct mtr_json_value root;
	struct output         out = {NULL, 0, mtr_json_escape_max(len)};

	out.p = malloc(out.room);
	require(out.p != NULL);
	require(mtr_json_root(s, len, &root));
	put_value(&out, &root, &mem, 0);
	return out;
}

static enum mtr_json_error
check(const char *s, size_t len)
{
	size_t                 taken = 0;
	struct mtr_json_mem    mem = {take, give_back, &taken};
	struct mtr_json_report report;
	enum mtr_json_error    error = mtr_json_check(s, len, &mem, &report);

	require(report.error == error);
	require(report.offset <= len);
	require(taken <= len * MTR_JSON_MEM_PER_BYTE);
	require(report.pointer_len <= sizeof(report.pointer));
	require(mtr_utf8_clean(report.pointer, report.pointer_len));
	require(report.pointer_len == 0 || report.pointer[0] == '/');
	if (error == MTR_JSON_OK)
		require(report.offset == len && report.pointer_len == 0);
	return error;
}

/* walk_flat goes over the top level of anything */
static void
walk_flat(const char *s, size_t len)
{
	size_t                taken = 0;
	struct mtr_json_mem   mem = {take, give_back, &taken};
	struct mtr_json_value root;
	struct mtr_json_iter  it;
	struct mtr_json_value value;
	struct mtr_slice      key;
	size_t                steps = 0;

	if (!mtr_json_root(s, len, &root))
		return;
	mtr_json_open(&it, &root, &mem);
	while (mtr_json_next_member(&it, &key, &value))
	{
		require(++steps <= len);
		require(value.raw.p >= s && value.raw.p + value.raw.len <= s + len);
		if (key.p < s || key.p > s + len)
			free((void *) (uintptr_t) key.p);
	}
	mtr_json_open(&it, &root, &mem);
	while (mtr_json_next_element(&it, &value))
	{
		require(++steps <= 2 * len);
		require(value.raw.p >= s && value.raw.p + value.raw.len <= s + len);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *s = (const char *) data;

	walk_flat(s, size);
	if (check(s, size) == MTR_JSON_OK)
	{
		struct output once = write_again(s, size);
		struct output twice;

		require(check(once.p, once.len) == MTR_JSON_OK);
		twice = write_again(once.p, once.len);
		require(once.len == twice.len);
		require(memcmp(once.p, twice.p, once.len) == 0);
		free(once.p);
		free(twice.p);
	}
	return 0;
}
