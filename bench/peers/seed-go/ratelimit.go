// Step 1: a fixed-window counter per client, in memory.
package main

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// limiter counts hits per client and window. mu guards all fields but max and
// window, which never change.
type limiter struct {
	max    int64
	window time.Duration

	mu     sync.Mutex
	began  time.Time
	counts map[string]int64
}

func newLimiter(max int64, window time.Duration) *limiter {
	return &limiter{max: max, window: window, counts: map[string]int64{}}
}

// allow counts one hit and says whether it is within the limit. The whole map
// is dropped when the window ends, so it cannot grow for ever.
func (l *limiter) allow(client string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.began) >= l.window {
		l.began = now
		l.counts = make(map[string]int64, len(l.counts))
	}
	n := l.counts[client] + 1
	l.counts[client] = n
	return n <= l.max
}

func rateLimit(l *limiter, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			client = r.RemoteAddr
		}
		if !l.allow(client, time.Now()) {
			w.Header().Set("Retry-After", "60")
			refuse(w, http.StatusTooManyRequests, "rate_limited")
			return
		}
		next.ServeHTTP(w, r)
	})
}
