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
	return l.law().next(last, now, 1)
}

// NextN is the law for a batch of n: it draws the ticks first to first + n - 1,
// where first is the tick that Next would draw, and the lead of the last of them
// decides about all. next_ids and reserve in SQL follow the same law.
//
// It returns [ErrOutOfRange] for an n that is not 1 to 1024 times MaxLead in
// milliseconds, and the errors of Next, for the last tick; then nothing is drawn.
func (l Limits) NextN(last Tick, now int64, n int) (first Tick, wait time.Duration, err error) {
	law := l.law()
	if err := law.checkCount(n); err != nil {
		return 0, 0, err
	}
	return law.next(last, now, int64(n))
}

// law is what Limits come to, ready for use: in milliseconds.
type law struct {
	maxLead, maxWait int64
}

func (l Limits) law() law {
	if l == (Limits{}) {
		l = DefaultLimits()
	}
	return law{maxLead: l.MaxLead.Milliseconds(), maxWait: l.MaxWait.Milliseconds()}
}

// maxCount is the largest batch: what fills the lead.
func (l law) maxCount() int64 { return l.maxLead << SeqBits }

func (l law) checkCount(n int) error {
	if n < 1 || int64(n) > l.maxCount() {
		return fmt.Errorf("%w: %d IDs at once: ask for 1 to %d", ErrOutOfRange, n, l.maxCount())
	}
	return nil
}

// next is NextN for an n within its range.
func (l law) next(last Tick, now, n int64) (first Tick, wait time.Duration, err error) {
	if now > maxMilli || last >= MaxTick {
		return 0, 0, ErrTimeExhausted
	}
	// No clock is that far behind; clamped, the arithmetic cannot overflow.
	now = max(now, -1<<50)
	first = max(max(last, noTick)+1, tickAt(max(now, 0)))
	final := first + Tick(n-1)
	lead := final.milli() - now
	switch {
	case final > MaxTick:
		return 0, 0, ErrTimeExhausted
	case lead <= l.maxLead:
		return first, 0, nil
	case lead <= l.maxLead+l.maxWait:
		return first, time.Duration(lead-l.maxLead) * time.Millisecond, nil
	default:
		return 0, 0, &leadError{lead: lead, maxLead: l.maxLead, maxWait: l.maxWait}
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
