package pgid_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nextid/postgres-ids/pgid"
)

// A burst waits for the clock at the pace of the format, and gives up with ctx.
func TestLeaseBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := acquire(t, newLeaseDB(), pgid.LeaseConfig{})
		start := time.Now()
		last := pgid.ID(-1)
		nextOf(t, l, 101*1024, &last)
		if time.Since(start) != 0 {
			t.Errorf("the lead took %s", time.Since(start))
		}
		nextOf(t, l, 1, &last)
		if time.Since(start) != ms {
			t.Errorf("the next one waited %s", time.Since(start))
		}
		nextOf(t, l, 1023, &last)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if id, err := l.Next(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%d, %v", id, err)
		}
		if s := l.Stats(); s.Issued != 102*1024 || s.Waits != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// An ID that was drawn and waits for the clock is not issued once the lease has ended.
func TestLeaseEndsWhileNextWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newLeaseDB()
		l := acquire(t, db, pgid.LeaseConfig{})
		last := pgid.ID(-1)
		nextOf(t, l, 101*1024, &last)
		got := make(chan error)
		go func() {
			_, err := l.Next(context.Background())
			got <- err
		}()
		synctest.Wait() // it waits
		_ = l.Release(t.Context())
		if err := <-got; !errors.Is(err, pgid.ErrClosed) {
			t.Errorf("%v", err)
		}
	})
}

func TestAcquireLeaseErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config pgid.LeaseConfig
		change func(db *leaseDB)
		want   error
	}{
		"window too small":     {config: pgid.LeaseConfig{Window: 99 * ms}, want: pgid.ErrOutOfRange},
		"window too large":     {config: pgid.LeaseConfig{Window: time.Hour + ms}, want: pgid.ErrOutOfRange},
		"no whole ms":          {config: pgid.LeaseConfig{Window: 200*ms + 1}, want: pgid.ErrOutOfRange},
		"negative time-out":    {config: pgid.LeaseConfig{RenewTimeout: -1}, want: pgid.ErrOutOfRange},
		"none free":            {change: func(db *leaseDB) { db.until = 1 << 50 }, want: pgid.ErrPoolExhausted},
		"an old schema":        {change: func(db *leaseDB) { db.version = 2 }, want: pgid.ErrNotInstalled},
		"a shard out of range": {change: func(db *leaseDB) { db.answer = func(r *leaseRow) { r.shard = 8192 } }, want: pgid.ErrBadAnswer},
		"no fence":             {change: func(db *leaseDB) { db.answer = func(r *leaseRow) { r.fence = 0 } }, want: pgid.ErrBadAnswer},
		"empty":                {change: func(db *leaseDB) { db.answer = func(r *leaseRow) { r.until = r.from } }, want: pgid.ErrBadAnswer},
		"too large":            {change: func(db *leaseDB) { db.answer = func(r *leaseRow) { r.until++ } }, want: pgid.ErrBadAnswer},
		"before the epoch":     {change: func(db *leaseDB) { db.answer = func(r *leaseRow) { r.from = -1 } }, want: pgid.ErrBadAnswer},
		"past the end":         {change: func(db *leaseDB) { db.answer = func(r *leaseRow) { r.from, r.until = 1<<50-1, 1<<50+1 } }, want: pgid.ErrBadAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newLeaseDB()
			if c.change != nil {
				c.change(db)
			}
			l, err := pgid.NewClient(db).AcquireLease(t.Context(), "pool", c.config)
			if !errors.Is(err, c.want) || l != nil {
				t.Errorf("%v, %v, want %v", l, err, c.want)
			}
		})
	}
	var tx pgx.Tx = struct{ pgx.Tx }{}
	if _, err := pgid.NewClient(tx).AcquireLease(t.Context(), "pool", pgid.LeaseConfig{}); err == nil {
		t.Error("acquired in a transaction")
	}
}

// With Wait, a lease is acquired as soon as a window is over, or not when ctx is.
func TestAcquireLeaseWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newLeaseDB()
		start := time.Now()
		first := acquire(t, db, pgid.LeaseConfig{})
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := pgid.NewClient(db).AcquireLease(ctx, "pool", pgid.LeaseConfig{Wait: true})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, pgid.ErrPoolExhausted) {
			t.Errorf("%v", err)
		}
		second := acquire(t, db, pgid.LeaseConfig{Wait: true, Holder: "me"})
		if waited := time.Since(start); waited < 10*time.Second || waited > 12*time.Second {
			t.Errorf("waited %s", waited)
		}
		if db.heldBy() != "me" || second.Fence() != 2 {
			t.Errorf("holder %q, fence %d", db.heldBy(), second.Fence())
		}
	})
}

// After a release that failed, another may succeed.
func TestLeaseReleaseAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newLeaseDB()
		l := acquire(t, db, pgid.LeaseConfig{})
		away := errors.New("away")
		db.set(func() { db.fail = away })
		if err := l.Release(t.Context()); !errors.Is(err, away) {
			t.Errorf("release: %v", err)
		}
		if _, err := l.Next(t.Context()); !errors.Is(err, pgid.ErrClosed) {
			t.Errorf("Next: %v", err)
		}
		db.set(func() { db.fail = nil })
		if err := l.Release(t.Context()); err != nil || db.heldBy() != "" {
			t.Errorf("release: %v, holder %q", err, db.heldBy())
		}
	})
}
