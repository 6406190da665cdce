package pgid

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// A fetch is one reservation under way, and what its waiters wait for.
type fetch struct {
	done chan struct{} // closed at the end
	err  error         // to be read after done
}

// wait is Next once w has nothing more to give: it has w replaced, and waits for the
// fetch that this may take.
func (a *Allocator) wait(ctx context.Context, w *window) (ID, error) {
	if err := ctx.Err(); err != nil {
		return 0, err // rather than start a fetch for nobody
	}
	const tries = 3 // one stale range is a pause of this process or the server, three are a rule
	waited, stale := false, 0
	for {
		f, err := a.replace(w, !waited)
		if err != nil {
			return 0, err
		}
		if f != nil {
			waited = true
			select {
			case <-f.done:
			case <-ctx.Done():
				return 0, ctx.Err()
			}
			switch {
			case f.err == nil:
			case errors.Is(f.err, ErrStale) && stale < tries-1:
				stale++
			default:
				return 0, f.err
			}
		}
		w = a.current.Load()
		if id, ok := a.take(w); ok {
			return id, nil
		}
	}
}

// replace puts the next window in the place of w, which has nothing more to give. If
// there is none, it returns the fetch to wait for, starting it if need be.
func (a *Allocator) replace(w *window, count bool) (*fetch, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, ErrClosed
	}
	if a.current.Load() != w {
		return nil, nil // somebody has
	}
	a.retire(w)
	if next := a.next; next != nil {
		a.next = nil
		if time.Since(next.started) <= a.config.MaxAge {
			next.since = time.Now()
			a.current.Store(next)
			return nil, nil
		}
		a.drop(next)
	}
	if a.fetch == nil {
		a.startFetch()
	}
	if count {
		a.stats.Waits++
	}
	return a.fetch, nil
}

// prefetch asks for the range after w, once for each w. If that fails, whoever finds
// w used up asks again.
func (a *Allocator) prefetch(w *window) {
	if w.asked.Load() || w.asked.Swap(true) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.current.Load() != w || a.next != nil || a.fetch != nil {
		return
	}
	a.adapt(w)
	a.startFetch()
}

// startFetch fetches in the background, on behalf of all waiters and of none: only
// the allocator's own context ends it. a.mu is held.
func (a *Allocator) startFetch() {
	f := &fetch{done: make(chan struct{})}
	a.fetch = f
	a.stats.Fetches++
	size := a.size
	a.group.Go(func() {
		ctx, cancel := context.WithTimeout(a.ctx, a.config.FetchTimeout)
		defer cancel()
		w, err := a.reserve(ctx, size)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("pgid: no range from the database within %s: %w", a.config.FetchTimeout, err)
		}
		a.finish(f, w, err)
	})
}

// reserve reserves a window of size ticks, or what the bounds make of that.
func (a *Allocator) reserve(ctx context.Context, size int) (*window, error) {
	settings, err := a.client.Settings(ctx)
	if err != nil {
		return nil, err
	}
	w, err := a.reserveWithin(ctx, settings.Limits, size)
	if !errors.Is(err, ErrOutOfRange) {
		return w, err
	}
	// The owner may have lowered max_lead since the settings were read.
	fresh, refreshErr := a.client.Refresh(ctx)
	if refreshErr != nil || fresh.Limits == settings.Limits {
		return nil, err
	}
	return a.reserveWithin(ctx, fresh.Limits, size)
}

func (a *Allocator) reserveWithin(ctx context.Context, limits Limits, size int) (*window, error) {
	started := time.Now() // before the request is sent
	r, err := a.client.Reserve(ctx, a.shard, a.bound(limits, size))
	if err != nil {
		return nil, err
	}
	n := int64(r.Len())
	return &window{n: n, first: r.First.Tick(), started: started, ahead: n / 4}, nil
}

// finish takes what a fetch brought, and wakes who waits for it.
func (a *Allocator) finish(f *fetch, w *window, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fetch = nil
	switch {
	case a.closed:
		a.drop(w)
		f.err = ErrClosed
	case err != nil:
		f.err = err
		if inDoubt(err) {
			a.dropAll()
		}
	case w.first <= a.high:
		f.err = fmt.Errorf("%w: after %d of shard %d it gave %d",
			ErrStateLost, a.high.ID(a.shard), a.shard, w.first.ID(a.shard))
		a.drop(w)
		a.dropAll()
	default:
		a.high = w.first + Tick(w.n-1)
		a.took = time.Since(w.started)
		if a.took > a.config.MaxAge {
			a.drop(w)
			f.err = fmt.Errorf("%w: %s after its reservation, allowed are %s", ErrStale, a.took, a.config.MaxAge)
			break
		}
		a.next = w
	}
	if f.err != nil && !a.closed {
		a.stats.FailedFetches++
	}
	close(f.done)
}

// inDoubt reports whether an error leaves open if the database still has the state
// that the cached ranges were reserved in: no answer, a server that goes down or has
// become a standby, a shard that is gone, an answer that makes no sense. What a server
// in its senses refuses, such as ErrClockBehind, casts no doubt.
func inDoubt(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return true
	}
	switch {
	case errors.Is(err, ErrNoShard), errors.Is(err, ErrShardRetired), errors.Is(err, ErrNotInstalled):
		return true
	case strings.HasPrefix(pg.Code, "08"), // connection exceptions
		strings.HasPrefix(pg.Code, "57P0"), // shutdown, crash, cannot connect now
		pg.Code == "25006":                 // read-only: a standby
		return true
	}
	return false
}
