package postgresids_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// A real server's clock is stepped while it runs.
func TestServerClockSteps(t *testing.T) {
	t.Parallel()
	server := pgtest.NewClockServer(t)
	db := pgtest.NewOn(t, server)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	seen := map[pgid.ID]bool{}
	var last pgid.ID
	next := func(client *pgid.Client) error {
		t.Helper()
		id, err := client.NextID(t.Context(), 5)
		if err != nil {
			return err
		}
		if seen[id] || id <= last {
			t.Fatalf("%d was issued after %d", id, last)
		}
		seen[id], last = true, id
		return nil
	}
	client := pgid.NewClient(db.Pool)
	for range 100 {
		if err := next(client); err != nil {
			t.Fatal(err)
		}
	}

	start := time.Now() // just after the last ID, which the new time must come up to, less 100 ms
	server.SetClock(t, -500*time.Millisecond)
	if err := next(client); err != nil {
		t.Fatalf("clock back by 0.5 s: %v", err)
	}
	if waited := time.Since(start); waited < 350*time.Millisecond || waited > 5*time.Second {
		t.Errorf("clock back by 0.5 s: went on after %s, want about 0.4 s", waited)
	}
	for range 100 {
		if err := next(client); err != nil {
			t.Fatal(err)
		}
	}

	server.SetClock(t, -time.Hour)
	if err := next(client); !errors.Is(err, pgid.ErrClockBehind) {
		t.Errorf("clock back by an hour: %v, want ID001", err)
	}
	db.Pool.Reset()
	server.Restart(t)
	restarted := pgid.NewClient(pgtest.Connect(t, server.DatabaseURL(db)))
	if err := next(restarted); !errors.Is(err, pgid.ErrClockBehind) {
		t.Errorf("clock back by an hour, after a restart: %v, want ID001", err)
	}

	server.SetClock(t, 0)
	for range 100 {
		if err := next(restarted); err != nil {
			t.Fatalf("clock right again: %v", err)
		}
	}

	// Past the end of time, the shard refuses, and is none the worse for it.
	server.SetClock(t, 35*365*24*time.Hour)
	if err := next(restarted); !errors.Is(err, pgid.ErrTimeExhausted) {
		t.Errorf("clock 35 years ahead: %v, want ID004", err)
	}
	server.SetClock(t, 0)
	for range 100 {
		if err := next(restarted); err != nil {
			t.Fatalf("clock right again: %v", err)
		}
	}
}
