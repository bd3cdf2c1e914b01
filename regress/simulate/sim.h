/*
 * sim.h - the simulated world: one tenant's memory, its tables, and the
 * transactions that use them
 *
 * memory is the real code (purse, price, usage_ring), called in the order in
 * which the server calls it.  tables stand for what a crash leaves.  The model
 * (model.c) knows neither cells nor flushes: plain arrays over all grants.  A
 * step of the world does one thing to memory and tells the model the same;
 * then all of it is compared.
 */
#ifndef MTR_SIM_H
#define MTR_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/purse.h"
#include "core/reserve.h"
#include "core/usage_ring.h"

#define GRANTS 40 /* rows of the table of grants at one time */
#define TXS 5
#define RECORDS 48
#define RESERVATIONS 5
#define COUNTERS 3
#define SLOTS 5
#define CHARGES 24 /* committed charges that can be refunded */
#define MARKS 64
#define QUEUE 24   /* rows of durable usage that wait */
#define LOOSE (-2) /* of a record: its grant has lost its cell */

/* sources as the model and the tables name them: a grant's row, or */
enum
{
	OF_DEBT = GRANTS,
	OF_ISSUED,
	SOURCES
};

/* ---- tables ---- */

struct row
{
	bool             used;
	bool             committed;
	struct mtr_grant g;      /* remaining is not used */
	__int128         ledger; /* net taken by rows of the ledger */
};

/* durable usage as its transaction has written it */
struct queue_row
{
	int64_t qty[SLOTS];
	int64_t part[SOURCES]; /* who has paid */
};

struct tables
{
	struct row row[GRANTS];
	__int128   ledger_debt;
	__int128   burned[SOURCES];
	__int128   burned_gone; /* by grants whose rows were removed since */
	int64_t    flushed[COUNTERS];
	int64_t    slot_flushed[SLOTS];
	int64_t    slot_durable[SLOTS]; /* beside that */
	int64_t    last;                /* when something was written last */
	int64_t    floor;
	uint8_t    mode;

	struct queue_row queue[QUEUE];
	int              nqueue;
};

/* ---- memory ---- */

struct counter
{
	int64_t num_uc;
	int64_t per_units;
	int64_t priced;
	int64_t done;
	int64_t flushed;
	int64_t queued; /* of priced: durable, in flight or waiting */
};

struct slot
{
	int             counter;
	int64_t         taken;
	int64_t         done;
	int64_t         flushed;
	struct mtr_ring ring;
};

enum kind
{
	USAGE,   /* of: slot */
	BURN,    /* of: source; what usage took */
	DEBIT,   /* of: source; a charge or a hold */
	VOID,    /* of: grant; what was taken back of it */
	GRANT,   /* of: grant */
	REFUND,  /* of: source, given at commit */
	RESERVE, /* of: reservation */
	SYNC,    /* of: slot; usage that no crash may take */
	SYNC_BURN
};

struct record
{
	enum kind kind;
	int       level;
	int       of;
	int       cell;
	int64_t   amount;
};

enum tx_state
{
	TX_NONE,
	TX_OPEN,
	TX_COMMITTING, /* is in the tables, and not in all of memory */
	TX_ABORTING
};

struct tx
{
	enum tx_state state;
	int           level;
	int           n;
	struct record record[RECORDS];
	uint32_t      refs;
	uint32_t      own;
	int64_t       back; /* while aborting: what usage had cost */
	int64_t       given;
	bool          refunded;
	int           behind; /* own grants that have no cell */
	bool          gone;   /* gives back to ended grants without a cell */
	int           loose;  /* records whose grants have lost their cells */
	bool          limits; /* sets mode and floor */
	uint8_t       mode;
	int64_t       floor;
};

enum flush_state
{
	FLUSH_NONE,
	FLUSH_ASKED, /* knows who burned, not yet what was used */
	FLUSH_COPIED /* and writes it */
};

/* rows of durable usage that a flush moves to the journal */
struct drain
{
	int             rows; /* the oldest */
	int64_t         qty[COUNTERS];
	int64_t         slot_qty[SLOTS];
	int64_t         paid[SOURCES];
	int64_t         booked[SOURCES];
	uint32_t        refs;
	struct mtr_part part[MTR_PURSE_SOURCES];
	int             n;
};

struct flush
{
	enum flush_state state;
	int64_t          asked_at; /* step */
	bool             quiet;    /* nothing was in flight when it asked */
	struct mtr_part  asked[MTR_PURSE_SOURCES];
	int              nasked;
	int64_t          upto[SLOTS];
	int64_t          qty[COUNTERS];
	struct mtr_part  part[MTR_PURSE_SOURCES];
	int              of[MTR_PURSE_SOURCES];
	int              n;
	struct drain     drain;
};

/* grants on their way from tables into a purse that is in use */
struct refill
{
	struct tx *tx;   /* who reads; NULL: nobody */
	bool       read; /* tables are read, and not applied yet */
	uint32_t   version;
	bool       known[GRANTS]; /* had a cell before */
	int64_t    now;
	int        list[GRANTS];
	int64_t    remaining[GRANTS];
	int        n;
	int        wanted; /* a grant that needs a cell, -1: none */
};

/* what a debit has taken, in burn order */
struct parts
{
	int             n;
	int             of[MTR_PURSE_SOURCES];
	struct mtr_part part[MTR_PURSE_SOURCES];
};

/* a quantity that is paid for and not all used; what is expected of it beside it */
struct reservation
{
	bool               used;
	bool               live; /* its transaction has committed */
	int                slot;
	int64_t            expires; /* in steps */
	struct mtr_reserve r;
	int64_t            qty;
	int64_t            total;
	int64_t            settled;
	struct parts       left;
};

