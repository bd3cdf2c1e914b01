/*
 * write.c
 *		JSON out: values written straight into a response body (see write.h).
 *
 * The server's own functions for this make a palloc'd string of every value
 * first, put spaces between tokens, and know no limit: a number such as
 * 1e100000 in a stored document is seven bytes on its way in and a hundred
 * thousand on its way out, so a small document could answer with gigabytes.
 * Here the limit is checked after every token, and a token is never longer
 * than a stored string or the digits of one number.
 *
 * Nothing is shared and nothing outlives the call.
 */
#include "mortar.h"

#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "core/json.h"
#include "core/uuid7.h"
#include "write.h"

/* value is 0 to 99 */
static inline char *
format_two(char *p, int value)
{
	*p++ = (char) ('0' + value / 10);
	*p++ = (char) ('0' + value % 10);
	return p;
}

/* a part of a million */
static char *
format_millionths(char *p, int value)
{
	p = format_two(p, value / 10000);
	p = format_two(p, value / 100 % 100);
	return format_two(p, value % 100);
}

static char *
format_fraction(char *p, fsec_t fsec)
{
	if (fsec == 0)
		return p;
	*p++ = '.';
	p = format_millionths(p, fsec);
	while (p[-1] == '0')
		p--;
	return p;
}

static char *
format_year(char *p, int year)
{
	if (year < 0)
	{
		*p++ = '-';
		year = -year;
	}
	if (year > 9999)
		return pg_ultostr_zeropad(p, (uint32) year, 4);
	return format_two(format_two(p, year / 100), year % 100);
}

/* a day since 2000 as "2026-01-01T" */
typedef struct Date
{
	int64 day;
	int   len;
	char  text[MTR_TIME_CHARS];
} Date;

static void
fill_date(Date *date, int64 day)
{
	struct pg_tm tm;
	fsec_t       fsec;
	char        *p = date->text;

	/* no time zone given: the fields come out in UTC */
	if (timestamp2tm(day * USECS_PER_DAY, NULL, &tm, &fsec, NULL, NULL) != 0)
		elog(ERROR, "a valid time is on no day");
	p = format_year(p, tm.tm_year);
	*p++ = '-';
	p = format_two(p, tm.tm_mon);
	*p++ = '-';
	p = format_two(p, tm.tm_mday);
	*p++ = 'T';
	date->len = (int) (p - date->text);
	date->day = day;
}

/* the latest day is kept: times that are written one after another often share it */
static char *
format_date(char *p, int64 day)
{
	static Date date;

	if (date.len == 0 || date.day != day)
		fill_date(&date, day);
	memcpy(p, date.text, (size_t) date.len);
	return p + date.len;
}

char *
mtr_format_time(char *p, TimestampTz t)
{
	int64 day = t / USECS_PER_DAY;
	int64 rest = t % USECS_PER_DAY;
	int   seconds;

	if (TIMESTAMP_IS_NOBEGIN(t))
		return mtr_word(p, "-infinity");
	if (!IS_VALID_TIMESTAMP(t))
		return mtr_word(p, "infinity");

	if (rest < 0)
	{
		rest += USECS_PER_DAY;
		day--;
	}
	seconds = (int) (rest / USECS_PER_SEC);
	p = format_date(p, day);
	p = format_two(p, seconds / SECS_PER_HOUR);
	*p++ = ':';
	p = format_two(p, seconds / SECS_PER_MINUTE % MINS_PER_HOUR);
	*p++ = ':';
	p = format_two(p, seconds % SECS_PER_MINUTE);
	p = format_fraction(p, (fsec_t) (rest % USECS_PER_SEC));
	*p++ = 'Z';
	return p;
}

char *
mtr_format_int(char *p, int64 value)
{
	/* pg_lltoa ends its text with a NUL, which may lie beyond our room */
	char digits[MTR_INT_CHARS + 1];
	int  len = pg_lltoa(value, digits);

	memcpy(p, digits, (size_t) len);
	return p + len;
}

char *
mtr_format_credits(char *p, int64 amount_uc)
{
	uint64 magnitude =
		amount_uc < 0 ? 0 - (uint64) amount_uc : (uint64) amount_uc;

	if (amount_uc < 0)
		*p++ = '-';
	p = mtr_format_int(p, (int64) (magnitude / 1000000));
	*p++ = '.';
	return format_millionths(p, (int) (magnitude % 1000000));
}

void
mtr_put_string(StringInfo buf, const char *s, size_t len)
{
	enlargeStringInfo(buf, (int) Min(mtr_json_escape_max(len), MaxAllocSize));
	buf->len += (int) mtr_json_escape(s, len, buf->data + buf->len);
}

void
mtr_put_cstring(StringInfo buf, const char *s)
{
	mtr_put_string(buf, s, strlen(s));
}

