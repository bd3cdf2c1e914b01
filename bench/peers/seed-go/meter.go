// Steps 4 and 8: count the bytes of a response and book them.
//
//	noop      count, book nothing
//	sync      one ledger row per response, committed before the answer ends
//	buffered  add to a map; one ledger row per tenant and second
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"sync"
	"time"
)

const flushEvery = time.Second

type usage struct {
	requests, bytes int64
}

// meter books usage. mu guards pending; mode never changes.
type meter struct {
	mode    string
	credits *creditStore
	quit    chan struct{}
	done    sync.WaitGroup

	mu      sync.Mutex
	pending map[string]usage
}

func newMeter(mode string, credits *creditStore) (*meter, error) {
	switch mode {
	case "noop", "sync", "buffered":
	default:
		return nil, fmt.Errorf("-egress %q: noop, sync or buffered", mode)
	}
	return &meter{mode: mode, credits: credits, quit: make(chan struct{}),
		pending: map[string]usage{}}, nil
}

// record is called once per response, after its body is known.
func (m *meter) record(ctx context.Context, tenant string, bytes int64) error {
	switch m.mode {
	case "sync":
		return m.credits.spend(ctx, tenant, 1, bytes)
	case "buffered":
		m.add(tenant, usage{1, bytes})
	}
	return nil
}

func (m *meter) add(tenant string, u usage) {
	m.mu.Lock()
	p := m.pending[tenant]
	m.pending[tenant] = usage{p.requests + u.requests, p.bytes + u.bytes}
	m.mu.Unlock()
}

// flush books what is pending; what cannot be booked stays pending.
func (m *meter) flush(ctx context.Context) {
	m.mu.Lock()
	batch := m.pending
	m.pending = make(map[string]usage, len(batch))
	m.mu.Unlock()
	for tenant, u := range batch {
		if err := m.credits.spend(ctx, tenant, u.requests, u.bytes); err != nil {
			log.Printf("seed-go: flush: %v", err)
			m.add(tenant, u)
		}
	}
	if m.mode != "noop" {
		if err := m.credits.fold(ctx); err != nil {
			log.Printf("seed-go: fold: %v", err)
		}
	}
}

func (m *meter) start() {
	m.done.Add(1)
	go func() {
		defer m.done.Done()
		tick := time.NewTicker(flushEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				m.flush(context.Background())
			case <-m.quit:
				m.flush(context.Background())
				return
			}
		}
	}()
}

// stop flushes a last time; call it when no request is in flight any more.
func (m *meter) stop() {
	close(m.quit)
	m.done.Wait()
}

// countingWriter counts the body bytes that pass through it.
type countingWriter struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (c *countingWriter) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.bytes += int64(n)
	return n, err
}

func meterEgress(m *meter, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cw := &countingWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(cw, r)
		if cw.status >= 300 || cw.bytes == 0 {
			return
		}
		if err := m.record(context.Background(), tenantOf(r.Context()), cw.bytes); err != nil {
			log.Printf("seed-go: record: %v", err)
		}
	})
}
