package postgresids_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// A drawer gets IDs of a shard in one way, until it is refused.
type drawer struct {
	conn *pgx.Conn
	tx   pgx.Tx // with a snapshot from before the retirement; or nil
	sql  string // of a shard; returns one ID or more

	highest pgid.ID
	drawn   int
	late    time.Duration // when the last call that succeeded began
}

// drawers are one for each way: plans made and prepared before the retirement, singly,
// in long statements and in batches, and under snapshots older than it.
func drawers(t *testing.T, db *pgtest.Database, shard pgid.Shard) []*drawer {
	t.Helper()
	const (
		single = "SELECT pgid.next_id(%d)"
		many   = "SELECT pgid.next_id(%d) FROM generate_series(1, 3000)"
		batch  = "SELECT pgid.next_ids(%d, 100)"
		ends   = "SELECT id FROM pgid.reserve(%d, 300) AS r, unnest(ARRAY[r.first, r.last]) AS id"
	)
	var list []*drawer
	for _, way := range []struct {
		sql       string
		isolation pgx.TxIsoLevel
		setup     string
	}{
		{single, "", ""},
		{single, "", "SET plan_cache_mode = force_generic_plan"},
		{single, pgx.RepeatableRead, ""},
		{many, "", ""},
		{many, pgx.Serializable, ""},
		{batch, "", "SET plan_cache_mode = force_generic_plan"},
		{batch, pgx.RepeatableRead, ""},
		{ends, "", ""},
	} {
		d := &drawer{conn: db.Connect(t), sql: fmt.Sprintf(way.sql, shard)}
		_, err := d.conn.Exec(t.Context(), "SELECT 1; "+way.setup)
		for range 6 { // more often than it takes for a generic plan
			if err == nil {
				err = d.draw(t.Context(), 0)
			}
		}
		if err == nil && way.isolation != "" {
			if d.tx, err = d.conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: way.isolation}); err == nil {
				_, err = d.tx.Exec(t.Context(), "SELECT count(*) FROM pgid.shard_status") // its snapshot
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, d)
	}
	return list
}

// draw calls once.
func (d *drawer) draw(ctx context.Context, start time.Duration) error {
	var rows pgx.Rows
	var err error
	if d.tx != nil {
		rows, err = d.tx.Query(ctx, d.sql)
	} else {
		rows, err = d.conn.Query(ctx, d.sql)
	}
	if err != nil {
		return err
	}
	var id pgid.ID
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error { // also those of a statement that then fails
		d.highest = max(d.highest, id)
		d.drawn++
		return nil
	})
	if err == nil {
		d.late = start
	}
	return pgid.Error(err)
}

// Sessions draw in every way while their shard is retired: no ID that anybody ever got
// is larger than the last ID, and whoever calls later is refused.
func TestRetireUnderLoad(t *testing.T) {
	t.Parallel()
	db, random := pgtest.New(t), pgtest.Seed(t)
	const rounds = 12
	db.Exec(t, "SELECT pgid.create_shards(0, $1)", rounds)
	drawn := 0
	for shard := range pgid.Shard(rounds) {
		sessions := drawers(t, db, shard)
		begin := time.Now()
		var group errgroup.Group
		for _, d := range sessions {
			group.Go(func() error {
				for {
					err := d.draw(t.Context(), time.Since(begin))
					if errors.Is(err, pgid.ErrShardRetired) {
						return nil
					}
					if err != nil {
						return fmt.Errorf("%s: %w", d.sql, err)
					}
					if time.Since(begin) > time.Minute {
						return fmt.Errorf("%s: not refused after a minute", d.sql)
					}
				}
			})
		}
		time.Sleep(time.Duration(20+random.IntN(60)) * time.Millisecond)
		last := pgtest.Query[pgid.ID](t, db, "SELECT pgid.retire_shard($1)", shard)
		retired := time.Since(begin)
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		for _, d := range sessions {
			if d.highest > last || d.highest == 0 {
				t.Errorf("%s: issued %d, and the last ID is %d: %d ticks less", d.sql, d.highest, last, d.highest.Tick()-last.Tick())
			}
			if d.late > retired {
				t.Errorf("%s: succeeded, %s after the shard was retired", d.sql, d.late-retired)
			}
			drawn += d.drawn
			if d.tx != nil {
				_ = d.tx.Rollback(t.Context())
				d.tx = nil
			}
			for range 3 {
				if err := d.draw(t.Context(), 0); !errors.Is(err, pgid.ErrShardRetired) || pgtest.SQLState(err) != "ID003" {
					t.Errorf("%s: %v, want ErrShardRetired", d.sql, err)
				}
			}
			_ = d.conn.Close(t.Context())
		}
		if again := pgtest.Query[pgid.ID](t, db, "SELECT pgid.retire_shard($1)", shard); again != last {
			t.Errorf("retired again, the last ID is %d, and was %d", again, last)
		}
		if ahead := time.Until(last.Time()); ahead > 3*time.Second {
			t.Errorf("the last ID is %s ahead of the clock", ahead)
		}
		db.Exec(t, "SELECT pgid.next_id($1)", rounds) // other shards do not notice
	}
	pgtest.RequireNoLocks(t, db.URL)
	t.Logf("%d IDs, none past the last", drawn)
}

