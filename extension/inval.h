/*
 * inval.h
 *		What a transaction makes void in shared memory when it commits.
 */
#ifndef MORTAR_INVAL_H
#define MORTAR_INVAL_H

#include "shmem.h"

/* a price was set: the database's prices are read again after commit */
extern void mtr_inval_price_changed(MtrDb *db);

/*
 * A key whose cached copy is void after commit.  The caller has raised
 * key->pins by one and called mtr_inval_reserve_key before.
 */
extern void mtr_inval_reserve_key(void);
extern void mtr_inval_key_changed(MtrKey *key);

/* tables were changed by somebody else's statement */
extern void mtr_inval_foreign_write(MtrDb *db);

/* the extension was dropped; db: what memory has of it, NULL: nothing */
extern void mtr_inval_dropped(MtrDb *db);

/* this transaction has dropped the extension */
extern bool mtr_inval_is_dropped(void);

/*
 * Raises 55000 in a transaction that has dropped the extension.  It may have
 * created it again, but until it commits memory is the dropped one's.
 */
extern void mtr_inval_refuse_dropped(void);

/* something was changed that commits by itself, but must not be PREPAREd */
extern void mtr_inval_changed(void);

/* called by xact.c when the transaction ends; nothing in it may fail */
extern void mtr_inval_end(bool is_commit);

/* the same for a subtransaction at this nesting level */
extern void mtr_inval_end_subxact(bool is_commit, int level);

/* whether this transaction has made anything void */
extern bool mtr_inval_any(void);

#endif /* MORTAR_INVAL_H */
