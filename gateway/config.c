/*
 * config.c
 *		Defaults, environment, command line, and the text of --help.
 *
 * All settings stand in one table; the parser, the environment and the help
 * text are derived from it, so that none can be forgotten.  A flag --a-b has
 * the variable MORTAR_A_B.
 *
 * The result is read only once threads run.
 */
#include "config.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "contract.h"

typedef enum SettingKind
{
	SETTING_TEXT,
	SETTING_COUNT,
	SETTING_BYTES,    /* 8192, 8k, 8M */
	SETTING_DURATION, /* 1500, 1500ms, 30s, 5min; a bare number is ms */
} SettingKind;

typedef struct Setting
{
	const char *name;
	SettingKind kind;
	size_t      offset; /* in Config */
	const char *initial;
	int64_t     min;
	int64_t     max;
	const char *argument;
	const char *help;
} Setting;

#define FIELD(name) offsetof(Config, name)
#define MINUTE_MS 60000

static const Setting settings[] = {
	{"listen", SETTING_TEXT, FIELD(listen_address), "127.0.0.1", 0, 0, "ADDR",
	 "numeric address for requests (:: or 0.0.0.0 for all)"},
	{"port", SETTING_COUNT, FIELD(port), "8080", 0, 65535, "N",
	 "port for requests; 0 takes any free one"},
	{"ops-listen", SETTING_TEXT, FIELD(ops_address), "127.0.0.1", 0, 0, "ADDR",
	 "numeric address for /live and /ready"},
	{"ops-port", SETTING_COUNT, FIELD(ops_port), "-1", 0, 65535, "N",
	 "port for /live and /ready; default: port + 1"},
	{"database", SETTING_TEXT, FIELD(database), NULL, 0, 0, "CONNINFO",
	 "libpq connection string or URI; PG* variables fill the gaps"},
	{"threads", SETTING_COUNT, FIELD(threads), "0", 0, 256, "N",
	 "event loops; 0 means one per core"},
	{"connections", SETTING_COUNT, FIELD(connections), "3", 1, 64, "N",
	 "database connections per thread; a tenant gets all but one"},
	{"depth", SETTING_COUNT, FIELD(depth), "16", 1, 1024, "N",
	 "calls in flight per database connection"},
	{"queue", SETTING_COUNT, FIELD(queue), "1024", 0, 1000000, "N",
	 "calls that may wait for a connection, per thread"},
	{"queue-timeout", SETTING_DURATION, FIELD(queue_timeout_ms), "2s", 1,
	 10 * MINUTE_MS, "TIME", "longest wait for a connection; then 503"},
	{"call-timeout", SETTING_DURATION, FIELD(call_timeout_ms), "30s", 100,
	 60 * MINUTE_MS, "TIME",
	 "a connection that gives no answer for so long is closed"},
	{"connect-timeout", SETTING_DURATION, FIELD(connect_timeout_ms), "5s", 100,
	 10 * MINUTE_MS, "TIME", "longest attempt to connect to the database"},
	{"max-connections", SETTING_COUNT, FIELD(max_connections), "10000", 1,
	 1000000, "N", "client connections; further ones wait in the kernel"},
	{"max-uri", SETTING_BYTES, FIELD(max_uri_bytes), NULL, 64, 1 << 18, "SIZE",
	 "longest request target; beyond: 414"},
	{"max-head", SETTING_BYTES, FIELD(max_head_bytes), NULL, 128, 1 << 18,
	 "SIZE", "longest request head; beyond: 431"},
	{"max-body", SETTING_BYTES, FIELD(max_body_bytes), NULL, 0, 1 << 26, "SIZE",
	 "longest request body; beyond: 413"},
	{"body-memory", SETTING_BYTES, FIELD(body_memory_bytes), "256M", 1,
	 INT32_MAX, "SIZE",
	 "all request bodies together; beyond: 503 to the largest"},
	{"request-timeout", SETTING_DURATION, FIELD(request_timeout_ms), "30s", 100,
	 60 * MINUTE_MS, "TIME",
	 "time to send a whole request; also idle keep-alive"},
	{"drain-timeout", SETTING_DURATION, FIELD(drain_timeout_ms), "10s", 0,
	 60 * MINUTE_MS, "TIME", "time to finish requests after SIGTERM"},
	{"access-log", SETTING_TEXT, FIELD(access_log), NULL, 0, 0, "PATH",
	 "one JSON line per request; - is stdout; SIGHUP reopens"},
};

#define SETTING_TOTAL (sizeof(settings) / sizeof(settings[0]))

