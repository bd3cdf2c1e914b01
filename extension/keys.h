/*
 * keys.h
 *		Scopes by name; between keys.c and its callers.
 */
#ifndef MORTAR_KEYS_H
#define MORTAR_KEYS_H

#include "auth.h"

#include "utils/array.h"

/* the bit of a scope's name; false when there is no such scope */
extern bool mtr_scope_bit(const char *name, size_t len, uint32 *bit);

/*
 * Bits of an array of scope names.	 Unknown names give no right; *all_known
 * tells whether there were any.
 */
extern uint32 mtr_scopes_of_array(ArrayType *array, bool *all_known);

#endif /* MORTAR_KEYS_H */
