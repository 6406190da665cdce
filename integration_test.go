// Package postgresids_test is the proof, in real PostgreSQL, that the SQL and the
// Go of this project agree and keep their promises.
package postgresids_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(mixURL); url != "" { // a child process of TestMix
		n, err := strconv.ParseInt(os.Getenv(mixFor), 10, 64)
		if err == nil {
			err = mixChild(url, n)
		}
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(pgtest.Run(m))
}

func TestVectors(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var vectors struct {
		IDs []struct {
			Name, Time string
			Floored    string `json:"floored_time"`
			Shard, Seq int
			ID         pgid.ID
		}
		Bounds []struct {
			Name, Time string
			Min, Max   pgid.ID
		}
		Errors []struct {
			Name, Time string
			Shard, Seq *int
			Error      string
		}
	}
	data, err := os.ReadFile("pgid/testdata/vectors.json")
	if err == nil {
		err = json.Unmarshal(data, &vectors)
	}
	if err != nil || len(vectors.IDs) < 20 || len(vectors.Bounds) < 5 || len(vectors.Errors) < 5 {
		t.Fatalf("vectors: %d, %d, %d of them, %v", len(vectors.IDs), len(vectors.Bounds), len(vectors.Errors), err)
	}
	for _, v := range vectors.IDs {
		id := pgtest.Query[pgid.ID](t, db, "SELECT pgid.make_id($1::text::timestamptz, $2, $3)", v.Time, v.Shard, v.Seq)
		if id != v.ID {
			t.Errorf("%s: make_id(%s, %d, %d) = %d, want %d", v.Name, v.Time, v.Shard, v.Seq, id, v.ID)
		}
		var at, at2 time.Time
		var shard, seq, shard2, seq2 int
		err := db.Pool.QueryRow(t.Context(),
			`SELECT d."time", d.shard, d.seq, pgid.id_time($1), pgid.id_shard($1), pgid.id_seq($1) FROM pgid.decode($1) AS d`, v.ID).
			Scan(&at, &shard, &seq, &at2, &shard2, &seq2)
		want, _ := time.Parse(time.RFC3339Nano, v.Floored)
		if err != nil || !at.Equal(want) || shard != v.Shard || seq != v.Seq || !at2.Equal(at) || shard2 != shard || seq2 != seq {
			t.Errorf("%s: decode(%d) = %s, %d, %d and %s, %d, %d, %v; want %s, %d, %d",
				v.Name, v.ID, at, shard, seq, at2, shard2, seq2, err, want, v.Shard, v.Seq)
		}
	}
	for _, v := range vectors.Bounds {
		low := pgtest.Query[pgid.ID](t, db, "SELECT pgid.min_id($1::text::timestamptz)", v.Time)
		high := pgtest.Query[pgid.ID](t, db, "SELECT pgid.max_id($1::text::timestamptz)", v.Time)
		if low != v.Min || high != v.Max {
			t.Errorf("%s: min_id, max_id(%s) = %d, %d, want %d, %d", v.Name, v.Time, low, high, v.Min, v.Max)
		}
	}
	for _, v := range vectors.Errors {
		at, shard, seq := v.Time, 0, 0
		if at == "" {
			at = "2026-06-01T00:00:00Z"
		}
		if v.Shard != nil {
			shard = *v.Shard
		}
		if v.Seq != nil {
			seq = *v.Seq
		}
		var id pgid.ID
		err := db.Pool.QueryRow(t.Context(), "SELECT pgid.make_id($1::text::timestamptz, $2, $3)", at, shard, seq).Scan(&id)
		if pgtest.SQLState(err) != v.Error {
			t.Errorf("%s: make_id(%s, %d, %d) gave %d, %v, want SQLSTATE %s", v.Name, at, shard, seq, id, err, v.Error)
		}
	}
}

// SQL and Go compose, decode and bound alike: on 100,000 random values.
func TestAgreementOnRandomValues(t *testing.T) {
	t.Parallel()
	db, random := pgtest.New(t), pgtest.Seed(t)
	const values = 100_000
	ids := make([]int64, values)
	times := make([]time.Time, values)
	layout := pgid.Layout{}
	for i := range ids {
		ids[i] = int64(random.Uint64())
		micros := random.Int64N(1<<41*1000) - 1<<40*1000
		times[i] = layout.Epoch().Add(time.Duration(micros/1000) * time.Millisecond).Add(time.Duration(micros%1000) * time.Microsecond)
	}
	rows, err := db.Pool.Query(t.Context(), `
		SELECT id, at, d."time", d.shard, d.seq,
		       pgid.make_id(d."time", d.shard, d.seq), pgid.make_id(at, d.shard, d.seq), pgid.min_id(at), pgid.max_id(at)
		  FROM unnest($1::bigint[], $2::timestamptz[]) AS v(id, at), pgid.decode(id) AS d`, ids, times)
	if err != nil {
		t.Fatal(err)
	}
	var (
		id, again, made, low, high pgid.ID
		at                         time.Time
		parts                      pgid.Parts
		n                          int
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &at, &parts.Time, &parts.Shard, &parts.Seq, &again, &made, &low, &high}, func() error {
		n++
		parts.Time = parts.Time.UTC()
		goMade, err1 := layout.Encode(at, parts.Shard, parts.Seq)
		goLow, err2 := layout.Min(at)
		goHigh, err3 := layout.Max(at)
		if layout.Decode(id) != parts || again != id || goMade != made || goLow != low || goHigh != high {
			return fmt.Errorf("id %d at %s: SQL has %+v, %d, %d, %d, %d; Go has %+v, %d, %d, %d (%v)",
				id, at, parts, again, made, low, high, layout.Decode(id), goMade, goLow, goHigh, fmt.Sprint(errors.Join(err1, err2, err3)))
		}
		return nil
	})
	if err != nil || n != values {
		t.Fatalf("after %d values: %v", n, err)
	}
}
