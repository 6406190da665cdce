package pgid_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/pgid"
)

// demand calls Next at a steady rate, n times every pause, for as long as d.
func demand(t *testing.T, a *pgid.Allocator, n int, pause, d time.Duration) (ids int64) {
	t.Helper()
	for start := time.Now(); time.Since(start) < d; time.Sleep(pause) {
		take(t, a, n)
		ids += int64(n)
	}
	return ids
}

// TestAllocatorFollowsDemand: ranges grow fast until they hide the round trips, and
// shrink again; little is dropped.
func TestAllocatorFollowsDemand(t *testing.T) {
	inBubble(t, pgid.AllocatorConfig{}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
		db.trip = 10 * ms
		handedOut := demand(t, a, 100, ms, time.Second)
		grown := a.Stats()
		if grown.Waits > 4 {
			t.Errorf("%d waits until the ranges were large enough", grown.Waits)
		}
		handedOut += demand(t, a, 100, ms, 2*time.Second)
		steady := a.Stats()
		if steady.Waits != grown.Waits || steady.Dropped != 0 {
			t.Errorf("%+v after %+v: waits or drops at a steady demand", steady, grown)
		}
		// 2 s of ranges that last 50 ms, more or less.
		if n := steady.Fetches - grown.Fetches; n < 20 || n > 80 {
			t.Errorf("%d fetches in two seconds", n)
		}
		large := db.counts()[len(db.counts())-1]
		if large < 2500 || large > 10_000 {
			t.Errorf("ranges of %d at 100 IDs a ms", large)
		}

		handedOut += demand(t, a, 1, 100*ms, 5*time.Second) // 10 a second
		counts := db.counts()
		if small := counts[len(counts)-1]; small != 64 {
			t.Errorf("ranges of %v: the last of them at 10 IDs a second", counts)
		}
		if s := a.Stats(); s.Dropped > int64(4*large) {
			t.Errorf("%+v: much was dropped on the way down from %d", s, large)
		}
		checkBooks(t, db, a, handedOut)
	})
}

// TestAllocatorSlowFetches: where a round trip takes longer than ranges should last,
// ranges last longer, so that nobody waits.
func TestAllocatorSlowFetches(t *testing.T) {
	inBubble(t, pgid.AllocatorConfig{}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
		db.trip = 150 * ms
		demand(t, a, 10, ms, 2*time.Second)
		before := a.Stats()
		demand(t, a, 10, ms, 2*time.Second)
		if s := a.Stats(); s.Waits != before.Waits || s.Dropped != 0 {
			t.Errorf("%+v after %+v: waits or drops", s, before)
		}
	})
}

// TestAllocatorShrinksWhenUnused: bursts far apart, whose ranges are dropped unused.
func TestAllocatorShrinksWhenUnused(t *testing.T) {
	inBubble(t, pgid.AllocatorConfig{}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
		handedOut := demand(t, a, 500, ms, 500*ms)
		large := slices.Max(db.counts())
		for range 10 {
			time.Sleep(10 * time.Second)
			take(t, a, 1)
			handedOut++
		}
		counts := db.counts()
		if last := counts[len(counts)-1]; large < 10_000 || last != 64 {
			t.Errorf("ranges of %v", counts)
		}
		checkBooks(t, db, a, handedOut)
	})
}

// TestAllocatorBounds: sizes stay within what was configured, and within what the
// database allows.
func TestAllocatorBounds(t *testing.T) {
	for _, test := range []struct {
		name           string
		config         pgid.AllocatorConfig
		lead           time.Duration
		smallest, most int
	}{
		{"default", pgid.AllocatorConfig{}, 100 * ms, 64, 51_200},
		{"own", pgid.AllocatorConfig{MinRange: 10, MaxRange: 777}, 100 * ms, 10, 777},
		{"all of the lead", pgid.AllocatorConfig{MaxRange: 1 << 30}, 100 * ms, 64, 102_400},
		{"a short lead", pgid.AllocatorConfig{}, ms, 64, 512},
		{"more than a short lead", pgid.AllocatorConfig{MinRange: 5000}, ms, 1024, 1024},
		{"the largest lead", pgid.AllocatorConfig{MaxRange: 1<<31 - 1}, time.Hour, 64, 1<<31 - 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, test.config, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
				db.limits = pgid.Limits{MaxLead: test.lead, MaxWait: time.Second}
				take(t, a, 1)
				time.Sleep(10 * time.Second)
				demand(t, a, 20_000, ms, 200*ms)
				counts := db.counts()
				if counts[0] != test.smallest || test.most < 1<<30 && slices.Max(counts) != test.most {
					t.Errorf("ranges of %v, want %d to %d", counts, test.smallest, test.most)
				}
			})
		})
	}
}

// TestAllocatorLimitsLowered: the owner lowers max_lead while an allocator runs.
func TestAllocatorLimitsLowered(t *testing.T) {
	inBubble(t, pgid.AllocatorConfig{}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
		demand(t, a, 1000, ms, 500*ms)
		db.set(func() { db.limits.MaxLead = 2 * ms })
		demand(t, a, 1000, ms, 500*ms)
		if s := a.Stats(); s.FailedFetches != 0 {
			t.Errorf("%+v: callers saw the change", s)
		}
		if counts := db.counts(); counts[len(counts)-1] > 2048 {
			t.Errorf("ranges of %d", counts[len(counts)-1])
		}
	})
}

// TestAllocatorTrickle: who calls seldom does not wait either.
func TestAllocatorTrickle(t *testing.T) {
	inBubble(t, pgid.AllocatorConfig{}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
		handedOut := demand(t, a, 1, 100*ms, time.Minute)
		if s := a.Stats(); s.Waits != 1 || s.Fetches > 130 {
			t.Errorf("%+v, want one wait, and two fetches a second", s)
		}
		checkBooks(t, db, a, handedOut)
	})
}

// TestAllocatorCeiling: callers that take all they get have, over any round trip that
// is shorter than a range, what a shard can give: 1024 IDs a millisecond.
func TestAllocatorCeiling(t *testing.T) {
	for _, trip := range []time.Duration{ms, 5 * ms, 20 * ms, 40 * ms} {
		t.Run(trip.String(), func(t *testing.T) {
			inBubble(t, pgid.AllocatorConfig{}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
				db.trip = trip
				take(t, a, 200_000) // warm up: the ranges grow, the lead fills
				const n = 1_000_000
				start := time.Now()
				take(t, a, n)
				if rate := n / float64(time.Since(start)/ms); rate < 0.97*1024 {
					t.Errorf("%.0f IDs a ms, want 1024", rate)
				}
				if s := a.Stats(); s.Dropped != 0 {
					t.Errorf("%+v: nothing should be dropped", s)
				}
			})
		})
	}
}

// TestAllocatorBelowCeiling: at nine tenths of it, nobody waits, nor does a fetch in
// the server.
func TestAllocatorBelowCeiling(t *testing.T) {
	inBubble(t, pgid.AllocatorConfig{}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
		db.trip = 20 * ms
		demand(t, a, 920, ms, 500*ms)
		before := a.Stats()
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() { demand(t, a, 230, ms, time.Second) })
		}
		group.Wait()
		s := a.Stats()
		if s.Waits != before.Waits || s.HandedOut-before.HandedOut < 900_000 {
			t.Errorf("%+v after %+v: somebody waited", s, before)
		}
	})
}
