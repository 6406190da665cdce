package postgresids_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// consecutive fails the test unless the IDs are of shard 5 and of consecutive ticks,
// ascending, above floor. It returns the last.
func consecutive(t *testing.T, what string, floor pgid.ID, ids []pgid.ID) pgid.ID {
	t.Helper()
	for i, id := range ids {
		if id <= floor || id.Shard() != 5 || i > 0 && id.Tick() != ids[i-1].Tick()+1 {
			t.Fatalf("%s: ID %d of %d is %d of shard %d, tick %d, after %d", what, i, len(ids), id, id.Shard(), id.Tick(), floor)
		}
		floor = id
	}
	return floor
}

// A batch is consecutive ticks, ascending, above all before it, wherever in a query it
// stands.
func TestBatches(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	db.Exec(t, "CREATE TABLE photo (n bigint GENERATED ALWAYS AS IDENTITY, id bigint PRIMARY KEY, title text)")
	conn := db.Connect(t)
	var last pgid.ID
	for _, c := range []struct {
		sql  string
		want int
	}{
		{"SELECT pgid.next_ids(5, 1)", 1},
		{"SELECT pgid.next_ids(5, 3000)", 3000},
		{"SELECT * FROM pgid.next_ids(5, 3000)", 3000},
		{"SELECT id FROM pgid.next_ids(5, 3000) WITH ORDINALITY AS x(id, n) ORDER BY n", 3000},
		{"SELECT pgid.next_ids(5, 102400)", 102400},
		{"SELECT pgid.next_ids(5, 3000) LIMIT 7", 7},
		{"SELECT id FROM pgid.next_ids(5, 3000) AS id LIMIT 7", 7},
		{"SELECT pgid.next_ids(5, count => 2) FROM generate_series(1, 3)", 6},
		{"SELECT id FROM (VALUES (2), (5), (1)) AS v(n), LATERAL pgid.next_ids(5, v.n) AS id", 8},
		{"INSERT INTO photo (id) SELECT pgid.next_ids(5, 1000) RETURNING id", 1000},
		{"INSERT INTO photo (id, title) SELECT pgid.next_ids(5, 1000), 'title' RETURNING id", 1000},
		{"INSERT INTO photo (id, title) SELECT id, 'title ' || n FROM pgid.next_ids(5, 1000) WITH ORDINALITY AS x(id, n) ORDER BY n RETURNING id", 1000},
		{"WITH ids AS (SELECT pgid.next_ids(5, 1000) AS id) SELECT id FROM ids", 1000},
		{"SELECT e.id FROM (SELECT r.first, r.last FROM pgid.reserve(5, 1) AS r) AS r, unnest(ARRAY[r.first]) AS e(id)", 1},
		{"DECLARE c CURSOR WITH HOLD FOR SELECT pgid.next_ids(5, 100); FETCH 40 FROM c; CLOSE c", -1},
		{"SELECT pgid.next_ids(5, 40)", 40},
	} {
		if c.want < 0 {
			if _, err := conn.Exec(t.Context(), c.sql); err != nil {
				t.Errorf("%s: %v", c.sql, err)
			}
			continue
		}
		rows, err := conn.Query(t.Context(), c.sql)
		if err != nil {
			t.Fatal(err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[pgid.ID])
		if err != nil || len(ids) != c.want {
			t.Fatalf("%s: %d IDs, want %d, %v", c.sql, len(ids), c.want, err)
		}
		if strings.Contains(c.sql, "LATERAL") || strings.Contains(c.sql, "series") {
			if !slices.IsSorted(ids) || ids[0] <= last { // several batches: the clock moves between them
				t.Errorf("%s: %d after %d", c.sql, ids, last)
			}
			last = ids[len(ids)-1]
			continue
		}
		last = consecutive(t, c.sql, last, ids)
	}
	if n := pgtest.Query[int](t, db, "SELECT count(*) FROM (SELECT id, lag(id) OVER (ORDER BY n) AS before FROM photo) AS p WHERE before >= id"); n > 0 {
		t.Errorf("%d rows were inserted out of the order of their IDs", n)
	}
	pgtest.RequireNoLocks(t, db.URL)
}

// In every mode that pgx has, prepared statements among them, and as the source of COPY.
func TestBatchesThroughPgx(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	db.Exec(t, "CREATE TABLE photo (id bigint PRIMARY KEY, n integer)")
	var last pgid.ID
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		conn := pgtest.ConnectMode(t, db.URL, mode)
		client := pgid.NewClient(conn)
		for n := range 8 { // more often than it takes for a generic plan
			ids, err := client.NextIDs(t.Context(), 5, 1000+n)
			if err != nil || len(ids) != 1000+n {
				t.Fatalf("%s: %d IDs, %v", mode, len(ids), err)
			}
			last = consecutive(t, mode.String(), last, ids)
			rows, err := conn.Query(t.Context(), "SELECT pgid.next_ids($1::integer, $2::integer)", 5, 10+n)
			if err != nil {
				t.Fatal(err)
			}
			if ids, err = pgx.CollectRows(rows, pgx.RowTo[pgid.ID]); err != nil || len(ids) != 10+n {
				t.Fatalf("%s: %d IDs, %v", mode, len(ids), err)
			}
			last = consecutive(t, mode.String(), last, ids)
			id, err := client.NextID(t.Context(), 5)
			if err != nil || id <= last {
				t.Fatalf("%s: next_id: %d after %d, %v", mode, id, last, err)
			}
			last = id
		}
		for n, want := range map[int]error{0: pgid.ErrOutOfRange, -1: pgid.ErrOutOfRange, 102401: pgid.ErrOutOfRange} {
			if _, err := client.Reserve(t.Context(), 5, n); !errors.Is(err, want) {
				t.Errorf("%s: %d at once: %v, want %v", mode, n, err, want)
			}
		}
		if _, err := client.Reserve(t.Context(), 6, 1); !errors.Is(err, pgid.ErrNoShard) {
			t.Errorf("%s: %v, want ErrNoShard", mode, err)
		}

		r, err := client.Reserve(t.Context(), 5, 2000)
		if err != nil {
			t.Fatal(err)
		}
		ids := slices.Collect(r.All())
		last = consecutive(t, mode.String(), last, ids)
		copied, err := conn.CopyFrom(t.Context(), pgx.Identifier{"photo"}, []string{"id", "n"},
			pgx.CopyFromSlice(len(ids), func(i int) ([]any, error) { return []any{ids[i], i}, nil }))
		if err != nil || copied != 2000 {
			t.Errorf("%s: copied %d, %v", mode, copied, err)
		}
		_ = conn.Close(t.Context())
	}
	if n := pgtest.Query[int](t, db, "SELECT count(*) FROM photo"); n != 10_000 {
		t.Errorf("%d rows copied, want 10000", n)
	}
}

