/*
 * handle_put.c
 *		PUT /db/rows/{t}/{id}: replace a row, or create it under that id.
 *
 * One statement does both, so two clients that put the same new row at once get
 * one row, one 201 and one 200.  The whole document is replaced; created_at
 * stays, and updated_at always moves on, also when the clock stands still or
 * was set back: whoever compares it sees every change.
 *
 * The id may be any UUID.	Lists are in the order of ids, so a row whose id the
 * client chose stands where that id belongs.
 *
 * Nothing is shared; all memory is the call's.
 */
#include "mortar.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"

#include "answer.h"
#include "core/uuid7.h"
#include "document.h"
#include "handle.h"
#include "problem.h"
#include "request.h"
#include "spi.h"
#include "write.h"

/*
 * No row when the table is absent.	 A row that ON CONFLICT replaced was locked
 * for it, and its new version says so in xmax; a new row has none.
 */
static MtrStmt put_stmt = {
	.sql = "INSERT INTO mortar.doc_rows AS r"
		   " (tenant_id, table_name, row_id, created_at, updated_at, doc)"
		   " SELECT t.tenant_id, t.name, $3, $4, $4, $5"
		   " FROM mortar.doc_tables t"
		   " WHERE t.tenant_id = $1 AND t.name = $2"
		   " ON CONFLICT (tenant_id, table_name, row_id) DO UPDATE SET"
		   " doc = EXCLUDED.doc, updated_at = greatest(EXCLUDED.updated_at,"
		   " r.updated_at + '1 microsecond'::pg_catalog.interval)"
		   " RETURNING created_at, updated_at, r.xmax = 0",
	.role = MTR_ROLE_TENANT,
	.by_index = true,
	.nargs = 5,
	.argtypes = {TEXTOID, TEXTOID, UUIDOID, TIMESTAMPTZOID, JSONBOID},
};

static void
row_id(const MtrRequest *req, pg_uuid_t *id)
{
	if (!mtr_uuid_parse(req->arg[1], req->arg_len[1], id->data))
		mtr_raise(MTR_ERR_INVALID, "invalid_id",
				  "The id of a row must be a UUID, as "
				  "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx.");
}

static TimestampTz
time_column(int col)
{
	bool isnull;

	return DatumGetTimestampTz(mtr_first(col, &isnull));
}

/* writes the row; true when it is new */
static bool
put_row(const MtrRequest *req, const pg_uuid_t *id, Jsonb *doc, StringInfo body)
{
	Datum args[5];
	bool  isnull;

	args[0] = CStringGetTextDatum(req->tenant);
	args[1] = mtr_table_datum(req);
	args[2] = UUIDPGetDatum(id);
	args[3] = TimestampTzGetDatum(GetCurrentTransactionStartTimestamp());
	args[4] = JsonbPGetDatum(doc);
	mtr_exec(&put_stmt, args, NULL, MTR_SNAP_WRITE, 0);
	if (SPI_processed == 0)
		mtr_raise_no_table();
	/* the limit is on what a GET of this row answers, with these very times */
	if (!mtr_put_row(body, id, time_column(1), time_column(2), doc,
					 MORTAR_MAX_DOCUMENT))
		mtr_raise_document_too_large("");
	return DatumGetBool(mtr_first(3, &isnull));
}

/* PUT /db/rows/{t}/{id} */
void
mtr_rows_put(MtrRequest *req, MtrResponse *res)
{
	struct mtr_json_value root;
	pg_uuid_t             id;
	Jsonb                *doc;
	bool                  created;

	mtr_request_no_query(req);
	row_id(req, &id);
	mtr_request_json(req, &root);
	doc = mtr_document_read(&root, "", &id);

	mtr_table_lock(req, false);
	SPI_connect();
	created = put_row(req, &id, doc, &res->body);
	SPI_finish();

	res->status = created ? 201 : 200;
	if (created)
		mtr_header(
			res, "location",
			mtr_location(req, "rows", req->arg[0], req->arg_len[0], &id));
	if (mtr_request_prefers(req, "return", "representation"))
		mtr_header(res, "preference-applied", "return=representation");
	else
		res->body.len = VARHDRSZ;
}
