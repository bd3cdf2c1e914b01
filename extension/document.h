/*
 * document.h
 *		Documents on their way in: what POST and PUT have in common.
 */
#ifndef MORTAR_DOCUMENT_H
#define MORTAR_DOCUMENT_H

#include "mortar.h"

#include "utils/jsonb.h"

#include "core/json.h"

/* raises MT422 about a document or a part of it; pointer is a C string */
extern void mtr_raise_document(const char *pointer, const char *code,
							   const char *what) pg_attribute_noreturn();

/* raises MT422: the document at pointer would be answered with too many bytes */
extern void
mtr_raise_document_too_large(const char *pointer) pg_attribute_noreturn();

/*
 * The document as it is stored, in the current memory context.	 pointer is
 * where it stands in the request body.	 Raises MT422 when it is no object, has
 * more text than a response could hold, or has one of the members that are the
 * server's.  With own_id the member "id" may be there when it is that id; it is
 * not stored.
 */
extern Jsonb *mtr_document_read(const struct mtr_json_value *value,
								const char *pointer, const pg_uuid_t *own_id);

#endif /* MORTAR_DOCUMENT_H */
