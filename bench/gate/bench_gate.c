/*
 * bench_gate.c
 *		What the key check, the gate and the charge cost inside the backend.
 *
 * For the benchmark only: a server library that calls the same functions of
 * mortar.so as mortar.http does in its steps 2 to 4 and 7, in that order, and
 * leaves out all the rest (HTTP, role, handler, answer).  bench_steps with
 * "upto" 0 calls nothing: it is the empty C function that the others stand
 * beside.
 *
 *	 CREATE FUNCTION steps(credential text, upto int4) RETURNS int4
 *	 LANGUAGE c STRICT AS '.../bench_gate', 'bench_steps';
 *
 * The symbols are those of the preloaded mortar.so, which PostgreSQL 15 loads
 * for all to see.  Nothing is shared but what mortar.so shares; what is
 * charged becomes usage when the caller commits, as with a request.
 */
#include "mortar.h"

#include <sys/resource.h>

#include "auth.h"
#include "gate.h"
#include "slot.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(bench_steps);
PG_FUNCTION_INFO_V1(bench_cpu_us);

/* as GET /db/tables, and the bytes of its answer */
#define ROUTE 1
#define ANSWER_BYTES 1400

enum Steps
{
	UPTO_NOTHING,
	UPTO_KEY,
	UPTO_GATE,
	UPTO_CHARGE
};

static void
check_key(text *credential, MtrIdentity *who)
{
	if (mtr_authenticate(VARDATA_ANY(credential), VARSIZE_ANY_EXHDR(credential),
						 who) != MTR_AUTH_OK)
		elog(ERROR, "the key is not valid");
}

static MtrTenant *
pass_gate(const MtrIdentity *who)
{
	const uint32 meters =
		1u << MTR_METER_REQUESTS | 1u << MTR_METER_EGRESS_BYTES;
	MtrShortfall s;
	MtrTenant   *t;

	if (mtr_tenant_try_pin(who->tenant_id, &t) != MTR_PIN_OK)
		elog(ERROR, "the tenant cannot be served");
	if (!mtr_gate_admit(t, ROUTE, meters, &s))
		elog(ERROR, "there are not enough credits");
	return t;
}

static void
charge(MtrTenant *t, const MtrIdentity *who)
{
	static const MtrMeter meters[] = {MTR_METER_REQUESTS,
									  MTR_METER_EGRESS_BYTES};
	static const int64    quantity[] = {1, ANSWER_BYTES};
	MtrUsageRef           usage[lengthof(meters)];
	MtrShortfall          s;

	for (size_t i = 0; i < lengthof(meters); i++)
		if (!mtr_usage_claim(t, meters[i], ROUTE, &who->key_id, true,
							 &usage[i]))
			elog(ERROR, "usage cannot be counted");
	if (!mtr_usage_charge(usage, quantity, lengthof(usage),
						  MTR_DURABLE_BUFFERED, &s))
		elog(ERROR, "there are not enough credits");
}

/* steps(credential text, upto int4) returns upto */
Datum
bench_steps(PG_FUNCTION_ARGS)
{
	int32       upto = PG_GETARG_INT32(1);
	MtrIdentity who;
	MtrTenant  *t;

	if (upto >= UPTO_KEY)
		check_key(PG_GETARG_TEXT_PP(0), &who);
	if (upto >= UPTO_GATE)
	{
		t = pass_gate(&who);
		if (upto >= UPTO_CHARGE)
			charge(t, &who);
	}
	PG_RETURN_INT32(upto);
}

/* cpu_us() returns float8: CPU time of this backend so far, microseconds */
Datum
bench_cpu_us(PG_FUNCTION_ARGS)
{
	struct rusage u;

	if (getrusage(RUSAGE_SELF, &u) != 0)
		elog(ERROR, "getrusage: %m");
	PG_RETURN_FLOAT8(1e6 * (double) (u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
					 (double) (u.ru_utime.tv_usec + u.ru_stime.tv_usec));
}
