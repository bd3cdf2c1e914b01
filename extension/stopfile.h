/*
 * stopfile.h
 *		The file of a clean stop: its format, and where it lies.
 *
 *		stopfile.c		 writes it (postmaster) and looks for it
 *		stopfile_enter.c enters it into tables (flusher)
 *		stopfile_rows.c	 its records, as rows
 *
 * A file is a header, records, and a CRC-32C of everything before it.  It is
 * read by the server that wrote it, or by a copy of its data directory: integers
 * are in the machine's own order.
 *
 * There is another kind of the same format, without records: the word that a
 * database was seen in an epoch which mortar.epochs does not have yet.
 */
#ifndef MORTAR_STOPFILE_H
#define MORTAR_STOPFILE_H

#include "shmem.h"

#include "port/pg_crc32c.h"

#define MTR_STOPFILE_MAGIC 0x4d54525f53544f50 /* "MTR_STOP" */
#define MTR_STOPFILE_VERSION 2
#define MTR_STOPFILE_METER_LEN 32
#define MTR_STOPFILE_ROUTE_LEN 128

typedef struct MtrStopHeader
{
	uint64      magic;
	uint32      version;
	Oid         dboid;
	pg_uuid_t   epoch_id;
	TimestampTz started_at;
	uint64      system_id;
	uint32      timeline;
	uint32      record_size;
	uint64      nrecords;
} MtrStopHeader;

typedef enum MtrStopKind
{
	MTR_STOP_USAGE,
	MTR_STOP_BURN
} MtrStopKind;

/*
 * A stretch of a usage slot's quantity that belongs to one minute, or what a source
 * has paid for a tenant's usage.  Records of a tenant stand together, burns last.
 * Strings are padded with zeros, fields of the other kind are zero.
 */
typedef struct MtrStopRecord
{
	char      tenant[MTR_TENANT_LEN];
	int32     kind;   /* MtrStopKind */
	int32     minute; /* minutes since 1970, UTC */
	char      meter[MTR_STOPFILE_METER_LEN];
	char      route[MTR_STOPFILE_ROUTE_LEN];
	pg_uuid_t key_id;
	pg_uuid_t price_id;
	int64     num_uc; /* of the price; both 0 without one */
	int64     per_units;
	int64     from_qty;
	int64     upto_qty;
	pg_uuid_t grant_id;  /* of a burn; all zero: none */
	int64     source;    /* 0: the grant; MTR_PURSE_DEBT, MTR_PURSE_ISSUED */
	int64     amount_uc; /* of a burn; not 0 */
} MtrStopRecord;

/* what names of files end with */
#define MTR_STOPFILE_STOP ".stop"
#define MTR_STOPFILE_OPEN ".open"

/*
 * Calls func(path, arg) for each file of the database whose name ends so, NULL:
 * for all, also those set aside; until it returns false.  Uses the current memory
 * context.
 */
extern void
mtr_stopfile_each(Oid dboid, const char                           *ending,
				  bool (*func)(const char *path, void *arg), void *arg);

/*
 * Reads the header.  False when there is no such file, or none that this server
 * can have written for this database.
 */
extern bool mtr_stopfile_header(const char *path, MtrStopHeader *h);

/* the same of a header that was read already */
extern bool mtr_stopfile_is_ours(const MtrStopHeader *h);

/* reads from the file, or raises */
extern void
mtr_stopfile_read(FILE *file, const char *path, void *data, size_t len);

/*
 * Enters all records, which follow the header and are right, into the journal, in the
 * running transaction.	 Needs SPI.
 */
extern void
mtr_stopfile_rows(FILE *file, const char *path, const MtrStopHeader *header);

/* removes such files of a database, NULL: all; failures are logged */
extern void mtr_stopfile_forget(Oid dboid, const char *ending);

#endif /* MORTAR_STOPFILE_H */
