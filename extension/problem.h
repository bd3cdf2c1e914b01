/*
 * problem.h
 *		What is wrong with a call, as a result row or as an error.
 *
 * Until the handler starts nothing has been changed, so a refusal is an
 * ordinary row: nothing to roll back and no line in the server's log.	From the
 * handler on it is raised, and the transaction with all that it did aborts.
 */
#ifndef MORTAR_PROBLEM_H
#define MORTAR_PROBLEM_H

#include "http.h"

/*
 * Makes res a problem document (RFC 9457).	code and detail are for people and
 * programs outside: no names of tables, tenants or settings.	A 503 gets
 * Retry-After, a 401 WWW-Authenticate.
 */
extern void mtr_problem(MtrResponse *res, const MtrRequest *req, int status,
						const char *code, const char *detail);

/* the 402 of step 4, with required_uc and available_uc */
extern void mtr_problem_short(MtrResponse *res, const MtrRequest *req,
							  const MtrShortfall *s);

/*
 * Raises a class MT error: detail is the message, code goes into the error's
 * DETAIL for the gateway (NULL: the default of the state).
 */
extern void mtr_raise(int sqlstate, const char *code, const char *detail)
	pg_attribute_noreturn();

/*
 * The same with one entry in errors[]: a JSON pointer into the request body
 * and what is wrong there.
 */
extern void mtr_raise_at(int sqlstate, const char *code, const char *detail,
						 const char *pointer, size_t pointer_len,
						 const char *what) pg_attribute_noreturn();

/* the same for a query parameter, by its decoded name */
extern void
mtr_raise_parameter(const char *code, const char *detail, const char *name,
					size_t name_len, const char *what) pg_attribute_noreturn();

#endif /* MORTAR_PROBLEM_H */
