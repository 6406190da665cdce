package postgresids_test

import (
	"math/rand/v2"
	"time"

	"github.com/nextid/postgres-ids/pgid"
)

// traceEnd is the millisecond after the last one of the format.
const traceEnd = 1 << 40

// A step of a trace is one call, and what the clock shows it.
type step struct {
	now     int64 // the clock, in microseconds since the epoch
	count   int   // of a batch; 0 is a single call
	reserve bool  // a batch by reserve, not by next_ids
}

// tracer makes a trace, and follows the law to know what it leads to.
type tracer struct {
	random *rand.Rand
	now    int64 // milliseconds since the epoch
	last   pgid.Tick
	steps  []step
}

// randomTrace is a sequence of calls.
func randomTrace(random *rand.Rand) []step {
	tr := &tracer{random: random, last: -1}
	tr.now = []int64{0, 3, 29_000_000_000, traceEnd - 1200, -100}[random.IntN(5)]
	for range 20 + random.IntN(40) {
		calls := tr.move()
		for range calls {
			count := 0
			if calls < 100 { // an overflow is of single calls
				count = tr.pickCount()
			}
			tr.call(count)
		}
	}
	if random.IntN(8) == 0 {
		tr.toTheEnd()
	}
	return tr.steps
}

// move moves the clock, and says how many calls it then stands for.
func (tr *tracer) move() (calls int) {
	random := tr.random
	switch random.IntN(24) {
	case 0, 1, 2, 3, 4, 5, 6, 7: // the clock stands: more of this millisecond
		return 1 + random.IntN(8)
	case 8, 9, 10, 11, 12:
		tr.now++
	case 13, 14:
		tr.now += random.Int64N(50)
	case 15:
		tr.now += random.Int64N(5000)
	case 16, 17, 18: // back, within the lead
		tr.now -= random.Int64N(60)
	case 19: // back, to about the lead's end
		tr.now -= 98 + random.Int64N(5)
	case 20: // back, to where a call is refused
		tr.now -= 1101 + random.Int64N(5000)
	case 21: // forth again
		tr.now += 1101 + random.Int64N(5000)
	case 22: // overflow: more than 1024 in a millisecond
		if random.IntN(6) == 0 {
			tr.now += 200
			return 1000 + random.IntN(200)
		}
	case 23: // at the end of time, and beyond
		if tr.now > traceEnd/2 {
			tr.now = traceEnd - random.Int64N(3)
		}
	}
	return 1
}

// pickCount is how much the next call asks for: mostly one, and among the batches
// mostly few, but also such that the last tick comes to each side of a limit.
func (tr *tracer) pickCount() int {
	random := tr.random
	most := int(pgid.DefaultLimits().MaxLead.Milliseconds()) << pgid.SeqBits
	switch random.IntN(60) {
	case 0, 1, 2, 3, 4, 5:
		return 1 + random.IntN(10)
	case 6, 7, 8, 9: // often across a millisecond
		return 1 + random.IntN(3000)
	case 10:
		if random.IntN(8) == 0 {
			return []int{most, most - 1, 1 + random.IntN(most)}[random.IntN(3)]
		}
	case 11:
		lead := []int64{100, 101, 1101, 1100}[random.IntN(4)]
		final := pgid.Tick(tr.now+lead)<<pgid.SeqBits + []pgid.Tick{0, pgid.Tick(pgid.MaxSeq)}[random.IntN(2)]
		if n := int(final - max(tr.last+1, pgid.Tick(tr.now)<<pgid.SeqBits) + 1); n >= 1 && n <= most {
			return n
		}
	}
	return 0
}

// call notes a call and what becomes of it.
func (tr *tracer) call(count int) {
	random, limits := tr.random, pgid.DefaultLimits()
	n := max(count, 1)
	first, wait, err := limits.NextN(tr.last, tr.now, n)
	if wait > 0 && (wait > 5*time.Millisecond && random.IntN(60) > 0 || random.IntN(8) > 0) {
		// SQL's sleeps are real: most are avoided, and long ones rare, or the test would take hours.
		tr.now += wait.Milliseconds() - max(0, random.Int64N(8)-5)
		first, _, err = limits.NextN(tr.last, tr.now, n)
	}
	switch {
	case err == nil:
		tr.last = first + pgid.Tick(n) - 1
	case count == 0: // a refused call burns a tick, a refused batch does not
		tr.last = min(tr.last+1, pgid.MaxTick)
	}
	micro := []int64{0, 999, random.Int64N(1000)}[random.IntN(3)]
	tr.steps = append(tr.steps, step{now: tr.now*1000 + micro, count: count, reserve: random.IntN(16) < 8 || count > 5000 && random.IntN(16) > 0})
	if err != nil && random.IntN(3) == 0 { // the clock is mended
		tr.now = min(int64(tr.last)>>pgid.SeqBits+random.Int64N(50), traceEnd-1)
	}
}

// toTheEnd draws up to the last tick there is, and one too many, before and after.
func (tr *tracer) toTheEnd() {
	tr.now = max(tr.now, traceEnd-1-tr.random.Int64N(90))
	tr.call(1 + tr.random.IntN(1000))
	left := int(pgid.MaxTick - tr.last)
	if tr.now >= traceEnd || left < 2 || left > 100*1024-1 {
		return
	}
	tr.call(left + 1)
	tr.call(left - 1)
	tr.call(2)
	tr.call(tr.random.IntN(2)) // the last one
	tr.call(1)
	tr.call(0)
}

// limitTrace goes to each side of each limit: 100 ms, and 1100 ms.
func limitTrace() []step {
	var steps []step
	call := func(ms int64, count int) {
		micro := []int64{0, 999}[len(steps)%2]
		steps = append(steps, step{now: ms*1000 + micro, count: count, reserve: len(steps)%4 < 2})
	}
	for _, ms := range []int64{5000, 4900, 4899, 4900, 3901, 3900, 3899, 5000, 3899, 3900, 4900} {
		call(ms, 0)
	}
	call(10_000, 1)      // 10,000 ms, seq 0
	call(10_000, 102400) // to 10,100, seq 0: the lead is 100 ms
	call(10_000, 1023)   // to 10,100, seq 1023
	call(10_000, 1)      // to 10,101, seq 0: 101 ms
	call(9_001, 1025)    // to 10,102, seq 1: 1101 ms, refused
	call(9_001, 1024)    // to 10,102, seq 0: the same
	call(9_001, 1023)    // to 10,101, seq 1023: 1100 ms
	call(9_002, 1)       // to 10,102, seq 0: 1100 ms
	call(10_002, 1)      // to 10,102, seq 1: 100 ms
	return steps
}
