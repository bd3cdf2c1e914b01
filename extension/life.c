/*
 * life.c
 *		A tenant's state: suspending, resuming and closing it (SQL).
 *
 * A suspended tenant may not call, neither over HTTP nor in SQL, until it is
 * resumed; a closed one never again.  Its rows and its ledger stay as they are,
 * and a DBA reads all of them.  Of a frozen one no credit moves, by whomever, and
 * what is free goes on.
 *
 * How a change holds for every backend at the instant of commit: the changing
 * transaction pins the tenant's slot, and its COMMIT callback changes the state in
 * the slot.  A slot that is not in memory is loaded from the table, and cannot be
 * while such a transaction runs, since that one pins it.
 *
 * Locking: changes of one tenant exclude each other by a lock of the lock manager,
 * which is released after the callback.  A row lock would not do: it lets the next
 * one pass a moment before the callback, and memory could end up with the earlier
 * state.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"

#include "life.h"
#include "locks.h"
#include "slot.h"
#include "spi.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(mtr_suspend_tenant);
PG_FUNCTION_INFO_V1(mtr_resume_tenant);
PG_FUNCTION_INFO_V1(mtr_close_tenant);
PG_FUNCTION_INFO_V1(mtr_freeze);
PG_FUNCTION_INFO_V1(mtr_unfreeze);

static const char *const names[] = {
	[MTR_LIFE_ACTIVE] = "active",
	[MTR_LIFE_SUSPENDED] = "suspended",
	[MTR_LIFE_CLOSED] = "closed",
};

/* hits no row when the tenant is in that state already, or closed */
static MtrStmt stmt_change = {
	.sql = "UPDATE mortar.tenants SET state = $2, state_reason = CASE $2 "
		   "  WHEN 'active' THEN NULL WHEN 'suspended' THEN $3 "
		   "  ELSE state_reason END, state_changed_at = clock_timestamp() "
		   "WHERE tenant_id = $1 AND state NOT IN ($2, 'closed')",
	.role = MTR_ROLE_OWNER,
	.nargs = 3,
	.argtypes = {TEXTOID, TEXTOID, TEXTOID},
};

static MtrStmt stmt_freeze = {
	.sql = "UPDATE mortar.tenants SET frozen = $2 "
		   "WHERE tenant_id = $1 AND frozen <> $2 AND state <> 'closed'",
	.role = MTR_ROLE_OWNER,
	.nargs = 2,
	.argtypes = {TEXTOID, BOOLOID},
};

static MtrStmt stmt_state = {
	.sql = "SELECT state FROM mortar.tenants WHERE tenant_id = $1",
	.role = MTR_ROLE_OWNER,
	.nargs = 1,
	.argtypes = {TEXTOID},
};

static const char *
life_name(MtrLife life)
{
	Assert(life <= MTR_LIFE_CLOSED);
	return names[life];
}

MtrLife
mtr_life(MtrTenant *t)
{
	/* one byte: under the slot's lock it would be no more recent */
	return (MtrLife) (t->life + mtr_xact_pinned(t)->life);
}

bool
mtr_life_refusal(MtrLife life, const char **code, const char **detail)
{
	switch (life)
	{
		case MTR_LIFE_ACTIVE:
			return false;
		case MTR_LIFE_SUSPENDED:
			*code = "tenant_suspended";
			*detail = "The tenant is suspended.";
			return true;
		case MTR_LIFE_CLOSED:
			break;
	}
	*code = "tenant_closed";
	*detail = "The tenant is closed.";
	return true;
}

static void
require_not(MtrLife life)
{
	const char *code;
	const char *detail;

	if (mtr_life_refusal(life, &code, &detail))
		ereport(ERROR, (errcode(MTR_ERR_FORBIDDEN), errmsg("%s", detail),
						errdetail("{\"code\":\"%s\"}", code)));
}

void
mtr_require_active(MtrTenant *t)
{
	require_not(mtr_life(t));
}

void
mtr_require_open(MtrTenant *t)
{
	if (mtr_life(t) == MTR_LIFE_CLOSED)
		require_not(MTR_LIFE_CLOSED);
}

bool
mtr_is_frozen(MtrTenant *t)
{
	return t->frozen + mtr_xact_pinned(t)->frozen != 0;
}

void
mtr_require_movable(MtrTenant *t)
{
	mtr_require_open(t);
	if (mtr_is_frozen(t))
		ereport(ERROR,
				(errcode(MTR_ERR_FROZEN), errmsg("The tenant is frozen."),
				 errdetail("{\"code\":\"frozen\"}")));
}

bool
mtr_is_movable(MtrTenant *t)
{
	return mtr_life(t) != MTR_LIFE_CLOSED && !mtr_is_frozen(t);
}

const char *
mtr_state_name(MtrLife life, bool frozen)
{
	return life == MTR_LIFE_ACTIVE && frozen ? "frozen" : life_name(life);
}

