package pgid_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nextid/postgres-ids/pgid"
)

var errLost = errors.New("connection lost")

// TestAllocatorDoubt: a fetch ahead that fails in a way that leaves the database's
// state open takes the cached IDs with it; one that the database just refuses does not.
func TestAllocatorDoubt(t *testing.T) {
	state := func(code string) error { return &pgconn.PgError{Code: code, Message: "function pgid.reserve"} }
	tests := []struct {
		name  string
		err   error
		doubt bool
	}{
		{"connection lost", errLost, true},
		{"end of file", io.ErrUnexpectedEOF, true},
		{"connection failure", state("08006"), true},
		{"admin shutdown", state("57P01"), true},
		{"crash shutdown", state("57P02"), true},
		{"cannot connect now", state("57P03"), true},
		{"database dropped", state("57P04"), true},
		{"a standby", state("25006"), true},
		{"no such shard", state("ID002"), true},
		{"retired", state("ID003"), true},
		{"no such function", state("42883"), true},
		{"clock behind", state("ID001"), false},
		{"busy", state("ID005"), false},
		{"query cancelled", state("57014"), false},
		{"out of memory", state("53200"), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, pgid.AllocatorConfig{MinRange: 100, MaxRange: 100}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
				first := take(t, a, 1)[0]
				db.set(func() { db.fail = func() error { return test.err } })
				take(t, a, 49)
				time.Sleep(10 * ms) // the fetch ahead has failed, and nobody has waited for it
				db.set(func() { db.fail = nil })
				start := time.Now()
				id := take(t, a, 1)[0]
				dropped := id.Tick() != first.Tick()+50
				if dropped != test.doubt || time.Since(start) > 0 != test.doubt {
					t.Errorf("the rest of the range was dropped: %t, want %t", dropped, test.doubt)
				}
				s := a.Stats()
				if s.FailedFetches != 1 || (s.Dropped == 50) != test.doubt {
					t.Errorf("%+v", s)
				}
				checkBooks(t, db, a, 51)
			})
		})
	}
}

// TestAllocatorDoubtTakesPrefetched: a range that waits its turn is no exception.
func TestAllocatorDoubtTakesPrefetched(t *testing.T) {
	inBubble(t, pgid.AllocatorConfig{MinRange: 4, MaxRange: 4}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
		take(t, a, 2)
		time.Sleep(10 * ms)
		// The present range is used up, the one fetched ahead becomes the present one,
		// and the fetch ahead of that fails.
		db.set(func() { db.fail = func() error { return errLost } })
		take(t, a, 4)
		time.Sleep(10 * ms)
		if id, err := a.Next(t.Context()); !errors.Is(err, errLost) {
			t.Errorf("got %d, %v: of a range from before the connection was lost", id, err)
		}
		checkBooks(t, db, a, 6)
	})
}

// TestAllocatorErrors: an error reaches those who wait for its fetch, as the sentinel
// that it is, and nobody after them.
func TestAllocatorErrors(t *testing.T) {
	for code, sentinel := range sentinels {
		t.Run(code, func(t *testing.T) {
			inBubble(t, pgid.AllocatorConfig{}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
				pg := &pgconn.PgError{Code: code}
				db.fail = func() error { return pg }
				for range 2 {
					id, err := a.Next(t.Context())
					var got *pgconn.PgError
					if id != 0 || !errors.Is(err, sentinel) || !errors.As(err, &got) || got != pg {
						t.Errorf("Next = %d, %v, want %v", id, err, sentinel)
					}
				}
				if s := a.Stats(); s.Fetches != 2 || s.FailedFetches != 2 || s.Waits != 2 {
					t.Errorf("%+v, want two fetches that failed", s)
				}
				db.set(func() { db.fail = nil })
				take(t, a, 1)
			})
		})
	}
}

// TestAllocatorAsksAheadOnce: a fetch ahead that the database refuses is not repeated
// by each call; the next attempt is that of a call that has nothing left.
func TestAllocatorAsksAheadOnce(t *testing.T) {
	inBubble(t, pgid.AllocatorConfig{MinRange: 10_000}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
		take(t, a, 1)
		time.Sleep(600 * ms) // past half the age
		db.set(func() { db.fail = func() error { return &pgconn.PgError{Code: "ID005"} } })
		for range 300 {
			take(t, a, 1)
			time.Sleep(ms)
		}
		if s := a.Stats(); s.Fetches != 2 || s.FailedFetches != 1 || s.Waits != 1 {
			t.Errorf("%+v, want one fetch ahead, that failed", s)
		}
	})
}

func TestAllocatorFetchTimeout(t *testing.T) {
	inBubble(t, pgid.AllocatorConfig{FetchTimeout: 300 * ms}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
		db.trip = time.Hour
		start := time.Now()
		if id, err := a.Next(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 300*ms {
			t.Errorf("Next = %d, %v after %s", id, err, time.Since(start))
		}
	})
}

