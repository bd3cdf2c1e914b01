/*
 * cursor.c - where the next page of a list begins, as a token for clients
 *
 * See cursor.h for the layout and what the MAC covers.
 */
#include "core/cursor.h"

#include <string.h>

#define FORMAT 1

/* the NUL that ends it is part of the message */
static const char purpose[] = "mortar page cursor";

static uint8_t *
put_uint32(uint8_t *p, uint32_t value)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		*p++ = (uint8_t) (value >> shift);
	return p;
}

static uint8_t *
put_bytes(uint8_t *p, const void *bytes, size_t n)
{
	if (n > 0)
		memcpy(p, bytes, n);
	return p + n;
}

static uint8_t *
put_head(uint8_t *p, const struct mtr_cursor *c)
{
	*p++ = FORMAT;
	return put_uint32(p, c->secret);
}

size_t
mtr_cursor_message_len(const struct mtr_cursor *c,
					   const struct mtr_slice *scope, size_t nscope)
{
	size_t len =
		sizeof(purpose) + MTR_CURSOR_HEAD_BYTES + sizeof(uint32_t) + c->key_len;

	for (size_t i = 0; i < nscope; i++)
		len += sizeof(uint32_t) + scope[i].len;
	return len;
}

size_t
mtr_cursor_message(const struct mtr_cursor *c, const struct mtr_slice *scope,
				   size_t nscope, uint8_t *out)
{
	uint8_t *p = put_bytes(out, purpose, sizeof(purpose));

	p = put_head(p, c);
	p = put_uint32(p, (uint32_t) c->key_len);
	p = put_bytes(p, c->key, c->key_len);
	for (size_t i = 0; i < nscope; i++)
	{
		p = put_uint32(p, (uint32_t) scope[i].len);
		p = put_bytes(p, scope[i].p, scope[i].len);
	}
	return (size_t) (p - out);
}

size_t
mtr_cursor_format(const struct mtr_cursor *c, char out[MTR_CURSOR_CHARS_MAX])
{
	uint8_t  token[MTR_CURSOR_BYTES_MAX];
	uint8_t *p = put_head(token, c);

	p = put_bytes(p, c->key, c->key_len);
	p = put_bytes(p, c->mac, sizeof(c->mac));
	return mtr_base64url_encode(token, (size_t) (p - token), out);
}

bool
mtr_cursor_parse(const char *s, size_t len, struct mtr_cursor *c)
{
	const size_t around = MTR_CURSOR_HEAD_BYTES + MTR_CURSOR_MAC_BYTES;
	uint8_t      token[MTR_CURSOR_BYTES_MAX];
	ssize_t      decoded;

	if (len > MTR_CURSOR_CHARS_MAX)
		return false;
	decoded = mtr_base64url_decode(s, len, token);
	if (decoded <= (ssize_t) around || token[0] != FORMAT)
		return false;
	c->secret = (uint32_t) token[1] << 24 | (uint32_t) token[2] << 16 |
				(uint32_t) token[3] << 8 | token[4];
	c->key_len = (size_t) decoded - around;
	memcpy(c->key, token + MTR_CURSOR_HEAD_BYTES, c->key_len);
	memcpy(c->mac, token + MTR_CURSOR_HEAD_BYTES + c->key_len, sizeof(c->mac));
	return true;
}
