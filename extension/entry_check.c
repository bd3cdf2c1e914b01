/*
 * entry_check.c
 *		The CHECK constraint of mortar.credit_ledger.
 *
 * The executor parses the text of every constraint anew for each INSERT, and a
 * list of what may move where, written in SQL, cost a charge more than all of its
 * work.  As one call it is short.  verify_ledger() has the same list in SQL.
 *
 * It looks at nothing but its arguments, so that it holds on a server where the
 * library is not preloaded.
 */
#include "mortar.h"

#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(mtr_is_entry);

/* whether an entry of that kind names a grant */
typedef enum GrantRule
{
	GRANT_NEVER,
	GRANT_ALWAYS,
	GRANT_MAYBE
} GrantRule;

typedef struct EntryRule
{
	const char *kind;
	const char *from;
	const char *to;
	GrantRule   grant;
} EntryRule;

/* what is most frequent stands first */
static const EntryRule rules[] = {
	{"charge", "available", "consumed", GRANT_ALWAYS},
	{"charge", "debt", "consumed", GRANT_NEVER},
	{"charge", "issued", "consumed", GRANT_NEVER},
	{"hold", "available", "held", GRANT_ALWAYS},
	{"hold", "debt", "held", GRANT_NEVER},
	{"hold", "issued", "held", GRANT_NEVER},
	/* what is held is of a grant, or was debt or issued */
	{"capture", "held", "consumed", GRANT_MAYBE},
	{"capture", "available", "consumed", GRANT_ALWAYS},
	{"capture", "debt", "consumed", GRANT_NEVER},
	{"capture", "issued", "consumed", GRANT_NEVER},
	{"release", "held", "available", GRANT_ALWAYS},
	{"release", "held", "debt", GRANT_NEVER},
	{"release", "held", "issued", GRANT_NEVER},
	{"grant", "issued", "available", GRANT_ALWAYS},
	{"reversal", "consumed", "available", GRANT_ALWAYS},
	{"reversal", "consumed", "debt", GRANT_NEVER},
	{"reversal", "consumed", "issued", GRANT_NEVER},
	{"void", "available", "issued", GRANT_ALWAYS},
};

static bool
is(const text *t, const char *name)
{
	size_t len = strlen(name);

	return VARSIZE_ANY_EXHDR(t) == len &&
		   memcmp(VARDATA_ANY(t), name, len) == 0;
}

/*
 * mortar.is_entry(kind text, from_account text, to_account text, amount_uc int8,
 *				   grant_id uuid) returns bool
 *
 * May a row of the ledger say that?
 */
Datum
mtr_is_entry(PG_FUNCTION_ARGS)
{
	const text *kind;
	const text *from;
	const text *to;
	bool        of_grant = !PG_ARGISNULL(4);

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2) ||
		PG_ARGISNULL(3) || PG_GETARG_INT64(3) <= 0)
		PG_RETURN_BOOL(false);
	kind = PG_GETARG_TEXT_PP(0);
	from = PG_GETARG_TEXT_PP(1);
	to = PG_GETARG_TEXT_PP(2);
	for (int i = 0; i < (int) lengthof(rules); i++)
	{
		const EntryRule *r = &rules[i];

		if (is(kind, r->kind) && is(from, r->from) && is(to, r->to))
			PG_RETURN_BOOL(r->grant == GRANT_MAYBE ||
						   of_grant == (r->grant == GRANT_ALWAYS));
	}
	PG_RETURN_BOOL(false);
}
