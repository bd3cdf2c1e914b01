/*
 * shift_clock.c
 *		Sets the wall clock of processes, and of nobody else on the machine.
 *
 * For tests only.  With LD_PRELOAD naming this library and SHIFT_CLOCK naming a
 * file of eight bytes, a process and its children see the time of day shifted by
 * as many seconds as the file says, an int64 that may change at any time.  The
 * monotonic clock is left alone, as it is when an administrator sets the time.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *shift = NULL;

__attribute__((constructor)) static void
map_shift(void)
{
	const char *path = getenv("SHIFT_CLOCK");
	int         fd = path != NULL ? open(path, O_RDONLY) : -1;
	void       *map;

	if (fd < 0)
		return;
	map = mmap(NULL, sizeof(*shift), PROT_READ, MAP_SHARED, fd, 0);
	if (map != MAP_FAILED)
		shift = map;
	(void) close(fd);
}

int
clock_gettime(clockid_t clock, struct timespec *t)
{
	/* not by the C library, whose function this one hides */
	int result = (int) syscall(SYS_clock_gettime, clock, t);

	if (result == 0 && clock == CLOCK_REALTIME && shift != NULL)
		t->tv_sec += *shift;
	return result;
}

int
gettimeofday(struct timeval *restrict t, void *restrict zone)
{
	struct timespec now;
	int             result = clock_gettime(CLOCK_REALTIME, &now);

	(void) zone;
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return result;
}
