# The peers, built with the same compiler and flags as the gateway.
# To be run in the checkout's top directory: make -f bench/bench.mk peers

all:
include Makefile

PEERS        = .build/peers
LIMIT_SQL    = $(filter-out gateway/call.o,$(GATEWAY_OBJS)) $(PEERS)/call_select1.o

.PHONY: peers limit-sql seed-go
peers: limit-sql seed-go
limit-sql: $(PEERS)/limit-sql
seed-go: $(PEERS)/seed-go

$(PEERS)/call_select1.o: bench/peers/limit-sql/call_select1.c .build/flags $(wildcard gateway/*.h)
	@mkdir -p $(@D)
	$(CC) $(GATEWAY_CFLAGS) -c -o $@ $<

$(PEERS)/limit-sql: $(LIMIT_SQL)
	$(CC) -pthread -o $@ $^ $(GATEWAY_LIBS)

# Debian's Go libraries are sources below /usr/share/gocode: no module, no network
$(PEERS)/seed-go: $(wildcard bench/peers/seed-go/*.go)
	@mkdir -p $(@D)
	cd bench/peers/seed-go && GO111MODULE=off GOPATH=/usr/share/gocode \
		GOCACHE='$(abspath $(PEERS))/go-cache' GOFLAGS= go build -o '$(abspath $@)' .

