package faults

import (
	"errors"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// recovered checks what a database promises that has forgotten the last IDs of the
// shards 5 and 6: a standby that lacked them, or a restored backup. The ledger has
// them; lost are those of shard 5.
func recovered(t *testing.T, node *pgtest.Node, app *pgtest.Database, ledger *Ledger, lost pgid.Range) {
	t.Helper()
	// With a right clock, it is later now.
	draw(t, ledger.Book("clock right"), app, 6, 500)
	if broken := ledger.Check().Broken(); broken != "" {
		t.Errorf("clock right: %s", broken)
	}

	// With one that reads a lost time, it is not; a ledger of its own bears this.
	repeated := NewLedger()
	if err := repeated.Book("lost").enter(Run{lost.First, lost.Last, repeated.Now(), repeated.Now(), Strict}); err != nil {
		t.Fatal(err)
	}
	node.SetClock(t, time.Until(lost.First.Time())+100*time.Millisecond)
	draw(t, repeated.Book("clock behind"), app, 5, 5)
	if repeated.Check().Twice == 0 {
		t.Error("no ID came again with the clock behind: this test does not set it into the lost time")
	}

	// Advanced past the largest ID that anybody knows, the shard refuses or waits.
	node.SetClock(t, time.Until(lost.First.Time())-time.Minute)
	app.Exec(t, "SELECT pgid.advance_shard(5, $1)", lost.Last)
	if _, err := pgid.NewClient(app.Pool).NextID(t.Context(), 5); !errors.Is(err, pgid.ErrClockBehind) {
		t.Errorf("clock behind by a minute: %v, want ID001", err)
	}
	node.SetClock(t, time.Until(lost.Last.Time())-500*time.Millisecond)
	draw(t, ledger.Book("advanced"), app, 5, 500)
	node.SetClock(t, 0)
	draw(t, ledger.Book("advanced, clock right"), app, 5, 500)
	kept(t, ledger, app)
}

// A lease as it was granted.
type lease struct {
	shard             pgid.Shard
	fence, from, till int64
}

func acquire(t *testing.T, db *pgtest.Database) (l lease) {
	t.Helper()
	err := db.Pool.QueryRow(t.Context(), "SELECT shard, fence, from_tick, until_tick FROM pgid.acquire_lease('workers', 'me', 60000)").
		Scan(&l.shard, &l.fence, &l.from, &l.till)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// lostLeases checks what becomes of two leases that the database has forgotten while
// their holders live. A lease's window reaches into the future, so that even with a
// right clock it is granted again, under the same fence. Hence the leased shards are
// advanced past the last window that may have been granted, and the fences too.
func lostLeases(t *testing.T, db *pgtest.Database, held []lease) {
	t.Helper()
	again := acquire(t, db)
	if again.shard != held[0].shard || again.from >= held[0].till || again.fence != held[0].fence {
		t.Errorf("the forgotten lease %+v was not granted again, but %+v: this test shows nothing", held[0], again)
	}
	db.Exec(t, "SELECT pgid.advance_shard(shard, pgid.max_id(clock_timestamp() + interval '60 s')) FROM pgid.lease")
	db.Exec(t, "SELECT setval('pgid.lease_fence', nextval('pgid.lease_fence') + 1000000)")
	var from, till int64
	err := db.Pool.QueryRow(t.Context(), "SELECT from_tick, until_tick FROM pgid.acquire_lease('workers', 'me', 60000)").Scan(&from, &till)
	if pgtest.SQLState(err) != "ID006" {
		t.Errorf("before the forgotten window is over, the lease is granted from tick %d to %d: %v, want ID006", from, till, err)
	}
	pgtest.RequireNoLocks(t, db.URL)
}
