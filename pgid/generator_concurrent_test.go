package pgid_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/pgid"
)

// jumpingClock reads anything within 50 ms, and its Sleep does not wait.
type jumpingClock struct{}

func (jumpingClock) Now() time.Time                             { return at(5000 + rand.Int64N(50)) }
func (jumpingClock) Sleep(context.Context, time.Duration) error { return nil }

// TestGeneratorConcurrent: whatever the clock reads, no ID comes twice, and a call that starts after another returned gets a larger one.
func TestGeneratorConcurrent(t *testing.T) {
	t.Parallel()
	clocks := map[string]pgid.Clock{"system": pgid.SystemClock{}, "jumping": jumpingClock{}}
	for name, clock := range clocks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const workers, each = 32, 3000
			g := newGenerator(t, clock, pgid.Limits{MaxLead: 10 * time.Second})
			var returned atomic.Int64 // an ID that some worker has been given
			got := make([][]pgid.ID, workers)
			var group sync.WaitGroup
			for w := range workers {
				group.Go(func() {
					for range each {
						before := pgid.ID(returned.Load())
						id, err := g.Next(context.Background())
						if err != nil {
							t.Error(err)
							return
						}
						if id <= before {
							t.Errorf("ID %d from a call that started after %d was returned", id, before)
							return
						}
						returned.Store(int64(id))
						got[w] = append(got[w], id)
					}
				})
			}
			group.Wait()
			for w, ids := range got {
				if !slices.IsSorted(ids) {
					t.Errorf("the IDs of worker %d are not ascending", w)
				}
			}
			all := slices.Concat(got...)
			slices.Sort(all)
			if unique := len(slices.Compact(all)); unique != workers*each {
				t.Errorf("%d different IDs, want %d", unique, workers*each)
			}
		})
	}
}

func BenchmarkGenerator(b *testing.B) {
	newBenchGenerator := func(b *testing.B) *pgid.Generator {
		// The lead is a year, so that nothing waits: the law itself is measured.
		return newGenerator(b, pgid.SystemClock{}, pgid.Limits{MaxLead: 365 * 24 * time.Hour})
	}
	b.Run("single", func(b *testing.B) {
		b.ReportAllocs()
		g := newBenchGenerator(b)
		for b.Loop() {
			if _, err := g.Next(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		g := newBenchGenerator(b)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if _, err := g.Next(context.Background()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}
