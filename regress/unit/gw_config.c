/*
 * gw_config.c - settings from defaults, environment and command line
 *
 * Objections are printed on stderr, where they do not disturb this output.
 */
// SOURCES: gateway/config.c
#include "../../gateway/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "contract.h"

/* Reads up to three arguments. */
static ConfigAction
read_args(Config *config, const char *a, const char *b, const char *c)
{
	char *argv[] = {(char *) "mortar-gateway", (char *) a, (char *) b,
					(char *) c, NULL};
	int   argc = 1;

	while (argc < 4 && argv[argc] != NULL)
		argc++;
	return config_read(config, argc, argv);
}

static void
defaults_are_those_of_the_contract(void **state)
{
	Config config;

	assert_int_equal(read_args(&config, NULL, NULL, NULL), CONFIG_SERVE);
	assert_string_equal(config.listen_address, "127.0.0.1");
	assert_int_equal(config.port, 8080);
	assert_int_equal(config.ops_port, 8081);
	assert_int_equal(config.max_uri_bytes, MORTAR_MAX_URI);
	assert_int_equal(config.max_head_bytes, MORTAR_MAX_HEAD);
	assert_int_equal(config.max_body_bytes, MORTAR_MAX_BODY);
	assert_true(config.threads >= 1);
	assert_null(config.database);
	assert_null(config.access_log);
}

static void
units_are_understood(void **state)
{
	Config config;

	read_args(&config, "--queue-timeout=1500", "--max-body", "2M");
	assert_int_equal(config.queue_timeout_ms, 1500);
	assert_int_equal(config.max_body_bytes, 2 * 1024 * 1024);
	read_args(&config, "--queue-timeout=1500ms", "--drain-timeout", "0");
	assert_int_equal(config.queue_timeout_ms, 1500);
	assert_int_equal(config.drain_timeout_ms, 0);
	read_args(&config, "--queue-timeout=3s", "--call-timeout", "2min");
	assert_int_equal(config.queue_timeout_ms, 3000);
	assert_int_equal(config.call_timeout_ms, 120000);
	read_args(&config, "--max-uri=8k", NULL, NULL);
	assert_int_equal(config.max_uri_bytes, 8192);
}

static void
the_command_line_wins_over_the_environment(void **state)
{
	Config config;

	assert_int_equal(setenv("MORTAR_QUEUE_TIMEOUT", "7s", 1), 0);
	assert_int_equal(setenv("MORTAR_PORT", "9000", 1), 0);
	assert_int_equal(setenv("MORTAR_DEPTH", "", 1), 0);
	read_args(&config, "--port", "9001", NULL);
	assert_int_equal(config.queue_timeout_ms, 7000);
	assert_int_equal(config.port, 9001);
	assert_int_equal(config.depth, 16);
	assert_int_equal(setenv("MORTAR_PORT", "x", 1), 0);
	assert_int_equal(read_args(&config, NULL, NULL, NULL), CONFIG_INVALID);
	unsetenv("MORTAR_QUEUE_TIMEOUT");
	unsetenv("MORTAR_PORT");
	unsetenv("MORTAR_DEPTH");
}

static void
limits_hold_at_below_and_above(void **state)
{
	static const struct
	{
		const char  *argument;
		ConfigAction expected;
	} cases[] = {
		{"--port=0", CONFIG_SERVE},
		{"--port=65534", CONFIG_SERVE},
		{"--port=65536", CONFIG_INVALID},
		{"--port=-1", CONFIG_INVALID},
		{"--port=65535", CONFIG_INVALID}, /* no port after it for ops */
		{"--depth=1", CONFIG_SERVE},
		{"--depth=0", CONFIG_INVALID},
		{"--depth=1024", CONFIG_SERVE},
		{"--depth=1025", CONFIG_INVALID},
		{"--queue=0", CONFIG_SERVE},
		{"--threads=256", CONFIG_SERVE},
		{"--threads=257", CONFIG_INVALID},
		{"--max-body=64M", CONFIG_SERVE},
		{"--max-body=65M", CONFIG_INVALID},
		{"--max-body=99999999999999999999", CONFIG_INVALID},
		{"--depth=1k", CONFIG_INVALID},
		{"--depth=", CONFIG_INVALID},
		{"--depth=1x", CONFIG_INVALID},
		{"--queue-timeout=0", CONFIG_INVALID},
		{"--queue-timeout=1M", CONFIG_INVALID},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		Config config;

		if (read_args(&config, cases[i].argument, NULL, NULL) !=
			cases[i].expected)
			fail_msg("%s", cases[i].argument);
	}
}

static void
odd_arguments_are_refused(void **state)
{
	Config config;

	assert_int_equal(read_args(&config, "--nonsense", NULL, NULL),
					 CONFIG_INVALID);
	assert_int_equal(read_args(&config, "serve", NULL, NULL), CONFIG_INVALID);
	assert_int_equal(read_args(&config, "--port", NULL, NULL), CONFIG_INVALID);
	assert_int_equal(read_args(&config, "--por", "1", NULL), CONFIG_INVALID);
	assert_int_equal(read_args(&config, "--make-pepper", NULL, NULL),
					 CONFIG_INVALID);
	assert_int_equal(read_args(&config, "--add", NULL, NULL), CONFIG_INVALID);
}

static void
actions_are_told_apart(void **state)
{
	Config config;

	assert_int_equal(read_args(&config, "--check", NULL, NULL), CONFIG_CHECK);
	assert_int_equal(read_args(&config, "--make-pepper", "/a", "--add"),
					 CONFIG_MAKE_PEPPER);
	assert_string_equal(config.pepper_path, "/a");
	assert_true(config.pepper_add);
	assert_int_equal(read_args(&config, "--make-pepper=/b", NULL, NULL),
					 CONFIG_MAKE_PEPPER);
	assert_string_equal(config.pepper_path, "/b");
	assert_int_equal(read_args(&config, "--make-pepper=", NULL, NULL),
					 CONFIG_INVALID);
	assert_int_equal(read_args(&config, "--make-peppers", "/a", NULL),
					 CONFIG_INVALID);
}

static void
any_free_port_means_any_free_ops_port(void **state)
{
	Config config;

	read_args(&config, "--port=0", NULL, NULL);
	assert_int_equal(config.ops_port, 0);
	read_args(&config, "--port=65535", "--ops-port=1", NULL);
	assert_int_equal(config.ops_port, 1);
}

static void
clients_fit_the_descriptors(void **state)
{
	Config config = {.threads = 2, .connections = 3, .max_connections = 1000};

	/* 2 threads of 3 + 2 * 3 descriptors, and 80 */
	assert_int_equal(config_clients_max(&config, 2000), 1000);
	assert_int_equal(config_clients_max(&config, 1098), 1000);
	assert_int_equal(config_clients_max(&config, 1097), 999);
	assert_int_equal(config_clients_max(&config, 101), 3);
	assert_int_equal(config_clients_max(&config, 99), 2);
	assert_int_equal(config_clients_max(&config, 0), 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_those_of_the_contract),
		cmocka_unit_test(units_are_understood),
		cmocka_unit_test(the_command_line_wins_over_the_environment),
		cmocka_unit_test(limits_hold_at_below_and_above),
		cmocka_unit_test(odd_arguments_are_refused),
		cmocka_unit_test(actions_are_told_apart),
		cmocka_unit_test(any_free_port_means_any_free_ops_port),
		cmocka_unit_test(clients_fit_the_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
