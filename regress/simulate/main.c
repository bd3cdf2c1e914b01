/*
 * main.c - runs the simulated world: simulate SEED STEPS [TRACE]
 *
 * Everything follows from the seed.  After each step all of it is checked; on
 * a failure the seed and the step are printed, and the status is 1.  With
 * TRACE, what happens from that step on is told.
 */
#include "model.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct world w;

uint64_t
sim_random(void)
{
	uint64_t z = (w.random += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

int64_t
sim_below(int64_t n)
{
	return (int64_t) (sim_random() % (uint64_t) n);
}

bool
sim_percent(int p)
{
	return sim_below(100) < p;
}

int64_t
sim_amount(void)
{
	/* mostly small in the scale, now and then all there is */
	if (sim_percent(2))
		return 1 + sim_below(w.scale * 20);
	return 1 + sim_below(sim_percent(50) ? w.scale : w.scale / 16 + 1);
}

void
sim_fail(const char *what, ...)
{
	va_list args;

	va_start(args, what);
	printf("FAILED: seed %lu, step %ld: ", (unsigned long) w.seed,
		   (long) w.stats.steps);
	vprintf(what, args);
	printf("\n");
	va_end(args);
	if (w.trace)
		dump_all();
	exit(1);
}

void
sim_trace(const char *what, ...)
{
	va_list args;

	if (!w.trace)
		return;
	va_start(args, what);
	printf("%ld (%ld): ", (long) w.stats.steps, (long) w.clock);
	vprintf(what, args);
	printf("\n");
	va_end(args);
}

/* an assertion of the code itself, or of a sanitizer */
static void
on_abort(int signal_number)
{
	char text[100];
	int  n = snprintf(text, sizeof(text), "FAILED: seed %lu, step %ld: abort\n",
					  (unsigned long) w.seed, (long) w.stats.steps);

	(void) !write(STDOUT_FILENO, text, (size_t) n);
	_exit(1);
}

static void
draw_mood(void)
{
	struct mood *mood = &w.mood;

	mood->until = (int) w.stats.steps + 200 + (int) sim_below(3000);
	/* now and then nobody flushes for long */
	mood->flush = sim_percent(15) ? 0 : 1 + (int) sim_below(200);
	mood->fail = sim_percent(50) ? 0 : (int) sim_below(100);
	mood->crash = sim_percent(60) ? 0 : 1 + (int) sim_below(60);
	mood->abort = (int) sim_below(90);
	mood->grant = 1 + (int) sim_below(30);
	mood->refund = (int) sim_below(20);
	mood->unlimited = sim_percent(20) ? 50 : 2;
	mood->sync = sim_percent(30) ? 0 : (int) sim_below(101);
	mood->drain = sim_percent(20) ? 0 : (int) sim_below(101);
	mood->pace = 1 + sim_below(sim_percent(50) ? 10 : 1000);
	mood->txs = 1 + (int) sim_below(TXS);
	mood->reserve = sim_percent(30) ? 0 : (int) sim_below(30);
}

static void
init_world(uint64_t seed)
{
	static const struct counter price[] = {
		{.num_uc = 1, .per_units = 3},
		{.num_uc = 300000, .per_units = 1000000000},
		{.num_uc = 7, .per_units = 1},
		{.num_uc = 1000003, .per_units = 1000},
		{.num_uc = 2, .per_units = 7},
		{.num_uc = 0, .per_units = 1},
	};
	static const int64_t scale[] = {
		2, 20, 100, 3000, INT64_C(1) << 40, MTR_PURSE_MAX / 16};

	w.seed = seed;
	w.random = seed;
	w.clock = 1000000;
	w.scale = scale[sim_below(6)];
	for (int c = 0; c < COUNTERS; c++)
		w.counter[c] = price[sim_below(6)];
	for (int s = 0; s < SLOTS; s++)
		w.slot[s].counter = s % COUNTERS;
	mtr_purse_init(&w.purse);
	draw_mood();
	load(INT64_MIN);
}

static void
step_clock(void)
{
	if (sim_percent(3))
		w.clock -= sim_below(w.mood.pace * 20); /* somebody sets the clock */
	else if (sim_percent(1))
		w.clock += sim_below(w.mood.pace * 2000); /* nobody looked for long */
	else
		w.clock += sim_below(w.mood.pace + 1);
	if (w.clock < 1000000)
		w.clock = 1000000;
}

static bool
is_refill_wanted(void)
{
	return w.purse.reload_wanted ||
		   (w.purse.more > 0 && mtr_purse_is_low(&w.purse) &&
			mtr_purse_has_room(&w.purse));
}

static void
step_transaction(void)
{
	struct tx *tx = &w.tx[sim_below(w.mood.txs)];

	if (tx->state == TX_NONE)
	{
		tx_begin(tx);
		if (is_refill_wanted() && sim_percent(80))
			refill_begin(tx, -1);
	}
	else if (tx == w.refill.tx)
	{
		refill_go_on();
		return;
	}
	else if (tx->state == TX_OPEN && sim_percent(15))
		tx_end(tx, !sim_percent(w.mood.abort));
	if (tx->state == TX_OPEN)
	{
		if (tx != w.refill.tx)
			tx_act(tx);
	}
	else if (tx->state != TX_NONE)
		tx_go_on(tx, sim_percent(70) ? RECORDS : 1 + (int) sim_below(4));
}

static bool
may_evict(void)
{
	for (int s = 0; s < SLOTS; s++)
		if (w.slot[s].done != w.slot[s].flushed)
			return false;
	return !tx_any() && !reservations_any() && w.flush.state == FLUSH_NONE &&
		   w.t.nqueue == 0 && mtr_purse_is_clean(&w.purse);
}

static void
step(void)
{
	int64_t what = sim_below(10000);

	if (w.stats.steps >= w.mood.until)
		draw_mood();
	if (sim_percent(30))
		step_clock();
	if (what < w.mood.crash)
		crash();
	else if (what < 100)
		remove_old_rows();
	else if (what < 120)
		come_to_rest();
	else if (what < 140 && may_evict())
		load(INT64_MIN);
	else if (w.flush.state == FLUSH_ASKED && sim_percent(50))
		flush_copy(sim_percent(w.mood.drain) ? 1 + (int) sim_below(QUEUE) : 0);
	else if (w.flush.state == FLUSH_COPIED && sim_percent(30))
		flush_end(!sim_percent(w.mood.fail));
	else if (w.flush.state == FLUSH_NONE && sim_below(1000) < w.mood.flush)
		flush_ask();
	else if (reservations_any() && sim_percent(15))
		reservations_step();
	else
		step_transaction();
}

static long
number(const char *text)
{
	char *end;
	long  n = strtol(text, &end, 10);

	if (*text == '\0' || *end != '\0' || n < 0)
	{
		fprintf(stderr, "not a number: %s\n", text);
		exit(2);
	}
	return n;
}

static void
report(void)
{
	const struct stats *s = &w.stats;

	printf("seed %lu: %ld steps, %ld crashes, %ld flushes (%ld failed, %ld "
		   "uneven), %ld loads, %ld refills (%ld for nothing, %ld waits), %ld "
		   "commits, %ld aborts\n"
		   "  debits: %ld taken, %ld short, %ld to be tried again; debt "
		   "repaid %ld times; grants: %ld without a cell, %ld gave way, %ld "
		   "uneven, %ld of them had to wait; spare %ld times, %ld written off\n"
		   "  beyond cells: %ld parts drained, %ld grants loose, %ld returned; "
		   "%ld loads in one step\n"
		   "  durable: %ld rows moved (%ld times uneven), %ld have waited over "
		   "crashes, 0 lost\n",
		   (unsigned long) w.seed, (long) s->steps, (long) s->crashes,
		   (long) s->flushes, (long) s->failed_flushes, (long) s->carried,
		   (long) s->loads, (long) s->refills, (long) s->stale_refills,
		   (long) s->waits, (long) s->commits, (long) s->aborts, (long) s->ok,
		   (long) s->short_of, (long) s->again, (long) s->repaid,
		   (long) s->behind, (long) s->demoted, (long) s->uneven,
		   (long) s->skipped, (long) s->spares, (long) s->written_off,
		   (long) s->drained, (long) s->detached, (long) s->returned,
		   (long) s->queued, (long) s->moved, (long) s->misplaced,
		   (long) s->waited);
	printf("  reservations: %ld, settled %ld times, %ld released, %ld expired, "
		   "%ld "
		   "would hold too many grants\n",
		   (long) s->reserved, (long) s->settled, (long) s->released,
		   (long) s->expired, (long) s->untaken);
}

int
main(int argc, char **argv)
{
	long steps;
	long trace;

	if (argc < 3 || argc > 4)
	{
		fprintf(stderr, "usage: simulate SEED STEPS [TRACE]\n");
		return 2;
	}
	steps = number(argv[2]);
	trace = argc == 4 ? number(argv[3]) : -1;
	(void) signal(SIGABRT, on_abort);
	(void) setvbuf(stdout, NULL, _IOLBF, 0);
	init_world((uint64_t) number(argv[1]));
	for (; w.stats.steps < steps; w.stats.steps++)
	{
		w.trace = trace >= 0 && w.stats.steps >= trace;
		step();
		check_all();
	}
	come_to_rest();
	check_all();
	report();
	return 0;
}
