/*
 * hold.c
 *		Holds: credits that are set aside now and used up, or given back, later.
 *
 * A hold takes like a charge, at once, and the ledger says from which grants.	A
 * capture uses up what was held, from its first part on, and gives back the rest; what
 * it needs beyond the hold it takes like a charge.  The rows that resolve a hold
 * refer to it by "reverses", so a hold without such rows is open; holds are
 * never changed.
 *
 * Locking: who resolves a hold, or looks whether it is, has locked its row to the end of
 * the transaction, which takes no room in the server's lock table.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "expire.h"
#include "idem.h"
#include "life.h"
#include "movement.h"
#include "release.h"
#include "slot.h"
#include "spi.h"

#define MAX_TTL_DAYS 366

PG_FUNCTION_INFO_V1(mtr_hold);
PG_FUNCTION_INFO_V1(mtr_capture);
PG_FUNCTION_INFO_V1(mtr_void_hold);

static MtrStmt stmt_insert = {
	.sql = "INSERT INTO mortar.credit_holds (tenant_id, hold_id, amount_uc, "
		   "expires_at, meta) VALUES ($1, $2, $3, $4, $5)",
	.role = MTR_ROLE_OWNER,
	.nargs = 5,
	.argtypes = {TEXTOID, UUIDOID, INT8OID, TIMESTAMPTZOID, JSONBOID},
};

static MtrStmt stmt_lock = {
	.sql = "SELECT FROM mortar.credit_holds "
		   "WHERE tenant_id = $1 AND hold_id = $2 FOR UPDATE",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 2,
	.argtypes = {TEXTOID, UUIDOID},
};

/* a capture's rows come before that of the rest, which it releases */
static MtrStmt stmt_find = {
	.sql = "SELECT h.amount_uc, h.expires_at, r.kind, r.expired "
		   "FROM mortar.credit_holds h LEFT JOIN LATERAL ("
		   "  SELECT kind, meta ? 'expired' AS expired"
		   "  FROM mortar.credit_ledger"
		   "  WHERE tenant_id = $1 AND reverses = $2"
		   "  ORDER BY kind LIMIT 1) r ON true "
		   "WHERE h.tenant_id = $1 AND h.hold_id = $2",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 2,
	.argtypes = {TEXTOID, UUIDOID},
};

/* a call that resolves a hold */
typedef struct Resolve
{
	char        tenant[MTR_TENANT_LEN];
	pg_uuid_t   hold_id;
	int64       amount; /* to capture */
	MtrIdem     idem;
	MtrTenant  *t;
	TimestampTz now; /* the instant at which it was open */
} Resolve;

/* ---- hold ---- */

static Interval *
ttl_arg(FunctionCallInfo fcinfo, int argno)
{
	Interval *ttl;
	Interval  max = {.day = MAX_TTL_DAYS};
	Interval  zero = {0};

	mtr_require_arg(fcinfo, argno, "ttl");
	ttl = PG_GETARG_INTERVAL_P(argno);
	if (!DatumGetBool(DirectFunctionCall2(interval_gt, IntervalPGetDatum(ttl),
										  IntervalPGetDatum(&zero))) ||
		DatumGetBool(DirectFunctionCall2(interval_gt, IntervalPGetDatum(ttl),
										 IntervalPGetDatum(&max))))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("ttl must be above 0 and at most %d days",
							   MAX_TTL_DAYS)));
	return ttl;
}

static TimestampTz
expiry(MtrTenant *t, const Interval *ttl)
{
	TimestampTz now = mtr_hold_clock(t);
	TimestampTz end;

	end = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval,
												  TimestampTzGetDatum(now),
												  IntervalPGetDatum(ttl)));
	/* '1 month -28 days' may be nothing */
	if (end <= now)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("ttl must be above 0 and at most %d days",
							   MAX_TTL_DAYS)));
	return end;
}

