/*
 * price.c
 *		mortar.set_price: adding a version to the price book.
 *
 * Rows of mortar.prices are never changed.  A price that holds from now on gets a
 * valid_from later than that of any version of its scope that is in force, also
 * when the clock was set back; one for later comes into force by itself; one
 * for earlier counts as of now, unless a later version is in force.  Nothing
 * that was counted is priced again: usage remembers the price it was counted
 * under.
 *
 * Locking: none.  Two who set a price of one scope at once get two rows, of
 * which the one with the later valid_from holds.
 */
#include "mortar.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "http.h"
#include "inval.h"
#include "price.h"
#include "slot.h"
#include "spi.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(mtr_set_price);

enum
{
	ARG_METER,
	ARG_NUM,
	ARG_PER,
	ARG_ROUTE,
	ARG_TENANT,
	ARG_VALID_FROM
};

/* $7: valid_from, null: from now on; $8: now */
static MtrStmt stmt_insert = {
	.sql = "INSERT INTO mortar.prices (price_id, meter, route, tenant_id, "
		   "  num_uc, per_units, valid_from, set_at) "
		   "SELECT $1, $2, $3, $4, $5, $6, coalesce($7, t), "
		   "  CASE WHEN $7 IS NULL THEN t ELSE $8 END "
		   "FROM (SELECT greatest($8, "
		   "    max(valid_from) + '1 us'::pg_catalog.interval) AS t "
		   "  FROM mortar.prices WHERE meter = $2 "
		   "    AND coalesce(tenant_id, '') = coalesce($4, '') "
		   "    AND coalesce(route, '') = coalesce($3, '') "
		   "    AND valid_from <= greatest(set_at, $8)) now",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 8,
	.argtypes = {UUIDOID, TEXTOID, TEXTOID, TEXTOID, INT8OID, INT8OID,
				 TIMESTAMPTZOID, TIMESTAMPTZOID},
};

static void
check_amounts(FunctionCallInfo fcinfo)
{
	int64 num;

	if (PG_ARGISNULL(ARG_NUM) || PG_ARGISNULL(ARG_PER))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("num_uc and per_units must not be null")));
	num = PG_GETARG_INT64(ARG_NUM);
	if (num < 0 || num > MTR_MAX_AMOUNT_UC || PG_GETARG_INT64(ARG_PER) <= 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("num_uc must be 0 or more, per_units 1 or more"),
						errdetail("The largest num_uc is " INT64_FORMAT ".",
								  MTR_MAX_AMOUNT_UC)));
}

static void
check_route(FunctionCallInfo fcinfo)
{
	char *template;
	const MtrRoute *route;

	if (PG_ARGISNULL(ARG_ROUTE))
		return;
	template = text_to_cstring(PG_GETARG_TEXT_PP(ARG_ROUTE));
	route = mtr_route_named(template);
	if (route == NULL)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("there is no route \"%s\"", template),
						errhint("A route is a method and a path of the view "
								"mortar.routes, as \"%s\".",
								mtr_route_template(1))));
	if (!route->gated)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("calls of the route \"%s\" are free", template),
						errhint("Prices hold for routes that are gated, see "
								"the view mortar.routes.")));
}

/* raises MT404 */
static void
check_tenant(FunctionCallInfo fcinfo)
{
	char tenant[MTR_TENANT_LEN];

	if (PG_ARGISNULL(ARG_TENANT))
		return;
	mtr_tenant_arg(fcinfo, ARG_TENANT, tenant);
	mtr_xact_unpin_unused(mtr_tenant_pin(tenant));
}

/* true when the price holds from another time on than now */
static bool
has_time(FunctionCallInfo fcinfo)
{
	TimestampTz t;

	mtr_require_arg(fcinfo, ARG_VALID_FROM, "valid_from");
	t = PG_GETARG_TIMESTAMPTZ(ARG_VALID_FROM);
	if (TIMESTAMP_NOT_FINITE(t))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("valid_from must not be infinite")));
	return t != GetCurrentTransactionStartTimestamp();
}

/*
 * mortar.set_price(meter text, num_uc int8, per_units int8, route text,
 *					tenant text, valid_from timestamptz) returns uuid
 *
 * 0 to 2^61 - 1 micro-credits per per_units >= 1 units.  Takes effect for calls
 * that start after the commit, and from valid_from on.  Raises 22004 for null
 * where a value is needed, 22023 for values out of range, routes that do not
 * exist or are free, and an infinite valid_from, MT404.
 */
Datum
mtr_set_price(PG_FUNCTION_ARGS)
{
	MtrMeter  meter;
	pg_uuid_t id;
	Datum     args[8];
	char      nulls[8];

	mtr_require_preload();
	mtr_check_admin("set_price");
	mtr_refuse_recovery();
	meter = mtr_meter_arg(fcinfo, ARG_METER);
	check_amounts(fcinfo);
	check_route(fcinfo);
	memset(nulls, ' ', sizeof(nulls));
	nulls[2] = PG_ARGISNULL(ARG_ROUTE) ? 'n' : ' ';
	nulls[3] = PG_ARGISNULL(ARG_TENANT) ? 'n' : ' ';
	nulls[6] = has_time(fcinfo) ? ' ' : 'n';
	check_tenant(fcinfo);

	mtr_new_id(&id);
	args[0] = UUIDPGetDatum(&id);
	args[1] = CStringGetTextDatum(mtr_meter_name(meter));
	args[2] = PG_GETARG_DATUM(ARG_ROUTE);
	args[3] = PG_GETARG_DATUM(ARG_TENANT);
	args[4] = PG_GETARG_DATUM(ARG_NUM);
	args[5] = PG_GETARG_DATUM(ARG_PER);
	args[6] = PG_GETARG_DATUM(ARG_VALID_FROM);
	args[7] = TimestampTzGetDatum(mtr_price_now(mtr_db()));
	SPI_connect();
	mtr_exec(&stmt_insert, args, nulls, MTR_SNAP_WRITE, 0);
	SPI_finish();
	mtr_inval_price_changed(mtr_db());
	PG_RETURN_DATUM(mtr_uuid_datum(&id));
}
