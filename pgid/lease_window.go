package pgid

import (
	"slices"
	"time"
)

// The pure part of a lease: which tick comes next, given the windows granted.

// A leaseWindow is a run of a shard's ticks that one lease alone may issue.
type leaseWindow struct {
	from, until Tick // from is part of it, until is not
}

// leaseWindows are the windows granted, ascending and apart: those that follow each
// other without a gap are one.
type leaseWindows []leaseWindow

// mostWindows bounds the list. A gap comes of a lease that had expired, or an answer
// that never arrived, and what lies before a few of them is in the past.
const mostWindows = 16

// next is the law for a shard whose ticks must be of the windows: it returns the
// smallest of them that is
//
//	max(last + 1, now << 10)
//
// or more, and how long to wait before issuing it. It returns the errors of
// [Limits.Next], and [ErrLeaseExpired] if the windows end before.
func (ws leaseWindows) next(l law, last Tick, now int64) (Tick, time.Duration, error) {
	for _, w := range ws {
		floor := max(last, w.from-1)
		if floor >= w.until-1 {
			continue
		}
		tick, wait, err := l.next(floor, now, 1)
		if err != nil {
			return 0, 0, err
		}
		if tick < w.until {
			return tick, wait, nil
		}
	}
	return 0, 0, ErrLeaseExpired
}

// add returns the windows with one more, which must not start before the end of the
// last one, and without those that are used up: last is the last tick issued. What
// it is called on is left as it is, for others may be reading it.
func (ws leaseWindows) add(w leaseWindow, last Tick) leaseWindows {
	ws = slices.DeleteFunc(slices.Clone(ws), func(old leaseWindow) bool { return old.until <= last+1 })
	switch n := len(ws); {
	case w.until <= w.from: // nothing was granted
	case n > 0 && ws[n-1].until == w.from:
		ws[n-1].until = w.until
	default:
		ws = append(ws, w)
	}
	if n := len(ws) - mostWindows; n > 0 {
		ws = slices.Delete(ws, 0, n)
	}
	return ws
}
