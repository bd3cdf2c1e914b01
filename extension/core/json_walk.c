/*
 * json_walk.c - cut a checked document into its members and elements
 *
 * Design: the document was accepted by mtr_json_check, so a walk needs no
 * grammar: it counts brackets and looks for closing quotes.  It never trusts
 * that, though: every step is bounded by the end of the bytes.
 */
#include "core/json.h"

#include "core/json_text.h"

#include <string.h>

static const char *
skip_space(const char *p, const char *end)
{
	while (p != end && mtr_json_is_space(*p))
		p++;
	return p;
}

/* skip_string goes past the literal that starts at p; NULL: it has no end */
static const char *
skip_string(const char *p, const char *end)
{
	for (p++; p != end && *p != '"'; p++)
	{
		if (*p == '\\' && ++p == end)
			return NULL;
	}
	return p != end ? p + 1 : NULL;
}

/* skip_container goes past the array or object that starts at p, or NULL */
static const char *
skip_container(const char *p, const char *end)
{
	size_t depth = 0;

	while (p != end)
	{
		char c = *p;

		if (c == '"')
		{
			p = skip_string(p, end);
			if (p == NULL)
				return NULL;
			continue;
		}
		p++;
		if (c == '{' || c == '[')
			depth++;
		else if ((c == '}' || c == ']') && --depth == 0)
			return p;
	}
	return NULL;
}

/* skip_scalar goes past a number or a word, which ends where others begin */
static const char *
skip_scalar(const char *p, const char *end)
{
	while (p != end && !mtr_json_is_space(*p) && *p != ',' && *p != ']' &&
		   *p != '}')
		p++;
	return p;
}

/* kind_of tells a value's kind by its first byte; false when it is none */
static bool
kind_of(char c, enum mtr_json_kind *kind)
{
	switch (c)
	{
		case '{':
			*kind = MTR_JSON_KIND_OBJECT;
			return true;
		case '[':
			*kind = MTR_JSON_KIND_ARRAY;
			return true;
		case '"':
			*kind = MTR_JSON_KIND_STRING;
			return true;
		case 't':
			*kind = MTR_JSON_KIND_TRUE;
			return true;
		case 'f':
			*kind = MTR_JSON_KIND_FALSE;
			return true;
		case 'n':
			*kind = MTR_JSON_KIND_NULL;
			return true;
		default:
			*kind = MTR_JSON_KIND_NUMBER;
			return c == '-' || (c >= '0' && c <= '9');
	}
}

/* take_value reads the value at p and returns its end, or NULL */
static const char *
take_value(const char *p, const char *end, struct mtr_json_value *value)
{
	const char *after;

	p = skip_space(p, end);
	if (p == end || !kind_of(*p, &value->kind))
		return NULL;
	switch (value->kind)
	{
		case MTR_JSON_KIND_OBJECT:
		case MTR_JSON_KIND_ARRAY:
			after = skip_container(p, end);
			break;
		case MTR_JSON_KIND_STRING:
			after = skip_string(p, end);
			break;
		default:
			after = skip_scalar(p, end);
			break;
	}
	if (after == NULL)
		return NULL;
	value->raw.p = p;
	value->raw.len = (size_t) (after - p);
	return after;
}

bool
mtr_json_root(const char *s, size_t len, struct mtr_json_value *root)
{
	const char *end;
	const char *after;

	if (len == 0)
		return false;
	end = s + len;
	after = take_value(s, end, root);
	return after != NULL && skip_space(after, end) == end;
}

/* stop ends a walk for good */
static bool
stop(struct mtr_json_iter *it, enum mtr_json_error error)
{
	it->error = error;
	it->p = it->end;
	return false;
}

void
mtr_json_open(struct mtr_json_iter *it, const struct mtr_json_value *container,
			  const struct mtr_json_mem *mem)
{
	const struct mtr_slice *raw = &container->raw;

	it->mem = mem;
	it->error = MTR_JSON_OK;
	it->p = it->end = raw->p;
	if (raw->len < 2 || (raw->p[0] != '{' && raw->p[0] != '['))
	{
		(void) stop(it, MTR_JSON_MALFORMED);
		return;
	}
	it->end = raw->p + raw->len - 1;
	it->p = skip_space(raw->p + 1, it->end);
}

/* take_next reads a value and goes to the start of what comes after its comma */
static bool
take_next(struct mtr_json_iter *it, const char *p, struct mtr_json_value *value)
{
	p = take_value(p, it->end, value);
	if (p == NULL)
		return stop(it, MTR_JSON_MALFORMED);
	p = skip_space(p, it->end);
	if (p != it->end)
	{
		if (*p != ',')
			return stop(it, MTR_JSON_MALFORMED);
		p = skip_space(p + 1, it->end);
	}
	it->p = p;
	return true;
}

bool
mtr_json_next_element(struct mtr_json_iter *it, struct mtr_json_value *value)
{
	if (it->p == it->end)
		return false;
	return take_next(it, it->p, value);
}

bool
mtr_json_next_member(struct mtr_json_iter *it, struct mtr_slice *key,
					 struct mtr_json_value *value)
{
	struct mtr_json_value name;
	const char           *p;
	enum mtr_json_error   error;

	if (it->p == it->end)
		return false;
	p = take_value(it->p, it->end, &name);
	if (p == NULL)
		return stop(it, MTR_JSON_MALFORMED);
	p = skip_space(p, it->end);
	if (p == it->end || *p != ':')
		return stop(it, MTR_JSON_MALFORMED);
	if (!take_next(it, p + 1, value))
		return false;
	/* last, so that no memory is taken for a member that is not given */
	error = mtr_json_string(&name, it->mem, key);
	return error == MTR_JSON_OK || stop(it, error);
}

enum mtr_json_error
mtr_json_string(const struct mtr_json_value *value,
				const struct mtr_json_mem *mem, struct mtr_slice *text)
{
	const struct mtr_slice *raw = &value->raw;
	ssize_t                 decoded;
	char                   *buffer;

	if (value->kind != MTR_JSON_KIND_STRING || raw->len < 2)
		return MTR_JSON_MALFORMED;
	if (memchr(raw->p, '\\', raw->len) == NULL)
	{
		text->p = raw->p + 1;
		text->len = raw->len - 2;
		return MTR_JSON_OK;
	}
	buffer = mem != NULL ? mem->alloc(mem->ctx, raw->len) : NULL;
	if (buffer == NULL)
		return MTR_JSON_MEMORY;
	decoded = mtr_json_decode(raw->p, raw->len, buffer);
	if (decoded < 0)
	{
		if (mem->free != NULL)
			mem->free(mem->ctx, buffer);
		return MTR_JSON_MALFORMED;
	}
	text->p = buffer;
	text->len = (size_t) decoded;
	return MTR_JSON_OK;
}
