/*
 * idem.h
 *		Idempotency keys: the same call twice moves credits once.
 */
#ifndef MORTAR_IDEM_H
#define MORTAR_IDEM_H

#include "mortar.h"

#define MTR_FINGERPRINT_BYTES 32

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
 * True when the key was used: *result is what the function returned then.
 * Raises MT422 when it was used for something else.  SPI is connected.
 */
extern bool mtr_idem_replayed(const MtrIdem *idem, pg_uuid_t *result);

/*
 * Stores the result.  False when somebody else's transaction has stored the
 * key meanwhile: *result is theirs then, and nothing else may be done.
 */
extern bool mtr_idem_store(const MtrIdem *idem, pg_uuid_t *result);

#endif /* MORTAR_IDEM_H */
