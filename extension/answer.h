/*
 * answer.h
 *		What leaves a call: the response under construction and the result row.
 */
#ifndef MORTAR_ANSWER_H
#define MORTAR_ANSWER_H

#include "http.h"

/* starts an empty response in the current memory context */
extern void mtr_response_init(MtrResponse *res);

/* drops body and headers that were set so far */
extern void mtr_response_reset(MtrResponse *res);

/* bytes of the body so far */
static inline int64
mtr_body_len(const MtrResponse *res)
{
	return res->body.len - VARHDRSZ;
}

/*
 * The headers that every answer has, whatever its status; with_origin when the
 * request named an Origin.
 */
extern void mtr_common_headers(MtrResponse *res, bool with_origin);

/* Content-Range of a list of n items that begins at the first one */
extern void mtr_content_range(MtrResponse *res, uint64 n);

/*
 * The row (status, headers, body, next).	 The body becomes the bytea where it
 * is; with head, or when it is empty, the column is null.
 */
extern Datum mtr_answer_row(MtrResponse *res, bool head);

#endif /* MORTAR_ANSWER_H */
