/*
 * tenant.h
 *		The tenant context of a transaction.
 *
 * Set once per transaction by C code that verified a credential or a trusted
 * caller; gone when the transaction, or the subtransaction that set it, ends.
 */
#ifndef MORTAR_TENANT_H
#define MORTAR_TENANT_H

#include "mortar.h"

/*
 * Sets the context.  key_id may be NULL (no API key).  Setting the same tenant
 * again is allowed, another one raises 55000.
 */
extern void mtr_context_set(const char *tenant, const pg_uuid_t *key_id);

/* the tenant of this transaction, or NULL; never raises */
extern const char *mtr_context_tenant(void);

/*
 * The same in a parallel worker: the context of the leader's transaction; NULL
 * when it has none.  Raises 55000 when the leader cannot be told.
 */
extern const char *mtr_context_of_leader(void);

/* called by xact.c only */
extern void mtr_context_end_xact(void);
extern void mtr_context_end_subxact(bool is_commit, int nest_level);

#endif /* MORTAR_TENANT_H */
