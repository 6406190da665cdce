package postgresids_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nextid/postgres-ids/internal/pgtest"
)

type stats struct{ Waits, Refusals, Busy, ClockSteps int64 }

func readStats(t *testing.T, db *pgtest.Database) stats {
	t.Helper()
	rows, err := db.Pool.Query(t.Context(), "SELECT waits, refusals, busy, clock_steps FROM pgid.stats")
	if err != nil {
		t.Fatal(err)
	}
	s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[stats])
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Waits, refusals and steps of the clock are counted, also those of a transaction that
// is rolled back; a step is told to the server's log, once.
func TestStats(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(4, 5)")
	shownClock(t, db)
	var logged []string
	config, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { logged = append(logged, n.Severity+": "+n.Message) }
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), "SET client_min_messages = log"); err != nil {
		t.Fatal(err)
	}

	const second = 1_000_000 // of the shown clock
	call := func(shard, now int64, want string) {
		t.Helper()
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "SELECT set_config('trace.now', $1::bigint::text, true)", now); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "SELECT pgid.next_id($1::integer)", shard); pgtest.SQLState(err) != want {
			t.Fatalf("at %d: %v, want SQLSTATE %q", now, err, want)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		what       string
		shard, now int64
		state      string
		want       stats
		high       int64 // ms, what the clock has been seen to show; -1: not asked
	}{
		{"the first ID", 5, 100 * second, "", stats{}, 100_000},
		{"64 ms on", 5, 100*second + 64_000, "", stats{}, 100_000},
		{"65 ms on", 5, 100*second + 65_000, "", stats{}, 100_065},
		{"back by 50 ms: less than the lead", 5, 100*second + 15_000, "", stats{}, -1},
		{"back by 165 ms: a wait", 5, 100*second - 100_000, "", stats{Waits: 1, ClockSteps: 1}, 99_900},
		{"the same time: a wait, no further step", 5, 100*second - 100_000, "", stats{Waits: 2, ClockSteps: 1}, 99_900},
		{"another shard, not ahead", 4, 100*second - 100_000, "", stats{Waits: 2, ClockSteps: 1}, 99_900},
		{"back by 50 s: a refusal", 5, 50 * second, "ID001", stats{Waits: 2, Refusals: 1, ClockSteps: 2}, 50_000},
		{"the same time", 5, 50*second + 64_000, "ID001", stats{Waits: 2, Refusals: 2, ClockSteps: 2}, 50_000},
		{"the other shard", 4, 50 * second, "ID001", stats{Waits: 2, Refusals: 3, ClockSteps: 2}, -1},
		{"right again", 5, 101 * second, "", stats{Waits: 2, Refusals: 3, ClockSteps: 2}, 101_000},
		{"before the epoch", 5, -second, "ID001", stats{Waits: 2, Refusals: 4, ClockSteps: 3}, -1_000},
		{"past the end", 5, 1_099_511_627_776 * 1000, "ID004", stats{Waits: 2, Refusals: 5, ClockSteps: 3}, 1_099_511_627_776},
		{"right again", 5, 102 * second, "", stats{Waits: 2, Refusals: 5, ClockSteps: 4}, 102_000},
	} {
		call(c.shard, c.now, c.state)
		if got := readStats(t, db); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
		if high := pgtest.Query[int64](t, db, "SELECT pg_sequence_last_value('pgid.clock_high')"); c.high != -1 && high != c.high {
			t.Errorf("%s: clock_high is %d, want %d", c.what, high, c.high)
		}
	}
	if lines := strings.Join(logged, "\n"); strings.Count(lines, "LOG: pgid: the clock went back by at least") != 4 || !strings.Contains(lines, "by at least 49900 ms") {
		t.Errorf("logged:\n%s", lines)
	}

	// An epoch of another time is not a step of the clock.
	fresh := pgtest.New(t)
	fresh.Exec(t, "BEGIN; SELECT pgid.create_shard(5); SELECT pgid.next_id(5); ROLLBACK")
	fresh.Exec(t, "SELECT pgid.configure(epoch_ms => (extract(epoch FROM now()) * 1000)::bigint - 60000)")
	fresh.Exec(t, "SELECT pgid.create_shard(5), pgid.next_id(5)")
	if got := readStats(t, fresh); got != (stats{}) {
		t.Errorf("after a change of the epoch: %+v", got)
	}
}

// Under load no step of the clock is seen where there is none, and bursts are counted
// as waits.
func TestStatsUnderLoad(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(4, 5)")
	load(t, db, 8, 8000, fmt.Sprintf("SELECT %s, pgid.next_id(4 + (n + $1::integer) %% 2), %s FROM generate_series(1, $2::integer) AS n", now, now))
	before := readStats(t, db)
	if before.ClockSteps != 0 || before.Refusals != 0 || before.Busy != 0 {
		t.Errorf("after ordinary load: %+v", before)
	}
	start := time.Now()
	// The first fills what may be ahead, the second has to wait.
	db.Exec(t, "SELECT count(pgid.reserve(4, 102400)) FROM generate_series(1, 4)")
	if after := readStats(t, db); after.Waits <= before.Waits || after.ClockSteps != 0 {
		t.Errorf("after a burst that took %s: %+v, before %+v", time.Since(start), after, before)
	}
}
