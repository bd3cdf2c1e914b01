/*
 * request.h
 *		What handlers and the entry function read from a request.
 *
 * The functions named after something that a client may get wrong raise a
 * class MT error; they are for handlers.
 */
#ifndef MORTAR_REQUEST_H
#define MORTAR_REQUEST_H

#include "http.h"

#include "core/json.h"
#include "core/uri.h"

/* header fields that every call looks at, found in one walk; p NULL: absent */
typedef struct MtrHead
{
	struct mtr_slice authorization;
	struct mtr_slice apikey;
	struct mtr_slice origin;
	bool             repeated; /* a credential came twice, and not the same */
} MtrHead;

extern void mtr_request_head(const MtrRequest *req, MtrHead *head);

typedef enum MtrCredential
{
	MTR_CREDENTIAL_ONE,
	MTR_CREDENTIAL_NONE,
	MTR_CREDENTIAL_UNCLEAR /* several that differ, or one that is no API key */
} MtrCredential;

/* the API key that the request carries; the slice points into the headers */
extern MtrCredential
mtr_request_credential(const MtrHead *head, struct mtr_slice *token);

/* is the slice this word, in whatever case? */
extern bool mtr_slice_is(struct mtr_slice s, const char *word);

/*
 * Does the request ask for it?	 One Prefer header may hold several preferences,
 * "return=representation, count=exact".  name and value in lower case.
 */
extern bool
mtr_request_prefers(const MtrRequest *req, const char *name, const char *value);

/* for routes that take no query parameter: raises MT400 when there is one */
extern void mtr_request_no_query(const MtrRequest *req);

/*
 * The next query parameter, decoded; false at the end.	 Raises MT400 when it is
 * no percent-encoded UTF-8 text.
 */
extern bool mtr_request_parameter(struct mtr_query *q, struct mtr_slice *name,
								  struct mtr_slice *value);

/* raises MT400 about a parameter that the route does not know */
extern void mtr_refuse_parameter(struct mtr_slice name) pg_attribute_noreturn();

/*
 * The request body as checked JSON.  Raises MT400 for what is no JSON or no
 * UTF-8, MT415 for another media type, MT422 for JSON that cannot be stored
 * exactly as it was meant.
 */
extern void
mtr_request_json(const MtrRequest *req, struct mtr_json_value *root);

/*
 * Raises MT422 about a member of an object in the body: prefix is the object's
 * JSON pointer, key the member's decoded name.
 */
extern void
mtr_raise_member(const char *prefix, struct mtr_slice key, const char *code,
				 const char *detail, const char *what) pg_attribute_noreturn();

/* memory for the JSON functions: palloc, which raises when there is none */
extern const struct mtr_json_mem mtr_json_palloc;

#endif /* MORTAR_REQUEST_H */
