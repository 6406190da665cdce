package pgid

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// leaseVersion is the version of the schema that brought leases.
const leaseVersion = 3

var errLeaseInTransaction = errors.New("pgid: a lease cannot be acquired in a transaction: make its client with the pool")

// AcquireLease acquires a lease of any free shard of a pool. One round trip, two for
// the first call of a client. Its context bounds the acquiring, not the lease.
//
// The client's Querier must be safe for use in the background, and each of its calls a
// transaction of its own: a pool, or a connection that nothing else uses, with which
// however the lease cannot be renewed any more once it breaks, or a renewal times out.
// A pgx.Tx is refused, because a window must not be used before its grant is committed.
//
// It returns [ErrOutOfRange] for a configuration outside its range, and from the
// database if there is no such pool; [ErrPoolExhausted] if none of its shards is free,
// unless config says to wait; [ErrClockBehind], [ErrShardBusy] and [ErrTimeExhausted] as
// the database finds; [ErrNotInstalled] if the database's schema is older than version
// 3; [ErrBadAnswer]; and what [Client.Settings] returns.
func (c *Client) AcquireLease(ctx context.Context, pool string, config LeaseConfig) (*Lease, error) {
	config, err := config.resolve()
	if err != nil {
		return nil, err
	}
	if _, ok := c.db.(pgx.Tx); ok {
		return nil, errLeaseInTransaction
	}
	settings, err := c.leaseSettings(ctx)
	if err != nil {
		return nil, err
	}
	l := &Lease{client: c, config: config, layout: settings.Layout, law: settings.Limits.law(), done: make(chan struct{})}
	l.last.Store(int64(noTick))
	for {
		err := l.acquire(ctx, pool)
		if err == nil {
			break
		}
		if !config.Wait || !mayBeFree(err) {
			return nil, err
		}
		if ctxErr := (SystemClock{}).Sleep(ctx, jitter(max(config.Window/10, askAgain))); ctxErr != nil {
			return nil, fmt.Errorf("%w: %w", ctxErr, err)
		}
	}
	background, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.group.Go(func() { l.keep(background) })
	return l, nil
}

// askAgain is the least time between two tries for a lease: those who wait are many, and the
// database has better to do.
const askAgain = 100 * time.Millisecond

// mayBeFree reports whether time alone may help whom the database refused a lease. The
// clock is behind a free shard when a grant of it was not committed.
func mayBeFree(err error) bool {
	return errors.Is(err, ErrPoolExhausted) || errors.Is(err, ErrClockBehind) || errors.Is(err, ErrShardBusy)
}

// acquire asks for a shard, once. What arrives is committed: a row is scanned when its
// transaction has ended, not before.
func (l *Lease) acquire(ctx context.Context, pool string) error {
	var (
		shard int32
		w     leaseWindow
		now   int64
	)
	err := l.client.db.QueryRow(ctx,
		"SELECT shard, fence, from_tick, until_tick, now_ms FROM pgid.acquire_lease($1::text, $2::text, $3::integer)",
		pool, l.config.Holder, l.config.windowMS()).Scan(&shard, &l.fence, (*int64)(&w.from), (*int64)(&w.until), &now)
	if err != nil {
		return Error(err)
	}
	read := l.config.read()
	l.shard = Shard(shard)
	if l.shard.check() != nil || l.fence < 1 || w.until <= w.from || !w.isSane(l.config, now) {
		return fmt.Errorf("%w: shard %d, fence %d, ticks %d to %d at %d ms", ErrBadAnswer, shard, l.fence, w.from, w.until, now)
	}
	l.grant.Store(&leaseGrant{windows: leaseWindows{w}, nowMS: now, read: read, until: w.until})
	return nil
}

// isSane reports whether a window may be one that was asked for.
func (w leaseWindow) isSane(config LeaseConfig, now int64) bool {
	return w.from >= 0 && w.until >= w.from && w.until <= MaxTick+1 &&
		w.until-w.from <= tickAt(int64(config.windowMS())) && now >= minMilli && now <= maxMilli
}

func (c LeaseConfig) windowMS() int32 { return int32(c.Window.Milliseconds()) }

// leaseSettings are the client's settings, from a schema that has leases. One that had
// none, when its settings were read, is asked again: it may have been migrated.
func (c *Client) leaseSettings(ctx context.Context) (Settings, error) {
	s, err := c.Settings(ctx)
	if err == nil && s.Version < leaseVersion {
		s, err = c.Refresh(ctx)
	}
	if err == nil && s.Version < leaseVersion {
		err = fmt.Errorf("%w: its schema has version %d, and leases came with version %d: run «pgid migrate up»",
			ErrNotInstalled, s.Version, leaseVersion)
	}
	return s, err
}
