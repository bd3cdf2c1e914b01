/*
 * stored.c
 *		What tables say of a tenant (see stored.h).
 *
 * One statement reads each of the tenant's ledger entries once and sums them up by
 * grant and accounts; what usage burned comes from the marks.	So a load costs one
 * look at every entry, and nothing per grant but its own row.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "spi.h"
#include "stored.h"

/*
 * With the ledger's entries from "entries", all in one statement: entries and marks
 * are read at one point in time, and with them what usage has burned whose rows are
 * not in the journal yet (sync.h).
 *
 * A source is a grant, or null: what no grant has paid.  Grants are told from sources
 * that are none by their amount.  A crash may leave one that has burned a little more
 * than it was, or less than nothing; those come first, also when they have ended, since
 * others make up for them (core/purse.h).	All that ever went from one account to another
 * may be more than an int8 holds; what is left of it is not.  $2: now; $3: ids to leave
 * out; $4: the id to keep.
 */
#define STORED(entries)                                                        \
	"WITH entry AS ("                                                          \
	"  SELECT grant_id, from_account, to_account, sum(amount_uc) AS amount,"   \
	"    max(posted_at) AS last, count(*) AS n"                                \
	"  FROM " entries " GROUP BY grant_id, from_account, to_account), "        \
	"source AS ("                                                              \
	"  SELECT grant_id, sum(available)::pg_catalog.int8 AS available,"         \
	"    sum(debt)::pg_catalog.int8 AS debt,"                                  \
	"    sum(held)::pg_catalog.int8 AS held, max(last) AS last,"               \
	"    sum(n)::pg_catalog.int8 AS n,"                                        \
	"    max(amount) AS amount, max(priority) AS priority,"                    \
	"    max(category) AS category, max(effective_at) AS effective_at,"        \
	"    max(expires_at) AS expires_at "                                       \
	"  FROM ("                                                                 \
	"    SELECT grant_id, amount_uc AS available, 0 AS debt, 0 AS held,"       \
	"      NULL::pg_catalog.timestamptz AS last, 0 AS n, amount_uc AS amount," \
	"      priority, category, effective_at,"                                  \
	"      coalesce(expires_at, 'infinity') AS expires_at"                     \
	"    FROM mortar.credit_grants WHERE tenant_id = $1"                       \
	"      AND grant_id <> ALL ($3)"                                           \
	"    UNION ALL SELECT grant_id,"                                           \
	"      CASE WHEN from_account = 'available' THEN -amount"                  \
	"        WHEN to_account = 'available' AND from_account <> 'issued'"       \
	"        THEN amount ELSE 0 END,"                                          \
	"      CASE 'debt' WHEN from_account THEN amount"                          \
	"        WHEN to_account THEN -amount ELSE 0 END,"                         \
	"      CASE 'held' WHEN to_account THEN amount"                            \
	"        WHEN from_account THEN -amount ELSE 0 END,"                       \
	"      last, n, NULL, NULL, NULL, NULL, NULL"                              \
	"    FROM entry"                                                           \
	"    UNION ALL SELECT"                                                     \
	"      CASE from_account WHEN 'available' THEN grant_id END,"              \
	"      CASE from_account WHEN 'available' THEN -burned_uc ELSE 0 END,"     \
	"      CASE from_account WHEN 'debt' THEN burned_uc ELSE 0 END, 0,"        \
	"      NULL, 0, NULL, NULL, NULL, NULL, NULL"                              \
	"    FROM mortar.burn_marks WHERE tenant_id = $1"                          \
	"    UNION ALL SELECT"                                                     \
	"      CASE p.account WHEN 'available' THEN p.grant_id END,"               \
	"      CASE p.account WHEN 'available' THEN -p.amount ELSE 0 END,"         \
	"      CASE p.account WHEN 'debt' THEN p.amount ELSE 0 END, 0,"            \
	"      NULL, 0, NULL, NULL, NULL, NULL, NULL"                              \
	"    FROM mortar.usage_sync q, unnest(q.from_accounts,"                    \
	"      q.grant_ids, q.amounts_uc) AS p (account, grant_id, amount)"        \
	"    WHERE q.tenant_id = $1) AS movement"                                  \
	"  GROUP BY grant_id) "                                                    \
	"SELECT CASE t.state WHEN 'active' THEN 0 WHEN 'suspended' THEN 1"         \
	"    ELSE 2 END,"                                                          \
	"  CASE l.mode WHEN 'soft' THEN 1 WHEN 'unlimited' THEN 2 ELSE 0 END,"     \
	"  coalesce(l.overdraft_uc, 0), l.max_unflushed_uc, a.last,"               \
	"  coalesce(a.debt, 0), coalesce(a.held, 0), coalesce(a.n, 0),"            \
	"  s.grant_id, s.amount, s.available, s.priority, s.category = 'promo',"   \
	"  s.effective_at, s.expires_at, t.frozen,"                                \
	"  CASE l.durability WHEN 'group' THEN 1 WHEN 'sync' THEN 2 ELSE 0 END "   \
	"FROM mortar.tenants t"                                                    \
	"  CROSS JOIN (SELECT sum(debt)::pg_catalog.int8 AS debt,"                 \
	"      sum(held)::pg_catalog.int8 AS held, max(last) AS last,"             \
	"      sum(n)::pg_catalog.int8 AS n FROM source) a"                        \
	"  LEFT JOIN mortar.limits l ON l.tenant_id = t.tenant_id"                 \
	"  LEFT JOIN source s ON s.amount > 0"                                     \
	"    AND (s.available NOT BETWEEN 0 AND s.amount"                          \
	"      OR s.expires_at > $2 AND (s.available > 0 OR s.grant_id = $4)) "    \
	"WHERE t.tenant_id = $1 "                                                  \
	"ORDER BY s.available BETWEEN 0 AND s.amount, s.effective_at > $2,"        \
	"  s.priority, s.expires_at, s.category <> 'promo', s.effective_at,"       \
	"  s.grant_id"