// TestAllocatorStale: a range that is too old when it arrives is not handed out; the
// first times another is fetched, then it is an error.
func TestAllocatorStale(t *testing.T) {
	inBubble(t, pgid.AllocatorConfig{MaxAge: 100 * ms}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
		db.trip = 101 * ms
		if id, err := a.Next(t.Context()); !errors.Is(err, pgid.ErrStale) {
			t.Errorf("Next = %d, %v, want ErrStale", id, err)
		}
		if s := a.Stats(); s.Fetches != 3 || s.FailedFetches != 3 || s.Waits != 1 || s.HandedOut != 0 {
			t.Errorf("%+v, want three fetches", s)
		}
		db.started = func(context.Context) { db.set(func() { db.trip = ms }) } // from the second on
		take(t, a, 1)
		if s := a.Stats(); s.Fetches != 5 || s.FailedFetches != 4 {
			t.Errorf("%+v, want one more that failed, and one that did not", s)
		}
		checkBooks(t, db, a, 1)
	})
}

// TestAllocatorBadAnswer: of what the database cannot have meant, nothing is handed out.
func TestAllocatorBadAnswer(t *testing.T) {
	const otherShard = 1 << 10 // added to an ID
	tests := []struct {
		name   string
		change func(*pgid.Range)
		want   error
	}{
		{"another shard", func(r *pgid.Range) { r.First += otherShard; r.Last += otherShard }, pgid.ErrBadAnswer},
		{"the first of another shard", func(r *pgid.Range) { r.First += otherShard }, pgid.ErrBadAnswer},
		{"the last of another shard", func(r *pgid.Range) { r.Last += otherShard }, pgid.ErrBadAnswer},
		{"too short", func(r *pgid.Range) { r.Last-- }, pgid.ErrBadAnswer},
		{"too long", func(r *pgid.Range) { r.First-- }, pgid.ErrBadAnswer},
		{"reversed", func(r *pgid.Range) { r.First, r.Last = r.Last, r.First }, pgid.ErrBadAnswer},
		{"before the epoch", func(r *pgid.Range) { r.First -= 1 << 62; r.Last -= 1 << 62 }, pgid.ErrBadAnswer},
		{"nothing", func(r *pgid.Range) { *r = pgid.Range{} }, pgid.ErrBadAnswer},
		{"the past", func(r *pgid.Range) { r.First -= 1000 << 23; r.Last -= 1000 << 23 }, pgid.ErrStateLost},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, pgid.AllocatorConfig{MinRange: 100, MaxRange: 100}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
				before := take(t, a, 20)
				db.set(func() { db.answer = test.change })
				take(t, a, 20)
				time.Sleep(10 * ms) // the fetch ahead has brought it
				if id, err := a.Next(t.Context()); id != 0 || !errors.Is(err, test.want) {
					t.Errorf("Next = %d, %v, want %v", id, err, test.want)
				} else if !strings.Contains(err.Error(), "shard 1341") {
					t.Errorf("the text %q does not name the shard", err)
				}
				if s := a.Stats(); s.HandedOut != 40 || s.FailedFetches == 0 {
					t.Errorf("%+v", s)
				}
				db.set(func() { db.answer = nil })
				time.Sleep(time.Second)
				if id := take(t, a, 1)[0]; id <= before[19] {
					t.Errorf("ID %d after %d", id, before[19])
				}
			})
		})
	}
}

// TestAllocatorOverlapByOne: a range that starts with the last ID of the one before.
func TestAllocatorOverlapByOne(t *testing.T) {
	inBubble(t, pgid.AllocatorConfig{MinRange: 100, MaxRange: 100}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
		var first pgid.Range
		db.set(func() {
			db.answer = func(r *pgid.Range) {
				if first == (pgid.Range{}) {
					first = *r
					return
				}
				more := r.Last.Tick() - r.First.Tick()
				r.First, r.Last = first.Last, (first.Last.Tick() + more).ID(first.Last.Shard())
			}
		})
		seen := map[pgid.ID]bool{}
		for range 150 {
			id, err := a.Next(t.Context())
			if errors.Is(err, pgid.ErrStateLost) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if seen[id] {
				t.Fatalf("ID %d twice", id)
			}
			seen[id] = true
		}
		if len(seen) != 100 {
			t.Errorf("%d IDs, want the 100 of the first range", len(seen))
		}
	})
}

// TestAllocatorStateLost: the database goes back in time while its clock stands
// still. What is handed out goes on from where it was, or not at all.
func TestAllocatorStateLost(t *testing.T) {
	inBubble(t, pgid.AllocatorConfig{MinRange: 1000, MaxRange: 1000}, func(t *testing.T, db *rangeDB, a *pgid.Allocator) {
		db.trip = 0
		db.limits.MaxLead = time.Hour
		take(t, a, 5000)
		synctest.Wait()
		db.set(func() { db.last -= 4000 })
		high := take(t, a, 1)[0]
		refused := 0
		for range 10_000 {
			switch id, err := a.Next(t.Context()); {
			case errors.Is(err, pgid.ErrStateLost):
				refused++
			case err != nil:
				t.Fatal(err)
			case id <= high:
				t.Fatalf("ID %d after %d", id, high)
			default:
				high = id
			}
		}
		if refused == 0 {
			t.Error("nothing was refused")
		}
	})
}
