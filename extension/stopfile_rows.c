/*
 * stopfile_rows.c
 *		Records of a clean stop's file on their way into the journal.
 *
 * Rows are put right behind what the journal has of their usage slot.  That is
 * where they were cut, unless somebody else has written to the journal since: a
 * restore, or this server, if the file was set aside and repaired later.
 *
 * A tenant's records are one movement: its rows in the journal, and who has paid for
 * them.
 */
#include "mortar.h"

#include "utils/memutils.h"

#include "core/price.h"
#include "flush_batch.h"
#include "gate.h"
#include "stopfile.h"

/* prices above 0 that one tenant's records of one meter can be of, at most */
#define WALKS (MTR_COUNTERS * MTR_METERS)

/* how far the priced quantity of one price has come */
typedef struct Walk
{
	char      meter[MTR_STOPFILE_METER_LEN];
	pg_uuid_t price_id;
	int64     quantity;
} Walk;

/* what the records of one tenant come to so far */
typedef struct Movement
{
	pg_uuid_t  id;
	int64      cost;   /* of its usage */
	int        nburns; /* those of sources, summed up */
	MtrBurnRow burn[MTR_PURSE_SOURCES + 1];
} Movement;

typedef struct Entering
{
	const char   *path;
	FILE         *file;
	char          tenant[MTR_TENANT_LEN]; /* whose walks these are */
	int           nwalks;
	Walk          walk[WALKS];
	MtrStopRecord last;  /* of the usage slot at hand */
	int64         shift; /* of its records */
	Movement      movement;
	MtrJournal    journal;
	pg_uuid_t     epoch_id;
	MemoryContext rows; /* of what is in the journal */
} Entering;

void
mtr_stopfile_read(FILE *file, const char *path, void *data, size_t len)
{
	if (fread(data, len, 1, file) == 1)
		return;
	if (ferror(file))
		ereport(ERROR, (errcode_for_file_access(),
						errmsg("could not read file \"%s\": %m", path)));
	ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
					errmsg("file \"%s\" ends early", path)));
}

static Walk *
find_walk(Entering *e, const MtrStopRecord *r)
{
	Walk *w;

	for (int i = 0; i < e->nwalks; i++)
		if (memcmp(&e->walk[i].price_id, &r->price_id, UUID_LEN) == 0 &&
			strcmp(e->walk[i].meter, r->meter) == 0)
			return &e->walk[i];
	if (e->nwalks == WALKS)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("file \"%s\" has too many prices of tenant \"%s\"",
						e->path, r->tenant)));
	w = &e->walk[e->nwalks++];
	strlcpy(w->meter, r->meter, sizeof(w->meter));
	w->price_id = r->price_id;
	w->quantity = mtr_journal_priced(r->tenant, r->meter, &r->price_id);
	return w;
}

static int64
cost_of(Entering *e, const MtrStopRecord *r)
{
	Walk *w;
	int64 qty = r->upto_qty - r->from_qty;
	int64 cost;

	if (r->num_uc == 0)
		return 0;
	w = find_walk(e, r);
	if (!mtr_price_step(w->quantity, qty, r->num_uc, r->per_units, &cost))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("cost of tenant \"%s\" is out of range", r->tenant)));
	w->quantity += qty;
	return cost;
}

/* moves the row to where the journal ends; records of a slot stand together */
static void
place(Entering *e, const MtrStopRecord *r, MtrJournalRow *row)
{
	const MtrStopRecord *last = &e->last;

	if (strcmp(last->tenant, r->tenant) != 0 ||
		strcmp(last->meter, r->meter) != 0 ||
		strcmp(last->route, r->route) != 0 ||
		memcmp(&last->key_id, &r->key_id, UUID_LEN) != 0 ||
		memcmp(&last->price_id, &r->price_id, UUID_LEN) != 0)
	{
		e->shift = mtr_journal_mark(row) - r->from_qty;
		e->last = *r;
	}
	row->from_qty = r->from_qty + e->shift;
	row->upto_qty = r->upto_qty + e->shift;
}

