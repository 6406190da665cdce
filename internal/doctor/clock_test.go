package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/pgtest"
)

func TestShardAhead(t *testing.T) {
	t.Parallel()
	db := healthy(t)
	db.Exec(t, "SELECT pgid.advance_shard(2, pgid.make_id(clock_timestamp() + interval '3 hours', 2, 0))")
	pick(t, look(t, db.URL), Error, "clock", "shard 2 is 3h0m0s ahead", "issues no ID (ID001) for 3h0m0s, until ")
	db.Exec(t, "SELECT pgid.advance_shard(3, pgid.make_id('2060-10-01', 3, 0))")
	pick(t, look(t, db.URL), Warning, "years", "shard 3 was raised to 2060-10-01")
}

func TestClock(t *testing.T) {
	t.Parallel()
	server := pgtest.NewClockServer(t)
	db := pgtest.NewOn(t, server)
	db.Exec(t, "SELECT pgid.create_shard(2)")
	db.Exec(t, "SELECT pgid.next_id(2)")
	if wrong := look(t, db.URL); len(wrong) > 0 {
		t.Fatalf("before it is stepped:\n%s", text(wrong))
	}

	server.SetClock(t, 10*time.Second)
	pick(t, look(t, db.URL), Warning, "clock", "the server's clock is 10s ahead of this machine's")
	db.Exec(t, "SELECT pgid.next_id(2)")
	server.SetClock(t, 0)
	pick(t, look(t, db.URL), Error, "clock", "shard 2 is ", "ahead of the clock", "(ID001)")

	server.SetClock(t, -2*time.Hour)
	pick(t, look(t, db.URL), Warning, "clock", "the server's clock is 2h0m0s behind this machine's")
	beforeEpoch := time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	server.SetClock(t, time.Until(beforeEpoch))
	f := pick(t, look(t, db.URL), Error, "clock", "before the epoch, 2026-01-01T00:00:00Z")
	if f.Fix != "correct the server's clock" {
		t.Errorf("fix %q", f.Fix)
	}
	server.SetClock(t, 40*year)
	pick(t, look(t, db.URL), Error, "years", "the time of IDs ended at 2060-11-03")
}

// Two databases on servers whose clocks differ.
func TestClocksCompared(t *testing.T) {
	t.Parallel()
	server := pgtest.NewClockServer(t)
	late, right := pgtest.NewOn(t, server), healthy(t)
	server.SetClock(t, -20*time.Second)
	pick(t, look(t, right.URL, late.URL), Warning, "others", "the server's clock is 20s behind that of ")
}

// A server that was a primary, and is started again as a standby.
func TestStandby(t *testing.T) {
	t.Parallel()
	server := pgtest.NewClockServer(t)
	db := pgtest.NewOn(t, server)
	script(t, db.URL, "SELECT pgid.create_shards(1, 3); SELECT pgid.next_id(2); CREATE TABLE photo (id bigint DEFAULT pgid.next_id(2)); INSERT INTO photo DEFAULT VALUES")
	if out, err := db.Shell(t, `touch "$(psql -X -At -d postgres -c 'SHOW data_directory')/standby.signal"`); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server.Restart(t)
	defer func() { // else its database cannot be dropped
		if out, err := db.Shell(t, "psql -X -At -d postgres -c 'SELECT pg_promote()'"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}()
	findings := look(t, server.DatabaseURL(db))
	f := pick(t, findings, Info, "server", "this server is a standby")
	if !strings.Contains(f.Fix, "examine the primary") || len(findings) != 1 {
		t.Errorf("of a standby:\n%s", text(findings))
	}
}
