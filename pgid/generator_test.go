package pgid_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nextid/postgres-ids/pgid"
)

// fakeClock stands still but for what a test or a Sleep moves it by.
type fakeClock struct {
	mu     sync.Mutex
	milli  int64 // since the default epoch
	sleeps []time.Duration
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return at(c.milli)
}

func (c *fakeClock) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sleeps = append(c.sleeps, d)
	c.milli += d.Milliseconds()
	return nil
}

const testShard = pgid.Shard(1341)

func newGenerator(t interface{ Fatal(...any) }, clock pgid.Clock, limits pgid.Limits) *pgid.Generator {
	g, err := pgid.NewGenerator(testShard, pgid.GeneratorConfig{Clock: clock, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func mustNext(t *testing.T, g *pgid.Generator) pgid.ID {
	t.Helper()
	id, err := g.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestNewGeneratorShard(t *testing.T) {
	t.Parallel()
	for _, shard := range []pgid.Shard{0, maxShard} {
		if _, err := pgid.NewGenerator(shard, pgid.GeneratorConfig{}); err != nil {
			t.Errorf("shard %d: %v", shard, err)
		}
	}
	for _, shard := range []pgid.Shard{-1, maxShard + 1, 1<<31 - 1, -1 << 31} {
		if _, err := pgid.NewGenerator(shard, pgid.GeneratorConfig{}); !errors.Is(err, pgid.ErrOutOfRange) {
			t.Errorf("shard %d: %v, want ErrOutOfRange", shard, err)
		}
	}
}

// TestGeneratorDraws holds the parts of the first IDs to the clock, under an epoch
// of its own.
func TestGeneratorDraws(t *testing.T) {
	t.Parallel()
	layout, err := pgid.NewLayout(epoch.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	clock := &fakeClock{milli: 5000}
	g, err := pgid.NewGenerator(testShard, pgid.GeneratorConfig{Clock: clock, Layout: layout})
	if err != nil {
		t.Fatal(err)
	}
	for seq := range pgid.Seq(1024) {
		want := pgid.Parts{Time: at(5000), Shard: testShard, Seq: seq}
		if got := layout.Decode(mustNext(t, g)); got != want {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	want := pgid.Parts{Time: at(5001), Shard: testShard}
	if got := layout.Decode(mustNext(t, g)); got != want {
		t.Errorf("after 1024 in a millisecond: %v, want %v", got, want)
	}
	if len(clock.sleeps) != 0 {
		t.Errorf("slept %v within the lead", clock.sleeps)
	}
}

func TestGeneratorWaits(t *testing.T) {
	t.Parallel()
	clock := &fakeClock{milli: 5000}
	g := newGenerator(t, clock, pgid.DefaultLimits())
	last := mustNext(t, g)
	for _, step := range []struct {
		back int64 // the lead that it makes
		want []time.Duration
	}{
		{100, nil},
		{101, []time.Duration{1 * ms}},
		{1100, []time.Duration{1000 * ms}},
	} {
		clock.milli, clock.sleeps = 5000-step.back, nil
		id := mustNext(t, g)
		if id != last+1 || !slices.Equal(clock.sleeps, step.want) {
			t.Errorf("lead %d ms: ID %d after %d, slept %v, want %v", step.back, id, last, clock.sleeps, step.want)
		}
		last = id
	}
}

// TestGeneratorRefusesWithoutDrawing: after a refusal, of either kind, the sequence
// goes on without a gap.
func TestGeneratorRefusesWithoutDrawing(t *testing.T) {
	t.Parallel()
	clock := &fakeClock{milli: 5000}
	g := newGenerator(t, clock, pgid.DefaultLimits())
	last := mustNext(t, g)
	for _, step := range []struct {
		milli int64
		want  error
	}{
		{5000 - 1101, pgid.ErrClockBehind},
		{-1 << 41, pgid.ErrClockBehind},
		{maxMilli + 1, pgid.ErrTimeExhausted},
	} {
		clock.milli = step.milli
		for range 3 {
			if id, err := g.Next(t.Context()); id != 0 || !errors.Is(err, step.want) {
				t.Errorf("clock at %d: got %d, %v, want %v", step.milli, id, err, step.want)
			}
		}
		clock.milli = 5000
		if id := mustNext(t, g); id != last+1 {
			t.Errorf("clock was at %d: the next ID is %d, want %d", step.milli, id, last+1)
		}
		last++
	}
	if len(clock.sleeps) != 0 {
		t.Errorf("slept %v before refusing", clock.sleeps)
	}
}

func TestGeneratorCancelled(t *testing.T) {
	t.Parallel()
	clock := &fakeClock{milli: 5000}
	g := newGenerator(t, clock, pgid.DefaultLimits())
	last := mustNext(t, g)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	// Without a wait, there is nothing to cancel.
	if id, err := g.Next(ctx); err != nil || id != last+1 {
		t.Errorf("no wait: got %d, %v", id, err)
	}
	clock.milli = 5000 - 200
	if id, err := g.Next(ctx); id != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled in its wait: got %d, %v", id, err)
	}
	// The ID that it had drawn, last+2, is lost.
	clock.milli = 5000
	if id := mustNext(t, g); id != last+3 {
		t.Errorf("after the cancel: ID %d, want %d", id, last+3)
	}
}

func TestSystemClock(t *testing.T) {
	t.Parallel()
	var clock pgid.SystemClock
	if d := time.Since(clock.Now()); d < 0 || d > time.Minute {
		t.Errorf("Now is %s ago", d)
	}
	start := time.Now()
	if err := clock.Sleep(t.Context(), 5*ms); err != nil || time.Since(start) < 5*ms {
		t.Errorf("Sleep(5ms) took %s: %v", time.Since(start), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), ms)
	defer cancel()
	if err := clock.Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Sleep returned %v", err)
	}
}

// TestGeneratorBounds is promise G3 under any clock: an ID's time is not before the
// clock at the start of its call, and at most MaxLead after the clock at its end.
func TestGeneratorBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clock := &fakeClock{milli: rapid.Int64Range(-50, 5000).Draw(t, "start")}
		const maxLead, maxWait = 20, 100
		g := newGenerator(t, clock, pgid.Limits{MaxLead: maxLead * ms, MaxWait: maxWait * ms})
		last := pgid.Tick(-1)
		for _, move := range rapid.SliceOfN(edgy(-150, 150), 1, 60).Draw(t, "moves") {
			clock.milli += move
			before := clock.milli
			clock.sleeps = nil
			id, err := g.Next(context.Background())
			if errors.Is(err, pgid.ErrClockBehind) {
				if lead := int64(last+1)/1024 - before; lead <= maxLead+maxWait || len(clock.sleeps) != 0 {
					t.Fatalf("refused at a lead of %d ms, after sleeping %v", lead, clock.sleeps)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			milli := id.Time().Sub(epoch).Milliseconds()
			if milli < before || milli > clock.milli+maxLead {
				t.Fatalf("ID of ms %d from a call from %d to %d", milli, before, clock.milli)
			}
			if id.Tick() <= last || id.Shard() != testShard {
				t.Fatalf("tick %d of shard %d after tick %d", id.Tick(), id.Shard(), last)
			}
			last = id.Tick()
		}
	})
}

// TestAdvance: whatever ID a generator is told of, every later one is larger, and
// being told never takes it back.
func TestAdvance(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clock := &fakeClock{milli: 1000}
		g := newGenerator(t, clock, pgid.Limits{MaxLead: time.Hour})
		shards := rapid.OneOf(rapid.Just(int64(testShard)), edgy(int64(testShard)-1, int64(testShard)+1), edgy(0, maxShard))
		last := pgid.ID(-1)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "advance") {
				p := parts{ms: edgy(-3, 2000).Draw(t, "ms"), shard: shards.Draw(t, "shard"), seq: edgy(0, maxSeq).Draw(t, "seq")}
				past := p.encode(t)
				g.Advance(past)
				last = max(last, past)
			}
			clock.milli += edgy(-500, 500).Draw(t, "move")
			id, err := g.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if id <= last {
				t.Fatalf("ID %d is not past %d", id, last)
			}
			last = id
		}
	})
}

