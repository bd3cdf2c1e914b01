/*
 * shmem.h
 *		What Mortar keeps in shared memory, and which lock guards what.
 *
 * Three kinds of things live here, all of them caches or short buffers over
 * ordinary tables:
 *
 *	 MtrDb		one per database that has Mortar: generations, its flusher
 *	 MtrTenant	a tenant's slot: spendable credits and priced quantities
 *	 MtrUsage	a usage slot: one (tenant, meter, key, route, price)
 *	 MtrKey		an API key as authentication needs it
 *	 MtrReservation		credits taken for what will be sent, see reserve.h
 *
 * Lock order, left before right; nobody takes a lock to the left of one held:
 *
 *	 MtrShared.lock (LWLock)  ->  a tenant's, key's or db's mutex (spinlock)
 *
 * MtrShared.lock guards membership: which array element or hash entry stands
 * for which tenant, key, usage slot or database.  Shared mode to look
 * something up, exclusive to add or remove.  Warm calls do not take it: each
 * backend remembers pointers and proves them again under the spinlock.
 *
 * Spinlocks guard the numbers.	 A tenant's mutex guards the slot, its
 * counters AND all of its usage slots, so that one acquisition moves a
 * quantity, its minute mark and the sums together.	 No function is called
 * under a spinlock but arithmetic on the slot.
 *
 * Elements never move and are never returned to the operating system, so a
 * stale pointer is harmless: its contents just no longer match.
 */
#ifndef MORTAR_SHMEM_H
#define MORTAR_SHMEM_H

#include "mortar.h"

#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/s_lock.h"
#include "storage/spin.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "core/purse.h"
#include "core/reserve.h"
#include "core/usage_ring.h"

/* databases of one cluster that can hold Mortar at the same time */
#define MTR_MAX_DBS 64

/* MtrTenant.max_unflushed_uc of a tenant for whom none was set: 1 credit */
#define MTR_DEFAULT_MAX_UNFLUSHED_UC 1000000

/* prices of one tenant that may have unflushed usage at one time */
#define MTR_COUNTERS 16

typedef struct MtrPrice
{
	pg_uuid_t price_id; /* all zero: no price in force */
	int64     num_uc;
	int64     per_units;
} MtrPrice;

/* how a database's flusher is doing; guarded by MtrDb.mutex */
typedef enum MtrFlusherState
{
	MTR_FLUSHER_NONE,     /* none; the launcher may start one */
	MTR_FLUSHER_STARTING, /* registered, has not claimed its database yet */
	MTR_FLUSHER_RUNNING
} MtrFlusherState;

typedef struct MtrDb
{
	slock_t mutex;
	Oid     dboid; /* InvalidOid: free.	 MtrShared.lock, exclusive to change */

	/*
	 * Bumped when tables changed behind Mortar's back (restore, logical
	 * apply, a superuser's hand) or the extension was dropped.  Slots and
	 * keys remember the value they were loaded under; others are reloaded.
	 */
	pg_atomic_uint64 generation;

	/*
	 * Bumped by every commit that set a price: each backend has a copy of the
	 * price book of its own (price_book.c), and reads it again.
	 */
	pg_atomic_uint64 price_generation;

	/*
	 * A TimestampTz, the latest instant as of which a backend has looked for
	 * prices in force: for all others they are in force, too, also if the clock
	 * is set back.
	 */
	pg_atomic_uint64 price_time;

	/* bumped by every commit that changed a key: loaders start again */
	pg_atomic_uint64 key_generation;

	/*
	 * Slots loaded under an older generation than this belong to an extension
	 * that was dropped: they are thrown away, whatever they hold.
	 */
	pg_atomic_uint64 purged;
	pg_atomic_uint32 sweep_wanted; /* such slots may still be there */

	/* flusher; mutex */
	MtrFlusherState flusher_state;
	pid_t           flusher_pid;
	Latch          *flusher_latch;
	int64           flusher_since; /* mtr_now_ms, of its claim */
	pid_t       blocked_by; /* backend that keeps the flusher out; 0: nobody */
	bool        leave_wanted;     /* another database waits for a worker */
	int         flusher_failures; /* in a row, for the launcher's back-off */
	TimestampTz last_flush;
	TimestampTz last_error_at;
	char        last_error[256];
	uint64      flushed_rows;

	bool epoch_entered; /* this epoch has its row in mortar.epochs; mutex */

	/* some tenant of this database has unflushed usage */
	pg_atomic_uint32 dirty;
} MtrDb;

