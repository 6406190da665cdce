package postgresids_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// A column default gives each row its own ID: row by row, in bulk, by COPY, and to the
// rows that were there before the column.
func TestColumnDefault(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	db.Exec(t, "CREATE TABLE photo (id bigint PRIMARY KEY DEFAULT pgid.next_id(5), n integer)")

	before := time.Now().Add(-time.Second)
	first := pgtest.Query[pgid.ID](t, db, "INSERT INTO photo (n) VALUES (1) RETURNING id")
	if first.Shard() != 5 || first.Time().Before(before) || first.Time().After(time.Now().Add(time.Second)) {
		t.Errorf("the first ID, %d, is of shard %d at %s", first, first.Shard(), first.Time())
	}
	db.Exec(t, "INSERT INTO photo (n) SELECT n FROM generate_series(2, 5000) AS n")
	copied, err := db.Pool.CopyFrom(t.Context(), pgx.Identifier{"photo"}, []string{"n"},
		pgx.CopyFromSlice(1000, func(i int) ([]any, error) { return []any{5001 + i}, nil }))
	if err != nil || copied != 1000 {
		t.Fatalf("copied %d: %v", copied, err)
	}
	if n := pgtest.Query[int](t, db, "SELECT count(*) FROM (SELECT id, lag(id) OVER (ORDER BY n) AS before FROM photo) AS p WHERE before >= id"); n > 0 {
		t.Errorf("%d of 6000 rows have an ID that is not above that of the row before", n)
	}

	db.Exec(t, "CREATE TABLE old AS SELECT n FROM generate_series(1, 3000) AS n")
	db.Exec(t, "ALTER TABLE old ADD COLUMN id bigint NOT NULL DEFAULT pgid.next_id(5)")
	if n := pgtest.Query[int](t, db, "SELECT count(DISTINCT id) FROM old"); n != 3000 {
		t.Errorf("3000 rows of before the column have %d IDs", n)
	}
}

// What a transaction drew stays drawn: a rollback leaves a gap, never a repeat.
func TestTransactions(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	client := pgid.NewClient(db.Pool)
	var last pgid.ID
	next := func(client *pgid.Client) {
		t.Helper()
		id, err := client.NextID(t.Context(), 5)
		if err != nil || id <= last {
			t.Fatalf("%d after %d: %v", id, last, err)
		}
		last = id
	}
	rollback := errors.New("rollback")
	next(client)
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		next(client.With(tx))
		for range 3 {
			err := pgx.BeginFunc(t.Context(), tx, func(savepoint pgx.Tx) error {
				next(client.With(savepoint))
				return rollback
			})
			if !errors.Is(err, rollback) {
				return err
			}
			next(client.With(tx))
		}
		return rollback
	})
	if !errors.Is(err, rollback) {
		t.Fatal(err)
	}
	next(client)

	// The time is the call's, not the transaction's.
	err = pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SELECT pg_sleep(0.3)"); err != nil {
			return err
		}
		var lag time.Duration
		if err := tx.QueryRow(t.Context(), "SELECT pgid.id_time(pgid.next_id(5)) - now()").Scan(&lag); err != nil {
			return err
		}
		if lag < 250*time.Millisecond {
			t.Errorf("an ID drawn 300 ms into a transaction shows a time %s after its start", lag)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	_, err = db.Pool.Exec(t.Context(), "BEGIN READ ONLY; SELECT pgid.next_id(5); COMMIT")
	if pgtest.SQLState(err) != "25006" {
		t.Errorf("in a read-only transaction: %v, want 25006", err)
	}
}

