/*
 * handle_insert.c
 *		POST /db/rows/{t}: one document, or an array of them, all or nothing.
 *
 * Every document is written once as it would be answered, because that length
 * is what is limited: then each row can be read back, and a list can always
 * show at least one.  The text stays in the body when the client asked for the
 * representation, and is dropped otherwise.
 *
 * Ids are made here: time-ordered, so that rows arrive at the right edge of the
 * index without a sequence.
 *
 * Nothing is shared.  Each row has its memory in a context that is emptied
 * before the next one, since a document takes many times its length while it
 * is being parsed.
 */
#include "mortar.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"

#include "answer.h"
#include "document.h"
#include "handle.h"
#include "problem.h"
#include "request.h"
#include "spi.h"
#include "write.h"

#define MAX_BULK_ROWS 1000

/* no row when the table is absent: check and insert are one step */
static MtrStmt insert_stmt = {
	.sql = "INSERT INTO mortar.doc_rows"
		   " (tenant_id, table_name, row_id, created_at, updated_at, doc)"
		   " SELECT t.tenant_id, t.name, $3, $4, $4, $5"
		   " FROM mortar.doc_tables t"
		   " WHERE t.tenant_id = $1 AND t.name = $2",
	.role = MTR_ROLE_TENANT,
	.by_index = true,
	.nargs = 5,
	.argtypes = {TEXTOID, TEXTOID, UUIDOID, TIMESTAMPTZOID, JSONBOID},
};

/* what all rows of a request have in common */
typedef struct Insert
{
	Datum         tenant;
	Datum         table;
	TimestampTz   now;
	bool          bulk;           /* an array was sent */
	bool          representation; /* the rows' text stays in the body */
	MemoryContext row_cxt;
	uint64        n; /* rows inserted */
	pg_uuid_t     last_id;
} Insert;

/*
 * Writes the row into the body.  With return=representation it stays there, as
 * an element of an array; that array must fit into one response.
 */
static void
put_new_row(Insert *ins, StringInfo body, Jsonb *doc, const char *pointer)
{
	int start = body->len;

	if (ins->representation && ins->n > 0)
		mtr_put(body, ",");
	if (!mtr_put_row(body, &ins->last_id, ins->now, ins->now, doc,
					 MORTAR_MAX_DOCUMENT))
		mtr_raise_document_too_large(pointer);
	if (!ins->representation)
		body->len = start;
	else if (body->len - VARHDRSZ >= MORTAR_MAX_WINDOW)
		mtr_raise_at(MTR_ERR_INVALID, "representation_too_large",
					 "The new rows do not fit into one response: send fewer, "
					 "or leave out Prefer: return=representation.",
					 pointer, strlen(pointer),
					 "the first row that does not fit");
}

static void
insert_row(Insert *ins, StringInfo body, const struct mtr_json_value *value)
{
	char   pointer[32] = "";
	Jsonb *doc;
	Datum  args[5];

	CHECK_FOR_INTERRUPTS();
	MemoryContextReset(ins->row_cxt);
	MemoryContextSwitchTo(ins->row_cxt); /* executing a statement leaves it */
	if (ins->bulk)
		snprintf(pointer, sizeof(pointer), "/" UINT64_FORMAT, ins->n);
	doc = mtr_document_read(value, pointer, NULL);
	mtr_new_id(&ins->last_id);
	put_new_row(ins, body, doc, pointer);

	args[0] = ins->tenant;
	args[1] = ins->table;
	args[2] = UUIDPGetDatum(&ins->last_id);
	args[3] = TimestampTzGetDatum(ins->now);
	args[4] = JsonbPGetDatum(doc);
	mtr_exec(&insert_stmt, args, NULL, MTR_SNAP_WRITE, 0);
	if (SPI_processed == 0)
		mtr_raise_no_table();
	ins->n++;
}

static void
insert_all(Insert *ins, StringInfo body, const struct mtr_json_value *root)
{
	struct mtr_json_iter  it;
	struct mtr_json_value element;

	if (!ins->bulk)
	{
		insert_row(ins, body, root);
		return;
	}
	mtr_json_open(&it, root, NULL);
	while (mtr_json_next_element(&it, &element))
	{
		if (ins->n == MAX_BULK_ROWS)
			mtr_raise_document(
				"", "too_many_rows",
				psprintf("has more than %d rows", MAX_BULK_ROWS));
		insert_row(ins, body, &element);
	}
	if (ins->n == 0)
		mtr_check_table(ins->tenant, ins->table);
}

/* POST /db/rows/{t} */
void
mtr_rows_insert(MtrRequest *req, MtrResponse *res)
{
	struct mtr_json_value root;
	Insert                ins = {0};

	mtr_request_no_query(req);
	mtr_request_json(req, &root);
	ins.tenant = CStringGetTextDatum(req->tenant);
	ins.table = mtr_table_datum(req);
	ins.now = GetCurrentTransactionStartTimestamp();
	ins.bulk = root.kind == MTR_JSON_KIND_ARRAY;
	ins.representation = mtr_request_prefers(req, "return", "representation");

	mtr_table_lock(req, false);
	SPI_connect();
	ins.row_cxt = AllocSetContextCreate(CurrentMemoryContext, "mortar row",
										ALLOCSET_DEFAULT_SIZES);
	if (ins.representation)
		mtr_put(&res->body, "[");
	insert_all(&ins, &res->body, &root);
	if (ins.representation)
		mtr_put(&res->body, "]");
	SPI_finish();

	res->status = 201;
	if (ins.n == 1)
		mtr_header(res, "location",
				   mtr_location(req, "rows", req->arg[0], req->arg_len[0],
								&ins.last_id));
	if (ins.representation)
		mtr_header(res, "preference-applied", "return=representation");
}
