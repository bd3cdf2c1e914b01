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

#include "guc.h"
#include "shmem.h"
#include "slot.h"

PG_FUNCTION_INFO_V1(mtr_slots);
PG_FUNCTION_INFO_V1(mtr_flusher_state);

static void
put_slot(ReturnSetInfo *rsinfo, MtrTenant *t, int db)
{
	MtrTenant copy;
	Datum     values[7];
	bool      nulls[7] = {false};

	SpinLockAcquire(&t->mutex);
	memcpy(&copy, t, sizeof(copy));
	SpinLockRelease(&t->mutex);
	if (copy.state == MTR_TENANT_FREE || copy.db != db || copy.generation == 0)
		return;

	values[0] = CStringGetTextDatum(copy.tenant_id);
	values[1] =
		CStringGetTextDatum(copy.state == MTR_TENANT_NEW ? "new" : "ready");
	mtr_purse_advance(&copy.purse, GetCurrentTimestamp());
	values[2] = Int64GetDatum(copy.purse.available);
	values[3] = Int64GetDatum(copy.held);
	values[4] = Int64GetDatum(mtr_unflushed_cost(&copy));
	values[5] = Int32GetDatum(copy.pins);
	values[6] = Int64GetDatum(copy.max_unflushed_uc);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* rows of the view mortar.slots */
Datum
mtr_slots(PG_FUNCTION_ARGS)
{
	int db;

	mtr_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	if (RecoveryInProgress())
		return (Datum) 0;
	db = mtr_db() - MtrShared->db;
	for (int i = 0; i < mtr_max_tenants; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (MtrTenants[i].state != MTR_TENANT_FREE)
			put_slot((ReturnSetInfo *) fcinfo->resultinfo, &MtrTenants[i], db);
	}
	return (Datum) 0;
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
