package faults

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// A primary that was given up comes back. While both it and its successor take calls,
// they issue the same IDs; no clock helps. What helps is to fence it: retire its shards
// at once, and make it a standby.
func TestReplicaOldPrimary(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	draw(t, p.ledger.Book("before"), p.app, 5, 100)
	p.caughtUp(t)
	p.standby.Promote(t) // although the primary lives
	app := p.standby.Open(t, "app")

	both := NewLedger()
	old, successor := pgid.NewClient(p.app.Pool), pgid.NewClient(app.Pool)
	one, two := both.Book("the old primary"), both.Book("its successor")
	for range 3 {
		for book, client := range map[*Book]*pgid.Client{one: old, two: successor} {
			if err := book.DrawRange(Cached, func() (pgid.Range, error) {
				return client.Reserve(t.Context(), 5, 100000) // a tenth of a second
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if both.Check().Twice == 0 {
		t.Error("two primaries did not repeat each other: this test shows nothing")
	}

	// The old one goes on for longer. Fenced, it stops, for sessions under way too, and
	// says how far it came; its successor goes on from there, whatever its clock says.
	drawDense(t, NewLedger().Book("the old primary"), p.app, 5)
	last := pgtest.Query[pgid.ID](t, p.app, "SELECT pgid.retire_shard(5)")
	if _, err := old.NextID(t.Context(), 5); !errors.Is(err, pgid.ErrShardRetired) {
		t.Errorf("the old primary: %v, want ID003", err)
	}
	p.standby.SetClock(t, time.Until(last.Time())-500*time.Millisecond)
	app.Exec(t, "SELECT pgid.advance_shard(5, $1)", last)
	after := NewLedger()
	if err := after.Book("the old primary").Enter(Strict, after.Now(), last); err != nil {
		t.Fatal(err)
	}
	draw(t, after.Book("its successor"), app, 5, 500)
	p.standby.SetClock(t, 0)

	// And it comes back as a standby of its successor; the retirement is undone with
	// all else that it did alone. (Before PostgreSQL 16, pg_rewind finds nothing to do until
	// its source has written the checkpoint that follows a promotion, at its leisure.)
	p.standby.Exec(t, "CHECKPOINT")
	p.primary.Stop(t)
	p.primary.Shell(t, fmt.Sprintf("pg_rewind --target-pgdata=%s --source-server='host=127.0.0.1 port=%d user=postgres dbname=postgres' --no-sync",
		p.primary.Data, p.standby.Port))
	follow(t, p.primary, p.standby)
	p.app.Pool.Reset()
	if _, err := old.NextID(t.Context(), 5); pgtest.SQLState(err) != "25006" {
		t.Errorf("the old primary, as a standby: %v, want SQLSTATE 25006", err)
	}
	p.standby.Await(t, "SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'")
	p.primary.Stop(t)
	kept(t, after, app)
}
