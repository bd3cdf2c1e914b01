/*
 * hello.c
 *		Says who we are, and turns every way of not being welcome into one
 *		sentence for the operator.
 *
 * The call carries the contract number.  The extension answers with its
 * settings, or with the sentence that says which side to upgrade; that sentence
 * is printed as it is.  What can go wrong before the extension has a word (no
 * server, no right, no extension) is worded here, by SQLSTATE.
 *
 * Used by each thread for its own connections and, before threads start, by
 * main; nothing is shared.
 */
#include "hello.h"

#include <stdio.h>
#include <string.h>

#include "bind.h"
#include "call.h"
#include "contract.h"
#include "text.h"

#define PARAM_ENUM(name, sql, type, oid) HELLO_PARAM_##name,
#define PARAM_OID(name, sql, type, oid) oid,
#define COLUMN_ENUM(name, sql, type, oid) HELLO_COLUMN_##name,

enum
{
	MORTAR_HELLO_PARAMS(PARAM_ENUM) HELLO_PARAM_TOTAL
};

enum
{
	MORTAR_HELLO_COLUMNS(COLUMN_ENUM) HELLO_COLUMN_TOTAL
};

static const Oid param_types[] = {MORTAR_HELLO_PARAMS(PARAM_OID)};

/* The arguments of the call, the same on every connection. */
typedef struct HelloParams
{
	char        contract[4];
	const char *values[HELLO_PARAM_TOTAL];
	int         lengths[HELLO_PARAM_TOTAL];
	int         formats[HELLO_PARAM_TOTAL];
} HelloParams;

static void
fill_params(HelloParams *params)
{
	bind_put_int32(params->contract, MORTAR_CONTRACT);
	params->values[HELLO_PARAM_CONTRACT] = params->contract;
	params->lengths[HELLO_PARAM_CONTRACT] = sizeof(params->contract);
	params->values[HELLO_PARAM_VERSION] = MORTAR_VERSION;
	params->lengths[HELLO_PARAM_VERSION] = (int) strlen(MORTAR_VERSION);
	for (int i = 0; i < HELLO_PARAM_TOTAL; i++)
		params->formats[i] = 1;
}

void
hello_connect_params(HelloConnect *connect, const Config *config)
{
	int at = 0;

	/* a conninfo comes first, so that what we need ourselves wins over it */
	if (config->database != NULL)
	{
		connect->keywords[at] = "dbname";
		connect->values[at++] = config->database;
	}
	connect->keywords[at] = "fallback_application_name";
	connect->values[at++] = "mortar-gateway";
	connect->keywords[at] = "client_encoding";
	connect->values[at++] = "UTF8";
	connect->keywords[at] = "connect_timeout";
	snprintf(connect->timeout, sizeof(connect->timeout), "%lld",
			 (long long) (config->connect_timeout_ms + 999) / 1000);
	connect->values[at++] = connect->timeout;
	connect->keywords[at] = NULL;
	connect->values[at] = NULL;
}

bool
hello_send(PGconn *pg)
{
	HelloParams params;

	fill_params(&params);
	return PQsendQueryParams(pg, MORTAR_HELLO_SQL, HELLO_PARAM_TOTAL,
							 param_types, params.values, params.lengths,
							 params.formats, 1) == 1;
}

void
hello_explain(const PGresult *result, char sentence[HELLO_SENTENCE_MAX])
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	if (state == NULL)
		state = "none";
	/* an error that libpq made has no fields */
	if (message == NULL)
		message = PQresultErrorMessage(result);
	if (strcmp(state, "3F000") == 0 || strcmp(state, "42883") == 0)
		snprintf(sentence, HELLO_SENTENCE_MAX,
				 "the database has no mortar extension, or not all of it (%s): "
				 "run CREATE EXTENSION mortar in it",
				 message);
	else if (strcmp(state, "42501") == 0)
		snprintf(sentence, HELLO_SENTENCE_MAX,
				 "the role may not serve as a gateway (%s): GRANT "
				 "mortar_gateway to it",
				 message);
	else
		snprintf(sentence, HELLO_SENTENCE_MAX,
				 "the database cannot serve this gateway: %s (SQLSTATE %s)",
				 message, state);
}

static void
copy_name(char name[HELLO_NAME_MAX], Slice value)
{
	size_t len = value.len < HELLO_NAME_MAX ? value.len : HELLO_NAME_MAX - 1;

	if (len > 0)
		memcpy(name, value.base, len);
	name[len] = '\0';
}

