package pgid_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nextid/postgres-ids/pgid"
)

// TestGeneratorBatches: single calls and batches of a generator, mixed under any
// clock, are consecutive runs of ticks that never fall back; G3 holds for the ends of
// each; and a batch that is refused draws nothing.
func TestGeneratorBatches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const maxLead, maxWait = 3, 5
		clock := &fakeClock{milli: rapid.Int64Range(-5, 5000).Draw(t, "start")}
		limits := pgid.Limits{MaxLead: maxLead * ms, MaxWait: maxWait * ms}
		g := newGenerator(t, clock, limits)
		last := pgid.Tick(-1)
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			clock.milli += edgy(-5, 5).Draw(t, "move")
			before := clock.milli
			n := int(edgy(0, 1024*maxLead+1).Draw(t, "n"))
			first, _, wantErr := limits.NextN(last, before, n)
			ids, err := g.NextIDs(context.Background(), n)
			if wantErr != nil {
				if ids != nil || err == nil || err.Error() != wantErr.Error() {
					t.Fatalf("NextIDs(%d) = %d IDs, %v, want %v", n, len(ids), err, wantErr)
				}
				continue // and last stands
			}
			if err != nil || len(ids) != n {
				t.Fatalf("NextIDs(%d) = %d IDs, %v", n, len(ids), err)
			}
			for i, id := range ids {
				if want := (first + pgid.Tick(i)).ID(testShard); id != want {
					t.Fatalf("ID %d of the batch is %d, want %d", i, id, want)
				}
			}
			last = ids[n-1].Tick()
			low, high := ids[0].Time().Sub(epoch).Milliseconds(), ids[n-1].Time().Sub(epoch).Milliseconds()
			if low < before || high > clock.milli+maxLead {
				t.Fatalf("IDs of ms %d to %d from a call from %d to %d", low, high, before, clock.milli)
			}
			if rapid.Bool().Draw(t, "single") {
				if id, err := g.Next(context.Background()); err == nil {
					if id.Tick() <= last {
						t.Fatalf("tick %d after %d", id.Tick(), last)
					}
					last = id.Tick()
				}
			}
		}
	})
}

// TestGeneratorBatchCancelled: a batch whose wait is cancelled is a gap as a whole.
func TestGeneratorBatchCancelled(t *testing.T) {
	t.Parallel()
	clock := &fakeClock{milli: 5000}
	g := newGenerator(t, clock, pgid.Limits{MaxLead: ms, MaxWait: time.Second})
	last := mustNext(t, g)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	clock.milli = 4990
	if ids, err := g.NextIDs(ctx, 10); ids != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled in its wait: %v, %v", ids, err)
	}
	clock.milli = 5000
	if id := mustNext(t, g); id != last+11 {
		t.Errorf("after the cancel: ID %d, want %d", id, last+11)
	}
}

// TestGeneratorReadsSystemClock: what a generator reads directly is the time of day,
// to the millisecond, whichever way it was told to.
func TestGeneratorReadsSystemClock(t *testing.T) {
	t.Parallel()
	for name, clock := range map[string]pgid.Clock{"nil": nil, "SystemClock": pgid.SystemClock{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			layout, err := pgid.NewLayout(epoch.Add(-time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			g, err := pgid.NewGenerator(testShard, pgid.GeneratorConfig{Clock: clock, Layout: layout})
			if err != nil {
				t.Fatal(err)
			}
			for range 1000 {
				before := time.Now().Truncate(ms)
				id := mustNext(t, g)
				if got, after := layout.Time(id), time.Now().Add(2*ms); got.Before(before) || got.After(after) {
					t.Fatalf("an ID of %s from a call between %s and %s", got, before, after)
				}
			}
		})
	}
}
