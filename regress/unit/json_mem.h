/*
 * json_mem.h - counted, failing memory for the tests of core/json
 *
 * Every block is a malloc block of its own, so AddressSanitizer sees overruns
 * and what is never given back.
 */
#ifndef MTR_JSON_MEM_H
#define MTR_JSON_MEM_H

#include "core/json.h"

#include <stdlib.h>

struct counted
{
	size_t calls;
	size_t live;    /* blocks not given back */
	size_t bytes;   /* asked for in all */
	size_t fail_at; /* this call fails; 0: none */
};

static void *
counted_alloc(void *ctx, size_t size)
{
	struct counted *c = ctx;
	void           *block;

	c->calls++;
	if (c->calls == c->fail_at)
		return NULL;
	block = malloc(size);
	if (block == NULL)
		abort();
	c->live++;
	c->bytes += size;
	return block;
}

static void
counted_free(void *ctx, void *block)
{
	struct counted *c = ctx;

	c->live--;
	free(block);
}

#endif /* MTR_JSON_MEM_H */