typedef enum MtrTenantState
{
	MTR_TENANT_FREE, /* on the free list */
	MTR_TENANT_NEW,  /* created by a transaction still in progress */
	MTR_TENANT_READY
} MtrTenantState;

/* mortar.tenants.state: whether the tenant may call; closed is for ever */
typedef enum MtrLife
{
	MTR_LIFE_ACTIVE,
	MTR_LIFE_SUSPENDED,
	MTR_LIFE_CLOSED
} MtrLife;

/* how safe usage is when its call has committed, weakest first; see sync.h */
typedef enum MtrDurability
{
	MTR_DURABLE_BUFFERED,
	MTR_DURABLE_GROUP,
	MTR_DURABLE_SYNC
} MtrDurability;

/*
 * What one price above 0 has charged one tenant.  priced moves when a call is
 * charged, done when it commits, flushed when the flusher's transaction
 * commits: flushed <= done <= priced.	Cost so far is floor(priced * num /
 * per), so costs telescope and no rounding is ever lost or gained.
 *
 * queued is that part of priced which is usage of mortar.usage_sync, in flight or
 * committed: done and flushed have it when the flusher has moved it to the journal.
 * reserved is another part of it, which is paid and not used yet (reserve.h): no crash
 * can lose it, so that it has no bound, and it joins done when it is settled.  The two
 * are fields of their own, as a price may have both.
 *
 * A cache over mortar.usage_marks and usage_sync: one that nobody holds, and whose
 * quantity is flushed or queued, may make room for another price, and comes back
 * when it is needed (counter.c).
 */
typedef struct MtrCounter
{
	pg_uuid_t price_id; /* all zero: this counter is free */
	int16     meter;
	bool      used; /* since somebody last looked for a place */
	int32     refs; /* transactions that hold this counter */
	int64     num_uc;
	int64     per_units;
	int64     priced;
	int64     done;
	int64     flushed;
	int64     queued;
	int64     reserved;
} MtrCounter;

struct MtrUsage;

typedef struct pg_attribute_aligned(64) MtrTenant
{
	/* the purse's head stands with these on the slot's own cache line */
	slock_t          mutex;
	uint8            state;  /* MtrTenantState */
	uint8            life;   /* MtrLife */
	uint8            frozen; /* bool: no credits move */
	int32            pins;   /* transactions that may still change the slot */
	struct mtr_purse purse;  /* what can be spent, less what calls have taken */

	uint64 generation; /* of the database when loaded */
	int16  db;         /* index into MtrShared.db */
	int32  index;      /* own place in MtrShared.tenant, constant */

	/*
	 * What a crash may take: the cost of what was priced and is neither flushed, queued
	 * nor reserved (mtr_unflushed_settle); and the most it may be.
	 */
	int64 unflushed_uc;
	int64 max_unflushed_uc;

	/*
	 * When may grants be read from tables again (refill.c)?  Not while a
	 * transaction in progress gives one for which there was no cell; and what was
	 * read is void when grants have come, or lost their cells, since.
	 */
	int32  giving;    /* such transactions */
	int64  giving_uc; /* and such grants of theirs */
	int32  gone; /* transactions that give back to ended ones, see refill.c */
	uint32 grants_version;   /* moves whenever that happens */
	TimestampTz refilled_at; /* when they were read last */

	uint8 durability; /* MtrDurability, of calls that do not ask for one */
	int64 queued;     /* committed rows of mortar.usage_sync */

	/*
	 * Reservations, committed or not.  While there are some, the slot is not evicted,
	 * but thrown away with them if it is stale.	None that is live expires before
	 * reserve_due, which may be earlier than need be; who looks puts it right, unless
	 * reserve_version has moved since.
	 */
	int32  reservations;
	uint32 reserve_version;
	int64  reserve_due; /* mtr_now_ms; PG_INT64_MAX: none */
	int64  reserved_uc; /* what they keep */

	/*
	 * Durable holds.  All that expire before next_hold_expiry are resolved; it may be
	 * earlier than need be, and then is put right by who looks (expire.c), unless
	 * holds have come since, which holds_version tells.
	 */
	int64       held;
	int64       releasing_uc; /* of expired ones, by transactions in progress */
	TimestampTz next_hold_expiry;
	uint32      holds_version;
	TimestampTz last_posted; /* of its entries: time never runs back */
	int32       next_free;
	struct MtrUsage *usage;     /* list through MtrUsage.next */
	int32            nusage;    /* length of that list */
	int32            unflushed; /* of these, how many have something to flush */
	MtrCounter       counter[MTR_COUNTERS];
	uint32           recycled; /* grows when a counter makes room for another */
	int16            counter_hand;  /* where the next place is looked for */
	char tenant_id[MTR_TENANT_LEN]; /* MtrShared.lock and mutex to change */
}
MtrTenant;

