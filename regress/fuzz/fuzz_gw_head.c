/*
 * fuzz_gw_head.c - raw heads and targets: whatever is accepted has one reading
 *
 * An accepted head is read again line by line, in the plainest way, and must
 * have at most one framing header.  The same bytes are then split as a target;
 * the pieces must lie inside it, and a tenant must be what the contract says.
 */
// SOURCES: gateway/head.c gateway/text.c
#include "../../gateway/head.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* How many header lines begin with "name" and a colon. */
static int
count_lines(Slice head, const char *name)
{
	size_t len = strlen(name);
	int    count = 0;
	size_t from = 2;

	/* the request line may look like a header, and may follow an empty line */
	while (head.base[from - 1] != '\n' || from == 2)
		from++;
	for (size_t i = from; i + len < head.len; i++)
		if (head.base[i - 1] == '\n' &&
			strncasecmp(head.base + i, name, len) == 0 &&
			head.base[i + len] == ':')
			count++;
	return count;
}

static bool
is_inside(Slice part, Slice whole)
{
	return part.len == 0 || (part.base >= whole.base &&
							 part.base + part.len <= whole.base + whole.len);
}

static void
check_head(Slice raw)
{
	HeadInfo info;
	Slice    head;
	int      lengths;
	int      codings;

	if (!head_check(raw, &info))
	{
		require(info.why != NULL);
		return;
	}
	require(info.length <= raw.len && info.length >= 4);
	head = (Slice){raw.base, info.length};
	require(memcmp(head.base + head.len - 4, "\r\n\r\n", 4) == 0);
	lengths = count_lines(head, "content-length");
	codings = count_lines(head, "transfer-encoding");
	require(lengths + codings <= 1);
	require(info.chunked == (codings == 1));
	require(count_lines(head, "host") <= 1);
}

static void
check_target(Slice raw)
{
	char  *buffer = malloc(raw.len + 1);
	Target target;

	require(buffer != NULL);
	if (target_split(raw, buffer, &target) == TARGET_OK)
	{
		require(target.tenant.len > 0 && text_is_utf8(target.tenant));
		require(memchr(target.tenant.base, '/', target.tenant.len) == NULL);
		require(memchr(target.tenant.base, '\0', target.tenant.len) == NULL);
		require(is_inside(target.path, raw) && is_inside(target.query, raw));
		require(target.path.len == 0 || target.path.base[0] == '/');
		require(target.path.len == 0 ||
				memchr(target.path.base, '?', target.path.len) == NULL);
	}
	free(buffer);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Slice raw = {(const char *) data, size};

	check_head(raw);
	check_target(raw);
	return 0;
}
