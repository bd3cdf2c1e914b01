/*
 * handle_tables.c
 *		/db/tables: a tenant's document tables.
 *
 * A document table is a row in mortar.doc_tables, not a table of PostgreSQL:
 * making one is as cheap as any insert, and ten thousand of them weigh nothing
 * in the catalogs.
 *
 * Statements run as mortar_tenant under row-level security.  They also name
 * the tenant themselves, as a second fence.  The lists leave that out: comparing
 * the policy's tenant with theirs costs a node of the plan in each call, and a
 * policy alone is an index condition already.  Their second fence is each row's
 * tenant, which is looked at when the row is written.
 *
 * Nothing is shared; all memory is the call's.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"

#include "answer.h"
#include "core/json.h"
#include "core/uri.h"
#include "core/uuid7.h"
#include "handle.h"
#include "locks.h"
#include "page.h"
#include "problem.h"
#include "request.h"
#include "spi.h"
#include "write.h"

#define MAX_NAME_BYTES 63
#define BY_NAME "name" /* the order of the list */

/* all columns of the table in its order, so that the scan need not make a row */
static MtrStmt list_stmt = {
	.sql = "SELECT tenant_id, name, created_at FROM mortar.doc_tables"
		   " ORDER BY name",
	.role = MTR_ROLE_TENANT,
	.by_index = true,
	.first_rows = true,
};

static MtrStmt list_after_stmt = {
	.sql = "SELECT tenant_id, name, created_at FROM mortar.doc_tables"
		   " WHERE name > $1 ORDER BY name",
	.role = MTR_ROLE_TENANT,
	.by_index = true,
	.first_rows = true,
	.nargs = 1,
	.argtypes = {TEXTOID},
};

static MtrStmt get_stmt = {
	.sql = "SELECT name, created_at FROM mortar.doc_tables"
		   " WHERE tenant_id = $1 AND name = $2",
	.role = MTR_ROLE_TENANT,
	.by_index = true,
	.nargs = 2,
	.argtypes = {TEXTOID, TEXTOID},
};

static MtrStmt exists_stmt = {
	.sql = "SELECT 1 FROM mortar.doc_tables"
		   " WHERE tenant_id = $1 AND name = $2",
	.role = MTR_ROLE_TENANT,
	.by_index = true,
	.nargs = 2,
	.argtypes = {TEXTOID, TEXTOID},
};

static MtrStmt insert_stmt = {
	.sql = "INSERT INTO mortar.doc_tables (tenant_id, name) VALUES ($1, $2)"
		   " ON CONFLICT DO NOTHING RETURNING name, created_at",
	.role = MTR_ROLE_TENANT,
	.by_index = true,
	.nargs = 2,
	.argtypes = {TEXTOID, TEXTOID},
};

static MtrStmt delete_rows_stmt = {
	.sql = "DELETE FROM mortar.doc_rows"
		   " WHERE tenant_id = $1 AND table_name = $2",
	.role = MTR_ROLE_TENANT,
	.by_index = true,
	.nargs = 2,
	.argtypes = {TEXTOID, TEXTOID},
};

static MtrStmt delete_stmt = {
	.sql = "DELETE FROM mortar.doc_tables"
		   " WHERE tenant_id = $1 AND name = $2",
	.role = MTR_ROLE_TENANT,
	.by_index = true,
	.nargs = 2,
	.argtypes = {TEXTOID, TEXTOID},
};

Datum
mtr_table_datum(const MtrRequest *req)
{
	return PointerGetDatum(
		cstring_to_text_with_len(req->arg[0], (int) req->arg_len[0]));
}

void
mtr_table_lock(const MtrRequest *req, bool exclusive)
{
	mtr_lock_part(MTR_LOCK_DOC_TABLE, req->tenant, req->arg[0], req->arg_len[0],
				  exclusive ? ExclusiveLock : ShareLock);
}

void
mtr_check_table(Datum tenant, Datum table)
{
	Datum args[2] = {tenant, table};

	mtr_exec(&exists_stmt, args, NULL, MTR_SNAP_READ, 0);
	if (SPI_processed == 0)
		mtr_raise_no_table();
}

void
mtr_raise_no_table(void)
{
	mtr_raise(MTR_ERR_NOT_FOUND, NULL, "There is no such table.");
}

#define BEFORE_NAME "{\"name\":"
#define AFTER_NAME ",\"kind\":\"document\",\"created_at\":\""
#define AFTER_TIME "\",\"columns\":[]}"

