/*
 * pepper.h
 *		The file with the secrets that API keys are hashed with.
 */
#ifndef GATEWAY_PEPPER_H
#define GATEWAY_PEPPER_H

#include <stdbool.h>

/*
 * Makes the pepper file "path": mode 0600, one line "1 <64 hex digits>" from
 * the kernel's random source.  If it exists, it is left alone and the answer is
 * false, unless "add" is set: then a line with the next version is appended.
 * A symbolic link is followed then.  Readers never see half a file.  Prints what it did, or what stopped it.
 */
extern bool pepper_make(const char *path, bool add);

#endif /* GATEWAY_PEPPER_H */
