/*
 * bind.h
 *		Binary values of PostgreSQL, written and read in place.
 *		PURE: includes neither h2o nor libpq.
 */
#ifndef GATEWAY_BIND_H
#define GATEWAY_BIND_H

#include <sys/socket.h>

#include "text.h"

/* Bytes that a text[] of "count" elements with "total" bytes in all takes. */
#define BIND_ARRAY_SIZE(count, total) (20 + 4 * (size_t) (count) + (total))

/* Writes a one-dimensional text[] without NULLs. */
typedef struct ArrayWriter
{
	char  *base;
	size_t capacity;
	size_t len;
	int    count;
} ArrayWriter;

/* Begins an array in "buffer", which the caller owns and made large enough
 * with BIND_ARRAY_SIZE. */
extern void
bind_array_begin(ArrayWriter *writer, char *buffer, size_t capacity);

/* Appends an element; asserts that there is room. */
extern void bind_array_add(ArrayWriter *writer, Slice element);

/* Completes the array and returns it; an array without elements has its own
 * form. */
extern Slice bind_array_end(ArrayWriter *writer);

/* Reads a text[]; the array must outlive the reader and what it returns. */
typedef struct ArrayReader
{
	const char *at;
	const char *end;
	int         left; /* elements not yet read */
} ArrayReader;

/* Returns false unless "array" begins like a text[] of at most one dimension.
 */
extern bool bind_array_open(ArrayReader *reader, Slice array);

/* Reads the next element while reader->left > 0.  Returns false when the array
 * is cut short or the element is NULL. */
extern bool bind_array_next(ArrayReader *reader, Slice *element);

/* Most bytes of a binary inet. */
#define BIND_INET_MAX 20

/*
 * Writes "address" as a binary inet and returns its length, or 0 when the
 * family is neither IPv4 nor IPv6.  An IPv4 address mapped into IPv6 becomes
 * IPv4.
 */
extern size_t
bind_inet(char dst[BIND_INET_MAX], const struct sockaddr *address);

/* Writes and reads big-endian integers at any alignment. */
extern void    bind_put_int32(char *dst, int32_t value);
extern int32_t bind_get_int32(const char *src);
extern int16_t bind_get_int16(const char *src);

#endif /* GATEWAY_BIND_H */