/* SPI is connected */
static void
require_row_open(Datum tenant)
{
	mtr_exec(&stmt_state, &tenant, NULL, MTR_SNAP_LATEST, 1);
	if (strcmp(mtr_cell(0, 1), life_name(MTR_LIFE_CLOSED)) == 0)
		require_not(MTR_LIFE_CLOSED);
}

/* true when a row was changed; raises MT403 when the tenant is closed */
static bool
change_row(const char *tenant, MtrLife life, Datum reason, bool no_reason)
{
	Datum args[3];
	char  nulls[3] = {' ', ' ', no_reason ? 'n' : ' '};
	bool  changed;

	args[0] = CStringGetTextDatum(tenant);
	args[1] = CStringGetTextDatum(life_name(life));
	args[2] = reason;
	SPI_connect();
	mtr_exec(&stmt_change, args, nulls, MTR_SNAP_LATEST, 0);
	changed = SPI_processed > 0;
	if (!changed && life != MTR_LIFE_CLOSED)
		require_row_open(args[0]);
	SPI_finish();
	return changed;
}

static Datum
change(FunctionCallInfo fcinfo, const char *func, MtrLife life, Datum reason,
	   bool no_reason)
{
	char       tenant[MTR_TENANT_LEN];
	MtrTenant *t;
	bool       changed;

	mtr_require_preload();
	mtr_check_admin(func);
	mtr_tenant_arg(fcinfo, 0, tenant);
	t = mtr_tenant_pin(tenant);
	mtr_lock(MTR_LOCK_LIFE, tenant);
	changed = change_row(tenant, life, reason, no_reason);
	if (changed)
	{
		mtr_xact_reserve(1);
		mtr_xact_life(t, life);
	}
	PG_RETURN_BOOL(changed);
}

/*
 * mortar.suspend_tenant(tenant text, reason text) returns bool
 *
 * Refuses the tenant's calls from the instant of commit on.  The reason is for
 * the DBA and is not told to the tenant.  False, with nothing changed, when the
 * tenant was suspended before.  Raises 22004, 22023, MT404, and MT403 when it is
 * closed.
 */
Datum
mtr_suspend_tenant(PG_FUNCTION_ARGS)
{
	mtr_require_arg(fcinfo, 1, "reason");
	return change(fcinfo, "suspend_tenant", MTR_LIFE_SUSPENDED,
				  PG_GETARG_DATUM(1), false);
}

/*
 * mortar.resume_tenant(tenant text) returns bool
 *
 * Ends a suspension.  False when there was none.  Raises 22004, 22023, MT404, and
 * MT403 when the tenant is closed.
 */
Datum
mtr_resume_tenant(PG_FUNCTION_ARGS)
{
	return change(fcinfo, "resume_tenant", MTR_LIFE_ACTIVE, (Datum) 0, true);
}

/*
 * mortar.close_tenant(tenant text) returns bool
 *
 * For ever: no call, no new key, no grant and no charge from the instant of commit
 * on; all data is kept.  False when the tenant was closed before.  Raises 22004,
 * 22023, MT404.
 */
Datum
mtr_close_tenant(PG_FUNCTION_ARGS)
{
	return change(fcinfo, "close_tenant", MTR_LIFE_CLOSED, (Datum) 0, true);
}

static Datum
set_frozen(FunctionCallInfo fcinfo, const char *func, bool frozen)
{
	char       tenant[MTR_TENANT_LEN];
	MtrTenant *t;
	Datum      args[2];
	bool       changed;

	mtr_require_preload();
	mtr_check_admin(func);
	mtr_tenant_arg(fcinfo, 0, tenant);
	t = mtr_tenant_pin(tenant);
	mtr_lock(MTR_LOCK_LIFE, tenant);
	args[0] = CStringGetTextDatum(tenant);
	args[1] = BoolGetDatum(frozen);
	SPI_connect();
	mtr_exec(&stmt_freeze, args, NULL, MTR_SNAP_LATEST, 0);
	changed = SPI_processed > 0;
	if (!changed)
		require_row_open(args[0]);
	SPI_finish();
	if (changed)
	{
		mtr_xact_reserve(1);
		mtr_xact_frozen(t, frozen);
	}
	PG_RETURN_BOOL(changed);
}

/*
 * mortar.freeze(tenant text) returns bool
 *
 * From the instant of commit on no credit of the tenant moves: grants, charges, holds
 * and usage that has a price are refused with MT423.  What is free goes on.  False
 * when it was frozen before.  Raises 22004, 22023, MT404, and MT403 when it is closed.
 */
Datum
mtr_freeze(PG_FUNCTION_ARGS)
{
	return set_frozen(fcinfo, "freeze", true);
}

/*
 * mortar.unfreeze(tenant text) returns bool
 *
 * Ends that.  False when it was not frozen.  Raises 22004, 22023, MT404, and MT403
 * when the tenant is closed.
 */
Datum
mtr_unfreeze(PG_FUNCTION_ARGS)
{
	return set_frozen(fcinfo, "unfreeze", false);
}
