/*
 * slice.h - a piece of somebody else's bytes
 *
 * Request data is never NUL-terminated and may contain NUL, so it travels as
 * pointer and length.  A slice owns nothing: it is valid as long as the bytes
 * it points into.  When len is 0, p may be anything, NULL included, and must
 * not be dereferenced or handed to memcpy and its like.
 */
#ifndef MTR_CORE_SLICE_H
#define MTR_CORE_SLICE_H

#include <stddef.h>

struct mtr_slice
{
	const char *p;
	size_t      len;
};

#endif /* MTR_CORE_SLICE_H */
