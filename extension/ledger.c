/*
 * ledger.c
 *		Tenants, grants and charges: SQL functions that move credits.
 *
 * Order in each function: rights, arguments, pin, gate, idempotency key
 * (idem.c), rows.	If a row cannot be written, the abort gives the credits back.
 */
#include "mortar.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "entry.h"
#include "idem.h"
#include "life.h"
#include "release.h"
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
	.sql = "INSERT INTO mortar.credit_grants (tenant_id, grant_id, amount_uc, "
		   "priority, category, effective_at, expires_at) "
		   "VALUES ($1, $2, $3, $4, $5, $6, $7)",
	.role = MTR_ROLE_OWNER,
	.nargs = 7,
	.argtypes = {TEXTOID, UUIDOID, INT8OID, INT4OID, TEXTOID, TIMESTAMPTZOID,
				 TIMESTAMPTZOID},
};

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

enum
{
	GRANT_TENANT,
	GRANT_AMOUNT,
	GRANT_KEY,
	GRANT_PRIORITY,
	GRANT_CATEGORY,
	GRANT_EFFECTIVE,
	GRANT_EXPIRES
};

static int16
priority_arg(FunctionCallInfo fcinfo)
{
	int32 priority;

	mtr_require_arg(fcinfo, GRANT_PRIORITY, "priority");
	priority = PG_GETARG_INT32(GRANT_PRIORITY);
	if (priority < 0 || priority > 100)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("priority must be between 0 and 100")));
	return (int16) priority;
}

static enum mtr_grant_category
category_arg(FunctionCallInfo fcinfo)
{
	const char *s = "";

	if (!PG_ARGISNULL(GRANT_CATEGORY))
		s = text_to_cstring(PG_GETARG_TEXT_PP(GRANT_CATEGORY));
	if (strcmp(s, "promo") == 0)
		return MTR_GRANT_PROMO;
	if (strcmp(s, "paid") == 0)
		return MTR_GRANT_PAID;
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("category must be 'paid' or 'promo'")));
}

/* the grant as its arguments say; without its id */
static void
grant_args(FunctionCallInfo fcinfo, struct mtr_grant *g)
{
	memset(g, 0, sizeof(*g));
	g->amount = g->remaining = mtr_amount_arg(fcinfo, GRANT_AMOUNT);
	g->priority = priority_arg(fcinfo);
	g->category = category_arg(fcinfo);
	g->effective_at = GetCurrentTransactionStartTimestamp();
	if (!PG_ARGISNULL(GRANT_EFFECTIVE))
		g->effective_at = PG_GETARG_TIMESTAMPTZ(GRANT_EFFECTIVE);
	g->expires_at = MTR_PURSE_NEVER;
	if (!PG_ARGISNULL(GRANT_EXPIRES))
		g->expires_at = PG_GETARG_TIMESTAMPTZ(GRANT_EXPIRES);
	if (TIMESTAMP_NOT_FINITE(g->effective_at) ||
		(!PG_ARGISNULL(GRANT_EXPIRES) && TIMESTAMP_NOT_FINITE(g->expires_at)))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("effective_at and expires_at must be finite"),
						errhint("A grant that never expires has expires_at "
								"null.")));
	if (g->expires_at <= g->effective_at)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("expires_at must be after effective_at")));
}

/*
 * What makes two grants the same.	The default of effective_at is another time in
 * every transaction: a call that is tried again says the same by it.
 */
static void
fingerprint(MtrIdem *idem, const struct mtr_grant *g)
{
	bool is_now = g->effective_at == GetCurrentTransactionStartTimestamp();
	char rest[128];

	snprintf(rest, sizeof(rest), "%d %d " INT64_FORMAT " " INT64_FORMAT,
			 g->priority, g->category, is_now ? 0 : g->effective_at,
			 g->expires_at);
	mtr_idem_fingerprint(idem, "grant", g->amount, rest);
}

static void
insert_grant(const char *tenant, const struct mtr_grant *g,
			 const pg_uuid_t *grant_id)
{
	bool  never = g->expires_at == MTR_PURSE_NEVER;
	Datum args[7];
	char  nulls[7] = {' ', ' ', ' ', ' ', ' ', ' ', never ? 'n' : ' '};

	args[0] = CStringGetTextDatum(tenant);
	args[1] = UUIDPGetDatum(grant_id);
	args[2] = Int64GetDatum(g->amount);
	args[3] = Int32GetDatum(g->priority);
	args[4] =
		CStringGetTextDatum(g->category == MTR_GRANT_PROMO ? "promo" : "paid");
	args[5] = TimestampTzGetDatum(g->effective_at);
	args[6] = TimestampTzGetDatum(g->expires_at);
	mtr_exec(&stmt_grant, args, nulls, MTR_SNAP_LATEST, 0);
}

static void
post_grant(MtrTenant *t, const char *tenant, struct mtr_grant *g,
		   const pg_uuid_t *grant_id)
{
	MtrEntry  entry = {.tenant = tenant,
					   .kind = "grant",
					   .from = "issued",
					   .to = "available",
					   .amount_uc = g->amount,
					   .grant_id = grant_id,
					   .effective_at = g->effective_at};
	pg_uuid_t entry_id;

	memcpy(g->id, grant_id->data, UUID_LEN);
	mtr_give(t, g);
	insert_grant(tenant, g, grant_id);
	mtr_new_id(&entry_id);
	mtr_post(t, &entry, &entry_id);
}