/* a table as clients see it */
static void
put_table(StringInfo body, const text *name, TimestampTz created_at)
{
	size_t len = VARSIZE_ANY_EXHDR(name);
	char  *p;

	enlargeStringInfo(body, (int) mtr_json_escape_max(len) + MTR_TIME_CHARS +
								sizeof(BEFORE_NAME AFTER_NAME AFTER_TIME));
	p = mtr_word(body->data + body->len, BEFORE_NAME);
	p += mtr_json_escape(VARDATA_ANY(name), len, p);
	p = mtr_word(p, AFTER_NAME);
	p = mtr_format_time(p, created_at);
	p = mtr_word(p, AFTER_TIME);
	body->len = (int) (p - body->data);
}

/* the one that a statement has given, as (name, created_at) */
static void
put_first(StringInfo body)
{
	bool isnull;

	put_table(body, DatumGetTextPP(mtr_first(1, &isnull)),
			  DatumGetTimestampTz(mtr_first(2, &isnull)));
}

/* the longest table in a list; all of a page fit into one window */
StaticAssertDecl(MTR_LIMIT_MAX *(6 * MAX_NAME_BYTES + 128) < MORTAR_MAX_WINDOW,
				 "a page of tables must fit into a response");

StaticAssertDecl(MAX_NAME_BYTES <= MTR_CURSOR_KEY_MAX,
				 "a cursor must hold the name of a table");

/* a page that is being written */
typedef struct PageOut
{
	StringInfo  body;
	MtrPage    *page;
	const char *tenant;
	int64       n;
	text       *last; /* the name that the page ends with */
} PageOut;

static void
check_tenant(const text *of_row, const char *tenant)
{
	size_t len = VARSIZE_ANY_EXHDR(of_row);

	if (len != strlen(tenant) || memcmp(VARDATA_ANY(of_row), tenant, len) != 0)
		elog(ERROR, "a list of tables holds another tenant's");
}

/* a row of the list; the one behind the page says that there is one */
static void
put_row(TupleTableSlot *slot, void *arg)
{
	PageOut    *out = arg;
	const text *name = DatumGetTextPP(slot->tts_values[1]);

	check_tenant(DatumGetTextPP(slot->tts_values[0]), out->tenant);
	if (out->n == out->page->limit)
	{
		if (out->n > 0)
			mtr_page_more(out->page, VARDATA_ANY(out->last),
						  VARSIZE_ANY_EXHDR(out->last));
		return;
	}
	if (out->n++ > 0)
		mtr_put(out->body, ",");
	put_table(out->body, name, DatumGetTimestampTz(slot->tts_values[2]));
	if (out->n == out->page->limit)
		memcpy(out->last, name, VARSIZE_ANY(name));
}

/* writes the page's tables, and looks whether more follow; returns how many it wrote */
static uint64
put_page(const MtrRequest *req, StringInfo body, MtrPage *page)
{
	Datum   after[1];
	PageOut out = {.body = body, .page = page, .tenant = req->tenant};

	out.last = palloc(VARHDRSZ + MAX_NAME_BYTES);

	if (page->follows)
		after[0] = PointerGetDatum(cstring_to_text_with_len(
			(const char *) page->after.key, (int) page->after.key_len));
	mtr_put(body, "[");
	mtr_exec_each(page->follows ? &list_after_stmt : &list_stmt, after,
				  mtr_page_fetch(page), put_row, &out);
	mtr_put(body, "]");
	return (uint64) out.n;
}

/* GET /db/tables */
void
mtr_tables_list(MtrRequest *req, MtrResponse *res)
{
	MtrPage page;
	uint64  n;

	mtr_page_read(req, BY_NAME, &page);
	SPI_connect();
	n = put_page(req, &res->body, &page);
	SPI_finish();

	res->status = 200;
	mtr_page_headers(req, res, &page, n);
}

/* GET /db/tables/{t} */
void
mtr_tables_get(MtrRequest *req, MtrResponse *res)
{
	Datum args[2];

	mtr_request_no_query(req);
	args[0] = CStringGetTextDatum(req->tenant);
	args[1] = mtr_table_datum(req);
	SPI_connect();
	mtr_exec(&get_stmt, args, NULL, MTR_SNAP_READ, 0);
	if (SPI_processed == 0)
		mtr_raise_no_table();
	put_first(&res->body);
	SPI_finish();
	res->status = 200;
}

static void
raise_name(const char *code, const char *what)
{
	mtr_raise_at(MTR_ERR_INVALID, code, "The table cannot be created.", "/name",
				 strlen("/name"), what);
}

