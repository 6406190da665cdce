package faults

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/pgtest"
)

// The server is killed under load, again and again, and comes back: with the right
// clock, no ID at all comes again; with a clock set back, none of a transaction that
// wrote something and was committed.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		wrong  func(sinceKill time.Duration, random *rand.Rand) time.Duration // the clock after the start; nil for right
		read   Kind                                                           // of SELECTs of next_id: see source_test.go
		states []string
	}{
		{"right clock", nil, Strict, nil},
		{"clock set back 5 s", func(time.Duration, *rand.Rand) time.Duration { return -5 * time.Second }, Loose, []string{"ID001"}},
		// All that was issued just before the crash is issued over again, if the shard forgot it.
		{"clock set back to the crash", func(sinceKill time.Duration, random *rand.Rand) time.Duration {
			return -sinceKill - time.Duration(random.IntN(800))*time.Millisecond
		}, Loose, []string{"ID001"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			kills := 4
			if soak(t) > 0 {
				kills = 20
			}
			shards := upTo(2)
			server := pgtest.NewClockServer(t)
			db := pgtest.NewOn(t, server)
			db.Exec(t, "SELECT pgid.create_shards(0, 1)")
			db.Exec(t, createItems(shards))
			db.Pool.Close()

			ledger := NewLedger()
			f := newFleet(t.Context(), db.URL, ledger.Book)
			defer f.stop()
			f.add("single", single(shards, c.read))
			f.add("bulk", bulk(shards, 200, c.read))
			f.add("insert", insert(shards, 1))
			f.add("inserts", insert(shards, 20))
			f.add("next_ids", nextIDs(shards, 500))
			f.add("reserve", reserve(shards))
			random := pgtest.Seed(t)
			for range kills {
				before := ledger.total()
				await(func() bool { return ledger.total() > before+500 })
				time.Sleep(time.Duration(200+random.IntN(400)) * time.Millisecond)
				killed := time.Now()
				server.Kill(t)
				if c.wrong != nil {
					server.SetClock(t, -time.Minute) // however long it takes to start
				}
				server.Start(t)
				if c.wrong != nil {
					server.SetClock(t, c.wrong(time.Since(killed), random))
				}
				f.moved(server.DatabaseURL(db))
				if c.wrong != nil {
					time.Sleep(time.Duration(600+random.IntN(600)) * time.Millisecond)
					server.SetClock(t, 0)
				}
			}
			after := ledger.total()
			await(func() bool { return ledger.total() > after+500 })
			f.stop()
			f.allow(t, append(c.states, lost, "57P01", "57P02", "57P03")...)
			if c.wrong != nil {
				requireCommitted(t, ledger, 500*kills)
			} else {
				requireKept(t, ledger, 500*kills)
			}
			requireServed(t, ledger, 20*time.Second)
			pgtest.RequireNoLocks(t, server.DatabaseURL(db))
		})
	}
}
