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

// SystemClock is the operating system's clock.
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
	limits Limits
	clock  Clock
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
	g := &Generator{shard: shard, layout: config.Layout, limits: config.Limits, clock: config.Clock}
	if g.clock == nil {
		g.clock = SystemClock{}
	}
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
	for {
		last := g.last.Load()
		now := g.layout.milli(g.clock.Now())
		tick, wait, err := g.limits.Next(Tick(last), now)
		if err != nil {
			return 0, err
		}
		if !g.last.CompareAndSwap(last, int64(tick)) {
			continue
		}
		if wait > 0 {
			if err := g.clock.Sleep(ctx, wait); err != nil {
				return 0, err
			}
		}
		return tick.ID(g.shard), nil
	}
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
