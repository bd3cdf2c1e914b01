/*
 * json_number.c - which numbers the server can hold (see json.h)
 *
 * The server keeps a number as decimal digits: at most 131072 before the point
 * and at most 16383 after it, zeros at the end included.  It finds out while
 * it converts the text, and then knows neither the document nor the member, so
 * the same rule is applied here, to the text alone.
 */
#include "core/json.h"

#include <string.h>

#define MAX_BEFORE 131072
#define MAX_AFTER 16383

/* the server reads no exponent from here on, not even that of a zero */
#define MAX_EXPONENT 1073741823

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* the exponent behind "e", or MAX_EXPONENT with its sign when it is beyond */
static long
read_exponent(const char *p, const char *end)
{
	bool negative = *p == '-';
	long value = 0;

	if (*p == '-' || *p == '+')
		p++;
	for (; p < end; p++)
	{
		value = value * 10 + (*p - '0');
		if (value > MAX_EXPONENT)
			value = MAX_EXPONENT;
	}
	return negative ? -value : value;
}

bool
mtr_json_number_fits(const char *s, size_t len)
{
	const char *p = s;
	const char *end = s + len;
	const char *point = NULL;
	const char *first = NULL; /* digit that is not zero */
	long        exponent = 0;
	long        before; /* digits before the point, when first is set */
	long        after;  /* digits after it */

	if (len <= MAX_AFTER && memchr(s, 'e', len) == NULL &&
		memchr(s, 'E', len) == NULL)
		return true;
	if (*p == '-')
		p++;
	for (; p < end && (is_digit(*p) || *p == '.'); p++)
	{
		if (*p == '.')
			point = p;
		else if (first == NULL && *p != '0')
			first = p;
	}
	before = (point != NULL ? point : p) - (first != NULL ? first : p);
	/* "0.01": the digit stands two places behind the point, not one */
	if (first != NULL && point != NULL && first > point)
		before++;
	after = point != NULL ? p - point - 1 : 0;
	if (p < end)
		exponent = read_exponent(p + 1, end);
	if (exponent >= MAX_EXPONENT || exponent <= -MAX_EXPONENT)
		return false;
	return after - exponent <= MAX_AFTER &&
		   (first == NULL || before + exponent <= MAX_BEFORE);
}