/* keys of the hash tables: blobs, so no padding and zeroed tails */
typedef struct MtrTenantHashKey
{
	int32 db;
	char  tenant_id[MTR_TENANT_LEN];
} MtrTenantHashKey;

typedef struct MtrTenantHashEntry
{
	MtrTenantHashKey key;
	int32            index;
} MtrTenantHashEntry;

typedef struct MtrUsageKey
{
	int32     tenant; /* MtrTenant.index; -1 in a removed entry */
	int16     meter;
	int16     route;    /* route number; 0: none (record_usage) */
	pg_uuid_t key_id;   /* API key; all zero: none */
	pg_uuid_t price_id; /* all zero: unpriced */
} MtrUsageKey;

/* guarded by the tenant's mutex; membership by MtrShared.lock */
typedef struct MtrUsage
{
	MtrUsageKey key;
	bool        live; /* false before it is filled and after it was removed */
	int16       counter; /* where the price's counter was last; only a hint */
	int32       reservations;
	struct MtrUsage *next;
	int64            taken; /* charged, calls in flight and reserved included */
	int64            done;  /* of these, committed and buffered, ever */
	int64            flushed; /* of these, in mortar.usage_journal */
	int64            num_uc;  /* of the price; 0: free, and has no counter */
	int64            per_units;
	struct mtr_ring  ring;
} MtrUsage;

typedef struct MtrKeyHashKey
{
	int32     db;
	pg_uuid_t key_id;
} MtrKeyHashKey;

#define MTR_KEY_MAGIC 0x4d4b4559

/* an API key; mutex guards all but the hash key */
typedef struct MtrKey
{
	MtrKeyHashKey key;
	uint32        magic; /* MTR_KEY_MAGIC: the mutex is initialised */
	slock_t       mutex;
	bool          valid;      /* loaded, and not invalidated since */
	int32         pins;       /* revocations in flight */
	uint64        generation; /* of the database when loaded */
	bool          used;       /* since eviction last looked */
	char          tenant_id[MTR_TENANT_LEN];
	uint8         hash[32];
	int32         pepper_version;
	uint32        scopes;
	TimestampTz   not_before;
	TimestampTz   expires_at; /* DT_NOEND: never */
	TimestampTz   revoked_at; /* DT_NOEND: not revoked */
} MtrKey;

typedef enum MtrReservationState
{
	MTR_RESERVATION_FREE,
	MTR_RESERVATION_PENDING, /* its transaction is in progress */
	MTR_RESERVATION_LIVE
} MtrReservationState;

/*
 * Guarded by the mutex of the tenant that it is of.  Who holds a tenant's mutex and
 * reads that tenant's index here knows that it is this tenant's, and stays so: an entry
 * comes to a tenant, and leaves it, under that tenant's mutex.	The list of those that
 * are free needs no lock (reservation.c).
 */
