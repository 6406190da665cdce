package faults

import (
	"context"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// A session takes a shard's lock and sits on it. Calls that need it end with ID005 within
// a bound; those that do not need it, of a shard that is ahead of its clock, and other
// shards do not notice. Once it is gone, all goes on.
func TestLockSitter(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(0, 2)")
	db.Exec(t, "SELECT pgid.create_pool('pool', 3, 3)")
	db.Exec(t, "SELECT pgid.configure(max_lead_ms => 60000)")
	db.Exec(t, "SELECT pgid.reserve(2, 60000000)") // the sitter's other shard: a minute ahead of its clock
	sitter := db.Connect(t)
	if _, err := sitter.Exec(t.Context(), "SELECT pg_advisory_lock(1885825380, n) FROM generate_series(1, 3) AS n"); err != nil {
		t.Fatal(err)
	}

	ledger := NewLedger()
	free := newFleet(t.Context(), db.URL, ledger.Book)
	defer free.stop()
	free.add("other shard", single([]int{0}, Strict))
	free.add("other shard, batches", nextIDs([]int{0}, 100))
	free.add("ahead of its clock", single([]int{2}, Strict))
	from := ledger.Now()
	took := map[string]chan time.Duration{}
	for _, sql := range []string{
		"SELECT pgid.next_id(1)", "SELECT pgid.next_ids(1, 10)", "SELECT pgid.advance_shard(1, pgid.max_id(clock_timestamp()))",
		"SELECT pgid.acquire_lease('pool', 'holder', 1000)",
	} {
		took[sql] = make(chan time.Duration, 1)
		conn := db.Connect(t)
		go func() {
			start := time.Now()
			ctx, stop := context.WithTimeout(context.Background(), time.Minute)
			defer stop()
			_, err := conn.Exec(ctx, sql)
			if sqlstate(err) != "ID005" {
				t.Errorf("%s: %v, want ID005", sql, err)
			}
			took[sql] <- time.Since(start)
		}()
	}
	for sql, took := range took {
		if d := <-took; d < time.Second || d > 30*time.Second {
			t.Errorf("%s: refused after %s", sql, d)
		} else {
			t.Logf("%s: refused after %s", sql, d.Round(time.Millisecond))
		}
	}
	to := ledger.Now()
	free.stop()
	free.allow(t)
	for _, shard := range []pgid.Shard{0, 2} {
		if gap := ledger.Gap(from, to, shard); gap > 4*time.Second {
			t.Errorf("shard %d: nobody got an ID for %s", shard, gap)
		}
	}
	if c := counters(t, db); c.busy != 4 {
		t.Errorf("%d busy calls were counted, want 4", c.busy)
	}
	_ = sitter.Close(t.Context())
	for shard := range 3 {
		pgtest.Query[pgid.ID](t, db, "SELECT pgid.next_id($1)", shard)
	}
	db.Exec(t, "SELECT pgid.acquire_lease('pool', 'holder', 1000)")
	requireKept(t, ledger, 100)
	pgtest.RequireNoLocks(t, db.URL)
}
