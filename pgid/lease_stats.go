package pgid

import "sync/atomic"

// LeaseStats count what a [Lease] has done since it was acquired. They only grow, and
// suit a counter of expvar or Prometheus each.
type LeaseStats struct {
	Issued         int64 // IDs that Next returned
	Waits          int64 // calls of Next that waited for the clock
	Expirations    int64 // times that Next first found the window over, and not yet renewed
	Renewals       int64 // renewals that succeeded
	FailedRenewals int64 // renewals that brought an error, but for Release's
}

type leaseCounters struct {
	issued, waits, expirations, renewals, failedRenewals atomic.Int64
}

// Stats returns the counts up to now. Calls that run meanwhile may be counted in part.
func (l *Lease) Stats() LeaseStats {
	c := &l.counters
	return LeaseStats{
		Issued:         c.issued.Load(),
		Waits:          c.waits.Load(),
		Expirations:    c.expirations.Load(),
		Renewals:       c.renewals.Load(),
		FailedRenewals: c.failedRenewals.Load(),
	}
}
