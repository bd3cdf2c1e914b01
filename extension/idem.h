/*
 * idem.h
 *		Idempotency keys: the same call twice moves credits once.
 */
#ifndef MORTAR_IDEM_H
#define MORTAR_IDEM_H

#include "shmem.h"

/* of a SHA-256; a row of each call keeps them */
#define MTR_FINGERPRINT_BYTES 16

/* a key in use: what to store when the function succeeds */
typedef struct MtrIdem
{
	const char *tenant;
	text       *key;
	uint8       fingerprint[MTR_FINGERPRINT_BYTES];
} MtrIdem;

/* a function's key argument; raises 22004 and 22023 (1 to 255 characters) */
extern void mtr_idem_arg(FunctionCallInfo fcinfo, int argno, const char *tenant,
						 MtrIdem *idem);

/* what makes two calls the same: the function and its arguments */
extern void mtr_idem_fingerprint(MtrIdem *idem, const char *func, int64 amount,
								 const char *rest);

/*
 * Stores the key with a new id, *result, which the function is to return: true.
 * Then it does its work or raises, so that the key is gone again.	False when the
 * key was used: *result is what was returned then, and nothing else may be done.
 * Raises MT422 when it was used for something else, and what mtr_require_movable
 * raises of a new key.	 SPI is connected.
 */
extern bool
mtr_idem_claim(const MtrIdem *idem, MtrTenant *t, pg_uuid_t *result);

/*
 * Its two halves, for what returns without having done anything, or will probably be
 * refused: nothing is written then.  mtr_idem_replayed is true when a claim would be
 * false.  mtr_idem_store follows when the work is done, and is false when somebody
 * else's transaction has stored the key meanwhile.
 */
extern bool
mtr_idem_replayed(const MtrIdem *idem, MtrTenant *t, pg_uuid_t *result);
extern bool mtr_idem_store(const MtrIdem *idem, pg_uuid_t *result);

#endif /* MORTAR_IDEM_H */
