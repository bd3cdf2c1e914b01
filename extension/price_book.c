/*
 * price_book.c
 *		The backend's copy of the price book (see price.h).
 *
 * Each backend has all versions of all prices that are in force or to come,
 * read in one statement, in a memory context of their own.  A commit that set a
 * price bumps the database's generation, and the next call reads the book again.
 * The generation is noted before the snapshot is taken: the snapshot has
 * everything that was announced by then, and whatever is announced later makes
 * the book be read once more.
 *
 * Versions that begin later come into force without anybody's doing: the book
 * is looked at as of an instant, now, and next_change says when that has to
 * move on.  Without such versions no call reads the clock.
 *
 * Time never runs back: a version that was in force for one backend is so for
 * all (MtrDb.price_time), and one that was in force when it was set is so
 * whatever the clock says afterwards (column set_at).  The second also holds
 * across a restart.
 *
 * Most installations have general prices only, and these are an array.  For
 * others the answers for a tenant and route are remembered, and found again by
 * one hash value and one comparison of names.
 *
 * Locking: none; all of it is the backend's own.
 */
#include "mortar.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "http.h"
#include "price.h"
#include "spi.h"

#define REMEMBERED 256

/* one version of a price */
typedef struct Version
{
	MtrPrice    price;
	TimestampTz begins; /* DT_NOBEGIN: it has begun, whatever the clock says */
} Version;

/* a blob as hash key: no padding, zeroed tail */
typedef struct ScopeKey
{
	int16 meter;
	int16 route;                     /* 0: any */
	char  tenant_id[MTR_TENANT_LEN]; /* empty: any */
} ScopeKey;

StaticAssertDecl(sizeof(ScopeKey) == 4 + MTR_TENANT_LEN,
				 "the hash key of prices must have no padding");

/* versions [first, first + n), in the order in which they supersede each other */
typedef struct Scope
{
	ScopeKey key;
	int      first;
	int      n;
} Scope;

typedef struct Book
{
	MemoryContext context; /* NULL: nothing was read yet */
	MtrDb        *db;
	uint64        generation;
	TimestampTz   now;         /* prices are those of this instant */
	TimestampTz   next_change; /* the next version begins; DT_NOEND: none */
	int           nversions;
	Version      *version;
	HTAB         *scopes;
	bool          by_route; /* there are prices of routes, for all tenants */
	bool          by_tenant;
	MtrPrice      general[MTR_METERS];
} Book;

/* what was found for a tenant and route, as of an edition of the book */
typedef struct Found
{
	uint64   edition;
	int16    route;
	char     tenant_id[MTR_TENANT_LEN];
	MtrPrice price[MTR_METERS];
} Found;

static Book   book;
static uint64 edition = 0; /* grows when the book's answers may change */
static Found  remembered[REMEMBERED];

static MtrStmt stmt_prices = {
	.sql = "SELECT meter, route, tenant_id, price_id, num_uc, per_units, "
		   "  CASE WHEN valid_from > set_at THEN valid_from END "
		   "FROM (SELECT *, pg_catalog.row_number() OVER ("
		   "    PARTITION BY meter, route, tenant_id, "
		   "      valid_from <= greatest(set_at, $1) "
		   "    ORDER BY valid_from DESC, price_id DESC) AS rank "
		   "  FROM mortar.prices) p "
		   "WHERE rank = 1 OR valid_from > greatest(set_at, $1) "
		   "ORDER BY meter, route, tenant_id, valid_from, price_id",
	.role = MTR_ROLE_OWNER,
	.nargs = 1,
	.argtypes = {TIMESTAMPTZOID},
};

/* ---- reading ---- */

static void
make_key(ScopeKey *key, int meter, int16 route, const char *tenant)
{
	memset(key, 0, sizeof(*key));
	key->meter = meter;
	key->route = route;
	strlcpy(key->tenant_id, tenant, MTR_TENANT_LEN);
}

/* false: a meter or route that this version of the library does not know */
static bool
read_key(uint64 row, ScopeKey *key)
{
	char *meter = mtr_cell(row, 1);
	char *route = mtr_cell(row, 2);
	char *tenant = mtr_cell(row, 3);
	int   m = 0;
	int16 r = 0;

	if (route != NULL)
	{
		const MtrRoute *known = mtr_route_named(route);

		r = known != NULL ? known->id : -1;
	}

	while (m < MTR_METERS && strcmp(meter, mtr_meter_name((MtrMeter) m)) != 0)
		m++;
	make_key(key, m, r, tenant != NULL ? tenant : "");
	return m < MTR_METERS && r >= 0;
}

/* appends a row; those of a scope follow each other */
static void
read_row(Book *b, uint64 row)
{
	HeapTuple tuple = SPI_tuptable->vals[row];
	TupleDesc desc = SPI_tuptable->tupdesc;
	Version  *v = &b->version[b->nversions];
	ScopeKey  key;
	Scope    *scope;
	Datum     begins;
	bool      isnull;
	bool      found;

	if (!read_key(row, &key))
		return;
	v->price.price_id = *DatumGetUUIDP(SPI_getbinval(tuple, desc, 4, &isnull));
	v->price.num_uc = DatumGetInt64(SPI_getbinval(tuple, desc, 5, &isnull));
	v->price.per_units = DatumGetInt64(SPI_getbinval(tuple, desc, 6, &isnull));
	begins = SPI_getbinval(tuple, desc, 7, &isnull);
	v->begins = isnull ? DT_NOBEGIN : DatumGetTimestampTz(begins);

	scope = hash_search(b->scopes, &key, HASH_ENTER, &found);
	if (!found)
	{
		scope->first = b->nversions;
		scope->n = 0;
	}
	scope->n++;
	b->nversions++;
	b->by_tenant |= key.tenant_id[0] != '\0';
	b->by_route |= key.tenant_id[0] == '\0' && key.route != 0;
}

