/*
 * utf8_model.h - a UTF-8 decoder written from its definition, to compare with
 */
#ifndef MTR_UTF8_MODEL_H
#define MTR_UTF8_MODEL_H

#include <stddef.h>
#include <stdint.h>

/*
 * model_char decodes by the bit patterns and only then asks whether the value
 * needed that many bytes and may be written at all.
 */
static size_t
model_char(const unsigned char *s, size_t len)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t                n;
	uint32_t              code;

	if (len == 0)
		return 0;
	if ((s[0] & 0x80) == 0)
		return 1;
	n = (s[0] & 0xE0) == 0xC0   ? 2
		: (s[0] & 0xF0) == 0xE0 ? 3
		: (s[0] & 0xF8) == 0xF0 ? 4
								: 0;
	if (n == 0 || len < n)
		return 0;
	code = s[0] & (0xFFu >> (n + 1));
	for (size_t i = 1; i < n; i++)
	{
		if ((s[i] & 0xC0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3F);
	}
	if (code < least[n] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
		return 0;
	return n;
}

#endif /* MTR_UTF8_MODEL_H */
