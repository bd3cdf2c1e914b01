/*
 * json_keys.c - find a key that occurs twice in one object
 *
 * See json_keys.h for the stack and for why it sorts.  The sort is a heap
 * sort: in place, no recursion, no bad case, and no allocation as in libc's.
 */
#include "core/json_keys.h"

#include <assert.h>
#include <string.h>

_Static_assert(sizeof(struct mtr_json_key) == 12,
			   "json.h's bound on memory counts on 12 bytes a key");

void
mtr_json_keys_init(struct mtr_json_keys *k, const char *s,
				   const struct mtr_json_mem *mem)
{
	k->s = s;
	k->mem = mem;
	k->keys = k->small;
	k->n = 0;
	k->cap = MTR_JSON_KEYS_INLINE;
}

void
mtr_json_keys_release(struct mtr_json_keys *k)
{
	if (k->keys != k->small && k->mem->free != NULL)
		k->mem->free(k->mem->ctx, k->keys);
	k->keys = k->small;
	k->n = 0;
	k->cap = MTR_JSON_KEYS_INLINE;
}

static bool
grow(struct mtr_json_keys *k)
{
	size_t               n = k->n;
	size_t               cap = k->cap * 2;
	struct mtr_json_key *keys;

	if (k->mem == NULL)
		return false;
	keys = k->mem->alloc(k->mem->ctx, cap * sizeof(*keys));
	if (keys == NULL)
		return false;
	memcpy(keys, k->keys, n * sizeof(*keys));
	mtr_json_keys_release(k);
	k->keys = keys;
	k->n = n;
	k->cap = cap;
	return true;
}

/* hash_text is FNV-1a over the decoded bytes */
static uint32_t
hash_text(const char *s, const struct mtr_json_text *text)
{
	uint32_t hash = UINT32_C(2166136261);
	size_t   at = text->start;
	size_t   end = text->start + text->len;

	while (at < end)
	{
		struct mtr_json_char c = {.bytes = {s[at]}, .n = 1, .used = 1};

		if (s[at] == '\\' &&
			mtr_json_read_char(s + at, end - at, &c) != MTR_JSON_OK)
			break; /* cannot be: the text was scanned */
		for (int i = 0; i < c.n; i++)
			hash = (hash ^ (unsigned char) c.bytes[i]) * UINT32_C(16777619);
		at += c.used;
	}
	return hash;
}

bool
mtr_json_keys_push(struct mtr_json_keys *k, const struct mtr_json_text *text)
{
	struct mtr_json_key *key;

	if (k->n == k->cap && !grow(k))
		return false;
	key = &k->keys[k->n++];
	key->hash = hash_text(k->s, text);
	key->start = (uint32_t) text->start;
	key->len = (uint32_t) text->len & 0x7FFFFFFF;
	key->escaped = text->escaped;
	return true;
}

/* compare_decoded orders two scanned texts by their decoded bytes */
static int
compare_decoded(const char *a, size_t a_len, const char *b, size_t b_len)
{
	while (a_len > 0 && b_len > 0)
	{
		struct mtr_json_char x;
		struct mtr_json_char y;
		int                  order;

		if (mtr_json_read_char(a, a_len, &x) != MTR_JSON_OK ||
			mtr_json_read_char(b, b_len, &y) != MTR_JSON_OK)
			return 0; /* cannot be: both were scanned */

		/* different characters differ before the shorter one ends */
		order = memcmp(x.bytes, y.bytes, x.n < y.n ? x.n : y.n);
		if (order != 0)
			return order;
		a += x.used;
		a_len -= x.used;
		b += y.used;
		b_len -= y.used;
	}
	return (a_len > 0) - (b_len > 0);
}

static int
compare_text(const char *s, const struct mtr_json_key *a,
			 const struct mtr_json_key *b)
{
	int order;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	if (a->escaped || b->escaped)
		return compare_decoded(s + a->start, a->len, s + b->start, b->len);
	order =
		memcmp(s + a->start, s + b->start, a->len < b->len ? a->len : b->len);
	if (order != 0)
		return order;
	return (a->len > b->len) - (a->len < b->len);
}

/* goes_before is the order of the sort; equal keys stay in document order */
static bool
goes_before(const char *s, const struct mtr_json_key *a,
			const struct mtr_json_key *b)
{
	int order = compare_text(s, a, b);

	return order != 0 ? order < 0 : a->start < b->start;
}

/* sift_down lets the key at root sink to its place in the heap of n keys */
static void
sift_down(const char *s, struct mtr_json_key *keys, size_t root, size_t n)
{
	struct mtr_json_key key = keys[root];

	for (;;)
	{
		size_t child = 2 * root + 1;

		if (child >= n)
			break;
		if (child + 1 < n && goes_before(s, &keys[child], &keys[child + 1]))
			child++;
		if (!goes_before(s, &key, &keys[child]))
			break;
		keys[root] = keys[child];
		root = child;
	}
	keys[root] = key;
}

static void
heap_sort(const char *s, struct mtr_json_key *keys, size_t n)
{
	for (size_t i = n / 2; i > 0; i--)
		sift_down(s, keys, i - 1, n);
	for (size_t end = n; end > 1; end--)
	{
		struct mtr_json_key largest = keys[0];

		keys[0] = keys[end - 1];
		keys[end - 1] = largest;
		sift_down(s, keys, 0, end - 1);
	}
}

bool
mtr_json_keys_pop(struct mtr_json_keys *k, size_t base,
				  struct mtr_json_key *twice)
{
	struct mtr_json_key *keys = k->keys + base;
	size_t               n = k->n - base;
	bool                 found = false;

	assert(base <= k->n);

	heap_sort(k->s, keys, n);
	for (size_t i = 1; i < n; i++)
	{
		if (compare_text(k->s, &keys[i - 1], &keys[i]) == 0 &&
			(!found || keys[i].start < twice->start))
		{
			*twice = keys[i];
			found = true;
		}
	}
	k->n = base;
	return found;
}
