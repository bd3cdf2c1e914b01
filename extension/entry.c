/*
 * entry.c
 *		Rows of mortar.credit_ledger (see entry.h).
 *
 * A movement is one row, or one for each source that pays.	 The first row's entry_id is
 * the movement's id.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "entry.h"
#include "spi.h"

static MtrStmt stmt_entry = {
	.sql =
		"INSERT INTO mortar.credit_ledger (tenant_id, entry_id, movement_id, "
		"kind, from_account, to_account, amount_uc, grant_id, effective_at, "
		"posted_at, reverses, epoch_id, meta) "
		"VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
	.role = MTR_ROLE_OWNER,
	.nargs = 13,
	.argtypes = {TEXTOID, UUIDOID, UUIDOID, TEXTOID, TEXTOID, TEXTOID, INT8OID,
				 UUIDOID, TIMESTAMPTZOID, TIMESTAMPTZOID, UUIDOID, UUIDOID,
				 JSONBOID},
};

int64
mtr_amount_arg(FunctionCallInfo fcinfo, int argno)
{
	int64 amount;

	mtr_require_arg(fcinfo, argno, "amount_uc");
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

/* now, but never before the tenant's last entry */
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
post_row(const MtrEntry *e, const pg_uuid_t *entry_id,
		 const pg_uuid_t *movement_id, TimestampTz posted_at)
{
	Datum args[13];
	char  nulls[13];

	memset(nulls, ' ', sizeof(nulls));
	args[0] = CStringGetTextDatum(e->tenant);
	args[1] = UUIDPGetDatum(entry_id);
	args[2] = UUIDPGetDatum(movement_id);
	args[3] = CStringGetTextDatum(e->kind);
	args[4] = CStringGetTextDatum(e->from);
	args[5] = CStringGetTextDatum(e->to);
	args[6] = Int64GetDatum(e->amount_uc);
	args[7] = UUIDPGetDatum(e->grant_id);
	nulls[7] = e->grant_id != NULL ? ' ' : 'n';
	args[8] =
		TimestampTzGetDatum(e->effective_at != 0 ? e->effective_at : posted_at);
	args[9] = TimestampTzGetDatum(posted_at);
	args[10] = UUIDPGetDatum(e->reverses);
	nulls[10] = e->reverses != NULL ? ' ' : 'n';
	args[11] = UUIDPGetDatum(&MtrShared->epoch_id);
	args[12] = e->meta != (Datum) 0
				   ? e->meta
				   : DirectFunctionCall1(jsonb_in, CStringGetDatum("{}"));
	mtr_exec(&stmt_entry, args, nulls, MTR_SNAP_LATEST, 0);
}

void
mtr_post(MtrTenant *t, const MtrEntry *e, const pg_uuid_t *movement_id)
{
	post_row(e, movement_id, movement_id, posting_time(t));
}

void
mtr_post_rows(MtrTenant *t, const MtrEntry *rows, int n,
			  const pg_uuid_t *movement_id)
{
	TimestampTz posted_at = posting_time(t);

	for (int i = 0; i < n; i++)
	{
		pg_uuid_t entry_id = *movement_id;

		if (i > 0)
			mtr_new_id(&entry_id);
		post_row(&rows[i], &entry_id, movement_id, posted_at);
	}
}

void
mtr_post_parts(MtrTenant *t, const MtrEntry *e, const MtrPaid *paid,
			   const pg_uuid_t *movement_id)
{
	MtrEntry  *rows = palloc_extended(paid->n * sizeof(*rows), MCXT_ALLOC_HUGE);
	pg_uuid_t *grants =
		palloc_extended(paid->n * sizeof(*grants), MCXT_ALLOC_HUGE);

	for (int i = 0; i < paid->n; i++)
	{
		const struct mtr_part *part = &paid->part[i];

		grants[i] = mtr_part_grant(t, part);
		rows[i] = *e;
		rows[i].from = mtr_part_account(part);
		rows[i].grant_id = part->cell < MTR_PURSE_CELLS ? &grants[i] : NULL;
		rows[i].amount_uc = part->amount;
	}
	mtr_post_rows(t, rows, paid->n, movement_id);
}
