/*
 * ledger.c
 *		Tenants, grants and charges: SQL functions that move credits.
 *
 * Each function that moves credits takes an idempotency key.  Its users are
 * serialised per (tenant, key) by a lock of the lock manager that lasts to the
 * end of the transaction; behind it the stored key is read with a latest
 * snapshot, so that a replay is recognised at every isolation level and never
 * ends in a serialization failure.	 A call that fails stores nothing, so a key
 * is not burnt by a 402.
 *
 * Order in each function: rights, arguments, pin, idempotency key, gate,
 * rows.  If a row cannot be written, the abort gives the credits back.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "common/cryptohash.h"
#include "common/hashfn.h"
#include "common/sha2.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#include "gate.h"
#include "slot.h"
#include "spi.h"
#include "xact.h"

/* fourth field of an advisory lock tag; users' own are 1 and 2 */
#define LOCK_CLASS_IDEMPOTENCY 0x4d32

#define MAX_KEY_CHARS 255

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

static MtrStmt stmt_find_key = {
	.sql = "SELECT fingerprint, result FROM mortar.idempotency "
		   "WHERE tenant_id = $1 AND key = $2",
	.role = MTR_ROLE_OWNER,
	.nargs = 2,
	.argtypes = {TEXTOID, TEXTOID},
};

static MtrStmt stmt_store_key = {
	.sql = "INSERT INTO mortar.idempotency "
		   "(tenant_id, key, fingerprint, result) VALUES ($1, $2, $3, $4)",
	.role = MTR_ROLE_OWNER,
	.nargs = 4,
	.argtypes = {TEXTOID, TEXTOID, BYTEAOID, UUIDOID},
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

/* an idempotency key in use: what to store when the function succeeds */
typedef struct Idem
{
	const char *tenant;
	text       *key;
	uint8       fingerprint[PG_SHA256_DIGEST_LENGTH];
} Idem;

static text *
key_arg(FunctionCallInfo fcinfo, int argno)
{
	text *key;
	int   chars;

	if (PG_ARGISNULL(argno))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("idempotency key must not be null"),
						errhint("Pass a string that is the same when the same "
								"movement is tried again, and only then.")));
	key = PG_GETARG_TEXT_PP(argno);
	chars = pg_mbstrlen_with_len(VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key));
	if (chars < 1 || chars > MAX_KEY_CHARS)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("an idempotency key has 1 to %d characters",
							   MAX_KEY_CHARS)));
	return key;
}

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

static void
fingerprint(Idem *idem, const char *func, int64 amount, const char *rest)
{
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA256);
	char               head[64];
	int                len =
		snprintf(head, sizeof(head), "%s " INT64_FORMAT " ", func, amount);

	if (ctx == NULL || pg_cryptohash_init(ctx) < 0 ||
		pg_cryptohash_update(ctx, (const uint8 *) head, len) < 0 ||
		pg_cryptohash_update(ctx, (const uint8 *) rest, strlen(rest)) < 0 ||
		pg_cryptohash_final(ctx, idem->fingerprint, sizeof(idem->fingerprint)) <
			0)
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
						errmsg("could not compute a fingerprint")));
	pg_cryptohash_free(ctx);
}

static void
lock_key(const Idem *idem)
{
	LOCKTAG tag;
	uint64  hash;

	hash = hash_bytes_extended((const unsigned char *) idem->tenant,
							   strlen(idem->tenant), 0);
	hash = hash_bytes_extended((const unsigned char *) VARDATA_ANY(idem->key),
							   VARSIZE_ANY_EXHDR(idem->key), hash);
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (hash >> 32),
						 (uint32) hash, LOCK_CLASS_IDEMPOTENCY);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

/*
 * True when the key has been used: *result is what the function returned
 * then.  Raises MT422 when it was used for something else.  SPI is connected.
 */
