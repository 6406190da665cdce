package faults

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// aheadShard is a database whose shard 0 is 20 s ahead of the clock, as is allowed there:
// no call needs to catch up, and each tick follows from the sequences alone.
func aheadShard(t *testing.T) (*pgtest.Database, *Ledger, func(conn *pgx.Conn, n int)) {
	t.Helper()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(0, 1)")
	db.Exec(t, "SELECT pgid.configure(max_lead_ms => 60000)")
	db.Exec(t, "SELECT pgid.reserve(0, 20480000)")
	ledger := NewLedger()
	book := ledger.Book("client")
	return db, ledger, func(conn *pgx.Conn, n int) {
		t.Helper()
		err := book.Draw(Strict, func() ([]pgid.ID, error) {
			return collect(conn.Query(t.Context(), "SELECT pgid.next_id(0) FROM generate_series(1, $1)", n))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What no function of pgid can bear, each found by looking at the sequences: a counter with a
// cache, a sequence set back. IDs repeat. Whoever makes this test fail has mended pgid:
// then the promise may be made larger.
func TestTamperingThatRepeats(t *testing.T) {
	t.Parallel()
	t.Run("counter with a cache", func(t *testing.T) {
		t.Parallel()
		db, ledger, draw := aheadShard(t)
		db.Exec(t, "ALTER SEQUENCE pgid.counter_0 CACHE 50")
		one, two := db.Connect(t), db.Connect(t)
		draw(one, 1) // and has 49 numbers in hand, from before those of two
		draw(two, 1)
		db.Exec(t, "SELECT pgid.reserve(0, 10)") // raises base by 10
		draw(one, 49)
		requireRepeats(t, ledger, 1)
		if cache := pgtest.Query[int](t, db, "SELECT cache_size FROM pg_sequences WHERE schemaname = 'pgid' AND sequencename = 'counter_0'"); cache != 50 {
			t.Errorf("cache_size %d is what tells of it", cache)
		}
	})
	for _, sequence := range []string{"counter_0", "base_0"} {
		t.Run(sequence+" set back", func(t *testing.T) {
			t.Parallel()
			db, ledger, draw := aheadShard(t)
			conn := db.Connect(t)
			draw(conn, 20)
			db.Exec(t, fmt.Sprintf("SELECT setval('pgid.%[1]s', last_value - 15) FROM pgid.%[1]s", sequence))
			draw(conn, 20)
			requireRepeats(t, ledger, 15)
			newest := ledger.Last(0)
			draw(conn, 1)
			// Set back further, the shard is behind IDs that a table holds: that tells of it.
			db.Exec(t, fmt.Sprintf("SELECT setval('pgid.%[1]s', last_value - 10) FROM pgid.%[1]s", sequence))
			if last := pgtest.Query[pgid.ID](t, db, "SELECT last_id FROM pgid.shard_status WHERE shard = 0"); last >= newest {
				t.Errorf("last_id %d does not tell of %d", last, newest)
			}
			// And this is how it ends.
			db.Exec(t, "SELECT pgid.advance_shard(0, $1)", ledger.Last(0))
			draw(conn, 20)
			requireRepeats(t, ledger, 15)
		})
	}
}

func requireRepeats(t *testing.T, ledger *Ledger, want int) {
	t.Helper()
	if report := ledger.Check(); report.Twice != want {
		t.Errorf("%d IDs were issued twice, it should show %d", report.Twice, want)
	}
}

// What is borne. A cache of base changes nothing, for nobody draws from it. A shard that
// is not ahead of its clock makes up for a sequence set back. A sequence set forward is past all.
func TestTamperingThatIsBorne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, sql string }{
		{"base with a cache", "ALTER SEQUENCE pgid.base_0 CACHE 50"},
		{"counter set back", "SELECT setval('pgid.counter_0', last_value - 500) FROM pgid.counter_0"},
		{"base set back", "SELECT setval('pgid.base_0', last_value - 5000) FROM pgid.base_0"},
		{"all sequences set forward by 1,000", `SELECT setval(format('pgid.%I', sequencename), last_value + 1000)
			FROM pg_sequences WHERE schemaname = 'pgid' AND last_value IS NOT NULL`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			db.Exec(t, "SELECT pgid.create_shards(0, 1)")
			ledger := NewLedger()
			var books [3]*Book
			for i := range books {
				books[i] = ledger.Book(fmt.Sprint("client ", i))
			}
			conn := db.Connect(t)
			for range 5 {
				for i, sql := range []string{
					"SELECT pgid.next_id(n % 2) FROM generate_series(1, 2000) AS n",
					"SELECT pgid.next_ids(0, 700)",
					"SELECT pgid.next_id(0)",
				} {
					err := books[i].Draw(Strict, func() ([]pgid.ID, error) { return collect(conn.Query(t.Context(), sql)) })
					if err != nil {
						t.Fatal(err)
					}
				}
				// None is under way, and the clock has passed the last one's time.
				for pgtest.Query[int](t, db, "SELECT max(lead_ms) FROM pgid.shard_status") >= 0 {
					continue
				}
				db.Exec(t, c.sql)
			}
			requireKept(t, ledger, 10_000)
			pgtest.RequireNoLocks(t, db.URL)
		})
	}
}

// A sequence that is gone, has another name or another owner: a clean error, and other
// shards do not notice.
func TestTamperingThatBreaksAShard(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, sql, undo string
		want            string // SQLSTATE of calls
	}{
		{"counter of another owner", "ALTER SEQUENCE pgid.counter_0 OWNER TO %[1]s", "ALTER SEQUENCE pgid.counter_0 OWNER TO %[2]s", "42501"},
		{"base of another owner", "ALTER SEQUENCE pgid.base_0 OWNER TO %[1]s", "ALTER SEQUENCE pgid.base_0 OWNER TO %[2]s", "42501"},
		{"base not to be read", "REVOKE SELECT, USAGE ON SEQUENCE pgid.base_0 FROM %[2]s", "GRANT ALL ON SEQUENCE pgid.base_0 TO %[2]s", "42501"},
		{"no rights left on it", "REVOKE ALL ON SEQUENCE pgid.counter_0 FROM %[2]s", "GRANT ALL ON SEQUENCE pgid.counter_0 TO %[2]s", "42501"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			db.Exec(t, "SELECT pgid.create_shards(0, 1)")
			super := pgtest.Connect(t, db.SuperURL)
			owner := pgtest.Query[string](t, db, "SELECT current_user")
			other := db.Role(t)
			alter := func(format string) {
				t.Helper()
				if _, err := super.Exec(t.Context(), fmt.Sprintf(format+" /* %[1]s, %[2]s */", other, owner)); err != nil {
					t.Fatal(err)
				}
			}
			ledger := NewLedger()
			book, conn := ledger.Book("client"), db.Connect(t)
			call := func(sql string) string {
				return sqlstate(book.Draw(Strict, func() ([]pgid.ID, error) { return collect(conn.Query(t.Context(), sql)) }))
			}
			for _, phase := range []struct{ sql, want string }{{"SELECT", ""}, {c.sql, c.want}, {c.undo, ""}} {
				alter(phase.sql)
				for _, sql := range []string{"SELECT pgid.next_id(0)", "SELECT pgid.next_ids(0, 10)", "SELECT pgid.next_id(0)"} {
					if got := call(sql); got != phase.want {
						t.Errorf("%s: %s: %q, want %q", phase.sql, sql, got, phase.want)
					}
				}
				if got := call("SELECT pgid.next_id(1)"); got != "" {
					t.Errorf("the other shard: %s", got)
				}
			}
			requireKept(t, ledger, 24)
			pgtest.RequireNoLocks(t, db.URL)
		})
	}
	t.Run("dropped", func(t *testing.T) {
		t.Parallel()
		db := pgtest.New(t)
		db.Exec(t, "SELECT pgid.create_shards(0, 1)")
		drop := func(sql string) string { _, err := db.Pool.Exec(context.Background(), sql); return sqlstate(err) }
		// The lookup names them, and so PostgreSQL keeps them.
		if got := drop("DROP SEQUENCE pgid.counter_0"); got != "2BP01" {
			t.Errorf("dropped: %q, want 2BP01: others depend on it", got)
		}
		pgtest.Query[pgid.ID](t, db, "SELECT pgid.next_id(0)")
		// Who insists takes the lookup along: no call is answered with a wrong ID.
		if got := drop("DROP SEQUENCE pgid.counter_0 CASCADE"); got != "" {
			t.Fatal(got)
		}
		for shard := range 2 {
			if got := drop(fmt.Sprintf("SELECT pgid.next_id(%d)", shard)); got != "42883" {
				t.Errorf("shard %d without the lookup: %q", shard, got)
			}
		}
	})
}

// All sequences set forward, those too that stand in for shards that do not exist: these
// are refused all the same.
func TestTamperedStandIns(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(0), pgid.create_shard(10)")
	db.Exec(t, `SELECT setval(format('pgid.%I', sequencename), coalesce(last_value, start_value) + 1000)
		FROM pg_sequences WHERE schemaname = 'pgid'`)
	for _, sql := range []string{
		"SELECT pgid.next_id(5)", "SELECT pgid.next_ids(5, 10)", "SELECT pgid.reserve(5, 10)", "SELECT pgid.next_id(11)", "SELECT pgid.reserve(11, 1)",
		"SELECT pgid.advance_shard(5, 1)", "SELECT pgid.retire_shard(5)",
	} {
		if _, err := db.Pool.Exec(t.Context(), sql); sqlstate(err) != "ID002" {
			t.Errorf("%s: %v, want ID002", sql, err)
		}
	}
	pgtest.Query[pgid.ID](t, db, "SELECT pgid.next_id(0)")
}
