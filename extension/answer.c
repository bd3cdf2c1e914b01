/*
 * answer.c
 *		What leaves a call: headers, body and the result row (see answer.h).
 *
 * This runs in every call, so nothing is looked up and little is copied.	The
 * body grows behind room for a varlena header and becomes the bytea in place;
 * the header array is laid out by hand; the row type is built once per session
 * and lives as long as it.
 *
 * All else lives in the memory context of the call.
 */
#include "mortar.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/memutils.h"

#include "answer.h"
#include "write.h"

/* a list of ten small things fits without growing */
#define BODY_START_BYTES 4096

#define MAX_HEADERS ((int) lengthof(((MtrResponse *) NULL)->header))

#define COLUMN_NUMBER(number, name, type, oid) COLUMN_##number,
enum
{
	MORTAR_HTTP_COLUMNS(COLUMN_NUMBER) COLUMNS
};

void
mtr_response_init(MtrResponse *res)
{
	res->body.data = palloc(BODY_START_BYTES);
	res->body.maxlen = BODY_START_BYTES;
	res->body.cursor = 0;
	mtr_response_reset(res);
}

void
mtr_response_reset(MtrResponse *res)
{
	res->status = 0;
	res->nheaders = 0;
	res->body.len = VARHDRSZ;
}

void
mtr_header(MtrResponse *res, const char *name, const char *value)
{
	if (res->nheaders + 2 > MAX_HEADERS)
		elog(ERROR, "too many response headers at \"%s\"", name);
	res->header[res->nheaders++] = name;
	res->header[res->nheaders++] = value;
}

void
mtr_common_headers(MtrResponse *res, bool with_origin)
{
	mtr_header(res, "cache-control", MORTAR_CACHE_CONTROL);
	mtr_header(res, "vary", MORTAR_VARY);
	if (!with_origin)
		return;
	mtr_header(res, "access-control-allow-origin", MORTAR_ALLOW_ORIGIN);
	mtr_header(res, "access-control-expose-headers", MORTAR_EXPOSE_HEADERS);
}

void
mtr_content_range(MtrResponse *res, uint64 n)
{
	char *value;
	char *p;

	if (n == 0)
	{
		mtr_header(res, "content-range", "*/*");
		return;
	}
	value = palloc(MTR_INT_CHARS + sizeof("0-/*"));
	value[0] = '0';
	value[1] = '-';
	p = mtr_format_int(value + 2, (int64) (n - 1));
	memcpy(p, "/*", sizeof("/*"));
	mtr_header(res, "content-range", value);
}

/* a text[] of the headers, laid out as array.h says: no nulls, one dimension */
static Datum
header_array(const MtrResponse *res)
{
	size_t     len[lengthof(res->header)];
	size_t     size = ARR_OVERHEAD_NONULLS(1);
	ArrayType *array;
	char      *p;

	if (res->nheaders == 0)
		return PointerGetDatum(construct_empty_array(TEXTOID));
	for (int i = 0; i < res->nheaders; i++)
	{
		len[i] = strlen(res->header[i]);
		size += INTALIGN(VARHDRSZ + len[i]);
	}
	array = palloc0(size);
	SET_VARSIZE(array, size);
	array->ndim = 1;
	array->dataoffset = 0;
	array->elemtype = TEXTOID;
	ARR_DIMS(array)[0] = res->nheaders;
	ARR_LBOUND(array)[0] = 1;
	p = (char *) array + ARR_OVERHEAD_NONULLS(1);
	for (int i = 0; i < res->nheaders; i++)
	{
		SET_VARSIZE(p, VARHDRSZ + len[i]);
		memcpy(VARDATA(p), res->header[i], len[i]);
		p += INTALIGN(VARHDRSZ + len[i]);
	}
	Assert(p == (char *) array + size);
	return PointerGetDatum(array);
}

/*
 * The result's row type, made once: asking the executor for it would cost a
 * catalog lookup per call, because each execution has an FmgrInfo of its own.
 */
static TupleDesc
row_type(void)
{
	static TupleDesc desc = NULL;
	MemoryContext    caller;
	TupleDesc        d;

	if (desc != NULL)
		return desc;
	caller = MemoryContextSwitchTo(TopMemoryContext);
	d = CreateTemplateTupleDesc(COLUMNS);
#define DEFINE_COLUMN(number, name, type, oid)                                 \
	TupleDescInitEntry(d, COLUMN_##number + 1, #name, oid, -1, 0);
	MORTAR_HTTP_COLUMNS(DEFINE_COLUMN)
#undef DEFINE_COLUMN
	desc = BlessTupleDesc(d);
	MemoryContextSwitchTo(caller);
	return desc;
}

Datum
mtr_answer_row(MtrResponse *res, bool head)
{
	Datum values[COLUMNS] = {0};
	bool  nulls[COLUMNS] = {false};

	Assert(res->status >= 100 && res->status <= 599);

	values[COLUMN_STATUS] = Int16GetDatum((int16) res->status);
	values[COLUMN_HEADERS] = header_array(res);
	if (head || mtr_body_len(res) == 0)
		nulls[COLUMN_BODY] = true;
	else
	{
		SET_VARSIZE(res->body.data, res->body.len);
		values[COLUMN_BODY] = PointerGetDatum(res->body.data);
	}
	nulls[COLUMN_NEXT] = true;
	return HeapTupleGetDatum(heap_form_tuple(row_type(), values, nulls));
}
