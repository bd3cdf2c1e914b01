/*
 * budget.h
 *		A bound on the memory that request bodies take together.
 */
#ifndef GATEWAY_BUDGET_H
#define GATEWAY_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct Loop;

/* Bodies of one thread's requests. */
typedef struct Budget
{
	int64_t limit;      /* bytes */
	int64_t look_at_ms; /* the next look at all requests */
	int64_t log_at_ms;  /* the next line in the log */
	int64_t ended;      /* uploads, since the last line */
	bool    is_spent;   /* requests under way alone take more than the limit */
} Budget;

/* Sets up the budget of a loop: its share of the setting body-memory, and at
 * least two bodies of the largest size. */
extern void budget_init(struct Loop *loop);

/*
 * Ends requests whose bodies are still arriving, the largest first, while all
 * bodies together take more than the limit.  Call it in each turn of the loop.
 */
extern void budget_keep(struct Loop *loop);

#endif /* GATEWAY_BUDGET_H */
