/*
 * write.h
 *		JSON out: values written straight into a response body.
 *
 * Every text that comes from a table is UTF-8 without NUL already; nothing is
 * checked here, only escaped.	A body need not be NUL-terminated.
 */
#ifndef MORTAR_WRITE_H
#define MORTAR_WRITE_H

#include "mortar.h"

#include "lib/stringinfo.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

/* room for mtr_format_time and mtr_format_int; neither writes a NUL */
#define MTR_TIME_CHARS 48
#define MTR_INT_CHARS 20
#define MTR_CREDITS_CHARS 24

/* appends a string literal of C as it stands */
#define mtr_put(buf, literal)                                                  \
	appendBinaryStringInfo(buf, "" literal "", sizeof(literal) - 1)

/* writes a word at p and returns the place after it; there must be room */
static inline char *
mtr_word(char *p, const char *word)
{
	size_t len = strlen(word);

	memcpy(p, word, len);
	return p + len;
}

/*
 * mtr_format_time writes a time in UTC as RFC 3339 has it, 2026-01-01T00:00:00Z,
 * with a fraction only when there is one and without trailing zeros.	It
 * returns the place after the last character.	"infinity" and "-infinity" are
 * written as those words.
 */
extern char *mtr_format_time(char *p, TimestampTz t);

/* decimal digits; returns the place after the last one */
extern char *mtr_format_int(char *p, int64 value);

/* micro-credits as credits with six decimals: -1500000 is "-1.500000" */
extern char *mtr_format_credits(char *p, int64 amount_uc);

extern void mtr_put_string(StringInfo buf, const char *s, size_t len);
extern void mtr_put_cstring(StringInfo buf, const char *s);
extern void mtr_put_int(StringInfo buf, int64 value);
extern void mtr_put_time(StringInfo buf, TimestampTz t); /* with quotes */

/*
 * mtr_put_row writes a row as clients see it: id, created_at and updated_at,
 * then the members of the document, which must be an object.	 It returns false
 * when the row takes more than limit bytes; then the body is as it was before.
 */
extern bool
mtr_put_row(StringInfo buf, const pg_uuid_t *id, TimestampTz created_at,
			TimestampTz updated_at, Jsonb *doc, size_t limit);

#endif /* MORTAR_WRITE_H */
