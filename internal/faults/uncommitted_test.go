package faults

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// The other side: an ID that left a transaction before its commit, or one that wrote
// nothing, is protected by the clock alone. After a crash it comes again if the clock
// then reads earlier than it, and only then. What was committed before it never does.
func TestIDsOfNoCommit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		leak func(t *testing.T, open *pgx.Conn, url string) []pgid.ID
		back bool // the clock, to a second before
	}{
		{"uncommitted, right clock", leakUncommitted, false},
		{"uncommitted, clock set back", leakUncommitted, true},
		{"nothing written, right clock", leakReadOnly, false},
		{"nothing written, clock set back", leakReadOnly, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.NewClockServer(t)
			db := pgtest.NewOn(t, server)
			db.Exec(t, "SELECT pgid.create_shard(0)")
			db.Exec(t, createItems(upTo(1)))
			// Nobody but a commit flushes what a transaction has logged.
			super := pgtest.Connect(t, db.SuperURL)
			for _, sql := range []string{
				"ALTER SYSTEM SET wal_writer_delay = '10s'", "ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()",
			} {
				if _, err := super.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			ledger := NewLedger()
			book := ledger.Book("client")
			draw := func(kind Kind, draw func() []pgid.ID) []pgid.ID {
				t.Helper()
				start := ledger.Now()
				ids := draw()
				if err := book.Enter(kind, start, ids...); err != nil {
					t.Fatal(err)
				}
				return ids
			}
			const tries = 15
			for try := range tries {
				draw(Strict, func() []pgid.ID {
					return query(t, pgtest.Connect(t, server.DatabaseURL(db)), "INSERT INTO item_0 DEFAULT VALUES RETURNING id")
				})
				time.Sleep(20 * time.Millisecond) // so that the shard has to catch up
				open := pgtest.Connect(t, server.DatabaseURL(db))
				if _, err := open.Exec(t.Context(), "BEGIN"); err != nil {
					t.Fatal(err)
				}
				left := draw(Loose, func() []pgid.ID { return c.leak(t, open, server.DatabaseURL(db)) })
				leftAt := time.Now()
				server.Kill(t)
				if c.back {
					server.SetClock(t, -time.Minute) // however long it takes to start
				}
				server.Start(t)
				if c.back {
					server.SetClock(t, -time.Since(leftAt)-10*time.Second)
				}

				conn := pgtest.Connect(t, server.DatabaseURL(db))
				last := pgid.Tick(query(t, conn, "SELECT pgid.last_tick(0)")[0])
				wasLost := last < left[0].Tick()
				if !wasLost && try < tries-1 { // a flush came in between: try anew
					t.Logf("the server remembers up to tick %d, past %d", last, left[0].Tick())
					server.SetClock(t, 0)
					time.Sleep(time.Second)
					continue
				}
				if !wasLost {
					t.Fatal("the server never forgot what nobody committed")
				}
				// Every tick of what follows, in one range: none is left out while the clock goes on.
				if _, err := conn.Exec(t.Context(), "SELECT pgid.configure(max_lead_ms => 60000)"); err != nil {
					t.Fatal(err)
				}
				err := book.DrawRange(Strict, func() (pgid.Range, error) {
					return pgid.NewClient(conn).Reserve(t.Context(), 0, 15_000*1024)
				})
				if err != nil {
					t.Fatal(err)
				}
				report := requireCommitted(t, ledger, 15_000*1024)
				if want := len(left); c.back && report.Again != want || !c.back && report.Again != 0 {
					t.Errorf("%d of %d IDs came again", report.Again, want)
				}
				return
			}
		})
	}
}

// leakUncommitted draws five IDs in an open transaction.
func leakUncommitted(t *testing.T, open *pgx.Conn, _ string) []pgid.ID {
	return query(t, open, "SELECT pgid.next_id(0) FROM generate_series(1, 5)")
}

// leakReadOnly has another session draw an ID in a transaction that is committed: what
// the open one has logged serves it, and so it writes nothing that would be flushed.
func leakReadOnly(t *testing.T, open *pgx.Conn, url string) []pgid.ID {
	// It must not take long, for whoever has to catch up with the clock writes: it is
	// connected, and has called before.
	reader := pgtest.Connect(t, url)
	query(t, reader, "SELECT pgid.next_id(0)")
	query(t, open, "SELECT last FROM pgid.reserve(0, 1)")
	query(t, open, "SELECT last FROM pgid.reserve(0, 102400)")
	return query(t, reader, "SELECT pgid.next_id(0)")
}

func query(t *testing.T, conn *pgx.Conn, sql string) []pgid.ID {
	t.Helper()
	ids, err := collect(conn.Query(t.Context(), sql))
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return ids
}
