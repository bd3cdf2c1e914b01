/*
 * http.h
 *		One HTTP call inside the server: routes, request, answer.
 *
 * A handler runs as mortar_tenant with the tenant context set.	 It reads the
 * request, appends its body to res->body and sets status and headers; it
 * raises class MT errors for what is wrong with the request.  Adding a route
 * means a line in route.c and a handler.
 */
#ifndef MORTAR_HTTP_H
#define MORTAR_HTTP_H

#include "mortar.h"

#include "lib/stringinfo.h"

#include "auth.h"
#include "core/slice.h"
#include "gate.h"

#define MTR_MAX_SEGMENTS 8
#define MTR_MAX_PATH_ARGS 3

typedef struct MtrRequest
{
	const char      *tenant;
	struct mtr_slice method;
	struct mtr_slice query; /* raw; p NULL when absent */
	struct mtr_slice body;  /* p NULL when absent */
	bool             head;  /* HEAD: no body in the answer, none is metered */
	const struct MtrRoute *route;
	char       *arg[MTR_MAX_PATH_ARGS]; /* decoded path arguments, UTF-8 */
	size_t      arg_len[MTR_MAX_PATH_ARGS];
	MtrIdentity who;
	MtrTenant  *slot;       /* pinned */
	const char *request_id; /* may be NULL */
	Datum       headers;    /* text[]; read with mtr_request_header */
	bool        has_headers;
} MtrRequest;

typedef struct MtrResponse
{
	int            status;
	StringInfoData body;     /* starts with room for a varlena header */
	int            nheaders; /* entries of header: names and values */
	const char    *header[32];
} MtrResponse;

typedef void (*MtrHandler)(MtrRequest *req, MtrResponse *res);

typedef struct MtrRoute
{
	int16 id; /* stable: it is stored in usage slots; never reuse a number */
	const char *method;
	const char *path; /* "/db/rows/{t}/{id}" */
	uint32      scope;
	bool        gated;  /* refused with 402 when credits are out; priced */
	bool        writes; /* the handler may change rows */
	MtrHandler  handler;
} MtrRoute;

/* "GET /db/rows/{t}" for a route number, "" for 0, "?" for an unknown one */
extern const char *mtr_route_template(int16 id);

/* the route of that template, NULL: there is none */
extern const MtrRoute *mtr_route_named(const char *template);

/*
 * Finds the route.  Path arguments are decoded into req.  Returns 0 or the
 * HTTP status 400, 404 or 405; for 405 and OPTIONS *allow is set.
 */
extern int
mtr_route_find(struct mtr_slice path, MtrRequest *req, const char **allow);

/* a request header's value as palloc'd C string, NULL when absent */
extern const char *mtr_request_header(const MtrRequest *req, const char *name);

/* adds a response header; both strings must live until the call returns */
extern void mtr_header(MtrResponse *res, const char *name, const char *value);

/* handlers */
extern void mtr_tables_list(MtrRequest *req, MtrResponse *res);
extern void mtr_tables_create(MtrRequest *req, MtrResponse *res);
extern void mtr_tables_get(MtrRequest *req, MtrResponse *res);
extern void mtr_tables_drop(MtrRequest *req, MtrResponse *res);
extern void mtr_rows_list(MtrRequest *req, MtrResponse *res);
extern void mtr_rows_insert(MtrRequest *req, MtrResponse *res);
extern void mtr_rows_get(MtrRequest *req, MtrResponse *res);
extern void mtr_rows_delete(MtrRequest *req, MtrResponse *res);
extern void mtr_rows_put(MtrRequest *req, MtrResponse *res);
extern void mtr_usage_me(MtrRequest *req, MtrResponse *res);

#endif /* MORTAR_HTTP_H */
