package pgid_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nextid/postgres-ids/pgid"
)

// leaseDB is a database of one shard in one pool, by the rules of sql/lease.sql, after
// a round trip. Its clock is that of a testing/synctest bubble, and what the test adds.
type leaseDB struct {
	mu      sync.Mutex
	version int
	limits  pgid.Limits
	trip    time.Duration
	step    time.Duration // added to the clock
	fail    error         // what each call fails with, before it does anything
	lose    bool          // the answer of a renewal is lost, once it is granted
	answer  func(*leaseRow)
	last    pgid.Tick // of the shard
	until   pgid.Tick // of the lease
	fence   int64
	holder  string
	calls   []string // acquire, renew, release
	granted [][2]pgid.Tick
}

// A leaseRow is an answer of acquire_lease or renew_lease.
type leaseRow struct {
	shard       int32
	fence       int64
	from, until int64
	now         int64
}

func newLeaseDB() *leaseDB {
	return &leaseDB{version: 3, limits: pgid.DefaultLimits(), trip: ms, last: -1}
}

func (db *leaseDB) set(change func()) {
	db.mu.Lock()
	defer db.mu.Unlock()
	change()
}

func (db *leaseDB) count(call string) (n int) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, c := range db.calls {
		if c == call {
			n++
		}
	}
	return n
}

// windows are those granted up to now.
func (db *leaseDB) windows() [][2]pgid.Tick {
	db.mu.Lock()
	defer db.mu.Unlock()
	return slices.Clone(db.granted)
}

// heldBy is the holder as the database has it.
func (db *leaseDB) heldBy() string {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.holder
}

// now is the database's clock. The lock is held.
func (db *leaseDB) now() int64 { return (time.Since(rangeEpoch) + db.step).Milliseconds() }

func (db *leaseDB) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	db.mu.Lock()
	trip, lose := db.trip, db.lose
	if len(args) == 0 {
		defer db.mu.Unlock()
		return fakeRow{[]any{db.version, 41, 13, 10, rangeEpoch.UnixMilli(), db.limits.MaxLead.Milliseconds(), db.limits.MaxWait.Milliseconds()}, nil}
	}
	db.mu.Unlock()
	var clock pgid.SystemClock
	if err := clock.Sleep(ctx, trip/2); err != nil {
		return fakeRow{nil, err}
	}
	values, err := db.call(sql, args)
	if err != nil {
		return fakeRow{nil, err}
	}
	if lose && strings.Contains(sql, "renew_lease") {
		<-ctx.Done()
		return fakeRow{nil, ctx.Err()}
	}
	if err := clock.Sleep(ctx, trip/2); err != nil {
		return fakeRow{nil, err}
	}
	return fakeRow{values, nil}
}

func (db *leaseDB) call(sql string, args []any) ([]any, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	name := sql[strings.Index(sql, "pgid.")+5 : strings.Index(sql, "_lease")]
	db.calls = append(db.calls, name)
	if db.fail != nil {
		return nil, db.fail
	}
	row := leaseRow{shard: int32(testShard), now: db.now()}
	switch name {
	case "release":
		held := db.holder != "" && db.fence == args[1].(int64)
		if held {
			db.holder = ""
		}
		return []any{held}, nil
	case "acquire":
		if int64(db.until) > row.now<<10 {
			return nil, &pgconn.PgError{Code: "ID006", Message: "none of the 1 shards is free"}
		}
		db.fence++
		db.holder = args[1].(string)
		row.fence = db.fence
		db.grant(&row, int64(args[2].(int32))<<10)
	case "renew":
		if db.holder == "" || db.fence != args[1].(int64) {
			return nil, &pgconn.PgError{Code: "ID007", Message: "the lease is lost"}
		}
		window := int64(args[2].(int32))
		row.fence, row.from, row.until = db.fence, int64(db.until), int64(db.until)
		if n := min((row.now+window)<<10-int64(db.until), window<<10); n > 0 {
			db.grant(&row, n)
		}
	}
	if db.answer != nil {
		db.answer(&row)
	}
	if name == "renew" {
		return []any{row.from, row.until, row.now}, nil
	}
	return []any{row.shard, row.fence, row.from, row.until, row.now}, nil
}

// grant takes n ticks of the shard. The lock is held.
func (db *leaseDB) grant(row *leaseRow, n int64) {
	first := max(db.last+1, pgid.Tick(row.now<<10))
	db.last = first + pgid.Tick(n) - 1
	db.until = db.last + 1
	row.from, row.until = int64(first), int64(db.until)
	db.granted = append(db.granted, [2]pgid.Tick{first, db.until})
}

// steal grants the shard to another holder once it is free.
func (db *leaseDB) steal() {
	db.set(func() { db.fence, db.holder = db.fence+1, "another" })
}

func acquire(t testing.TB, db pgid.Querier, config pgid.LeaseConfig) *pgid.Lease {
	t.Helper()
	l, err := pgid.NewClient(db).AcquireLease(context.Background(), "pool", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Release(context.Background()) })
	return l
}

// nextOf takes n IDs, which must ascend past *last.
func nextOf(t testing.TB, l *pgid.Lease, n int, last *pgid.ID) {
	t.Helper()
	for range n {
		id, err := l.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if id <= *last || id.Shard() != testShard {
			t.Fatalf("ID %d of shard %d after %d", id, id.Shard(), *last)
		}
		*last = id
	}
}
