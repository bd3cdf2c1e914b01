# Mortar: the extension (built by PGXS), the gateway (plain rules) and the tests.
#
#   make                  extension and gateway
#   make install          put both into this machine's PostgreSQL (DESTDIR works);
#                         make uninstall takes them out again
#   make run              everything from nothing to a served request; Ctrl-C ends it
#   make start / stop     the same in the background;  make clean-run removes its data
#   make test             every check, on a machine where nothing of ours is installed
#   make unit fuzz lint   single parts of it;  make asan: all of it under sanitizers
#   make simulate         credits under a virtual clock, SEED=1 STEPS=1000000
#   make crash-matrix     what each kind of crash loses, as a table
#   make dump-matrix      what each way of dumping and restoring brings back
#   make bench            figures beside their peers, see bench/
#
# PGXS is included only when pg_config exists: run and test must work on a bare
# machine, where they first install the packages that this build needs.

DEBIAN_PG   := /usr/lib/postgresql/15/bin/pg_config
PG_CONFIG   ?= $(if $(wildcard $(DEBIAN_PG)),$(DEBIAN_PG),pg_config)
PGXS        := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
PORT        ?= 8080
export PG_CONFIG PORT

# The last group is known to gcc only.  WERROR=1 is for our own builds: a user's
# newer compiler must not refuse to build over a new warning.
WARN         = -Wall -Wextra -Wno-unused-parameter \
	-Wno-declaration-after-statement -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wold-style-definition -Wwrite-strings -Wformat=2 \
	-Wvla -Wnull-dereference -Werror=implicit-function-declaration
WARN_GCC     = -Wimplicit-fallthrough=5 -Wduplicated-cond -Wlogical-op
C_FLAGS      = -std=gnu11 $(WARN) $(if $(findstring clang,$(CC)),,$(WARN_GCC)) \
	$(if $(WERROR),-Werror)

# AddressSanitizer does not work inside Debian's server, UBSan does.
UBSAN        = $(if $(SANITIZED),-fsanitize=undefined -fno-sanitize-recover=all)
ASAN         = $(if $(SANITIZED),-fsanitize=address -fno-omit-frame-pointer)

