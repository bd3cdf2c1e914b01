/*
 * reverse.c
 *		Taking back: a charge or a capture, and a grant.
 *
 * A reversal gives credits back to the grants that paid, from the last part of the
 * movement on; so what was reversed is always its tail, and the sum of the reversals says
 * where it begins.	 Their rows refer to the movement by "reverses".
 *
 * A void takes from one grant what is neither spent nor held, at once.
 *
 * Locking: the movement's first row, or the grant's, is locked to the end of the
 * transaction, which takes no room in the server's lock table.	What can be reversed is
 * read behind it.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "idem.h"
#include "life.h"
#include "movement.h"
#include "slot.h"
#include "spi.h"

PG_FUNCTION_INFO_V1(mtr_reverse);
PG_FUNCTION_INFO_V1(mtr_void_grant);

static MtrStmt stmt_reversed = {
	.sql = "SELECT coalesce(sum(amount_uc), 0)::pg_catalog.int8 "
		   "FROM mortar.credit_ledger "
		   "WHERE tenant_id = $1 AND reverses = $2 AND kind = 'reversal'",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 2,
	.argtypes = {TEXTOID, UUIDOID},
};

static MtrStmt stmt_lock_movement = {
	.sql = "SELECT FROM mortar.credit_ledger "
		   "WHERE tenant_id = $1 AND entry_id = $2 FOR UPDATE",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 2,
	.argtypes = {TEXTOID, UUIDOID},
};

static MtrStmt stmt_lock_grant = {
	.sql = "SELECT FROM mortar.credit_grants "
		   "WHERE tenant_id = $1 AND grant_id = $2 FOR UPDATE",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 2,
	.argtypes = {TEXTOID, UUIDOID},
};

/* a call of one of the two functions */
typedef struct Call
{
	char       tenant[MTR_TENANT_LEN];
	pg_uuid_t  id; /* of the entry, or the grant */
	MtrIdem    idem;
	MtrTenant *t;
	int64      amount; /* to reverse; 0: all that is left */
	Datum      meta;
} Call;

/* the part that is the same of both: once per key */
static Datum
do_once(Call *c, void (*do_it)(Call *c, const pg_uuid_t *movement_id))
{
	pg_uuid_t movement_id;

	c->t = mtr_tenant_pin(c->tenant);
	SPI_connect();
	if (mtr_idem_claim(&c->idem, c->t, &movement_id))
		do_it(c, &movement_id);
	SPI_finish();
	return mtr_uuid_datum(&movement_id);
}

/* ---- reverse ---- */

/* with the movement's lock */
static int64
reversed_before(const char *tenant, const pg_uuid_t *original)
{
	bool isnull;

	(void) mtr_find(&stmt_reversed, tenant, original);
	return DatumGetInt64(mtr_first(1, &isnull));
}

static void
refuse_excess(int64 left)
{
	ereport(ERROR,
			(errcode(MTR_ERR_INVALID), errmsg("more than is left to reverse"),
			 errdetail(
				 "{\"code\":\"exceeds_original\",\"left_uc\":" INT64_FORMAT "}",
				 left)));
}

static void
reverse(Call *c, const pg_uuid_t *movement_id)
{
	pg_uuid_t  original;
	MtrSources spent;
	MtrRows    rows = {.like = {.tenant = c->tenant, .reverses = &original}};
	int64      before;
	int64      left;

	if (!mtr_movement_of(c->tenant, &c->id, &original))
		mtr_refuse(MTR_ERR_NOT_FOUND, "no_such_entry",
				   "there is no such entry");
	(void) mtr_find(&stmt_lock_movement, c->tenant, &original);
	mtr_sources_read(c->tenant, &original, "consumed", &spent);
	if (spent.kind == NULL || (strcmp(spent.kind, "charge") != 0 &&
							   strcmp(spent.kind, "capture") != 0))
		mtr_refuse(MTR_ERR_INVALID, "not_reversible",
				   "only a charge or a capture can be reversed");
	before = reversed_before(c->tenant, &original);
	left = spent.total - before;
	if (left <= 0)
		mtr_refuse(MTR_ERR_CONFLICT, "nothing_left", "nothing left to reverse");
	if (c->amount > left)
		refuse_excess(left);
	mtr_give_back(c->t, &spent, before, c->amount > 0 ? c->amount : left,
				  "reversal", "consumed", &rows);
	mtr_rows_post(c->t, &rows, movement_id);
}