static void
print_help(void)
{
	printf("mortar-gateway - HTTP front of a PostgreSQL database with the "
		   "mortar extension\n\n"
		   "Usage:\n"
		   "  mortar-gateway [OPTION]...              serve until SIGTERM\n"
		   "  mortar-gateway --check [OPTION]...      connect, print one line, "
		   "exit 0 or 1\n"
		   "  mortar-gateway --make-pepper PATH [--add]\n"
		   "                                          write a secret for API "
		   "keys (mode 0600)\n\n"
		   "Options (with their environment variables):\n");
	for (size_t i = 0; i < SETTING_TOTAL; i++)
	{
		char flag[64];

		snprintf(flag, sizeof(flag), "--%s %s", settings[i].name,
				 settings[i].argument);
		printf("  %-26s %s", flag, settings[i].help);
		if (settings[i].initial != NULL && settings[i].initial[0] != '-')
			printf(" [%s]", settings[i].initial);
		printf("\n");
	}
	printf("  %-26s %s\n  %-26s %s\n\n", "--help", "this text", "--version",
		   "version and contract");
	printf(
		"Every option but --check, --make-pepper and --add can be set in the\n"
		"environment: --queue-timeout is MORTAR_QUEUE_TIMEOUT.  The command\n"
		"line wins.  SIZE takes k and M, TIME takes ms, s and min.\n\n"
		"Sizes default to: max-uri %d, max-head %d, max-body %d bytes.\n\n"
		"Signals:\n"
		"  SIGTERM, SIGINT   accept no more, finish, exit 0\n"
		"  SIGHUP            reopen the access log; connect anew to the "
		"database,\n"
		"                    for settings that a session reads at its start\n\n"
		"TLS and HTTP/2 belong to a proxy in front.\n",
		MORTAR_MAX_URI, MORTAR_MAX_HEAD, MORTAR_MAX_BODY);
}

/* Reads digits and a unit; false when there is anything else. */
static bool
read_number(SettingKind kind, const char *text, int64_t *out)
{
	static const struct
	{
		SettingKind kind;
		const char *suffix;
		int64_t     factor;
	} units[] = {
		{SETTING_BYTES, "k", 1024},       {SETTING_BYTES, "M", 1024 * 1024},
		{SETTING_DURATION, "ms", 1},      {SETTING_DURATION, "s", 1000},
		{SETTING_DURATION, "min", 60000},
	};
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*out = strtoll(text, &end, 10);
	if (errno != 0 || *out > INT32_MAX)
		return false;
	if (*end == '\0')
		return true;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (units[i].kind == kind && strcmp(end, units[i].suffix) == 0)
		{
			*out *= units[i].factor;
			return true;
		}
	return false;
}

/* Stores one value; prints the objection, naming "origin", when it cannot. */
static bool
store(Config *config, const Setting *setting, const char *origin,
	  const char *text)
{
	void   *field = (char *) config + setting->offset;
	int64_t number;

	if (setting->kind == SETTING_TEXT)
	{
		memcpy(field, &text, sizeof(text));
		return true;
	}
	if (!read_number(setting->kind, text, &number) || number < setting->min ||
		number > setting->max)
	{
		fprintf(stderr,
				"mortar-gateway: %s must be from %lld to %lld%s, not \"%s\"\n",
				origin, (long long) setting->min, (long long) setting->max,
				setting->kind == SETTING_BYTES      ? " bytes"
				: setting->kind == SETTING_DURATION ? " ms"
													: "",
				text);
		return false;
	}
	memcpy(field, &number, sizeof(number));
	return true;
}

static bool
read_environment(Config *config)
{
	for (size_t i = 0; i < SETTING_TOTAL; i++)
	{
		char        variable[64] = "MORTAR_";
		size_t      len = strlen(variable);
		const char *value;

		for (const char *p = settings[i].name; *p != '\0'; p++)
			variable[len++] =
				*p == '-' ? '_' : (char) (*p >= 'a' ? *p - ('a' - 'A') : *p);
		variable[len] = '\0';
		value = getenv(variable);
		if (value != NULL && value[0] != '\0' &&
			!store(config, &settings[i], variable, value))
			return false;
	}
	return true;
}

static void
set_defaults(Config *config)
{
	*config = (Config){.max_uri_bytes = MORTAR_MAX_URI,
					   .max_head_bytes = MORTAR_MAX_HEAD,
					   .max_body_bytes = MORTAR_MAX_BODY,
					   .ops_port = -1};
	for (size_t i = 0; i < SETTING_TOTAL; i++)
		if (settings[i].initial != NULL && settings[i].initial[0] != '-' &&
			!store(config, &settings[i], settings[i].name, settings[i].initial))
			abort();
}

