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

// draw takes a single ID, or three where the worker is odd.
func draw(g *pgid.Generator, worker int) ([]pgid.ID, error) {
	if worker%2 == 1 {
		return g.NextIDs(context.Background(), 3)
	}
	id, err := g.Next(context.Background())
	return []pgid.ID{id}, err
}

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
						ids, err := draw(g, w)
						if err != nil {
							t.Error(err)
							return
						}
						if ids[0] <= before {
							t.Errorf("ID %d from a call that started after %d was returned", ids[0], before)
							return
						}
						returned.Store(int64(ids[len(ids)-1]))
						got[w] = append(got[w], ids...)
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
			drawn := len(all)
			if unique := len(slices.Compact(all)); unique != drawn || drawn < workers*each {
				t.Errorf("%d different IDs of %d", unique, drawn)
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
