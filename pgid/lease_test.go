package pgid_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nextid/postgres-ids/pgid"
)

// A lease issues IDs at the database's time, renews itself, and ends with a release.
func TestLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newLeaseDB()
		db.step = time.Hour // the machine's wall clock does not count
		l := acquire(t, db, pgid.LeaseConfig{})
		host, _ := os.Hostname()
		if l.Shard() != testShard || l.Fence() != 1 || !strings.HasPrefix(db.heldBy(), host+" (pid ") {
			t.Errorf("shard %d, fence %d, holder %q", l.Shard(), l.Fence(), db.heldBy())
		}
		layout, err := pgid.NewLayout(rangeEpoch)
		if err != nil {
			t.Fatal(err)
		}
		last := pgid.ID(-1)
		for range 600 { // a minute: six windows
			nextOf(t, l, 3, &last)
			// half a round trip behind the database's clock, floored
			if behind := time.Now().Add(time.Hour).Sub(layout.Time(last)); behind < 0 || behind > 2*ms {
				t.Fatalf("an ID of %s ago", behind)
			}
			if left := time.Until(l.Until().Add(-time.Hour)); left < 5*time.Second || left > 10*time.Second {
				t.Fatalf("%s are left", left)
			}
			time.Sleep(100 * ms)
		}
		if n := db.count("renew"); n < 14 || n > 24 {
			t.Errorf("%d renewals in a minute, want one each 3.3 s", n)
		}
		if err := l.Err(); err != nil {
			t.Errorf("Err is %v while the lease is held", err)
		}
		select {
		case <-l.Done():
			t.Error("Done is closed while the lease is held")
		default:
		}
		want := pgid.LeaseStats{Issued: 1800, Renewals: int64(db.count("renew"))}
		if got := l.Stats(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}

		if err := l.Release(t.Context()); err != nil || db.heldBy() != "" {
			t.Errorf("release: %v, holder %q", err, db.heldBy())
		}
		if err := l.Release(t.Context()); err != nil || db.count("release") != 1 {
			t.Errorf("released twice: %v, %d calls", err, db.count("release"))
		}
		<-l.Done()
		if id, err := l.Next(t.Context()); !errors.Is(err, pgid.ErrClosed) || !errors.Is(l.Err(), pgid.ErrClosed) {
			t.Errorf("after the release: %d, %v, %v", id, err, l.Err())
		}
		before := db.count("renew")
		time.Sleep(time.Minute)
		if db.count("renew") != before {
			t.Error("renewed after the release")
		}
	})
}

// While the database is away, IDs go on to the end of the window, and no further;
// when it is back, they go on.
func TestLeaseOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newLeaseDB()
		start := time.Now()
		l := acquire(t, db, pgid.LeaseConfig{})
		last := pgid.ID(-1)
		nextOf(t, l, 1, &last)
		db.set(func() { db.fail = errors.New("away") })
		for time.Since(start) < 9990*ms {
			nextOf(t, l, 1, &last)
			time.Sleep(5 * ms)
		}
		time.Sleep(20 * ms)
		for range 3 {
			if id, err := l.Next(t.Context()); !errors.Is(err, pgid.ErrLeaseExpired) || !strings.Contains(err.Error(), "away") {
				t.Fatalf("past the window: %d, %v", id, err)
			}
		}
		if until := db.windows()[0][1]; last.Tick() >= until {
			t.Errorf("tick %d of a window up to %d", last.Tick(), until)
		}
		if s := l.Stats(); s.Expirations != 1 || s.FailedRenewals < 4 || s.FailedRenewals > 20 || l.Err() != nil {
			t.Errorf("%+v, %v", s, l.Err())
		}
		time.Sleep(time.Minute)
		db.set(func() { db.fail = nil })
		time.Sleep(5 * time.Second)
		nextOf(t, l, 1000, &last)
		if windows := db.windows(); len(windows) < 2 || last.Tick() < windows[1][0] {
			t.Errorf("tick %d, windows %v", last.Tick(), windows)
		}
		if s := l.Stats(); s.Expirations != 1 || s.Renewals < 1 {
			t.Errorf("%+v", s)
		}
	})
}

