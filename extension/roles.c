/*
 * roles.c
 *		Mortar's roles: looking them up, becoming one, checking rights.
 *
 * Oids are cached per session and dropped when pg_authid changes, so that a
 * call switches roles without a catalog lookup.
 */
#include "mortar.h"

#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/inval.h"
#include "utils/syscache.h"

#include "tenant.h"

static const char *const role_names[MTR_ROLES] = {
	[MTR_ROLE_OWNER] = "mortar_owner",
	[MTR_ROLE_TENANT] = "mortar_tenant",
	[MTR_ROLE_GATEWAY] = "mortar_gateway",
	[MTR_ROLE_SERVICE] = "mortar_service",
	[MTR_ROLE_ADMIN] = "mortar_admin",
	[MTR_ROLE_MONITOR] = "mortar_monitor",
};

static Oid  role_oid[MTR_ROLES];
static bool callback_registered = false;

static void
forget_roles(Datum arg, int cacheid, uint32 hashvalue)
{
	memset(role_oid, 0, sizeof(role_oid));
}

Oid
mtr_role(MtrRole role)
{
	Assert(role < MTR_ROLES);
	if (!callback_registered)
	{
		CacheRegisterSyscacheCallback(AUTHOID, forget_roles, (Datum) 0);
		callback_registered = true;
	}
	if (!OidIsValid(role_oid[role]))
		role_oid[role] = get_role_oid(role_names[role], false);
	return role_oid[role];
}

void
mtr_become(MtrRole role, MtrUserSave *save)
{
	Oid oid = mtr_role(role);

	GetUserIdAndSecContext(&save->userid, &save->sec_context);
	if (save->userid != oid)
		SetUserIdAndSecContext(oid, save->sec_context |
										SECURITY_LOCAL_USERID_CHANGE);
}

void
mtr_unbecome(const MtrUserSave *save)
{
	SetUserIdAndSecContext(save->userid, save->sec_context);
}

bool
mtr_is_member(MtrRole role)
{
	return has_privs_of_role(GetUserId(), mtr_role(role));
}

void
mtr_check_tenant_right(const char *tenant, bool monitor_may)
{
	const char *context;

	if (GetUserId() == mtr_role(MTR_ROLE_OWNER) ||
		mtr_is_member(MTR_ROLE_ADMIN) ||
		(monitor_may && mtr_is_member(MTR_ROLE_MONITOR)))
		return;
	context = mtr_context_tenant();
	if (context != NULL && strcmp(context, tenant) == 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 context == NULL ? errmsg("permission denied: no tenant context")
							 : errmsg("permission denied for another tenant"),
			 errhint("Call mortar.login(credential) in this transaction, or "
					 "connect as a member of mortar_admin.")));
}

void
mtr_check_admin(const char *func)
{
	if (!mtr_is_member(MTR_ROLE_ADMIN))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for function mortar.%s", func),
				 errhint("Connect as a member of mortar_admin.")));
}
