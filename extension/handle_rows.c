/*
 * handle_rows.c
 *		/db/rows: the documents of a tenant's tables.
 *
 * All documents of all tenants live in mortar.doc_rows, led by tenant and
 * table.  As in handle_tables.c, statements run as mortar_tenant under
 * row-level security and name the tenant themselves.	Lists are in the order of
 * ids.	 Those that are made here are time-ordered, so that is the order of
 * creation, unless clients choose ids of their own (handle_put.c).  Inserting is
 * in handle_insert.c.
 *
 * Nothing is shared; all memory is the call's.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

#include "answer.h"
#include "core/uuid7.h"
#include "handle.h"
#include "page.h"
#include "problem.h"
#include "request.h"
#include "spi.h"
#include "write.h"

#define BY_ID "id" /* the order of the list */
#define OF_TABLE " WHERE tenant_id = $1 AND table_name = $2"

static MtrStmt list_stmt = {
	.sql = "SELECT row_id, created_at, updated_at, doc FROM "
		   "mortar.doc_rows" OF_TABLE " ORDER BY row_id",
	.role = MTR_ROLE_TENANT,
	.by_index = true,
	.first_rows = true,
	.nargs = 2,
	.argtypes = {TEXTOID, TEXTOID},
};

static MtrStmt list_after_stmt = {
	.sql = "SELECT row_id, created_at, updated_at, doc FROM "
		   "mortar.doc_rows" OF_TABLE " AND row_id > $3 ORDER BY row_id",
	.role = MTR_ROLE_TENANT,
	.by_index = true,
	.first_rows = true,
	.nargs = 3,
	.argtypes = {TEXTOID, TEXTOID, UUIDOID},
};

static MtrStmt get_stmt = {
	.sql = "SELECT row_id, created_at, updated_at, doc FROM "
		   "mortar.doc_rows" OF_TABLE " AND row_id = $3",
	.role = MTR_ROLE_TENANT,
	.by_index = true,
	.nargs = 3,
	.argtypes = {TEXTOID, TEXTOID, UUIDOID},
};

static MtrStmt delete_stmt = {
	.sql = "DELETE FROM mortar.doc_rows" OF_TABLE " AND row_id = $3",
	.role = MTR_ROLE_TENANT,
	.by_index = true,
	.nargs = 3,
	.argtypes = {TEXTOID, TEXTOID, UUIDOID},
};

static void
raise_no_row(void)
{
	mtr_raise(MTR_ERR_NOT_FOUND, NULL, "There is no such row.");
}

/* a result row of list_stmt or get_stmt; false when it is longer than limit */
static bool
put_result(StringInfo body, uint64 row, size_t limit)
{
	TupleDesc   desc = SPI_tuptable->tupdesc;
	HeapTuple   tuple = SPI_tuptable->vals[row];
	bool        isnull;
	pg_uuid_t  *id = DatumGetUUIDP(SPI_getbinval(tuple, desc, 1, &isnull));
	TimestampTz created_at;
	TimestampTz updated_at;
	Jsonb      *doc;

	created_at = DatumGetTimestampTz(SPI_getbinval(tuple, desc, 2, &isnull));
	updated_at = DatumGetTimestampTz(SPI_getbinval(tuple, desc, 3, &isnull));
	doc = DatumGetJsonbP(SPI_getbinval(tuple, desc, 4, &isnull));
	return mtr_put_row(body, id, created_at, updated_at, doc, limit);
}

/*
 * A document that SQL stored past the limit of the HTTP interface.	 It cannot
 * be answered, and leaving it out would be a wrong answer.
 */
static void
raise_too_long(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("a stored document is too long to be answered"),
			 errdetail("A response has at most %d bytes.", MORTAR_MAX_WINDOW)));
}

/*
 * Writes n rows, or until one would pass the window; returns how many it wrote,
 * and tells the page when more follow.
 */
