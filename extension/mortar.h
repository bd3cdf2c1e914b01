/*
 * mortar.h
 *		What every file of the extension shares: names, limits, roles, errors.
 *
 * Layers, top to bottom; a file includes only what stands below it:
 *
 *		http.c, handlers		one HTTP call
 *		ledger.c hold.c usage.c	SQL functions about money and usage
 *		release.c movement.c	movements that others follow
 *		auth.c keys.c tenant.c	who is calling
 *		gate.c meter.c			taking credits, counting usage
 *		reserve.c				the same for an answer that is sent in pieces
 *		slot.c xact.c			tenants in shared memory, end of transaction
 *		reservation.c			what is reserved there
 *		shmem.c spi.c guc.c		memory, kept plans, settings
 *		locks.c untimed.c		the lock manager's locks, a statement's time limits
 *		core/					plain C without postgres.h
 */
#ifndef MORTAR_H
#define MORTAR_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "fmgr.h"
#include "utils/uuid.h"

#include "compat.h"
#include "contract.h"

/* a tenant id with its terminating NUL; the pattern allows 63 characters */
#define MTR_TENANT_LEN 64

/*
 * The largest balance, and the largest single amount.  A quarter of int8:
 * a balance, what is on its way in and what may be given back fit together
 * in an int64 whatever the order of commits and aborts.
 */
#define MTR_MAX_AMOUNT_UC (PG_INT64_MAX / 4)

/* the largest quantity that one priced counter may reach */
#define MTR_MAX_QUANTITY (PG_INT64_MAX / 4)

typedef enum MtrMeter
{
	MTR_METER_REQUESTS,
	MTR_METER_EGRESS_BYTES,
	MTR_METERS
} MtrMeter;

typedef enum MtrRole
{
	MTR_ROLE_OWNER,
	MTR_ROLE_TENANT,
	MTR_ROLE_GATEWAY,
	MTR_ROLE_SERVICE,
	MTR_ROLE_ADMIN,
	MTR_ROLE_MONITOR,
	MTR_ROLES
} MtrRole;

/* SQLSTATE class MT, see contract.h: the HTTP status is in the code */
#define MTR_SQLSTATE(a, b, c) MAKE_SQLSTATE('M', 'T', a, b, c)
#define MTR_ERR_BAD_REQUEST MTR_SQLSTATE('4', '0', '0')
#define MTR_ERR_CREDIT MTR_SQLSTATE('4', '0', '2')
#define MTR_ERR_FORBIDDEN MTR_SQLSTATE('4', '0', '3')
#define MTR_ERR_NOT_FOUND MTR_SQLSTATE('4', '0', '4')
#define MTR_ERR_CONFLICT MTR_SQLSTATE('4', '0', '9')
#define MTR_ERR_MEDIA_TYPE MTR_SQLSTATE('4', '1', '5')
#define MTR_ERR_INVALID MTR_SQLSTATE('4', '2', '2')
#define MTR_ERR_FROZEN MTR_SQLSTATE('4', '2', '3')

/* roles.c */

/*
 * Oid of one of Mortar's roles; raises 42704 when it is missing.  Cached for
 * the session, dropped by the syscache when pg_authid changes.
 */
extern Oid mtr_role(MtrRole role);

/*
 * Run what follows as another of Mortar's roles, and back.  Only
 * SECURITY_LOCAL_USERID_CHANGE is set.  An error needs no cleanup: aborting
 * the (sub)transaction restores the user.
 */
typedef struct MtrUserSave
{
	Oid userid;
	int sec_context;
} MtrUserSave;
extern void mtr_become(MtrRole role, MtrUserSave *save);
extern void mtr_unbecome(const MtrUserSave *save);

/* is the current user a member of the role (superusers are)? */
extern bool mtr_is_member(MtrRole role);

/*
 * The rule for functions that take a tenant and that tenants may call for
 * themselves: members of mortar_admin (and of mortar_monitor where
 * monitor_may) may name any tenant; everybody else only the tenant of the
 * context.	Raises 42501.
 */
extern void mtr_check_tenant_right(const char *tenant, bool monitor_may);

/* members of mortar_admin only, else 42501; func names the function */
extern void mtr_check_admin(const char *func);

/* util.c */

/* a new time-ordered id (UUIDv7) */
extern void mtr_new_id(pg_uuid_t *id);

/*
 * Milliseconds on a clock that nobody sets: what deadlines and back-offs are
 * measured by.
 */
extern int64 mtr_now_ms(void);

/*
 * The minute that a time lies in, counted from the Unix epoch, and the time at
 * which a minute begins.  Arithmetic only: they cannot fail.
 */
extern int32       mtr_minute_of(TimestampTz time);
extern TimestampTz mtr_time_of_minute(int32 minute);

/* palloc'd pg_uuid_t as a Datum, and as text */
extern Datum mtr_uuid_datum(const pg_uuid_t *id);
extern char *mtr_uuid_string(const pg_uuid_t *id);

/* an array of n elements of type text, uuid, timestamptz or int8 */
extern Datum mtr_array(Datum *d, int n, Oid type);

/* raises 22004 when the argument is null, and calls it by its name */
extern void
mtr_require_arg(FunctionCallInfo fcinfo, int argno, const char *name);

/* a uuid argument, with that */
extern pg_uuid_t
mtr_uuid_arg(FunctionCallInfo fcinfo, int argno, const char *name);

/*
 * A tenant id argument as C string in buf[MTR_TENANT_LEN]; raises 22004 when
 * null and 22023 when it does not match the pattern.
 */
extern void mtr_tenant_arg(FunctionCallInfo fcinfo, int argno, char *buf);

/* the meter's number; raises 22023 for an unknown name */
extern MtrMeter    mtr_meter_arg(FunctionCallInfo fcinfo, int argno);
extern const char *mtr_meter_name(MtrMeter meter);

/*
 * Raises 25006 during recovery.  A standby must not fill its caches: nothing
 * tells it of later changes, and it may be promoted with them.
 */
extern void mtr_refuse_recovery(void);

/* raises 55000 with the remedy when the library was not preloaded */
extern void mtr_require_preload(void);

#endif /* MORTAR_H */