// What a batch cannot be is refused, with the value in the message, and draws nothing.
func TestBatchRefusals(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(4, 5)")
	const lastTick = "SELECT last_tick FROM pgid.last_tick(5) AS last_tick"
	db.Exec(t, "SELECT pgid.next_id(5)")
	before := pgtest.Query[int64](t, db, lastTick)
	for _, c := range []struct {
		args, state, says string
		sentinel          error
	}{
		{"5, 0", "22023", "count 0 ", pgid.ErrOutOfRange},
		{"5, -1", "22023", "count -1 ", pgid.ErrOutOfRange},
		{"5, NULL", "22023", "count null ", pgid.ErrOutOfRange},
		{"5, 102401", "22023", "count 102401 ", pgid.ErrOutOfRange},
		{"5, 2147483647", "22023", "count 2147483647 ", pgid.ErrOutOfRange},
		{"5, -2147483648", "22023", "count -2147483648 ", pgid.ErrOutOfRange},
		{"NULL, 1", "22004", "the shard is null", pgid.ErrNullShard},
		{"8192, 1", "22023", "shard 8192 ", pgid.ErrOutOfRange},
		{"-1, 1", "22023", "shard -1 ", pgid.ErrOutOfRange},
		{"6, 1", "ID002", "shard 6 ", pgid.ErrNoShard},
		{"8191, 1", "ID002", "shard 8191 ", pgid.ErrNoShard},
	} {
		for _, sql := range []string{
			"SELECT pgid.next_ids(" + c.args + ")", "SELECT * FROM pgid.next_ids(" + c.args + ")", "SELECT first, last FROM pgid.reserve(" + c.args + ")",
		} {
			_, err := db.Pool.Exec(t.Context(), sql)
			if pgtest.SQLState(err) != c.state || !errors.Is(pgid.Error(err), c.sentinel) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want SQLSTATE %s and «%s»", sql, err, c.state, c.says)
			}
		}
	}
	if after := pgtest.Query[int64](t, db, lastTick); after != before {
		t.Errorf("the refused calls drew %d ticks", after-before)
	}
	pgtest.RequireNoLocks(t, db.URL)

	db.Exec(t, "SELECT pgid.retire_shard(5)")
	if _, err := pgid.NewClient(db.Pool).Reserve(t.Context(), 5, 1); !errors.Is(err, pgid.ErrShardRetired) {
		t.Errorf("of a retired shard: %v", err)
	}
}

