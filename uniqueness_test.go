package postgresids_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/nextid/postgres-ids/internal/bench"
	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// A call is one call of next_id: the server's clock before and after, and the ID; or
// of a range, up to last.
type call struct {
	start, end int64 // microseconds
	id, last   pgid.ID
}

// load draws perSession IDs in each of many sessions at once, with a query that takes
// the session's number and a count, and returns the calls of each session in order.
func load(t *testing.T, db *pgtest.Database, sessions, perSession int, query string) [][]call {
	t.Helper()
	calls := make([][]call, sessions)
	conns := make([]*pgx.Conn, sessions)
	for i := range conns {
		conns[i] = db.Connect(t)
	}
	var group errgroup.Group
	for i, conn := range conns {
		group.Go(func() error {
			calls[i] = make([]call, 0, perSession)
			rows, err := conn.Query(t.Context(), query, i, perSession)
			if err != nil {
				return err
			}
			var c call
			_, err = pgx.ForEachRow(rows, []any{&c.start, &c.id, &c.end}, func() error {
				calls[i] = append(calls[i], c)
				return nil
			})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return calls
}

// Target lists are evaluated from left to right, so each row is one call in time.
const (
	now         = `(date_part('epoch', clock_timestamp()) * 1000000)::bigint`
	oursQuery   = `SELECT ` + now + `, pgid.next_id((n + $1::integer) %% %d), ` + now + ` FROM generate_series(1, $2::integer) AS n`
	theirsQuery = `SELECT ` + now + `, insta5.next_id(), ` + now + ` FROM generate_series(1, $2::integer) AS n WHERE $1::integer >= 0`
)

// duplicates counts the IDs that were issued before.
func duplicates(calls [][]call) int {
	var ids []pgid.ID
	for _, session := range calls {
		for _, c := range session {
			ids = append(ids, c.id)
		}
	}
	slices.Sort(ids)
	return len(ids) - len(slices.Compact(ids))
}

// checkRealTime fails the test if, within a shard, a call that started after another
// had returned got a smaller ID (G2). It returns how many calls overlapped no other.
func checkRealTime(t *testing.T, calls [][]call) {
	t.Helper()
	byShard := map[pgid.Shard][]call{}
	for _, session := range calls {
		for i, c := range session {
			byShard[c.id.Shard()] = append(byShard[c.id.Shard()], c)
			if i > 0 && c.end < session[i-1].end {
				t.Skip("the machine's clock stepped back during the test: real time is unknown")
			}
		}
	}
	for shard, starts := range byShard {
		ends := slices.Clone(starts)
		slices.SortFunc(starts, func(a, b call) int { return cmp.Compare(a.start, b.start) })
		slices.SortFunc(ends, func(a, b call) int { return cmp.Compare(a.end, b.end) })
		var returned pgid.ID // the largest ID returned before the call at hand started
		returned = -1 << 63
		next := 0
		for _, c := range starts {
			for ; ends[next].end < c.start; next++ {
				returned = max(returned, ends[next].id, ends[next].last)
			}
			if c.id <= returned {
				t.Errorf("shard %d: %d was issued by a call that started after %d had been returned", shard, c.id, returned)
				return
			}
		}
	}
}

// No ID twice, and each larger than those returned before it, over sessions and
// shards; while the function that everybody copies repeats itself under this load.
func TestUniqueAndOrdered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sessions, shards, perSession int }{
		{16, 4, 62_500},
		{24, 1, 50_000},
	} {
		t.Run(fmt.Sprintf("%d sessions on %d shards", c.sessions, c.shards), func(t *testing.T) {
			db := pgtest.New(t)
			db.Exec(t, "SELECT pgid.create_shards(0, $1)", c.shards-1)
			start := time.Now()
			calls := load(t, db, c.sessions, c.perSession, fmt.Sprintf(oursQuery, c.shards))
			rate := float64(c.sessions*c.perSession) / time.Since(start).Seconds()

			if n := duplicates(calls); n > 0 {
				t.Errorf("%d IDs were issued twice", n)
			}
			checkRealTime(t, calls)
			for _, session := range calls {
				last := map[pgid.Shard]pgid.ID{}
				for _, c := range session {
					if before, ok := last[c.id.Shard()]; ok && c.id <= before {
						t.Fatalf("a session got %d after %d", c.id, before)
					}
					last[c.id.Shard()] = c.id
					// G3: never before the clock at the start, at most max_lead (+1 ms) ahead at the return.
					at := pgid.Layout{}.Time(c.id).UnixMilli()
					if at < c.start/1000 || at > c.end/1000+101 {
						t.Fatalf("an ID of time %d ms was issued from %d to %d us", at, c.start, c.end)
					}
				}
			}
			pgtest.RequireNoLocks(t, db.URL)

			db.Exec(t, bench.Instagram())
			start = time.Now()
			repeated := duplicates(load(t, db, c.sessions, c.perSession, theirsQuery))
			t.Logf("%d IDs: none twice, %.0f a second; Instagram's published function: %d twice, %.0f a second",
				c.sessions*c.perSession, rate, repeated, float64(c.sessions*c.perSession)/time.Since(start).Seconds())
		})
	}
}

// The same through round trips of their own, as an application makes them, seen by
// the client's clock.
func TestUniqueAcrossRoundTrips(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(0, 1)")
	const sessions, perSession = 8, 1500
	calls := make([][]call, sessions)
	begin := time.Now()
	var group errgroup.Group
	for i := range calls {
		conn := db.Connect(t)
		group.Go(func() error {
			client := pgid.NewClient(conn)
			for n := range perSession {
				start := time.Since(begin).Nanoseconds()
				id, err := client.NextID(t.Context(), pgid.Shard(n%2))
				if err != nil {
					return err
				}
				calls[i] = append(calls[i], call{start: start, end: time.Since(begin).Nanoseconds(), id: id})
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := duplicates(calls); n > 0 {
		t.Errorf("%d IDs were issued twice", n)
	}
	checkRealTime(t, calls)
}

// One session lives through hundreds of cancels at random moments, singly and in
// pairs, most of them amid a catch-up, and of statement time-outs: it never keeps a
// lock, and its IDs and everybody else's go on.
func TestCancelledStatementsLeaveNoLock(t *testing.T) {
	t.Parallel()
	db, random := pgtest.New(t), pgtest.Seed(t)
	const shards, cancels = 64, 300
	db.Exec(t, "SELECT pgid.create_shards(0, $1)", shards-1)
	// Each shard is called once in a while, so that most calls find it behind the clock.
	const draw = `SELECT count(pgid.next_id(n %% %d)), 1 FROM generate_series(1, 2000000) AS n`
	victim := db.Connect(t)
	pid := victim.PgConn().PID()
	var wg sync.WaitGroup
	defer wg.Wait()

	seen := map[string]int{}
	for i := range cancels {
		errs := make(chan error, 1)
		timeout := 0
		if i%10 == 9 {
			timeout = 1 + random.IntN(8)
		}
		// A cancel of the round before may arrive as late as here.
		for {
			_, err := victim.Exec(t.Context(), fmt.Sprintf("SET statement_timeout = %d", timeout))
			if err == nil {
				break
			}
			if pgtest.SQLState(err) != "57014" {
				t.Fatal(err)
			}
		}
		wg.Go(func() {
			_, err := victim.Exec(t.Context(), fmt.Sprintf(draw, shards))
			errs <- err
		})
		if timeout == 0 {
			time.Sleep(time.Duration(rand.IntN(6000)) * time.Microsecond)
			db.Exec(t, "SELECT pg_cancel_backend($1)", pid) // may come before the statement: then again
			for waiting, n := true, 0; waiting; n++ {
				select {
				case err := <-errs:
					seen[pgtest.SQLState(err)]++
					waiting = false
				case <-time.After(time.Duration(random.IntN(300)) * time.Microsecond):
					db.Exec(t, "SELECT pg_cancel_backend($1)", pid)
				}
			}
		} else {
			seen[pgtest.SQLState(<-errs)]++
		}
		if i%20 == 0 {
			pgtest.RequireNoLocks(t, db.URL)
		}
	}
	if len(seen) != 1 || seen["57014"] != cancels {
		t.Fatalf("of %d cancelled statements, %v", cancels, seen)
	}
	pgtest.RequireNoLocks(t, db.URL)
	for shard := range shards { // not blocked by anybody
		pgtest.Query[pgid.ID](t, db, "SELECT pgid.next_id($1)", shard)
	}
	if _, err := victim.Exec(t.Context(), "SET statement_timeout = 0"); err != nil {
		t.Fatal(err)
	}
	if _, err := victim.Exec(t.Context(), "SELECT pgid.next_id(n) FROM generate_series(0, 63) AS n"); err != nil {
		t.Errorf("the session did not survive: %v", err)
	}
}

// Another session may sit on a shard's lock. Calls that need it are refused within a
// bound, other shards do not notice, and it all ends with that session.
func TestBusyShard(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(0, 1)")
	sitter := db.Connect(t)
	if _, err := sitter.Exec(t.Context(), "SELECT pg_advisory_lock(pgid.lock_class(), 1)"); err != nil {
		t.Fatal(err)
	}
	client := pgid.NewClient(db.Pool)
	start := time.Now()
	_, err := client.NextID(t.Context(), 1)
	if took := time.Since(start); pgtest.SQLState(err) != "ID005" || took > 30*time.Second {
		t.Errorf("after %s: %v, want ID005", took, err)
	}
	if _, err := client.NextID(t.Context(), 0); err != nil {
		t.Errorf("another shard: %v", err)
	}
	_, err = db.Pool.Exec(t.Context(), "SELECT pgid.create_shard(1, pgid.max_id(now()))")
	if pgtest.SQLState(err) != "ID005" {
		t.Errorf("raising the shard: %v, want ID005", err)
	}
	_ = sitter.Close(t.Context())
	if _, err := client.NextID(t.Context(), 1); err != nil {
		t.Errorf("once the lock is free: %v", err)
	}
}
