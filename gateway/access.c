/*
 * access.c
 *		Builds the access log's line when a request is over.
 *
 * A line says when, who, what, which status, how many bytes and how long, with
 * the request id and the client's traceparent.  It never holds a query string,
 * a header that may carry a credential, or a body.
 *
 * libh2o calls the logger in the request's own thread just before it frees the
 * request; the line is written at once, with one write(2).  How long a request
 * took is counted from when all of it had arrived.  Bytes that are not
 * UTF-8 (a path may have them) become "?", so every line is valid JSON.
 */
#include "access.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>

#include "json.h"
#include "log.h"

#define FIELD_MAX 1024
#define LINE_MAX_BYTES 16384

typedef struct Line
{
	char   text[LINE_MAX_BYTES];
	size_t len;
} Line;

/* All pieces are bounded, and together they are shorter than the line. */
static void
put(Line *line, Slice s)
{
	if (s.len > sizeof(line->text) - line->len)
		s.len = sizeof(line->text) - line->len;
	if (s.len > 0)
		memcpy(line->text + line->len, s.base, s.len);
	line->len += s.len;
}

static void
put_string(Line *line, const char *name, Slice value)
{
	char   clean[FIELD_MAX];
	char   quoted[JSON_STRING_MAX(FIELD_MAX)];
	size_t len = value.len < FIELD_MAX ? value.len : FIELD_MAX;

	if (len > 0)
		memcpy(clean, value.base, len);
	if (!text_is_utf8((Slice){clean, len}))
		for (size_t i = 0; i < len; i++)
			if ((unsigned char) clean[i] > 0x7F)
				clean[i] = '?';
	put(line, slice_of(name));
	put(line, (Slice){quoted, json_put_string(quoted, (Slice){clean, len})});
}

static void
put_number(Line *line, const char *name, int64_t value)
{
	char number[32];
	int  len = snprintf(number, sizeof(number), "%lld", (long long) value);

	put(line, slice_of(name));
	put(line, (Slice){number, (size_t) len});
}

static Slice
find_value(const h2o_headers_t *headers, const char *name)
{
	ssize_t at = h2o_find_header_by_str(headers, name, strlen(name), -1);

	if (at == -1)
		return SLICE_NONE;
	return (Slice){headers->entries[at].value.base,
				   headers->entries[at].value.len};
}

static void
put_peer(Line *line, h2o_req_t *req)
{
	struct sockaddr_storage peer;
	socklen_t               len = req->conn->callbacks->get_peername(
					  req->conn, (struct sockaddr *) &peer);
	char   host[NI_MAXHOST];
	size_t host_len;

	if (len == 0)
		return;
	host_len = h2o_socket_getnumerichost((struct sockaddr *) &peer, len, host);
	if (host_len != SIZE_MAX)
		put_string(line, ",\"peer\":", (Slice){host, host_len});
}

static int64_t
micros(const struct timeval *t)
{
	return (int64_t) t->tv_sec * 1000000 + t->tv_usec;
}

static void
log_access(h2o_logger_t *self, h2o_req_t *req)
{
	Line                  line = {"", 0};
	Slice                 path = {req->path.base, req->path.len};
	Slice                 trace = find_value(&req->headers, "traceparent");
	char                  when[32];
	struct tm             utc;
	const struct timeval *begin = &req->timestamps.request_begin_at;
	struct timeval        end;
	int64_t               us;

	if (req->query_at != SIZE_MAX)
		path.len = req->query_at;
	/* libh2o's times are those of a turn of its loop; a clock may step back */
	gettimeofday(&end, NULL);
	us = micros(&end) - micros(begin);
	gmtime_r(&begin->tv_sec, &utc);
	when[strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &utc)] = '\0';

	put_string(&line, "{\"time\":", slice_of(when));
	put_peer(&line, req);
	put_string(&line,
			   ",\"method\":", (Slice){req->method.base, req->method.len});
	put_string(&line, ",\"path\":", path);
	put_number(&line, ",\"status\":", req->res.status);
	put_number(&line, ",\"bytes\":", (int64_t) req->bytes_sent);
	put_number(&line, ",\"us\":", us < 0 ? 0 : us);
	put_string(&line, ",\"request_id\":",
			   find_value(&req->res.headers, "x-request-id"));
	if (trace.len > 0)
		put_string(&line, ",\"traceparent\":", trace);
	put(&line, SLICE_LITERAL("}\n"));
	log_access_write((Slice){line.text, line.len});
}

void
access_begin(h2o_req_t *req)
{
	if (log_access_enabled())
		gettimeofday(&req->timestamps.request_begin_at, NULL);
}

void
access_register(h2o_pathconf_t *path)
{
	h2o_logger_t *logger = h2o_create_logger(path, sizeof(*logger));

	logger->log_access = log_access;
}
