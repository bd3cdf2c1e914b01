/*
 * usage.c
 *		Usage in SQL; record_usage.
 *
 * Everything that reads usage takes one registered snapshot, reads tables with
 * it, and adds what memory holds beyond it (unflushed.c).	If a tenant or a usage
 * slot left memory meanwhile, what it held is in tables that the snapshot may
 * not see: then the reader starts again with a new snapshot.
 *
 * A standby has nothing in memory: there tables are all that is read, and no
 * tenant is pinned.
 */
#include "mortar.h"

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "gate.h"
#include "http.h"
#include "life.h"
#include "release.h"
#include "slot.h"
#include "stored.h"
#include "spi.h"
#include "sync.h"
#include "usage.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(mtr_usage);
PG_FUNCTION_INFO_V1(mtr_record_usage);

/*
 * What waits in usage_sync, at what it will cost in the journal if nothing comes in
 * between: the walk of its price goes on from there (unflushed.c goes on from here).
 */
#define QUEUE_ROWS                                                             \
	"WITH waiting AS ("                                                        \
	"  SELECT meter, key_id, route, price_id, minute, sum(qty) AS qty"         \
	"  FROM mortar.usage_sync WHERE tenant_id = $1"                            \
	"  GROUP BY meter, key_id, route, price_id, minute), "                     \
	"priced AS ("                                                              \
	"  SELECT w.price_id, p.num_uc, p.per_units,"                              \
	"    (SELECT coalesce(sum(upto_qty), 0) FROM mortar.usage_marks m"         \
	"      WHERE m.tenant_id = $1 AND m.price_id = w.price_id) AS before"      \
	"  FROM (SELECT DISTINCT price_id FROM waiting) w"                         \
	"  JOIN mortar.prices p ON p.price_id = w.price_id), "                     \
	"walked AS ("                                                              \
	"  SELECT w.*, p.num_uc, p.per_units, p.before + sum(w.qty) OVER ("        \
	"    PARTITION BY w.price_id ORDER BY w.minute, w.meter, w.route,"         \
	"      w.key_id) AS upto"                                                  \
	"  FROM waiting w LEFT JOIN priced p ON p.price_id = w.price_id) "         \
	"SELECT meter, key_id, route, minute, qty::pg_catalog.int8,"               \
	"  coalesce(div(upto * num_uc, per_units)"                                 \
	"    - div((upto - qty) * num_uc, per_units), 0)::pg_catalog.int8 "        \
	"FROM walked"

/*
 * Memory's part comes in as arrays.  Dimensions that $4 does not name are
 * null.  Minutes are cut by [$2, $3).
 */
#define USAGE_ROWS                                                             \
	"(SELECT meter, key_id, route, minute, upto_qty - from_qty AS qty, "       \
	"   cost_uc FROM mortar.usage_journal "                                    \
	"   WHERE tenant_id = $1 AND minute >= $2 AND minute < $3 "                \
	" UNION ALL SELECT * FROM (" QUEUE_ROWS ") AS q "                          \
	"   WHERE minute >= $2 AND minute < $3 "                                   \
	" UNION ALL SELECT * FROM unnest($4, $5, $6, $7, $8, $9) "                 \
	"   AS m (meter, key_id, route, minute, qty, cost_uc) "                    \
	"   WHERE minute >= $2 AND minute < $3) AS u "

static MtrStmt stmt_usage = {
	.sql = "SELECT CASE WHEN 'meter' = ANY ($10) THEN meter END, "
		   "  CASE WHEN 'key' = ANY ($10) THEN nullif(key_id, "
		   "    '00000000-0000-0000-0000-000000000000') END, "
		   "  CASE WHEN 'route' = ANY ($10) THEN nullif(route, '') END, "
		   "  CASE WHEN $11 <> '' THEN date_trunc($11, minute, $12) END, "
		   "  sum(qty)::pg_catalog.int8, sum(cost_uc)::pg_catalog.int8 "
		   "FROM " USAGE_ROWS "GROUP BY 1, 2, 3, 4 ORDER BY 4, 1, 3, 2",
	.role = MTR_ROLE_OWNER,
	.nargs = 12,
	.argtypes = {TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TEXTARRAYOID,
				 UUIDARRAYOID, TEXTARRAYOID, TIMESTAMPTZARRAYOID, INT8ARRAYOID,
				 INT8ARRAYOID, TEXTARRAYOID, TEXTOID, TEXTOID},
};