/*
 * A name may be any text that a path segment can carry, so that the Location of
 * a table always leads back to it.	 "rpc" is kept for functions.
 */
static void
check_name(struct mtr_slice name)
{
	if (name.len == 0 || name.len > MAX_NAME_BYTES)
		raise_name("invalid_name", "must have 1 to 63 bytes");
	if (memchr(name.p, '/', name.len) != NULL || mtr_slice_is(name, ".") ||
		mtr_slice_is(name, ".."))
		raise_name("invalid_name",
				   "cannot be \".\" or \"..\" or contain \"/\"");
	if (name.len == 3 && memcmp(name.p, "rpc", 3) == 0)
		raise_name("reserved_name", "is reserved");
}

/* the only member of the body; unknown ones are refused, not ignored */
static struct mtr_slice
name_from_body(const struct mtr_json_value *root)
{
	struct mtr_slice      name = {NULL, 0};
	struct mtr_slice      key;
	struct mtr_json_value value;
	struct mtr_json_iter  it;

	if (root->kind != MTR_JSON_KIND_OBJECT)
		mtr_raise_at(MTR_ERR_INVALID, "validation_failed",
					 "The table cannot be created.", "", 0,
					 "must be an object");
	mtr_json_open(&it, root, &mtr_json_palloc);
	while (mtr_json_next_member(&it, &key, &value))
	{
		if (key.len != 4 || memcmp(key.p, "name", 4) != 0)
			mtr_raise_member("", key, "unknown_member",
							 "The table cannot be created.",
							 "is not supported by this version");
		if (value.kind != MTR_JSON_KIND_STRING ||
			mtr_json_string(&value, &mtr_json_palloc, &name) != MTR_JSON_OK)
			raise_name("validation_failed", "must be a string");
	}
	if (name.p == NULL)
		raise_name("validation_failed", "is missing");
	return name;
}

const char *
mtr_location(const MtrRequest *req, const char *kind, const char *table,
			 size_t table_len, const pg_uuid_t *id)
{
	StringInfoData b;

	initStringInfo(&b);
	appendStringInfo(&b, "/v1/%s/db/%s/", req->tenant, kind);
	enlargeStringInfo(&b, (int) mtr_pct_encode_len(table, table_len) +
							  MTR_UUID_CHARS + 1);
	b.len += (int) mtr_pct_encode(table, table_len, b.data + b.len);
	if (id != NULL)
	{
		b.data[b.len++] = '/';
		mtr_uuid_format(id->data, b.data + b.len);
		b.len += MTR_UUID_CHARS;
	}
	b.data[b.len] = '\0';
	return b.data;
}

/* POST /db/tables */
void
mtr_tables_create(MtrRequest *req, MtrResponse *res)
{
	struct mtr_json_value root;
	struct mtr_slice      name;
	bool                  representation;
	Datum                 args[2];

	mtr_request_no_query(req);
	mtr_request_json(req, &root);
	name = name_from_body(&root);
	check_name(name);
	representation = mtr_request_prefers(req, "return", "representation");

	args[0] = CStringGetTextDatum(req->tenant);
	args[1] = PointerGetDatum(cstring_to_text_with_len(name.p, (int) name.len));
	SPI_connect();
	mtr_exec(&insert_stmt, args, NULL, MTR_SNAP_WRITE, 0);
	if (SPI_processed == 0)
		mtr_raise(MTR_ERR_CONFLICT, "table_exists",
				  "A table of this name exists already.");
	if (representation)
		put_first(&res->body);
	SPI_finish();

	res->status = 201;
	mtr_header(res, "location",
			   mtr_location(req, "tables", name.p, name.len, NULL));
	if (representation)
		mtr_header(res, "preference-applied", "return=representation");
}

/* DELETE /db/tables/{t}; the rows go with it */
void
mtr_tables_drop(MtrRequest *req, MtrResponse *res)
{
	Datum args[2];

	mtr_request_no_query(req);
	args[0] = CStringGetTextDatum(req->tenant);
	args[1] = mtr_table_datum(req);
	mtr_table_lock(req, true);
	SPI_connect();
	mtr_exec(&delete_rows_stmt, args, NULL, MTR_SNAP_WRITE, 0);
	mtr_exec(&delete_stmt, args, NULL, MTR_SNAP_WRITE, 0);
	if (SPI_processed == 0)
		mtr_raise_no_table();
	SPI_finish();
	res->status = 204;
}