// What a transaction reserved stays reserved, whichever way it ends; its isolation
// does not matter, nor that its snapshot is older than the shard.
func TestBatchesInTransactions(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	rollback := errors.New("rollback")
	client := pgid.NewClient(db.Pool)
	var last pgid.ID
	batch := func(client *pgid.Client, shard pgid.Shard) error {
		ids, err := client.NextIDs(t.Context(), shard, 2000)
		if err == nil && shard == 5 {
			last = consecutive(t, "batch", last, ids)
		}
		return err
	}
	for i, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		young := pgid.Shard(2000 + i)
		err := pgx.BeginTxFunc(t.Context(), db.Pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
			inside := client.With(tx)
			if err := batch(inside, 5); err != nil {
				return err
			}
			db.Exec(t, "SELECT pgid.create_shard($1)", young)
			if err := batch(inside, young); err != nil {
				return err
			}
			err := pgx.BeginFunc(t.Context(), tx, func(savepoint pgx.Tx) error {
				if err := batch(client.With(savepoint), 5); err != nil {
					return err
				}
				return rollback
			})
			if !errors.Is(err, rollback) {
				return err
			}
			if err := batch(inside, 5); err != nil {
				return err
			}
			// The lock is free while the transaction is not: others go on.
			pgtest.RequireNoLocks(t, db.URL)
			if err := batch(client, 5); err != nil {
				return err
			}
			if _, err := tx.Exec(t.Context(), "SAVEPOINT s; SELECT pgid.next_id(5)"); err != nil {
				return err
			}
			_, err = tx.Exec(t.Context(), "SELECT pgid.next_ids(5, 0)")
			if pgtest.SQLState(err) != "22023" {
				return err
			}
			return rollback
		})
		if !errors.Is(err, rollback) {
			t.Errorf("%s: %v", level, err)
		}
		if err := batch(client, 5); err != nil {
			t.Errorf("after %s: %v", level, err)
		}
	}
	_, err := db.Pool.Exec(t.Context(), "BEGIN READ ONLY; SELECT pgid.next_ids(5, 3); COMMIT")
	if pgtest.SQLState(err) != "25006" {
		t.Errorf("in a read-only transaction: %v, want 25006", err)
	}
	pgtest.RequireNoLocks(t, db.URL)
}

// A batch waits by the lead of its last tick, and its label keeps G3: no ID's time is
// before the clock at the call's start, none more than max_lead (+1 ms) ahead at the
// return.
func TestBatchTimes(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(0, 2)")
	for _, sql := range []string{
		`SELECT ` + now + `, r.first, r.last, ` + now + ` FROM (SELECT pg_sleep(0)) AS s, LATERAL pgid.reserve(0, $1) AS r`,
		`WITH s AS MATERIALIZED (SELECT ` + now + ` AS at), r AS MATERIALIZED (SELECT s.at, (SELECT array_agg(id) FROM pgid.next_ids(1, $1) AS id WHERE s.at > 0) AS ids FROM s)
		 SELECT at, ids[1], ids[cardinality(ids)], ` + now + ` FROM r`,
	} {
		waited := false
		// On a machine that is busy with other things the clock may keep up with us for a while.
		for i := 0; i < 6 || i < 60 && !waited; i++ {
			count := []int{102400, 102400, 51200, 102400, 1, 102400}[i%6]
			start := pgtest.Query[int64](t, db, "SELECT "+now)
			begin := time.Now()
			var at, end int64
			var first, last pgid.ID
			if err := db.Pool.QueryRow(t.Context(), sql, count).Scan(&at, &first, &last, &end); err != nil {
				t.Fatal(err)
			}
			waited = waited || time.Since(begin) > 30*time.Millisecond
			returned := pgtest.Query[int64](t, db, "SELECT "+now)
			if low := first.Time().UnixMilli(); low < start/1000 {
				t.Errorf("%d IDs from %d ms on: the clock was %d us at the start", count, low, start)
			}
			if high := last.Time().UnixMilli(); high > returned/1000+101 {
				t.Errorf("%d IDs up to %d ms: the clock was %d us at the return", count, high, returned)
			}
		}
		if !waited {
			t.Errorf("%s: 4.6 million IDs did not wait for the clock", sql)
		}
	}
}
