/*
 * ledger.c
 *		Tenants, grants and charges: SQL functions that move credits.
 *
 * Order in each function: rights, arguments, pin, gate, idempotency key
 * (idem.c), rows.	If a row cannot be written, the abort gives the credits back.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "gate.h"
#include "idem.h"
#include "life.h"
#include "slot.h"
#include "spi.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(mtr_create_tenant);
PG_FUNCTION_INFO_V1(mtr_grant_credits);
PG_FUNCTION_INFO_V1(mtr_charge);

static MtrStmt stmt_tenant = {
	.sql = "INSERT INTO mortar.tenants (tenant_id, name, external_id) "
		   "VALUES ($1, $2, $3) ON CONFLICT (tenant_id) DO NOTHING",
	.role = MTR_ROLE_OWNER,
	.nargs = 3,
	.argtypes = {TEXTOID, TEXTOID, TEXTOID},
};

static MtrStmt stmt_grant = {
	.sql = "INSERT INTO mortar.credit_grants (tenant_id, grant_id, amount_uc) "
		   "VALUES ($1, $2, $3)",
	.role = MTR_ROLE_OWNER,
	.nargs = 3,
	.argtypes = {TEXTOID, UUIDOID, INT8OID},
};

static MtrStmt stmt_entry = {
	.sql = "INSERT INTO mortar.credit_ledger (tenant_id, entry_id, kind, "
		   "from_account, to_account, amount_uc, grant_id, posted_at, "
		   "epoch_id, meta) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
	.role = MTR_ROLE_OWNER,
	.nargs = 10,
	.argtypes = {TEXTOID, UUIDOID, TEXTOID, TEXTOID, TEXTOID, INT8OID, UUIDOID,
				 TIMESTAMPTZOID, UUIDOID, JSONBOID},
};

static int64
amount_arg(FunctionCallInfo fcinfo, int argno)
{
	int64 amount;

	if (PG_ARGISNULL(argno))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("amount_uc must not be null")));
	amount = PG_GETARG_INT64(argno);
	if (amount <= 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("amount_uc must be positive")));
	if (amount > MTR_MAX_AMOUNT_UC)
		ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
						errmsg("amount_uc out of range"),
						errdetail("An amount is at most " INT64_FORMAT ".",
								  MTR_MAX_AMOUNT_UC)));
	return amount;
}

/* posting time: now, but never before the tenant's last entry */
static TimestampTz
posting_time(MtrTenant *t)
{
	TimestampTz now = GetCurrentTimestamp();

	SpinLockAcquire(&t->mutex);
	if (now < t->last_posted)
		now = t->last_posted;
	t->last_posted = now;
	SpinLockRelease(&t->mutex);
	return now;
}

static void
post_entry(MtrTenant *t, const char *tenant, const pg_uuid_t *entry_id,
		   const pg_uuid_t *grant_id, int64 amount, Datum meta)
{
	bool  is_grant = grant_id != NULL;
	Datum args[10];
	char  nulls[10];

	memset(nulls, ' ', sizeof(nulls));
	args[0] = CStringGetTextDatum(tenant);
	args[1] = UUIDPGetDatum(entry_id);
	args[2] = CStringGetTextDatum(is_grant ? "grant" : "charge");
	args[3] = CStringGetTextDatum(is_grant ? "issued" : "available");
	args[4] = CStringGetTextDatum(is_grant ? "available" : "consumed");
	args[5] = Int64GetDatum(amount);
	args[6] = is_grant ? UUIDPGetDatum(grant_id) : (Datum) 0;
	nulls[6] = is_grant ? ' ' : 'n';
	args[7] = TimestampTzGetDatum(posting_time(t));
	args[8] = UUIDPGetDatum(&MtrShared->epoch_id);
	args[9] = meta;
	mtr_exec(&stmt_entry, args, nulls, MTR_SNAP_LATEST, 0);
}

static Datum
empty_object(void)
{
	return DirectFunctionCall1(jsonb_in, CStringGetDatum("{}"));
}

/*
 * mortar.create_tenant(tenant text, name text, external_id text) returns text
 *
 * Returns the tenant's id.	 Raises 22023 for an id that does not match the
 * pattern, MT409 when the tenant exists, 23505 when another tenant has the
 * external id, 53400 when shared memory is full.
 */
Datum
mtr_create_tenant(PG_FUNCTION_ARGS)
{
	char  tenant[MTR_TENANT_LEN];
	Datum args[3];
	char  nulls[3];

	mtr_require_preload();
	mtr_check_admin("create_tenant");
	mtr_refuse_recovery();
	mtr_tenant_arg(fcinfo, 0, tenant);
	memset(nulls, ' ', sizeof(nulls));
	for (int i = 0; i < 3; i++)
	{
		args[i] = PG_ARGISNULL(i) ? (Datum) 0 : PG_GETARG_DATUM(i);
		nulls[i] = PG_ARGISNULL(i) ? 'n' : ' ';
	}

	SPI_connect();
	mtr_exec(&stmt_tenant, args, nulls, MTR_SNAP_LATEST, 0);
	if (SPI_processed == 0)
		ereport(ERROR, (errcode(MTR_ERR_CONFLICT),
						errmsg("tenant \"%s\" already exists", tenant),
						errdetail("{\"code\":\"tenant_exists\"}")));
	SPI_finish();
	(void) mtr_tenant_new(tenant);
	PG_RETURN_TEXT_P(cstring_to_text(tenant));
}