// isGone fails the test unless nobody can use a shard in any way.
func isGone(t *testing.T, db *pgtest.Database, shard int) {
	t.Helper()
	for _, sql := range []string{
		"SELECT pgid.next_id($1)", "SELECT pgid.next_ids($1, 3)", "SELECT pgid.reserve($1, 3)",
		"SELECT pgid.create_shard($1)", "SELECT pgid.create_shard($1, pgid.max_id(now()))", "SELECT pgid.advance_shard($1, 1)",
		"SELECT pgid.create_pool('p', $1, $1)",
	} {
		_, err := db.Pool.Exec(t.Context(), sql, shard)
		if !errors.Is(pgid.Error(err), pgid.ErrShardRetired) || pgtest.SQLState(err) != "ID003" {
			t.Errorf("%s of shard %d: %v, want ID003", sql, shard, err)
		}
	}
}

// status is what shard_status shows.
func status(t *testing.T, db *pgtest.Database, shard int) (last *pgid.ID, left int64, retired *time.Time) {
	t.Helper()
	err := db.Pool.QueryRow(t.Context(), "SELECT last_id, ids_left, retired FROM pgid.shard_status WHERE shard = $1", shard).Scan(&last, &left, &retired)
	if err != nil {
		t.Fatal(err)
	}
	return last, left, retired
}

