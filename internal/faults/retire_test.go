package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// A retirement under load is cancelled at any moment, and done again: the last ID that
// it then returns is past all that anybody got, and nobody gets another.
func TestRetireInterrupted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		shards    int
		slow      []string
		interrupt func(ctx context.Context, t *testing.T, pool *pgxpool.Pool, random *rand.Rand, shard int, pid uint32)
	}{
		{"at random", 20, nil, interruptSoon},
		// The last ID is known for sure only in the second step.
		{"between its two steps", 12, []string{"retire_shard"}, interruptOnceStopped},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			random := pgtest.Seed(t)
			db := pgtest.New(t)
			db.Exec(t, "SELECT pgid.create_shards(0, $1)", c.shards-1)
			slowMotion(t, db, "5", c.slow...)
			ledger := NewLedger()
			interrupted := 0
			for shard := range c.shards {
				f := newFleet(t.Context(), db.URL, ledger.Book)
				for i := range 3 {
					f.add(fmt.Sprintf("client %d of shard %d", i, shard), func(ctx context.Context, c *client) error {
						return c.book.Draw(Strict, func() ([]pgid.ID, error) {
							return collect(c.conn.Query(ctx, "SELECT pgid.next_id($1) FROM generate_series(1, 1000)", shard))
						})
					})
				}
				time.Sleep(30 * time.Millisecond)
				conn := db.Connect(t)
				// Ahead of the clock, nobody needs the lock that the retirement holds: all draw on.
				db.Exec(t, "SELECT pgid.reserve($1, 100000)", shard)
				done := make(chan struct{})
				go func() {
					defer close(done)
					c.interrupt(t.Context(), t, db.Pool, random, shard, conn.PgConn().PID())
				}()
				if _, err := conn.Exec(t.Context(), "SELECT pgid.retire_shard($1)", shard); err != nil {
					if sqlstate(err) != "57014" {
						t.Error(err)
					}
					interrupted++
				}
				<-done
				last := pgtest.Query[pgid.ID](t, db, "SELECT pgid.retire_shard($1)", shard)
				for deadline := time.Now().Add(5 * time.Second); f.count("ID003") < 3 && time.Now().Before(deadline); {
					time.Sleep(time.Millisecond)
				}
				f.stop()
				f.allow(t, "ID003")
				if again := pgtest.Query[pgid.ID](t, db, "SELECT pgid.retire_shard($1)", shard); again != last {
					t.Errorf("shard %d: retired with the last ID %d, then with %d", shard, last, again)
				}
				if got := ledger.Last(pgid.Shard(shard)); got > last {
					t.Errorf("shard %d: its last ID is %d, somebody got %d, %d later", shard, last, got, got.Tick()-last.Tick())
				}
			}
			if interrupted == 0 {
				t.Error("no retirement was interrupted")
			}
			t.Logf("%d of %d retirements were interrupted", interrupted, c.shards)
			requireKept(t, ledger, 1000*c.shards)
			pgtest.RequireNoLocks(t, db.URL)
		})
	}
}

func interruptSoon(ctx context.Context, t *testing.T, pool *pgxpool.Pool, random *rand.Rand, _ int, pid uint32) {
	time.Sleep(time.Duration(random.IntN(5000)) * time.Microsecond)
	if _, err := pool.Exec(ctx, "SELECT pg_cancel_backend($1)", pid); err != nil {
		t.Error(err)
	}
}

// interruptOnceStopped cancels as soon as the shard issues nothing more.
func interruptOnceStopped(ctx context.Context, t *testing.T, pool *pgxpool.Pool, _ *rand.Rand, shard int, pid uint32) {
	_, err := pool.Exec(ctx, fmt.Sprintf(`DO $$ BEGIN
		FOR i IN 1 .. 5000 LOOP
			IF pgid.base(%d) >= pgid.retired_base() THEN
				PERFORM pg_cancel_backend(%d);
				RETURN;
			END IF;
			PERFORM pg_sleep(0.0005);
		END LOOP;
	END $$`, shard, pid))
	if err != nil {
		t.Error(err)
	}
}