// What ends a lease: nothing is issued from then on, though the window is not over.
func TestLeaseEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(db *leaseDB)
		want   error
	}{
		"granted to another": {(*leaseDB).steal, pgid.ErrLeaseLost},
		"shard retired":      {func(db *leaseDB) { db.fail = &pgconn.PgError{Code: "ID003", Message: "retired"} }, pgid.ErrLeaseLost},
		"earlier state":      {func(db *leaseDB) { db.answer = func(r *leaseRow) { r.from-- } }, pgid.ErrStateLost},
		"much earlier state": {func(db *leaseDB) { db.answer = func(r *leaseRow) { r.from, r.until = 0, 1<<20 } }, pgid.ErrStateLost},
		"backwards":          {func(db *leaseDB) { db.answer = func(r *leaseRow) { r.until = r.from - 1 } }, pgid.ErrBadAnswer},
		"too large":          {func(db *leaseDB) { db.answer = func(r *leaseRow) { r.until = r.from + 10_000<<10 + 1 } }, pgid.ErrBadAnswer},
		"past the end":       {func(db *leaseDB) { db.answer = func(r *leaseRow) { r.from, r.until = 1<<50, 1<<50+1 } }, pgid.ErrBadAnswer},
		"a mad clock":        {func(db *leaseDB) { db.answer = func(r *leaseRow) { r.now = 1 << 60 } }, pgid.ErrBadAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := newLeaseDB()
				l := acquire(t, db, pgid.LeaseConfig{})
				last := pgid.ID(-1)
				nextOf(t, l, 10, &last)
				if name == "granted to another" {
					c.change(db)
				} else {
					db.set(func() { c.change(db) })
				}
				start := time.Now()
				select {
				case <-l.Done():
				case <-time.After(time.Minute):
					t.Fatal("it never found out")
				}
				if took := time.Since(start); took < 2*time.Second || took > 5*time.Second {
					t.Errorf("found out after %s", took)
				}
				id, err := l.Next(t.Context())
				if !errors.Is(err, c.want) || !errors.Is(l.Err(), c.want) || id != 0 {
					t.Errorf("Next %d, %v; Err %v; want %v", id, err, l.Err(), c.want)
				}
				if s := l.Stats(); s.FailedRenewals != 1 || s.Renewals != 0 {
					t.Errorf("%+v", s)
				}
				calls := db.count("renew")
				time.Sleep(time.Minute)
				if db.count("renew") != calls {
					t.Error("it is renewed still")
				}
				db.set(func() { db.fail, db.answer = nil, nil })
				err = l.Release(t.Context())
				if wantLost := name == "granted to another"; errors.Is(err, pgid.ErrLeaseLost) != wantLost || (err != nil) != wantLost {
					t.Errorf("release: %v", err)
				}
			})
		})
	}
}

// A renewal that others, or a lost answer, put further ahead leaves a gap; an empty
// one leaves everything as it is.
func TestLeaseGaps(t *testing.T) {
	t.Parallel()
	t.Run("draws by others", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			db := newLeaseDB()
			start := time.Now()
			l := acquire(t, db, pgid.LeaseConfig{})
			db.set(func() { db.last += 5 << 10 }) // 5 ms
			last := pgid.ID(-1)
			for time.Since(start) < 15*time.Second {
				nextOf(t, l, 1, &last)
				if tick, end := last.Tick(), db.windows()[0][1]; tick >= end && tick < end+5<<10 {
					t.Fatalf("tick %d was drawn by others: the window ended at %d", tick, end)
				}
				time.Sleep(ms)
			}
			if windows := db.windows(); len(windows) < 2 || windows[1][0] != windows[0][1]+5<<10 {
				t.Fatalf("windows %v", windows)
			}
		})
	})
	t.Run("an answer lost", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			db := newLeaseDB()
			db.lose = true
			l := acquire(t, db, pgid.LeaseConfig{RenewTimeout: 200 * ms})
			time.Sleep(4500 * ms)
			db.set(func() { db.lose = false })
			lost := db.windows()[1:]
			last, expired := pgid.ID(-1), 0
			for range 20_000 {
				id, err := l.Next(t.Context())
				switch {
				case err == nil:
					if id <= last {
						t.Fatalf("%d after %d", id, last)
					}
					last = id
					for _, w := range lost {
						if id.Tick() >= w[0] && id.Tick() < w[1] {
							t.Fatalf("tick %d is of the window %v that nobody told of", id.Tick(), w)
						}
					}
				case errors.Is(err, pgid.ErrLeaseExpired), errors.Is(err, pgid.ErrClockBehind):
					expired++
				default:
					t.Fatal(err)
				}
				time.Sleep(ms)
			}
			if len(lost) == 0 || expired == 0 || last.Tick() < lost[len(lost)-1][1] {
				t.Errorf("%d windows lost, %d refusals, last tick %d", len(lost), expired, last.Tick())
			}
		})
	})
	t.Run("empty", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			db := newLeaseDB()
			l := acquire(t, db, pgid.LeaseConfig{})
			last := pgid.ID(-1)
			nextOf(t, l, 1, &last)
			db.set(func() { db.step = -5 * time.Second })
			time.Sleep(4500 * ms) // one renewal
			if s := l.Stats(); s.Renewals != 1 || len(db.windows()) != 1 || l.Err() != nil {
				t.Fatalf("%+v, windows %v, %v", s, db.windows(), l.Err())
			}
			nextOf(t, l, 1, &last) // the clock is behind the last ID, by less than the lead and the wait
			time.Sleep(30 * time.Second)
			nextOf(t, l, 100, &last)
			if s := l.Stats(); s.Waits == 0 {
				t.Errorf("%+v", s)
			}
		})
	})
}
