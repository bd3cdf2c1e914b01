/*
 * util.c
 *		Small things that SQL functions of Mortar share: ids and arguments.
 */
#include "mortar.h"

#include <time.h>

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "core/tenantid.h"
#include "core/uuid7.h"
#include "shmem.h"

/* PostgreSQL counts from 2000, the others from 1970 */
#define EPOCHS_APART_DAYS ((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE))

static const char *const meter_names[MTR_METERS] = {
	[MTR_METER_REQUESTS] = "requests",
	[MTR_METER_EGRESS_BYTES] = "egress_bytes",
};

void
mtr_new_id(pg_uuid_t *id)
{
	static struct mtr_uuid7_state state;
	uint8                         rnd[10];
	TimestampTz                   now = GetCurrentTimestamp();
	int64                         ms;

	if (!pg_strong_random(rnd, sizeof(rnd)))
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
						errmsg("could not generate random bytes")));

	/* a UUID counts milliseconds */
	ms = now / 1000 + EPOCHS_APART_DAYS * SECS_PER_DAY * INT64CONST(1000);
	mtr_uuid7(id->data, (uint64) Max(ms, 0), rnd, &state);
}

int64
mtr_now_ms(void)
{
	struct timespec now;

	/* cannot fail for this clock */
	(void) clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int32
mtr_minute_of(TimestampTz time)
{
	return (int32) ((time + EPOCHS_APART_DAYS * USECS_PER_DAY) /
					USECS_PER_MINUTE);
}

TimestampTz
mtr_time_of_minute(int32 minute)
{
	return (TimestampTz) minute * USECS_PER_MINUTE -
		   EPOCHS_APART_DAYS * USECS_PER_DAY;
}

Datum
mtr_uuid_datum(const pg_uuid_t *id)
{
	pg_uuid_t *copy = palloc(sizeof(pg_uuid_t));

	*copy = *id;
	return UUIDPGetDatum(copy);
}

void
mtr_require_arg(FunctionCallInfo fcinfo, int argno, const char *name)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("%s must not be null", name)));
}

void
mtr_tenant_arg(FunctionCallInfo fcinfo, int argno, char *buf)
{
	text  *t;
	char  *p;
	size_t len;

	mtr_require_arg(fcinfo, argno, "tenant");
	t = PG_GETARG_TEXT_PP(argno);
	p = VARDATA_ANY(t);
	len = VARSIZE_ANY_EXHDR(t);
	if (!mtr_tenant_id_valid(p, len))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid tenant id"),
				 errdetail("A tenant id is 1 to 63 characters: lower-case "
						   "letters, digits, \"_\" and \"-\", the first one a "
						   "letter or a digit.")));
	Assert(len < MTR_TENANT_LEN);
	memcpy(buf, p, len);
	buf[len] = '\0';
}

pg_uuid_t
mtr_uuid_arg(FunctionCallInfo fcinfo, int argno, const char *name)
{
	mtr_require_arg(fcinfo, argno, name);
	return *PG_GETARG_UUID_P(argno);
}

char *
mtr_uuid_string(const pg_uuid_t *id)
{
	return DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(id)));
}

Datum
mtr_array(Datum *d, int n, Oid type)
{
	switch (type)
	{
		case TEXTOID:
			return PointerGetDatum(
				construct_array(d, n, type, -1, false, TYPALIGN_INT));
		case UUIDOID:
			return PointerGetDatum(
				construct_array(d, n, type, UUID_LEN, false, TYPALIGN_CHAR));
		default:
			Assert(type == TIMESTAMPTZOID || type == INT8OID);
			return PointerGetDatum(construct_array(
				d, n, type, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	}
}

MtrMeter
mtr_meter_arg(FunctionCallInfo fcinfo, int argno)
{
	char *name;

	mtr_require_arg(fcinfo, argno, "meter");
	name = text_to_cstring(PG_GETARG_TEXT_PP(argno));
	for (int i = 0; i < MTR_METERS; i++)
		if (strcmp(name, meter_names[i]) == 0)
			return (MtrMeter) i;
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("there is no meter \"%s\"", name),
					errhint("Meters are \"requests\" and \"egress_bytes\".")));
}

const char *
mtr_meter_name(MtrMeter meter)
{
	Assert(meter < MTR_METERS);
	return meter_names[meter];
}

void
mtr_refuse_recovery(void)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("Mortar cannot do this on a standby"),
				 errhint("Ask the primary: shared memory holds balances and "
						 "keys there, and nobody keeps it current here.")));
}

void
mtr_require_preload(void)
{
	if (MtrShared == NULL)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("mortar must be loaded through "
							   "shared_preload_libraries"),
						errhint("Add mortar to shared_preload_libraries in "
								"postgresql.conf and restart the server.")));
}
