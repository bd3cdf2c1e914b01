/*
 * pepper.c
 *		The pepper: secrets outside the database that API key hashes need.
 *
 * A file of lines "version hex", newest last, mode 0600, made by
 * mortar-gateway --make-pepper.  Each backend reads it when it first needs it,
 * and again after a reload of the configuration.  Keyed HMAC contexts are kept:
 * setting one up costs more than the HMAC itself.
 */
#include "mortar.h"

#include <sys/stat.h>

#include <openssl/evp.h>
#include <openssl/params.h>

#include "storage/fd.h"
#include "utils/guc.h"

#include "auth.h"
#include "core/hex.h"
#include "guc.h"
#include "pepper.h"

#define MAX_PEPPERS 16
#define MIN_BYTES 32
#define MAX_BYTES 64
#define MAX_LINE 256

typedef struct Pepper
{
	int          version;
	EVP_MAC_CTX *ctx;
} Pepper;

static Pepper peppers[MAX_PEPPERS];
static int    npeppers = 0;
static bool   stale = true;

void
mtr_pepper_forget(void)
{
	stale = true;
}

static void
drop_all(void)
{
	for (int i = 0; i < npeppers; i++)
		EVP_MAC_CTX_free(peppers[i].ctx);
	npeppers = 0;
}

static EVP_MAC_CTX *
keyed_context(const uint8 *key, size_t len)
{
	static EVP_MAC *mac = NULL;
	char            digest[] = "SHA256";
	OSSL_PARAM      params[2];
	EVP_MAC_CTX    *ctx;

	if (mac == NULL)
		mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	if (mac == NULL || (ctx = EVP_MAC_CTX_new(mac)) == NULL)
		return NULL;
	params[0] = OSSL_PARAM_construct_utf8_string("digest", digest, 0);
	params[1] = OSSL_PARAM_construct_end();
	if (EVP_MAC_init(ctx, key, len, params) != 1)
	{
		EVP_MAC_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

/* "version hex" without its newline; false when it is neither that nor empty */
static bool
read_line(const char *line, size_t len)
{
	char  *end;
	long   version;
	uint8  key[MAX_BYTES];
	size_t n = 0;

	if (len == 0)
		return true;
	errno = 0;
	version = strtol(line, &end, 10);
	if (errno != 0 || version < 1 || version > PG_INT32_MAX || *end != ' ')
		return false;
	for (end++; end + 1 < line + len; end += 2)
	{
		int hi = mtr_hex_value(end[0]);
		int lo = mtr_hex_value(end[1]);

		if (hi < 0 || lo < 0 || n == sizeof(key))
			return false;
		key[n++] = (uint8) (hi << 4 | lo);
	}
	if (end != line + len || n < MIN_BYTES || npeppers == MAX_PEPPERS)
		return false;
	peppers[npeppers].version = (int) version;
	peppers[npeppers].ctx = keyed_context(key, n);
	explicit_bzero(key, sizeof(key));
	if (peppers[npeppers].ctx == NULL)
		return false;
	npeppers++;
	return true;
}

static void
bad_file(const char *what, int line)
{
	drop_all();
	if (line > 0)
		ereport(WARNING, (errcode(ERRCODE_CONFIG_FILE_ERROR),
						  errmsg("pepper file \"%s\", line %d: %s",
								 mtr_pepper_file, line, what)));
	else
		ereport(WARNING,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("pepper file \"%s\": %s", mtr_pepper_file, what)));
}

static bool
check_mode(FILE *file)
{
	struct stat st;

	if (fstat(fileno(file), &st) != 0)
	{
		bad_file("could not stat it", 0);
		return false;
	}
	if (!S_ISREG(st.st_mode) || (st.st_mode & (S_IRWXG | S_IRWXO)) != 0)
	{
		bad_file("it must be a file that only its owner can read (mode 0600)",
				 0);
		return false;
	}
	return true;
}

static void
read_file(FILE *file)
{
	char line[MAX_LINE];

	for (int n = 1; fgets(line, sizeof(line), file) != NULL; n++)
	{
		size_t len = strcspn(line, "\r\n");
		bool   whole = line[len] != '\0' || feof(file);

		line[len] = '\0';
		if (!whole || !read_line(line, len))
		{
			bad_file("expected \"version hex\" with 32 to 64 bytes", n);
			break;
		}
	}
	explicit_bzero(line, sizeof(line));
	if (ferror(file))
		bad_file("could not read it", 0);
}

static void
load(void)
{
	FILE *file;

	drop_all();
	stale = false;
	if (mtr_pepper_file == NULL || mtr_pepper_file[0] == '\0')
		return;
	file = AllocateFile(mtr_pepper_file, "r");
	if (file == NULL)
	{
		bad_file(strerror(errno), 0);
		return;
	}
	if (check_mode(file))
		read_file(file);
	FreeFile(file);
}

int
mtr_pepper_newest(void)
{
	int newest = 0;

	if (stale)
		load();
	for (int i = 0; i < npeppers; i++)
		newest = Max(newest, peppers[i].version);
	return newest;
}

bool
mtr_pepper_hmac(int version, const char *secret, size_t len, uint8 out[32])
{
	size_t outlen;

	if (stale)
		load();
	for (int i = 0; i < npeppers; i++)
	{
		if (peppers[i].version != version)
			continue;
		/* init without a key starts again with the key it has */
		return EVP_MAC_init(peppers[i].ctx, NULL, 0, NULL) == 1 &&
			   EVP_MAC_update(peppers[i].ctx, (const uint8 *) secret, len) ==
				   1 &&
			   EVP_MAC_final(peppers[i].ctx, out, &outlen, 32) == 1 &&
			   outlen == 32;
	}
	return false;
}