typedef struct MtrReservation
{
	int32            tenant;   /* MtrTenant.index; -1: free */
	uint8            state;    /* MtrReservationState */
	bool             given_up; /* by its transaction, before that has ended */
	int16            counter; /* place of the price's counter; -1: it is free */
	pg_atomic_uint32 next_free; /* index + 1; 0: none */
	uint64           serial;    /* no two reservations have the same */
	int64            expires;   /* mtr_now_ms */
	MtrUsage        *usage;
	struct mtr_reserve r;
} MtrReservation;

/* the tenant context mirrored for parallel workers, by the leader's procno */
typedef struct MtrContextMirror
{
	LocalTransactionId lxid;
	char               tenant_id[MTR_TENANT_LEN];
} MtrContextMirror;

typedef struct MtrSharedState
{
	LWLock *lock; /* see the top of this file */

	pg_uuid_t   epoch_id; /* made when this memory was initialised; constant */
	TimestampTz epoch_start;
	Latch      *launcher_latch; /* lock; NULL: no launcher */

	/*
	 * Bumped whenever a tenant or usage slot leaves memory.  A reader of
	 * tables that then adds what memory holds starts again when it moved.
	 */
	pg_atomic_uint64 evictions;

	/* reservations in use; and those that are free: how often it moved, index + 1 */
	pg_atomic_uint32 reservations;
	pg_atomic_uint64 free_reservation;
	pg_atomic_uint64 reservation_serial; /* the last; random at first */

	int32 free_tenant; /* head of the free list, -1: empty; lock */
	int32 clock_hand;  /* where eviction looks next; lock */
	MtrDb db[MTR_MAX_DBS];
} MtrSharedState;

extern MtrSharedState   *MtrShared;  /* NULL: the library was not preloaded */
extern MtrTenant        *MtrTenants; /* [mtr_max_tenants] */
extern pg_atomic_uint64 *MtrDirty;   /* a bit per tenant: has unflushed usage */
extern MtrReservation   *MtrReservations; /* [mtr_max_reservations] */
extern HTAB             *MtrTenantHash;
extern HTAB             *MtrUsageHash;
extern HTAB             *MtrKeyHash;
extern MtrContextMirror *MtrMirrors;

#define MTR_DIRTY_WORDS ((mtr_max_tenants + 63) / 64)

/* installs the shared memory hooks; only while preloading */
extern void mtr_shmem_init(void);

/*
 * This database's MtrDb, claimed on first use (takes MtrShared.lock then,
 * and remembers the answer).  Raises 55000 without preload and in a
 * transaction that has dropped the extension, 53400 when MTR_MAX_DBS databases are
 * in use.
 */
extern MtrDb *mtr_db(void);

/* the MtrDb of a database if it has one, else NULL; takes MtrShared.lock */
extern MtrDb *mtr_db_find(Oid dboid);

/*
 * The database is gone: free its slots, keys, usage and its MtrDb.  Slots that
 * a transaction still pins are left, and go with the next call.
 */
extern void mtr_db_purge(Oid dboid);

/*
 * Frees the slots of an extension that was dropped (see MtrDb.purged), those
 * that no transaction pins.
 */
extern void mtr_db_sweep(MtrDb *db);

/*
 * The extension is not in the database, or was not a moment ago: the same, and
 * frees the MtrDb unless slots are left.	Those are pinned, or of an extension
 * that was created meanwhile.
 */
extern void mtr_db_forget(MtrDb *db);

/* makes the database's flusher look at once, or the launcher start one */
extern void mtr_wake_flusher(MtrDb *db);

/* makes all flushers look at once: memory is short; no error */
extern void mtr_wake_flushers(void);

/* wakes the launcher, which starts a flusher; async-signal-like: no error */
extern void mtr_wake_launcher(void);

static inline bool
mtr_uuid_is_nil(const pg_uuid_t *id)
{
	static const pg_uuid_t nil = {{0}};

	return memcmp(id, &nil, sizeof(nil)) == 0;
}

#endif /* MORTAR_SHMEM_H */
