package pgid_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nextid/postgres-ids/pgid"
)

// rangeEpoch is before the fake time of testing/synctest, which starts in 2000.
var rangeEpoch = time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC)

// rangeDB is a database of one shard that answers a Client by the law: at the clock's
// pace, and after a round trip. What a test sets goes by the lock.
type rangeDB struct {
	mu      sync.Mutex
	version int
	limits  pgid.Limits
	trip    time.Duration             // a round trip
	last    pgid.Tick                 // the state of the shard
	fail    func() error              // what a reservation fails with, before it reserves
	answer  func(*pgid.Range)         // changes what is answered
	asked   []int                     // the count of each reservation
	given   int64                     // IDs reserved, and answered
	started func(ctx context.Context) // called as a reservation starts, without the lock
}

func newRangeDB() *rangeDB {
	return &rangeDB{version: 2, limits: pgid.DefaultLimits(), trip: ms, last: -1}
}

func (db *rangeDB) set(change func()) {
	db.mu.Lock()
	defer db.mu.Unlock()
	change()
}

func (db *rangeDB) counts() []int {
	db.mu.Lock()
	defer db.mu.Unlock()
	return slices.Clone(db.asked)
}

func (db *rangeDB) QueryRow(ctx context.Context, _ string, args ...any) pgx.Row {
	if len(args) == 0 {
		db.mu.Lock()
		defer db.mu.Unlock()
		return fakeRow{[]any{db.version, 41, 13, 10, rangeEpoch.UnixMilli(), db.limits.MaxLead.Milliseconds(), db.limits.MaxWait.Milliseconds()}, nil}
	}
	r, err := db.reserve(ctx, pgid.Shard(args[0].(int32)), int(args[1].(int32)))
	return fakeRow{[]any{r.First, r.Last}, err}
}

func (db *rangeDB) reserve(ctx context.Context, shard pgid.Shard, n int) (pgid.Range, error) {
	db.mu.Lock()
	db.asked = append(db.asked, n)
	started, trip := db.started, db.trip
	db.mu.Unlock()
	if started != nil {
		started(ctx)
	}
	var clock pgid.SystemClock
	if err := clock.Sleep(ctx, trip/2); err != nil {
		return pgid.Range{}, err
	}
	r, wait, err := db.draw(shard, n)
	if err != nil {
		return r, err
	}
	if err := clock.Sleep(ctx, wait+trip/2); err != nil {
		return pgid.Range{}, err // reserved, and nobody knows
	}
	db.set(func() { db.given += int64(n) })
	return r, nil
}

func (db *rangeDB) draw(shard pgid.Shard, n int) (r pgid.Range, wait time.Duration, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.fail != nil {
		if err := db.fail(); err != nil {
			return r, 0, err
		}
	}
	first, wait, err := db.limits.NextN(db.last, time.Since(rangeEpoch).Milliseconds(), n)
	if err != nil {
		return r, 0, &pgconn.PgError{Code: "22023", Message: err.Error()}
	}
	db.last = first + pgid.Tick(n) - 1
	r = pgid.Range{First: first.ID(shard), Last: db.last.ID(shard)}
	if db.answer != nil {
		db.answer(&r)
	}
	return r, wait, nil
}

func newAllocator(t testing.TB, db pgid.Querier, config pgid.AllocatorConfig) *pgid.Allocator {
	t.Helper()
	a, err := pgid.NewAllocator(pgid.NewClient(db), testShard, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// take takes n IDs, which must ascend.
func take(t testing.TB, a *pgid.Allocator, n int) (ids []pgid.ID) {
	t.Helper()
	for range n {
		id, err := a.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if len(ids) > 0 && id <= ids[len(ids)-1] {
			t.Fatalf("ID %d after %d", id, ids[len(ids)-1])
		}
		ids = append(ids, id)
	}
	return ids
}

// checkBooks closes the allocator: then all that was reserved was handed out or dropped.
func checkBooks(t testing.TB, db *rangeDB, a *pgid.Allocator, handedOut int64) {
	t.Helper()
	a.Close()
	s := a.Stats()
	db.mu.Lock()
	defer db.mu.Unlock()
	if s.HandedOut != handedOut || s.HandedOut+s.Dropped != db.given || s.Fetches != int64(len(db.asked)) {
		t.Errorf("%+v, want %d handed out, %d in all, %d fetches", s, handedOut, db.given, len(db.asked))
	}
}
