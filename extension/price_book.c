/*
 * price_book.c
 *		The backend's copy of the price book (see price.h).
 *
 * Each backend has all versions of all prices that are in force or to come, in a
 * memory context of their own.  A commit that set a price bumps the database's
 * generation, and the next call reads what is new.  The generation is noted
 * before the snapshot is taken: the snapshot has everything that was announced by
 * then, and whatever is announced later makes the backend read once more.
 *
 * What is new: rows whose transaction had not ended, or begun, when the last
 * reading began (column xid).  A book of 100,000 prices is so read once and not at
 * each change.  Rows of somebody else's (a restore) have any xid; after such a
 * write all of it is read again.
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

#include "access/transam.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

#include "http.h"
#include "price.h"
#include "spi.h"
#include "untimed.h"

#define REMEMBERED 256

/* one version of a price */
typedef struct Version
{
	MtrPrice        price;
	TimestampTz     valid_from;
	TimestampTz     begins;  /* DT_NOBEGIN: it has, whatever the clock says */
	struct Version *older;   /* the next of its scope that it supersedes */
	struct Version *pending; /* the next that had not begun */
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

typedef struct Scope
{
	ScopeKey key;
	Version *latest; /* later versions first */
} Scope;

typedef struct Book
{
	MemoryContext context; /* NULL: nothing was read yet */
	MtrDb        *db;
	uint64        generation;  /* of prices */
	uint64        foreign;     /* of the database: writes of others */
	uint64        known;       /* rows of transactions before it are here */
	TimestampTz   now;         /* prices are those of this instant */
	TimestampTz   next_change; /* the next version begins; DT_NOEND: none */
	Version      *pending;
	Version      *spare; /* superseded ones, linked by older */
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

#define COLUMNS                                                                \
	"meter, route, tenant_id, price_id, num_uc, per_units, valid_from, "       \
	"valid_from > set_at "

static MtrStmt stmt_all = {
	.sql = "SELECT " COLUMNS
		   "FROM (SELECT *, valid_from <= greatest(set_at, $1) AS begun, "
		   "    pg_catalog.row_number() OVER ("
		   "      PARTITION BY meter, route, tenant_id, "
		   "        valid_from <= greatest(set_at, $1) "
		   "      ORDER BY valid_from DESC, price_id DESC) AS rank "
		   "  FROM mortar.prices) p WHERE rank = 1 OR NOT begun",
	.role = MTR_ROLE_OWNER,
	.nargs = 1,
	.argtypes = {TIMESTAMPTZOID},
};

static MtrStmt stmt_new = {
	.sql = "SELECT " COLUMNS "FROM mortar.prices WHERE xid >= $1 AND xid <= $2",
	.role = MTR_ROLE_OWNER,
	.by_index = true,
	.nargs = 2,
	.argtypes = {XID8OID, XID8OID},
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

static Version *
new_version(Book *b)
{
	Version *v = b->spare;

	if (v == NULL)
		return MemoryContextAlloc(b->context, sizeof(Version));
	b->spare = v->older;
	return v;
}

/* does a come before b in a scope: is it the later version? */
static bool
is_later(const Version *a, const Version *b)
{
	if (a->valid_from != b->valid_from)
		return a->valid_from > b->valid_from;
	return memcmp(&a->price.price_id, &b->price.price_id, UUID_LEN) > 0;
}

/* puts a copy of the version into its scope, unless it is there */
static void
add_version(Book *b, Scope *scope, const Version *version)
{
	Version **link = &scope->latest;
	Version  *v;

	while (*link != NULL && is_later(*link, version))
		link = &(*link)->older;
	if (*link != NULL && memcmp(&(*link)->price.price_id,
								&version->price.price_id, UUID_LEN) == 0)
		return;
	v = new_version(b);
	*v = *version;
	v->older = *link;
	*link = v;
	v->pending = NULL;
	if (v->begins > b->now)
	{
		v->pending = b->pending;
		b->pending = v;
	}
}

/* versions behind one that has begun will never be in force again */
static void
trim(Book *b, Scope *scope)
{
	Version  *v = scope->latest;
	Version **link;

	while (v != NULL && v->begins > b->now)
		v = v->older;
	if (v == NULL)
		return;
	link = &v->older;
	while ((v = *link) != NULL)
	{
		if (v->begins > b->now) /* its place is in the list of pending ones */
			link = &v->older;
		else
		{
			*link = v->older;
			v->older = b->spare;
			b->spare = v;
		}
	}
}

static void
read_row(Book *b, uint64 row)
{
	HeapTuple tuple = SPI_tuptable->vals[row];
	TupleDesc desc = SPI_tuptable->tupdesc;
	Version   v = {0};
	ScopeKey  key;
	Scope    *scope;
	bool      isnull;
	bool      found;

	if (!read_key(row, &key))
		return;
	v.price.price_id = *DatumGetUUIDP(SPI_getbinval(tuple, desc, 4, &isnull));
	v.price.num_uc = DatumGetInt64(SPI_getbinval(tuple, desc, 5, &isnull));
	v.price.per_units = DatumGetInt64(SPI_getbinval(tuple, desc, 6, &isnull));
	v.valid_from = DatumGetTimestampTz(SPI_getbinval(tuple, desc, 7, &isnull));
	v.begins = DatumGetBool(SPI_getbinval(tuple, desc, 8, &isnull))
				   ? v.valid_from
				   : DT_NOBEGIN;

	scope = hash_search(b->scopes, &key, HASH_ENTER, &found);
	if (!found)
		scope->latest = NULL;
	add_version(b, scope, &v);
	trim(b, scope);
	b->by_tenant |= key.tenant_id[0] != '\0';
	b->by_route |= key.tenant_id[0] == '\0' && key.route != 0;
}

/* SPI is connected, and a statement was executed */
static void
read_rows(Book *b)
{
	MemoryContext row_context = AllocSetContextCreate(
		CurrentMemoryContext, "mortar price row", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(row_context);

	for (uint64 row = 0; row < SPI_processed; row++)
	{
		read_row(b, row);
		MemoryContextReset(row_context);
	}
	MemoryContextSwitchTo(old);
}

/* for mtr_untimed: a session that is in a hurry must get it some time */
static void
read_all(void *arg)
{
	Book   *b = arg;
	Datum   args[1] = {TimestampTzGetDatum(b->now)};
	HASHCTL info = {0};

	SPI_connect();
	mtr_exec(&stmt_all, args, NULL, MTR_SNAP_OTHERS, 0);
	info.keysize = sizeof(ScopeKey);
	info.entrysize = sizeof(Scope);
	info.hcxt = b->context;
	b->scopes = hash_create("mortar prices", Max((long) SPI_processed, 16),
							&info, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	read_rows(b);
	SPI_finish();
}

static void
read_new(Book *b)
{
	Datum args[2];

	SPI_connect();
	args[0] = FullTransactionIdGetDatum(FullTransactionIdFromU64(b->known));
	args[1] = FullTransactionIdGetDatum(ReadNextFullTransactionId());
	mtr_exec(&stmt_new, args, NULL, MTR_SNAP_OTHERS, 0);
	read_rows(b);
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
	for (const Version *v = scope->latest; v != NULL; v = v->older)
		if (v->begins <= b->now)
			return &v->price;
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

/* the book has new versions, or now has moved */
static void
settle(Book *b)
{
	Version **link = &b->pending;

	edition++;
	b->next_change = DT_NOEND;
	while (*link != NULL)
	{
		Version *v = *link;

		if (v->begins <= b->now)
		{
			*link = v->pending;
			continue;
		}
		b->next_change = Min(b->next_change, v->begins);
		link = &v->pending;
	}
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

/* a snapshot taken from now on misses no transaction before this one */
static uint64
oldest_running(void)
{
	uint32 xmin = GetLatestSnapshot()->xmin;
	uint64 next = U64FromFullTransactionId(ReadNextFullTransactionId());

	return next - ((uint32) next - xmin);
}

/* into a book of its own, so that an error leaves the old one */
static void
replace_book(MtrDb *db, uint64 foreign)
{
	Book b = {0};

	b.db = db;
	b.foreign = foreign;
	b.now = book.now;
	b.context = AllocSetContextCreate(CurrentMemoryContext, "mortar prices",
									  ALLOCSET_DEFAULT_SIZES);
	mtr_untimed(read_all, &b);
	MemoryContextSetParent(b.context, TopMemoryContext);
	if (book.context != NULL)
		MemoryContextDelete(book.context);
	book = b;
}

/* inval.c counts in the other order: who sees a new first sees all of them */
static void
read_book(MtrDb *db)
{
	uint64 generation = pg_atomic_read_u64(&db->price_generation);
	uint64 foreign;
	uint64 known;

	pg_read_barrier();
	foreign = pg_atomic_read_u64(&db->generation);
	known = oldest_running();
	book.now = advance(db);
	if (book.db == db && book.foreign == foreign)
	{
		settle(&book); /* what has begun leaves the list before it is trimmed */
		read_new(&book);
	}
	else
		replace_book(db, foreign);
	book.generation = generation;
	book.known = known;
	settle(&book);
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
