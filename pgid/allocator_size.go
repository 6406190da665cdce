package pgid

import (
	"math"
	"time"
)

// rangeTime is how long a range is to last at the present demand: long enough to hide
// a round trip, short enough that little is dropped when demand ends. It is half of
// the default max_lead: at the most that a shard can give, 1,024 IDs a millisecond,
// this range and the one fetched meanwhile fill the lead and do not exceed it.
const rangeTime = 50 * time.Millisecond

// adapt sets the size of the next fetch by how fast w is being used: so that a range
// lasts for rangeTime, or two fetches if these are slow. A step is at most eightfold
// up and fourfold down from w's own size. a.mu is held.
func (a *Allocator) adapt(w *window) {
	claimed := w.cursor.Load()
	if claimed == 0 || claimed >= closedCursor || w.n == 0 {
		return // it says nothing, or has said it
	}
	used := min(claimed, w.n)
	lasts := min(max(rangeTime, 2*a.took), max(rangeTime, a.config.MaxAge/2))
	elapsed := max(time.Since(w.since), 1)
	// In floating point, because the product of two large integers may overflow.
	wanted := float64(used) * float64(lasts) / float64(elapsed)
	wanted = min(max(wanted, float64(w.n)/4), float64(w.n)*8)
	a.size = int(min(max(wanted, float64(a.config.MinRange)), math.MaxInt32))
}

// bound is a size within the bounds of the configuration and the database.
func (a *Allocator) bound(limits Limits, size int) int {
	most := int(min(limits.law().maxCount(), math.MaxInt32))
	if a.config.MaxRange != 0 {
		most = min(most, a.config.MaxRange)
	} else {
		most = max(most/2, min(most, a.config.MinRange))
	}
	return min(size, most)
}

// retire ends a window: from now on it hands out nothing, and what is left of it is
// dropped. It may be retired already. a.mu is held.
func (a *Allocator) retire(w *window) {
	a.adapt(w)
	claimed := w.cursor.Swap(closedCursor)
	if claimed >= closedCursor {
		return
	}
	used := min(claimed, w.n)
	a.stats.HandedOut += used
	a.stats.Dropped += w.n - used
}

// drop drops a window that never became current, if there is one: the ranges were
// too large. a.mu is held.
func (a *Allocator) drop(w *window) {
	if w == nil {
		return
	}
	a.stats.Dropped += w.n
	a.size = max(a.config.MinRange, min(a.size, int(w.n/4)))
}

// dropAll drops whatever is cached. a.mu is held.
func (a *Allocator) dropAll() {
	a.retire(a.current.Load())
	a.drop(a.next)
	a.next = nil
}