# ---- extension -------------------------------------------------------------
EXTENSION    = mortar
MODULE_big   = mortar
OBJS         = $(patsubst %.c,%.o,$(wildcard extension/*.c extension/core/*.c))
DATA         = $(wildcard sql/mortar--*--*.sql)
DATA_built   = sql/mortar--1.0.sql
# PG_CPPFLAGS reaches the clang step that makes bitcode, PG_CFLAGS does not
PG_CPPFLAGS  = -Iextension -Isql $(if $(ASSERTS),-DUSE_ASSERT_CHECKING,-DNDEBUG)
PG_CFLAGS    = $(C_FLAGS) -MMD -MP $(UBSAN)
SHLIB_LINK   = -lcrypto $(UBSAN)
REGRESS      = $(sort $(patsubst regress/sql/%.sql,%,$(wildcard regress/sql/*.sql)))
REGRESS_OPTS = --inputdir=regress --outputdir=regress --load-extension=mortar
ISOLATION    = $(sort $(patsubst regress/specs/%.spec,%,$(wildcard regress/specs/*.spec)))
ISOLATION_OPTS = --inputdir=regress --outputdir=regress --load-extension=mortar
TAP_TESTS    = 1
PROVE_TESTS  = $(sort $(wildcard regress/t/*.pl))
PROVE_FLAGS += -I regress/t
PGTAP_TESTS  = $(sort $(wildcard regress/pgtap/*.sql))
EXTRA_CLEAN  = .build gateway/mortar-gateway gateway/*.o gateway/*.d \
	extension/*.d extension/core/*.d regress/results regress/output_iso \
	regress/regression.diffs regress/regression.out tmp_check

ifneq ($(PGXS),)
include $(PGXS)
else
all install installcheck clean:
	@echo "pg_config is missing: install postgresql-server-dev-15 (regress/install-packages.sh installs all that is needed), or set PG_CONFIG" >&2; exit 1
includedir   = /usr/include/postgresql
endif

# PGXS follows no header: -MMD does for objects, this line for bitcode.  The
# compiler and its flags are a prerequisite too, so that a build with WERROR=1
# checks files that an earlier build without it compiled.
$(OBJS:.o=.bc): $(wildcard extension/*.h extension/core/*.h sql/contract.h)
$(OBJS): .build/flags
-include $(wildcard $(OBJS:.o=.d) gateway/*.d .build/*.d)

.build/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(C_FLAGS) $(PG_CPPFLAGS) $(UBSAN)' | cmp -s - $@ || \
		echo '$(CC) $(C_FLAGS) $(PG_CPPFLAGS) $(UBSAN)' > $@

sql/mortar--1.0.sql: $(sort $(wildcard sql/parts/*.sql))
	cat $^ > $@

# ---- gateway ---------------------------------------------------------------
GATEWAY      = gateway/mortar-gateway
GATEWAY_OBJS = $(patsubst %.c,%.o,$(wildcard gateway/*.c))
GATEWAY_CFLAGS = -O2 -g $(C_FLAGS) -D_GNU_SOURCE -DH2O_USE_LIBUV=0 \
	-D_FORTIFY_SOURCE=2 -fstack-protector-strong -pthread -Igateway -Isql \
	-I$(includedir) $(UBSAN) $(ASAN)
GATEWAY_LIBS = -lh2o-evloop -lssl -lcrypto -lpq -lpthread -lm
gateway_bindir ?= /usr/local/bin

$(GATEWAY_OBJS): gateway/%.o: gateway/%.c .build/flags
	$(CC) $(GATEWAY_CFLAGS) -MMD -MP -c -o $@ $<

$(GATEWAY): $(GATEWAY_OBJS)
	$(CC) -pthread $(UBSAN) $(ASAN) -o $@ $^ $(GATEWAY_LIBS)

ifneq ($(wildcard gateway/*.c),)
all: $(GATEWAY)
install: install-gateway
uninstall: uninstall-gateway
endif

.PHONY: install-gateway uninstall-gateway
install-gateway: $(GATEWAY)
	$(MKDIR_P) '$(DESTDIR)$(gateway_bindir)'
	$(INSTALL_PROGRAM) $(GATEWAY) '$(DESTDIR)$(gateway_bindir)/mortar-gateway'
uninstall-gateway:
	rm -f '$(DESTDIR)$(gateway_bindir)/mortar-gateway'

# ---- unit tests and fuzzers: pure C, under sanitizers ----------------------
# A test names what it is linked with in comment lines of its own:
#   // SOURCES: extension/core/price.c
#   // LIBS: -lcrypto                      (only where needed)
UNIT_TESTS   = $(patsubst regress/unit/%.c,%,$(sort $(wildcard regress/unit/*.c)))
FUZZ_TESTS   = $(patsubst regress/fuzz/%.c,%,$(sort $(wildcard regress/fuzz/fuzz_*.c)))
FUZZ_RUNS   ?= 20000
FUZZ_CC     ?= clang-14
SANITIZE     = -fsanitize=address,undefined -fno-sanitize-recover=all
PURE_CFLAGS  = -O1 -g -fno-omit-frame-pointer -std=gnu11 \
	$(filter-out -Wnull-dereference,$(WARN)) \
	$(if $(WERROR),-Werror) -D_GNU_SOURCE -Iextension -Iextension/core \
	-Igateway -Isql -Iregress/unit
named         = $(shell sed -n 's|.*\b$(2): *||p' $(1))

define unit_rule
.build/$(1): regress/unit/$(1).c $(call named,regress/unit/$(1).c,SOURCES)
	@mkdir -p .build
	$$(CC) $$(PURE_CFLAGS) $$(SANITIZE) -MMD -MP -MF .build/$(1).d -o $$@ $$(filter %.c,$$^) $(call named,regress/unit/$(1).c,LIBS) -lcmocka
endef
$(foreach t,$(UNIT_TESTS),$(eval $(call unit_rule,$(t))))

define fuzz_rule
.build/$(1): regress/fuzz/$(1).c regress/fuzz/fuzz.h $(call named,regress/fuzz/$(1).c,SOURCES)
	@mkdir -p .build
	$$(FUZZ_CC) $$(PURE_CFLAGS) $$(SANITIZE) -fsanitize=fuzzer -o $$@ $$(filter %.c,$$^) $(call named,regress/fuzz/$(1).c,LIBS)
endef
$(foreach t,$(FUZZ_TESTS),$(eval $(call fuzz_rule,$(t))))

# ---- the simulator of credits: the same pure C, a model and a virtual clock ----
SIMULATED    = $(wildcard regress/simulate/*.c) $(wildcard extension/core/purse*.c) \
	extension/core/reserve.c \
	extension/core/price.c extension/core/usage_ring.c
SEED        ?= 1
STEPS       ?= 1000000

.build/simulate .build/simulate-checked: $(SIMULATED) \
		$(wildcard regress/simulate/*.h extension/core/*.h)
	@mkdir -p .build
	$(CC) $(PURE_CFLAGS) -Iregress/simulate $(if $(filter %-checked,$@),$(SANITIZE),-O2) -o $@ $(filter %.c,$^)

.PHONY: unit fuzz lint asan build-unit build-fuzz simulate
simulate: .build/simulate
	@./.build/simulate $(SEED) $(STEPS) $(TRACE)
build-unit: $(addprefix .build/,$(UNIT_TESTS)) .build/simulate-checked
unit: build-unit
	@bash regress/unit.sh $(UNIT_TESTS)
build-fuzz: $(addprefix .build/,$(FUZZ_TESTS))
fuzz: build-fuzz
	@bash regress/fuzz.sh $(FUZZ_RUNS) $(FUZZ_TESTS)
lint:
	@bash regress/lint.sh

# ---- server libraries that only TAP tests load -----------------------------
TEST_MODULES = $(patsubst %.c,%.so,$(wildcard regress/modules/*.c))
EXTRA_CLEAN += $(TEST_MODULES) $(TEST_MODULES:.so=.o) $(TEST_MODULES:.so=.d)

$(TEST_MODULES:.so=.o): .build/flags
$(TEST_MODULES): %.so: %.o
	$(CC) $(CFLAGS) $< $(LDFLAGS) $(LDFLAGS_SL) $(UBSAN) -shared -o $@
check-tap: $(TEST_MODULES)

# ---- parts of make test that need a running server (PGHOST, PGPORT) --------
.PHONY: check-regress check-isolation check-pgtap check-tap
check-regress:
	$(pg_regress_installcheck) $(REGRESS_OPTS) $(REGRESS)
check-isolation:
	$(pg_isolation_regress_installcheck) $(ISOLATION_OPTS) $(ISOLATION)
check-pgtap:
	pg_prove --verbose $(PGTAP_TESTS)
check-tap: PROVE_FLAGS += --verbose
check-tap:
	$(prove_installcheck)

# ---- whole jobs ------------------------------------------------------------
.PHONY: run start stop clean-run test crash-matrix dump-matrix bench FORCE
run start stop clean-run:
	@bash regress/run.sh $@
test:
	@bash regress/test.sh
crash-matrix dump-matrix: %-matrix:
	@MATRIX=long PARTS="build tap" TAP="$(wildcard regress/t/*_$*_matrix.pl)" bash regress/test.sh
asan:
	@SANITIZED=1 bash regress/test.sh
bench:
	@bash bench/run.sh