void
mtr_put_int(StringInfo buf, int64 value)
{
	enlargeStringInfo(buf, MTR_INT_CHARS);
	buf->len = (int) (mtr_format_int(buf->data + buf->len, value) - buf->data);
}

void
mtr_put_time(StringInfo buf, TimestampTz t)
{
	char *p;

	enlargeStringInfo(buf, MTR_TIME_CHARS + 2);
	p = buf->data + buf->len;
	*p++ = '"';
	p = mtr_format_time(p, t);
	*p++ = '"';
	buf->len = (int) (p - buf->data);
}

static void
put_scalar(StringInfo buf, const JsonbValue *v)
{
	switch (v->type)
	{
		case jbvNull:
			mtr_put(buf, "null");
			break;
		case jbvBool:
			if (v->val.boolean)
				mtr_put(buf, "true");
			else
				mtr_put(buf, "false");
			break;
		case jbvNumeric:
			appendStringInfoString(
				buf, DatumGetCString(DirectFunctionCall1(
						 numeric_out, NumericGetDatum(v->val.numeric))));
			break;
		case jbvString:
			mtr_put_string(buf, v->val.string.val, (size_t) v->val.string.len);
			break;
		default:
			elog(ERROR, "unexpected type %d of a value in a document",
				 (int) v->type);
	}
}

/*
 * Writes a token.	*comma says whether the place before it needs one: after a
 * value, not after an opening bracket or a key.
 */
static void
put_token(StringInfo buf, JsonbIteratorToken token, const JsonbValue *v,
		  bool *comma)
{
	bool closes = token == WJB_END_OBJECT || token == WJB_END_ARRAY;

	if (*comma && !closes)
		appendStringInfoCharMacro(buf, ',');
	*comma = true;
	switch (token)
	{
		case WJB_KEY:
			mtr_put_string(buf, v->val.string.val, (size_t) v->val.string.len);
			appendStringInfoCharMacro(buf, ':');
			*comma = false;
			break;
		case WJB_VALUE:
		case WJB_ELEM:
			put_scalar(buf, v);
			break;
		case WJB_BEGIN_OBJECT:
			appendStringInfoCharMacro(buf, '{');
			*comma = false;
			break;
		case WJB_BEGIN_ARRAY:
			appendStringInfoCharMacro(buf, '[');
			*comma = false;
			break;
		case WJB_END_OBJECT:
			appendStringInfoCharMacro(buf, '}');
			break;
		case WJB_END_ARRAY:
			appendStringInfoCharMacro(buf, ']');
			break;
		default:
			elog(ERROR, "unexpected token %d in a document", (int) token);
	}
}

/*
 * Writes the members of an object after what the body holds already, and the
 * closing bracket; false as soon as the body is longer than end.
 */
static bool
put_members(StringInfo buf, Jsonb *doc, size_t end)
{
	JsonbIterator     *it = JsonbIteratorInit(&doc->root);
	JsonbIteratorToken token;
	JsonbValue         v;
	bool               comma = true;

	if (JsonbIteratorNext(&it, &v, false) != WJB_BEGIN_OBJECT)
		elog(ERROR, "a document is not an object");
	while ((token = JsonbIteratorNext(&it, &v, false)) != WJB_DONE)
	{
		/* what is about to be written may be as long as the stored value */
		if ((token == WJB_KEY || token == WJB_VALUE || token == WJB_ELEM) &&
			v.type == jbvString &&
			(size_t) buf->len + (size_t) v.val.string.len > end)
			return false;
		put_token(buf, token, &v, &comma);
		if ((size_t) buf->len > end)
			return false;
	}
	return true;
}

/* the longest start of a row: three members with their punctuation */
#define ROW_HEAD_CHARS                                                         \
	(sizeof("{\"id\":\"\",\"created_at\":\"\",\"updated_at\":\"\"") +          \
	 MTR_UUID_CHARS + 2 * MTR_TIME_CHARS)

bool
mtr_put_row(StringInfo buf, const pg_uuid_t *id, TimestampTz created_at,
			TimestampTz updated_at, Jsonb *doc, size_t limit)
{
	int   start = buf->len;
	char *p;

	enlargeStringInfo(buf, ROW_HEAD_CHARS);
	p = mtr_word(buf->data + buf->len, "{\"id\":\"");
	mtr_uuid_format(id->data, p);
	p = mtr_word(p + MTR_UUID_CHARS, "\",\"created_at\":\"");
	p = mtr_format_time(p, created_at);
	p = mtr_word(p, "\",\"updated_at\":\"");
	p = mtr_format_time(p, updated_at);
	*p++ = '"';
	buf->len = (int) (p - buf->data);

	if (put_members(buf, doc, (size_t) start + limit))
		return true;
	buf->len = start;
	return false;
}
