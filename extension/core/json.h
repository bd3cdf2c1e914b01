/*
 * json.h - strict JSON: check a document, walk its top level, write strings
 *
 * Purpose: decide about a request body before the server's own json type sees
 * it, and say exactly what is wrong and where.  The server's parser accepts
 * duplicate keys (and keeps the last), has no fixed depth, and its messages
 * are SQL-flavoured text; a client of an HTTP interface needs a kind and a
 * JSON pointer.
 *
 * Design: one pass over the bytes without recursion, then walking functions
 * that only cut slices.  Numbers stay text, so nothing is ever rounded here;
 * those that the server cannot hold are refused, since it would say so without
 * saying where.  Duplicate keys are compared decoded; they are
 * found by sorting each object's keys (heap sort on hash, then text) when it
 * closes: n log n whatever an attacker sends, with no hash table to flood.
 *
 * Ownership: nothing global, nothing kept.  Memory comes from the caller's
 * functions, is given back before mtr_json_check returns, and is at most
 * MTR_JSON_MEM_PER_BYTE times the length of the document; an ordinary
 * document needs none at all.  An allocator that throws instead of returning
 * NULL (the server's palloc) is fine.
 */
#ifndef MTR_CORE_JSON_H
#define MTR_CORE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/attr.h"
#include "core/slice.h"

#define MTR_JSON_MAX_DEPTH 64         /* arrays and objects in one another */
#define MTR_JSON_MAX_BYTES 0x3fffffff /* just below 1 GiB */
#define MTR_JSON_MEM_PER_BYTE 10
#define MTR_JSON_POINTER_BYTES 512

enum mtr_json_error
{
	MTR_JSON_OK = 0,
	MTR_JSON_MALFORMED,     /* no JSON text, or something after it */
	MTR_JSON_ENCODING,      /* a string that is not UTF-8 */
	MTR_JSON_DUPLICATE_KEY, /* the same key twice in one object */
	MTR_JSON_NUL,           /* \u0000, which no PostgreSQL text can hold */
	MTR_JSON_SURROGATE,     /* half of a surrogate pair */
	MTR_JSON_DEPTH,         /* deeper than MTR_JSON_MAX_DEPTH */
	MTR_JSON_NUMBER,        /* more digits than the server's numeric holds */
	MTR_JSON_MEMORY         /* allocator failed, or > MTR_JSON_MAX_BYTES */
};

enum mtr_json_kind
{
	MTR_JSON_KIND_OBJECT,
	MTR_JSON_KIND_ARRAY,
	MTR_JSON_KIND_STRING,
	MTR_JSON_KIND_NUMBER,
	MTR_JSON_KIND_TRUE,
	MTR_JSON_KIND_FALSE,
	MTR_JSON_KIND_NULL
};

/* where memory comes from; free may be NULL (a memory context is dropped) */
struct mtr_json_mem
{
	void *(*alloc)(void *ctx, size_t size); /* NULL: none left */
	void (*free)(void *ctx, void *ptr);
	void *ctx;
};

/*
 * What is wrong and where.  The pointer (RFC 6901, UTF-8, not NUL-terminated)
 * names the value at fault: for a duplicate key the member, for a bad key the
 * object it is in, "" for the document itself.  A pointer that does not fit is
 * cut after a whole reference token, so it still names an existing ancestor.
 */
struct mtr_json_report
{
	enum mtr_json_error error;
	size_t              offset; /* of the byte at fault; of the second key */
	bool                pointer_cut;
	size_t              pointer_len;
	char                pointer[MTR_JSON_POINTER_BYTES];
};

/*
 * mtr_json_check reads a whole document and returns MTR_JSON_OK or the first
 * error in document order (a duplicate key counts where its object closes).
 * report is filled in both cases; mem may be NULL, then a document whose open
 * objects have more than some dozens of keys is MTR_JSON_MEMORY.
 */
extern enum mtr_json_error
mtr_json_check(const char *s, size_t len, const struct mtr_json_mem *mem,
			   struct mtr_json_report *report) MTR_MUSTCHECK;

/* a value: its raw text, without white space around it, and its kind */
struct mtr_json_value
{
	struct mtr_slice   raw;
	enum mtr_json_kind kind;
};

/*
 * The walk is for documents that mtr_json_check accepted.  On others it stays
 * inside the bytes, and ends early at the first thing it cannot read.
 */

/* mtr_json_root gives the document's value; false when there is none */
extern bool mtr_json_root(const char *s, size_t len,
						  struct mtr_json_value *root) MTR_MUSTCHECK;

/* a walk over the members of an object or the elements of an array */
struct mtr_json_iter
{
	const char                *p;
	const char                *end;
	const struct mtr_json_mem *mem;
	enum mtr_json_error        error; /* why the walk ended; OK: at the end */
};

/*
 * mtr_json_open starts a walk over an object or an array.  mem, which may be
 * NULL for arrays, must live as long as the walk.
 */
extern void
mtr_json_open(struct mtr_json_iter *it, const struct mtr_json_value *container,
			  const struct mtr_json_mem *mem);

/*
 * mtr_json_next_member gives the next member of an object: its key decoded,
 * which points into the document when the key has no escapes and otherwise
 * into memory from mem that the caller owns, and its value.  It returns false
 * at the end; then it->error tells whether that was the end of the object.
 */
extern bool
mtr_json_next_member(struct mtr_json_iter *it, struct mtr_slice *key,
					 struct mtr_json_value *value) MTR_MUSTCHECK;

/* mtr_json_next_element gives the next element of an array, as above */
extern bool mtr_json_next_element(struct mtr_json_iter  *it,
								  struct mtr_json_value *value) MTR_MUSTCHECK;

/*
 * mtr_json_string decodes a string value.  Like a key, the text points into
 * the document or into memory from mem.  It returns MTR_JSON_OK, _MEMORY, or
 * _MALFORMED when the value is no string.
 */
extern enum mtr_json_error
mtr_json_string(const struct mtr_json_value *value,
				const struct mtr_json_mem   *mem,
				struct mtr_slice            *text) MTR_MUSTCHECK;

/*
 * mtr_json_number_fits is true when the server's type numeric holds the number
 * exactly: at most 131072 digits before the decimal point and 16383 after it,
 * written without an exponent.  s is a whole JSON number.
 */
extern bool mtr_json_number_fits(const char *s, size_t len) MTR_MUSTCHECK;

/*
 * mtr_json_decode decodes a raw string literal, quotes included, into out,
 * which has room for len - 2 bytes.  It returns the decoded length, or -1 for
 * what mtr_json_check would refuse.
 */
extern ssize_t
mtr_json_decode(const char *raw, size_t len, char *out) MTR_MUSTCHECK;

/* mtr_json_escape_max is the most that mtr_json_escape writes for len bytes */
static inline size_t
mtr_json_escape_max(size_t len)
{
	return len * 6 + 2;
}

/*
 * mtr_json_escape writes s, which must be UTF-8, as a JSON string literal with
 * its quotes, and returns the length written.  out has room for
 * mtr_json_escape_max(len) bytes and must not overlap s.  Only '"', '\' and
 * control characters are escaped.
 */
extern size_t mtr_json_escape(const char *s, size_t len, char *out);

#endif /* MTR_CORE_JSON_H */
