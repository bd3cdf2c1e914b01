/*
 * tenantid.c - which words are tenant ids
 *
 * Written without ctype.h: the answer must not depend on a locale.
 */
#include "core/tenantid.h"

static bool
is_lower_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool
mtr_tenant_id_valid(const char *s, size_t len)
{
	if (len == 0 || len > MTR_TENANT_ID_MAX || !is_lower_alnum(s[0]))
		return false;
	for (size_t i = 1; i < len; i++)
	{
		if (!is_lower_alnum(s[i]) && s[i] != '_' && s[i] != '-')
			return false;
	}
	return true;
}