int64_t
config_clients_max(const Config *config, int64_t descriptors)
{
	/* a thread has its epoll, eventfd and listener; a database connection its
	 * socket and a duplicate; then logs, the ops listener and its clients */
	int64_t own = config->threads * (3 + 2 * config->connections) + 80;
	int64_t left = descriptors - own;

	if (left > config->max_connections)
		left = config->max_connections;
	return left < config->threads ? config->threads : left;
}

/*
 * Finds the setting that "flag" names, and its value: after "=", or the next
 * argument.  Returns NULL when there is no such setting.
 */
static const Setting *
find_setting(const char *flag, char **argv, int *at, const char **value)
{
	size_t len = strcspn(flag, "=");

	for (size_t i = 0; i < SETTING_TOTAL; i++)
	{
		if (strlen(settings[i].name) != len ||
			strncmp(settings[i].name, flag, len) != 0)
			continue;
		*value = flag[len] == '=' ? flag + len + 1 : argv[++*at];
		return &settings[i];
	}
	return NULL;
}

/* Takes the path from "--make-pepper PATH" or "--make-pepper=PATH". */
static bool
read_path(const char **path, char **argv, int *at)
{
	const char *rest = argv[*at] + strlen("--make-pepper");

	if (rest[0] == '=' && rest[1] != '\0')
		*path = rest + 1;
	else if (rest[0] == '\0' && argv[*at + 1] != NULL)
		*path = argv[++*at];
	else
		return false;
	return true;
}

/* Handles the flags that are no settings; false for any other. */
static bool
read_action(Config *config, ConfigAction *action, char **argv, int *at)
{
	const char *flag = argv[*at];

	if (strcmp(flag, "--help") == 0 || strcmp(flag, "-h") == 0)
	{
		print_help();
		*action = CONFIG_EXIT;
	}
	else if (strcmp(flag, "--version") == 0 || strcmp(flag, "-V") == 0)
	{
		printf("mortar-gateway %s (contract %d)\n", MORTAR_VERSION,
			   MORTAR_CONTRACT);
		*action = CONFIG_EXIT;
	}
	else if (strcmp(flag, "--check") == 0)
		*action = CONFIG_CHECK;
	else if (strcmp(flag, "--add") == 0)
		config->pepper_add = true;
	else if (strncmp(flag, "--make-pepper", strlen("--make-pepper")) == 0 &&
			 read_path(&config->pepper_path, argv, at))
		*action = CONFIG_MAKE_PEPPER;
	else
		return false;
	return true;
}

/* What depends on several settings, or on the machine. */
static bool
complete(Config *config, ConfigAction action)
{
	if (config->pepper_add && action != CONFIG_MAKE_PEPPER)
	{
		fprintf(stderr, "mortar-gateway: --add belongs to --make-pepper\n");
		return false;
	}
	if (config->threads == 0)
	{
		long cores = sysconf(_SC_NPROCESSORS_ONLN);

		config->threads = cores < 1 ? 1 : cores > 256 ? 256 : cores;
	}
	if (config->ops_port < 0)
		config->ops_port = config->port == 0 ? 0 : config->port + 1;
	if (config->ops_port > 65535)
	{
		fprintf(stderr, "mortar-gateway: there is no port after 65535 for "
						"/live and /ready, set --ops-port\n");
		return false;
	}
	return true;
}

ConfigAction
config_read(Config *config, int argc, char **argv)
{
	ConfigAction action = CONFIG_SERVE;

	set_defaults(config);
	if (!read_environment(config))
		return CONFIG_INVALID;
	for (int at = 1; at < argc; at++)
	{
		const char    *flag = argv[at];
		const char    *value = NULL;
		const Setting *setting = NULL;

		if (read_action(config, &action, argv, &at))
		{
			if (action == CONFIG_EXIT)
				return action;
			continue;
		}
		if (strncmp(flag, "--", 2) == 0)
			setting = find_setting(flag + 2, argv, &at, &value);
		if (setting == NULL || value == NULL)
		{
			bool known = setting != NULL || strcmp(flag, "--make-pepper") == 0;

			fprintf(stderr, "mortar-gateway: %s \"%s\" (try --help)\n",
					known ? "no value after" : "unknown argument", flag);
			return CONFIG_INVALID;
		}
		if (!store(config, setting, flag, value))
			return CONFIG_INVALID;
	}
	return complete(config, action) ? action : CONFIG_INVALID;
}
