/*
 * bind.c
 *		The wire formats of text[], inet and the integers.
 *
 * A text[] is: number of dimensions, flags (1 if there are NULLs), element
 * type; for each dimension its length and lower bound; for each element its
 * length (-1: NULL) and bytes.  An inet is: family, bits, is_cidr, number of
 * address bytes, address.  Everything is big-endian.
 *
 * The writer fills the caller's buffer, the reader points into the caller's
 * bytes: nothing is allocated, and a result row is never copied.
 */
#include "bind.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>

#define TEXT_OID 25

/* PostgreSQL's own numbers for the families, whatever AF_INET6 is here */
#define INET_FAMILY_4 2
#define INET_FAMILY_6 3

void
bind_put_int32(char *dst, int32_t value)
{
	uint32_t wire = htonl((uint32_t) value);

	memcpy(dst, &wire, sizeof(wire));
}

int32_t
bind_get_int32(const char *src)
{
	uint32_t wire;

	memcpy(&wire, src, sizeof(wire));
	return (int32_t) ntohl(wire);
}

int16_t
bind_get_int16(const char *src)
{
	uint16_t wire;

	memcpy(&wire, src, sizeof(wire));
	return (int16_t) ntohs(wire);
}

void
bind_array_begin(ArrayWriter *writer, char *buffer, size_t capacity)
{
	assert(capacity >= BIND_ARRAY_SIZE(0, 0));
	writer->base = buffer;
	writer->capacity = capacity;
	writer->len = BIND_ARRAY_SIZE(0, 0);
	writer->count = 0;
}

void
bind_array_add(ArrayWriter *writer, Slice element)
{
	assert(element.len <= INT32_MAX);
	assert(writer->capacity - writer->len >= 4);
	assert(writer->capacity - writer->len - 4 >= element.len);

	bind_put_int32(writer->base + writer->len, (int32_t) element.len);
	if (element.len > 0)
		memcpy(writer->base + writer->len + 4, element.base, element.len);
	writer->len += 4 + element.len;
	writer->count++;
}

Slice
bind_array_end(ArrayWriter *writer)
{
	bool empty = writer->count == 0;

	bind_put_int32(writer->base, empty ? 0 : 1);
	bind_put_int32(writer->base + 4, 0);
	bind_put_int32(writer->base + 8, TEXT_OID);
	if (empty)
		return (Slice){writer->base, 12};
	bind_put_int32(writer->base + 12, writer->count);
	bind_put_int32(writer->base + 16, 1);
	return (Slice){writer->base, writer->len};
}

bool
bind_array_open(ArrayReader *reader, Slice array)
{
	int32_t dimensions;

	*reader = (ArrayReader){NULL, NULL, 0};
	if (array.len < 12)
		return false;
	dimensions = bind_get_int32(array.base);
	if (bind_get_int32(array.base + 8) != TEXT_OID)
		return false;
	if (dimensions == 0)
		return true;
	if (dimensions != 1 || array.len < 20)
		return false;
	reader->left = bind_get_int32(array.base + 12);
	reader->at = array.base + 20;
	reader->end = array.base + array.len;
	return reader->left >= 0;
}

bool
bind_array_next(ArrayReader *reader, Slice *element)
{
	int32_t len;

	assert(reader->left > 0);
	if (reader->end - reader->at < 4)
		return false;
	len = bind_get_int32(reader->at);
	reader->at += 4;
	if (len < 0 || reader->end - reader->at < len)
		return false;
	*element = (Slice){reader->at, (size_t) len};
	reader->at += len;
	reader->left--;
	return true;
}

/* Fills in an inet of "bytes" address bytes, all of them significant. */
static size_t
put_inet(char *dst, char family, const void *address, size_t bytes)
{
	dst[0] = family;
	dst[1] = (char) (bytes * 8);
	dst[2] = 0;
	dst[3] = (char) bytes;
	memcpy(dst + 4, address, bytes);
	return 4 + bytes;
}

size_t
bind_inet(char dst[BIND_INET_MAX], const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
	{
		struct sockaddr_in in;

		memcpy(&in, address, sizeof(in));
		return put_inet(dst, INET_FAMILY_4, &in.sin_addr, 4);
	}
	if (address->sa_family == AF_INET6)
	{
		struct sockaddr_in6 in6;

		memcpy(&in6, address, sizeof(in6));
		if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr))
			return put_inet(dst, INET_FAMILY_4, &in6.sin6_addr.s6_addr[12], 4);
		return put_inet(dst, INET_FAMILY_6, &in6.sin6_addr, 16);
	}
	return 0;
}
