/*
 * keys.c
 *		API keys: making and revoking them (SQL); scopes by name.
 *
 * A key is shown once.	 What is stored is HMAC-SHA256(pepper, secret), the
 * pepper living in a file outside the database.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "auth.h"
#include "core/apikey.h"
#include "inval.h"
#include "keys.h"
#include "life.h"
#include "slot.h"
#include "spi.h"

PG_FUNCTION_INFO_V1(mtr_create_key);
PG_FUNCTION_INFO_V1(mtr_revoke_key);

static const char *const scope_names[MTR_SCOPES] = {
	"tables:read", "tables:write", "rows:read", "rows:write",
	"files:read",  "files:write",  "rpc",       "compose",
	"realtime",    "usage",        "admin"};

static MtrStmt stmt_insert = {
	.sql = "INSERT INTO mortar.api_keys (tenant_id, key_id, name, hash, "
		   "pepper_version, scopes, not_before, expires_at) "
		   "VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
	.role = MTR_ROLE_OWNER,
	.nargs = 8,
	.argtypes = {TEXTOID, UUIDOID, TEXTOID, BYTEAOID, INT4OID, TEXTARRAYOID,
				 TIMESTAMPTZOID, TIMESTAMPTZOID},
};

static MtrStmt stmt_revoke = {
	.sql = "UPDATE mortar.api_keys SET revoked_at = clock_timestamp() "
		   "WHERE tenant_id = $1 AND key_id = $2 AND revoked_at IS NULL",
	.role = MTR_ROLE_OWNER,
	.nargs = 2,
	.argtypes = {TEXTOID, UUIDOID},
};

static MtrStmt stmt_exists = {
	.sql = "SELECT 1 FROM mortar.api_keys WHERE tenant_id = $1 AND key_id = $2",
	.role = MTR_ROLE_OWNER,
	.nargs = 2,
	.argtypes = {TEXTOID, UUIDOID},
};

const char *
mtr_scope_name(int bit)
{
	Assert(bit >= 0 && bit < MTR_SCOPES);
	return scope_names[bit];
}

bool
mtr_scope_bit(const char *name, size_t len, uint32 *bit)
{
	for (int i = 0; i < MTR_SCOPES; i++)
	{
		if (strlen(scope_names[i]) != len ||
			memcmp(scope_names[i], name, len) != 0)
			continue;
		*bit = 1u << i;
		return true;
	}
	return false;
}

uint32
mtr_scopes_of_array(ArrayType *array, bool *all_known)
{
	Datum *names;
	bool  *nulls;
	int    n;
	uint32 scopes = 0;
	uint32 bit;

	*all_known = true;
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &names, &nulls,
					  &n);
	for (int i = 0; i < n; i++)
	{
		text *name = nulls[i] ? NULL : DatumGetTextPP(names[i]);

		if (name != NULL &&
			mtr_scope_bit(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name), &bit))
			scopes |= bit;
		else
			*all_known = false;
	}
	return scopes;
}

static uint32
scopes_arg(FunctionCallInfo fcinfo, int argno)
{
	uint32 scopes;
	bool   all_known;

	if (PG_ARGISNULL(argno))
		return MTR_SCOPES_DEFAULT;
	scopes = mtr_scopes_of_array(PG_GETARG_ARRAYTYPE_P(argno), &all_known);
	if (!all_known || scopes == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid scopes"),
				 errhint("Scopes are tables:read, tables:write, rows:read, "
						 "rows:write, files:read, files:write, rpc, compose, "
						 "realtime, usage and admin.")));
	return scopes;
}

static Datum
scopes_datum(uint32 scopes)
{
	Datum names[MTR_SCOPES];
	int   n = 0;

	for (int i = 0; i < MTR_SCOPES; i++)
		if (scopes & (1u << i))
			names[n++] = CStringGetTextDatum(scope_names[i]);
	return PointerGetDatum(
		construct_array(names, n, TEXTOID, -1, false, TYPALIGN_INT));
}

static Datum
hash_datum(const char *secret, int version)
{
	bytea *hash = palloc(VARHDRSZ + 32);

	SET_VARSIZE(hash, VARHDRSZ + 32);
	if (version == 0 ||
		!mtr_pepper_hmac(version, secret, MTR_APIKEY_SECRET_CHARS,
						 (uint8 *) VARDATA(hash)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("API keys need a pepper, and none is loaded"),
				 errhint("Make one with mortar-gateway --make-pepper PATH, set "
						 "mortar.pepper_file to it and reload the server.")));
	return PointerGetDatum(hash);
}

/*
 * mortar.create_key(tenant text, name text, scopes text[],
 *					 expires_at timestamptz, not_before timestamptz)
 *		returns text
 *
 * Returns the key: the only time it is seen.  Raises 22004, 22023, MT404, MT403
 * when the tenant is closed, and 55000 when no pepper is loaded.
 */
