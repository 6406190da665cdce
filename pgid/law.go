package pgid

import (
	"fmt"
	"time"
)

// Limits bound how far a shard's ticks may lead the clock. A burst of more than
// 1024 IDs in a millisecond and a clock that stepped back are one thing here, a
// lead, and are borne by the same two numbers.
//
// The zero Limits stand for [DefaultLimits].
type Limits struct {
	MaxLead time.Duration // issue at once up to this lead: whole milliseconds, 1 ms or more
	MaxWait time.Duration // beyond it, wait for the clock up to this long: whole milliseconds, 0 or more
}

// DefaultLimits are a lead of 100 ms and a wait of 1 s.
func DefaultLimits() Limits { return Limits{MaxLead: 100 * time.Millisecond, MaxWait: time.Second} }

// check refuses unusable limits. The zero Limits are usable: see Next.
func (l Limits) check() error {
	if l == (Limits{}) {
		return nil
	}
	const most = 365 * 24 * time.Hour
	if l.MaxLead < time.Millisecond || l.MaxLead > most || l.MaxLead%time.Millisecond != 0 {
		return fmt.Errorf("%w: max lead %s: use whole milliseconds from 1ms to %s", ErrOutOfRange, l.MaxLead, most)
	}
	if l.MaxWait < 0 || l.MaxWait > most || l.MaxWait%time.Millisecond != 0 {
		return fmt.Errorf("%w: max wait %s: use whole milliseconds from 0 to %s", ErrOutOfRange, l.MaxWait, most)
	}
	return nil
}

// noTick is the last tick of a shard that has drawn none.
const noTick Tick = -1

// Next is the law of a shard, as a pure function: given the shard's last tick (-1
// if it has drawn none) and a reading of the clock in milliseconds since the epoch,
//
//	tick = max(last + 1, now << 10)
//	lead = (tick >> 10) - now
//
// It returns the tick to draw, and how long to wait before issuing it: lead -
// MaxLead, or 0. next_id in SQL follows the same law, and is tested to.
//
// It returns [ErrTimeExhausted] if the clock or the tick is past 2^40-1 ms, and
// [ErrClockBehind] if the lead exceeds MaxLead + MaxWait; then nothing is drawn. (SQL
// draws before it looks at the clock, and leaves a gap of one tick there.)
func (l Limits) Next(last Tick, now int64) (tick Tick, wait time.Duration, err error) {
	if l == (Limits{}) {
		l = DefaultLimits()
	}
	if now > maxMilli || last >= MaxTick {
		return 0, 0, ErrTimeExhausted
	}
	// No clock is that far behind; clamped, the arithmetic cannot overflow.
	now = max(now, -1<<50)
	tick = max(max(last, noTick)+1, tickAt(max(now, 0)))
	lead := tick.milli() - now
	maxLead, maxWait := l.MaxLead.Milliseconds(), l.MaxWait.Milliseconds()
	switch {
	case lead <= maxLead:
		return tick, 0, nil
	case lead <= maxLead+maxWait:
		return tick, time.Duration(lead-maxLead) * time.Millisecond, nil
	default:
		return 0, 0, &leadError{lead: lead, maxLead: maxLead, maxWait: maxWait}
	}
}

// leadError says how far a refused tick would have led the clock.
type leadError struct {
	lead, maxLead, maxWait int64 // milliseconds
}

func (e *leadError) Error() string {
	return fmt.Sprintf("%v: the next ID is %d ms ahead, more than the %d it may be and the %d waited for",
		ErrClockBehind, e.lead, e.maxLead, e.maxWait)
}

func (e *leadError) Unwrap() error { return ErrClockBehind }