static bool
replayed(const Idem *idem, pg_uuid_t *result)
{
	Datum  args[2];
	bool   isnull;
	bytea *stored;

	lock_key(idem);
	args[0] = CStringGetTextDatum(idem->tenant);
	args[1] = PointerGetDatum(idem->key);
	mtr_exec(&stmt_find_key, args, NULL, MTR_SNAP_LATEST, 1);
	if (SPI_processed == 0)
		return false;

	stored = DatumGetByteaPP(mtr_first(1, &isnull));
	if (VARSIZE_ANY_EXHDR(stored) != sizeof(idem->fingerprint) ||
		memcmp(VARDATA_ANY(stored), idem->fingerprint,
			   sizeof(idem->fingerprint)) != 0)
		ereport(ERROR,
				(errcode(MTR_ERR_INVALID),
				 errmsg("The idempotency key was used with other arguments."),
				 errdetail("{\"code\":\"idempotency_key_reused\"}")));
	*result = *DatumGetUUIDP(mtr_first(2, &isnull));
	return true;
}

static void
store_key(const Idem *idem, const pg_uuid_t *result)
{
	Datum  args[4];
	bytea *print = palloc(VARHDRSZ + sizeof(idem->fingerprint));

	SET_VARSIZE(print, VARHDRSZ + sizeof(idem->fingerprint));
	memcpy(VARDATA(print), idem->fingerprint, sizeof(idem->fingerprint));
	args[0] = CStringGetTextDatum(idem->tenant);
	args[1] = PointerGetDatum(idem->key);
	args[2] = PointerGetDatum(print);
	args[3] = UUIDPGetDatum(result);
	mtr_exec(&stmt_store_key, args, NULL, MTR_SNAP_LATEST, 0);
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

/*
 * mortar.grant_credits(tenant text, amount_uc int8, key text, priority int4,
 *						category text, effective_at timestamptz,
 *						expires_at timestamptz) returns uuid
 *
 * Gives a tenant credits: 1 .. 2^61 - 1 micro-credits.	Returns the grant's id;
 * the same key and arguments return it again and move nothing.  Raises
 * 22003, 22004, 22023, MT404, MT422; 0A000 for what comes later.
 */
Datum
mtr_grant_credits(PG_FUNCTION_ARGS)
{
	char       tenant[MTR_TENANT_LEN];
	int64      amount;
	Idem       idem;
	MtrTenant *t;
	pg_uuid_t  grant_id;
	pg_uuid_t  entry_id;
	Datum      args[3];

	mtr_require_preload();
	mtr_check_admin("grant_credits");
	mtr_tenant_arg(fcinfo, 0, tenant);
	amount = amount_arg(fcinfo, 1);
	idem.tenant = tenant;
	idem.key = key_arg(fcinfo, 2);
	refuse_grant_options(fcinfo);
	fingerprint(&idem, "grant", amount, "");

	t = mtr_tenant_pin(tenant);
	SPI_connect();
	if (!replayed(&idem, &grant_id))
	{
		mtr_give(t, amount);
		mtr_new_id(&grant_id);
		mtr_new_id(&entry_id);
		args[0] = CStringGetTextDatum(tenant);
		args[1] = UUIDPGetDatum(&grant_id);
		args[2] = Int64GetDatum(amount);
		mtr_exec(&stmt_grant, args, NULL, MTR_SNAP_LATEST, 0);
		post_entry(t, tenant, &entry_id, &grant_id, amount, empty_object());
		store_key(&idem, &grant_id);
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
 * (DETAIL: required_uc and available_uc) when it is 'error'.
 */
Datum
mtr_charge(PG_FUNCTION_ARGS)
{
	char         tenant[MTR_TENANT_LEN];
	int64        amount;
	Idem         idem;
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
	idem.tenant = tenant;
	idem.key = key_arg(fcinfo, 2);
	meta = PG_ARGISNULL(3) ? empty_object() : PG_GETARG_DATUM(3);
	may_return = on_short_arg(fcinfo, 4);
	fingerprint(&idem, "charge", amount,
				DatumGetCString(DirectFunctionCall1(jsonb_out, meta)));

	t = mtr_tenant_pin(tenant);
	SPI_connect();
	if (!replayed(&idem, &entry_id))
	{
		paid = mtr_take(t, amount, &s);
		if (!paid && !may_return)
			mtr_raise_short(&s);
		if (paid)
		{
			mtr_new_id(&entry_id);
			post_entry(t, tenant, &entry_id, NULL, amount, meta);
			store_key(&idem, &entry_id);
		}
	}
	SPI_finish();
	if (!paid)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(mtr_uuid_datum(&entry_id));
}