static void
write_rows(Entering *e)
{
	mtr_journal_write(&e->journal, &e->epoch_id);
	MemoryContextReset(e->rows);
}

static void
enter_usage(Entering *e, const MtrStopRecord *r)
{
	MtrJournalRow row;

	row.tenant = r->tenant;
	row.movement_id = e->movement.id;
	row.meter = r->meter;
	row.key_id = r->key_id;
	row.route = r->route;
	row.price_id = r->price_id;
	place(e, r, &row);
	row.minute = r->minute;
	row.cost_uc = cost_of(e, r);
	e->movement.cost += row.cost_uc;
	mtr_journal_add(&e->journal, &row);
	if (e->journal.nrows == MTR_FLUSH_ROWS)
		write_rows(e);
}

/* tenants' burns wait until all of them are known */
static void
add_burn(Entering *e, const char *account, const pg_uuid_t *grant_id,
		 int64 amount)
{
	Movement *m = &e->movement;
	int       i = 0;

	while (i < m->nburns &&
		   (m->burn[i].account[0] != account[0] ||
			memcmp(&m->burn[i].grant_id, grant_id, UUID_LEN) != 0))
		i++;
	if (i == (int) lengthof(m->burn))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("file \"%s\" has too many sources of tenant \"%s\"",
						e->path, e->tenant)));
	if (i == m->nburns)
	{
		m->burn[i].account = account;
		m->burn[i].grant_id = *grant_id;
		m->burn[i].amount_uc = 0;
		m->nburns++;
	}
	m->burn[i].amount_uc += amount;
}

static void
enter_burn(Entering *e, const MtrStopRecord *r)
{
	struct mtr_part part = {.cell = (int16) r->source};

	add_burn(e, mtr_part_account(&part), &r->grant_id, r->amount_uc);
}

/*
 * The burns of the tenant at hand.	 Where rows were moved its usage may cost a
 * micro-credit more or less than was paid: that is debt, or comes from it.
 */
static void
end_tenant(Entering *e)
{
	Movement       *m = &e->movement;
	const pg_uuid_t nobody = {{0}};
	int64           rest = m->cost;

	for (int i = 0; i < m->nburns; i++)
		rest -= m->burn[i].amount_uc;
	if (rest != 0)
		add_burn(e, "debt", &nobody, rest);
	for (int i = 0; i < m->nburns; i++)
	{
		m->burn[i].tenant = e->tenant;
		m->burn[i].movement_id = m->id;
		if (m->burn[i].amount_uc == 0)
			continue;
		mtr_journal_burn(&e->journal, &m->burn[i]);
		if (e->journal.nburns == MTR_FLUSH_ROWS)
			write_rows(e);
	}
}

static void
begin_tenant(Entering *e, const char *tenant)
{
	strlcpy(e->tenant, tenant, sizeof(e->tenant));
	e->nwalks = 0;
	e->movement.cost = 0;
	e->movement.nburns = 0;
	mtr_new_id(&e->movement.id);
}

void
mtr_stopfile_rows(FILE *file, const char *path, const MtrStopHeader *header)
{
	Entering     *e = palloc0(sizeof(Entering));
	MemoryContext old;

	e->path = path;
	e->file = file;
	e->epoch_id = header->epoch_id;
	mtr_journal_init(&e->journal);
	e->rows = AllocSetContextCreate(CurrentMemoryContext, "mortar stop file",
									ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(e->rows);
	for (uint64 i = 0; i < header->nrecords; i++)
	{
		MtrStopRecord r;

		mtr_stopfile_read(file, path, &r, sizeof(r));
		if (strcmp(e->tenant, r.tenant) != 0)
		{
			end_tenant(e);
			begin_tenant(e, r.tenant);
		}
		if (r.kind == MTR_STOP_USAGE)
			enter_usage(e, &r);
		else
			enter_burn(e, &r);
	}
	end_tenant(e);
	write_rows(e);
	MemoryContextSwitchTo(old);
}
