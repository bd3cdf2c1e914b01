/*
 * late_error.c
 *		Raises an error when a transaction commits, after its rows have left.
 *
 * For tests only.  In the extended protocol a statement's rows are sent when it
 * ends, and the transaction commits at the Sync that follows.  What fails in
 * between (a deferred constraint, a full disk, another extension's hook) gives a
 * client the row first and the error after it.  This library makes that happen
 * on demand:
 *
 *	 CREATE FUNCTION late_error(sqlstate text, message text, detail text)
 *	 RETURNS void LANGUAGE c STRICT AS '.../late_error';
 *
 * arms the running transaction, and XACT_EVENT_PRE_COMMIT raises.  An empty
 * detail is none.  The texts are cut to their buffers.
 *
 * Nothing is shared; the armed error is the backend's, and any end of the
 * transaction disarms it.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(late_error);

void _PG_init(void);

static struct
{
	bool armed;
	int  sqlstate;
	char message[512];
	char detail[512];
} late;

static void
raise_when_armed(XactEvent event, void *arg)
{
	bool armed = late.armed;

	late.armed = false;
	if (event != XACT_EVENT_PRE_COMMIT || !armed)
		return;
	ereport(
		ERROR,
		(errcode(late.sqlstate), errmsg_internal("%s", late.message),
		 late.detail[0] != '\0' ? errdetail_internal("%s", late.detail) : 0));
}

void
_PG_init(void)
{
	RegisterXactCallback(raise_when_armed, NULL);
}

Datum
late_error(PG_FUNCTION_ARGS)
{
	char *state = text_to_cstring(PG_GETARG_TEXT_PP(0));

	if (strlen(state) != 5)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("an SQLSTATE has five characters")));
	late.sqlstate =
		MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4]);
	text_to_cstring_buffer(PG_GETARG_TEXT_PP(1), late.message,
						   sizeof(late.message));
	text_to_cstring_buffer(PG_GETARG_TEXT_PP(2), late.detail,
						   sizeof(late.detail));
	late.armed = true;
	PG_RETURN_VOID();
}