// A transaction whose snapshot, and a session whose plans, are older than a shard can
// use it.
func TestShardYoungerThanSnapshot(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(1)")
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		shard := map[pgx.TxIsoLevel]pgid.Shard{pgx.ReadCommitted: 2, pgx.RepeatableRead: 3000, pgx.Serializable: 8191}[level]
		err := pgx.BeginTxFunc(t.Context(), db.Pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "SELECT pgid.next_id(1), count(*) FROM pg_class"); err != nil {
				return err
			}
			db.Exec(t, "SELECT pgid.create_shard($1)", shard)
			_, err := tx.Exec(t.Context(), "SELECT pgid.next_id($1), pgid.next_id($1)", shard)
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", level, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	db.Exec(t, "CREATE TABLE photo (id bigint PRIMARY KEY DEFAULT pgid.next_id(6))")
	for _, c := range []struct {
		sql, state string
		sentinel   error
	}{
		{"SELECT pgid.next_id(NULL)", "22004", pgid.ErrNullShard},
		{"SELECT pgid.next_id(-1)", "22023", pgid.ErrOutOfRange},
		{"SELECT pgid.next_id(8192)", "22023", pgid.ErrOutOfRange},
		{fmt.Sprintf("SELECT pgid.next_id(%d)", math.MaxInt32), "22023", pgid.ErrOutOfRange},
		{fmt.Sprintf("SELECT pgid.next_id(%d)", math.MinInt32), "22023", pgid.ErrOutOfRange},
		{"SELECT pgid.next_id(4)", "ID002", pgid.ErrNoShard},
		{"SELECT pgid.next_id(8191)", "ID002", pgid.ErrNoShard},
		{"INSERT INTO photo DEFAULT VALUES", "ID002", pgid.ErrNoShard},
		{"SELECT pgid.create_shard(NULL)", "22004", pgid.ErrNullShard},
		{"SELECT pgid.create_shard(8192)", "22023", pgid.ErrOutOfRange},
		{"SELECT pgid.create_shard(-1)", "22023", pgid.ErrOutOfRange},
		{"SELECT pgid.create_shards(3, 2)", "22023", pgid.ErrOutOfRange},
		{"SELECT pgid.create_shards(0, 8192)", "22023", pgid.ErrOutOfRange},
		{"SELECT pgid.min_id('infinity')", "22008", pgid.ErrTimeRange},
		{"SELECT pgid.max_id('-infinity')", "22008", pgid.ErrTimeRange},
		{"SELECT pgid.make_id('2061-01-01', 0, 0)", "22008", pgid.ErrTimeRange},
		{"SELECT pgid.make_id(now(), 0, 1024)", "22023", pgid.ErrOutOfRange},
		{"SELECT pgid.next_id()", "22023", pgid.ErrOutOfRange},
		{"SET LOCAL pgid.shard = ''; SELECT pgid.next_id()", "22023", pgid.ErrOutOfRange},
		{"SET LOCAL pgid.shard = 'five'; SELECT pgid.next_id()", "22023", pgid.ErrOutOfRange},
		{"SET LOCAL pgid.shard = '-5'; SELECT pgid.next_id()", "22023", pgid.ErrOutOfRange},
		{"SET LOCAL pgid.shard = '9999'; SELECT pgid.next_id()", "22023", pgid.ErrOutOfRange},
		{"SET LOCAL pgid.shard = '99999999999999999999'; SELECT pgid.next_id()", "22023", pgid.ErrOutOfRange},
		{"SET LOCAL pgid.shard = '4'; SELECT pgid.next_id()", "ID002", pgid.ErrNoShard},
	} {
		conn := db.Connect(t)
		_, err := conn.Exec(t.Context(), c.sql)
		if pgtest.SQLState(err) != c.state || !errors.Is(pgid.Error(err), c.sentinel) {
			t.Errorf("%s: %v, want SQLSTATE %s", c.sql, err, c.state)
		}
		// The same with the shard as a parameter of a prepared statement is another plan: see the client.
		_ = conn.Close(t.Context())
	}
	client := pgid.NewClient(db.Pool)
	for shard, want := range map[pgid.Shard]error{-1: pgid.ErrOutOfRange, 8192: pgid.ErrOutOfRange, 4: pgid.ErrNoShard, 5: nil} {
		if _, err := client.NextID(t.Context(), shard); !errors.Is(err, want) {
			t.Errorf("client, shard %d: %v, want %v", shard, err, want)
		}
	}
	if _, err := pgid.NewClient(pgtest.NewEmpty(t).Pool).NextID(t.Context(), 5); !errors.Is(err, pgid.ErrNotInstalled) {
		t.Errorf("without pgid: %v", err)
	}
}