/* fills an empty book whose context is the present one's child */
static void
read_table(Book *b)
{
	Datum         args[1] = {TimestampTzGetDatum(b->now)};
	HASHCTL       info = {0};
	MemoryContext old;

	SPI_connect();
	mtr_exec(&stmt_prices, args, NULL, MTR_SNAP_OTHERS, 0);

	info.keysize = sizeof(ScopeKey);
	info.entrysize = sizeof(Scope);
	info.hcxt = b->context;
	b->scopes = hash_create("mortar prices", Max((long) SPI_processed, 16),
							&info, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	b->version = MemoryContextAllocHuge(b->context, Max(SPI_processed, 1) *
														sizeof(Version));
	/* the texts of a row are needed no longer than the row */
	old = MemoryContextSwitchTo(AllocSetContextCreate(
		CurrentMemoryContext, "mortar price row", ALLOCSET_SMALL_SIZES));
	for (uint64 row = 0; row < SPI_processed; row++)
	{
		read_row(b, row);
		MemoryContextReset(CurrentMemoryContext);
	}
	MemoryContextSwitchTo(old);
	SPI_finish();
}

/* ---- looking up ---- */

/* NULL: the scope has no price, or none yet */
static const MtrPrice *
price_of(const Book *b, int meter, int16 route, const char *tenant)
{
	ScopeKey     key;
	const Scope *scope;

	make_key(&key, meter, route, tenant);
	scope = hash_search(b->scopes, &key, HASH_FIND, NULL);
	if (scope == NULL)
		return NULL;
	for (int i = scope->n - 1; i >= 0; i--)
		if (b->version[scope->first + i].begins <= b->now)
			return &b->version[scope->first + i].price;
	return NULL;
}

/* the most specific one */
static MtrPrice
find(const Book *b, int meter, int16 route, const char *tenant)
{
	const MtrPrice *p = NULL;

	if (b->by_tenant && route != 0)
		p = price_of(b, meter, route, tenant);
	if (p == NULL && b->by_tenant)
		p = price_of(b, meter, 0, tenant);
	if (p == NULL && b->by_route && route != 0)
		p = price_of(b, meter, route, "");
	return p != NULL ? *p : b->general[meter];
}

/* brings the book to b->now, which has moved */
static void
settle(Book *b)
{
	edition++;
	b->next_change = DT_NOEND;
	for (int i = 0; i < b->nversions; i++)
		if (b->version[i].begins > b->now)
			b->next_change = Min(b->next_change, b->version[i].begins);
	for (int m = 0; m < MTR_METERS; m++)
	{
		const MtrPrice *p = price_of(b, m, 0, "");

		memset(&b->general[m], 0, sizeof(MtrPrice));
		if (p != NULL)
			b->general[m] = *p;
	}
}

TimestampTz
mtr_price_now(MtrDb *db)
{
	return Max(GetCurrentTimestamp(),
			   (TimestampTz) pg_atomic_read_u64(&db->price_time));
}

/* the same, and for all backends from now on */
static TimestampTz
advance(MtrDb *db)
{
	TimestampTz now = mtr_price_now(db);
	uint64      seen = pg_atomic_read_u64(&db->price_time);

	while (
		(TimestampTz) seen < now &&
		!pg_atomic_compare_exchange_u64(&db->price_time, &seen, (uint64) now))
		;
	return now;
}

static void
read_book(MtrDb *db)
{
	Book b = {0};

	b.db = db;
	b.generation = pg_atomic_read_u64(&db->price_generation);
	pg_read_barrier(); /* the snapshot comes after */
	b.now = advance(db);
	/* an error on the way takes the context with it, and leaves the old book */
	b.context = AllocSetContextCreate(CurrentMemoryContext, "mortar prices",
									  ALLOCSET_DEFAULT_SIZES);
	read_table(&b);
	settle(&b);
	MemoryContextSetParent(b.context, TopMemoryContext);
	if (book.context != NULL)
		MemoryContextDelete(book.context);
	book = b;
}

const MtrPrice *
mtr_prices(const MtrTenant *t, int16 route)
{
	MtrDb *db = mtr_db();
	Found *f;
	uint32 hash;

	if (book.db != db ||
		book.generation != pg_atomic_read_u64(&db->price_generation))
		read_book(db);
	else if (book.next_change != DT_NOEND &&
			 mtr_price_now(db) >= book.next_change)
	{
		book.now = advance(db);
		settle(&book);
	}
	if (!book.by_tenant && (!book.by_route || route == 0))
		return book.general;

	hash = hash_bytes((const unsigned char *) t->tenant_id,
					  (int) strlen(t->tenant_id));
	f = &remembered[(hash + (uint32) route * 31) % REMEMBERED];
	if (f->edition != edition || f->route != route ||
		strcmp(f->tenant_id, t->tenant_id) != 0)
	{
		f->edition = edition;
		f->route = route;
		strlcpy(f->tenant_id, t->tenant_id, MTR_TENANT_LEN);
		for (int m = 0; m < MTR_METERS; m++)
			f->price[m] = find(&book, m, route, t->tenant_id);
	}
	return f->price;
}
