package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// A clockFault is a step of the server's clock and back again, and what calls under way
// are answered in the meantime, and after it.
type clockFault struct {
	name       string
	offset     time.Duration
	meanwhile  string // SQLSTATE; "" for IDs, at once or after a wait
	afterwards string
}

const (
	day   = 24 * time.Hour
	epoch = 1767225600000 // Unix ms
)

func clockFaults() []clockFault {
	sinceEpoch := time.Since(time.UnixMilli(epoch))
	return []clockFault{
		{"back 5 ms", -5 * time.Millisecond, "", ""},
		{"back 500 ms", -500 * time.Millisecond, "", ""},
		{"back an hour", -time.Hour, "ID001", ""},
		{"back 30 days", -30 * day, "ID001", ""},
		{"back before the epoch", -sinceEpoch - day, "ID001", ""},
		{"past the end of time", time.Until(time.UnixMilli(epoch).Add(1<<40*time.Millisecond)) + day, "ID004", ""},
		{"ahead 5 ms", 5 * time.Millisecond, "", ""},
		{"ahead 500 ms", 500 * time.Millisecond, "", ""},
		// What was issued then is ahead of the right clock: the shard waits for that.
		{"ahead an hour", time.Hour, "", "ID001"},
		{"ahead 30 days", 30 * day, "", "ID001"},
	}
}

// A running server's clock steps under load, and is put right; each fault has a shard of
// its own. Nothing repeats; calls wait, or are refused, and go on as they may; what
// happened is counted and logged.
func TestClockStepsUnderLoad(t *testing.T) {
	t.Parallel()
	server := pgtest.NewClockServer(t)
	db := pgtest.NewOn(t, server)
	dwell := 500 * time.Millisecond
	if long := soak(t); long > 0 {
		dwell = long / 100
	}
	ledger := NewLedger()
	for shard, c := range clockFaults() {
		t.Run(c.name, func(t *testing.T) {
			db.Exec(t, "SELECT pgid.create_shard($1)", shard)
			db.Exec(t, createItems([]int{shard}))
			before := counters(t, db)
			f := clockFleet(t, db, ledger, shard)
			defer f.stop()
			time.Sleep(dwell / 4)
			await(func() bool { return ledger.drawn(pgid.Shard(shard), 0) > 1000 })
			for _, phase := range []struct {
				offset time.Duration
				want   string
			}{{c.offset, c.meanwhile}, {0, c.afterwards}} {
				server.SetClock(t, phase.offset)
				stepped := ledger.Now()
				time.Sleep(30 * time.Millisecond) // calls that had read the clock are through
				refused := f.count(phase.want)
				time.Sleep(dwell)
				happened := func() bool {
					if phase.want == "" {
						return ledger.drawn(pgid.Shard(shard), stepped) > 0
					}
					return f.count(phase.want) > refused
				}
				switch {
				case await(happened):
				case phase.want == "":
					t.Errorf("clock at %s: nobody got an ID", phase.offset)
				default:
					t.Errorf("clock at %s: no call was refused with %s", phase.offset, phase.want)
				}
			}
			f.stop()
			f.allow(t, "57014", c.meanwhile, c.afterwards)
			after := counters(t, db)
			if c.meanwhile+c.afterwards != "" && after.refusals == before.refusals {
				t.Error("no refusal was counted")
			}
			if c.offset == -500*time.Millisecond && after.waits == before.waits {
				t.Error("no wait was counted")
			}
			// A step by less than the lead of a shard, or the age of the last look, may pass unseen.
			if c.offset.Abs() >= 500*time.Millisecond && after.steps == before.steps {
				t.Error("no step of the clock was counted")
			}
		})
	}
	requireKept(t, ledger, 10_000)
	pgtest.RequireNoLocks(t, db.URL)
	if n := strings.Count(server.Log(t), "pgid: the clock went back by at least"); n < 6 {
		t.Errorf("the server logged %d steps of the clock", n)
	}
}

// The clock walks at random by up to 150 ms a step, with a spell a second behind, while
// a server under load is also restarted with a bad clock.
func TestClockWalksAtRandom(t *testing.T) {
	t.Parallel()
	server := pgtest.NewClockServer(t)
	db := pgtest.NewOn(t, server)
	lasts := 2 * time.Second
	if long := soak(t); long > 0 {
		lasts = long / 10
	}
	random := pgtest.Seed(t)
	db.Exec(t, "SELECT pgid.create_shard(0)")
	db.Exec(t, createItems([]int{0}))
	ledger := NewLedger()
	f := clockFleet(t, db, ledger, 0)
	defer f.stop()
	offset := time.Duration(0)
	await(func() bool { return ledger.total() > 1000 })
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		offset += time.Duration(random.IntN(300)-150) * time.Millisecond
		offset = min(max(offset, -time.Second), time.Second)
		server.SetClock(t, offset)
		time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
	}
	for _, bad := range []time.Duration{-time.Hour, -30 * day} {
		server.SetClock(t, bad)
		server.Restart(t)
		f.moved(patient(server.DatabaseURL(db)))
		refused := f.count("ID001")
		time.Sleep(400 * time.Millisecond)
		if !await(func() bool { return f.count("ID001") > refused }) {
			t.Errorf("restarted with the clock at %s: no call was refused", bad)
		}
	}
	server.SetClock(t, 0)
	right := ledger.Now()
	time.Sleep(1500 * time.Millisecond) // a second of what it was ahead
	await(func() bool { return ledger.drawn(0, right) > 0 })
	f.stop()
	f.allow(t, lost, "57014", "57P01", "57P03", "ID001")
	if ledger.drawn(0, right) == 0 {
		t.Error("once the clock was right, nobody got an ID")
	}
	requireKept(t, ledger, 1000)
	requireServed(t, ledger, time.Minute) // two restarts, with a clock that is refused
	pgtest.RequireNoLocks(t, server.DatabaseURL(db))
}

// patient ends a statement after 3 s. pg_sleep goes by the wall clock: a call that sleeps
// while the clock steps back sleeps on for as long as the step, until it is cancelled or
// the clock is right.
func patient(url string) string { return url + "&statement_timeout=3000" }

// clockFleet draws from a shard by all ways.
func clockFleet(t *testing.T, db *pgtest.Database, ledger *Ledger, shard int) *fleet {
	f := newFleet(t.Context(), patient(db.URL), ledger.Book)
	one := []int{shard}
	name := func(way string) string { return fmt.Sprintf("%s of shard %d", way, shard) }
	f.add(name("single"), single(one, Strict))
	f.add(name("bulk"), bulk(one, 200, Strict))
	f.add(name("insert"), insert(one, 10))
	f.add(name("next_ids"), nextIDs(one, 500))
	f.add(name("reserve"), reserve(one))
	return f
}

// counts are what pgid.stats counts.
type counts struct{ waits, refusals, busy, steps int }

func counters(t *testing.T, db *pgtest.Database) (c counts) {
	t.Helper()
	err := db.Pool.QueryRow(t.Context(), "SELECT waits, refusals, busy, clock_steps FROM pgid.stats").
		Scan(&c.waits, &c.refusals, &c.busy, &c.steps)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
