package postgresids_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// advance calls advance_shard, and collects its warnings.
func advance(t *testing.T, db *pgtest.Database, shard any, past any) (raised bool, warnings []string, err error) {
	t.Helper()
	config, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { warnings = append(warnings, n.Message) }
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	err = conn.QueryRow(t.Context(), "SELECT pgid.advance_shard($1, $2)", shard, past).Scan(&raised)
	return raised, warnings, pgid.Error(err)
}

func TestAdvanceRefusals(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(4, 5)")
	db.Exec(t, "SELECT pgid.retire_shard(4)")
	for _, c := range []struct {
		shard, past any
		state, says string
		sentinel    error
	}{
		{nil, 1, "22004", "the shard is null", pgid.ErrNullShard},
		{5, nil, "22004", "the ID to advance shard 5 past is null", pgid.ErrNullShard},
		{-1, 1, "22023", "shard -1 ", pgid.ErrOutOfRange},
		{8192, 1, "22023", "shard 8192 ", pgid.ErrOutOfRange},
		{6, 1, "ID002", "shard 6 ", pgid.ErrNoShard},
		{4, 1, "ID003", "shard 4 is retired", pgid.ErrShardRetired},
		{4, -1, "ID003", "shard 4 is retired", pgid.ErrShardRetired},
	} {
		if _, _, err := advance(t, db, c.shard, c.past); pgtest.SQLState(err) != c.state || !errors.Is(err, c.sentinel) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("advance_shard(%v, %v): %v, want %s and «%s»", c.shard, c.past, err, c.state, c.says)
		}
	}
	pgtest.RequireNoLocks(t, db.URL)
}

// Past IDs of this shard and of others, of the past and the future; the future warns.
func TestAdvance(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	client := pgid.NewClient(db.Pool)
	next := func() pgid.ID {
		t.Helper()
		id, err := client.NextID(t.Context(), 5)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	at := func(ahead time.Duration, shard pgid.Shard, seq pgid.Seq) pgid.ID {
		t.Helper()
		id, err := pgid.Layout{}.Encode(time.Now().Add(ahead), shard, seq)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	last := next()
	is := func(id pgid.ID) func() pgid.ID { return func() pgid.ID { return id } }
	for _, c := range []struct {
		name   string
		past   func() pgid.ID // once it comes to it
		raised bool
	}{
		{"the least ID there is", is(-1 << 63), false},
		{"before the epoch", is(-1), false},
		{"zero", is(0), false},
		{"its own last ID", is(last), false},
		{"long ago, of another shard", func() pgid.ID { return at(-time.Hour, 8191, 1023) }, false},
		{"soon", func() pgid.ID { return at(300*time.Millisecond, 5, 7) }, true},
		{"sooner", func() pgid.ID { return last - 100<<23 }, false},
		{"soon, of a smaller shard", func() pgid.ID { return at(500*time.Millisecond, 0, 0) }, true},
		{"soon, of a larger shard", func() pgid.ID { return at(700*time.Millisecond, 8191, 1023) }, true},
	} {
		past := c.past()
		raised, warnings, err := advance(t, db, 5, past)
		if err != nil || raised != c.raised || len(warnings) > 0 {
			t.Errorf("%s: raised %t, %q, %v", c.name, raised, warnings, err)
		}
		id := next()
		if id <= past || id <= last {
			t.Errorf("%s: %d after %d, advanced past %d", c.name, id, last, past)
		}
		last = id
	}

	// Of an hour ahead: nothing is issued, and the caller is told until when.
	future := at(time.Hour, 5, 0)
	for _, past := range []pgid.ID{future, future - 1<<23} { // and it is not lowered
		raised, warnings, err := advance(t, db, 5, past)
		isFirst := past == future
		if err != nil || raised != isFirst || isFirst && (len(warnings) != 1 || !strings.Contains(warnings[0], "shard 5 issues no ID until ")) {
			t.Errorf("an hour ahead: %t, %q, %v", raised, warnings, err)
		}
		if _, err := client.NextID(t.Context(), 5); !errors.Is(err, pgid.ErrClockBehind) {
			t.Errorf("an hour ahead: %v, want ErrClockBehind", err)
		}
	}
	if kept := pgtest.Query[pgid.ID](t, db, "SELECT last_id FROM pgid.shard_status WHERE shard = 5"); kept < future {
		t.Errorf("the shard stands at %d, advanced past %d", kept, future)
	}
	if _, _, err := advance(t, db, 5, int64(1<<63-1)); err != nil {
		t.Errorf("past the last ID there is: %v", err)
	}
	if _, err := client.NextID(t.Context(), 5); !errors.Is(err, pgid.ErrTimeExhausted) {
		t.Errorf("past the last ID there is: %v, want ErrTimeExhausted", err)
	}
	pgtest.RequireNoLocks(t, db.URL)
}

// Random calls, beside the law: next tick = max(last + 1, now << 10), and advance
// makes last = max(last, the ID's tick), or the end of its millisecond for an ID of
// another shard. Nothing is ever lowered, whatever the clock shows.
func TestAdvanceByTheModel(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.configure(max_wait_ms => 0)")
	shownClock(t, db)
	limits := pgid.Limits{MaxLead: 100 * time.Millisecond}
	conn := db.Connect(t)
	shard := pgid.Shard(0)
	rapid.Check(t, func(t *rapid.T) {
		exec := func(sql string, args ...any) (err error) {
			_, err = conn.Exec(context.Background(), sql, args...)
			return err
		}
		shard++
		now := rapid.Int64Range(1000, 1<<39).Draw(t, "now")
		last, drawn := pgid.Tick(-1), false
		if err := errors.Join(exec("SELECT pgid.create_shard($1)", shard), exec("SELECT set_config('trace.now', $1, false)", fmt.Sprint(now*1000))); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				now += rapid.Int64Range(-150, 300).Draw(t, "move")
				if err := exec("SELECT set_config('trace.now', $1, false)", fmt.Sprint(now*1000)); err != nil {
					t.Fatal(err)
				}
			case 1, 2:
				drawn = true
				want, _, wantErr := limits.Next(last, now)
				var id pgid.ID
				err := pgid.Error(conn.QueryRow(context.Background(), "SELECT pgid.next_id($1)", shard).Scan(&id))
				switch {
				case wantErr != nil:
					if !errors.Is(err, pgid.ErrClockBehind) {
						t.Fatalf("at %d ms, after tick %d: %d, %v, want %v", now, last, id, err, wantErr)
					}
					last++ // a refused call burns it
				case err != nil || id.Tick() != want || id.Shard() != shard:
					t.Fatalf("at %d ms, after tick %d: %d, tick %d, %v; want tick %d", now, last, id, id.Tick(), err, want)
				default:
					last = want
				}
			case 3:
				ms := now + rapid.Int64Range(-200, 250).Draw(t, "past")
				if rapid.IntRange(0, 9).Draw(t, "negative") == 0 {
					ms = -ms
				}
				of := shard + pgid.Shard(rapid.SampledFrom([]int{0, 0, 1, -1}).Draw(t, "of"))
				seq := rapid.SampledFrom([]int64{0, 1, 1022, 1023}).Draw(t, "seq")
				past := pgid.ID(ms<<23 | int64(of)<<10 | seq)
				tick := past.Tick()
				if of != shard {
					tick |= pgid.Tick(pgid.MaxSeq)
				}
				if past < 0 {
					tick = -1
				}
				var raised bool
				err := conn.QueryRow(context.Background(), "SELECT pgid.advance_shard($1, $2)", shard, int64(past)).Scan(&raised)
				if err != nil || raised != (tick > last) && (drawn || !raised) { // one that has drawn nothing may say it in vain
					t.Fatalf("after tick %d, advanced past tick %d: %t, %v", last, tick, raised, err)
				}
				last = max(last, tick)
			}
		}
	})
}

