/*
 * guc.h
 *		Mortar's settings.
 */
#ifndef MORTAR_GUC_H
#define MORTAR_GUC_H

typedef enum MtrEgressMode
{
	MTR_EGRESS_OFF,
	MTR_EGRESS_BUFFERED,
	MTR_EGRESS_GROUP,
	MTR_EGRESS_SYNC
} MtrEgressMode;

extern int   mtr_flush_interval_ms; /* mortar.flush_interval */
extern int   mtr_egress_mode;       /* mortar.egress_mode */
extern int   mtr_max_tenants;       /* mortar.max_tenants */
extern int   mtr_max_keys;          /* mortar.max_keys */
extern int   mtr_max_reservations;  /* mortar.max_reservations */
extern int   mtr_max_usage_slots;   /* mortar.max_usage_slots */
extern char *mtr_pepper_file;       /* mortar.pepper_file */
extern int   mtr_tenant_timeout_ms; /* mortar.tenant_statement_timeout */
extern bool  mtr_log_refusals;      /* mortar.log_refusals */

/*
 * Defines all settings.  With preloading false only those that a session may
 * still define; the shared ones then keep their defaults and stay unused.
 */
extern void mtr_guc_init(bool preloading);

#endif /* MORTAR_GUC_H */
