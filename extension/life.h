/*
 * life.h
 *		A tenant's state: active, suspended or closed; and whether it is frozen.
 *
 * The state stands in mortar.tenants and in the tenant's slot, where the COMMIT
 * callback of whoever changes it changes it for all.
 */
#ifndef MORTAR_LIFE_H
#define MORTAR_LIFE_H

#include "shmem.h"

/* the state of a pinned tenant, as this transaction sees it */
extern MtrLife mtr_life(MtrTenant *t);

/*
 * Why a tenant in this state may not call: a problem's code and its detail.
 * False, with neither, when it may.
 */
extern bool
mtr_life_refusal(MtrLife life, const char **code, const char **detail);

/* raises MT403 when the pinned tenant is suspended or closed */
extern void mtr_require_active(MtrTenant *t);

/* raises MT403 when the pinned tenant is closed */
extern void mtr_require_open(MtrTenant *t);

/* is the pinned tenant frozen, as this transaction sees it? */
extern bool mtr_is_frozen(MtrTenant *t);

/* for all that moves credits: raises MT403 when it is closed, MT423 when frozen */
extern void mtr_require_movable(MtrTenant *t);

/* would that raise nothing? */
extern bool mtr_is_movable(MtrTenant *t);

/* what mortar.balance() calls the state: its life, or frozen while active */
extern const char *mtr_state_name(MtrLife life, bool frozen);

#endif /* MORTAR_LIFE_H */