// While eight sessions draw, another advances their shard: calls that start after it
// returned get larger IDs, in the order of time, and none comes twice.
func TestAdvanceUnderLoad(t *testing.T) {
	t.Parallel()
	db, random := pgtest.New(t), pgtest.Seed(t)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	var stop atomic.Bool
	const sessions = 8
	calls := make([][]call, sessions+1)
	begin := time.Now()
	var group errgroup.Group
	for i := range sessions {
		conn := db.Connect(t)
		group.Go(func() error {
			client := pgid.NewClient(conn)
			for n := 0; !stop.Load(); n++ {
				c := call{start: time.Since(begin).Nanoseconds()}
				if n%8 == 7 {
					r, err := client.Reserve(t.Context(), 5, 100)
					if err != nil {
						return err
					}
					c.id, c.last = r.First, r.Last
				} else {
					id, err := client.NextID(t.Context(), 5)
					if err != nil {
						return err
					}
					c.id, c.last = id, id
				}
				c.end = time.Since(begin).Nanoseconds()
				calls[i] = append(calls[i], c)
			}
			return nil
		})
	}
	for range 60 {
		of := pgid.Shard(4 + random.IntN(3))
		ahead := time.Duration(random.IntN(150)) * time.Millisecond
		past, err := pgid.Layout{}.Encode(time.Now().Add(ahead), of, pgid.Seq(random.IntN(1024)))
		if err != nil {
			t.Fatal(err)
		}
		db.Exec(t, "SELECT pgid.advance_shard(5, $1)", int64(past))
		// As if it had been a call of this shard: what starts now is larger.
		after := time.Since(begin).Nanoseconds()
		own := past&^(pgid.ID(8191)<<10) | 5<<10
		calls[sessions] = append(calls[sessions], call{start: after, end: after, id: own, last: own})
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
	}
	stop.Store(true)
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := duplicates(calls[:sessions]); n > 0 {
		t.Errorf("%d IDs were issued twice", n)
	}
	checkRealTime(t, calls[:sessions])
	for _, a := range calls[sessions] {
		for _, session := range calls[:sessions] {
			for _, c := range session {
				if c.start >= a.start && c.id <= a.id {
					t.Fatalf("%d was issued by a call that started after the shard was advanced past %d", c.id, a.id)
				}
			}
		}
	}
	pgtest.RequireNoLocks(t, db.URL)
}
