/*
 * limits.c
 *		What a tenant may do, as an admin sets it (SQL).
 *
 * So far one limit: how much a crash may lose of a tenant's buffered usage
 * (max_unflushed_uc).	The gate compares with it at every charge (gate.c).
 *
 * How a change holds for every backend at the instant of commit: as in life.c, the
 * changing transaction pins the tenant's slot, and its COMMIT callback changes it
 * there.  A slot that is not in memory is loaded from the table later.
 *
 * Locking: changes of one tenant exclude each other by a lock of the lock manager,
 * which is released after the callback.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"

#include "locks.h"
#include "slot.h"
#include "spi.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(mtr_set_limit);

enum
{
	ARG_TENANT,
	ARG_MODE,
	ARG_OVERDRAFT,
	ARG_MAX_UNFLUSHED,
	ARG_DURABILITY
};

static MtrStmt stmt_limit = {
	.sql = "INSERT INTO mortar.limits AS l (tenant_id, max_unflushed_uc) "
		   "VALUES ($1, $2) ON CONFLICT (tenant_id) DO UPDATE SET "
		   "max_unflushed_uc = EXCLUDED.max_unflushed_uc, "
		   "changed_at = clock_timestamp()",
	.role = MTR_ROLE_OWNER,
	.nargs = 2,
	.argtypes = {TEXTOID, INT8OID},
};

static bool
is_text(FunctionCallInfo fcinfo, int argno, const char *expected)
{
	return !PG_ARGISNULL(argno) &&
		   strcmp(text_to_cstring(PG_GETARG_TEXT_PP(argno)), expected) == 0;
}

static void
refuse_other_limits(FunctionCallInfo fcinfo)
{
	if (!is_text(fcinfo, ARG_MODE, "hard"))
		MTR_NOT_YET("mode other than 'hard'");
	if (PG_ARGISNULL(ARG_OVERDRAFT) || PG_GETARG_INT64(ARG_OVERDRAFT) != 0)
		MTR_NOT_YET("an overdraft");
	if (!is_text(fcinfo, ARG_DURABILITY, "buffered"))
		MTR_NOT_YET("durability other than 'buffered'");
}

static int64
max_unflushed_arg(FunctionCallInfo fcinfo)
{
	int64 max;

	if (PG_ARGISNULL(ARG_MAX_UNFLUSHED))
		return MTR_DEFAULT_MAX_UNFLUSHED_UC;
	max = PG_GETARG_INT64(ARG_MAX_UNFLUSHED);
	if (max < 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("max_unflushed_uc must not be negative")));
	if (max > MTR_MAX_AMOUNT_UC)
		ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
						errmsg("max_unflushed_uc out of range"),
						errdetail("It is at most " INT64_FORMAT ".",
								  MTR_MAX_AMOUNT_UC)));
	return max;
}

/*
 * mortar.set_limit(tenant text, mode text, overdraft_uc int8,
 *					max_unflushed_uc int8, durability text) returns void
 *
 * max_unflushed_uc: 0 .. 2^61 - 1 micro-credits; null: the default of 1 credit.
 * For all from the instant of commit on, for the transaction itself at once.  What
 * is unflushed already stays so until it is flushed.  Raises 22003, 22004, 22023,
 * MT404; 0A000 for the other arguments unless they have their default.
 */
Datum
mtr_set_limit(PG_FUNCTION_ARGS)
{
	char       tenant[MTR_TENANT_LEN];
	int64      max;
	MtrTenant *t;
	Datum      args[2];
	char       nulls[2] = {' ', PG_ARGISNULL(ARG_MAX_UNFLUSHED) ? 'n' : ' '};

	mtr_require_preload();
	mtr_check_admin("set_limit");
	mtr_tenant_arg(fcinfo, ARG_TENANT, tenant);
	refuse_other_limits(fcinfo);
	max = max_unflushed_arg(fcinfo);

	t = mtr_tenant_pin(tenant);
	mtr_lock(MTR_LOCK_LIMIT, tenant);
	args[0] = CStringGetTextDatum(tenant);
	args[1] = Int64GetDatum(max);
	SPI_connect();
	mtr_exec(&stmt_limit, args, nulls, MTR_SNAP_LATEST, 0);
	SPI_finish();
	mtr_xact_reserve(1);
	mtr_xact_limit(t, max);
	PG_RETURN_VOID();
}