static uint64
put_page(MtrResponse *res, MtrPage *page)
{
	size_t end = VARHDRSZ + MORTAR_MAX_WINDOW - 1; /* 1: the last bracket */
	uint64 n = Min(SPI_processed, (uint64) page->limit);

	mtr_put(&res->body, "[");
	for (uint64 i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (i > 0)
			mtr_put(&res->body, ",");
		if ((size_t) res->body.len < end &&
			put_result(&res->body, i, end - (size_t) res->body.len))
			continue;
		if (i == 0)
			raise_too_long();
		res->body.len--; /* the comma */
		n = i;
	}
	mtr_put(&res->body, "]");
	if (n > 0 && n < SPI_processed)
	{
		bool       isnull;
		pg_uuid_t *id = DatumGetUUIDP(SPI_getbinval(
			SPI_tuptable->vals[n - 1], SPI_tuptable->tupdesc, 1, &isnull));

		mtr_page_more(page, id->data, UUID_LEN);
	}
	return n;
}

/* reads the page's rows, and one more when there is one */
static void
fetch_page(const MtrPage *page, Datum args[3])
{
	pg_uuid_t after;

	if (!page->follows)
	{
		mtr_exec(&list_stmt, args, NULL, MTR_SNAP_READ, mtr_page_fetch(page));
		return;
	}
	if (page->after.key_len != UUID_LEN)
		elog(ERROR, "a cursor of rows holds no row's id");
	memcpy(after.data, page->after.key, UUID_LEN);
	args[2] = UUIDPGetDatum(&after);
	mtr_exec(&list_after_stmt, args, NULL, MTR_SNAP_READ, mtr_page_fetch(page));
}

/* GET /db/rows/{t} */
void
mtr_rows_list(MtrRequest *req, MtrResponse *res)
{
	MtrPage page;
	Datum   args[3];
	uint64  n;

	mtr_page_read(req, BY_ID, &page);
	args[0] = CStringGetTextDatum(req->tenant);
	args[1] = mtr_table_datum(req);
	SPI_connect();
	fetch_page(&page, args);
	n = put_page(res, &page);
	/* even a page of limit 0 reads a row: it tells an empty table from none */
	if (SPI_processed == 0)
		mtr_check_table(args[0], args[1]);
	SPI_finish();

	res->status = 200;
	mtr_page_headers(req, res, &page, n);
}

/* the id of the path; one that is no id names no row */
static Datum
row_id_datum(const MtrRequest *req)
{
	pg_uuid_t id;

	if (!mtr_uuid_parse(req->arg[1], req->arg_len[1], id.data))
		raise_no_row();
	return mtr_uuid_datum(&id);
}

/* runs get_stmt or delete_stmt on the row of the path; within SPI */
static void
exec_on_row(const MtrRequest *req, MtrStmt *stmt, MtrSnap snap)
{
	Datum args[3];

	args[0] = CStringGetTextDatum(req->tenant);
	args[1] = mtr_table_datum(req);
	args[2] = row_id_datum(req);
	mtr_exec(stmt, args, NULL, snap, 0);
	if (SPI_processed == 0)
		raise_no_row();
}

/* GET /db/rows/{t}/{id} */
void
mtr_rows_get(MtrRequest *req, MtrResponse *res)
{
	mtr_request_no_query(req);
	SPI_connect();
	exec_on_row(req, &get_stmt, MTR_SNAP_READ);
	if (!put_result(&res->body, 0, MORTAR_MAX_WINDOW))
		raise_too_long();
	SPI_finish();
	res->status = 200;
}

/* DELETE /db/rows/{t}/{id} */
void
mtr_rows_delete(MtrRequest *req, MtrResponse *res)
{
	mtr_request_no_query(req);
	SPI_connect();
	exec_on_row(req, &delete_stmt, MTR_SNAP_WRITE);
	SPI_finish();
	res->status = 204;
}
