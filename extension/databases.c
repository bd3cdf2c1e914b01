/*
 * databases.c
 *		Which databases there are, for the launcher.
 *
 * pg_database is shared by all databases, so a process that is connected to none
 * can read it; but not through a cache.
 */
#include "mortar.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "utils/snapmgr.h"

#include "flush.h"

List *
mtr_list_databases(bool connectable)
{
	MemoryContext context = CurrentMemoryContext;
	List         *found = NIL;
	Relation      rel;
	TableScanDesc scan;
	HeapTuple     tuple;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database db = (Form_pg_database) GETSTRUCT(tuple);
		MemoryContext    old;

		if (connectable && !db->datallowconn)
			continue;
		old = MemoryContextSwitchTo(context);
		found = lappend_oid(found, db->oid);
		MemoryContextSwitchTo(old);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
	MemoryContextSwitchTo(context);
	return found;
}

bool
mtr_database_exists(Oid dboid)
{
	List *all = mtr_list_databases(false);
	bool  exists = list_member_oid(all, dboid);

	list_free(all);
	return exists;
}
