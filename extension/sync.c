/*
 * sync.c
 *		Usage that no crash may take, as calls write it (see sync.h).
 *
 * Nothing is shared but the table.
 */
#include "mortar.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "http.h"
#include "spi.h"
#include "sync.h"
#include "xact.h"

/*
 * How long a group waits for others, in microseconds, if commit_siblings others are at
 * work.	Commits that are ready share a sync without it, so that it must not be long
 * beside a sync: 2 ms halve the syncs, but also the calls of a disk that takes 0.1 ms.
 */
#define GROUP_DELAY_US "500"

static const char *const names[] = {
	[MTR_DURABLE_BUFFERED] = "buffered",
	[MTR_DURABLE_GROUP] = "group",
	[MTR_DURABLE_SYNC] = "sync",
};

static MtrStmt stmt_row = {
	.sql = "INSERT INTO mortar.usage_sync (tenant_id, sync_id, meter, key_id, "
		   "route, price_id, qty, minute, cost_uc, from_accounts, grant_ids, "
		   "amounts_uc, epoch_id) "
		   "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
	.role = MTR_ROLE_OWNER,
	.nargs = 13,
	.argtypes = {TEXTOID, UUIDOID, TEXTOID, UUIDOID, TEXTOID, UUIDOID, INT8OID,
				 TIMESTAMPTZOID, INT8OID, TEXTARRAYOID, UUIDARRAYOID,
				 INT8ARRAYOID, UUIDOID},
};

/* all of it at one point in time, and as exact as prices are */
static MtrStmt stmt_queue = {
	.sql = "SELECT coalesce(sum(q.n), 0)::pg_catalog.int8,"
		   "  coalesce(sum(coalesce(div((m.qty + q.qty) * p.num_uc,"
		   "    p.per_units) - div(m.qty * p.num_uc, p.per_units), 0)"
		   "    - q.cost), 0)::pg_catalog.int8 "
		   "FROM (SELECT price_id, count(*) AS n, sum(qty) AS qty,"
		   "    sum(cost_uc) AS cost FROM mortar.usage_sync"
		   "    WHERE tenant_id = $1 GROUP BY price_id) q "
		   "CROSS JOIN LATERAL (SELECT coalesce(sum(upto_qty), 0) AS qty"
		   "    FROM mortar.usage_marks"
		   "    WHERE tenant_id = $1 AND price_id = q.price_id) m "
		   "LEFT JOIN mortar.prices p ON p.price_id = q.price_id",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 1,
	.argtypes = {TEXTOID},
};

MtrDurability
mtr_durability(MtrTenant *t)
{
	/* one byte: under the slot's lock it would be no more recent */
	return (MtrDurability) (t->durability + mtr_xact_pinned(t)->durability);
}

const char *
mtr_durability_name(MtrDurability durability)
{
	Assert(durability <= MTR_DURABLE_SYNC);
	return names[durability];
}

MtrDurability
mtr_durability_arg(FunctionCallInfo fcinfo, int argno)
{
	const char *s = "";

	if (!PG_ARGISNULL(argno))
		s = text_to_cstring(PG_GETARG_TEXT_PP(argno));
	for (int i = 0; i < (int) lengthof(names); i++)
		if (strcmp(s, names[i]) == 0)
			return (MtrDurability) i;
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("durability must be 'buffered', 'group' or "
						   "'sync'")));
}

/* ---- writing ---- */

/* whatever synchronous_commit says; an admin's commit_delay stays as it is */
static void
commit_to_disk(MtrDurability durability)
{
	ForceSyncCommit();
	if (durability != MTR_DURABLE_GROUP ||
		strcmp(GetConfigOption("commit_delay", false, false), "0") != 0)
		return;
	(void) set_config_option("commit_delay", GROUP_DELAY_US, PGC_SUSET,
							 PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
}

/*
 * Takes cost off the front of *parts, which begin at *first, and names in args[0..2]
 * who has paid it.
 */
static void
part_args(MtrTenant *t, MtrParts *parts, int *first, int64 cost, Datum *args)
{
	Datum accounts[MTR_PURSE_SOURCES];
	Datum grants[MTR_PURSE_SOURCES];
	Datum amounts[MTR_PURSE_SOURCES];
	int   n = 0;

	while (cost > 0)
	{
		struct mtr_part *part = &parts->part[*first];
		int64            x = Min(cost, part->amount);
		pg_uuid_t        id = mtr_part_grant(t, part);

		Assert(*first < parts->n);
		accounts[n] = CStringGetTextDatum(mtr_part_account(part));
		grants[n] = mtr_uuid_datum(&id);
		amounts[n++] = Int64GetDatum(x);
		cost -= x;
		part->amount -= x;
		if (part->amount == 0)
			(*first)++;
	}
	args[0] = mtr_array(accounts, n, TEXTOID);
	args[1] = mtr_array(grants, n, UUIDOID);
	args[2] = mtr_array(amounts, n, INT8OID);
}

/* args[9..11] say who has paid */
static void
write_row(const MtrUsageRef *ref, int64 qty, int64 cost, Datum args[13])
{
	const MtrUsageKey *key = &ref->usage->key;
	pg_uuid_t          id;

	mtr_new_id(&id);
	args[0] = CStringGetTextDatum(ref->tenant->tenant_id);
	args[1] = UUIDPGetDatum(&id);
	args[2] = CStringGetTextDatum(mtr_meter_name((MtrMeter) key->meter));
	args[3] = UUIDPGetDatum(&key->key_id);
	args[4] = CStringGetTextDatum(mtr_route_template(key->route));
	args[5] = UUIDPGetDatum(&key->price_id);
	args[6] = Int64GetDatum(qty);
	args[7] = TimestampTzGetDatum(
		mtr_time_of_minute(mtr_minute_of(GetCurrentTimestamp())));
	args[8] = Int64GetDatum(cost);
	args[12] = UUIDPGetDatum(&MtrShared->epoch_id);
	mtr_exec(&stmt_row, args, NULL, MTR_SNAP_WRITE, 0);
	if (SPI_processed != 1)
		elog(ERROR, "a row of mortar.usage_sync was suppressed");
}

void
mtr_sync_write(const MtrUsageRef *refs, const int64 *qty, const int64 *cost,
			   int n, const MtrParts *parts, MtrDurability durability)
{
	MtrTenant *t = refs[0].tenant;
	MtrParts   left = *parts;
	int        first = 0;
	int        rows = 0;

	SPI_connect();
	for (int i = 0; i < n; i++)
	{
		Datum args[13];

		if (qty[i] == 0)
			continue;
		part_args(t, &left, &first, cost[i], args + 9);
		write_row(&refs[i], qty[i], cost[i], args);
		rows++;
	}
	SPI_finish();
	if (rows == 0)
		return;
	Assert(first == left.n);
	mtr_xact_reserve(1);
	mtr_xact_queue(t, rows);
	commit_to_disk(durability);
}

/* ---- reading ---- */

void
mtr_undrained_read(const char *tenant, MtrUndrained *q)
{
	Datum args[1];
	bool  isnull;

	SPI_connect();
	args[0] = CStringGetTextDatum(tenant);
	mtr_exec(&stmt_queue, args, NULL, MTR_SNAP_OTHERS, 0);
	q->rows = DatumGetInt64(mtr_first(1, &isnull));
	q->unpaid_uc = DatumGetInt64(mtr_first(2, &isnull));
	SPI_finish();
}
