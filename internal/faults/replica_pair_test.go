package faults

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// A pair is a primary and its streaming standby, both with the database app: pgid with
// the shards 5 and 6, and the table photo, whose ids come from shard 5.
type pair struct {
	primary, standby *pgtest.Node
	app              *pgtest.Database // of the primary
	ledger           *Ledger
}

func newPair(t *testing.T) *pair {
	t.Helper()
	host := pgtest.NewHost(t)
	p := &pair{primary: host.NewNode(t, "first"), ledger: NewLedger()}
	p.app = p.primary.Create(t, "app")
	p.app.Exec(t, "SELECT pgid.create_shards(5, 6)")
	p.app.Exec(t, "CREATE TABLE photo (id bigint PRIMARY KEY DEFAULT pgid.next_id(5))")
	p.standby = p.primary.Standby(t, "second")
	p.primary.Await(t, "SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'")
	return p
}

// caughtUp waits until the standby has all that the primary has flushed.
func (p *pair) caughtUp(t *testing.T) {
	t.Helper()
	p.app.Exec(t, "CREATE TABLE IF NOT EXISTS mark (n integer)") // flushes what went before
	p.app.Exec(t, "INSERT INTO mark VALUES (1)")
	lsn := pgtest.Query[string](t, p.app, "SELECT pg_current_wal_flush_lsn()::text")
	p.standby.Await(t, fmt.Sprintf("SELECT pg_last_wal_replay_lsn() >= '%s'", lsn))
}

// A service is an application whose database may move.
type service struct {
	now    atomic.Pointer[pgtest.Database]
	served atomic.Int64 // since it was moved
	group  sync.WaitGroup
	cancel context.CancelFunc
}

// serve runs clients until stop. Half of them insert, and use the id once its
// transaction has committed; half draw by a bare SELECT, whose IDs are of this kind.
func serve(t *testing.T, ledger *Ledger, app *pgtest.Database, clients int, bare Kind) *service {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &service{cancel: cancel}
	s.now.Store(app)
	t.Cleanup(cancel)
	for n := range clients {
		sql, kind := "INSERT INTO photo DEFAULT VALUES RETURNING id", Strict
		if n%2 == 1 {
			sql, kind = "SELECT pgid.next_id(5)", bare
		}
		book := ledger.Book(fmt.Sprintf("client %d", n))
		s.group.Go(func() {
			for ctx.Err() == nil {
				err := book.Draw(kind, func() ([]pgid.ID, error) {
					var id pgid.ID
					err := s.now.Load().Pool.QueryRow(ctx, sql).Scan(&id)
					return one(id, err)
				})
				if err != nil {
					time.Sleep(20 * time.Millisecond) // and once more: it is a failover
					continue
				}
				s.served.Add(1)
			}
		})
	}
	s.awaitServed(t)
	time.Sleep(time.Second)
	return s
}

// move goes on with another database, and is back when clients have been served there.
func (s *service) move(t *testing.T, db *pgtest.Database) {
	t.Helper()
	s.now.Store(db)
	s.awaitServed(t)
}

// awaitServed waits until clients have been served a thousand times from now.
func (s *service) awaitServed(t *testing.T) {
	t.Helper()
	s.served.Store(0)
	for start := time.Now(); s.served.Load() < 1000; time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > away {
			t.Fatalf("no service for %s: %d IDs", away, s.served.Load())
		}
	}
}

// setBack sets a server's clock to a time in which clients were served elsewhere, a
// second before they were not any more. Who does not remember it repeats their IDs.
func setBack(t *testing.T, node *pgtest.Node, until time.Time) {
	t.Helper()
	node.SetClock(t, time.Until(until)-time.Second)
}

func (s *service) stop() {
	s.cancel()
	s.group.Wait()
}

// away is how long the service may be away in a failover, or a copy, on a slow machine.
const away = time.Minute

// kept checks the promises, and that nothing is left behind in the database.
func kept(t *testing.T, l *Ledger, db *pgtest.Database) {
	t.Helper()
	report := l.Check()
	if broken := report.Broken(); broken != "" {
		t.Error(broken)
	}
	first, last := l.Span()
	gap := l.Gap(first, last)
	if gap > away {
		t.Errorf("the service was away for %s", gap)
	}
	pgtest.RequireNoLocks(t, db.URL)
	t.Logf("%d IDs, away for %s", report.IDs, gap.Round(time.Millisecond))
}

// draw draws n IDs of a shard one by one, and enters them.
func draw(t *testing.T, book *Book, db *pgtest.Database, shard pgid.Shard, n int) {
	t.Helper()
	client := pgid.NewClient(db.Pool)
	for range n {
		err := book.Draw(Strict, func() ([]pgid.ID, error) {
			return one(client.NextID(t.Context(), shard))
		})
		if err != nil {
			t.Fatalf("shard %d: %v", shard, err)
		}
	}
}

// one is what a call returned: an ID may come with an error, if its transaction failed.
func one(id pgid.ID, err error) ([]pgid.ID, error) {
	if id == 0 {
		return nil, err
	}
	return []pgid.ID{id}, err
}

// drawDense draws every tick of a time of one and a half seconds, up to now, and returns
// the range. Whoever is set back into that time without remembering it repeats one.
func drawDense(t *testing.T, book *Book, db *pgtest.Database, shard pgid.Shard) pgid.Range {
	t.Helper()
	const length = 1500 * time.Millisecond
	client := pgid.NewClient(db.Pool)
	var all pgid.Range
	for start := time.Now(); time.Since(start) < time.Minute; {
		err := book.DrawRange(Strict, func() (r pgid.Range, err error) {
			if r, err = client.Reserve(t.Context(), shard, 102400); err != nil {
				return r, err
			}
			if r.First.Tick() != all.Last.Tick()+1 { // the first, or a stall: start over
				all.First = r.First
			}
			all.Last = r.Last
			return r, nil
		})
		if err != nil {
			t.Fatalf("shard %d: %v", shard, err)
		}
		if all.Last.Time().Sub(all.First.Time()) >= length {
			return all
		}
	}
	t.Fatalf("too slow a machine to draw 1024 IDs a millisecond for %s", length)
	return all
}
