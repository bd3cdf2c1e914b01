/*
 * fuzz.h - what every fuzzer has: its entry, and the end that libFuzzer reports
 */
#ifndef MTR_FUZZ_H
#define MTR_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(bool condition)
{
	if (!condition)
		abort();
}

#endif /* MTR_FUZZ_H */
