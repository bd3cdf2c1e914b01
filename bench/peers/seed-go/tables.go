// Step 7: the handler. The tenant is set for the transaction, and row-level
// security filters by it.
package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v4"
	"github.com/jackc/pgx/v4/pgxpool"
)

type table struct {
	Name      string          `json:"name"`
	Kind      string          `json:"kind"`
	CreatedAt time.Time       `json:"created_at"`
	Columns   json.RawMessage `json:"columns"`
}

type tableHandler struct {
	pool *pgxpool.Pool
}

func (h *tableHandler) list(ctx context.Context, tenant string) ([]table, error) {
	tables := make([]table, 0, 16)
	err := h.pool.BeginFunc(ctx, func(tx pgx.Tx) error {
		// SET LOCAL takes no parameter; set_config(..., true) is the same
		if _, err := tx.Exec(ctx,
			`SELECT set_config('seed.tenant_id', $1, true)`, tenant); err != nil {
			return err
		}
		rows, err := tx.Query(ctx,
			`SELECT name, kind, created_at, columns FROM seed.app_tables
			  WHERE tenant_id = $1 ORDER BY name LIMIT 1000`, tenant)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var t table
			err := rows.Scan(&t.Name, &t.Kind, &t.CreatedAt, &t.Columns)
			if err != nil {
				return err
			}
			t.CreatedAt = t.CreatedAt.UTC()
			tables = append(tables, t)
		}
		return rows.Err()
	})
	return tables, err
}

func (h *tableHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tenant := tenantOf(r.Context())
	path := strings.TrimPrefix(r.URL.Path, "/v1/"+tenant)
	if name := strings.TrimPrefix(path, "/db/rows/"); name != path && r.Method == http.MethodPost {
		h.servePost(w, r, tenant, name)
		return
	}
	if path != "/db/tables" {
		refuse(w, http.StatusNotFound, "not_found")
		return
	}
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		refuse(w, http.StatusMethodNotAllowed, "method_not_allowed")
		return
	}
	tables, err := h.list(r.Context(), tenant)
	if err != nil {
		fail(w, r, "list", err)
		return
	}
	body, err := json.Marshal(tables)
	if err != nil {
		fail(w, r, "encode", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client may be gone: nobody is left to tell
}
