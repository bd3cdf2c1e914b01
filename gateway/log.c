/*
 * log.c
 *		Lines for people on stderr, lines for machines in the access log.
 *
 * Any thread may log.  There is no lock: each line is one write(2), to a pipe
 * or to a file opened for appending, which the kernel does not mix with
 * another.  Reopening the access log replaces the file behind the same
 * descriptor with dup2(2), which is atomic for the writers.
 *
 * access_fd and access_path are set before threads start and never change.
 */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048

static int         access_fd = -1;
static const char *access_path;

/* A log that cannot be written must not stop the service: errors end here. */
static void
write_line(int fd, const char *line, size_t len)
{
	while (len > 0)
	{
		ssize_t written = write(fd, line, len);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return;
		line += written;
		len -= (size_t) written;
	}
}

void
log_line(LogLevel level, const char *format, ...)
{
	static const char *const names[] = {"info", "warning", "error"};
	char                     line[LINE_MAX_BYTES];
	struct timespec          now;
	struct tm                utc;
	size_t                   prefix;
	size_t                   len;
	int                      printed;
	va_list                  args;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	prefix = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &utc);
	printed = snprintf(line + prefix, sizeof(line) - prefix,
					   ".%03ldZ mortar-gateway %s: ", now.tv_nsec / 1000000,
					   names[level]);
	len = prefix + (size_t) printed;

	va_start(args, format);
	printed = vsnprintf(line + len, sizeof(line) - 1 - len, format, args);
	va_end(args);
	if (printed > 0)
		len += (size_t) printed;
	if (len > sizeof(line) - 2)
		len = sizeof(line) - 2;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char) line[i] < 0x20 || line[i] == 0x7F)
			line[i] = ' ';
	while (len > 0 && line[len - 1] == ' ')
		len--;
	line[len++] = '\n';
	write_line(STDERR_FILENO, line, len);
}

static int
open_access(void)
{
	return open(access_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
}

bool
log_access_open(const char *path)
{
	access_path = path;
	access_fd = strcmp(path, "-") == 0 ? STDOUT_FILENO : open_access();
	return access_fd >= 0;
}

bool
log_access_enabled(void)
{
	return access_fd >= 0;
}

void
log_access_reopen(void)
{
	int fd;

	if (access_fd < 0 || access_fd == STDOUT_FILENO)
	{
		log_line(LOG_LEVEL_INFO, "there is no access log to reopen");
		return;
	}
	fd = open_access();
	if (fd < 0)
	{
		log_line(LOG_LEVEL_ERROR, "could not reopen the access log \"%s\": %s",
				 access_path, strerror(errno));
		return;
	}
	if (dup2(fd, access_fd) < 0)
		log_line(LOG_LEVEL_ERROR, "could not reopen the access log \"%s\": %s",
				 access_path, strerror(errno));
	else
		log_line(LOG_LEVEL_INFO, "reopened the access log");
	close(fd);
}

void
log_access_write(Slice line)
{
	write_line(access_fd, line.base, line.len);
}
