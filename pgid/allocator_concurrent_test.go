package pgid_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/pgid"
)

// highest is the largest ID that was returned to anybody.
type highest struct{ id atomic.Int64 }

func (h *highest) load() pgid.ID { return pgid.ID(h.id.Load()) }

func (h *highest) raise(id pgid.ID) {
	for {
		old := h.id.Load()
		if old >= int64(id) || h.id.CompareAndSwap(old, int64(id)) {
			return
		}
	}
}

// TestAllocatorConcurrent: whatever happens to the database, no ID comes twice, and a
// call that starts after another returned gets a larger one.
func TestAllocatorConcurrent(t *testing.T) {
	t.Parallel()
	t.Run("in a hurry", func(t *testing.T) {
		t.Parallel()
		testConcurrent(t, pgid.AllocatorConfig{MinRange: 8, MaxRange: 4096}, 20_000, 0)
	})
	// At a pace at which a failed fetch, or old age, finds something to drop.
	t.Run("at a pace", func(t *testing.T) {
		t.Parallel()
		s := testConcurrent(t, pgid.AllocatorConfig{MinRange: 8, MaxRange: 1024, MaxAge: 20 * ms}, 2000, ms)
		if s.Dropped == 0 || s.FailedFetches == 0 || s.Waits == 0 {
			t.Errorf("%+v: this test should see drops, failures and waits", s)
		}
	})
}

// testConcurrent has workers take IDs at once, each of them with a pause after every
// five, from a database that fails every third fetch.
func testConcurrent(t *testing.T, config pgid.AllocatorConfig, each int, pause time.Duration) pgid.AllocatorStats {
	t.Helper()
	const workers = 16
	db := newRangeDB()
	db.trip = 200 * time.Microsecond
	db.limits.MaxLead = time.Hour // at no particular pace
	tries := 0
	db.fail = func() error {
		if tries++; tries%3 == 0 {
			return errLost
		}
		return nil
	}
	a := newAllocator(t, db, config)
	var high highest
	got := make([][]pgid.ID, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for len(got[w]) < each {
				before := high.load()
				id, err := a.Next(context.Background())
				if errors.Is(err, errLost) || errors.Is(err, pgid.ErrStale) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if id <= before {
					t.Errorf("ID %d from a call that started after %d was returned", id, before)
					return
				}
				high.raise(id)
				got[w] = append(got[w], id)
				if pause > 0 && len(got[w])%5 == 0 {
					time.Sleep(pause)
				}
			}
		})
	}
	group.Wait()
	all := slices.Concat(got...)
	slices.Sort(all)
	if unique := len(slices.Compact(all)); unique != workers*each {
		t.Errorf("%d different IDs, want %d", unique, workers*each)
	}
	checkBooks(t, db, a, int64(workers*each))
	return a.Stats()
}
