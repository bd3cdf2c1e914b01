/*
 * call_select1.c
 *		The benchmark's peer "limit-sql": the gateway with SELECT 1 in place of
 *		mortar.http().
 *
 * It implements gateway/call.h and is linked with all other objects of the
 * gateway, so a request takes the same way through event loop, pool and
 * pipeline: what it costs is what one round trip costs on this machine, and no
 * implementation of the extension could be faster.
 *
 * There is no state and nothing to lock.
 */
#include "call.h"

#define INT4_OID 23

static const char one_line[] = "1\n";

const char call_statement[] = "SELECT 1";
const int  call_param_count = 0;
/* C knows no empty arrays; nobody reads this element */
const Oid call_param_types[] = {InvalidOid};

void
call_bind(CallParams *params, const CallRequest *request)
{
	(void) params;
	(void) request;
}

const char *
call_decode(const PGresult *result, CallAnswer *answer)
{
	static const char one[4] = {0, 0, 0, 1};

	if (PQntuples(result) != 1 || PQnfields(result) != 1 ||
		PQftype(result, 0) != INT4_OID || PQfformat(result, 0) != 1 ||
		PQgetlength(result, 0, 0) != sizeof(one) ||
		memcmp(PQgetvalue(result, 0, 0), one, sizeof(one)) != 0)
		return "the result is not 1";

	answer->status = 200;
	answer->headers = (ArrayReader){NULL, NULL, 0};
	answer->body = (Slice){one_line, sizeof(one_line) - 1};
	answer->has_body = true;
	return NULL;
}
