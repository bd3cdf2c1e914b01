/*
 * inval.c
 *		What a transaction makes void in shared memory when it commits.
 *
 * Prices, keys and, for writes that were not Mortar's own, everything.	Keys
 * are named one by one and pinned, so that the COMMIT callback has nothing to
 * look up.
 *
 * An aborted subtransaction's notes stay, as reading something again that did
 * not change does no harm; but for the purge, which throws usage away.
 */
#include "mortar.h"

#include "access/xact.h"
#include "utils/memutils.h"

#include "inval.h"

static MtrKey **keys = NULL;
static int      nkeys = 0;
static int      maxkeys = 0;

static bool   changed = false; /* something that needs no note at commit */
static MtrDb *price_db = NULL;
static MtrDb *foreign_db = NULL;
static MtrDb *purge_db = NULL;
static int drop_nest = 0; /* level of the DROP EXTENSION; 0: there was none */

void
mtr_inval_reserve_key(void)
{
	int n = Max(16, maxkeys * 2);

	if (nkeys < maxkeys)
		return;
	if (keys == NULL)
		keys = MemoryContextAlloc(TopMemoryContext, n * sizeof(MtrKey *));
	else
		keys = repalloc_huge(keys, n * sizeof(MtrKey *));
	maxkeys = n;
}

void
mtr_inval_price_changed(MtrDb *db)
{
	price_db = db;
}

void
mtr_inval_key_changed(MtrKey *key)
{
	Assert(nkeys < maxkeys);
	keys[nkeys++] = key;
}

void
mtr_inval_changed(void)
{
	changed = true;
}

void
mtr_inval_foreign_write(MtrDb *db)
{
	foreign_db = db;
}

void
mtr_inval_dropped(MtrDb *db)
{
	int nest = GetCurrentTransactionNestLevel();

	if (drop_nest == 0 || nest < drop_nest)
		drop_nest = nest;
	if (db != NULL)
		purge_db = db;
}

bool
mtr_inval_is_dropped(void)
{
	return drop_nest > 0;
}

void
mtr_inval_refuse_dropped(void)
{
	if (drop_nest > 0)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("this transaction has dropped the extension "
							   "\"mortar\""),
						errhint("COMMIT or ROLLBACK first.")));
}

static void
end_db(void)
{
	MtrDb *db = price_db != NULL ? price_db : foreign_db;

	if (purge_db != NULL)
		db = purge_db;
	if (foreign_db != NULL)
	{
		pg_atomic_fetch_add_u64(&foreign_db->generation, 1);
		pg_atomic_fetch_add_u64(&foreign_db->key_generation, 1);
	}
	if (purge_db != NULL)
	{
		/* slots are stale from now on; the flusher frees them and leaves */
		pg_atomic_write_u64(&purge_db->purged,
							pg_atomic_add_fetch_u64(&purge_db->generation, 1));
		pg_write_barrier();
		pg_atomic_write_u32(&purge_db->sweep_wanted, 1);
		pg_atomic_write_u32(&purge_db->dirty, 1);
		mtr_wake_launcher();
	}
	/* last, see price_book.c */
	pg_atomic_fetch_add_u64(&db->price_generation, 1);
}

static void
end_keys(bool is_commit)
{
	MtrDb *db = &MtrShared->db[keys[0]->key.db];

	if (is_commit)
		pg_atomic_fetch_add_u64(&db->key_generation, 1);
	for (int i = 0; i < nkeys; i++)
	{
		MtrKey *k = keys[i];

		SpinLockAcquire(&k->mutex);
		if (is_commit)
		{
			k->valid = false;
		}
		k->pins--;
		SpinLockRelease(&k->mutex);
	}
	nkeys = 0;
}

void
mtr_inval_end(bool is_commit)
{
	if (nkeys > 0)
		end_keys(is_commit);
	if (is_commit &&
		(price_db != NULL || foreign_db != NULL || purge_db != NULL))
		end_db();
	price_db = foreign_db = purge_db = NULL;
	drop_nest = 0;
	changed = false;
}

void
mtr_inval_end_subxact(bool is_commit, int level)
{
	if (drop_nest < level)
		return;
	if (is_commit)
		drop_nest = level - 1;
	else
	{
		drop_nest = 0;
		purge_db = NULL;
	}
}

bool
mtr_inval_any(void)
{
	return changed || nkeys > 0 || price_db != NULL || foreign_db != NULL ||
		   drop_nest > 0;
}
