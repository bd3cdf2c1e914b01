/*
 * compat.h
 *		Every difference between PostgreSQL versions that Mortar cares about.
 *
 * No other file tests PG_VERSION_NUM (make lint checks it).
 */
#ifndef MORTAR_COMPAT_H
#define MORTAR_COMPAT_H

#include "postgres.h"

#if PG_VERSION_NUM < 150000
#error "Mortar needs PostgreSQL 15 or later"
#endif

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* does the role own the database? */
#if PG_VERSION_NUM >= 160000
#define MTR_OWNS_DATABASE(dboid, role)                                         \
	object_ownercheck(DatabaseRelationId, dboid, role)
#else
#define MTR_OWNS_DATABASE(dboid, role) pg_database_ownercheck(dboid, role)
#endif

/* local transaction id of a backend; the place moved in 17 */
#if PG_VERSION_NUM >= 170000
#define MTR_MY_LXID (MyProc->vxid.lxid)
#define MTR_MY_PROCNO (MyProcNumber)
#define MTR_PROCNO_OF(proc) GetNumberFromPGProc(proc)
#else
#define MTR_MY_LXID (MyProc->lxid)
#define MTR_MY_PROCNO (MyProc->pgprocno)
#define MTR_PROCNO_OF(proc) ((proc)->pgprocno)
#endif

#endif /* MORTAR_COMPAT_H */
