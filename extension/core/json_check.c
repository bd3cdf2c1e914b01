/*
 * json_check.c - one strict pass over a JSON document
 *
 * Design: no recursion, one frame per open container on a stack of fixed
 * size.  A frame remembers which member or element is being read, so that an
 * error can be given a JSON pointer without any bookkeeping while all is well.
 */
#include "core/json.h"

#include "core/json_keys.h"
#include "core/json_text.h"

#include <string.h>

/* an open array or object */
struct frame
{
	bool   is_array;
	bool   named;     /* the fields below name the value being read */
	size_t index;     /* array: of the element */
	size_t key_start; /* object: raw key of the member */
	size_t key_len;
	size_t key_base; /* object: its first key on the stack of keys */
};

struct scan
{
	const char          *s;
	size_t               len;
	size_t               pos;
	size_t               depth;
	struct frame         frames[MTR_JSON_MAX_DEPTH];
	struct mtr_json_keys keys;
};

static struct frame *
top(struct scan *sc)
{
	return &sc->frames[sc->depth - 1];
}

/* peek skips white space and returns the next byte; NUL at the end */
static char
peek(struct scan *sc)
{
	while (sc->pos < sc->len && mtr_json_is_space(sc->s[sc->pos]))
		sc->pos++;
	return sc->pos < sc->len ? sc->s[sc->pos] : '\0';
}

/* skip_digits returns how many digits it went past */
static size_t
skip_digits(struct scan *sc)
{
	size_t start = sc->pos;

	while (sc->pos < sc->len && sc->s[sc->pos] >= '0' && sc->s[sc->pos] <= '9')
		sc->pos++;
	return sc->pos - start;
}

/* skip_one goes past the next byte when it is one of the two given */
static bool
skip_one(struct scan *sc, char a, char b)
{
	if (sc->pos == sc->len || (sc->s[sc->pos] != a && sc->s[sc->pos] != b))
		return false;
	sc->pos++;
	return true;
}

static enum mtr_json_error
scan_number(struct scan *sc)
{
	size_t start = sc->pos;

	(void) skip_one(sc, '-', '-');
	/* after a leading zero no digit may come; the caller will trip over it */
	if (!skip_one(sc, '0', '0') && skip_digits(sc) == 0)
		return MTR_JSON_MALFORMED;
	if (skip_one(sc, '.', '.') && skip_digits(sc) == 0)
		return MTR_JSON_MALFORMED;
	if (skip_one(sc, 'e', 'E'))
	{
		(void) skip_one(sc, '+', '-');
		if (skip_digits(sc) == 0)
			return MTR_JSON_MALFORMED;
	}
	if (mtr_json_number_fits(sc->s + start, sc->pos - start))
		return MTR_JSON_OK;
	sc->pos = start;
	return MTR_JSON_NUMBER;
}

static enum mtr_json_error
scan_literal(struct scan *sc, const char *word)
{
	for (; *word != '\0'; word++)
	{
		if (!skip_one(sc, *word, *word))
			return MTR_JSON_MALFORMED;
	}
	return MTR_JSON_OK;
}

static enum mtr_json_error
open_container(struct scan *sc, bool is_array)
{
	struct frame *frame;

	if (sc->depth == MTR_JSON_MAX_DEPTH)
		return MTR_JSON_DEPTH;
	sc->pos++;
	sc->depth++;
	frame = top(sc);
	frame->is_array = is_array;
	frame->named = false;
	frame->index = 0;
	frame->key_base = sc->keys.n;
	return MTR_JSON_OK;
}

/* scan_value reads a scalar, or only the opening bracket of a container */
static enum mtr_json_error
scan_value(struct scan *sc, bool *opened)
{
	struct mtr_json_text text;
	char                 c = peek(sc);

	*opened = c == '{' || c == '[';
	switch (c)
	{
		case '{':
		case '[':
			return open_container(sc, c == '[');
		case '"':
			return mtr_json_scan_string(sc->s, sc->len, &sc->pos, &text);
		case 't':
			return scan_literal(sc, "true");
		case 'f':
			return scan_literal(sc, "false");
		case 'n':
			return scan_literal(sc, "null");
		default:
			/* what does not begin a number fails at its first byte */
			return scan_number(sc);
	}
}

/* scan_key reads a member up to and including its colon */
static enum mtr_json_error
scan_key(struct scan *sc)
{
	struct frame        *frame = top(sc);
	struct mtr_json_text text;
	enum mtr_json_error  error;

	if (peek(sc) != '"')
		return MTR_JSON_MALFORMED;
	error = mtr_json_scan_string(sc->s, sc->len, &sc->pos, &text);
	if (error != MTR_JSON_OK)
		return error;
	if (!mtr_json_keys_push(&sc->keys, &text))
		return MTR_JSON_MEMORY;
	if (peek(sc) != ':')
		return MTR_JSON_MALFORMED;
	sc->pos++;
	frame->key_start = text.start;
	frame->key_len = text.len;
	frame->named = true;
	return MTR_JSON_OK;
}

