/*
 * json_keys.h - inside core/json*.c: the keys of the objects that are open
 *
 * Design: one stack of keys for the whole document.  An object remembers how
 * high the stack was when it opened; when it closes, its own keys are on top,
 * are sorted there, looked through for neighbours that are equal, and popped.
 * So memory follows the keys of the open objects, not of the document, and
 * the rows of a bulk insert use the same few entries again and again.
 *
 * Sorting by (hash, text) costs n log n comparisons in the worst case.  Keys
 * chosen to have one hash only make each comparison as long as the keys, and
 * the sum of their lengths is bounded by the document.
 *
 * Ownership: the stack starts in the caller's frame and moves to memory from
 * the caller's functions when it outgrows it; release gives that back.  The
 * struct points into itself: do not copy it.
 */
#ifndef MTR_CORE_JSON_KEYS_H
#define MTR_CORE_JSON_KEYS_H

#include "core/json_text.h"

#include <stdint.h>

#define MTR_JSON_KEYS_INLINE 64

struct mtr_json_key
{
	uint32_t hash;     /* of the decoded text */
	uint32_t start;    /* offset of the raw text in the document */
	uint32_t len : 31; /* of the raw text */
	uint32_t escaped : 1;
};

struct mtr_json_keys
{
	const char                *s; /* the document */
	const struct mtr_json_mem *mem;
	struct mtr_json_key       *keys;
	size_t                     n;
	size_t                     cap;
	struct mtr_json_key        small[MTR_JSON_KEYS_INLINE];
};

extern void mtr_json_keys_init(struct mtr_json_keys *k, const char *s,
							   const struct mtr_json_mem *mem);

/* mtr_json_keys_push returns false when there is no memory */
extern bool mtr_json_keys_push(struct mtr_json_keys       *k,
							   const struct mtr_json_text *text) MTR_MUSTCHECK;

/*
 * mtr_json_keys_pop ends the object whose first key is at base.  It returns
 * true when a key occurs twice, and then *twice is the occurrence that comes
 * first in the document among all that repeat an earlier one.
 */
extern bool mtr_json_keys_pop(struct mtr_json_keys *k, size_t base,
							  struct mtr_json_key *twice) MTR_MUSTCHECK;

extern void mtr_json_keys_release(struct mtr_json_keys *k);

#endif /* MTR_CORE_JSON_KEYS_H */
