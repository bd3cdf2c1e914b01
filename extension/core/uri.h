/*
 * uri.h - raw request paths and query strings
 *
 * Purpose: cut the raw, still percent-encoded path after /v1/{tenant} and the
 * raw query string into pieces, and decode each piece exactly once.
 *
 * Design: splitting comes before decoding, so an encoded slash or dot can
 * never change which route or row a request names.  Nothing is normalised:
 * an unusual path is no path of ours.
 *
 * Ownership: no allocation.  Slices point into the caller's bytes.
 */
#ifndef MTR_CORE_URI_H
#define MTR_CORE_URI_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/attr.h"
#include "core/slice.h"

/*
 * mtr_path_split cuts a raw path into its segments, not decoded, and returns
 * their number: "/db/rows/x" is 3, "" is 0.  It returns -1, with seg
 * unspecified, for a path that does not start with a slash, has an empty
 * segment ("/", "/a/", "//a") or more than max segments.
 */
extern int mtr_path_split(const char *raw, size_t len, struct mtr_slice *seg,
						  int max) MTR_MUSTCHECK;

/*
 * mtr_pct_decode decodes %XX, and '+' as a space when plus_is_space (query
 * strings), into out, which has room for len bytes and may be in itself.  It
 * returns the decoded length, or -1 for a '%' without two hexadecimal digits.
 * The result may hold any byte: the caller checks UTF-8 and NUL.
 */
extern ssize_t mtr_pct_decode(const char *in, size_t len, char *out,
							  bool plus_is_space) MTR_MUSTCHECK;

/*
 * mtr_segment_decode decodes one path segment into out (room for len bytes,
 * may be in itself).  It returns the decoded length, or -1 for a bad escape,
 * an empty segment, invalid UTF-8, a NUL, a '/', or the segments "." and "..",
 * however they were spelled.
 */
extern ssize_t
mtr_segment_decode(const char *in, size_t len, char *out) MTR_MUSTCHECK;

/* mtr_pct_encode_len is the number of bytes that mtr_pct_encode will write */
extern size_t mtr_pct_encode_len(const char *in, size_t len);

/*
 * mtr_pct_encode writes in as a path segment: letters, digits and "-._~" stay,
 * every other byte becomes %XX in upper case.  out has room for
 * mtr_pct_encode_len(in, len) bytes, at most 3 * len, and must not overlap in.
 * It returns the length written.  mtr_segment_decode gives in back, except for
 * what no segment can be: "", ".", "..", and text with '/' or NUL or that is
 * not UTF-8.
 */
extern size_t mtr_pct_encode(const char *in, size_t len, char *out);

/* the rest of a query string that is being read */
struct mtr_query
{
	const char *p;
	const char *end;
};

/* mtr_query_start begins at the first pair of a raw query; raw may be NULL */
extern void mtr_query_start(struct mtr_query *q, const char *raw, size_t len);

/*
 * mtr_query_next gives the next raw name=value pair, not decoded, and returns
 * false when there is none left.  Pairs are separated by '&'; empty pairs are
 * skipped.  The name ends at the first '='; without one the value is empty.
 * An empty name ("=x") is returned as such.
 */
extern bool mtr_query_next(struct mtr_query *q, struct mtr_slice *name,
						   struct mtr_slice *value) MTR_MUSTCHECK;

#endif /* MTR_CORE_URI_H */
