package pgid

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// The defaults of an [AllocatorConfig].
const (
	// A range costs the database the same whatever its size. 64 ticks are a sixteenth
	// of a millisecond: a thousand allocators may hold and drop that many every second
	// and the shard does not run ahead of its clock.
	defaultMinRange = 64

	// As old as max_wait, so that an ID is labelled no further behind the clock than
	// a caller of next_id may have to wait for one.
	defaultMaxAge = time.Second

	// Longer than the database takes to say ErrShardBusy, 5 to 10 s.
	defaultFetchTimeout = 15 * time.Second
)

// AllocatorConfig configures an [Allocator]. Its zero value works.
type AllocatorConfig struct {
	// MinRange and MaxRange bound how many IDs are reserved at once; within them the
	// size follows demand. Zero is 64 for MinRange, and for MaxRange half of what the
	// database's max_lead allows (51,200 for 100 ms): two ranges then fit the lead, so
	// that a shard gives all that it can without a fetch waiting in the server. What
	// exceeds the database's own bound, 1024 times max_lead, is cut to it.
	MinRange, MaxRange int

	// MaxAge is how long after its reservation an ID may be handed out. Zero is 1 s.
	MaxAge time.Duration

	// FetchTimeout ends a fetch that the database does not answer. Zero is 15 s.
	FetchTimeout time.Duration
}

// resolve puts the defaults in, but for MaxRange, which depends on the database.
func (c AllocatorConfig) resolve() (AllocatorConfig, error) {
	for name, n := range map[string]int{"MinRange": c.MinRange, "MaxRange": c.MaxRange} {
		if n < 0 || n > math.MaxInt32 {
			return c, fmt.Errorf("%w: %s %d: use 1 to %d, or 0 for the default", ErrOutOfRange, name, n, math.MaxInt32)
		}
	}
	for name, d := range map[string]time.Duration{"MaxAge": c.MaxAge, "FetchTimeout": c.FetchTimeout} {
		if d < 0 {
			return c, fmt.Errorf("%w: %s %s: use more than 0, or 0 for the default", ErrOutOfRange, name, d)
		}
	}
	if c.MinRange == 0 {
		c.MinRange = defaultMinRange
		if c.MaxRange != 0 {
			c.MinRange = min(c.MinRange, c.MaxRange)
		}
	}
	if c.MaxRange != 0 && c.MaxRange < c.MinRange {
		return c, fmt.Errorf("%w: MaxRange %d is below MinRange %d", ErrOutOfRange, c.MaxRange, c.MinRange)
	}
	if c.MaxAge == 0 {
		c.MaxAge = defaultMaxAge
	}
	if c.FetchTimeout == 0 {
		c.FetchTimeout = defaultFetchTimeout
	}
	return c, nil
}

// An Allocator hands out IDs of one shard from ranges that it reserves in the
// database: a fetch for thousands of IDs, the next one in the background before the
// present range is used up. Its IDs never repeat, and strictly increase: a call that
// starts after another returned gets a larger ID.
//
// That order is the allocator's own. Between two allocators of a shard, or one and
// [Client.NextID], IDs are unique, and out of order by up to MaxAge. An ID's time may
// be as far behind the clock, and as far ahead of it as any ID's of the shard; and
// for as long, IDs of a shard that was retired meanwhile may still be handed out.
//
// What is reserved and not handed out is dropped, and leaves a gap: when it is older
// than MaxAge, also if the process was frozen meanwhile; and when a fetch fails in a
// way that leaves the database's state in doubt, so that nothing cached survives a
// failover that a fetch has noticed. (MaxAge goes by the monotonic clock, which on
// Linux stands still while the machine is suspended.)
//
// An Allocator is safe for concurrent use. It takes no lock to hand out an ID, and
// while it is not called it fetches nothing. Close it when done.
type Allocator struct {
	client *Client
	shard  Shard
	config AllocatorConfig // MaxRange 0: by the database's max_lead

	current atomic.Pointer[window] // never nil

	// An ID that was taken from a window and found too old: claimed, yet not handed out.
	tooOld atomic.Int64

	ctx    context.Context // of all fetches; ended by Close
	cancel context.CancelFunc
	group  sync.WaitGroup // the fetch that runs

	mu     sync.Mutex // guards what follows; never held across a round trip
	closed bool
	next   *window       // fetched ahead, or nil
	fetch  *fetch        // running, or nil
	size   int           // of the next fetch, if the bounds allow
	took   time.Duration // by the last fetch
	high   Tick          // the last tick of the last range that was accepted
	stats  AllocatorStats
}

