/*
 * status.c
 *		The status tables, expanded from the contract.
 *
 * The tables are constant and tiny, so a linear search is the whole design.
 */
#include "status.h"

#include <stddef.h>
#include <string.h>

#include "contract.h"

typedef struct StateRow
{
	const char *prefix;
	int         status;
	const char *code;
} StateRow;

#define MT_ROW(state, status, code, title) {state, status, code},
#define MAP_ROW(prefix, status, code) {prefix, status, code},

static const StateRow mt_rows[] = {MORTAR_MT_ERRORS(MT_ROW)};
static const StateRow map_rows[] = {MORTAR_SQLSTATE_MAP(MAP_ROW)};

static const StateRow *
find_row(const StateRow *rows, size_t count, const char *sqlstate)
{
	for (size_t i = 0; i < count; i++)
		if (strncmp(sqlstate, rows[i].prefix, strlen(rows[i].prefix)) == 0)
			return &rows[i];
	return NULL;
}

StatusMapping
status_from_sqlstate(const char *sqlstate, bool had_body)
{
	StatusMapping   mapping = {500, "internal_error", false, false};
	const StateRow *row;

	if (sqlstate == NULL)
		return mapping;
	row = find_row(mt_rows, sizeof(mt_rows) / sizeof(mt_rows[0]), sqlstate);
	mapping.is_public = row != NULL;
	if (row == NULL)
		row = find_row(map_rows, sizeof(map_rows) / sizeof(map_rows[0]),
					   sqlstate);
	if (row != NULL)
	{
		mapping.status = row->status;
		mapping.code = row->code;
	}
	else if (strncmp(sqlstate, MORTAR_SQLSTATE_DATA_CLASS,
					 strlen(MORTAR_SQLSTATE_DATA_CLASS)) == 0)
	{
		mapping.status = had_body ? 422 : 400;
		mapping.code = had_body ? "validation_failed" : "bad_request";
	}
	mapping.is_retry =
		strcmp(sqlstate, "40001") == 0 || strcmp(sqlstate, "40P01") == 0;
	return mapping;
}

/*
 * The statement calls one function and does nothing else.  So an error with a
 * context comes from inside that function, and one with a position in the text
 * from before it.  What the executor finds on its way into the function has
 * neither; it is known by the place in the server's source that raises it.
 */
bool
status_is_statement_stale(const ServerError *error)
{
	static const struct
	{
		const char *state;
		const char *function;
	} rows[] = {
		{"26000", "FetchPreparedStatement"}, /* deallocated */
		{"0A000", "RevalidateCachedQuery"},  /* other columns */
		{"42804", "tupledesc_match"},        /* the same, planned already */
		{"42501", "aclcheck_error"},         /* EXECUTE was revoked */
		{"58P01", "internal_load_library"},  /* the library is gone, */
		{"42883", "load_external_function"}, /* or is another one */
	};

	if (error->state == NULL || error->context != NULL)
		return false;
	if (error->position != NULL)
		return strncmp(error->state, "42", 2) == 0 ||
			   strncmp(error->state, "3F", 2) == 0;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (error->function != NULL &&
			strcmp(error->state, rows[i].state) == 0 &&
			strcmp(error->function, rows[i].function) == 0)
			return true;
	return false;
}

const char *
status_title(int status)
{
	switch (status)
	{
#define TITLE_CASE(number, title)                                              \
	case number:                                                               \
		return title;
		MORTAR_STATUS_TITLES(TITLE_CASE)
		default:
			return NULL;
	}
}

const char *
status_reason(int status)
{
	const char *title = status_title(status);

	if (title != NULL)
		return title;
	switch (status)
	{
		case 200:
			return "OK";
		case 201:
			return "Created";
		case 202:
			return "Accepted";
		case 204:
			return "No Content";
		case 206:
			return "Partial Content";
		case 304:
			return "Not Modified";
		default:
			return status < 400 ? "OK" : "Error";
	}
}
