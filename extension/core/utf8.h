/*
 * utf8.h - strict UTF-8
 *
 * Purpose: decide, before any byte reaches the database, whether text from a
 * client is UTF-8 as the standard defines it: no overlong form, no surrogate,
 * nothing above U+10FFFF, no character cut short.
 *
 * Design: U+0000 is valid UTF-8 but no PostgreSQL text can hold it, so it is
 * asked about separately.
 *
 * Ownership: pure functions, no allocation.
 */
#ifndef MTR_CORE_UTF8_H
#define MTR_CORE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#include "core/attr.h"

/*
 * mtr_utf8_char returns the length in bytes (1 to 4) of the character that
 * starts at s, or 0 when none of the len bytes at s begin a valid one.  len
 * may be 0.
 */
extern size_t mtr_utf8_char(const char *s, size_t len) MTR_MUSTCHECK;

/* mtr_utf8_valid is true when all of s is valid UTF-8; NUL is a character */
extern bool mtr_utf8_valid(const char *s, size_t len) MTR_MUSTCHECK;

/* mtr_utf8_clean is true when s is valid UTF-8 and contains no NUL */
extern bool mtr_utf8_clean(const char *s, size_t len) MTR_MUSTCHECK;

#endif /* MTR_CORE_UTF8_H */
