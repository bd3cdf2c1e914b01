/*
 * problem.h
 *		Problem documents (RFC 9457) with the members of the contract.
 *		PURE: includes neither h2o nor libpq.
 */
#ifndef GATEWAY_PROBLEM_H
#define GATEWAY_PROBLEM_H

#include "text.h"

#define PROBLEM_CONTENT_TYPE "application/problem+json"

/* What a problem document is made of; all slices are borrowed. */
typedef struct Problem
{
	int   status;     /* one that status_title knows, else 500 is written */
	Slice code;       /* "not_found": letters, digits, underscores */
	Slice detail;     /* one sentence for the client; valid UTF-8 */
	Slice request_id; /* as in X-Request-Id */
	Slice members;    /* a JSON object of further members, or SLICE_NONE */
} Problem;

/* What problem_write found in the members. */
typedef struct ProblemFacts
{
	Slice retry_after;     /* digits of a "retry_after" member, or SLICE_NONE */
	bool  members_invalid; /* they were no JSON object and were left out */
} ProblemFacts;

/* Returns the most bytes that problem_write can need. */
extern size_t problem_size_max(const Problem *problem);

/*
 * Writes the document to "dst", which has room for problem_size_max() bytes,
 * and returns its length.  A "code" member replaces problem->code, and with it
 * "type"; "errors" is taken over; other members are appended, except those
 * that the document has by itself.
 */
extern size_t
problem_write(const Problem *problem, char *dst, ProblemFacts *facts);

#endif /* GATEWAY_PROBLEM_H */
