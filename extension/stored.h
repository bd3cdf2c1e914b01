/*
 * stored.h
 *		What tables say of a tenant: its state, limits, and what it can spend.
 */
#ifndef MORTAR_STORED_H
#define MORTAR_STORED_H

#include "shmem.h"

typedef struct MtrStored
{
	TimestampTz         last_posted; /* of its ledger entries; 0: it has none */
	MtrLife             life;
	bool                frozen;
	enum mtr_purse_mode mode;
	int64               overdraft_uc;
	int64               max_unflushed_uc;
	MtrDurability       durability;
	int64               debt; /* may be < 0 after a crash */
	int64               held;
	int64               unpaid_uc; /* by usage, for the loader to fill in */
	TimestampTz         now;       /* what the grants were read for */

	/*
	 * Grants in the order in which a purse wants them: those that a crash has left
	 * uneven, those in force of which something is left, in burn order, then those
	 * that start later.  palloc'd.
	 */
	int               ngrants;
	struct mtr_grant *grants;
} MtrStored;

/*
 * Reads that, all that is committed by now and nothing of the running transaction;
 * false: there is no such tenant.  Touches no shared memory, so that a standby can
 * answer.  Needs no SPI connection.
 */
extern bool mtr_tenant_stored(const char *tenant, MtrStored *s);

/*
 * The same for a purse that is loaded again: without the grants whose ids are in
 * except (nexcept of them), and with *wanted (NULL: none) even if nothing is left
 * of it.	As of now, but not before not_before: a purse does not go back in time.
 */
extern bool mtr_grants_stored(const char *tenant, const pg_uuid_t *except,
							  int nexcept, const pg_uuid_t *wanted,
							  TimestampTz not_before, MtrStored *s);

/* what is in force, less debt */
extern int64 mtr_stored_available(const MtrStored *s);

#endif /* MORTAR_STORED_H */
