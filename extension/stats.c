/*
 * stats.c
 *		What shared memory holds, as rows for a DBA's views.
 *
 * Nothing here pins or loads; each row is read under one lock.
 */
#include "mortar.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "core/price.h"
#include "guc.h"
#include "shmem.h"

PG_FUNCTION_INFO_V1(mtr_slots);
PG_FUNCTION_INFO_V1(mtr_flusher_state);

static void
put_slot(ReturnSetInfo *rsinfo, MtrTenant *t, int db)
{
	MtrTenant copy;
	Datum     values[6];
	bool      nulls[6] = {false};
	int64     unflushed = 0;

	SpinLockAcquire(&t->mutex);
	memcpy(&copy, t, sizeof(copy));
	SpinLockRelease(&t->mutex);
	if (copy.state == MTR_TENANT_FREE || copy.db != db || copy.generation == 0)
		return;

	for (int i = 0; i < MTR_COUNTERS; i++)
	{
		MtrCounter *c = &copy.counter[i];
		int64       cost;

		if (c->per_units > 0 && c->done > c->flushed &&
			mtr_price_step(c->flushed, c->done - c->flushed, c->num_uc,
						   c->per_units, &cost))
			unflushed += cost;
	}
	values[0] = CStringGetTextDatum(copy.tenant_id);
	values[1] =
		CStringGetTextDatum(copy.state == MTR_TENANT_NEW ? "new" : "ready");
	values[2] = Int64GetDatum(copy.available);
	values[3] = Int64GetDatum(copy.held);
	values[4] = Int64GetDatum(unflushed);
	values[5] = Int32GetDatum(copy.pins);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* rows of the view mortar.slots */
Datum
mtr_slots(PG_FUNCTION_ARGS)
{
	int db = mtr_db() - MtrShared->db;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < mtr_max_tenants; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (MtrTenants[i].state != MTR_TENANT_FREE)
			put_slot((ReturnSetInfo *) fcinfo->resultinfo, &MtrTenants[i], db);
	}
	return (Datum) 0;
}

/* the row of the view mortar.flusher */
Datum
mtr_flusher_state(PG_FUNCTION_ARGS)
{
	static const char *const states[] = {"none", "starting", "running"};
	MtrDb                   *db = mtr_db();
	TupleDesc                desc;
	MtrFlusherState          state;
	Datum                    values[7];
	bool                     nulls[7] = {false};
	char                     error[sizeof(db->last_error)];

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	SpinLockAcquire(&db->mutex);
	state = db->flusher_state;
	values[1] = Int32GetDatum(db->flusher_pid);
	nulls[1] = db->flusher_pid == 0;
	values[2] = TimestampTzGetDatum(db->last_flush);
	nulls[2] = db->last_flush == 0;
	values[3] = Int64GetDatum((int64) db->flushed_rows);
	values[4] = Int32GetDatum(db->flusher_failures);
	memcpy(error, db->last_error, sizeof(error));
	values[6] = TimestampTzGetDatum(db->last_error_at);
	nulls[6] = nulls[5] = db->last_error_at == 0;
	SpinLockRelease(&db->mutex);

	error[sizeof(error) - 1] = '\0';
	values[0] = CStringGetTextDatum(states[state]);
	values[5] = CStringGetTextDatum(error);
	PG_RETURN_DATUM(HeapTupleGetDatum(
		heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
