/*
 * log.h
 *		The gateway's log on stderr, and the access log.
 */
#ifndef GATEWAY_LOG_H
#define GATEWAY_LOG_H

#include "text.h"

typedef enum LogLevel
{
	LOG_LEVEL_INFO,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_ERROR,
} LogLevel;

/*
 * Writes one line to stderr with a single write: time, level, message.
 * Control characters in the message become spaces, so nothing that came from
 * outside can begin a line of its own.  Lines are cut at about 2 kB.
 */
extern void log_line(LogLevel level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Opens the access log for appending; "path" is kept, "-" is stdout.  Returns
 * false with errno set.  Call it once, before any thread starts.
 */
extern bool log_access_open(const char *path);

/* True when an access log is open. */
extern bool log_access_enabled(void);

/* Opens the path again (after rotation), keeping the old file on failure. */
extern void log_access_reopen(void);

/* Appends one complete line, with its newline, to the access log. */
extern void log_access_write(Slice line);

#endif /* GATEWAY_LOG_H */