#define STORED_TYPES                                                           \
	{                                                                          \
		TEXTOID, TIMESTAMPTZOID, UUIDARRAYOID, UUIDOID                         \
	}

/*
 * Most tenants have few entries, which one plan for all reads by their index.  One
 * that has this many is read anew, in the way that is best for it.
 */
#define MANY_ENTRIES 100000

static MtrStmt stmt_stored = {
	.sql = STORED("(SELECT grant_id, from_account, to_account, amount_uc, "
				  "posted_at FROM mortar.credit_ledger WHERE tenant_id = $1 "
				  "LIMIT " CppAsString2(MANY_ENTRIES) ") e"),
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 4,
	.argtypes = STORED_TYPES,
};

static MtrStmt stmt_stored_many = {
	.sql = STORED("mortar.credit_ledger WHERE tenant_id = $1"),
	.role = MTR_ROLE_OWNER,
	.plan_anew = true,
	.nargs = 4,
	.argtypes = STORED_TYPES,
};

static Datum
value(uint64 row, int col, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, col,
						 isnull);
}

static void
read_tenant(MtrStored *s)
{
	bool  isnull;
	Datum d;

	s->life = (MtrLife) DatumGetInt32(value(0, 1, &isnull));
	s->frozen = DatumGetBool(value(0, 16, &isnull));
	s->mode = (enum mtr_purse_mode) DatumGetInt32(value(0, 2, &isnull));
	s->overdraft_uc = DatumGetInt64(value(0, 3, &isnull));
	d = value(0, 4, &isnull);
	s->max_unflushed_uc =
		isnull ? MTR_DEFAULT_MAX_UNFLUSHED_UC : DatumGetInt64(d);
	d = value(0, 5, &isnull);
	s->last_posted = isnull ? 0 : DatumGetTimestampTz(d);
	s->durability = (MtrDurability) DatumGetInt32(value(0, 17, &isnull));
	s->debt = DatumGetInt64(value(0, 6, &isnull));
	s->held = DatumGetInt64(value(0, 7, &isnull));
}

/* false: the tenant has no grant, and the row tells of the tenant alone */
static bool
read_grant(uint64 row, struct mtr_grant *g)
{
	bool  isnull;
	Datum id = value(row, 9, &isnull);

	if (isnull)
		return false;
	memcpy(g->id, DatumGetUUIDP(id)->data, UUID_LEN);
	g->amount = DatumGetInt64(value(row, 10, &isnull));
	g->remaining = DatumGetInt64(value(row, 11, &isnull));
	g->priority = (int16) DatumGetInt32(value(row, 12, &isnull));
	g->category = DatumGetBool(value(row, 13, &isnull)) ? MTR_GRANT_PROMO
														: MTR_GRANT_PAID;
	g->effective_at = DatumGetTimestampTz(value(row, 14, &isnull));
	/* DT_NOEND is MTR_PURSE_NEVER */
	g->expires_at = DatumGetTimestampTz(value(row, 15, &isnull));
	return true;
}

bool
mtr_grants_stored(const char *tenant, const pg_uuid_t *except, int nexcept,
				  const pg_uuid_t *wanted, TimestampTz not_before, MtrStored *s)
{
	static const pg_uuid_t nobody = {{0}};
	Datum                  ids[MTR_PURSE_CELLS];
	Datum                  args[4];
	bool                   isnull;
	bool                   exists;

	Assert(nexcept <= MTR_PURSE_CELLS);
	memset(s, 0, sizeof(*s));
	s->now = Max(GetCurrentTimestamp(), not_before);
	for (int i = 0; i < nexcept; i++)
		ids[i] = UUIDPGetDatum(&except[i]);
	SPI_connect();
	args[0] = CStringGetTextDatum(tenant);
	args[1] = TimestampTzGetDatum(s->now);
	args[2] = mtr_array(ids, nexcept, UUIDOID);
	args[3] = UUIDPGetDatum(wanted != NULL ? wanted : &nobody);
	mtr_exec(&stmt_stored, args, NULL, MTR_SNAP_OTHERS, 0);
	if (SPI_processed > 0 &&
		DatumGetInt64(mtr_first(8, &isnull)) == MANY_ENTRIES)
		mtr_exec(&stmt_stored_many, args, NULL, MTR_SNAP_OTHERS, 0);
	exists = SPI_processed > 0;
	if (exists)
		read_tenant(s);
	s->grants = SPI_palloc(Max(SPI_processed, 1) * sizeof(struct mtr_grant));
	for (uint64 row = 0; row < SPI_processed; row++)
		if (read_grant(row, &s->grants[s->ngrants]))
			s->ngrants++;
	SPI_finish();
	return exists;
}

bool
mtr_tenant_stored(const char *tenant, MtrStored *s)
{
	return mtr_grants_stored(tenant, NULL, 0, NULL, 0, s);
}

int64
mtr_stored_available(const MtrStored *s)
{
	int64       available = -s->debt;
	TimestampTz now = Max(s->now, s->last_posted);

	for (int i = 0; i < s->ngrants; i++)
	{
		const struct mtr_grant *g = &s->grants[i];

		if (g->expires_at <= now)
			/* what others make up for */
			available += g->remaining - Max(0, Min(g->remaining, g->amount));
		else if (g->effective_at <= now)
			available += g->remaining;
	}
	return available;
}
