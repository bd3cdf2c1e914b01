/*
 * document.c
 *		Documents on their way in (see document.h).
 *
 * The text was checked as a whole before (request_json.c), numbers included, so
 * that the server's own parser finds nothing to refuse: it could not say which
 * row of many is at fault.
 *
 * A row has three members that are the server's, id, created_at and updated_at,
 * and they are not part of the document.  A client may not set them.  Where the
 * path names the row, the same id in the body says nothing new and is let pass,
 * since clients that take the key for a column send it along.
 *
 * Nothing is shared; all memory is the caller's context.
 */
#include "mortar.h"

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include "core/uuid7.h"
#include "document.h"
#include "problem.h"
#include "request.h"

/* the longest text of one document; what is stored of it is checked exactly */
#define MAX_DOCUMENT_TEXT MORTAR_MAX_WINDOW

static const char not_stored[] = "A row cannot be stored.";

void
mtr_raise_document(const char *pointer, const char *code, const char *what)
{
	mtr_raise_at(MTR_ERR_INVALID, code, not_stored, pointer, strlen(pointer),
				 what);
}

void
mtr_raise_document_too_large(const char *pointer)
{
	mtr_raise_document(pointer, "document_too_large",
					   psprintf("would be answered with more than %d bytes",
								MORTAR_MAX_DOCUMENT));
}

static bool
key_is(struct mtr_slice key, const char *name)
{
	return key.len == strlen(name) && memcmp(key.p, name, key.len) == 0;
}

/* is the value this id, as a string? */
static bool
is_id(const struct mtr_json_value *value, const pg_uuid_t *own_id)
{
	struct mtr_slice s;
	pg_uuid_t        id;

	return mtr_json_string(value, &mtr_json_palloc, &s) == MTR_JSON_OK &&
		   mtr_uuid_parse(s.p, s.len, id.data) &&
		   memcmp(id.data, own_id->data, UUID_LEN) == 0;
}

/* true when the document has the member "id", which must be own_id then */
static bool
check_members(const struct mtr_json_value *doc, const char *pointer,
			  const pg_uuid_t *own_id)
{
	struct mtr_json_iter  it;
	struct mtr_slice      key;
	struct mtr_json_value value;
	bool                  has_id = false;

	mtr_json_open(&it, doc, &mtr_json_palloc);
	while (mtr_json_next_member(&it, &key, &value))
	{
		if (key_is(key, "id") && own_id != NULL)
		{
			if (!is_id(&value, own_id))
				mtr_raise_member(pointer, key, "id_mismatch", not_stored,
								 "differs from the id in the path");
			has_id = true;
		}
		else if (key_is(key, "id") || key_is(key, "created_at") ||
				 key_is(key, "updated_at"))
			mtr_raise_member(pointer, key, "read_only_member", not_stored,
							 "is set by the server");
	}
	return has_id;
}

Jsonb *
mtr_document_read(const struct mtr_json_value *value, const char *pointer,
				  const pg_uuid_t *own_id)
{
	bool  has_id;
	char *json;
	Datum doc;

	if (value->kind != MTR_JSON_KIND_OBJECT)
		mtr_raise_document(pointer, "validation_failed", "must be an object");
	if (value->raw.len > MAX_DOCUMENT_TEXT)
		mtr_raise_document(
			pointer, "document_too_large",
			psprintf("has more than %d bytes", MAX_DOCUMENT_TEXT));
	has_id = check_members(value, pointer, own_id);

	json = pnstrdup(value->raw.p, value->raw.len);
	doc = DirectFunctionCall1(jsonb_in, CStringGetDatum(json));
	if (has_id)
		doc = DirectFunctionCall2(jsonb_delete, doc, CStringGetTextDatum("id"));
	return DatumGetJsonbP(doc);
}
