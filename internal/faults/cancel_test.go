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

// Sessions are cancelled and terminated under load, time out, and are left by their
// clients, at any moment of a catch-up, a batch or a lease; the second time in slow
// motion, where each pair of statements has a moment in between.
func TestCancelledUnderLoad(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		slow []string
	}{
		{"as it is", nil},
		{"in slow motion", []string{"next_id_slow", "take_ticks", "lock_shard", "reserve_ticks", "acquire_lease", "renew_lease", "take_window"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			shards := upTo(3)
			lasts := 3 * time.Second
			if long := soak(t); long > 0 {
				lasts = long / 10
			}
			random := pgtest.Seed(t)
			db := pgtest.New(t)
			db.Exec(t, "SELECT pgid.create_shards(0, 2)")
			db.Exec(t, "SELECT pgid.create_pool('pool', 100, 107)")
			db.Exec(t, createItems(shards))
			slowMotion(t, db, "2", c.slow...)

			ledger := NewLedger()
			f := newFleet(t.Context(), db.URL, ledger.Book)
			defer f.stop()
			for name, source := range map[string]func() step{
				"single":   func() step { return single(shards, Strict) },
				"bulk":     func() step { return bulk(shards, 500, Strict) },
				"insert":   func() step { return insert(shards, 20) },
				"next_ids": func() step { return nextIDs(shards, 500) },
				"reserve":  func() step { return reserve(shards) },
				"lease":    func() step { return leased("pool") },
			} {
				f.add(name, source())
				f.add(name+", in a hurry", hurried(source(), rand.New(rand.NewPCG(random.Uint64(), 0))))
			}
			await(func() bool { return ledger.total() > 100 })
			hit := torment(t, db, f, random, lasts)
			await(func() bool { return ledger.total() > 2000 })
			f.stop()
			f.allow(t, lost, expired, "57014", "57P01", "55P03", "ID006", "ID007")
			if f.count("57014") < hit/10 {
				t.Errorf("%d signals, but only %d calls were cancelled", hit, f.count("57014"))
			}
			requireKept(t, ledger, 1000)
			requireServed(t, ledger, 10*time.Second)
			pgtest.RequireNoLocks(t, db.URL)
			for _, shard := range shards {
				pgtest.Query[pgid.ID](t, db, "SELECT pgid.next_id($1)", shard)
			}
		})
	}
}

// hurried gives a step little time in various ways: too little, as often as not.
func hurried(step step, random *rand.Rand) step {
	return func(ctx context.Context, c *client) error {
		millis := 1 + random.IntN(5)
		switch random.IntN(4) {
		case 0, 1:
			setting := []string{"statement_timeout", "lock_timeout"}[random.IntN(2)]
			if _, err := c.conn.Exec(ctx, fmt.Sprintf("SET %s = %d", setting, millis)); err != nil {
				return err
			}
			err := step(ctx, c)
			if !c.conn.IsClosed() {
				_, resetErr := c.conn.Exec(ctx, "RESET statement_timeout; RESET lock_timeout")
				if err == nil {
					err = resetErr
				}
			}
			return err
		case 2: // a client that does not wait: pgx closes the connection
			hurry, stop := context.WithTimeout(ctx, time.Duration(random.IntN(millis*1000))*time.Microsecond)
			defer stop()
			return step(hurry, c)
		default: // Ctrl-C
			conn := c.conn.PgConn()
			after := time.Duration(random.IntN(millis*1000)) * time.Microsecond
			done := make(chan struct{})
			timer := time.AfterFunc(after, func() {
				defer close(done)
				late, stop := context.WithTimeout(context.Background(), 5*time.Second)
				defer stop()
				_ = conn.CancelRequest(late)
			})
			err := step(ctx, c)
			if !timer.Stop() {
				<-done
			}
			return err
		}
	}
}

// torment cancels and terminates sessions at random for a while. It returns how many.
func torment(t *testing.T, db *pgtest.Database, f *fleet, random *rand.Rand, lasts time.Duration) int {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), db.URL+"&application_name=tormentor")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	hit := 0
	for end := time.Now().Add(lasts); time.Now().Before(end) && f.ctx.Err() == nil; {
		function := "pg_cancel_backend"
		if random.IntN(5) == 0 {
			function = "pg_terminate_backend"
		}
		_, err := pool.Exec(t.Context(), "SELECT "+function+`(pid) FROM (
			SELECT pid FROM pg_stat_activity
			 WHERE datname = current_database() AND backend_type = 'client backend' AND state = 'active'
			   AND application_name <> 'tormentor'
			 ORDER BY random() LIMIT 1) AS victim`)
		if err != nil {
			t.Error(err)
			return hit
		}
		hit++
		time.Sleep(time.Duration(random.IntN(4000)) * time.Microsecond)
	}
	return hit
}
