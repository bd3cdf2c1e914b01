/*
 * hello.c
 *		mortar.gateway_hello: the first call on each of a gateway's connections.
 *
 * It compares the contract, tells settings, and puts the session into the state
 * in which mortar.http is to run.	The gateway's role may not set all of that
 * itself, and should not have to know it.
 *
 * Nothing is shared.  The settings are the session's: they last as long as it,
 * unless this transaction aborts.
 */
#include "mortar.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "guc.h"
#include "spi.h"

/* the longest version text of a gateway that is repeated to it */
#define MAX_VERSION_CHARS 40

PG_FUNCTION_INFO_V1(mtr_gateway_hello);

/*
 * What every call relies on, whatever the role's or database's defaults are.
 * Values that come from Mortar's own settings are set beside it.
 */
static const char *const session_settings[][2] = {
	/* credentials travel as parameters */
	{"log_parameter_max_length", "0"},
	{"log_parameter_max_length_on_error", "0"},
	/* one plan per statement and session; a custom plan costs a planning */
	{"plan_cache_mode", "force_generic_plan"},
	/* compiling takes longer than any of these statements */
	{"jit", "off"},
	/* with off, tables under policies raise errors instead of filtering */
	{"row_security", "on"},
	{"default_transaction_isolation", "read committed"},
	{"default_transaction_deferrable", "off"},
	/* what a product's function tells its author is not for the gateway's log */
	{"client_min_messages", "warning"},
	/* a call is bounded as a whole; waiting for a lock is part of it */
	{"lock_timeout", "0"},
	/* the gateway keeps idle connections, but never an open transaction */
	{"idle_session_timeout", "0"},
	{"idle_in_transaction_session_timeout", "10s"},
	/* what Mortar's own statements need; set here, it costs no call anything */
	{"search_path", MTR_SAFE_PATH},
	/* functions of the product see one world, whoever set up the server */
	{"TimeZone", "UTC"},
	{"DateStyle", "ISO, YMD"},
	{"IntervalStyle", "iso_8601"},
	{"extra_float_digits", "1"},
};

static void
set_session(const char *name, const char *value)
{
	SetConfigOption(name, value, PGC_SUSET, PGC_S_SESSION);
}

static void
prepare_session(void)
{
	char timeout[32];

	for (size_t i = 0; i < lengthof(session_settings); i++)
		set_session(session_settings[i][0], session_settings[i][1]);
	snprintf(timeout, sizeof(timeout), "%dms", mtr_tenant_timeout_ms);
	set_session("statement_timeout", timeout);
	if (application_name == NULL || application_name[0] == '\0')
		set_session("application_name", "mortar-gateway");
}

/* one sentence, or NULL when gateway and extension fit together */
static const char *
refusal(int contract, const char *version)
{
	if (GetDatabaseEncoding() != PG_UTF8)
		return psprintf("Mortar needs a database with encoding UTF8, and this "
						"one has %s.",
						GetDatabaseEncodingName());
	if (contract == MORTAR_CONTRACT)
		return NULL;
	return psprintf("mortar-gateway %s speaks contract %d and the extension "
					"%s speaks contract %d: upgrade %s.",
					version, contract, MORTAR_VERSION, MORTAR_CONTRACT,
					contract < MORTAR_CONTRACT ? "mortar-gateway"
											   : "the extension mortar");
}

static Datum
settings(void)
{
	Datum       elem[6];
	const char *server = GetConfigOption("server_version", false, false);
	const char *database = get_database_name(MyDatabaseId);

	elem[0] = CStringGetTextDatum(MORTAR_SETTING_VERSION);
	elem[1] = CStringGetTextDatum(MORTAR_VERSION);
	elem[2] = CStringGetTextDatum(MORTAR_SETTING_SERVER);
	elem[3] = CStringGetTextDatum(server);
	elem[4] = CStringGetTextDatum(MORTAR_SETTING_DATABASE);
	elem[5] = CStringGetTextDatum(database != NULL ? database : "");
	return PointerGetDatum(construct_array(elem, lengthof(elem), TEXTOID, -1,
										   false, TYPALIGN_INT));
}

/*
 * mortar.gateway_hello(contract int4, version text)
 *	returns (refusal text, settings text[])
 */
Datum
mtr_gateway_hello(PG_FUNCTION_ARGS)
{
	int         contract = PG_ARGISNULL(0) ? 0 : PG_GETARG_INT32(0);
	const char *version = "of unknown version";
	const char *no;
	TupleDesc   desc;
	Datum       values[2] = {0};
	bool        nulls[2] = {false};

	mtr_require_preload();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "mortar.gateway_hello must return a row");
	if (!PG_ARGISNULL(1))
	{
		text *t = PG_GETARG_TEXT_PP(1);

		version = pnstrdup(VARDATA_ANY(t),
						   pg_mbcliplen(VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t),
										MAX_VERSION_CHARS));
	}

	no = refusal(contract, version);
	nulls[0] = no == NULL;
	nulls[1] = no != NULL;
	if (no != NULL)
		values[0] = CStringGetTextDatum(no);
	else
	{
		prepare_session();
		values[1] = settings();
	}
	return HeapTupleGetDatum(
		heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}
