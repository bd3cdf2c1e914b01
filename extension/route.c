/*
 * route.c
 *		The routes: which handler answers which path, and under which rules.
 *
 * One line per route, in code: routing reads no table, and a handler and its
 * route can never disagree in version.	 mortar.routes shows the table to people.
 * A path is split before it is decoded, so an encoded slash or dot can never
 * change which route it names.
 *
 * Constant after load; nothing to lock.
 */
#include "mortar.h"

#include "funcapi.h"
#include "port/pg_bitutils.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "core/uri.h"
#include "http.h"

/* X(number, method, path, scope, gated, writes, handler), see MtrRoute */
#define ROUTES(X)                                                              \
	X(1, "GET", "/db/tables", TABLES_READ, true, false, tables_list)           \
	X(2, "POST", "/db/tables", TABLES_WRITE, true, true, tables_create)        \
	X(3, "GET", "/db/tables/{t}", TABLES_READ, true, false, tables_get)        \
	X(4, "DELETE", "/db/tables/{t}", TABLES_WRITE, true, true, tables_drop)    \
	X(5, "GET", "/db/rows/{t}", ROWS_READ, true, false, rows_list)             \
	X(6, "POST", "/db/rows/{t}", ROWS_WRITE, true, true, rows_insert)          \
	X(7, "GET", "/db/rows/{t}/{id}", ROWS_READ, true, false, rows_get)         \
	X(8, "DELETE", "/db/rows/{t}/{id}", ROWS_WRITE, true, true, rows_delete)   \
	X(9, "GET", "/usage/me", USAGE, false, false, usage_me)                    \
	X(10, "PUT", "/db/rows/{t}/{id}", ROWS_WRITE, true, true, rows_put)

#define AS_ROUTE(number, method, path, scope, gated, writes, handler)          \
	{number, method, path, MTR_SCOPE_##scope, gated, writes, mtr_##handler},
static const MtrRoute routes[] = {ROUTES(AS_ROUTE)};

PG_FUNCTION_INFO_V1(mtr_route_list);

const char *
mtr_route_template(int16 id)
{
	switch (id)
	{
		case 0:
			return "";
#define AS_CASE(number, method, path, scope, gated, writes, handler)           \
	case number:                                                               \
		return method " " path;
			ROUTES(AS_CASE)
#undef AS_CASE
	}
	return "?";
}

const MtrRoute *
mtr_route_named(const char *template)
{
	for (size_t i = 0; i < lengthof(routes); i++)
		if (strcmp(mtr_route_template(routes[i].id), template) == 0)
			return &routes[i];
	return NULL;
}

/* does the path have the route's form?  arg gets the raw path arguments */
static bool
path_matches(const char *form, const struct mtr_slice *seg, int nseg,
			 struct mtr_slice arg[MTR_MAX_PATH_ARGS])
{
	int nargs = 0;

	memset(arg, 0, sizeof(arg[0]) * MTR_MAX_PATH_ARGS);
	for (int i = 0; i < nseg; i++)
	{
		size_t len;

		if (*form++ != '/')
			return false;
		len = strcspn(form, "/");
		if (*form == '{')
		{
			Assert(nargs < MTR_MAX_PATH_ARGS);
			arg[nargs++] = seg[i];
		}
		else if (len != seg[i].len || memcmp(form, seg[i].p, len) != 0)
			return false;
		form += len;
	}
	return *form == '\0';
}

static bool
method_is(struct mtr_slice method, const char *name)
{
	return method.len == strlen(name) &&
		   memcmp(method.p, name, method.len) == 0;
}

/* "GET, HEAD, POST, OPTIONS": what the paths of this form answer */
static const char *
allowed_methods(const char *form)
{
	StringInfoData b;

	initStringInfo(&b);
	for (size_t i = 0; i < lengthof(routes); i++)
	{
		if (strcmp(routes[i].path, form) != 0)
			continue;
		appendStringInfo(&b, "%s, ", routes[i].method);
		if (strcmp(routes[i].method, "GET") == 0)
			appendStringInfoString(&b, "HEAD, ");
	}
	appendStringInfoString(&b, "OPTIONS");
	return b.data;
}

static bool
decode_args(MtrRequest *req, const struct mtr_slice arg[MTR_MAX_PATH_ARGS])
{
	for (int i = 0; i < MTR_MAX_PATH_ARGS && arg[i].p != NULL; i++)
	{
		ssize_t len;

		req->arg[i] = palloc(arg[i].len + 1);
		len = mtr_segment_decode(arg[i].p, arg[i].len, req->arg[i]);
		if (len < 0)
			return false;
		req->arg[i][len] = '\0';
		req->arg_len[i] = (size_t) len;
	}
	return true;
}

int
mtr_route_find(struct mtr_slice path, MtrRequest *req, const char **allow)
{
	struct mtr_slice seg[MTR_MAX_SEGMENTS];
	struct mtr_slice arg[MTR_MAX_PATH_ARGS];
	const char      *form = NULL;
	int nseg = mtr_path_split(path.p, path.len, seg, MTR_MAX_SEGMENTS);

	req->route = NULL;
	if (nseg <= 0)
		return 404;
	for (size_t i = 0; i < lengthof(routes) && req->route == NULL; i++)
	{
		if (!path_matches(routes[i].path, seg, nseg, arg))
			continue;
		form = routes[i].path;
		if (method_is(req->method, req->head ? "HEAD" : routes[i].method) &&
			(!req->head || strcmp(routes[i].method, "GET") == 0))
			req->route = &routes[i];
	}
	if (form == NULL)
		return 404;
	if (req->route == NULL)
	{
		*allow = allowed_methods(form);
		return method_is(req->method, "OPTIONS") ? 0 : 405;
	}
	return decode_args(req, arg) ? 0 : 400;
}

/*
 * mortar.route_list() returns setof (route, method, path, scope, gated,
 * writes)
 *
 * Behind the view mortar.routes.
 */
Datum
mtr_route_list(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (size_t i = 0; i < lengthof(routes); i++)
	{
		const MtrRoute *r = &routes[i];
		int             bit = pg_rightmost_one_pos32(r->scope);
		bool            nulls[6] = {false};
		Datum           values[6];

		values[0] = Int16GetDatum(r->id);
		values[1] = CStringGetTextDatum(r->method);
		values[2] = CStringGetTextDatum(r->path);
		values[3] = CStringGetTextDatum(mtr_scope_name(bit));
		values[4] = BoolGetDatum(r->gated);
		values[5] = BoolGetDatum(r->writes);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
