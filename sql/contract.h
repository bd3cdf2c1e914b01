/*
 * contract.h
 *		The contract between mortar-gateway and the extension.
 *
 * This is the only file that both halves include.  It holds names, numbers
 * and X-macros, and no type of either side.  The gateway makes exactly two
 * calls, each with binary parameters and binary results:
 *
 *	 hello	once per connection, before anything else: the extension
 *			compares the contract number and answers with settings, or with
 *			one sentence that says which side to upgrade
 *	 http	once per HTTP request, followed by exactly one Sync.	The answer
 *			leaves the gateway only when the Sync is answered, that is, after
 *			the call's transaction has committed
 *
 * Rules for the arguments of http:
 *	 tenant		the decoded path segment after /v1/; valid UTF-8 without NUL
 *	 method		as received ("GET"); the gateway passes any token
 *	 path		the raw, still percent-encoded rest of the path after
 *				/v1/{tenant}, with its leading slash; empty when absent
 *	 query		the raw query string without "?"; NULL when there was none
 *	 headers	name, value, name, value ...; names in lower case, values valid
 *				UTF-8 without control characters other than tabs; framing and
 *				hop-by-hop headers are not passed
 *	 body		the whole request body; NULL when there was none
 *	 peer		the client's address
 *	 request_id the id that the answer's X-Request-Id and logs carry
 *
 * The result is one row: the HTTP status, response headers (name, value, ...;
 * lower case; content-length and x-request-id are the gateway's), the body
 * (NULL: none) and next, which is always NULL in contract 1.
 *
 * Change anything here, and MORTAR_CONTRACT must go up by one.
 */
#ifndef MORTAR_CONTRACT_H
#define MORTAR_CONTRACT_H

#define MORTAR_VERSION "1.0"
#define MORTAR_CONTRACT 1

/* X(ENUM, sql name, sql type, type oid) in parameter order */
#define MORTAR_HTTP_PARAMS(X)                                                  \
	X(TENANT, tenant, text, 25)                                                \
	X(METHOD, method, text, 25)                                                \
	X(PATH, path, bytea, 17)                                                   \
	X(QUERY, query, bytea, 17)                                                 \
	X(HEADERS, headers, text[], 1009)                                          \
	X(BODY, body, bytea, 17)                                                   \
	X(PEER, peer, inet, 869)                                                   \
	X(REQUEST_ID, request_id, text, 25)

/* X(ENUM, sql name, sql type, type oid) in column order */
#define MORTAR_HTTP_COLUMNS(X)                                                 \
	X(STATUS, status, int2, 21)                                                \
	X(HEADERS, headers, text[], 1009)                                          \
	X(BODY, body, bytea, 17)                                                   \
	X(NEXT, next, bytea, 17)

#define MORTAR_HTTP_SQL "SELECT * FROM mortar.http($1,$2,$3,$4,$5,$6,$7,$8)"

/* contract number and version in, refusal (NULL: welcome) and settings out */
#define MORTAR_HELLO_PARAMS(X)                                                 \
	X(CONTRACT, contract, int4, 23)                                            \
	X(VERSION, version, text, 25)
#define MORTAR_HELLO_COLUMNS(X)                                                \
	X(REFUSAL, refusal, text, 25)                                              \
	X(SETTINGS, settings, text[], 1009)

#define MORTAR_HELLO_SQL "SELECT * FROM mortar.gateway_hello($1,$2)"

/* names of the settings in gateway_hello's name, value, name, value array */
#define MORTAR_SETTING_VERSION "version"       /* of the extension */
#define MORTAR_SETTING_SERVER "server_version" /* of PostgreSQL */
#define MORTAR_SETTING_DATABASE "database"     /* name */

/* limits that both sides hold to, in bytes */
#define MORTAR_MAX_DOCUMENT 1000000       /* a stored document as answered */
#define MORTAR_MAX_WINDOW (1024 * 1024)   /* one response body */
#define MORTAR_MAX_BODY (8 * 1024 * 1024) /* a bulk insert */
#define MORTAR_MAX_URI 8192
#define MORTAR_MAX_HEAD 16384
#define MORTAR_MAX_REQUEST_ID 64

