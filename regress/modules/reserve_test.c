/*
 * reserve_test.c
 *		Answers in pieces, as SQL functions: the interface of reserve.h.
 *
 * For tests only.  Mortar has to be preloaded, whose symbols this library uses.  An
 * id is "index:serial".
 */
#include "mortar.h"

#include "utils/builtins.h"

#include "release.h"
#include "reserve.h"
#include "slot.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(reserve_test_reserve);
PG_FUNCTION_INFO_V1(reserve_test_settle);
PG_FUNCTION_INFO_V1(reserve_test_release);
PG_FUNCTION_INFO_V1(reserve_test_valid);

static MtrReserveId
id_arg(FunctionCallInfo fcinfo, int argno)
{
	MtrReserveId id;
	char        *name = text_to_cstring(PG_GETARG_TEXT_PP(argno));

	if (sscanf(name, "%d:" UINT64_FORMAT, &id.index, &id.serial) != 2)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("not an id: %s", name)));
	return id;
}

static MtrTenant *
tenant_arg(FunctionCallInfo fcinfo)
{
	char tenant[MTR_TENANT_LEN];

	mtr_require_preload();
	mtr_tenant_arg(fcinfo, 0, tenant);
	return mtr_tenant_pin(tenant);
}

/* reserve(tenant text, meter text, qty int8, ttl_ms int8) returns text */
Datum
reserve_test_reserve(PG_FUNCTION_ARGS)
{
	MtrTenant   *t = tenant_arg(fcinfo);
	MtrUsageRef  ref;
	MtrReserveId id;
	MtrShortfall s;

	if (!mtr_usage_claim(t, mtr_meter_arg(fcinfo, 1), 0, NULL, true, &ref))
		ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
						errmsg("no usage slot is free")));
	while (!mtr_reserve(&ref, PG_GETARG_INT64(2), PG_GETARG_INT64(3), &s, &id))
		if (!mtr_release_expired(t, &s))
			mtr_raise_short(&s);
	PG_RETURN_TEXT_P(
		cstring_to_text(psprintf("%d:" UINT64_FORMAT, id.index, id.serial)));
}

/* settle(tenant text, id text, qty int8, ttl_ms int8) returns bool */
Datum
reserve_test_settle(PG_FUNCTION_ARGS)
{
	MtrTenant *t = tenant_arg(fcinfo);

	PG_RETURN_BOOL(mtr_settle(t, id_arg(fcinfo, 1), PG_GETARG_INT64(2),
							  PG_GETARG_INT64(3)));
}

/* release(tenant text, id text) returns void */
Datum
reserve_test_release(PG_FUNCTION_ARGS)
{
	MtrTenant *t = tenant_arg(fcinfo);

	mtr_release(t, id_arg(fcinfo, 1));
	PG_RETURN_VOID();
}

/* valid(tenant text, id text) returns bool */
Datum
reserve_test_valid(PG_FUNCTION_ARGS)
{
	MtrTenant *t = tenant_arg(fcinfo);

	PG_RETURN_BOOL(mtr_reserve_id_valid(t, id_arg(fcinfo, 1)));
}