static enum mtr_json_error
close_container(struct scan *sc)
{
	struct frame       *frame = top(sc);
	struct mtr_json_key twice;

	if (!frame->is_array &&
		mtr_json_keys_pop(&sc->keys, frame->key_base, &twice))
	{
		frame->key_start = twice.start;
		frame->key_len = twice.len;
		frame->named = true;
		sc->pos = twice.start - 1;
		return MTR_JSON_DUPLICATE_KEY;
	}
	sc->pos++;
	sc->depth--;
	return MTR_JSON_OK;
}

static bool
at_closing(struct scan *sc)
{
	return peek(sc) == (top(sc)->is_array ? ']' : '}');
}

/* begin_container goes to the first value, or closes an empty container */
static enum mtr_json_error
begin_container(struct scan *sc, bool *want_value)
{
	*want_value = !at_closing(sc);
	if (!*want_value)
		return close_container(sc);
	if (!top(sc)->is_array)
		return scan_key(sc);
	top(sc)->named = true;
	return MTR_JSON_OK;
}

/* after_value goes to the next value of the open container, or closes it */
static enum mtr_json_error
after_value(struct scan *sc, bool *want_value)
{
	struct frame *frame = top(sc);

	frame->named = false;
	if (at_closing(sc))
		return close_container(sc);
	if (!skip_one(sc, ',', ','))
		return MTR_JSON_MALFORMED;
	*want_value = true;
	if (!frame->is_array)
		return scan_key(sc);
	frame->index++;
	frame->named = true;
	return MTR_JSON_OK;
}

static enum mtr_json_error
scan_document(struct scan *sc)
{
	bool want_value = true;

	while (want_value)
	{
		bool                opened;
		enum mtr_json_error error = scan_value(sc, &opened);

		want_value = false;
		if (error == MTR_JSON_OK && opened)
			error = begin_container(sc, &want_value);
		while (error == MTR_JSON_OK && !want_value && sc->depth > 0)
			error = after_value(sc, &want_value);
		if (error != MTR_JSON_OK)
			return error;
	}
	(void) peek(sc);
	return sc->pos == sc->len ? MTR_JSON_OK : MTR_JSON_MALFORMED;
}

/* put adds bytes to the pointer; false, with some of them added, when full */
static bool
put(struct mtr_json_report *report, const char *bytes, size_t n)
{
	if (n > sizeof(report->pointer) - report->pointer_len)
		return false;
	memcpy(report->pointer + report->pointer_len, bytes, n);
	report->pointer_len += n;
	return true;
}

static bool
put_index(struct mtr_json_report *report, size_t index)
{
	char   digits[20];
	size_t at = sizeof(digits);

	do
	{
		digits[--at] = (char) ('0' + index % 10);
		index /= 10;
	} while (index > 0);
	return put(report, digits + at, sizeof(digits) - at);
}

/* put_key adds a decoded key, with '~' and '/' as RFC 6901 wants them */
static bool
put_key(struct mtr_json_report *report, const char *raw, size_t len)
{
	while (len > 0)
	{
		struct mtr_json_char c;
		bool                 fits;

		if (mtr_json_read_char(raw, len, &c) != MTR_JSON_OK)
			return false; /* cannot be: the key was scanned */
		if (c.bytes[0] == '~')
			fits = put(report, "~0", 2);
		else if (c.bytes[0] == '/')
			fits = put(report, "~1", 2);
		else
			fits = put(report, c.bytes, c.n);
		if (!fits)
			return false;
		raw += c.used;
		len -= c.used;
	}
	return true;
}

static void
fill_pointer(const struct scan *sc, struct mtr_json_report *report)
{
	for (size_t i = 0; i < sc->depth && sc->frames[i].named; i++)
	{
		const struct frame *frame = &sc->frames[i];
		size_t              whole = report->pointer_len;
		bool                fits = put(report, "/", 1);

		if (fits && frame->is_array)
			fits = put_index(report, frame->index);
		else if (fits)
			fits = put_key(report, sc->s + frame->key_start, frame->key_len);
		if (!fits)
		{
			report->pointer_len = whole;
			report->pointer_cut = true;
			return;
		}
	}
}

enum mtr_json_error
mtr_json_check(const char *s, size_t len, const struct mtr_json_mem *mem,
			   struct mtr_json_report *report)
{
	struct scan sc;

	sc.s = s;
	sc.len = len;
	sc.pos = 0;
	sc.depth = 0;
	mtr_json_keys_init(&sc.keys, s, mem);

	report->pointer_len = 0;
	report->pointer_cut = false;
	report->error =
		len > MTR_JSON_MAX_BYTES ? MTR_JSON_MEMORY : scan_document(&sc);
	report->offset = sc.pos;
	if (report->error != MTR_JSON_OK)
		fill_pointer(&sc, report);
	mtr_json_keys_release(&sc.keys);
	return report->error;
}
