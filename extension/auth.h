/*
 * auth.h
 *		API keys: who is calling, answered from shared memory when warm.
 */
#ifndef MORTAR_AUTH_H
#define MORTAR_AUTH_H

#include "shmem.h"

/* scopes of a key, bits of MtrKey.scopes; names in keys.c */
#define MTR_SCOPE_TABLES_READ (1u << 0)
#define MTR_SCOPE_TABLES_WRITE (1u << 1)
#define MTR_SCOPE_ROWS_READ (1u << 2)
#define MTR_SCOPE_ROWS_WRITE (1u << 3)
#define MTR_SCOPE_FILES_READ (1u << 4)
#define MTR_SCOPE_FILES_WRITE (1u << 5)
#define MTR_SCOPE_RPC (1u << 6)
#define MTR_SCOPE_COMPOSE (1u << 7)
#define MTR_SCOPE_REALTIME (1u << 8)
#define MTR_SCOPE_USAGE (1u << 9)
#define MTR_SCOPE_ADMIN (1u << 10)
#define MTR_SCOPES 11
#define MTR_SCOPES_DEFAULT ((1u << MTR_SCOPES) - 1 - MTR_SCOPE_ADMIN)

/* name of the scope with this bit number, e.g. "tables:read" */
extern const char *mtr_scope_name(int bit);

typedef enum MtrAuth
{
	MTR_AUTH_OK,
	MTR_AUTH_INVALID,  /* malformed, unknown, wrong secret or revoked */
	MTR_AUTH_EXPIRED,  /* right secret, past expires_at */
	MTR_AUTH_EARLY,    /* right secret, before not_before */
	MTR_AUTH_NO_PEPPER /* the server has no (fitting) pepper: 503 */
} MtrAuth;

typedef struct MtrIdentity
{
	pg_uuid_t key_id;
	char      tenant_id[MTR_TENANT_LEN];
	uint32    scopes;
} MtrIdentity;

/*
 * Verifies a credential, the whole mortar_sk_... string.  Order: length and
 * charset, checksum, cache, constant-time compare, times.	An unknown id costs
 * the same HMAC as a known one.  Cold: reads mortar.api_keys.	A revocation
 * holds from the instant it commits.
 */
extern MtrAuth
mtr_authenticate(const char *token, size_t len, MtrIdentity *who);

/* keys.c / pepper.c */
/* HMAC-SHA256 of the secret under a pepper version; false: no such pepper */
extern bool
mtr_pepper_hmac(int version, const char *secret, size_t len, uint8 out[32]);
/* newest version, 0: none loaded */
extern int mtr_pepper_newest(void);

/* a key was revoked in this transaction; holds for all at its commit */
extern void mtr_key_invalidate_at_commit(const pg_uuid_t *key_id);

#endif /* MORTAR_AUTH_H */
