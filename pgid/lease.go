package pgid

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A Lease makes IDs of one shard in this process, without asking the database for each:
// the shard was granted to it, out of a pool of shards set apart for that
// (pgid.create_pool in SQL), and with it a window of the shard's ticks that nobody else
// is ever given. Its IDs never repeat, and strictly increase: a call that starts after
// another returned gets a larger ID, and a later holder's IDs of the shard are larger
// than all of an earlier one.
//
// None of that depends on a clock. A process that was frozen, for however long, whose
// clock steps or runs wrong, still issues IDs of its own windows only. What the clock
// decides is an ID's time and when to stop: the Lease carries the database's clock, as
// read with each grant, forward by the machine's monotonic one, and never reads the
// wall clock. So an ID's time is behind the database's clock by at most the time that
// an answer travels, and ahead of it by at most max_lead, while the two run at one
// pace. (On Linux the monotonic clock stands still while the machine is suspended:
// after that, IDs are as late until the next renewal.)
//
// The Lease renews itself in the background at each third of its window. While the
// database is away, it goes on to the end of the window, then returns [ErrLeaseExpired]
// until a renewal succeeds. Once it is lost it issues nothing more: see [Lease.Done].
//
// A Lease is safe for concurrent use. It takes no lock to issue an ID: callers compete
// by compare-and-swap. Release it when done.
type Lease struct {
	client *Client
	config LeaseConfig
	shard  Shard
	fence  int64
	layout Layout
	law    law
	grant  atomic.Pointer[leaseGrant] // never nil

	_        [64]byte     // what each call writes has a cache line apart from what each reads
	last     atomic.Int64 // the last tick issued
	counters leaseCounters
	_        [64]byte

	done   chan struct{}      // closed when the lease has ended
	cancel context.CancelFunc // of the renewal under way
	group  sync.WaitGroup     // what runs in the background

	mu       sync.Mutex // guards changes of grant, and what follows
	failure  error      // of the last renewal, if it failed
	released bool       // the database knows
}

// A leaseGrant is what the last answer of the database comes to. It never changes;
// the next answer, or the end of the lease, puts another in its place. Who still has an
// old one at hand issues ticks of windows that were granted all the same.
type leaseGrant struct {
	windows leaseWindows
	nowMS   int64       // the database's clock, in milliseconds since the epoch,
	read    time.Time   // at this time of the lease's own
	until   Tick        // the end of all windows up to now
	ended   error       // why nothing is issued any more
	expired atomic.Bool // Next found the windows over
}

// Next returns the lease's next ID, larger than all before it. If it leads the clock
// by more than the database's max_lead, Next first waits for the rest, at most max_wait.
//
// It returns [ErrLeaseExpired] while the window is over and not renewed; what
// [Lease.Err] returns, [ErrLeaseLost] or [ErrClosed] for example, once the lease has
// ended; [ErrClockBehind] and [ErrTimeExhausted] as [Limits.Next] does; and ctx's
// error if ctx ends while it waits, when the ID it had drawn is lost, a gap.
func (l *Lease) Next(ctx context.Context) (ID, error) {
	for {
		g := l.grant.Load()
		if g.ended != nil {
			return 0, g.ended
		}
		last := l.last.Load()
		tick, wait, err := g.windows.next(l.law, Tick(last), l.now(g))
		if err != nil {
			return 0, l.refuse(g, err)
		}
		if !l.last.CompareAndSwap(last, int64(tick)) {
			continue
		}
		if wait > 0 {
			if err := l.wait(ctx, wait); err != nil {
				return 0, err
			}
		}
		l.counters.issued.Add(1)
		return tick.ID(l.shard), nil
	}
}

// now is the database's clock as far as the lease knows it, in milliseconds since the
// epoch.
func (l *Lease) now(g *leaseGrant) int64 {
	if l.config.Clock == nil {
		return g.nowMS + time.Since(g.read).Milliseconds()
	}
	return g.nowMS + l.config.Clock.Now().Sub(g.read).Milliseconds()
}

// read reads the lease's own clock.
func (c LeaseConfig) read() time.Time {
	if c.Clock == nil {
		return time.Now()
	}
	return c.Clock.Now()
}

// wait waits until a tick that was drawn may be issued. It is not, if the lease has
// ended by then.
func (l *Lease) wait(ctx context.Context, d time.Duration) error {
	l.counters.waits.Add(1)
	clock := l.config.Clock
	if clock == nil {
		clock = SystemClock{}
	}
	if err := clock.Sleep(ctx, d); err != nil {
		return err
	}
	return l.Err()
}

// refuse counts what Next refuses.
func (l *Lease) refuse(g *leaseGrant, err error) error {
	if err == ErrLeaseExpired { //nolint:errorlint // it comes from next as it is
		if g.expired.CompareAndSwap(false, true) {
			l.counters.expirations.Add(1)
		}
		l.mu.Lock()
		failure := l.failure
		l.mu.Unlock()
		text := "no renewal has come yet"
		if failure != nil {
			text = failure.Error() // not wrapped: a time-out of the renewal is none of Next's
		}
		err = fmt.Errorf("%w: its window of shard %d ended at %s: %s",
			ErrLeaseExpired, l.shard, l.layout.timeAt(g.until.milli()).Format(timeFormat), text)
	}
	return err
}

const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// Shard is the shard that the lease was granted.
func (l *Lease) Shard() Shard { return l.shard }

// Fence is the number of the grant, larger than that of every grant before it, of any
// shard and pool: what another system may compare to refuse a holder of yesterday.
func (l *Lease) Fence() int64 { return l.fence }

// Until is the time of the end of the last window granted, by the database's clock,
// in UTC: when the lease expires, unless it is renewed before.
func (l *Lease) Until() time.Time { return l.layout.timeAt(l.grant.Load().until.milli()) }

// Done is closed when the lease has ended: it was lost, or released. A lease that has
// merely expired has not ended.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Err says why the lease has ended; it is nil before. It matches [ErrLeaseLost] if the
// shard was granted to another holder, retired or taken out of its pool; [ErrStateLost]
// or [ErrBadAnswer] if a renewal was answered with what cannot be; and [ErrClosed] once
// it was released.
func (l *Lease) Err() error { return l.grant.Load().ended }

// end ends the lease, for the first reason given. The lock must be held.
func (l *Lease) end(reason error) {
	g := l.grant.Load()
	if g.ended != nil {
		return
	}
	l.grant.Store(&leaseGrant{until: g.until, ended: reason})
	close(l.done)
}

// Release ends the lease, and gives it back to the database: the shard is free when
// its window is over. No call of Next that starts later returns an ID. A renewal under
// way is waited for, until ctx ends. Released twice, it does nothing the second time,
// unless the first one failed.
//
// It returns [ErrLeaseLost] if the lease was lost before, and an error of the database
// or ctx if that could not be told: the lease is over all the same, and the database
// finds out at the end of its window.
func (l *Lease) Release(ctx context.Context) error {
	l.mu.Lock()
	l.end(ErrClosed)
	l.mu.Unlock()
	stop := context.AfterFunc(ctx, l.cancel) // no sooner: it would cost a connection
	l.group.Wait()
	stop()

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return nil
	}
	var held bool
	err := l.client.db.QueryRow(ctx, "SELECT pgid.release_lease($1::integer, $2::bigint)", int32(l.shard), l.fence).Scan(&held)
	if err != nil {
		return Error(err)
	}
	l.released = true
	if !held {
		return fmt.Errorf("%w: it was not held any more when it was released", ErrLeaseLost)
	}
	return nil
}
