/*
 * fuzz_gw_bind.c - a text[] that can be read comes out the same when written
 */
// SOURCES: gateway/bind.c gateway/text.c
#include "../../gateway/bind.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

/* Reads the array; writes it again when "writer" is not NULL. */
static bool
read_array(Slice array, ArrayWriter *writer)
{
	ArrayReader reader;
	Slice       element;

	if (!bind_array_open(&reader, array))
		return false;
	while (reader.left > 0)
	{
		if (!bind_array_next(&reader, &element))
			return false;
		require(element.base >= array.base &&
				element.base + element.len <= array.base + array.len);
		if (writer != NULL)
			bind_array_add(writer, element);
	}
	return true;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Slice       array = {(const char *) data, size};
	ArrayWriter writer;
	Slice       copy;
	char       *buffer;

	if (!read_array(array, NULL))
		return 0;
	/* at least as long as an empty one, never longer than it was */
	buffer = malloc(size + BIND_ARRAY_SIZE(0, 0));
	require(buffer != NULL);
	bind_array_begin(&writer, buffer, size + BIND_ARRAY_SIZE(0, 0));
	require(read_array(array, &writer));
	copy = bind_array_end(&writer);
	require(read_array(copy, NULL));
	/* flags and the lower bound may differ, and so may what follows */
	if (copy.len > 20)
		require(copy.len <= size &&
				memcmp(copy.base + 20, array.base + 20, copy.len - 20) == 0);
	free(buffer);
	return 0;
}