static MtrStmt stmt_totals = {
	.sql = "SELECT meter, sum(qty)::pg_catalog.int8, "
		   "sum(cost_uc)::pg_catalog.int8 FROM " USAGE_ROWS "GROUP BY meter",
	.role = MTR_ROLE_OWNER,
	.nargs = 9,
	.argtypes = {TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TEXTARRAYOID,
				 UUIDARRAYOID, TEXTARRAYOID, TIMESTAMPTZARRAYOID, INT8ARRAYOID,
				 INT8ARRAYOID},
};

/* memory's part as six arrays, args[0..5] */
static void
arrays_of(const MtrUnflushed *u, int n, Datum *args)
{
	Datum *col[6];

	for (int c = 0; c < 6; c++)
		col[c] = palloc(Max(n, 1) * sizeof(Datum));
	for (int i = 0; i < n; i++)
	{
		col[0][i] =
			CStringGetTextDatum(mtr_meter_name((MtrMeter) u[i].key.meter));
		col[1][i] = UUIDPGetDatum(&u[i].key.key_id);
		col[2][i] = CStringGetTextDatum(mtr_route_template(u[i].key.route));
		col[3][i] = TimestampTzGetDatum(mtr_time_of_minute(u[i].minute));
		col[4][i] = Int64GetDatum(u[i].qty);
		col[5][i] = Int64GetDatum(u[i].cost_uc);
	}
	args[0] = mtr_array(col[0], n, TEXTOID);
	args[1] = mtr_array(col[1], n, UUIDOID);
	args[2] = mtr_array(col[2], n, TEXTOID);
	args[3] = mtr_array(col[3], n, TIMESTAMPTZOID);
	args[4] = mtr_array(col[4], n, INT8OID);
	args[5] = mtr_array(col[5], n, INT8OID);
}

/*
 * Runs a statement over tables and memory, at one point in time.  args[0..2]
 * are tenant, since and until; args[3..8] are filled here.	 SPI is connected.
 */
static void
exec_usage(MtrStmt *stmt, const char *tenant, Datum *args, const char *nulls)
{
	for (;;)
	{
		uint64        before = pg_atomic_read_u64(&MtrShared->evictions);
		Snapshot      snapshot = RegisterSnapshot(GetLatestSnapshot());
		MtrUnflushed *u;
		int           n;
		bool          whole;

		/* none of this transaction's own rows, like those that it has in memory */
		snapshot->curcid = 0;
		u = mtr_unflushed(tenant, snapshot, &n);
		whole = pg_atomic_read_u64(&MtrShared->evictions) == before;
		if (whole)
		{
			arrays_of(u, n, args + 3);
			mtr_exec_at(stmt, args, nulls, snapshot, 0);
		}
		UnregisterSnapshot(snapshot);
		if (whole)
			return;
		CHECK_FOR_INTERRUPTS();
	}
}

void
mtr_usage_totals(const char *tenant, TimestampTz since, TimestampTz until,
				 MtrUsageTotals *totals)
{
	Datum args[9];
	bool  isnull;

	memset(totals, 0, sizeof(*totals));
	SPI_connect();
	args[0] = CStringGetTextDatum(tenant);
	args[1] = TimestampTzGetDatum(since);
	args[2] = TimestampTzGetDatum(until);
	exec_usage(&stmt_totals, tenant, args, NULL);
	for (uint64 row = 0; row < SPI_processed; row++)
	{
		HeapTuple tuple = SPI_tuptable->vals[row];
		TupleDesc desc = SPI_tuptable->tupdesc;
		char     *meter = mtr_cell(row, 1);

		totals->cost_uc +=
			DatumGetInt64(SPI_getbinval(tuple, desc, 3, &isnull));
		for (int m = 0; m < MTR_METERS; m++)
			if (strcmp(meter, mtr_meter_name((MtrMeter) m)) == 0)
				totals->quantity[m] =
					DatumGetInt64(SPI_getbinval(tuple, desc, 2, &isnull));
	}
	SPI_finish();
}

/* the time unit that "by" names, "" for none; raises 22023 for anything odd */
static const char *
check_by(ArrayType *by)
{
	static const char *const units[] = {"minute", "hour", "day", "month"};
	const char              *unit = "";
	Datum                   *d;
	bool                    *nulls;
	int                      n;

	deconstruct_array(by, TEXTOID, -1, false, TYPALIGN_INT, &d, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		char *s = nulls[i] ? pstrdup("null") : TextDatumGetCString(d[i]);
		bool  ok = strcmp(s, "meter") == 0 || strcmp(s, "key") == 0 ||
				  strcmp(s, "route") == 0;

		for (int k = 0; k < (int) lengthof(units); k++)
			if (strcmp(s, units[k]) == 0 && unit[0] == '\0')
			{
				unit = units[k];
				ok = true;
			}
		if (!ok)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("cannot break usage down by \"%s\"", s),
							errhint("by may hold meter, key, route, and one of "
									"minute, hour, day and month.")));
	}
	return unit;
}

