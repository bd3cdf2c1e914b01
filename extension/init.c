/*
 * init.c
 *		The library's entry: an ordered list, and the little that has no other
 *		home (log filter, triggers for foreign writers, the preload check).
 *
 * Not preloaded: the library defines no hooks, and its functions say what to do.
 * mortar.tenant_id() is NULL then, so policies show no rows; and the setting
 * mortar.tenant_id is defined, so that a session cannot make it up.
 */
#include "mortar.h"

#include "commands/trigger.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/numeric.h"
#include "utils/rel.h"

#include "flush.h"
#include "guc.h"
#include "locks.h"
#include "shmem.h"
#include "spi.h"
#include "inval.h"
#include "xact.h"

PG_MODULE_MAGIC;

void _PG_init(void);

PG_FUNCTION_INFO_V1(mtr_check_preload);
PG_FUNCTION_INFO_V1(mtr_note_write);
PG_FUNCTION_INFO_V1(mtr_credits);

static emit_log_hook_type prev_emit_log = NULL;

/*
 * Errors of class MT are answers to clients, not trouble of the server: they
 * stay out of its log unless somebody wants them there.
 */
static bool
is_refusal(int sqlerrcode)
{
#define CODE_TEXT(code, status, name, title) code,
	static const char *const codes[] = {MORTAR_MT_ERRORS(CODE_TEXT)};
#undef CODE_TEXT
	const char *code = unpack_sql_state(sqlerrcode);

	for (int i = 0; i < (int) lengthof(codes); i++)
		if (strcmp(codes[i], code) == 0)
			return true;
	return false;
}

static void
filter_log(ErrorData *edata)
{
	if (!mtr_log_refusals && edata->elevel == ERROR &&
		is_refusal(edata->sqlerrcode))
		edata->output_to_server = false;
	if (prev_emit_log)
		prev_emit_log(edata);
}

void
_PG_init(void)
{
	mtr_guc_init(process_shared_preload_libraries_in_progress);
	if (!process_shared_preload_libraries_in_progress)
		return;

	mtr_shmem_init();
	mtr_xact_init();
	mtr_utility_init();
	mtr_launcher_init();
	prev_emit_log = emit_log_hook;
	emit_log_hook = filter_log;
}

/*
 * Called first by the install script: says how to preload the library, and waits
 * for a DROP EXTENSION that is about to end.
 */
Datum
mtr_check_preload(PG_FUNCTION_ARGS)
{
	mtr_require_preload();
	mtr_lock(MTR_LOCK_EXTENSION, NULL);
	PG_RETURN_VOID();
}

/*
 * Row trigger on tables that shared memory caches.	 A statement that is not
 * Mortar's own (a restore, logical apply, a superuser's hand) makes everything
 * be read again after its commit.
 */
Datum
mtr_note_write(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("must be called as a trigger")));
	if (MtrShared != NULL && !mtr_own_statement() && !mtr_inval_is_dropped())
		mtr_inval_foreign_write(mtr_db());
	if (TRIGGER_FIRED_FOR_STATEMENT(data->tg_event)) /* TRUNCATE */
		return PointerGetDatum(NULL);
	return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(data->tg_event)
							   ? data->tg_newtuple
							   : data->tg_trigtuple);
}

/*
 * mortar.credits(numeric) returns int8
 *
 * Credits as micro-credits, exactly: raises 22003 when it does not fit and
 * 22023 when there are more than six decimals.
 */
Datum
mtr_credits(PG_FUNCTION_ARGS)
{
	Datum credits = PG_GETARG_DATUM(0);
	Datum uc = DirectFunctionCall2(
		numeric_mul, credits,
		NumericGetDatum(int64_to_numeric(INT64CONST(1000000))));
	Datum whole;

	if (numeric_is_nan(DatumGetNumeric(credits)) ||
		numeric_is_inf(DatumGetNumeric(credits)))
		ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
						errmsg("credits out of range")));
	whole = DirectFunctionCall2(numeric_trunc, uc, Int32GetDatum(0));

	if (!DatumGetBool(DirectFunctionCall2(numeric_eq, uc, whole)))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("a credit has at most six decimals")));
	return DirectFunctionCall1(numeric_int8, whole);
}
