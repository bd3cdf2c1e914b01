# The peers, built with the same compiler and flags as the gateway.
# To be run in the checkout's top directory: make -f bench/bench.mk peers

all:
include Makefile

PEERS        = .build/peers
LIMIT_SQL    = $(filter-out gateway/call.o,$(GATEWAY_OBJS)) $(PEERS)/call_select1.o
LIMIT_HTTP   = $(filter-out gateway/request.o,$(GATEWAY_OBJS)) $(PEERS)/request_nothing.o

.PHONY: peers limit-sql limit-http seed-go gate
peers: limit-sql limit-http seed-go
limit-http: $(PEERS)/limit-http
limit-sql: $(PEERS)/limit-sql
seed-go: $(PEERS)/seed-go

$(PEERS)/call_select1.o: bench/peers/limit-sql/call_select1.c .build/flags $(wildcard gateway/*.h)
	@mkdir -p $(@D)
	$(CC) $(GATEWAY_CFLAGS) -c -o $@ $<

$(PEERS)/limit-sql: $(LIMIT_SQL)
	$(CC) -pthread -o $@ $^ $(GATEWAY_LIBS)

$(PEERS)/request_nothing.o: bench/peers/limit-http/request_nothing.c .build/flags $(wildcard gateway/*.h)
	@mkdir -p $(@D)
	$(CC) $(GATEWAY_CFLAGS) -c -o $@ $<

$(PEERS)/limit-http: $(LIMIT_HTTP)
	$(CC) -pthread -o $@ $^ $(GATEWAY_LIBS)

# a server library that calls the extension's functions, see bench/gate
gate: $(PEERS)/bench_gate.so
$(PEERS)/bench_gate.o: bench/gate/bench_gate.c .build/flags $(wildcard extension/*.h)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CPPFLAGS) -c -o $@ $<
$(PEERS)/bench_gate.so: $(PEERS)/bench_gate.o
	$(CC) $(CFLAGS) $< $(LDFLAGS) $(LDFLAGS_SL) -shared -o $@

# Debian's Go libraries are sources below /usr/share/gocode: no module, no network
$(PEERS)/seed-go: $(wildcard bench/peers/seed-go/*.go)
	@mkdir -p $(@D)
	cd bench/peers/seed-go && GO111MODULE=off GOPATH=/usr/share/gocode \
		GOCACHE='$(abspath $(PEERS))/go-cache' GOFLAGS= go build -o '$(abspath $@)' .

