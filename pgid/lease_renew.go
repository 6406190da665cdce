package pgid

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// keep renews the lease until it ends: at each third of its window, and sooner after
// a renewal that failed.
func (l *Lease) keep(ctx context.Context) {
	third := l.config.Window / 3
	soon := max(third/16, 5*time.Millisecond)
	delay, retry := third, soon
	for {
		select {
		case <-time.After(jitter(delay)):
		case <-l.done:
			return
		}
		if err := l.renew(ctx); err == nil {
			delay, retry = third, soon
		} else {
			delay, retry = retry, min(2*retry, third)
		}
	}
}

// jitter is about d, 3/4 to 5/4 of it: those who started together part.
func jitter(d time.Duration) time.Duration { return d*3/4 + rand.N(d/2+1) }

// renew asks for a further window, once. An answer that ends the lease does so.
func (l *Lease) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.config.RenewTimeout)
	defer cancel()
	var (
		w   leaseWindow
		now int64
	)
	err := l.client.db.QueryRow(ctx,
		"SELECT from_tick, until_tick, now_ms FROM pgid.renew_lease($1::integer, $2::bigint, $3::integer)",
		int32(l.shard), l.fence, l.config.windowMS()).Scan((*int64)(&w.from), (*int64)(&w.until), &now)
	if err != nil {
		err = Error(err)
	}
	read := l.config.read()

	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.grant.Load()
	if g.ended != nil {
		return g.ended
	}
	if err == nil {
		err = l.check(w, g.until, now)
	}
	l.failure = err
	if err != nil {
		l.counters.failedRenewals.Add(1)
		if reason := l.reasonToEnd(err); reason != nil {
			l.end(reason)
		}
		return err
	}
	l.counters.renewals.Add(1)
	l.grant.Store(&leaseGrant{
		windows: g.windows.add(w, Tick(l.last.Load())),
		nowMS:   now,
		read:    read,
		until:   w.until,
	})
	return nil
}

// check refuses an answer that cannot be, given the end of the windows before it.
func (l *Lease) check(w leaseWindow, until Tick, now int64) error {
	switch {
	case w.from < until:
		return fmt.Errorf("%w: it granted shard %d up to tick %d, and now from %d", ErrStateLost, l.shard, until, w.from)
	case !w.isSane(l.config, now):
		return fmt.Errorf("%w: ticks %d to %d of shard %d at %d ms", ErrBadAnswer, w.from, w.until, l.shard, now)
	}
	return nil
}

// reasonToEnd is why a renewal that failed ends the lease; nil if the next one may
// succeed.
func (l *Lease) reasonToEnd(err error) error {
	switch {
	case errors.Is(err, ErrLeaseLost), errors.Is(err, ErrStateLost), errors.Is(err, ErrBadAnswer):
		return err
	case errors.Is(err, ErrShardRetired):
		return fmt.Errorf("%w: %w", ErrLeaseLost, err)
	}
	return nil
}
