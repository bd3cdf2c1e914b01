/*
 * price.c
 *		The price book: which price is in force, and how it is changed.
 *
 * Shared memory holds the prices in force of every database, each backend a
 * copy.  A commit that set a price bumps the generation, and the next call
 * reads the table again.  What a reader found is published only if the
 * generation is the one it saw before it took its snapshot.
 */
#include "mortar.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "price.h"
#include "spi.h"
#include "inval.h"

PG_FUNCTION_INFO_V1(mtr_set_price);

static MtrPrice copy[MTR_METERS];
static uint64   copy_generation = 0; /* 0: nothing copied yet */
static MtrDb   *copy_db = NULL;      /* of this database */

static MtrStmt stmt_prices = {
	.sql = "SELECT DISTINCT ON (meter) meter, price_id, num_uc, per_units "
		   "FROM mortar.prices ORDER BY meter, valid_from DESC, price_id DESC",
	.role = MTR_ROLE_OWNER,
};

static MtrStmt stmt_insert = {
	/* later than any other, also when the clock went back */
	.sql = "INSERT INTO mortar.prices "
		   "  (price_id, meter, num_uc, per_units, valid_from) "
		   "SELECT $1, $2, $3, $4, greatest(clock_timestamp(), "
		   "  max(valid_from) + '1 us'::pg_catalog.interval) "
		   "FROM mortar.prices WHERE meter = $2",
	.role = MTR_ROLE_OWNER,
	.nargs = 4,
	.argtypes = {UUIDOID, TEXTOID, INT8OID, INT8OID},
};

static void
read_row(uint64 row)
{
	HeapTuple tuple = SPI_tuptable->vals[row];
	TupleDesc desc = SPI_tuptable->tupdesc;
	char     *meter = mtr_cell(row, 1);
	bool      isnull;

	for (int m = 0; m < MTR_METERS; m++)
	{
		if (strcmp(meter, mtr_meter_name(m)) != 0)
			continue;
		copy[m].price_id =
			*DatumGetUUIDP(SPI_getbinval(tuple, desc, 2, &isnull));
		copy[m].num_uc = DatumGetInt64(SPI_getbinval(tuple, desc, 3, &isnull));
		copy[m].per_units =
			DatumGetInt64(SPI_getbinval(tuple, desc, 4, &isnull));
	}
}

static void
read_table(void)
{
	memset(copy, 0, sizeof(copy));
	SPI_connect();
	mtr_exec(&stmt_prices, NULL, NULL, MTR_SNAP_OTHERS, 0);
	for (uint64 i = 0; i < SPI_processed; i++)
		read_row(i);
	SPI_finish();
}

/* one try to bring the copy up to date; true when it is */
static bool
refresh(MtrDb *db)
{
	uint64 before = pg_atomic_read_u64(&db->price_generation);
	bool   loaded;

	copy_generation = 0;
	SpinLockAcquire(&db->mutex);
	loaded = db->prices_loaded;
	before = pg_atomic_read_u64(&db->price_generation);
	if (loaded)
		memcpy(copy, db->price, sizeof(copy));
	SpinLockRelease(&db->mutex);

	if (!loaded)
	{
		read_table();
		SpinLockAcquire(&db->mutex);
		if (pg_atomic_read_u64(&db->price_generation) == before)
		{
			memcpy(db->price, copy, sizeof(copy));
			db->prices_loaded = true;
			loaded = true;
		}
		SpinLockRelease(&db->mutex);
	}
	if (loaded)
	{
		copy_generation = before;
		copy_db = db;
	}
	return loaded;
}

const MtrPrice *
mtr_prices(void)
{
	MtrDb *db = mtr_db();

	while (copy_db != db ||
		   copy_generation != pg_atomic_read_u64(&db->price_generation))
	{
		CHECK_FOR_INTERRUPTS();
		if (refresh(db))
			break;
	}
	return copy;
}

/*
 * mortar.set_price(meter text, num_uc int8, per_units int8, route text,
 *					tenant text, valid_from timestamptz) returns uuid
 *
 * num_uc >= 0 micro-credits per per_units >= 1 units.	Takes effect for calls
 * that start after the commit.  Raises 22023 for values out of range, 0A000
 * for prices by route or tenant and for valid_from.
 */
Datum
mtr_set_price(PG_FUNCTION_ARGS)
{
	MtrMeter  meter;
	int64     num;
	int64     per;
	pg_uuid_t id;
	Datum     args[4];

	mtr_require_preload();
	mtr_check_admin("set_price");
	mtr_refuse_recovery();
	meter = mtr_meter_arg(fcinfo, 0);
	if (PG_ARGISNULL(1) || PG_ARGISNULL(2))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("num_uc and per_units must not be null")));
	num = PG_GETARG_INT64(1);
	per = PG_GETARG_INT64(2);
	if (num < 0 || num > MTR_MAX_AMOUNT_UC || per <= 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("num_uc must be 0 or more, per_units 1 or more"),
						errdetail("The largest num_uc is " INT64_FORMAT ".",
								  MTR_MAX_AMOUNT_UC)));
	if (!PG_ARGISNULL(3))
		MTR_NOT_YET("a price for one route");
	if (!PG_ARGISNULL(4))
		MTR_NOT_YET("a price for one tenant");
	if (!PG_ARGISNULL(5) &&
		PG_GETARG_TIMESTAMPTZ(5) != GetCurrentTransactionStartTimestamp())
		MTR_NOT_YET("a price valid from another time than now");

	mtr_new_id(&id);
	args[0] = UUIDPGetDatum(&id);
	args[1] = CStringGetTextDatum(mtr_meter_name(meter));
	args[2] = Int64GetDatum(num);
	args[3] = Int64GetDatum(per);
	SPI_connect();
	mtr_exec(&stmt_insert, args, NULL, MTR_SNAP_WRITE, 0);
	SPI_finish();
	mtr_inval_price_changed(mtr_db());
	PG_RETURN_DATUM(mtr_uuid_datum(&id));
}
