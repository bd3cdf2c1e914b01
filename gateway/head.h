/*
 * head.h
 *		A second look at the raw request head, and the split of the target.
 *		PURE: includes neither h2o nor libpq.
 */
#ifndef GATEWAY_HEAD_H
#define GATEWAY_HEAD_H

#include "text.h"

/* What head_check found out. */
typedef struct HeadInfo
{
	size_t      length;  /* bytes up to and with the empty line */
	bool        chunked; /* the body came with Transfer-Encoding: chunked */
	const char *why;     /* one sentence for the client; NULL when accepted */
} HeadInfo;

/*
 * Checks the head that "raw" begins with (whatever follows it is ignored) for
 * everything that two HTTP implementations could read differently: more than
 * one Content-Length, Transfer-Encoding or Host, a length beside a transfer
 * coding, a folded line, a bare line feed, a length that is no number, a
 * missing Host.  Returns false, and says why, when the request must be
 * answered with 400 and its connection closed.
 */
extern bool head_check(Slice raw, HeadInfo *info);

typedef enum TargetVerdict
{
	TARGET_OK,
	TARGET_OUTSIDE,  /* not below /v1/{tenant}: 404 */
	TARGET_ENCODING, /* the tenant segment cannot be decoded: 400 */
} TargetVerdict;

/* The pieces of a request target.  All but a decoded tenant point into it. */
typedef struct Target
{
	Slice tenant; /* decoded, valid UTF-8 without "/" and NUL */
	Slice path;   /* raw rest after the tenant, with its "/"; may be empty */
	Slice query;  /* raw, without "?" */
	bool  has_query;
} Target;

/*
 * Splits "target" (origin form, or absolute form with http or https).  Only
 * the tenant segment is decoded, into "buffer", which must have room for
 * target.len bytes and live as long as "out" is used.
 */
extern TargetVerdict target_split(Slice target, char *buffer, Target *out);

#endif /* GATEWAY_HEAD_H */
