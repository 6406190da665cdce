package pgid_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/pgid"
)

// A lyingClock shows any time at all, and sleeps as long as it likes.
type lyingClock struct{}

func (lyingClock) Now() time.Time {
	now := time.Now()
	switch rand.N(12) {
	case 0:
		return now.Add(rand.N(2*time.Hour) - time.Hour)
	case 1:
		return time.Time{}
	case 2:
		return time.Unix(1<<60, 0)
	}
	return now.Add(rand.N(400*ms) - 200*ms)
}

func (lyingClock) Sleep(context.Context, time.Duration) error { return nil }

// Callers at once, renewals between them, and a clock that shows anything: no ID
// twice, none outside the windows, and each caller's ascend.
func TestLeaseConcurrent(t *testing.T) {
	t.Parallel()
	for name, clock := range map[string]pgid.Clock{"a right clock": nil, "a lying clock": lyingClock{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newLeaseDB()
			l := acquire(t, db, pgid.LeaseConfig{Window: 100 * ms, Clock: clock})
			const callers = 8
			drawn := make([][]pgid.ID, callers)
			refused := make([]int, callers)
			var group sync.WaitGroup
			for i := range callers {
				group.Go(func() {
					for start := time.Now(); time.Since(start) < 700*ms; {
						id, err := l.Next(t.Context())
						switch {
						case err == nil:
							drawn[i] = append(drawn[i], id)
						case errors.Is(err, pgid.ErrLeaseExpired), errors.Is(err, pgid.ErrClockBehind), errors.Is(err, pgid.ErrTimeExhausted):
							refused[i]++
							time.Sleep(ms)
						default:
							t.Errorf("caller %d: %v", i, err)
							return
						}
					}
				})
			}
			group.Wait()
			for i, ids := range drawn {
				if len(ids) == 0 || !slices.IsSorted(ids) {
					t.Errorf("caller %d: %d IDs, not ascending", i, len(ids))
				}
			}
			all := slices.Concat(drawn...)
			slices.Sort(all)
			if once := slices.Compact(slices.Clone(all)); len(once) != len(all) {
				t.Errorf("%d of %d IDs twice", len(all)-len(once), len(all))
			}
			windows := db.windows()
			for _, id := range all {
				within := func(w [2]pgid.Tick) bool { return id.Tick() >= w[0] && id.Tick() < w[1] }
				if !slices.ContainsFunc(windows, within) {
					t.Fatalf("tick %d is of none of %v", id.Tick(), windows)
				}
			}
			s := l.Stats()
			if s.Issued != int64(len(all)) || s.Renewals < 2 {
				t.Errorf("%+v of %d IDs", s, len(all))
			}
			t.Logf("%d IDs of %d windows, refused %v, %+v", len(all), len(windows), refused, s)
		})
	}
}
