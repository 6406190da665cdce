package doctor

import (
	"context"
	"time"
)

const (
	year     = 365*24*time.Hour + 6*time.Hour
	minYears = 2 * year

	afterTheEnd = "plan the move to a database with a later epoch (pgid.configure, before its first shard is created)"
)

// checkYears says how long IDs last: 2^40 ms from the epoch, or from where a shard was
// raised to.
func (e *exam) checkYears(_ context.Context) error {
	end := e.timeOf(endOfTicks)
	left := end.Sub(e.clock.now())
	switch {
	case left <= 0:
		e.add(Error, "if the server's clock is wrong, correct it; else "+afterTheEnd, "the time of IDs ended at %s (ID004)", end.Format(time.RFC3339))
		return nil
	case left < minYears:
		e.add(Warning, afterTheEnd, "IDs end (ID004) in %.1f years, at %s", years(left), end.Format(time.RFC3339))
		return nil
	}
	before := len(e.findings)
	for _, s := range e.shards {
		tick := s.floor()
		if s.Retired || s.stopped() || end.Sub(e.timeOf(tick)) >= minYears {
			continue
		}
		e.add(Warning, "use another shard", "shard %d was raised to %s and has %d IDs left", s.Number, e.timeOf(tick).Format(time.RFC3339), endOfTicks-1-tick)
	}
	if len(e.findings) == before {
		e.ok("IDs last for %.1f years, until %s", years(left), end.Format(time.DateOnly))
	}
	return nil
}

func years(d time.Duration) float64 { return float64(d) / float64(year) }
