/*
 * model.h - what should be, by the rules, in plain arrays
 *
 * The model has a place for every grant, and finds out everything by looking
 * at all of them.  Of the real purse it is only told which grants have a cell,
 * since that is a choice: it then checks that the choice was allowed.
 */
#ifndef MTR_MODEL_H
#define MTR_MODEL_H

#include "sim.h"

enum where
{
	NOWHERE, /* memory does not know it */
	BEHIND,  /* only counted */
	INCOMING,
	FUTURE,
	LIVE,
	ENDED
};

struct model_grant
{
	enum where where;
	int64_t    taken;
	__int128   burned;
	int64_t    counted; /* BEHIND: in available */
	int64_t    event;   /* BEHIND: when what is known of it gets old */
};

struct model
{
	struct model_grant g[GRANTS];
	int64_t            now;
	int64_t            debt;
	int64_t            spare;
	__int128           burned_debt;
	__int128           burned_issued;
};

extern struct model m;

/* the same movements as of the purse, told by what was done there */
extern void m_init(int64_t now);
extern void m_advance(int64_t now);
extern void m_owe(int64_t debt);
extern void m_add(int g, int64_t remaining);
extern void m_arrive(int g);
extern void m_behind(int g, int64_t remaining);
extern void m_drop(int g);
extern void m_return(int g, int64_t x);
extern bool m_may_detach(int g, const struct tx *tx);
extern void m_forget_behind(void);
extern int  m_demote(int than);      /* which grant gives way; -1: none */
extern void m_lose_cells(int added); /* some grants may have lost their cells */
extern void m_back(int of, int64_t x);
extern void m_settle(int64_t delta);
extern void m_burn(int of, int64_t x);
extern void m_write_off_spare(void);
extern int64_t m_remaining(int g);
extern int64_t m_available(void);
extern bool    m_stale(void);
extern bool    m_burns_before(int a, int b);

/* all grants that are there, in burn order; returns how many */
extern int m_sorted(enum where where, int list[GRANTS]);

/* predicts a debit and takes it; part[] as the purse should say them */
extern enum mtr_take
m_take(int64_t amount, const struct tx *tx, int of[], int64_t part[], int *n);

/* takes what cells have */
extern void
m_drain(int64_t amount, const struct tx *tx, int of[], int64_t part[], int *n);

/* minutes.c */
extern void minutes_forget(void);
extern void minutes_add(int slot, int32_t minute, int64_t qty);
extern void minutes_check(int slot, const struct mtr_segment *segment, int n);
extern void minutes_flushed(int slot, int64_t qty);

/* check.c: memory, tables and model say the same */
extern void     check_all(void);
extern void     dump_all(void);
extern __int128 in_flight(int of);                    /* of a source */
extern __int128 loose_of(const struct tx *tx, int g); /* NULL: of all */

#endif /* MTR_MODEL_H */
