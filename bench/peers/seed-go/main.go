// seed-go is a peer of the benchmarks: the service that Mortar replaces.
//
// It answers GET /v1/{tenant}/db/tables and POST /v1/{tenant}/db/rows/{table} the way a careful Go team builds it,
// with net/http, a pgx connection pool and one SQL statement per step:
//
//	1 rateLimit    in-memory counter per client                (ratelimit.go)
//	2 authenticate parse, look the key up by prefix, HMAC       (auth.go)
//	3 matchTenant  the key's tenant is the path's tenant        (auth.go)
//	4 meterEgress  count the response's body bytes              (meter.go)
//	5 endUser      nothing to do without an end-user token      (auth.go)
//	6 creditGate   project lookup, then balance from the ledger (credit.go)
//	7 listTables   BEGIN, SET LOCAL, SELECT under RLS, COMMIT   (tables.go)
//	  insertRow    the same with a look at the table and INSERT (rows.go)
//	8 record       noop, sync or buffered                       (meter.go)
//
// It is meant to be beaten fairly: statements are prepared once per connection
// (pgx's statement cache), the pool is warm, nothing is logged per request,
// there is no ORM and no router. What it does not do is merge the steps into
// fewer statements, because that is the design it stands for.
//
// Locking: every request runs in its own goroutine. Shared are the pool (safe
// by itself), the rate limiter and the egress buffer (each with its own mutex).
package main

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/jackc/pgx/v4/pgxpool"
)

type config struct {
	listen  string
	egress  string
	conns   int
	gogc    int
	rateMax int64
	pepper  []byte
}

func parseConfig() (config, error) {
	var c config

	flag.StringVar(&c.listen, "listen", "127.0.0.1:0", "address to serve on")
	flag.StringVar(&c.egress, "egress", "buffered", "noop, sync or buffered")
	flag.IntVar(&c.conns, "conns", 20, "PostgreSQL connections in the pool")
	flag.IntVar(&c.gogc, "gogc", 400, "garbage collector target, percent")
	flag.Int64Var(&c.rateMax, "rate", 1<<40, "requests per client and minute")
	flag.Parse()
	pepper, err := hex.DecodeString(os.Getenv("SEED_PEPPER"))
	if err != nil || len(pepper) < 16 {
		return c, errors.New("SEED_PEPPER must hold at least 32 hex digits")
	}
	c.pepper = pepper
	if c.conns < 1 || c.conns > 1000 {
		return c, errors.New("-conns must be between 1 and 1000")
	}
	return c, nil
}

// connect opens the pool and all its connections, so that no request pays for
// one. The address comes from the PG* variables, as with psql.
func connect(ctx context.Context, conns int) (*pgxpool.Pool, error) {
	pc, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	pc.MaxConns = int32(conns)
	pc.MinConns = int32(conns)
	pc.MaxConnIdleTime = time.Hour
	// pgx closes the connection of a query whose client went away: open a new
	// one soon, not when the next request needs it
	pc.HealthCheckPeriod = 500 * time.Millisecond
	pool, err := pgxpool.ConnectConfig(ctx, pc)
	if err != nil {
		return nil, err
	}
	return pool, pool.Ping(ctx)
}

func run() error {
	c, err := parseConfig()
	if err != nil {
		return err
	}
	debug.SetGCPercent(c.gogc)

	ctx, stop := signal.NotifyContext(context.Background(),
		syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	pool, err := connect(ctx, c.conns)
	if err != nil {
		return err
	}
	defer pool.Close()

	credits := &creditStore{pool: pool}
	meter, err := newMeter(c.egress, credits)
	if err != nil {
		return err
	}
	meter.start()

	handler := rateLimit(newLimiter(c.rateMax, time.Minute),
		authenticate(&keyStore{pool: pool, pepper: c.pepper},
			matchTenant(
				meterEgress(meter,
					endUser(
						creditGate(credits,
							&tableHandler{pool: pool}))))))

	ln, err := net.Listen("tcp", c.listen)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	fmt.Printf("seed-go: http://%s, egress %s, %d connections\n",
		ln.Addr(), c.egress, c.conns)

	select {
	case err = <-failed:
		meter.stop()
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = srv.Shutdown(drain)
	meter.stop()
	return err
}

func main() {
	if err := run(); err != nil {
		log.Fatalf("seed-go: %v", err)
	}
}