// A window is a range being handed out. Its cursor only grows, and the windows that
// become current only rise: whoever loads current after another call returned, loads
// the same window or a later one. So no window needs to be locked while the next
// replaces it; a call that still holds an old one began before the swap.
type window struct {
	cursor  atomic.Int64 // how many IDs were claimed; beyond n: it is used up
	n       int64
	first   Tick
	started time.Time   // before the reservation was sent; monotonic
	ahead   int64       // claiming this one asks for the next range
	asked   atomic.Bool // the next range was asked for
	since   time.Time   // when it became current; guarded by Allocator.mu
}

// closedCursor is beyond any claim: a window whose cursor is there hands out nothing.
const closedCursor = 1 << 62

// NewAllocator returns an allocator of a shard's IDs. It does not talk to the
// database yet. The client's Querier must be safe for use by a fetch in the
// background: a pool, or a connection that nothing else uses. A transaction is
// refused, because a range must not be handed out before its reservation is committed.
//
// It returns [ErrOutOfRange] for a shard or a configuration outside its range.
func NewAllocator(client *Client, shard Shard, config AllocatorConfig) (*Allocator, error) {
	if err := shard.check(); err != nil {
		return nil, err
	}
	config, err := config.resolve()
	if err != nil {
		return nil, err
	}
	if _, ok := client.db.(pgx.Tx); ok {
		return nil, errInTransaction
	}
	a := &Allocator{client: client, shard: shard, config: config, size: config.MinRange, high: noTick}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	a.current.Store(new(window))
	return a, nil
}

var errInTransaction = errors.New("pgid: an Allocator cannot reserve in a transaction: make its client with the pool")

// Next returns an ID of the shard, larger than all that this allocator has handed
// out before. It waits only if a range has yet to arrive, and then until ctx ends at
// most; the fetch goes on for others.
//
// It returns the errors of [Client.Reserve] if the fetch that it waited for failed;
// [ErrStateLost]; [ErrStale]; [ErrClosed]; and ctx's error. None of them sticks but
// ErrClosed: the next call that needs a range fetches anew.
func (a *Allocator) Next(ctx context.Context) (ID, error) {
	w := a.current.Load()
	if id, ok := a.take(w); ok {
		return id, nil
	}
	return a.wait(ctx, w)
}

// take claims the next ID of a window. It is not ok if the window is used up, closed
// or too old, and can then not become usable again.
func (a *Allocator) take(w *window) (ID, bool) {
	i := w.cursor.Add(1) - 1
	if i >= w.n {
		return 0, false
	}
	// The age is read after the claim: a process that was frozen anywhere before
	// this line finds out here.
	age := time.Since(w.started)
	if age > a.config.MaxAge {
		a.tooOld.Add(1)
		return 0, false
	}
	// Half the age is up: whoever calls seldom need not wait either.
	if i == w.ahead || age > a.config.MaxAge/2 {
		a.prefetch(w)
	}
	return (w.first + Tick(i)).ID(a.shard), true
}

// Close ends the fetch in the background, if one runs, and waits for its end. What
// is left of the ranges is dropped. Next then returns [ErrClosed], also in calls that
// wait. It may be called more than once.
func (a *Allocator) Close() {
	a.mu.Lock()
	a.closed = true
	a.dropAll()
	a.mu.Unlock()
	a.cancel()
	a.group.Wait()
}
