/*
 * limits.c
 *		What a tenant may do, as an admin sets it (SQL).
 *
 * How far it may spend (mode, overdraft_uc; the purse, core/purse.h, decides by
 * them), how its usage is kept (durability; sync.h), and how much a crash may lose of
 * it when it is buffered (max_unflushed_uc; charge.c compares with it at every charge).
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
#include "sync.h"
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
	.sql = "INSERT INTO mortar.limits AS l (tenant_id, mode, overdraft_uc, "
		   "max_unflushed_uc, durability) VALUES ($1, $2, $3, $4, $5) "
		   "ON CONFLICT (tenant_id) DO UPDATE SET mode = EXCLUDED.mode, "
		   "overdraft_uc = EXCLUDED.overdraft_uc, "
		   "max_unflushed_uc = EXCLUDED.max_unflushed_uc, "
		   "durability = EXCLUDED.durability, "
		   "changed_at = clock_timestamp()",
	.role = MTR_ROLE_OWNER,
	.nargs = 5,
	.argtypes = {TEXTOID, TEXTOID, INT8OID, INT8OID, TEXTOID},
};

static const char *const modes[] = {
	[MTR_PURSE_HARD] = "hard",
	[MTR_PURSE_SOFT] = "soft",
	[MTR_PURSE_UNLIMITED] = "unlimited",
};

static enum mtr_purse_mode
mode_arg(FunctionCallInfo fcinfo)
{
	const char *s = "";

	if (!PG_ARGISNULL(ARG_MODE))
		s = text_to_cstring(PG_GETARG_TEXT_PP(ARG_MODE));
	for (int i = 0; i < (int) lengthof(modes); i++)
		if (strcmp(s, modes[i]) == 0)
			return (enum mtr_purse_mode) i;
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("mode must be 'hard', 'soft' or 'unlimited'")));
}

static int64
overdraft_arg(FunctionCallInfo fcinfo, enum mtr_purse_mode mode)
{
	int64 overdraft;

	mtr_require_arg(fcinfo, ARG_OVERDRAFT, "overdraft_uc");
	overdraft = PG_GETARG_INT64(ARG_OVERDRAFT);
	if (overdraft < 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("overdraft_uc must not be negative")));
	if (overdraft > MTR_MAX_AMOUNT_UC)
		ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
						errmsg("overdraft_uc out of range"),
						errdetail("It is at most " INT64_FORMAT ".",
								  MTR_MAX_AMOUNT_UC)));
	if (overdraft > 0 && mode != MTR_PURSE_HARD)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("overdraft_uc is for mode 'hard' only")));
	return overdraft;
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
 * mode: hard, never below -overdraft_uc; soft, always served, what is missing is debt;
 * unlimited, no credit moves.	overdraft_uc (above 0 only in mode hard) and
 * max_unflushed_uc: 0 .. 2^61 - 1 micro-credits; max_unflushed_uc null: the default of
 * 1 credit.	For all from the instant of commit on, for the transaction itself at once.
 * What is unflushed already stays so until it is flushed; who is below the new limit is refused until
 * credits come.  durability: of usage of calls that do not ask for another; buffered,
 * group or sync.  Raises 22003, 22004, 22023, MT404.
 */
Datum
mtr_set_limit(PG_FUNCTION_ARGS)
{
	char                tenant[MTR_TENANT_LEN];
	enum mtr_purse_mode mode;
	int64               overdraft;
	int64               max;
	MtrDurability       durability;
	MtrTenant          *t;
	Datum               args[5];
	char                nulls[5] = {' ', ' ', ' ', ' ', ' '};

	mtr_require_preload();
	mtr_check_admin("set_limit");
	mtr_tenant_arg(fcinfo, ARG_TENANT, tenant);
	mode = mode_arg(fcinfo);
	overdraft = overdraft_arg(fcinfo, mode);
	durability = mtr_durability_arg(fcinfo, ARG_DURABILITY);
	max = max_unflushed_arg(fcinfo);

	t = mtr_tenant_pin(tenant);
	mtr_lock(MTR_LOCK_LIMIT, tenant);
	args[0] = CStringGetTextDatum(tenant);
	args[1] = CStringGetTextDatum(modes[mode]);
	args[2] = Int64GetDatum(overdraft);
	args[3] = Int64GetDatum(max);
	nulls[3] = PG_ARGISNULL(ARG_MAX_UNFLUSHED) ? 'n' : ' ';
	args[4] = CStringGetTextDatum(mtr_durability_name(durability));
	SPI_connect();
	mtr_exec(&stmt_limit, args, nulls, MTR_SNAP_LATEST, 0);
	SPI_finish();
	mtr_xact_reserve(4);
	mtr_xact_limit(t, mode, overdraft, max, durability);
	PG_RETURN_VOID();
}
