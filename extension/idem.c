/*
 * idem.c
 *		Idempotency keys: the same call twice moves credits once.
 *
 * Users of one key are serialised by a lock of the lock manager that lasts to
 * the end of the transaction; behind it the key is stored, or found to be stored,
 * with a latest snapshot, so that a replay is recognised at every isolation level
 * and never ends in a serialization failure.  A call that fails takes its key with
 * it, so a key is not burnt by a 402.
 *
 * Locks are shared by the whole server, so a transaction takes LOCKED_KEYS of
 * them at most.  Its further keys rely on the unique index alone: who stores a
 * key second waits there, finds it stored and replays.  Under REPEATABLE READ the
 * wait ends in a serialization failure, which a subtransaction keeps to itself.
 */
#include "mortar.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/cryptohash.h"
#include "common/sha2.h"
#include "mb/pg_wchar.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/resowner.h"

#include "idem.h"
#include "life.h"
#include "locks.h"
#include "spi.h"

#define LOCKED_KEYS 256
#define MAX_KEY_CHARS 255

StaticAssertDecl(PG_SHA256_DIGEST_LENGTH >= MTR_FINGERPRINT_BYTES,
				 "a fingerprint is the beginning of a SHA-256");

static MtrStmt stmt_find_key = {
	.sql = "SELECT fingerprint, result FROM mortar.idempotency "
		   "WHERE tenant_id = $1 AND key = $2",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 2,
	.argtypes = {TEXTOID, TEXTOID},
};

static MtrStmt stmt_store_key = {
	.sql = "INSERT INTO mortar.idempotency "
		   "(tenant_id, key, fingerprint, result) VALUES ($1, $2, $3, $4) "
		   "ON CONFLICT (tenant_id, key) DO NOTHING",
	.role = MTR_ROLE_OWNER,
	.nargs = 4,
	.argtypes = {TEXTOID, TEXTOID, BYTEAOID, UUIDOID},
};

void
mtr_idem_arg(FunctionCallInfo fcinfo, int argno, const char *tenant,
			 MtrIdem *idem)
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
	idem->tenant = tenant;
	idem->key = key;
}

void
mtr_idem_fingerprint(MtrIdem *idem, const char *func, int64 amount,
					 const char *rest)
{
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA256);
	uint8              digest[PG_SHA256_DIGEST_LENGTH];
	char               head[64];
	int                len =
		snprintf(head, sizeof(head), "%s " INT64_FORMAT " ", func, amount);

	if (ctx == NULL || pg_cryptohash_init(ctx) < 0 ||
		pg_cryptohash_update(ctx, (const uint8 *) head, len) < 0 ||
		pg_cryptohash_update(ctx, (const uint8 *) rest, strlen(rest)) < 0 ||
		pg_cryptohash_final(ctx, digest, sizeof(digest)) < 0)
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
						errmsg("could not compute a fingerprint")));
	pg_cryptohash_free(ctx);
	memcpy(idem->fingerprint, digest, sizeof(idem->fingerprint));
}

static void
lock_key(const MtrIdem *idem)
{
	static LocalTransactionId lxid = InvalidLocalTransactionId;
	static int                taken;

	if (lxid != MTR_MY_LXID)
		taken = 0;
	lxid = MTR_MY_LXID;
	if (taken == LOCKED_KEYS)
		return;
	taken++;
	mtr_lock_part(MTR_LOCK_IDEMPOTENCY, idem->tenant, VARDATA_ANY(idem->key),
				  VARSIZE_ANY_EXHDR(idem->key), ExclusiveLock);
}

static bool
find_key(const MtrIdem *idem, pg_uuid_t *result)
{
	Datum  args[2];
	bool   isnull;
	bytea *stored;

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

bool
mtr_idem_replayed(const MtrIdem *idem, MtrTenant *t, pg_uuid_t *result)
{
	lock_key(idem);
	if (find_key(idem, result))
		return true;
	mtr_require_movable(t);
	return false;
}

/* false when it was stored before */
static bool
store_key(const MtrIdem *idem, const pg_uuid_t *result)
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
	return SPI_processed == 1;
}

/* the same, where waiting for somebody who stores it ends in 40001 */
static bool
try_store_key(const MtrIdem *idem, const pg_uuid_t *result)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool stored = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		stored = store_key(idem, result);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (error->sqlerrcode != ERRCODE_T_R_SERIALIZATION_FAILURE)
			ReThrowError(error);
		FreeErrorData(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return stored;
}

bool
mtr_idem_store(const MtrIdem *idem, pg_uuid_t *result)
{
	bool stored;

	mtr_new_id(result);
	/* whether somebody is at it without a lock cannot be known */
	stored = XactIsoLevel == XACT_REPEATABLE_READ ? try_store_key(idem, result)
												  : store_key(idem, result);

	if (stored)
		return true;
	if (!find_key(idem, result))
		elog(ERROR, "an idempotency key is stored and cannot be found");
	return false;
}

bool
mtr_idem_claim(const MtrIdem *idem, MtrTenant *t, pg_uuid_t *result)
{
	/* who may not write now still gets what the key has returned */
	if (XactReadOnly || !mtr_is_movable(t))
	{
		if (mtr_idem_replayed(idem, t, result))
			return false;
	}
	else
		lock_key(idem);
	return mtr_idem_store(idem, result);
}
