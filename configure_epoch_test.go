package postgresids_test

import (
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// An epoch that changes is the epoch, also of what a session has planned before: a
// prepared statement, or a shard that was rolled back.
func TestConfiguredEpochReachesPlans(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Connect(t)
	var at, bound time.Time
	var lowest pgid.ID
	read := func() {
		t.Helper()
		err := conn.QueryRow(t.Context(), "SELECT pgid.id_time($1), (SELECT d.time FROM pgid.decode(0) AS d), pgid.min_id('2027-01-01 00:00:00+00')", 0).Scan(&at, &bound, &lowest)
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		read()
	}
	if _, err := conn.Exec(t.Context(), "BEGIN; SELECT pgid.create_shard(5, 0), pgid.next_id(5) FROM generate_series(1, 20), pg_sleep(0.002); SELECT pgid.reserve(5, 3); ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	for _, epoch := range []int64{1288834974657, 1790000000000} { // before the default, and after it
		db.Exec(t, "SELECT pgid.configure(epoch_ms => $1)", epoch)
		read()
		want := time.UnixMilli(epoch)
		if !at.Equal(want) || !bound.Equal(want) || int64(lowest)>>23 != 1798761600000-epoch {
			t.Errorf("with the epoch %s, ID 0 is of %s and of %s, and 2027 begins with %d", want, at, bound, lowest)
		}
		// The shard's first ID comes from a session that has planned everything with another epoch.
		if _, err := conn.Exec(t.Context(), "BEGIN; SELECT pgid.create_shard(5, 0), pg_sleep(0.002)"); err != nil {
			t.Fatal(err)
		}
		for _, sql := range []string{"SELECT pgid.next_id(5)", "SELECT first FROM pgid.reserve(5, 3)"} {
			var id pgid.ID
			if err := conn.QueryRow(t.Context(), sql).Scan(&id); err != nil {
				t.Errorf("epoch %d: %s: %v", epoch, sql, err)
				break
			}
			if d := time.Since(time.UnixMilli(int64(id)>>23 + epoch)).Abs(); d > time.Minute {
				t.Errorf("epoch %d: %s gave an ID %s off", epoch, sql, d)
			}
		}
		if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	}
}

// With an epoch of its own, SQL, a Client and a Generator agree; so does a copy of the
// database.
func TestConfiguredEpoch(t *testing.T) {
	t.Parallel()
	db, copied := pgtest.New(t), pgtest.NewEmpty(t)
	epoch := time.UnixMilli(1288834974657)
	db.Exec(t, "SELECT pgid.configure(60, 600, $1)", epoch.UnixMilli())
	db.Exec(t, "SELECT pgid.create_shard(5)")
	client := pgid.NewClient(db.Pool)
	start := time.Now()
	ids, err := client.NextIDs(t.Context(), 5, 3)
	if err != nil {
		t.Fatal(err)
	}
	single, err := client.NextID(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	s, err := client.Settings(t.Context())
	if err != nil || !s.Layout.Epoch().Equal(epoch) || s.Limits != (pgid.Limits{MaxLead: 60 * time.Millisecond, MaxWait: 600 * time.Millisecond}) {
		t.Fatalf("the client reads %+v, %v", s, err)
	}
	generator, err := pgid.NewGenerator(5, pgid.GeneratorConfig{Layout: s.Layout, Limits: s.Limits})
	if err != nil {
		t.Fatal(err)
	}
	generator.Advance(single)
	generated, err := generator.Next(t.Context())
	if err != nil || generated <= single {
		t.Errorf("the generator gave %d after %d, %v", generated, single, err)
	}
	for _, id := range append(ids, single, generated) {
		parts := s.Layout.Decode(id)
		if d := parts.Time.Sub(start); d < -time.Second || d > 10*time.Second {
			t.Errorf("%d is of %s, drawn at %s", id, parts.Time, start)
		}
		var sql pgid.Parts
		err := db.Pool.QueryRow(t.Context(), `SELECT d."time", d.shard, d.seq FROM pgid.decode($1) AS d`, id).Scan(&sql.Time, &sql.Shard, &sql.Seq)
		if err != nil || !sql.Time.Equal(parts.Time) || sql.Shard != parts.Shard || sql.Seq != parts.Seq {
			t.Errorf("%d: SQL has %+v, Go %+v, %v", id, sql, parts, err)
		}
	}

	out, err := db.Shell(t, `pg_dump --no-owner "`+db.Name+`" | psql -X -q -v ON_ERROR_STOP=1 -d "`+copied.Name+`"`)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	restored := pgid.NewClient(pgtest.Connect(t, copied.SuperURL))
	if again, err := restored.Settings(t.Context()); err != nil || again != s {
		t.Errorf("the copy has %+v, want %+v, %v", again, s, err)
	}
	if id, err := restored.NextID(t.Context(), 5); err != nil || id <= single {
		t.Errorf("the copy issued %d after %d, %v", id, single, err)
	}
}
