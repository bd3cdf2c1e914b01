// Step 7 of an insert: the table is looked up and the row written, as statements
// of their own in a transaction that sets the tenant.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v4"
)

const maxBody = 1 << 20

var errNoTable = errors.New("no such table")

// newID makes a time-ordered UUID (version 7), so that rows arrive at the right
// edge of the index.
func newID(now time.Time) ([16]byte, error) {
	var id [16]byte

	if _, err := rand.Read(id[6:]); err != nil {
		return id, err
	}
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(now.UnixMilli()))
	copy(id[:6], ms[2:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id, nil
}

func (h *tableHandler) insert(ctx context.Context, tenant, name string,
	id [16]byte, now time.Time, doc []byte) error {
	return h.pool.BeginFunc(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx,
			`SELECT set_config('seed.tenant_id', $1, true)`, tenant); err != nil {
			return err
		}
		var found bool
		err := tx.QueryRow(ctx,
			`SELECT EXISTS (SELECT FROM seed.app_tables
			  WHERE tenant_id = $1 AND name = $2)`, tenant, name).Scan(&found)
		if err != nil {
			return err
		}
		if !found {
			return errNoTable
		}
		_, err = tx.Exec(ctx,
			`INSERT INTO seed.app_rows
			        (tenant_id, table_name, row_id, created_at, updated_at, doc)
			 VALUES ($1, $2, $3, $4, $4, $5)`, tenant, name, id, now, string(doc))
		return err
	})
}

// representation is an array of the new row: its id and times, then the
// members that were sent.
func representation(id [16]byte, now time.Time, doc []byte) []byte {
	const form = "2006-01-02T15:04:05.000000Z"
	var out bytes.Buffer

	at := now.Format(form)
	fmt.Fprintf(&out, `[{"id":"%x-%x-%x-%x-%x","created_at":"%s","updated_at":"%s"`,
		id[0:4], id[4:6], id[6:8], id[8:10], id[10:16], at, at)
	if members := bytes.TrimSpace(doc)[1:]; bytes.TrimSpace(members)[0] != '}' {
		out.WriteByte(',')
		out.Write(members)
	} else {
		out.WriteByte('}')
	}
	out.WriteByte(']')
	return out.Bytes()
}

func (h *tableHandler) servePost(w http.ResponseWriter, r *http.Request, tenant, name string) {
	doc, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, "content_too_large")
		return
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(doc, &members); err != nil || members == nil {
		refuse(w, http.StatusUnprocessableEntity, "invalid_document")
		return
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	id, err := newID(now)
	if err != nil {
		fail(w, r, "id", err)
		return
	}
	err = h.insert(r.Context(), tenant, name, id, now, doc)
	if errors.Is(err, errNoTable) {
		refuse(w, http.StatusNotFound, "no_such_table")
		return
	}
	if err != nil {
		fail(w, r, "insert", err)
		return
	}
	body := representation(id, now, doc)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(body) // the client may be gone: nobody is left to tell
}
