/*
 * tenantid.h - which words are tenant ids
 *
 * Purpose: a tenant id is the same word in the URL, in SQL and in every
 * primary key: ^[a-z0-9][a-z0-9_-]{0,62}$, at most 63 bytes of ASCII that need
 * no escape anywhere.
 *
 * Ownership: a pure function.
 */
#ifndef MTR_CORE_TENANTID_H
#define MTR_CORE_TENANTID_H

#include <stdbool.h>
#include <stddef.h>

#include "core/attr.h"

#define MTR_TENANT_ID_MAX 63 /* bytes */

/* mtr_tenant_id_valid is true when s is a well-formed tenant id */
extern bool mtr_tenant_id_valid(const char *s, size_t len) MTR_MUSTCHECK;

#endif /* MTR_CORE_TENANTID_H */
