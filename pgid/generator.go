package pgid

import (
	"context"
	"sync/atomic"
	"time"
)

// A Clock is where a [Generator] reads the time and waits for it.
type Clock interface {
	// Now is the present time. It may step back.
	Now() time.Time
	// Sleep returns after d, or with ctx's error when ctx ends first.
	Sleep(ctx context.Context, d time.Duration) error
}

// SystemClock is the operating system's clock. A [Generator] that runs by it may read
// the time of day from the system directly, which is cheaper than time.Now, and does
// not see the fake time of testing/synctest: give it a Clock of your own there.
type SystemClock struct{}

// Now is time.Now.
func (SystemClock) Now() time.Time { return time.Now() }

// Sleep waits for d or the end of ctx.
func (SystemClock) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// GeneratorConfig configures a [Generator]. Its zero value works.
type GeneratorConfig struct {
	Layout Layout // the epoch; zero is the default
	Limits Limits // how far to lead the clock and how long to wait; zero is the default
	Clock  Clock  // nil is SystemClock
}

// A Generator runs the law of one shard in memory: the reference implementation of
// what next_id does in SQL. Given the same readings of the clock, both draw the
// same ticks.
//
// Its IDs strictly increase and never repeat, whatever its clock does, for as long
// as the Generator lives. It keeps no state beyond that: use a shard that nothing
// else issues IDs of, and after a restart call [Generator.Advance] with the last ID
// you know, or rely on the clock having moved on. Where that is too weak, let the
// database keep the state: [Client].
//
// A Generator is safe for concurrent use. It takes no lock: callers compete by
// compare-and-swap.
type Generator struct {
	last   atomic.Int64 // the last tick drawn: the whole state of a shard
	shard  Shard
	layout Layout
	law    law
	clock  Clock
	system bool // clock is SystemClock, which is read without going through it
}

// NewGenerator returns a generator of a shard's IDs. It returns [ErrOutOfRange] for
// a shard or limits outside their range.
func NewGenerator(shard Shard, config GeneratorConfig) (*Generator, error) {
	if err := shard.check(); err != nil {
		return nil, err
	}
	if err := config.Limits.check(); err != nil {
		return nil, err
	}
	g := &Generator{shard: shard, layout: config.Layout, law: config.Limits.law(), clock: config.Clock}
	if g.clock == nil {
		g.clock = SystemClock{}
	}
	_, g.system = g.clock.(SystemClock)
	g.last.Store(int64(noTick))
	return g, nil
}

// Next returns the shard's next ID, larger than all before it. If it leads the
// clock by more than MaxLead, Next first waits for the rest, at most MaxWait.
//
// It returns [ErrClockBehind] and [ErrTimeExhausted] as [Limits.Next] does, and then
// draws nothing; and ctx's error if ctx ends while it waits, when the ID it had
// drawn is lost, a gap.
func (g *Generator) Next(ctx context.Context) (ID, error) {
	tick, err := g.draw(ctx, 1)
	if err != nil {
		return 0, err
	}
	return tick.ID(g.shard), nil
}

// NextIDs returns the shard's next n IDs, of consecutive ticks, ascending: all that
// other calls draw is before or after them. It waits and refuses as Next does, by the
// lead of the last one.
//
// It returns [ErrOutOfRange] for an n that is not 1 to 1024 times MaxLead in
// milliseconds, and the errors of Next; then it returns no IDs.
func (g *Generator) NextIDs(ctx context.Context, n int) ([]ID, error) {
	if err := g.law.checkCount(n); err != nil {
		return nil, err
	}
	first, err := g.draw(ctx, int64(n))
	if err != nil {
		return nil, err
	}
	ids := make([]ID, n)
	for i := range ids {
		ids[i] = (first + Tick(i)).ID(g.shard)
	}
	return ids, nil
}

// draw takes n ticks by the law, and returns the first once the last may be issued.
func (g *Generator) draw(ctx context.Context, n int64) (Tick, error) {
	for {
		last := g.last.Load()
		first, wait, err := g.law.next(Tick(last), g.now(), n)
		if err != nil {
			return 0, err
		}
		if !g.last.CompareAndSwap(last, int64(first)+n-1) {
			continue
		}
		if wait > 0 {
			if err := g.clock.Sleep(ctx, wait); err != nil {
				return 0, err
			}
		}
		return first, nil
	}
}

// now is the clock in milliseconds since the epoch.
func (g *Generator) now() int64 {
	if g.system {
		return systemMilli() - g.layout.epochMilli()
	}
	return g.layout.milli(g.clock.Now())
}

// Advance makes sure that later IDs exceed past, an ID of any shard. It never goes
// back. In SQL it is create_shard(shard, past), which also raises a shard that stands.
func (g *Generator) Advance(past ID) {
	tick := past.Tick()
	if past.Shard() != g.shard {
		// IDs of a millisecond sort by shard before sequence: an ID of another
		// shard is past only when its whole millisecond is.
		tick |= Tick(MaxSeq)
	}
	for {
		last := g.last.Load()
		if last >= int64(tick) || g.last.CompareAndSwap(last, int64(tick)) {
			return
		}
	}
}
