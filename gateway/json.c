/*
 * json.c
 *		A validating walk over one object's members, and string output.
 *
 * The walk hands out raw value texts, which the caller copies into a document
 * of its own.  Hence each value is checked completely before it is handed out:
 * a half value would make that document malformed.  There is no recursion:
 * nesting is a stack of bits, one per level, that says object or array.
 *
 * Nothing is allocated and nothing is kept.
 */
#include "json.h"

void
json_open(JsonWalk *walk, Slice text)
{
	walk->at = text.base;
	walk->end = text.base == NULL ? NULL : text.base + text.len;
	walk->first = true;
	walk->closed = false;
	walk->failed = false;
}

static void
skip_space(JsonWalk *walk)
{
	while (walk->at < walk->end && (*walk->at == ' ' || *walk->at == '\t' ||
									*walk->at == '\n' || *walk->at == '\r'))
		walk->at++;
}

/* Skips space, then takes "c" if it comes next. */
static bool
take(JsonWalk *walk, char c)
{
	skip_space(walk);
	if (walk->at == walk->end || *walk->at != c)
		return false;
	walk->at++;
	return true;
}

static bool
take_digits(JsonWalk *walk)
{
	const char *from = walk->at;

	while (walk->at < walk->end && *walk->at >= '0' && *walk->at <= '9')
		walk->at++;
	return walk->at > from;
}

/* The backslash is taken already. */
static bool
take_escape(JsonWalk *walk)
{
	if (walk->at == walk->end)
		return false;
	if (*walk->at == 'u')
	{
		walk->at++;
		for (int i = 0; i < 4; i++, walk->at++)
			if (walk->at == walk->end || *walk->at == '\0' ||
				strchr("0123456789abcdefABCDEF", *walk->at) == NULL)
				return false;
		return true;
	}
	if (*walk->at == '\0' || strchr("\"\\/bfnrt", *walk->at) == NULL)
		return false;
	walk->at++;
	return true;
}

/* The opening quote is taken already; takes the closing one too. */
static bool
take_string_rest(JsonWalk *walk)
{
	const char *from = walk->at;

	while (walk->at < walk->end)
	{
		char c = *walk->at++;

		if (c == '"')
			return text_is_utf8((Slice){from, (size_t) (walk->at - from)});
		if ((unsigned char) c < 0x20)
			return false;
		if (c == '\\' && !take_escape(walk))
			return false;
	}
	return false;
}

static bool
take_number(JsonWalk *walk)
{
	if (walk->at < walk->end && *walk->at == '-')
		walk->at++;
	if (walk->at < walk->end && *walk->at == '0')
		walk->at++;
	else if (!take_digits(walk))
		return false;
	if (walk->at < walk->end && *walk->at == '.')
	{
		walk->at++;
		if (!take_digits(walk))
			return false;
	}
	if (walk->at < walk->end && (*walk->at == 'e' || *walk->at == 'E'))
	{
		walk->at++;
		if (walk->at < walk->end && (*walk->at == '+' || *walk->at == '-'))
			walk->at++;
		return take_digits(walk);
	}
	return true;
}

/* Takes a string, number or word; space was skipped and a byte is there. */
static bool
take_scalar(JsonWalk *walk)
{
	static const char *const words[] = {"true", "false", "null"};

	if (*walk->at == '"')
	{
		walk->at++;
		return take_string_rest(walk);
	}
	for (size_t i = 0; i < 3; i++)
	{
		size_t len = strlen(words[i]);

		if ((size_t) (walk->end - walk->at) >= len &&
			memcmp(walk->at, words[i], len) == 0)
		{
			walk->at += len;
			return true;
		}
	}
	return take_number(walk);
}

/* One open bracket for each level; objects[level] says which kind. */
typedef struct Nesting
{
	int  depth;
	bool object[JSON_DEPTH_MAX];
} Nesting;

static bool
take_key(JsonWalk *walk)
{
	return take(walk, '"') && take_string_rest(walk) && take(walk, ':');
}

/* Takes an opening bracket and what must follow before the next value. */
static bool
take_open(JsonWalk *walk, Nesting *nesting, bool *closed)
{
	bool object = *walk->at++ == '{';

	*closed = take(walk, object ? '}' : ']');
	if (*closed)
		return true;
	if (nesting->depth == JSON_DEPTH_MAX)
		return false;
	nesting->object[nesting->depth++] = object;
	return !object || take_key(walk);
}

/* Takes the brackets that end here, or a comma; sets *more for the latter. */
static bool
take_after_value(JsonWalk *walk, Nesting *nesting, bool *more)
{
	*more = false;
	while (nesting->depth > 0)
	{
		bool object = nesting->object[nesting->depth - 1];

		if (take(walk, ','))
		{
			*more = true;
			return !object || take_key(walk);
		}
		if (!take(walk, object ? '}' : ']'))
			return false;
		nesting->depth--;
	}
	return true;
}

static bool
take_value(JsonWalk *walk)
{
	Nesting nesting = {0, {false}};
	bool    more = true;

	while (more)
	{
		bool closed = true;

		skip_space(walk);
		if (walk->at == walk->end)
			return false;
		if (*walk->at == '{' || *walk->at == '[')
		{
			if (!take_open(walk, &nesting, &closed))
				return false;
		}
		else if (!take_scalar(walk))
			return false;
		if (closed && !take_after_value(walk, &nesting, &more))
			return false;
	}
	return true;
}

bool
json_next(JsonWalk *walk, Slice *key, Slice *value)
{
	const char *from;

	if (walk->failed || walk->closed)
		return false;
	if (take(walk, walk->first ? '{' : ','))
	{
		bool empty = walk->first && take(walk, '}');

		walk->first = false;
		if (!empty)
		{
			if (!take(walk, '"'))
				goto fail;
			from = walk->at;
			if (!take_string_rest(walk))
				goto fail;
			*key = (Slice){from, (size_t) (walk->at - 1 - from)};
			if (!take(walk, ':'))
				goto fail;
			skip_space(walk);
			from = walk->at;
			if (!take_value(walk))
				goto fail;
			*value = (Slice){from, (size_t) (walk->at - from)};
			return true;
		}
	}
	else if (walk->first || !take(walk, '}'))
		goto fail;

	/* the object is closed: only space may follow */
	walk->closed = true;
	skip_space(walk);
	if (walk->at == walk->end)
		return false;
fail:
	walk->failed = true;
	return false;
}

Slice
json_plain_string(Slice value)
{
	if (value.len < 2 || value.base[0] != '"' ||
		memchr(value.base, '\\', value.len) != NULL)
		return SLICE_NONE;
	return (Slice){value.base + 1, value.len - 2};
}

size_t
json_put_string(char *dst, Slice s)
{
	static const char digits[] = "0123456789abcdef";
	char             *p = dst;

	*p++ = '"';
	for (size_t i = 0; i < s.len; i++)
	{
		unsigned char c = (unsigned char) s.base[i];

		if (c == '"' || c == '\\')
		{
			*p++ = '\\';
			*p++ = (char) c;
		}
		else if (c < 0x20 || c == 0x7F)
		{
			memcpy(p, "\\u00", 4);
			p[4] = digits[c >> 4];
			p[5] = digits[c & 15];
			p += 6;
		}
		else
			*p++ = (char) c;
	}
	*p++ = '"';
	return (size_t) (p - dst);
}
