/*
 * flush_sync_find.c
 *		Rows of mortar.usage_sync that memory does not know of.
 *
 * A crash, a stop or a restored dump leaves them.  Whoever loads a tenant learns of
 * its rows and has the flusher move them; here those are loaded whom nobody has asked
 * for yet.
 *
 * Locking: MtrShared.lock, exclusive, to throw a stale slot away.
 */
#include "mortar.h"

#include "flush_batch.h"
#include "slot_load.h"
#include "spi.h"
#include "xact.h"

static MtrStmt stmt_find = {
	.sql = "SELECT DISTINCT tenant_id FROM mortar.usage_sync",
	.role = MTR_ROLE_OWNER,
};

typedef enum Present
{
	PRESENT_NO,
	PRESENT_KNOWS, /* of its rows, or of all that there were a moment ago */
	PRESENT_STALE  /* and cannot go yet */
} Present;

/* a stale slot goes if it can: nobody need ever ask for the tenant again */
static Present
look_at(const char *tenant)
{
	MtrDb     *db = mtr_db();
	MtrTenant *t;
	Present    result = PRESENT_NO;

	LWLockAcquire(MtrShared->lock, LW_EXCLUSIVE);
	t = mtr_tenant_lookup(db - MtrShared->db, tenant);
	if (t != NULL)
	{
		bool knows;

		SpinLockAcquire(&t->mutex);
		knows = t->queued > 0 ||
				t->generation == pg_atomic_read_u64(&db->generation);
		SpinLockRelease(&t->mutex);
		if (knows)
			result = PRESENT_KNOWS;
		else if (!mtr_tenant_clear_locked(t))
			result = PRESENT_STALE;
	}
	LWLockRelease(MtrShared->lock);
	return result;
}

/* false: not now, and others had better wait, too */
static bool
load(const char *tenant, bool *all)
{
	MtrTenant *t;
	MtrPin     result;

	switch (look_at(tenant))
	{
		case PRESENT_KNOWS:
			return true;
		case PRESENT_STALE:
			*all = false;
			return true;
		case PRESENT_NO:
			break;
	}
	result = mtr_tenant_try_pin(tenant, &t);
	if (result == MTR_PIN_OK)
		mtr_xact_unpin_unused(t);
	return result == MTR_PIN_OK || result == MTR_PIN_NO_TENANT;
}

bool
mtr_drain_find(void)
{
	bool   all = true;
	uint64 n;
	char **tenants;

	mtr_exec(&stmt_find, NULL, NULL, MTR_SNAP_LATEST, 0);
	n = SPI_processed;
	tenants = palloc((n + 1) * sizeof(char *));
	for (uint64 row = 0; row < n; row++)
		tenants[row] = mtr_cell(row, 1);
	/* memory may be full of tenants that wait for this very flusher */
	for (uint64 i = 0; i < n; i++)
		if (!load(tenants[i], &all))
			return false;
	return all;
}