// TestAdvanceSkips: it goes past an ID, and no further than it must.
func TestAdvanceSkips(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		shard pgid.Shard // of the ID at ms 1010, seq 5
		want  pgid.Parts
	}{
		{"its own shard", testShard, pgid.Parts{Time: at(1010), Shard: testShard, Seq: 6}},
		{"a lower shard", testShard - 1, pgid.Parts{Time: at(1011), Shard: testShard, Seq: 0}},
		{"a higher shard", testShard + 1, pgid.Parts{Time: at(1011), Shard: testShard, Seq: 0}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGenerator(t, &fakeClock{milli: 1000}, pgid.DefaultLimits())
			g.Advance(parts{ms: 1010, shard: int64(test.shard), seq: 5}.encode(t))
			g.Advance(parts{ms: 1005, shard: int64(test.shard), seq: 1000}.encode(t)) // behind by now
			if got := (pgid.Layout{}).Decode(mustNext(t, g)); got != test.want {
				t.Errorf("the next ID is %v, want %v", got, test.want)
			}
		})
	}

	t.Run("the largest ID of all", func(t *testing.T) {
		t.Parallel()
		g := newGenerator(t, &fakeClock{milli: 1000}, pgid.DefaultLimits())
		g.Advance(1<<63 - 1)
		if id, err := g.Next(t.Context()); !errors.Is(err, pgid.ErrTimeExhausted) {
			t.Errorf("got %d, %v, want ErrTimeExhausted", id, err)
		}
	})
}
