/*
 * handle_usage.c
 *		GET /usage/me: what the tenant has used and what it has left.
 *
 * The figures are those of mortar.usage() and mortar.balance(): tables plus what
 * shared memory still holds.  The call itself is counted but costs nothing, and
 * is answered when credits are out: a tenant must always be able to see why it
 * was refused.
 *
 * Nothing is shared; all memory is the call's.
 */
#include "mortar.h"

#include "access/xact.h"
#include "utils/datetime.h"

#include "answer.h"
#include "balance.h"
#include "http.h"
#include "request.h"
#include "usage.h"
#include "write.h"

/* the first instant, in UTC, of t's month or of one ahead (0 or 1) */
static TimestampTz
month_start(TimestampTz t, int ahead)
{
	struct pg_tm tm;
	fsec_t       fsec;
	Timestamp    start;

	if (timestamp2tm(t, NULL, &tm, &fsec, NULL, NULL) != 0)
		elog(ERROR, "the clock is out of range");
	tm.tm_mon += ahead;
	if (tm.tm_mon > MONTHS_PER_YEAR)
	{
		tm.tm_mon -= MONTHS_PER_YEAR;
		tm.tm_year++;
	}
	tm.tm_mday = 1;
	tm.tm_hour = 0;
	tm.tm_min = 0;
	tm.tm_sec = 0;
	if (tm2timestamp(&tm, 0, NULL, &start) != 0)
		elog(ERROR, "the clock is out of range");
	return start;
}

/* GET /usage/me: the calendar month, in UTC, in which the call is made */
void
mtr_usage_me(MtrRequest *req, MtrResponse *res)
{
	TimestampTz    now = GetCurrentTransactionStartTimestamp();
	TimestampTz    from = month_start(now, 0);
	TimestampTz    to = month_start(now, 1);
	StringInfo     b = &res->body;
	MtrUsageTotals totals;
	MtrBalance     balance;

	mtr_request_no_query(req);
	mtr_usage_totals(req->tenant, from, to, &totals);

	mtr_put(b, "{\"window\":{\"from\":");
	mtr_put_time(b, from);
	mtr_put(b, ",\"to\":");
	mtr_put_time(b, to);
	mtr_put(b, "},\"requests\":");
	mtr_put_int(b, totals.quantity[MTR_METER_REQUESTS]);
	mtr_put(b, ",\"egress_bytes\":");
	mtr_put_int(b, totals.quantity[MTR_METER_EGRESS_BYTES]);
	mtr_put(b, ",\"cost_uc\":");
	mtr_put_int(b, totals.cost_uc);
	mtr_put(b, ",\"available_uc\":");
	mtr_balance_of(req->slot, &balance);
	mtr_put_int(b, balance.available);
	mtr_put(b, ",\"next_expiry\":");
	if (TIMESTAMP_IS_NOEND(balance.next_expiry))
		mtr_put(b, "null");
	else
		mtr_put_time(b, balance.next_expiry);
	mtr_put(b, "}");
	res->status = 200;
}