static void
refuse_grant_options(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(3) || PG_GETARG_INT32(3) != 50)
		MTR_NOT_YET("a grant's priority");
	if (PG_ARGISNULL(4) ||
		strcmp(text_to_cstring(PG_GETARG_TEXT_PP(4)), "paid") != 0)
		MTR_NOT_YET("a grant's category");
	if (!PG_ARGISNULL(5) &&
		PG_GETARG_TIMESTAMPTZ(5) != GetCurrentTransactionStartTimestamp())
		MTR_NOT_YET("a grant effective at another time than now");
	if (!PG_ARGISNULL(6))
		MTR_NOT_YET("a grant that expires");
}

static void
post_grant(MtrTenant *t, const char *tenant, const pg_uuid_t *grant_id,
		   int64 amount)
{
	pg_uuid_t entry_id;
	Datum     args[3];

	mtr_give(t, amount);
	mtr_new_id(&entry_id);
	args[0] = CStringGetTextDatum(tenant);
	args[1] = UUIDPGetDatum(grant_id);
	args[2] = Int64GetDatum(amount);
	mtr_exec(&stmt_grant, args, NULL, MTR_SNAP_LATEST, 0);
	post_entry(t, tenant, &entry_id, grant_id, amount, empty_object());
}

/*
 * mortar.grant_credits(tenant text, amount_uc int8, key text, priority int4,
 *						category text, effective_at timestamptz,
 *						expires_at timestamptz) returns uuid
 *
 * Gives a tenant credits: 1 .. 2^61 - 1 micro-credits.	Returns the grant's id;
 * the same key and arguments return it again and move nothing.  Raises
 * 22003, 22004, 22023, MT403 when the tenant is closed, MT404, MT422; 0A000 for
 * what comes later.
 */
Datum
mtr_grant_credits(PG_FUNCTION_ARGS)
{
	char       tenant[MTR_TENANT_LEN];
	int64      amount;
	MtrIdem    idem;
	MtrTenant *t;
	pg_uuid_t  grant_id;

	mtr_require_preload();
	mtr_check_admin("grant_credits");
	mtr_tenant_arg(fcinfo, 0, tenant);
	amount = amount_arg(fcinfo, 1);
	mtr_idem_arg(fcinfo, 2, tenant, &idem);
	refuse_grant_options(fcinfo);
	mtr_idem_fingerprint(&idem, "grant", amount, "");

	t = mtr_tenant_pin(tenant);
	SPI_connect();
	if (!mtr_idem_replayed(&idem, &grant_id))
	{
		mtr_require_open(t);
		mtr_new_id(&grant_id);
		if (mtr_idem_store(&idem, &grant_id))
			post_grant(t, tenant, &grant_id, amount);
	}
	SPI_finish();
	PG_RETURN_DATUM(mtr_uuid_datum(&grant_id));
}

/* on_short: true for 'return', false for 'error' */
static bool
on_short_arg(FunctionCallInfo fcinfo, int argno)
{
	const char *s = "";

	if (!PG_ARGISNULL(argno))
		s = text_to_cstring(PG_GETARG_TEXT_PP(argno));

	if (strcmp(s, "return") == 0)
		return true;
	if (strcmp(s, "error") == 0)
		return false;
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("on_short must be 'error' or 'return'")));
}

/*
 * mortar.charge(tenant text, amount_uc int8, key text, meta jsonb,
 *				 on_short text) returns uuid
 *
 * Takes credits, inside the caller's transaction.	Returns the entry's id, or
 * NULL when credits do not suffice and on_short is 'return'; raises MT402
 * (DETAIL: required_uc and available_uc) when it is 'error'.  A suspended tenant
 * cannot charge itself, an admin still can; a closed one is charged by nobody
 * (MT403).
 */
Datum
mtr_charge(PG_FUNCTION_ARGS)
{
	char         tenant[MTR_TENANT_LEN];
	int64        amount;
	MtrIdem      idem;
	Datum        meta;
	bool         may_return;
	MtrTenant   *t;
	MtrShortfall s;
	pg_uuid_t    entry_id;
	bool         paid = true;

	mtr_require_preload();
	mtr_tenant_arg(fcinfo, 0, tenant);
	mtr_check_tenant_right(tenant, false);
	amount = amount_arg(fcinfo, 1);
	mtr_idem_arg(fcinfo, 2, tenant, &idem);
	meta = PG_ARGISNULL(3) ? empty_object() : PG_GETARG_DATUM(3);
	may_return = on_short_arg(fcinfo, 4);
	mtr_idem_fingerprint(&idem, "charge", amount,
						 DatumGetCString(DirectFunctionCall1(jsonb_out, meta)));

	t = mtr_tenant_pin(tenant);
	if (!mtr_is_member(MTR_ROLE_ADMIN))
		mtr_require_active(t);
	SPI_connect();
	if (!mtr_idem_replayed(&idem, &entry_id))
	{
		mtr_require_open(t);
		paid = mtr_take(t, amount, &s);
		if (!paid && !may_return)
			mtr_raise_short(&s);
		mtr_new_id(&entry_id);
		if (paid && mtr_idem_store(&idem, &entry_id))
			post_entry(t, tenant, &entry_id, NULL, amount, meta);
		else if (paid)
			mtr_untake(t, amount); /* somebody else's call has paid */
	}
	SPI_finish();
	if (!paid)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(mtr_uuid_datum(&entry_id));
}
