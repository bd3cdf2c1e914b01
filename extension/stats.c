/*
 * stats.c
 *		What shared memory holds, as rows for a DBA's views.
 *
 * Nothing here pins or loads; each row is read under one lock.  A standby has
 * neither tenants in memory nor a flusher, and claims no place for its database.
 */
#include "mortar.h"

#include "access/xlog.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "gate.h"
#include "guc.h"
#include "reservation.h"
#include "shmem.h"
#include "slot.h"
#include "sync.h"

PG_FUNCTION_INFO_V1(mtr_slots);
PG_FUNCTION_INFO_V1(mtr_cells);
PG_FUNCTION_INFO_V1(mtr_flusher_state);

/* a copy of the slot, as of now; false: it is of no tenant of this database */
static bool
copy_slot(MtrTenant *t, int db, MtrTenant *copy)
{
	SpinLockAcquire(&t->mutex);
	memcpy(copy, t, sizeof(*copy));
	SpinLockRelease(&t->mutex);
	if (copy->state == MTR_TENANT_FREE || copy->db != db ||
		copy->generation == 0)
		return false;
	mtr_purse_advance(&copy->purse,
					  Max(GetCurrentTimestamp(), copy->last_posted));
	return true;
}

static void
put_slot(ReturnSetInfo *rsinfo, const MtrTenant *t)
{
	static const char *const modes[] = {"hard", "soft", "unlimited"};
	const struct mtr_purse  *p = &t->purse;
	Datum                    values[14];
	bool                     nulls[14] = {false};
	int                      grants = p->more;

	for (int i = 0; i < p->n; i++)
		grants += p->cell[p->order[i]].grant.remaining > 0;
	values[0] = CStringGetTextDatum(t->tenant_id);
	values[1] =
		CStringGetTextDatum(t->state == MTR_TENANT_NEW ? "new" : "ready");
	values[2] = Int64GetDatum(p->available);
	values[3] = Int64GetDatum(t->held);
	values[4] = Int64GetDatum(mtr_unflushed_cost(t));
	values[5] = Int32GetDatum(t->pins);
	values[6] = Int64GetDatum(t->max_unflushed_uc);
	values[7] = Int64GetDatum(p->debt);
	values[8] = CStringGetTextDatum(modes[p->mode]);
	values[9] = Int32GetDatum(grants);
	values[10] =
		CStringGetTextDatum(mtr_durability_name((MtrDurability) t->durability));
	values[11] = Int64GetDatum(t->queued);
	values[12] = Int32GetDatum(t->reservations);
	values[13] = Int64GetDatum(t->reserved_uc);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static void
put_cell(ReturnSetInfo *rsinfo, const MtrTenant *t, int cell)
{
	static const char *const states[] = {"free", "incoming", "future", "live",
										 "ended"};
	struct mtr_part          part = {.cell = (int16) cell};
	const struct mtr_cell   *c = &t->purse.cell[cell];
	bool                     is_grant = cell < MTR_PURSE_CELLS;
	Datum                    values[7];
	bool                     nulls[7] = {false};

	values[0] = CStringGetTextDatum(t->tenant_id);
	values[1] = CStringGetTextDatum(mtr_part_account(&part));
	values[2] = PointerGetDatum(c->grant.id);
	nulls[2] = !is_grant;
	values[3] = CStringGetTextDatum(states[c->state]);
	values[4] = Int64GetDatum(c->grant.remaining);
	if (cell == MTR_PURSE_DEBT)
		values[4] = Int64GetDatum(-t->purse.debt);
	nulls[4] = cell == MTR_PURSE_ISSUED;
	values[5] = Int64GetDatum(
		(int64) ((uint64) c->burn_done - (uint64) c->burn_flushed));
	values[6] = Int32GetDatum(c->refs);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static void
put_cells(ReturnSetInfo *rsinfo, const MtrTenant *t)
{
	for (int i = 0; i < t->purse.n; i++)
		put_cell(rsinfo, t, t->purse.order[i]);
	put_cell(rsinfo, t, MTR_PURSE_DEBT);
	put_cell(rsinfo, t, MTR_PURSE_ISSUED);
}

/* a row or more for each tenant of this database in memory */
static Datum
put_tenants(FunctionCallInfo fcinfo,
			void (*put)(ReturnSetInfo *rsinfo, const MtrTenant *t))
{
	MtrTenant copy;
	int       db;

	mtr_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	if (RecoveryInProgress())
		return (Datum) 0;
	db = mtr_db() - MtrShared->db;
	(void) mtr_reservations_expire_all();
	for (int i = 0; i < mtr_max_tenants; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (MtrTenants[i].state != MTR_TENANT_FREE &&
			copy_slot(&MtrTenants[i], db, &copy))
			put((ReturnSetInfo *) fcinfo->resultinfo, &copy);
	}
	return (Datum) 0;
}

/* rows of the view mortar.slots */
Datum
mtr_slots(PG_FUNCTION_ARGS)
{
	return put_tenants(fcinfo, put_slot);
}

/* rows of the view mortar.cells */
Datum
mtr_cells(PG_FUNCTION_ARGS)
{
	return put_tenants(fcinfo, put_cells);
}

static void
copy_db(MtrDb *copy)
{
	MtrDb *db = mtr_db();

	SpinLockAcquire(&db->mutex);
	memcpy(copy, db, sizeof(*copy));
	SpinLockRelease(&db->mutex);
}

/* the row of the view mortar.flusher */
Datum
mtr_flusher_state(PG_FUNCTION_ARGS)
{
	static const char *const states[] = {"none", "starting", "running"};
	TupleDesc                desc;
	MtrDb                    copy;
	Datum                    values[7];
	bool                     nulls[7] = {false};

	mtr_require_preload();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	memset(&copy, 0, sizeof(copy));
	if (!RecoveryInProgress())
		copy_db(&copy);

	values[0] = CStringGetTextDatum(states[copy.flusher_state]);
	values[1] = Int32GetDatum(copy.flusher_pid);
	nulls[1] = copy.flusher_pid == 0;
	values[2] = TimestampTzGetDatum(copy.last_flush);
	nulls[2] = copy.last_flush == 0;
	values[3] = Int64GetDatum((int64) copy.flushed_rows);
	values[4] = Int32GetDatum(copy.flusher_failures);
	copy.last_error[sizeof(copy.last_error) - 1] = '\0';
	values[5] = CStringGetTextDatum(copy.last_error);
	values[6] = TimestampTzGetDatum(copy.last_error_at);
	nulls[6] = nulls[5] = copy.last_error_at == 0;
	PG_RETURN_DATUM(HeapTupleGetDatum(
		heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