/*
 * mortar.reverse(tenant text, entry_id uuid, key text, amount_uc int8) returns uuid
 *
 * Gives back what a charge or a capture has taken, or a part of it (amount_uc null:
 * all that is left).  The sum of all reversals never exceeds it.  What comes from
 * a grant that has ended is gone.	Returns the movement's id.	Raises 22003, 22004,
 * 22023, MT403 when the tenant is closed, MT404, MT409 when nothing is left, MT422,
 * MT423.
 */
Datum
mtr_reverse(PG_FUNCTION_ARGS)
{
	Call c = {.amount = 0};

	mtr_require_preload();
	mtr_check_admin("reverse");
	mtr_tenant_arg(fcinfo, 0, c.tenant);
	c.id = mtr_uuid_arg(fcinfo, 1, "entry_id");
	mtr_idem_arg(fcinfo, 2, c.tenant, &c.idem);
	if (!PG_ARGISNULL(3))
		c.amount = mtr_amount_arg(fcinfo, 3);
	mtr_idem_fingerprint(&c.idem, "reverse", c.amount, mtr_uuid_string(&c.id));
	PG_RETURN_DATUM(do_once(&c, reverse));
}

/* ---- void_grant ---- */

static void
void_grant(Call *c, const pg_uuid_t *movement_id)
{
	struct mtr_part part = {.amount = 0};
	MtrEntry        entry = {.tenant = c->tenant,
							 .kind = "void",
							 .from = "available",
							 .to = "issued",
							 .grant_id = &c->id,
							 .meta = c->meta};
	int             cell;

	if (!mtr_find(&stmt_lock_grant, c->tenant, &c->id))
		mtr_refuse(MTR_ERR_NOT_FOUND, "no_such_grant",
				   "there is no such grant");
	cell = mtr_grant_cell(c->t, &c->id);
	if (cell != -1)
		mtr_take_grant(c->t, cell, MTR_MAX_AMOUNT_UC, &part);
	if (part.amount == 0)
		mtr_refuse(MTR_ERR_CONFLICT, "nothing_left",
				   "nothing is left of the grant");
	entry.amount_uc = part.amount;
	mtr_post(c->t, &entry, movement_id);
}

/* {"reason": ...} */
static Datum
reason_meta(const char *reason)
{
	StringInfoData b;

	initStringInfo(&b);
	appendStringInfoString(&b, "{\"reason\":");
	escape_json(&b, reason);
	appendStringInfoChar(&b, '}');
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(b.data));
}

/*
 * mortar.void_grant(tenant text, grant_id uuid, key text, reason text) returns uuid
 *
 * Takes back what is neither spent nor held of a grant.  What a hold gives back later,
 * or a reversal, is there again.  Returns the movement's id.  Raises 22004, 22023,
 * MT403 when the tenant is closed, MT404, MT409 when nothing is left, MT422, MT423.
 */
Datum
mtr_void_grant(PG_FUNCTION_ARGS)
{
	Call  c = {.amount = 0};
	char *reason;

	mtr_require_preload();
	mtr_check_admin("void_grant");
	mtr_tenant_arg(fcinfo, 0, c.tenant);
	c.id = mtr_uuid_arg(fcinfo, 1, "grant_id");
	mtr_idem_arg(fcinfo, 2, c.tenant, &c.idem);
	mtr_require_arg(fcinfo, 3, "reason");
	reason = text_to_cstring(PG_GETARG_TEXT_PP(3));
	if (reason[0] == '\0')
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("reason must not be empty")));
	c.meta = reason_meta(reason);
	mtr_idem_fingerprint(&c.idem, "void_grant", 0,
						 psprintf("%s %s", mtr_uuid_string(&c.id), reason));
	PG_RETURN_DATUM(do_once(&c, void_grant));
}