/*
 * Raises 22023 for what is no time zone, also where none is asked for: an error
 * that only shows when there is usage would be found too late.
 */
static void
check_tz(Datum tz)
{
	(void) DirectFunctionCall3(timestamptz_trunc_zone,
							   CStringGetTextDatum("day"),
							   TimestampTzGetDatum(0), tz);
}

/* reads the tables of a standby; raises MT404 */
static void
stored_tenant(const char *tenant, MtrStored *s)
{
	if (!mtr_tenant_stored(tenant, s))
		mtr_raise_no_tenant(tenant);
}

static void
require_tenant(const char *tenant)
{
	MtrStored s;

	if (RecoveryInProgress())
		stored_tenant(tenant, &s);
	else
		mtr_xact_unpin_unused(mtr_tenant_pin(tenant));
}

/*
 * mortar.usage(tenant text, since timestamptz, until timestamptz, by text[],
 *				tz text) returns setof (meter, key_id, route, bucket, quantity,
 *				cost_uc)
 *
 * Usage in the half-open window, at minute precision, buffered usage included.
 */
Datum
mtr_usage(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	char           tenant[MTR_TENANT_LEN];
	Datum          args[12];
	const char    *unit;

	mtr_require_preload();
	mtr_tenant_arg(fcinfo, 0, tenant);
	mtr_check_tenant_right(tenant, true);
	for (int i = 1; i < 5; i++)
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("since, until, by and tz must not be null")));
	unit = check_by(PG_GETARG_ARRAYTYPE_P(3));
	check_tz(PG_GETARG_DATUM(4));
	require_tenant(tenant);
	InitMaterializedSRF(fcinfo, 0);

	SPI_connect();
	args[0] = CStringGetTextDatum(tenant);
	args[1] = PG_GETARG_DATUM(1);
	args[2] = PG_GETARG_DATUM(2);
	args[9] = PG_GETARG_DATUM(3);
	args[10] = CStringGetTextDatum(unit);
	args[11] = PG_GETARG_DATUM(4);
	exec_usage(&stmt_usage, tenant, args, NULL);
	for (uint64 row = 0; row < SPI_processed; row++)
		tuplestore_puttuple(rsinfo->setResult, SPI_tuptable->vals[row]);
	SPI_finish();
	return (Datum) 0;
}

/*
 * mortar.record_usage(tenant text, meter text, quantity int8,
 *					   durability text) returns void
 *
 * Counts and charges usage that the product measured itself: 0 .. 2^61 - 1.
 * Becomes usage when the transaction commits.	durability null: the tenant's.  Raises
 * MT402 when credits do not suffice, MT403 when the tenant is suspended or closed,
 * MT423 when it is frozen and the meter has a price, 22003 and 22023 for values out of
 * range, 25006 for other than buffered in a read-only transaction, 53400 when memory
 * is full.
 */
Datum
mtr_record_usage(PG_FUNCTION_ARGS)
{
	char          tenant[MTR_TENANT_LEN];
	MtrMeter      meter;
	int64         qty;
	MtrDurability durability = MTR_DURABLE_BUFFERED;
	MtrTenant    *t;
	MtrUsageRef   ref;

	mtr_require_preload();
	mtr_check_admin("record_usage");
	mtr_tenant_arg(fcinfo, 0, tenant);
	meter = mtr_meter_arg(fcinfo, 1);
	mtr_require_arg(fcinfo, 2, "quantity");
	qty = PG_GETARG_INT64(2);
	if (qty < 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("quantity must not be negative")));
	if (qty > MTR_MAX_QUANTITY)
		ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
						errmsg("quantity out of range")));
	if (!PG_ARGISNULL(3))
		durability = mtr_durability_arg(fcinfo, 3);

	t = mtr_tenant_pin(tenant);
	mtr_require_active(t);
	if (PG_ARGISNULL(3))
		durability = mtr_durability(t);
	if (mtr_meters_cost(t, 0, 1u << meter))
		mtr_require_movable(t);
	if (!mtr_usage_claim(t, meter, 0, NULL, true, &ref))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("no usage slot is free"),
				 errhint("The flusher may be behind, see mortar.flusher; or "
						 "raise mortar.max_usage_slots.")));
	mtr_usage_charge_all(&ref, &qty, 1, durability);
	PG_RETURN_VOID();
}