static void
read_settings(Slice array, HelloFacts *facts)
{
	ArrayReader reader;
	Slice       name;
	Slice       value;

	if (!bind_array_open(&reader, array))
		return;
	while (reader.left >= 2 && bind_array_next(&reader, &name) &&
		   bind_array_next(&reader, &value))
	{
		if (slice_equal(name, SLICE_LITERAL(MORTAR_SETTING_VERSION)))
			copy_name(facts->version, value);
		else if (slice_equal(name, SLICE_LITERAL(MORTAR_SETTING_SERVER)))
			copy_name(facts->server, value);
		else if (slice_equal(name, SLICE_LITERAL(MORTAR_SETTING_DATABASE)))
			copy_name(facts->database, value);
	}
}

bool
hello_read(const PGresult *result, HelloFacts *facts,
		   char sentence[HELLO_SENTENCE_MAX])
{
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
	{
		hello_explain(result, sentence);
		return false;
	}
	if (PQntuples(result) != 1 || PQnfields(result) != HELLO_COLUMN_TOTAL)
	{
		snprintf(sentence, HELLO_SENTENCE_MAX,
				 "gateway_hello gave no row of this gateway's contract");
		return false;
	}
	if (!PQgetisnull(result, 0, HELLO_COLUMN_REFUSAL))
	{
		snprintf(sentence, HELLO_SENTENCE_MAX, "%.*s",
				 PQgetlength(result, 0, HELLO_COLUMN_REFUSAL),
				 PQgetvalue(result, 0, HELLO_COLUMN_REFUSAL));
		return false;
	}
	if (facts != NULL)
		read_settings(
			(Slice){PQgetvalue(result, 0, HELLO_COLUMN_SETTINGS),
					(size_t) PQgetlength(result, 0, HELLO_COLUMN_SETTINGS)},
			facts);
	return true;
}

/* The part of the probe that needs an open connection. */
static bool
probe_connected(PGconn *pg, HelloFacts *facts,
				char sentence[HELLO_SENTENCE_MAX])
{
	HelloParams params;
	PGresult   *result;
	bool        welcome;

	fill_params(&params);
	result = PQexecParams(pg, MORTAR_HELLO_SQL, HELLO_PARAM_TOTAL, param_types,
						  params.values, params.lengths, params.formats, 1);
	welcome = hello_read(result, facts, sentence);
	PQclear(result);
	if (!welcome)
		return false;

	result =
		PQprepare(pg, "", call_statement, call_param_count, call_param_types);
	welcome = PQresultStatus(result) == PGRES_COMMAND_OK;
	if (!welcome)
		hello_explain(result, sentence);
	PQclear(result);
	return welcome;
}

/*
 * libpq's objection to a connection string quotes it, with the password that may
 * be in it, and what this program says ends in logs.
 */
static bool
is_conninfo_sound(const char *database)
{
	PQconninfoOption *options;

	/* anything else is a database's name */
	if (database == NULL || (strchr(database, '=') == NULL &&
							 strncmp(database, "postgres://", 11) != 0 &&
							 strncmp(database, "postgresql://", 13) != 0))
		return true;
	options = PQconninfoParse(database, NULL);
	PQconninfoFree(options);
	return options != NULL;
}

bool
hello_probe(const Config *config, HelloFacts *facts,
			char sentence[HELLO_SENTENCE_MAX])
{
	HelloConnect connect;
	PGconn      *pg;
	bool         welcome;

	*facts = (HelloFacts){"unknown", "unknown", "unknown"};
	if (!is_conninfo_sound(config->database))
	{
		snprintf(sentence, HELLO_SENTENCE_MAX,
				 "the connection string of --database or MORTAR_DATABASE is "
				 "malformed (it may hold a password and is not shown)");
		return false;
	}
	hello_connect_params(&connect, config);
	pg = PQconnectdbParams(connect.keywords, connect.values, 1);
	if (pg == NULL || PQstatus(pg) != CONNECTION_OK)
	{
		snprintf(sentence, HELLO_SENTENCE_MAX, "%s",
				 pg == NULL ? "out of memory" : PQerrorMessage(pg));
		welcome = false;
	}
	else
		welcome = probe_connected(pg, facts, sentence);
	PQfinish(pg);
	return welcome;
}
