/*
 * untimed.h
 *		Work for all that a caller happens to do, and whose time is not his.
 */
#ifndef MORTAR_UNTIMED_H
#define MORTAR_UNTIMED_H

#include "mortar.h"

/*
 * Runs work(arg) so that neither statement_timeout nor the loss of the client
 * (client_connection_check_interval) ends it.  lock_timeout, pg_cancel_backend()
 * and pg_terminate_backend() do.  Afterwards, also after an error, both go on: see
 * untimed.c for what is left of the time.  Raises what work raises, and what was
 * due before it began.
 */
extern void mtr_untimed(void (*work)(void *arg), void *arg);

/* milliseconds until statement_timeout ends the statement; none: PG_INT32_MAX */
extern int mtr_time_left_ms(void);

#endif /* MORTAR_UNTIMED_H */
