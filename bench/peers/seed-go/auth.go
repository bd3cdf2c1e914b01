// Steps 2, 3 and 5: who is calling, and may they touch this path.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v4"
	"github.com/jackc/pgx/v4/pgxpool"
)

const keyMark = "seed_sk_"

var errNoKey = errors.New("no such key")

type ctxKey int

const tenantKey ctxKey = 0

// tenantOf returns the tenant that authenticate proved.
func tenantOf(ctx context.Context) string {
	tenant, _ := ctx.Value(tenantKey).(string)
	return tenant
}

type keyStore struct {
	pool   *pgxpool.Pool
	pepper []byte
}

// verify returns the tenant of a key "seed_sk_<prefix>_<secret>". The table
// holds HMAC-SHA256(pepper, secret) only.
func (k *keyStore) verify(ctx context.Context, key string) (string, error) {
	prefix, secret, ok := strings.Cut(strings.TrimPrefix(key, keyMark), "_")
	if !strings.HasPrefix(key, keyMark) || !ok || len(secret) < 32 {
		return "", errNoKey
	}
	mac := hmac.New(sha256.New, k.pepper)
	mac.Write([]byte(secret))
	sum := mac.Sum(nil)

	var tenant string
	var hash []byte
	var revoked, expires *time.Time
	err := k.pool.QueryRow(ctx,
		`SELECT tenant_id, key_hash, revoked_at, expires_at
		   FROM seed.app_keys WHERE prefix = $1`, prefix).
		Scan(&tenant, &hash, &revoked, &expires)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", errNoKey
	}
	if err != nil {
		return "", err
	}
	if !hmac.Equal(hash, sum) || revoked != nil ||
		(expires != nil && expires.Before(time.Now())) {
		return "", errNoKey
	}
	return tenant, nil
}

func authenticate(keys *keyStore, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("apikey")
		if key == "" {
			key = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		}
		tenant, err := keys.verify(r.Context(), key)
		if errors.Is(err, errNoKey) {
			refuse(w, http.StatusUnauthorized, "invalid_key")
			return
		}
		if err != nil {
			fail(w, r, "authenticate", err)
			return
		}
		next.ServeHTTP(w, r.WithContext(
			context.WithValue(r.Context(), tenantKey, tenant)))
	})
}

// matchTenant compares the key's tenant with the path's: /v1/{tenant}/...
func matchTenant(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ok := strings.HasPrefix(r.URL.Path, "/v1/")
		rest := strings.TrimPrefix(r.URL.Path, "/v1/")
		tenant, _, found := strings.Cut(rest, "/")
		if !ok || !found {
			refuse(w, http.StatusNotFound, "not_found")
			return
		}
		if tenant != tenantOf(r.Context()) {
			refuse(w, http.StatusForbidden, "tenant_mismatch")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// endUser would verify an end user's token; the benchmarks send none.
func endUser(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-End-User-Token") != "" {
			refuse(w, http.StatusNotImplemented, "no_end_users")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuse answers with a problem document.
func refuse(w http.ResponseWriter, status int, code string) {
	body, err := json.Marshal(map[string]interface{}{
		"title": http.StatusText(status), "status": status, "code": code})
	if err != nil {
		body = []byte("{}")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone: nobody is left to tell
}

// fail answers 500 and logs what happened in which step. A client that went
// away before its answer is no failure.
func fail(w http.ResponseWriter, r *http.Request, step string, err error) {
	if r.Context().Err() != nil {
		return
	}
	log.Printf("seed-go: %s: %v", step, err)
	refuse(w, http.StatusInternalServerError, "internal_error")
}
