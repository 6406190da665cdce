package faults

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/display"
	"github.com/nextid/postgres-ids/internal/pgtest"
)

// All faults in turn on one server under load from every source. PGID_TEST_SOAK says for
// how long: the acceptance is 10m, and 10,000,000 IDs. PGID_SOAK_REPORT names a
// Markdown file that has a place for the tables: see display.Fill.
//
// A kill of the server and a clock set back beyond the IDs issued are not combined here:
// TestKilledServer does that, with what is promised then. So after a spell ahead of the
// right time, the next fault waits until that has come.
func TestSoak(t *testing.T) {
	t.Parallel()
	lasts, atLeast := 12*time.Second, 100_000
	if long := soak(t); long > 0 {
		lasts = long
		if long >= 10*time.Minute {
			atLeast = 10_000_000
		}
	}
	server := pgtest.NewClockServer(t)
	db := pgtest.NewOn(t, server)
	shards := upTo(3)
	db.Exec(t, "SELECT pgid.create_shards(0, 2)")
	db.Exec(t, "SELECT pgid.create_pool($1, 100, 115)", childPool)
	db.Exec(t, createItems(shards))
	version := pgtest.Query[int](t, db, "SELECT current_setting('server_version_num')::integer / 10000")
	db.Pool.Close()

	s := newSoaker(t, server, db)
	defer s.fleet.stop()
	s.addSources(shards)
	random := pgtest.Seed(t)
	for n, end := 0, time.Now().Add(lasts); time.Now().Before(end) && !t.Failed(); n++ {
		s.inject(t, pick(random, n), random)
	}
	s.settle(t)
	s.fleet.stop()

	s.fleet.allow(t, lost, expired, stale, "57014", "57P01", "57P02", "57P03", "ID001", "ID005", "ID006", "ID007")
	requireKept(t, s.ledger, atLeast)
	faults, sources, total := s.tables()
	if total < atLeast { // without those that leases granted
		t.Errorf("%d IDs, want at least %d", total, atLeast)
	}
	pgtest.RequireNoLocks(t, server.DatabaseURL(db))

	t.Logf("\n%s\n%s", faults.Render(), sources.Render())
	if file := os.Getenv("PGID_SOAK_REPORT"); file != "" {
		text := fmt.Sprintf("PostgreSQL %d, %s:\n\n%s\n\n%s", version, lasts, faults.RenderMarkdown(), sources.RenderMarkdown())
		if err := display.Fill(file, "soak", text); err != nil {
			t.Error(err)
		}
	}
	for _, row := range s.rows() {
		if row.worst > 20*time.Second {
			t.Errorf("%s: nobody got an ID for %s", row.fault, row.worst)
		}
	}
	t.Logf("%s IDs under %d faults", display.Count(total), len(s.injected)-1)
}
