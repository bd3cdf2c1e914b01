/*
 * gw_pepper.c - the pepper file: made once, extended on request, never halved
 *
 * Works in a directory of its own under TMPDIR or /tmp.
 */
// SOURCES: gateway/pepper.c
// LIBS: -Wl,--wrap=rename
#include "../../gateway/pepper.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define LINE_LEN 67 /* "1 ", 64 digits, newline */

static char directory[PATH_MAX];
static char path[PATH_MAX + 8];
static char temporary[PATH_MAX + 16];

static int
make_directory(void **state)
{
	const char *base = getenv("TMPDIR");

	snprintf(directory, sizeof(directory), "%s/gw_pepper.XXXXXX",
			 base == NULL ? "/tmp" : base);
	if (mkdtemp(directory) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/p", directory);
	snprintf(temporary, sizeof(temporary), "%s.new", path);
	return 0;
}

static int
remove_directory(void **state)
{
	unlink(path);
	unlink(temporary);
	return rmdir(directory);
}

static size_t
read_file(char text[1024])
{
	int     fd = open(path, O_RDONLY);
	ssize_t len;

	assert_true(fd >= 0);
	len = read(fd, text, 1023);
	close(fd);
	assert_true(len >= 0);
	text[len] = '\0';
	return (size_t) len;
}

static void
write_file(const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void
check_line(const char *line, const char *version)
{
	assert_memory_equal(line, version, 2);
	assert_int_equal(strspn(line + 2, "0123456789abcdef"), 64);
	assert_int_equal(line[LINE_LEN - 1], '\n');
}

static void
a_new_file_has_one_secret_and_mode_0600(void **state)
{
	char        text[1024];
	struct stat info;
	mode_t      old = umask(0);

	assert_true(pepper_make(path, false));
	umask(old);
	assert_int_equal(read_file(text), LINE_LEN);
	check_line(text, "1 ");
	assert_int_equal(stat(path, &info), 0);
	assert_int_equal(info.st_mode & 07777, 0600);
	assert_int_equal(access(temporary, F_OK), -1);
}

static void
an_existing_file_is_left_alone(void **state)
{
	char text[1024];

	write_file("keep me");
	assert_false(pepper_make(path, false));
	read_file(text);
	assert_string_equal(text, "keep me");
	assert_int_equal(access(temporary, F_OK), -1);
}

static void
adding_keeps_the_old_lines(void **state)
{
	char before[1024];
	char after[1024];

	assert_true(pepper_make(path, false));
	read_file(before);
	assert_true(pepper_make(path, true));
	assert_true(pepper_make(path, true));
	assert_int_equal(read_file(after), 3 * LINE_LEN);
	assert_memory_equal(after, before, LINE_LEN);
	check_line(after + LINE_LEN, "2 ");
	check_line(after + 2 * LINE_LEN, "3 ");
	assert_memory_not_equal(after + 2, after + LINE_LEN + 2, 64);
}

static void
only_a_pepper_file_is_extended(void **state)
{
	static const char *const odd[] = {
		"hello\n",
		"1 abcd\n",
		"\n",
		"1",
		"1 00000000000000000000000000000000000000000000000000000000000000",
		"2 0000000000000000000000000000000000000000000000000000000000000000\n"
		"1 0000000000000000000000000000000000000000000000000000000000000000\n",
		"1 0000000000000000000000000000000000000000000000000000000000000000"};

	assert_false(pepper_make(path, true)); /* there is none */
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
	{
		char text[1024];

		write_file(odd[i]);
		if (pepper_make(path, true))
			fail_msg("extended: %s", odd[i]);
		read_file(text);
		assert_string_equal(text, odd[i]);
		assert_int_equal(access(temporary, F_OK), -1);
	}
}

static void
another_maker_at_work_is_respected(void **state)
{
	int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL, 0600);

	assert_true(fd >= 0);
	close(fd);
	assert_false(pepper_make(path, false));
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(access(temporary, F_OK), 0);
}

static bool another_comes;

extern int __real_rename(const char *from, const char *to);
extern int __wrap_rename(const char *from, const char *to);

/* The moment after the rename, when the temporary name is free again. */
int
__wrap_rename(const char *from, const char *to)
{
	int result = __real_rename(from, to);

	if (another_comes)
	{
		int fd = open(from, O_WRONLY | O_CREAT | O_EXCL, 0600);

		assert_true(fd >= 0);
		close(fd);
	}
	return result;
}

static void
who_comes_after_the_rename_keeps_his_file(void **state)
{
	char text[1024];

	assert_true(pepper_make(path, false));
	another_comes = true;
	assert_true(pepper_make(path, true));
	another_comes = false;
	assert_int_equal(read_file(text), 2 * LINE_LEN);
	assert_int_equal(access(temporary, F_OK), 0);
}

static void
a_symbolic_link_stays_one(void **state)
{
	char        text[1024];
	char        link_path[PATH_MAX + 16];
	struct stat info;

	snprintf(link_path, sizeof(link_path), "%s/link", directory);
	assert_true(pepper_make(path, false));
	assert_int_equal(symlink("p", link_path), 0);
	assert_true(pepper_make(link_path, true));
	assert_int_equal(lstat(link_path, &info), 0);
	assert_true(S_ISLNK(info.st_mode));
	assert_int_equal(read_file(text), 2 * LINE_LEN);
	/* but a new file is not made where a link points to */
	assert_int_equal(unlink(path), 0);
	assert_false(pepper_make(link_path, false));
	assert_int_equal(access(path, F_OK), -1);
	unlink(link_path);
}

#define DIGITS_60 "000000000000000000000000000000000000000000000000000000000000"

static void
whatever_the_server_accepts_is_extended(void **state)
{
	char text[1024];

	write_file("7 " DIGITS_60 DIGITS_60 "00000000\n");
	assert_true(pepper_make(path, true));
	read_file(text);
	check_line(strchr(text, '\n') + 1, "8 ");
	/* neither 65 bytes nor half a byte */
	write_file("7 " DIGITS_60 DIGITS_60 "0000000000\n");
	assert_false(pepper_make(path, true));
	write_file("7 " DIGITS_60 "00000\n");
	assert_false(pepper_make(path, true));
}

static void
versions_end_where_the_server_s_do(void **state)
{
	char text[1024];

	write_file("2147483646 " DIGITS_60 "0000\n");
	assert_true(pepper_make(path, true));
	read_file(text);
	assert_non_null(strstr(text, "\n2147483647 "));
	assert_false(pepper_make(path, true));
	write_file("2147483648 " DIGITS_60 "0000\n");
	assert_false(pepper_make(path, true));
	assert_int_equal(access(temporary, F_OK), -1);
}

int
main(void)
{
#define IN_DIRECTORY(test)                                                     \
	cmocka_unit_test_setup_teardown(test, make_directory, remove_directory)
	const struct CMUnitTest tests[] = {
		IN_DIRECTORY(a_new_file_has_one_secret_and_mode_0600),
		IN_DIRECTORY(an_existing_file_is_left_alone),
		IN_DIRECTORY(adding_keeps_the_old_lines),
		IN_DIRECTORY(only_a_pepper_file_is_extended),
		IN_DIRECTORY(another_maker_at_work_is_respected),
		IN_DIRECTORY(who_comes_after_the_rename_keeps_his_file),
		IN_DIRECTORY(a_symbolic_link_stays_one),
		IN_DIRECTORY(whatever_the_server_accepts_is_extended),
		IN_DIRECTORY(versions_end_where_the_server_s_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
