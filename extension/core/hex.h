/*
 * hex.h - one hexadecimal digit
 *
 * Shared by ids, percent escapes and JSON's \u escapes.  Written out, without
 * ctype.h: the answer must not depend on a locale.
 */
#ifndef MTR_CORE_HEX_H
#define MTR_CORE_HEX_H

/* mtr_hex_value returns 0 to 15, or -1 when c is no hexadecimal digit */
static inline int
mtr_hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

#endif /* MTR_CORE_HEX_H */