static void
place_hold(MtrTenant *t, MtrEntry *e, TimestampTz expires_at, Datum meta,
		   const pg_uuid_t *hold_id)
{
	MtrPaid      paid;
	MtrShortfall s;
	Datum        args[5];

	if (!mtr_take_all(t, e->amount_uc, DT_NOEND, &paid, &s))
		mtr_raise_short(&s);
	mtr_hold_begin(t, e->amount_uc, expires_at);
	args[0] = CStringGetTextDatum(e->tenant);
	args[1] = UUIDPGetDatum(hold_id);
	args[2] = Int64GetDatum(e->amount_uc);
	args[3] = TimestampTzGetDatum(expires_at);
	args[4] = meta;
	mtr_exec(&stmt_insert, args, NULL, MTR_SNAP_LATEST, 0);
	mtr_post_parts(t, e, &paid, hold_id);
	mtr_tidy_holds(t);
}

/*
 * mortar.hold(tenant text, amount_uc int8, ttl interval, key text, meta jsonb)
 *		returns uuid
 *
 * Sets credits aside for ttl, 366 days at most; then they are free again by
 * themselves.	Returns the hold's id.	Raises 22003, 22004, 22023, MT402, MT403 when
 * the tenant is closed, MT404, MT422, MT423.
 */
Datum
mtr_hold(PG_FUNCTION_ARGS)
{
	char       tenant[MTR_TENANT_LEN];
	MtrIdem    idem;
	MtrEntry   entry = {.tenant = tenant, .kind = "hold", .to = "held"};
	Interval  *ttl;
	Datum      meta;
	char      *rest;
	MtrTenant *t;
	pg_uuid_t  hold_id;

	mtr_require_preload();
	mtr_check_admin("hold");
	mtr_tenant_arg(fcinfo, 0, tenant);
	entry.amount_uc = mtr_amount_arg(fcinfo, 1);
	ttl = ttl_arg(fcinfo, 2);
	mtr_idem_arg(fcinfo, 3, tenant, &idem);
	meta = PG_ARGISNULL(4)
			   ? DirectFunctionCall1(jsonb_in, CStringGetDatum("{}"))
			   : PG_GETARG_DATUM(4);
	rest =
		psprintf("%d %d " INT64_FORMAT " %s", ttl->month, ttl->day, ttl->time,
				 DatumGetCString(DirectFunctionCall1(jsonb_out, meta)));
	mtr_idem_fingerprint(&idem, "hold", entry.amount_uc, rest);

	t = mtr_tenant_pin(tenant);
	SPI_connect();
	if (mtr_idem_claim(&idem, t, &hold_id))
		place_hold(t, &entry, expiry(t, ttl), meta, &hold_id);
	SPI_finish();
	PG_RETURN_DATUM(mtr_uuid_datum(&hold_id));
}

/* ---- capture and void ---- */

/* raises MT409 for a hold that is resolved; row 0 is that of stmt_find */
static void
refuse_resolved(bool has_expired)
{
	const char *kind = mtr_cell(0, 3);
	const char *expired = mtr_cell(0, 4);

	if (kind == NULL ? has_expired : strcmp(expired, "t") == 0)
		mtr_refuse(MTR_ERR_CONFLICT, "hold_expired", "the hold has expired");
	if (kind == NULL)
		return;
	if (strcmp(kind, "capture") == 0)
		mtr_refuse(MTR_ERR_CONFLICT, "hold_resolved",
				   "the hold is already resolved: it was captured");
	mtr_refuse(MTR_ERR_CONFLICT, "hold_resolved",
			   "the hold is already resolved: it was voided");
}

/* locks the hold, proves that it is open, and reads what is held */
static void
open_hold(Resolve *r, MtrSources *held)
{
	bool        isnull;
	TimestampTz expires_at;

	if (!mtr_find(&stmt_lock, r->tenant, &r->hold_id))
		mtr_refuse(MTR_ERR_NOT_FOUND, "no_such_hold", "there is no such hold");
	(void) mtr_find(&stmt_find, r->tenant, &r->hold_id);
	expires_at = DatumGetTimestampTz(mtr_first(2, &isnull));
	r->now = mtr_hold_clock(r->t);
	refuse_resolved(expires_at <= r->now);
	mtr_sources_read(r->tenant, &r->hold_id, "held", held);
}

/* what of the hold is used up, from its first part on */
static void
use_up(const MtrSources *held, int64 amount, MtrRows *rows)
{
	for (int i = 0; i < held->n && amount > 0; i++)
	{
		const MtrSource *s = &held->source[i];
		int64            part = Min(amount, s->amount);

		mtr_rows_add(rows, "capture", "held", "consumed",
					 s->of_grant ? &s->grant_id : NULL, part);
		amount -= part;
	}
}