/*
 * mortar.grant_credits(tenant text, amount_uc int8, key text, priority int4,
 *						category text, effective_at timestamptz,
 *						expires_at timestamptz) returns uuid
 *
 * Gives a tenant credits: 1 .. 2^61 - 1 micro-credits, in force from effective_at
 * (null: now) until expires_at (null: for ever).  Returns the grant's id; the same
 * key and arguments return it again and move nothing.	Raises 22003, 22004, 22023,
 * MT403 when the tenant is closed, MT404, MT422, MT423 when it is frozen.
 */
Datum
mtr_grant_credits(PG_FUNCTION_ARGS)
{
	char             tenant[MTR_TENANT_LEN];
	MtrIdem          idem;
	MtrTenant       *t;
	struct mtr_grant g;
	pg_uuid_t        grant_id;

	mtr_require_preload();
	mtr_check_admin("grant_credits");
	mtr_tenant_arg(fcinfo, GRANT_TENANT, tenant);
	grant_args(fcinfo, &g);
	mtr_idem_arg(fcinfo, GRANT_KEY, tenant, &idem);
	fingerprint(&idem, &g);

	t = mtr_tenant_pin(tenant);
	SPI_connect();
	if (mtr_idem_claim(&idem, t, &grant_id))
		post_grant(t, tenant, &g, &grant_id);
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

/* the key first, then the work: fewest statements, when credits suffice */
static void
charge_at_once(MtrTenant *t, const MtrEntry *entry, const MtrIdem *idem,
			   pg_uuid_t *entry_id)
{
	MtrPaid      paid;
	MtrShortfall s;

	if (!mtr_idem_claim(idem, t, entry_id))
		return;
	if (!mtr_take_all(t, entry->amount_uc, DT_NOEND, &paid, &s))
		mtr_raise_short(&s);
	mtr_post_parts(t, entry, &paid, entry_id);
}

/*
 * For a call that may return null, and then keeps no key, or that will probably be
 * refused, and then has written nothing.  False: credits do not suffice, and it
 * may return.
 */
static bool
charge_with_care(MtrTenant *t, const MtrEntry *entry, const MtrIdem *idem,
				 bool may_return, pg_uuid_t *entry_id)
{
	MtrPaid      paid;
	MtrShortfall s;

	if (mtr_idem_replayed(idem, t, entry_id))
		return true;
	if (!mtr_take_all(t, entry->amount_uc, DT_NOEND, &paid, &s))
	{
		if (!may_return)
			mtr_raise_short(&s);
		return false;
	}
	if (mtr_idem_store(idem, entry_id))
		mtr_post_parts(t, entry, &paid, entry_id);
	else
		mtr_untake(t, &paid); /* somebody else's call has paid */
	return true;
}

/*
 * mortar.charge(tenant text, amount_uc int8, key text, meta jsonb,
 *				 on_short text) returns uuid
 *
 * Takes credits, inside the caller's transaction.	Returns the entry's id, or
 * NULL when credits do not suffice and on_short is 'return'; raises MT402
 * (DETAIL: required_uc and available_uc) when it is 'error'.  A suspended tenant
 * cannot charge itself, an admin still can; a closed one is charged by nobody
 * (MT403), nor is a frozen one (MT423).
 */
Datum
mtr_charge(PG_FUNCTION_ARGS)
{
	char         tenant[MTR_TENANT_LEN];
	MtrIdem      idem;
	MtrEntry     entry = {.tenant = tenant, .kind = "charge", .to = "consumed"};
	bool         may_return;
	const char  *meta = "{}";
	MtrTenant   *t;
	pg_uuid_t    entry_id;
	bool         paid = true;
	MtrShortfall s;

	mtr_require_preload();
	mtr_tenant_arg(fcinfo, 0, tenant);
	mtr_check_tenant_right(tenant, false);
	entry.amount_uc = mtr_amount_arg(fcinfo, 1);
	mtr_idem_arg(fcinfo, 2, tenant, &idem);
	if (!PG_ARGISNULL(3))
	{
		entry.meta = PG_GETARG_DATUM(3);
		meta = DatumGetCString(DirectFunctionCall1(jsonb_out, entry.meta));
	}
	may_return = on_short_arg(fcinfo, 4);
	mtr_idem_fingerprint(&idem, "charge", entry.amount_uc, meta);

	t = mtr_tenant_pin(tenant);
	if (!mtr_is_member(MTR_ROLE_ADMIN))
		mtr_require_active(t);
	SPI_connect();
	if (may_return || mtr_gate_is_short(t, entry.amount_uc, &s))
		paid = charge_with_care(t, &entry, &idem, may_return, &entry_id);
	else
		charge_at_once(t, &entry, &idem, &entry_id);
	SPI_finish();
	if (!paid)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(mtr_uuid_datum(&entry_id));
}