/*
 * SQLSTATE class MT: the last three characters are the HTTP status.  MESSAGE
 * is the public "detail" of the problem document; DETAIL is a JSON object of
 * further members (code, errors, required_uc, available_uc, retry_after) to be
 * merged into it.
 * X(SQLSTATE, HTTP status, default code, title)
 */
#define MORTAR_MT_ERRORS(X)                                                    \
	X("MT400", 400, "bad_request", "Bad Request")                              \
	X("MT402", 402, "insufficient_credit", "Payment Required")                 \
	X("MT403", 403, "forbidden", "Forbidden")                                  \
	X("MT404", 404, "not_found", "Not Found")                                  \
	X("MT409", 409, "conflict", "Conflict")                                    \
	X("MT412", 412, "precondition_failed", "Precondition Failed")              \
	X("MT415", 415, "unsupported_media_type", "Unsupported Media Type")        \
	X("MT422", 422, "validation_failed", "Unprocessable Content")              \
	X("MT423", 423, "frozen", "Locked")                                        \
	X("MT428", 428, "precondition_required", "Precondition Required")

/*
 * Every other SQLSTATE: only the status, the code and the title leave the
 * gateway; message and detail go to its log with the request id.  The first
 * matching prefix wins; a state that matches none is 500 internal_error.
 * 40001 and 40P01 are retried at most twice before they become 503.
 * X(SQLSTATE prefix, HTTP status, code)
 */
#define MORTAR_SQLSTATE_MAP(X)                                                 \
	X("23505", 409, "conflict")                                                \
	X("23503", 409, "conflict")                                                \
	X("23502", 422, "validation_failed")                                       \
	X("23514", 422, "validation_failed")                                       \
	X("42804", 422, "validation_failed")                                       \
	X("42P01", 404, "not_found")                                               \
	X("42703", 400, "bad_request")                                             \
	X("42501", 403, "forbidden")                                               \
	X("25006", 503, "unavailable")                                             \
	X("40001", 503, "retry_later")                                             \
	X("40P01", 503, "retry_later")                                             \
	X("55P03", 503, "retry_later")                                             \
	X("57014", 504, "timeout")                                                 \
	X("53", 503, "unavailable")                                                \
	X("57P0", 503, "unavailable")                                              \
	X("08", 503, "unavailable")

/* class 22 (data exception): 422 when the request had a body, 400 otherwise */
#define MORTAR_SQLSTATE_DATA_CLASS "22"

/* X(HTTP status, title): the reason phrases that problem documents carry */
#define MORTAR_STATUS_TITLES(X)                                                \
	X(400, "Bad Request")                                                      \
	X(401, "Unauthorized")                                                     \
	X(402, "Payment Required")                                                 \
	X(403, "Forbidden")                                                        \
	X(404, "Not Found")                                                        \
	X(405, "Method Not Allowed")                                               \
	X(408, "Request Timeout")                                                  \
	X(409, "Conflict")                                                         \
	X(412, "Precondition Failed")                                              \
	X(413, "Content Too Large")                                                \
	X(414, "URI Too Long")                                                     \
	X(415, "Unsupported Media Type")                                           \
	X(416, "Range Not Satisfiable")                                            \
	X(422, "Unprocessable Content")                                            \
	X(423, "Locked")                                                           \
	X(428, "Precondition Required")                                            \
	X(429, "Too Many Requests")                                                \
	X(431, "Request Header Fields Too Large")                                  \
	X(500, "Internal Server Error")                                            \
	X(503, "Service Unavailable")                                              \
	X(504, "Gateway Timeout")

/*
 * Headers of every answer, row or problem, whichever half writes it.  The last
 * two only when the request has an Origin: a key in a header is no ambient
 * authority, so a page of any origin may call, and may see why it failed.
 */
#define MORTAR_CACHE_CONTROL "no-store"
#define MORTAR_VARY "Authorization, apikey, Origin, Prefer"
#define MORTAR_ALLOW_ORIGIN "*"
#define MORTAR_EXPOSE_HEADERS                                                  \
	"X-Request-Id, Server-Timing, X-Mortar-Credits-Remaining, Location, "      \
	"Content-Range, Link, Preference-Applied, Allow, Vary, Cache-Control, "    \
	"Retry-After, WWW-Authenticate"

/* problem document "type": this prefix and the code */
#define MORTAR_PROBLEM_TYPE "urn:mortar:problem:"

#endif /* MORTAR_CONTRACT_H */