struct charge
{
	int     of;
	int64_t amount; /* not refunded yet; 0: none */
};

/* how often what happens; drawn anew every few hundred steps */
struct mood
{
	int     until; /* step */
	int     flush; /* of 1000 steps */
	int     fail;  /* percent of flushes */
	int     crash; /* of 10000 steps */
	int     abort; /* percent of transactions */
	int     grant; /* weight */
	int     refund;
	int     unlimited; /* percent of modes */
	int     sync;      /* percent of usage */
	int     drain;     /* percent of flushes that move durable usage */
	int64_t pace;      /* of the clock */
	int     txs;
	int     reserve; /* weight */
};

struct stats
{
	int64_t steps, crashes, flushes, failed_flushes, loads, commits, aborts;
	int64_t ok, short_of, again, spares, carried, behind, repaid, waits;
	int64_t uneven, written_off, refills, stale_refills, demoted, skipped;
	int64_t drained, detached, returned, queued;
	int64_t reserved, settled, expired, released, untaken;
	int64_t moved, misplaced, waited;
	int64_t lost_uc;
};

struct world
{
	uint64_t           seed;
	uint64_t           random;
	int64_t            clock; /* microseconds; may go back */
	int64_t            scale; /* of amounts */
	struct mtr_purse   purse;
	struct counter     counter[COUNTERS];
	struct slot        slot[SLOTS];
	struct tables      t;
	struct tx          tx[TXS];
	struct flush       flush;
	struct refill      refill;
	uint32_t           version; /* of who has a cell, see refill.c */
	int                gone;    /* transactions that give to ended grants */
	int                giving;  /* transactions of which tables tell too much */
	struct parts       parts;   /* of the last debit */
	struct reservation reservation[RESERVATIONS];
	struct charge      charge[CHARGES];
	int64_t            promised[SLOTS]; /* durable usage, committed */
	int64_t            incoming;        /* refunds announced, not committed */
	uint64_t           serial;          /* of grants */
	struct mood        mood;
	struct stats       stats;
	bool               trace;
};

extern struct world w;

/* main.c */
extern uint64_t sim_random(void);
extern int64_t  sim_below(int64_t n); /* 0 .. n-1 */
extern bool     sim_percent(int p);
extern int64_t  sim_amount(void); /* > 0, in the world's scale */
extern void
sim_fail(const char *what, ...) __attribute__((noreturn, format(printf, 1, 2)));
extern void
sim_trace(const char *what, ...) __attribute__((format(printf, 1, 2)));
#define REQUIRE(condition, ...)                                                \
	do                                                                         \
	{                                                                          \
		if (!(condition))                                                      \
			sim_fail(__VA_ARGS__);                                             \
	} while (0)

/* act.c: what a call does */
extern void tx_act(struct tx *tx);

extern bool take(struct tx *tx, int64_t amount, enum kind kind);
extern void
note(struct tx *tx, enum kind kind, int of, int cell, int64_t amount);
extern void count_usage(int slot, int64_t qty);

/* reserve.c: quantities that are paid before they are used */
extern void    act_reserve(struct tx *tx);
extern void    reservation_commit(int i);
extern void    reservation_end(int i); /* gives back what is left */
extern void    reservations_step(void);
extern void    reservations_end(void);
extern void    reservations_forget(void);
extern bool    reservations_any(void);
extern bool    is_reserved(int of); /* does one hold that source? */
extern int64_t reserved_of(int of);

/* transact.c: what becomes of it */
extern void tx_rollback_to_savepoint(struct tx *tx);
extern void tx_release_savepoint(struct tx *tx);
extern void tx_begin(struct tx *tx);
extern void tx_end(struct tx *tx, bool commit); /* starts it */
extern void tx_go_on(struct tx *tx, int records);
extern void tx_hold(struct tx *tx, int cell);
extern bool tx_any(void);
extern bool tx_is_giving(const struct tx *tx);
extern void tx_detach(struct tx *tx);

/* tables.c: what is behind memory */
extern void flush_ask(void);
extern void flush_copy(int rows);
extern void flush_end(bool ok);
extern void flush_write(void); /* its rows are on disk */
extern void flush_whole(void);
extern bool flush_names(int g);
extern void crash(void);
extern void load(int64_t now);
extern void come_to_rest(void);
extern void remove_old_rows(void);
extern int  source_of(int cell);

/* drain.c: usage that no crash may take */
extern __int128 queued_of(int of);
extern int64_t  queued_usage(int slot);
extern int64_t  queue_unpaid(void);
extern bool     queue_has_room(void);
extern bool     queue_names(int g);
extern void     queue_write(const struct tx *tx);
extern void     drain_copy(int most);
extern void     drain_write(void);
extern void     drain_end(bool ok);
extern bool     drain_names(int g);
extern void     check_queue(void);

/* refill.c: grants behind get cells again */
extern void    refill_begin(struct tx *tx, int wanted);
extern void    refill_go_on(void);
extern void    refill_forget(void);
extern void    load_grants(const int list[], const int64_t remaining[], int n,
						   int64_t now, int64_t read_at, int64_t unpaid);
extern int     add_incoming(int row);
extern bool    is_uneven(int g);
extern int64_t in_tables(int g);
extern int     list_grants(int list[], int64_t remaining[], const bool except[],
						   int wanted, int64_t now);

/* price.c of the world: exact sums */
extern __int128 cost_of(const struct counter *c, int64_t quantity);

#endif /* MTR_SIM_H */
