/*
 * guc.c
 *		Mortar's settings, in one table of calls, sorted by name.
 *
 * Settings that size shared memory are PGC_POSTMASTER and exist only when the
 * library is preloaded.  mortar.tenant_id is not a setting but a window: it
 * shows the tenant of the transaction's context, so that policies written for
 * current_setting('mortar.tenant_id') go on working.  SET is refused.
 */
#include "mortar.h"

#include "access/parallel.h"
#include "utils/guc.h"

#include "guc.h"
#include "pepper.h"
#include "tenant.h"

int   mtr_flush_interval_ms = 200;
int   mtr_egress_mode = MTR_EGRESS_BUFFERED;
int   mtr_max_tenants = 10000;
int   mtr_max_keys = 50000;
int   mtr_max_reservations = 1000;
int   mtr_max_usage_slots = 50000;
char *mtr_pepper_file = NULL;
int   mtr_tenant_timeout_ms = 5000;
bool  mtr_log_refusals = false;

static char *tenant_id_unused = NULL;

static const struct config_enum_entry egress_modes[] = {
	{"off", MTR_EGRESS_OFF, false},
	{"buffered", MTR_EGRESS_BUFFERED, false},
	{"group", MTR_EGRESS_GROUP, false},
	{"sync", MTR_EGRESS_SYNC, false},
	{NULL, 0, false}};

/*
 * In a parallel worker the context is the leader's, read from the mirror; a
 * worker that cannot know it raises, because an empty answer would silently
 * drop rows.
 */
static const char *
show_tenant_id(void)
{
	const char *tenant =
		IsParallelWorker() ? mtr_context_of_leader() : mtr_context_tenant();

	return tenant != NULL ? tenant : "";
}

/* called at every reload of the configuration, also for an unchanged value */
static bool
check_pepper_file(char **newval, void **extra, GucSource source)
{
	mtr_pepper_forget();
	return true;
}

static void
define_shared(void)
{
	DefineCustomIntVariable(
		"mortar.max_keys",
		"API keys kept in shared memory (about 200 bytes each).", NULL,
		&mtr_max_keys, 50000, 8, 10000000, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"mortar.max_reservations",
		"Answers in pieces that are paid for and not sent yet (about 320 bytes "
		"each).",
		NULL, &mtr_max_reservations, 1000, 1, 1000000, PGC_POSTMASTER, 0, NULL,
		NULL, NULL);
	DefineCustomIntVariable(
		"mortar.max_tenants",
		"Tenants kept in shared memory (about 2,600 bytes each).", NULL,
		&mtr_max_tenants, 10000, 8, 10000000, PGC_POSTMASTER, 0, NULL, NULL,
		NULL);
	DefineCustomIntVariable(
		"mortar.max_usage_slots",
		"Usage slots kept in shared memory (about 220 bytes each).",
		"A usage slot counts one meter of one tenant, key, "
		"route and price.",
		&mtr_max_usage_slots, 50000, 16, 10000000, PGC_POSTMASTER, 0, NULL,
		NULL, NULL);
}

static void
define_window(void)
{
	DefineCustomStringVariable(
		"mortar.tenant_id", "Shows the tenant of this transaction.", NULL,
		&tenant_id_unused, "", PGC_INTERNAL,
		GUC_NOT_IN_SAMPLE | GUC_DISALLOW_IN_FILE | GUC_NO_RESET_ALL, NULL, NULL,
		show_tenant_id);
}

void
mtr_guc_init(bool preloading)
{
	define_window();
	if (!preloading)
		return;

	DefineCustomEnumVariable("mortar.egress_mode",
							 "Whether HTTP calls are metered.",
							 "off: calls move no meter and cost nothing; every "
							 "other step runs.  group, sync: usage of calls "
							 "is on disk at commit, also of tenants whose "
							 "durability is weaker.",
							 &mtr_egress_mode, MTR_EGRESS_BUFFERED,
							 egress_modes, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"mortar.flush_interval",
		"How often buffered usage is written to tables.",
		"A crash loses at most this much of buffered usage.",
		&mtr_flush_interval_ms, 200, 10, 60000, PGC_SIGHUP, GUC_UNIT_MS, NULL,
		NULL, NULL);
	DefineCustomBoolVariable(
		"mortar.log_refusals", "Log errors of class MT in the server log.",
		NULL, &mtr_log_refusals, false, PGC_SIGHUP, 0, NULL, NULL, NULL);
	define_shared();
	DefineCustomStringVariable(
		"mortar.pepper_file", "File with the pepper of API keys.",
		"Made by mortar-gateway --make-pepper; without "
		"it keys can be neither made nor checked.",
		&mtr_pepper_file, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY, check_pepper_file,
		NULL, NULL);
	DefineCustomIntVariable("mortar.tenant_statement_timeout",
							"statement_timeout of the gateway's sessions.",
							NULL, &mtr_tenant_timeout_ms, 5000, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	MarkGUCPrefixReserved("mortar");
}
