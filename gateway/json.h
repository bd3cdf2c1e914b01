/*
 * json.h
 *		Just enough JSON to merge one object into another and to write strings.
 *		PURE: includes neither h2o nor libpq.
 */
#ifndef GATEWAY_JSON_H
#define GATEWAY_JSON_H

#include "text.h"

/* Values nested deeper than this are refused. */
#define JSON_DEPTH_MAX 64

/* A walk over the members of one object; the text must outlive it. */
typedef struct JsonWalk
{
	const char *at;
	const char *end;
	bool        first;
	bool        closed; /* the closing brace was read */
	bool        failed; /* the text turned out not to be one valid object */
} JsonWalk;

/*
 * Begins a walk over "text", which should be one JSON object.  Anything else
 * makes json_next return false at once, with walk->failed set.
 */
extern void json_open(JsonWalk *walk, Slice text);

/*
 * Sets *key to the next member's name (without quotes, escapes as they are)
 * and *value to its raw, complete and valid text.  Returns false after the
 * last member, or when the text is malformed (walk->failed).  Members handed
 * out before a failure may be used only if the caller does not mind.
 */
extern bool json_next(JsonWalk *walk, Slice *key, Slice *value);

/*
 * Returns the content of a raw value that is a string without any escape, or
 * SLICE_NONE for every other value.
 */
extern Slice json_plain_string(Slice value);

/* Most bytes that json_put_string may write for a string of "len" bytes. */
#define JSON_STRING_MAX(len) (6 * (len) + 2)

/*
 * Writes "s" as a JSON string with its quotes to "dst" and returns the number
 * of bytes written, at most JSON_STRING_MAX(s.len).  Valid UTF-8 is copied.
 */
extern size_t json_put_string(char *dst, Slice s);

#endif /* GATEWAY_JSON_H */