Datum
mtr_create_key(PG_FUNCTION_ARGS)
{
	char        tenant[MTR_TENANT_LEN];
	char        key[MTR_APIKEY_CHARS];
	uint8       random[MTR_APIKEY_RANDOM_BYTES];
	const char *secret;
	pg_uuid_t   id;
	int         version = mtr_pepper_newest();
	Datum       args[8];
	char        nulls[8];

	mtr_require_preload();
	mtr_check_admin("create_key");
	mtr_tenant_arg(fcinfo, 0, tenant);
	mtr_require_arg(fcinfo, 1, "name");
	mtr_require_open(mtr_tenant_pin(tenant));

	mtr_new_id(&id);
	if (!pg_strong_random(random, sizeof(random)))
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
						errmsg("could not generate random bytes")));
	mtr_apikey_format(id.data, random, key);
	explicit_bzero(random, sizeof(random));
	if (!mtr_apikey_parse(key, sizeof(key), id.data, &secret))
		elog(ERROR, "a new API key cannot be read back");

	memset(nulls, ' ', sizeof(nulls));
	args[0] = CStringGetTextDatum(tenant);
	args[1] = UUIDPGetDatum(&id);
	args[2] = PG_GETARG_DATUM(1);
	args[3] = hash_datum(secret, version);
	args[4] = Int32GetDatum(version);
	args[5] = scopes_datum(scopes_arg(fcinfo, 2));
	args[6] = PG_ARGISNULL(4)
				  ? TimestampTzGetDatum(GetCurrentTransactionStartTimestamp())
				  : PG_GETARG_DATUM(4);
	args[7] = PG_ARGISNULL(3) ? (Datum) 0 : PG_GETARG_DATUM(3);
	nulls[7] = PG_ARGISNULL(3) ? 'n' : ' ';

	SPI_connect();
	mtr_exec(&stmt_insert, args, nulls, MTR_SNAP_WRITE, 0);
	mtr_inval_changed();
	SPI_finish();
	PG_RETURN_TEXT_P(cstring_to_text_with_len(key, sizeof(key)));
}

/*
 * mortar.revoke_key(tenant text, key_id uuid) returns bool
 *
 * True when the key was live, false when it was revoked before.  Holds for
 * every gateway at the instant of commit.  Raises MT404 for an unknown key.
 */
Datum
mtr_revoke_key(PG_FUNCTION_ARGS)
{
	char      tenant[MTR_TENANT_LEN];
	pg_uuid_t key_id;
	Datum     args[2];
	bool      revoked;
	bool      exists;

	mtr_require_preload();
	mtr_check_admin("revoke_key");
	mtr_refuse_recovery();
	mtr_tenant_arg(fcinfo, 0, tenant);
	key_id = mtr_uuid_arg(fcinfo, 1, "key_id");
	mtr_key_invalidate_at_commit(&key_id);

	SPI_connect();
	args[0] = CStringGetTextDatum(tenant);
	args[1] = PG_GETARG_DATUM(1);
	mtr_exec(&stmt_revoke, args, NULL, MTR_SNAP_WRITE, 0);
	revoked = exists = SPI_processed > 0;
	if (!revoked)
	{
		mtr_exec(&stmt_exists, args, NULL, MTR_SNAP_WRITE, 1);
		exists = SPI_processed > 0;
	}
	SPI_finish();
	if (!exists)
		ereport(ERROR,
				(errcode(MTR_ERR_NOT_FOUND),
				 errmsg("tenant \"%s\" has no such key", tenant),
				 errhint("The view mortar.keys lists the keys of a tenant.")));
	PG_RETURN_BOOL(revoked);
}
