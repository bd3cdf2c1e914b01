/*
 * attr.h - compiler attributes of the pure C core
 *
 * Nothing in core/ includes postgres.h, so it cannot use the server's macros.
 */
#ifndef MTR_CORE_ATTR_H
#define MTR_CORE_ATTR_H

/* the caller must look at the result: it tells success from failure */
#define MTR_MUSTCHECK __attribute__((warn_unused_result))

#endif /* MTR_CORE_ATTR_H */
