package pgid

import (
	"cmp"
	"fmt"
	"os"
	"time"
)

// The bounds of a lease's window, as the database has them, and its default.
const (
	minLeaseWindow     = 100 * time.Millisecond
	maxLeaseWindow     = time.Hour
	defaultLeaseWindow = 10 * time.Second
)

// LeaseConfig configures a [Lease]. Its zero value works.
type LeaseConfig struct {
	// Holder is what the database shows of who holds the lease; nothing depends on it.
	// Empty is the host's name and the process's number.
	Holder string

	// Window is how far past the database's clock a grant reaches: so long the lease
	// issues IDs while the database is away, and so long a shard stays taken when its
	// holder ends without giving it back. Whole milliseconds, 100 ms to 1 h; zero is 10 s.
	// The lease is renewed each third of it.
	Window time.Duration

	// RenewTimeout ends a renewal that the database does not answer. Zero is a third
	// of Window, but 1 s at least.
	RenewTimeout time.Duration

	// Wait makes AcquireLease wait for a shard while none of the pool is free, until
	// its context ends. It asks again each tenth of Window, 100 ms at least.
	Wait bool

	// Clock is what carries the database's clock forward between renewals, and waits
	// for it: only the difference of two readings is used. Nil is the system's
	// monotonic clock. Whatever it shows, IDs stay unique; their time goes wrong with it.
	Clock Clock
}

// resolve puts the defaults in.
func (c LeaseConfig) resolve() (LeaseConfig, error) {
	c.Window = cmp.Or(c.Window, defaultLeaseWindow)
	if c.Window < minLeaseWindow || c.Window > maxLeaseWindow || c.Window%time.Millisecond != 0 {
		return c, fmt.Errorf("%w: a lease's window of %s: use whole milliseconds from %s to %s",
			ErrOutOfRange, c.Window, minLeaseWindow, maxLeaseWindow)
	}
	if c.RenewTimeout < 0 {
		return c, fmt.Errorf("%w: RenewTimeout %s: use more than 0, or 0 for the default", ErrOutOfRange, c.RenewTimeout)
	}
	c.RenewTimeout = cmp.Or(c.RenewTimeout, max(c.Window/3, time.Second))
	if c.Holder == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown host"
		}
		c.Holder = fmt.Sprintf("%s (pid %d)", host, os.Getpid())
	}
	return c, nil
}
