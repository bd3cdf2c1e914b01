/*
 * tenant.c
 *		The tenant context of a transaction.
 *
 * A C static that no SQL statement can write.	It counts only while the
 * transaction that set it runs: a valid local transaction id that still is this
 * backend's.  The callbacks in xact.c clear it when the transaction ends, or
 * when the subtransaction that set it aborts; the check of the transaction id
 * stands behind them as a second line.
 *
 * The context is mirrored in shared memory, one entry per backend, written by
 * its owner before a parallel plan can start and read by that plan's workers
 * only, which run while the leader waits or reads beside them: no lock.
 *
 * Ways in: mortar.http (http.c), mortar.login and mortar.enter below.
 */
#include "mortar.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/builtins.h"

#include "auth.h"
#include "life.h"
#include "shmem.h"
#include "slot.h"
#include "tenant.h"
#include "xact.h"

/* what a SQL user with a tenant context can do, whatever the key was made for */
#define LOGIN_SCOPES                                                           \
	(MTR_SCOPE_TABLES_READ | MTR_SCOPE_TABLES_WRITE | MTR_SCOPE_ROWS_READ |    \
	 MTR_SCOPE_ROWS_WRITE | MTR_SCOPE_USAGE)

typedef struct Context
{
	LocalTransactionId lxid; /* invalid: no context */
	int                nest_level;
	pg_uuid_t          key_id;
	char               tenant_id[MTR_TENANT_LEN];
} Context;

static Context context;

PG_FUNCTION_INFO_V1(mtr_tenant_id);
PG_FUNCTION_INFO_V1(mtr_enter);
PG_FUNCTION_INFO_V1(mtr_login);

static void
mirror(void)
{
	MtrContextMirror *m = &MtrMirrors[MTR_MY_PROCNO];

	m->lxid = context.lxid;
	memcpy(m->tenant_id, context.tenant_id, MTR_TENANT_LEN);
}

const char *
mtr_context_tenant(void)
{
	if (!LocalTransactionIdIsValid(context.lxid) || MyProc == NULL ||
		context.lxid != MTR_MY_LXID)
		return NULL;
	return context.tenant_id;
}

const char *
mtr_context_of_leader(void)
{
	PGPROC           *leader = MyProc->lockGroupLeader;
	MtrContextMirror *m;

	if (MtrShared == NULL)
		return NULL;
	if (leader == NULL)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("the tenant context is not known in this "
							   "parallel worker")));
	m = &MtrMirrors[MTR_PROCNO_OF(leader)];
	return LocalTransactionIdIsValid(m->lxid) ? m->tenant_id : NULL;
}

void
mtr_context_set(const char *tenant, const pg_uuid_t *key_id)
{
	const char *now = mtr_context_tenant();

	Assert(MtrShared != NULL);
	if (IsInParallelMode())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot set the tenant context during a parallel "
						"operation")));
	Assert(strlen(tenant) < MTR_TENANT_LEN);

	if (now != NULL && strcmp(now, tenant) != 0)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("this transaction already has a tenant context"),
						errhint("One transaction serves one tenant: COMMIT or "
								"ROLLBACK first.")));
	if (now != NULL)
		return;

	/* the whole field is zeroed, so that mirror() copies nothing stale */
	memset(&context, 0, sizeof(context));
	strlcpy(context.tenant_id, tenant, MTR_TENANT_LEN);
	if (key_id != NULL)
		context.key_id = *key_id;
	context.nest_level = GetCurrentTransactionNestLevel();
	context.lxid = MTR_MY_LXID;
	mirror();
}

static void
clear(void)
{
	context.lxid = InvalidLocalTransactionId;
	if (MtrMirrors != NULL && MyProc != NULL)
		MtrMirrors[MTR_MY_PROCNO].lxid = InvalidLocalTransactionId;
}

void
mtr_context_end_xact(void)
{
	if (LocalTransactionIdIsValid(context.lxid))
		clear();
}

void
mtr_context_end_subxact(bool is_commit, int nest_level)
{
	if (!LocalTransactionIdIsValid(context.lxid) ||
		context.nest_level < nest_level)
		return;
	if (is_commit)
		context.nest_level = nest_level - 1;
	else
		clear();
}

/*
 * mortar.tenant_id() returns text
 *
 * NULL without a context and when the library is not preloaded, so that
 * policies then show no rows instead of failing.
 */
Datum
mtr_tenant_id(PG_FUNCTION_ARGS)
{
	const char *tenant;

	tenant =
		IsParallelWorker() ? mtr_context_of_leader() : mtr_context_tenant();
	if (tenant == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(tenant));
}

/*
 * Outside a transaction block the context would end with this statement and
 * protect nothing.
 */
static void
require_block(const char *func)
{
	if (!IsTransactionBlock())
		ereport(
			ERROR,
			(errcode(ERRCODE_NO_ACTIVE_SQL_TRANSACTION),
			 errmsg("mortar.%s can only be used in a transaction block", func),
			 errhint("Start the transaction with BEGIN; the context lasts "
					 "until its end.")));
}

/* the tenant exists and may call */
static void
require_callable(const char *tenant)
{
	MtrTenant *t = mtr_tenant_pin(tenant);

	mtr_require_active(t);
	mtr_xact_unpin_unused(t);
}

/*
 * mortar.enter(tenant text) returns void
 *
 * For the product's own back end, which has proven by other means for whom it
 * works: EXECUTE is granted to mortar_service only.
 */
Datum
mtr_enter(PG_FUNCTION_ARGS)
{
	char tenant[MTR_TENANT_LEN];

	mtr_require_preload();
	mtr_refuse_recovery();
	mtr_tenant_arg(fcinfo, 0, tenant);
	require_block("enter");
	require_callable(tenant);
	mtr_context_set(tenant, NULL);
	PG_RETURN_VOID();
}

/*
 * mortar.login(credential text) returns text
 *
 * Sets the context of the key's tenant and returns its id.	 The credential
 * belongs in a bind parameter: a literal would stand in logs.
 */
Datum
mtr_login(PG_FUNCTION_ARGS)
{
	MtrIdentity who;
	text       *token;
	MtrAuth     auth;

	mtr_require_preload();
	mtr_refuse_recovery();
	mtr_require_arg(fcinfo, 0, "credential");
	require_block("login");
	token = PG_GETARG_TEXT_PP(0);
	auth = mtr_authenticate(VARDATA_ANY(token), VARSIZE_ANY_EXHDR(token), &who);
	if (auth == MTR_AUTH_NO_PEPPER)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("API keys cannot be checked: no pepper is loaded"),
				 errhint("Set mortar.pepper_file and reload the server.")));
	if (auth != MTR_AUTH_OK)
		ereport(ERROR, (errcode(ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION),
						errmsg("invalid or expired API key")));
	if ((who.scopes & LOGIN_SCOPES) != LOGIN_SCOPES)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("the API key may not be used for SQL"),
				 errhint("SQL gives a tenant all of tables:read, tables:write, "
						 "rows:read, rows:write and usage; the key must have "
						 "these scopes.")));
	require_callable(who.tenant_id);
	mtr_context_set(who.tenant_id, &who.key_id);
	PG_RETURN_TEXT_P(cstring_to_text(who.tenant_id));
}
