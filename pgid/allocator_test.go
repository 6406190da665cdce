package pgid_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nextid/postgres-ids/pgid"
)

// inBubble runs a test of an allocator in fake time.
func inBubble(t *testing.T, config pgid.AllocatorConfig, test func(*testing.T, *rangeDB, *pgid.Allocator)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newRangeDB()
		test(t, db, newAllocator(t, db, config))
	})
}

func TestAllocatorConfig(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		shard  pgid.Shard
		config pgid.AllocatorConfig
		ok     bool
	}{
		{"zero", 0, pgid.AllocatorConfig{}, true},
		{"last shard", maxShard, pgid.AllocatorConfig{}, true},
		{"all set", 5, pgid.AllocatorConfig{MinRange: 1, MaxRange: 1, MaxAge: 1, FetchTimeout: 1}, true},
		{"a MaxRange below the default MinRange", 5, pgid.AllocatorConfig{MaxRange: 3}, true},
		{"shard", maxShard + 1, pgid.AllocatorConfig{}, false},
		{"negative shard", -1, pgid.AllocatorConfig{}, false},
		{"MinRange", 5, pgid.AllocatorConfig{MinRange: -1}, false},
		{"MaxRange", 5, pgid.AllocatorConfig{MaxRange: -1}, false},
		{"MaxRange too large", 5, pgid.AllocatorConfig{MaxRange: 1 << 31}, false},
		{"MaxRange below MinRange", 5, pgid.AllocatorConfig{MinRange: 5, MaxRange: 4}, false},
		{"MaxAge", 5, pgid.AllocatorConfig{MaxAge: -1}, false},
		{"FetchTimeout", 5, pgid.AllocatorConfig{FetchTimeout: -1}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db := newRangeDB()
			a, err := pgid.NewAllocator(pgid.NewClient(db), test.shard, test.config)
			if test.ok != (err == nil) || test.ok != (a != nil) || !test.ok && !errors.Is(err, pgid.ErrOutOfRange) {
				t.Fatalf("NewAllocator: %v, want ok %t", err, test.ok)
			}
			if len(db.counts()) != 0 {
				t.Error("NewAllocator reserved")
			}
		})
	}
}

// TestAllocatorRefusesTransaction: a range must not be handed out before its
// reservation is committed.
func TestAllocatorRefusesTransaction(t *testing.T) {
	t.Parallel()
	var tx struct{ pgx.Tx }
	if _, err := pgid.NewAllocator(pgid.NewClient(tx), 5, pgid.AllocatorConfig{}); err == nil {
		t.Error("it takes a transaction")
	}
}

// TestAllocatorHandsOut: in order, without a gap while ranges follow each other, over
// the ends of milliseconds.
func TestAllocatorHandsOut(t *testing.T) {
	inBubble(t, pgid.AllocatorConfig{MaxRange: 1000}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
		const n = 10_000
		ids := take(t, a, n)
		first := ids[0].Tick()
		gaps := 0
		for i, id := range ids {
			if id.Shard() != testShard {
				t.Fatalf("ID %d has shard %d", id, id.Shard())
			}
			if id.Tick() != first+pgid.Tick(i) {
				gaps, first = gaps+1, id.Tick()-pgid.Tick(i)
			}
		}
		if gaps >= len(db.counts()) {
			t.Errorf("%d gaps in %d ranges", gaps, len(db.counts()))
		}
		checkBooks(t, db, a, n)
	})
}

// TestAllocatorSharesFetch: many that wait, one fetch.
func TestAllocatorSharesFetch(t *testing.T) {
	const callers = 100
	inBubble(t, pgid.AllocatorConfig{MinRange: 4 * callers}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
		var group sync.WaitGroup
		var mu sync.Mutex
		seen := make(map[pgid.ID]bool)
		for range callers {
			group.Go(func() {
				id, err := a.Next(t.Context())
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				seen[id] = true
			})
		}
		group.Wait()
		if len(seen) != callers {
			t.Errorf("%d different IDs for %d callers", len(seen), callers)
		}
		if s := a.Stats(); s != (pgid.AllocatorStats{HandedOut: callers, Fetches: 1, Waits: callers}) {
			t.Errorf("%+v, want one fetch that all waited for", s)
		}
		checkBooks(t, db, a, callers)
	})
}

// TestAllocatorMaxAge: an ID is handed out until MaxAge after its reservation
// started, and not a nanosecond later.
func TestAllocatorMaxAge(t *testing.T) {
	const trip, maxAge = 400 * ms, time.Second
	// The one range that is fetched ahead at half the age must be in time, or too old.
	for name, freeze := range map[string]time.Duration{
		"just in time": maxAge - trip,
		"too old":      maxAge - trip + 1,
		"frozen":       time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, pgid.AllocatorConfig{MinRange: 100, MaxAge: maxAge}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
				db.trip = trip
				ids := take(t, a, 20) // a quarter would have the next range fetched
				time.Sleep(freeze)
				start := time.Now()
				ids = append(ids, take(t, a, 1)...)
				next := ids[20].Tick() == ids[0].Tick()+20
				if fresh := freeze+trip <= maxAge; next != fresh || (time.Since(start) == 0) != fresh {
					t.Errorf("after %s: tick %d, the range started at %d; it took %s",
						freeze, ids[20].Tick(), ids[0].Tick(), time.Since(start))
				}
				if s := a.Stats(); !next && (s.Dropped != 80 || s.HandedOut != 21) {
					t.Errorf("%+v, want 80 dropped", s)
				}
				checkBooks(t, db, a, 21)
			})
		})
	}
}