/*
 * What is captured beyond the hold.  The hold itself may expire meanwhile, and must
 * not be released for it.
 */
static void
use_more(const Resolve *r, int64 amount, MtrRows *rows)
{
	MtrTenant   *t = r->t;
	MtrPaid      paid;
	MtrShortfall s;

	if (!mtr_take_all(t, amount, r->now, &paid, &s))
		mtr_raise_short(&s);
	for (int i = 0; i < paid.n; i++)
	{
		pg_uuid_t grant_id = mtr_part_grant(t, &paid.part[i]);

		mtr_rows_add(rows, "capture", mtr_part_account(&paid.part[i]),
					 "consumed",
					 paid.part[i].cell < MTR_PURSE_CELLS ? &grant_id : NULL,
					 paid.part[i].amount);
	}
}

static void
capture(Resolve *r, const pg_uuid_t *movement_id)
{
	MtrRows    rows = {.like = {.tenant = r->tenant, .reverses = &r->hold_id}};
	MtrSources held;

	open_hold(r, &held);
	use_up(&held, r->amount, &rows);
	if (r->amount > held.total)
		use_more(r, r->amount - held.total, &rows);
	else if (r->amount < held.total)
		mtr_give_back(r->t, &held, 0, held.total - r->amount, "release", "held",
					  &rows);
	mtr_hold_end(r->t, held.total);
	mtr_rows_post(r->t, &rows, movement_id);
}

static void
void_hold(Resolve *r, const pg_uuid_t *movement_id)
{
	MtrRows    rows = {.like = {.tenant = r->tenant, .reverses = &r->hold_id}};
	MtrSources held;

	open_hold(r, &held);
	mtr_give_back(r->t, &held, 0, held.total, "release", "held", &rows);
	mtr_hold_end(r->t, held.total);
	mtr_rows_post(r->t, &rows, movement_id);
}

static Datum
resolve(FunctionCallInfo fcinfo, const char *func, int key_arg,
		void (*do_it)(Resolve *r, const pg_uuid_t *movement_id))
{
	Resolve   r;
	pg_uuid_t movement_id;

	mtr_require_preload();
	mtr_check_admin(func);
	mtr_tenant_arg(fcinfo, 0, r.tenant);
	r.hold_id = mtr_uuid_arg(fcinfo, 1, "hold_id");
	r.amount = key_arg > 2 ? mtr_amount_arg(fcinfo, 2) : 0;
	mtr_idem_arg(fcinfo, key_arg, r.tenant, &r.idem);
	mtr_idem_fingerprint(&r.idem, func, r.amount, mtr_uuid_string(&r.hold_id));

	r.t = mtr_tenant_pin(r.tenant);
	SPI_connect();
	if (mtr_idem_claim(&r.idem, r.t, &movement_id))
		do_it(&r, &movement_id);
	SPI_finish();
	PG_RETURN_DATUM(mtr_uuid_datum(&movement_id));
}

/*
 * mortar.capture(tenant text, hold_id uuid, amount_uc int8, key text) returns uuid
 *
 * Uses up what is held.  Less than that: the rest is free again.  More: the
 * excess is taken like a charge, and when it is not there the hold stays as it is
 * (MT402).	 Returns the movement's id, which mortar.reverse() takes.  Raises
 * 22003, 22004, 22023, MT402, MT403 when the tenant is closed, MT404, MT409 when the hold
 * is resolved or has expired, MT422, MT423.
 */
Datum
mtr_capture(PG_FUNCTION_ARGS)
{
	return resolve(fcinfo, "capture", 3, capture);
}

/*
 * mortar.void_hold(tenant text, hold_id uuid, key text) returns uuid
 *
 * Gives back what is held.	 Returns the movement's id.	 Raises 22004, 22023, MT403 when
 * the tenant is closed, MT404, MT409 when the hold is resolved or has expired, MT422,
 * MT423.
 */
Datum
mtr_void_hold(PG_FUNCTION_ARGS)
{
	return resolve(fcinfo, "void_hold", 2, void_hold);
}
