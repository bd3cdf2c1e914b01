// Step 6, and the ledger that steps 6 and 8 share.
//
// Amounts are nano-credits. The balance is the newest snapshot of a tenant plus
// the ledger rows that the snapshot does not cover. A snapshot covers the rows
// of every transaction below its horizon, the oldest transaction still running
// when it was made, so a row is counted exactly once however commits interleave.
// The service folds the ledger into snapshots every second: without that the
// gate would slow down with each row that synchronous metering adds.
package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v4"
	"github.com/jackc/pgx/v4/pgxpool"
)

// 0.3 credits for 10^9 bytes
const (
	priceNum = 3
	pricePer = 10
)

type creditStore struct {
	pool *pgxpool.Pool
}

func (c *creditStore) active(ctx context.Context, tenant string) (bool, error) {
	var status string
	err := c.pool.QueryRow(ctx,
		`SELECT status FROM seed.app_projects WHERE tenant_id = $1`, tenant).
		Scan(&status)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return status == "active", err
}

func (c *creditStore) balance(ctx context.Context, tenant string) (int64, error) {
	var nanos int64
	err := c.pool.QueryRow(ctx,
		`SELECT s.balance_nc + coalesce((SELECT sum(l.amount_nc)::bigint
		          FROM seed.credit_ledger l
		         WHERE l.tenant_id = $1 AND l.xid >= s.horizon), 0)
		   FROM seed.credit_snapshots s WHERE s.tenant_id = $1`, tenant).
		Scan(&nanos)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return nanos, err
}

// spend books usage of one or more responses as one ledger row.
func (c *creditStore) spend(ctx context.Context, tenant string, requests, bytes int64) error {
	_, err := c.pool.Exec(ctx,
		`INSERT INTO seed.credit_ledger
		        (tenant_id, kind, requests, egress_bytes, amount_nc)
		 VALUES ($1, 'egress', $2, $3, $4)`,
		tenant, requests, bytes, -bytes*priceNum/pricePer)
	return err
}

// fold moves the snapshots forward to now.
func (c *creditStore) fold(ctx context.Context) error {
	_, err := c.pool.Exec(ctx,
		`WITH h AS (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS horizon)
		 UPDATE seed.credit_snapshots s
		    SET balance_nc = s.balance_nc + coalesce((
		            SELECT sum(l.amount_nc)::bigint FROM seed.credit_ledger l
		             WHERE l.tenant_id = s.tenant_id
		               AND l.xid >= s.horizon AND l.xid < h.horizon), 0),
		        horizon = h.horizon
		   FROM h WHERE h.horizon > s.horizon
		    AND EXISTS (SELECT FROM seed.credit_ledger l
		                 WHERE l.tenant_id = s.tenant_id
		                   AND l.xid >= s.horizon AND l.xid < h.horizon)`)
	return err
}

func creditGate(credits *creditStore, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenant := tenantOf(r.Context())
		active, err := credits.active(r.Context(), tenant)
		if err != nil {
			fail(w, r, "project", err)
			return
		}
		if !active {
			refuse(w, http.StatusForbidden, "suspended")
			return
		}
		nanos, err := credits.balance(r.Context(), tenant)
		if err != nil {
			fail(w, r, "balance", err)
			return
		}
		if nanos <= 0 {
			refuse(w, http.StatusPaymentRequired, "insufficient_credit")
			return
		}
		next.ServeHTTP(w, r)
	})
}
