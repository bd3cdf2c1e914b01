/*
 * pepper.c
 *		Creates and extends the pepper file.
 *
 * Both ways write a complete new file beside the old one, sync it, and then
 * give it the name: link(2), which fails if the name is taken, to create;
 * rename(2) to extend.  A reader thus sees the old or the new file, and two
 * makers cannot both win.  The temporary name is opened O_EXCL before the old
 * file is read, which keeps two extenders apart.  After the rename that name is
 * free and may be another maker's already, so it is not removed then.
 */
#include "pepper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text.h"

/* a new secret's; the server takes 32 to 64 */
#define SECRET_BYTES 32
#define SECRET_MAX_BYTES 64
#define FILE_MAX_BYTES 65536

static bool
complain(const char *path, const char *what)
{
	fprintf(stderr, "mortar-gateway: %s \"%s\": %s\n", what, path,
			strerror(errno));
	return false;
}

/* Appends "version <64 hex digits>\n" to the stream. */
static bool
write_secret(FILE *file, long version)
{
	unsigned char secret[SECRET_BYTES];
	bool          ok;

	if (getrandom(secret, sizeof(secret), 0) != (ssize_t) sizeof(secret))
		return false;
	ok = fprintf(file, "%ld ", version) > 0;
	for (size_t i = 0; i < sizeof(secret); i++)
		ok = ok && fprintf(file, "%02x", secret[i]) == 2;
	ok = ok && fputc('\n', file) != EOF;
	explicit_bzero(secret, sizeof(secret));
	return ok;
}

/* True when "line" goes on with a space, a secret and the line's end. */
static bool
has_secret(const char *line)
{
	size_t digits = line[0] == ' ' ? strspn(line + 1, "0123456789abcdef") : 0;

	return digits >= (size_t) 2 * SECRET_BYTES &&
		   digits <= (size_t) 2 * SECRET_MAX_BYTES && digits % 2 == 0 &&
		   line[1 + digits] == '\n';
}

/*
 * Reads the old file and finds its newest version.  Returns the length of the
 * text in "text", or -1 after an objection.
 */
static ssize_t
read_old(const char *path, char text[FILE_MAX_BYTES], struct stat *info,
		 long *newest)
{
	int     fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0 || fstat(fd, info) != 0)
	{
		complain(path, "could not open");
		if (fd >= 0)
			close(fd);
		return -1;
	}
	len = read(fd, text, FILE_MAX_BYTES - 1);
	close(fd);
	if (len < 0 || len == FILE_MAX_BYTES - 1)
	{
		errno = len < 0 ? errno : EFBIG;
		complain(path, "could not read");
		return -1;
	}
	text[len] = '\0';
	*newest = 0;
	for (char *line = text; *line != '\0'; line = strchr(line, '\n') + 1)
	{
		char *end;
		long  version = strtol(line, &end, 10);

		if (version <= *newest || version > INT_MAX || !has_secret(end))
		{
			fprintf(stderr, "mortar-gateway: \"%s\" is not a pepper file\n",
					path);
			return -1;
		}
		*newest = version;
	}
	if (*newest == INT_MAX)
	{
		errno = ERANGE;
		complain(path, "there is no further version for");
		return -1;
	}
	return len;
}

static bool
sync_directory(const char *path)
{
	char  directory[PATH_MAX];
	char *slash;
	int   fd;
	bool  ok;

	if (snprintf(directory, sizeof(directory), "%s", path) >=
		(int) sizeof(directory))
		return false;
	slash = strrchr(directory, '/');
	if (slash == NULL)
		memcpy(directory, ".", 2);
	else
		slash[slash == directory ? 1 : 0] = '\0';
	fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ok = fsync(fd) == 0;
	close(fd);
	return ok;
}

/* Writes the whole new content to "fd", which it closes. */
static bool
write_new(int fd, Slice old, long version, const struct stat *owner)
{
	FILE *file = fdopen(fd, "w");
	bool  ok;

	if (file == NULL)
	{
		close(fd);
		return false;
	}
	/* the server reads it: an extended file stays the same user's */
	ok = owner == NULL || fchown(fd, owner->st_uid, owner->st_gid) == 0;
	ok = ok && (old.len == 0 || fwrite(old.base, 1, old.len, file) == old.len);
	ok = ok && write_secret(file, version) && fflush(file) == 0 &&
		 fsync(fd) == 0;
	return fclose(file) == 0 && ok;
}

static bool
create(const char *path, const char *temporary, int fd)
{
	if (!write_new(fd, SLICE_NONE, 1, NULL))
		return complain(temporary, "could not write");
	if (link(temporary, path) != 0)
	{
		if (errno != EEXIST)
			return complain(path, "could not create");
		fprintf(stderr,
				"mortar-gateway: \"%s\" exists and was left alone; --add "
				"appends a new version\n",
				path);
		return false;
	}
	return true;
}

static bool
extend(const char *path, const char *temporary, int fd, long *version)
{
	char        text[FILE_MAX_BYTES];
	struct stat info;
	ssize_t     len = read_old(path, text, &info, version);
	bool        ok;

	if (len < 0)
	{
		close(fd);
		return false;
	}
	++*version;
	ok = write_new(fd, (Slice){text, (size_t) len}, *version, &info);
	explicit_bzero(text, sizeof(text));
	if (!ok)
		return complain(temporary, "could not write");
	return rename(temporary, path) == 0 || complain(path, "could not replace");
}

/* Opens the temporary file; -1 after an objection. */
static int
open_temporary(const char *temporary)
{
	int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	if (errno != EEXIST)
		complain(temporary, "could not create");
	else
		fprintf(stderr,
				"mortar-gateway: \"%s\" exists: another --make-pepper is at "
				"work, or was killed; remove the file if none is\n",
				temporary);
	return -1;
}

bool
pepper_make(const char *path, bool add)
{
	char target[PATH_MAX];
	char temporary[PATH_MAX];
	long version = 1;
	int  fd;
	bool made;

	/* behind a symbolic link it is the file that gets the new version */
	if (add && realpath(path, target) != NULL)
		path = target;
	if (snprintf(temporary, sizeof(temporary), "%s.new", path) >=
		(int) sizeof(temporary))
	{
		errno = ENAMETOOLONG;
		return complain(path, "could not create");
	}
	fd = open_temporary(temporary);
	if (fd < 0)
		return false;
	made = add ? extend(path, temporary, fd, &version)
			   : create(path, temporary, fd);
	if (!(add && made) && unlink(temporary) != 0)
		return complain(temporary, "could not remove");
	if (!made)
		return false;
	if (!sync_directory(path))
		return complain(path, "could not sync the directory of");
	printf("pepper version %ld is in \"%s\"; point mortar.pepper_file at it, "
		   "and back it up: without it no API key works\n",
		   version, path);
	return true;
}