// For good: idempotent, whatever becomes of the transaction, used or not, and shown.
func TestRetire(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(0, 9)")
	used := pgtest.Query[pgid.ID](t, db, "SELECT max(pgid.next_id(1)) FROM generate_series(1, 1000)")
	batch := pgtest.Query[pgid.ID](t, db, "SELECT last FROM pgid.reserve(2, 1000)")
	both := pgtest.Query[pgid.ID](t, db, "SELECT last FROM pgid.reserve(3, 1000), LATERAL (SELECT pgid.next_id(3)) AS n")
	both = max(both, pgtest.Query[pgid.ID](t, db, "SELECT pgid.next_id(3)"))
	conn := db.Connect(t)
	for shard, want := range []*pgid.ID{nil, &used, &batch, &both, nil} {
		for round := range 4 {
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var last *pgid.ID
			if err := tx.QueryRow(t.Context(), "SELECT pgid.retire_shard($1)", shard).Scan(&last); err != nil {
				t.Fatal(err)
			}
			if (last == nil) != (want == nil) || want != nil && *last != *want {
				t.Errorf("round %d: shard %d was retired at %v, want %v", round, shard, last, want)
			}
			if round == 1 {
				err = tx.Commit(t.Context())
			} else { // the first time, too
				err = tx.Rollback(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			if pgtest.RequireNoLocks(t, db.URL); t.Failed() {
				return // or each of the calls waits for the lock
			}
			isGone(t, db, shard)
			shown, left, retired := status(t, db, shard)
			if (shown == nil) != (want == nil) || want != nil && *shown != *want || left != 0 || (retired == nil) != (round == 0) {
				t.Errorf("round %d: shard %d shows %v, %d left, retired %v", round, shard, shown, left, retired)
			}
		}
	}
	for shard := 5; shard < 10; shard++ {
		db.Exec(t, "SELECT pgid.next_id($1), pgid.reserve($1, 2)", shard)
		if last, left, retired := status(t, db, shard); last == nil || left == 0 || retired != nil {
			t.Errorf("shard %d, not retired, shows %v, %d left, retired %v", shard, last, left, retired)
		}
	}
	for shard, want := range map[any]string{nil: "22004", -1: "22023", 8192: "22023", 10: "ID002"} {
		if _, err := db.Pool.Exec(t.Context(), "SELECT pgid.retire_shard($1)", shard); pgtest.SQLState(err) != want {
			t.Errorf("retire_shard(%v): %v, want %s", shard, err, want)
		}
	}
}

// The table's lock is held to the end of the transaction, the shard's to that of the
// call: others refuse at once, and are not kept waiting.
func TestRetireInOpenTransaction(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(4, 5)")
	tx, err := db.Connect(t).Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "SELECT pgid.retire_shard(5)")
	}
	if err != nil {
		t.Fatal(err)
	}
	pgtest.RequireNoLocks(t, db.URL)
	client := pgid.NewClient(db.Pool)
	start := time.Now()
	if _, err := client.NextID(t.Context(), 5); !errors.Is(err, pgid.ErrShardRetired) {
		t.Errorf("before the commit: %v, want ErrShardRetired", err)
	}
	if _, err := client.Reserve(t.Context(), 5, 2); !errors.Is(err, pgid.ErrShardRetired) {
		t.Errorf("before the commit: %v, want ErrShardRetired", err)
	}
	if _, err := client.NextID(t.Context(), 4); err != nil {
		t.Errorf("another shard: %v", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("kept waiting for %s", took)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Whoever changes a shard's base has its lock: retire_shard and advance_shard do not
// touch it under a session that does, and give up when they are to.
func TestRetireAndAdvanceTakeTheLock(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	db.Exec(t, "SELECT pgid.next_id(5)")
	base := pgtest.Query[int64](t, db, "SELECT pgid.base(5)")
	sitter := db.Connect(t)
	if _, err := sitter.Exec(t.Context(), "SELECT pg_advisory_lock(pgid.lock_class(), 5)"); err != nil {
		t.Fatal(err)
	}
	conn := db.Connect(t)
	if _, err := conn.Exec(t.Context(), "SET statement_timeout = 300"); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"SELECT pgid.retire_shard(5)", "SELECT pgid.advance_shard(5, pgid.max_id(clock_timestamp() + interval '1 second'))"} {
		if _, err := conn.Exec(t.Context(), sql); pgtest.SQLState(err) != "57014" {
			t.Errorf("%s: %v, want 57014", sql, err)
		}
		if now := pgtest.Query[int64](t, db, "SELECT pgid.base(5)"); now != base {
			t.Fatalf("%s: the base went from %d to %d under another session's lock", sql, base, now)
		}
	}
	_ = sitter.Close(t.Context())
	db.Exec(t, "SELECT pgid.next_id(5)")
	db.Exec(t, "SELECT pgid.retire_shard(5)")
}

// With all its shards retired, a database takes new ones.
func TestRetireAll(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(0, 3)")
	db.Exec(t, "SELECT pgid.retire_shard(n) FROM generate_series(0, 3) AS n")
	db.Exec(t, "SELECT pgid.create_shard(7)")
	db.Exec(t, "SELECT pgid.next_id(7)")
	db.Exec(t, "SELECT pgid.create_shards(5, 9)")
	for shard := 5; shard <= 9; shard++ {
		db.Exec(t, "SELECT pgid.next_id($1)", shard)
	}
	for shard := range 4 {
		isGone(t, db, shard)
	}
}

// A dump keeps shards retired, and where they ended; also one without the sequences'
// data, that knows only the rows.
func TestRetireSurvivesDump(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(0, 3)")
	last := pgtest.Query[pgid.ID](t, db, "SELECT max(pgid.next_id(1)) FROM generate_series(1, 100)")
	db.Exec(t, "SELECT pgid.retire_shard(n) FROM generate_series(0, 1) AS n")
	db.Exec(t, "BEGIN; SELECT pgid.retire_shard(2); ROLLBACK")
	restored := pgtest.NewEmpty(t)
	out, err := db.Shell(t, `pg_dump "`+db.Name+`" | psql -X -q -v ON_ERROR_STOP=1 -d "`+restored.Name+`"`)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for shard := range 3 {
		isGone(t, restored, shard)
	}
	if again := pgtest.Query[pgid.ID](t, restored, "SELECT pgid.retire_shard(1)"); again != last {
		t.Errorf("the last ID is %d, and was %d", again, last)
	}
	if shown, left, retired := status(t, restored, 1); shown == nil || *shown != last || left != 0 || retired == nil {
		t.Errorf("shard 1 shows %v, %d left, retired %v", shown, left, retired)
	}
	restored.Exec(t, "SELECT pgid.next_id(3)")
	restored.Exec(t, "SELECT pgid.create_shard(4), pgid.next_id(4)")

	rows := pgtest.NewEmpty(t)
	out, err = db.Shell(t, `(pg_dump --schema-only "`+db.Name+`"; pg_dump --data-only -t pgid.shard "`+db.Name+`") | psql -X -q -v ON_ERROR_STOP=1 -d "`+rows.Name+`"`)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for shard := range 2 {
		isGone(t, rows, shard)
	}
	rows.Exec(t, "SELECT pgid.next_id(3)")
}

// Without its counter nobody knows what a shard has drawn: it is neither retired nor
// raised by guess.
func TestShardWithoutItsCounter(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	drawn := pgtest.Query[pgid.ID](t, db, "SELECT max(id) FROM (SELECT pgid.next_id(5) FROM generate_series(1, 5000)) AS d(id)")
	db.Exec(t, "ALTER SEQUENCE pgid.counter_5 RENAME TO kept_5")
	for _, sql := range []string{
		"SELECT pgid.retire_shard(5)", "SELECT pgid.next_ids(5, 10)", "SELECT pgid.reserve(5, 10)",
		"SELECT pgid.raise_shard(5, 1)", "SELECT pgid.next_id(5) FROM generate_series(1, 3), pg_sleep(0.01)",
	} {
		if _, err := db.Pool.Exec(t.Context(), sql); pgtest.SQLState(err) != "42P01" {
			t.Errorf("%s: %v, want SQLSTATE 42P01", sql, err)
		}
	}
	db.Exec(t, "ALTER SEQUENCE pgid.kept_5 RENAME TO counter_5")
	if id := pgtest.Query[pgid.ID](t, db, "SELECT pgid.next_id(5)"); id <= drawn {
		t.Errorf("%d after %d", id, drawn)
	}
	if last := pgtest.Query[pgid.ID](t, db, "SELECT pgid.retire_shard(5)"); last <= drawn {
		t.Errorf("retired at %d, below %d", last, drawn)
	}
	pgtest.RequireNoLocks(t, db.URL)
}