// next_id() takes its shard from the setting pgid.shard, of the database, the role, the
// session or the transaction.
func TestShardSetting(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(0, 8)")
	// PostgreSQL lets superusers alone store a setting that no C module has declared.
	super := pgtest.Connect(t, db.SuperURL)
	if _, err := super.Exec(t.Context(), "ALTER DATABASE "+db.Name+" SET pgid.shard = 7"); err != nil {
		t.Fatal(err)
	}
	conn := db.Connect(t)
	shard := func(q pgid.Querier) (s pgid.Shard) {
		t.Helper()
		if err := q.QueryRow(t.Context(), "SELECT pgid.id_shard(pgid.next_id())").Scan(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := shard(conn); s != 7 {
		t.Errorf("of the database: %d, want 7", s)
	}
	err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "SET LOCAL pgid.shard = '08'")
		if s := shard(tx); s != 8 {
			t.Errorf("of the transaction: %d, want 8", s)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if s := shard(conn); s != 7 {
		t.Errorf("after the transaction: %d, want 7", s)
	}
}

// Sixteen sessions create the same shard, and others, at once: each stands once, and
// all can be used.
func TestCreateShardsAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const sessions = 16
	created := make([]int, sessions)
	var group errgroup.Group
	for i := range sessions {
		conn := db.Connect(t)
		group.Go(func() error {
			for n := range 6 {
				shard := n // all sessions the same
				if n%2 == 1 {
					shard = 100*i + n // each its own
				}
				var ok bool
				err := conn.QueryRow(context.Background(), "SELECT pgid.create_shard($1)", shard).Scan(&ok)
				if err == nil {
					_, err = conn.Exec(context.Background(), "SELECT pgid.next_id($1)", shard)
				}
				if err != nil {
					return fmt.Errorf("shard %d: %w", shard, err)
				}
				if ok {
					created[i]++
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, n := range created {
		total += n
	}
	want := 3 + 3*sessions
	if n := pgtest.Query[int](t, db, "SELECT count(*) FROM pgid.shard_status WHERE last_id IS NOT NULL"); total != want || n != want {
		t.Errorf("%d created, %d in use, want %d", total, n, want)
	}
	if pgtest.Query[bool](t, db, "SELECT pgid.create_shard(0)") {
		t.Error("a shard that stands was created again")
	}
}

// Later IDs of a shard exceed the ID that it was created past, whichever shard that is
// of, also if the shard stood already.
func TestCreateShardPast(t *testing.T) {
	t.Parallel()
	db, random := pgtest.New(t), pgtest.Seed(t)
	layout := pgid.Layout{}
	for i := range 40 {
		shard := pgid.Shard(random.IntN(6))
		past, err := layout.Encode(time.Now().Add(time.Duration(random.IntN(60))*time.Millisecond),
			pgid.Shard(random.IntN(6)), pgid.Seq(random.IntN(1024)))
		if err != nil {
			t.Fatal(err)
		}
		pgtest.Query[bool](t, db, "SELECT pgid.create_shard($1, $2)", shard, past)
		if id := pgtest.Query[pgid.ID](t, db, "SELECT pgid.next_id($1)", shard); id <= past {
			t.Fatalf("round %d: shard %d issued %d, created past %d", i, shard, id, past)
		}
	}
	db.Exec(t, "SELECT pgid.create_shard(7, pgid.make_id('2025-01-01', 7, 0))") // before the epoch: nothing to pass
	db.Exec(t, "SELECT pgid.next_id(7)")

	db.Exec(t, "SELECT pgid.create_shard(8, 9223372036854775807)")
	_, err := pgid.NewClient(db.Pool).NextID(t.Context(), 8)
	if !errors.Is(err, pgid.ErrTimeExhausted) {
		t.Errorf("past the last ID there is: %v", err)
	}
}

// shard_status shows what the shard did.
func TestShardStatus(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(3, 4)")
	last := pgtest.Query[pgid.ID](t, db, "SELECT max(pgid.next_id(4)) FROM generate_series(1, 10)")
	var id *pgid.ID
	var at, retired *time.Time
	var lead, left *int64
	read := func(shard int) {
		err := db.Pool.QueryRow(t.Context(), "SELECT last_id, last_time, lead_ms, ids_left, retired FROM pgid.shard_status WHERE shard = $1", shard).
			Scan(&id, &at, &lead, &left, &retired)
		if err != nil {
			t.Fatal(err)
		}
	}
	read(4)
	if *id != last || !at.Equal(last.Time()) || *lead > 0 || *lead < -60_000 || retired != nil {
		t.Errorf("shard 4 shows %v, %v, %v, %v, want last ID %d", *id, at, *lead, retired, last)
	}
	if most := int64(pgid.MaxTick - last.Tick()); *left > most || *left < most-60_000*1024 {
		t.Errorf("shard 4 shows %d IDs left, want at most %d", *left, most)
	}
	read(3)
	if id != nil || at != nil || lead != nil || *left < 1<<49 {
		t.Errorf("shard 3, unused, shows %v, %v, %v, %v", id, at, lead, *left)
	}
}