// TestAllocatorDropsOldPrefetch: the range fetched ahead ages too.
func TestAllocatorDropsOldPrefetch(t *testing.T) {
	inBubble(t, pgid.AllocatorConfig{MinRange: 100, MaxRange: 100}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
		ids := take(t, a, 50)
		synctest.Wait()
		time.Sleep(10 * ms) // the next range has arrived
		if len(db.counts()) != 2 {
			t.Fatalf("ranges of %v, want one fetched ahead", db.counts())
		}
		time.Sleep(time.Second)
		id := take(t, a, 1)[0]
		if id.Tick() < ids[0].Tick()+1024*1000 {
			t.Errorf("tick %d, a second after %d", id.Tick(), ids[0].Tick())
		}
		if s := a.Stats(); s.Dropped != 150 || s.HandedOut != 51 {
			t.Errorf("%+v, want 150 dropped", s)
		}
		checkBooks(t, db, a, 51)
	})
}

// TestAllocatorIdle: who does not call, fetches nothing.
func TestAllocatorIdle(t *testing.T) {
	inBubble(t, pgid.AllocatorConfig{}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
		time.Sleep(time.Hour)
		if n := len(db.counts()); n != 0 {
			t.Errorf("%d fetches before the first call", n)
		}
		take(t, a, 30)
		time.Sleep(time.Minute)
		n := len(db.counts())
		time.Sleep(time.Hour)
		if len(db.counts()) != n || n != 2 {
			t.Errorf("%d fetches, and %d after an idle hour, want 2", n, len(db.counts()))
		}
	})
}

// TestAllocatorCallerLeaves: its fetch goes on, for others.
func TestAllocatorCallerLeaves(t *testing.T) {
	inBubble(t, pgid.AllocatorConfig{}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
		db.trip = 100 * ms
		ctx, cancel := context.WithTimeout(t.Context(), 10*ms)
		defer cancel()
		var group sync.WaitGroup
		group.Go(func() {
			start := time.Now()
			if id, err := a.Next(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 10*ms {
				t.Errorf("who leaves: %d, %v after %s", id, err, time.Since(start))
			}
		})
		time.Sleep(5 * ms)
		start := time.Now()
		if _, err := a.Next(t.Context()); err != nil || time.Since(start) != 95*ms {
			t.Errorf("who stays: %v after %s", err, time.Since(start))
		}
		group.Wait()
		// With a range at hand there is nothing to wait for; without, nothing is begun.
		if _, err := a.Next(ctx); err != nil {
			t.Errorf("with a range at hand: %v", err)
		}
		time.Sleep(time.Hour)
		if id, err := a.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a range: %d, %v", id, err)
		}
		if s := a.Stats(); s.Fetches != 1 || s.FailedFetches != 0 || s.Waits != 2 {
			t.Errorf("%+v, want one fetch and two waits", s)
		}
		checkBooks(t, db, a, 2)
	})
}

func TestAllocatorClose(t *testing.T) {
	inBubble(t, pgid.AllocatorConfig{MinRange: 100}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
		take(t, a, 20)
		synctest.Wait()
		db.set(func() { db.trip = time.Minute })
		take(t, a, 80) // the next fetch is under way
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				if id, err := a.Next(t.Context()); !errors.Is(err, pgid.ErrClosed) {
					t.Errorf("a call that waits: %d, %v", id, err)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		a.Close()
		group.Wait()
		if time.Since(start) != 0 {
			t.Errorf("closing took %s", time.Since(start))
		}
		for range 3 {
			if id, err := a.Next(t.Context()); !errors.Is(err, pgid.ErrClosed) {
				t.Errorf("after Close: %d, %v", id, err)
			}
			a.Close()
		}
	})
	t.Run("with IDs at hand", func(t *testing.T) {
		inBubble(t, pgid.AllocatorConfig{}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
			take(t, a, 40)
			time.Sleep(10 * ms)
			a.Close()
			if id, err := a.Next(t.Context()); !errors.Is(err, pgid.ErrClosed) {
				t.Errorf("after Close: %d, %v", id, err)
			}
			checkBooks(t, db, a, 40)
		})
	})
}

// TestAllocatorMoreCallersThanIDs: those for whom a range does not suffice wait for
// the next, and no range is passed over meanwhile.
func TestAllocatorMoreCallersThanIDs(t *testing.T) {
	const callers, each = 100, 20
	inBubble(t, pgid.AllocatorConfig{MinRange: 4, MaxRange: 4}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
		db.trip = 0
		db.limits.MaxLead = time.Hour
		var group sync.WaitGroup
		for range callers {
			group.Go(func() { take(t, a, each) })
		}
		group.Wait()
		if s := a.Stats(); s.Dropped != 0 {
			t.Errorf("%+v: nothing should be dropped", s)
		}
		checkBooks(t, db, a, callers*each)
	})
}
