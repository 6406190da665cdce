package postgresids_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// The lock is free after a success, a refusal, an error, a time-out in the wait for
// the lock and one in the wait for the clock.
func TestBatchLeavesNoLock(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(0, 5)")
	sitter, conn := db.Connect(t), db.Connect(t)
	exec := func(want, sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); pgtest.SQLState(err) != want {
			t.Errorf("%s: %v, want %q", sql, err, want)
		}
	}
	// All within one transaction of the caller's, where a lock of the transaction would stay.
	exec("", "BEGIN")
	exec("", "SELECT pgid.next_ids(1, 1000), pgid.reserve(2, 1000)")
	pgtest.RequireNoLocks(t, db.URL)
	exec("", "SAVEPOINT s")
	exec("22023", "SELECT pgid.next_ids(1, 0)")
	exec("", "ROLLBACK TO s")
	exec("ID002", "SELECT pgid.reserve(77, 1)")
	exec("", "ROLLBACK TO s")
	exec("ID004", "ROLLBACK TO s; SELECT pgid.reserve(3, 1) FROM (SELECT pgid.raise_shard(3, (1::bigint << 50) - 1)) AS raised")
	exec("", "ROLLBACK TO s")
	exec("ID001", "SELECT pgid.reserve(4, 1) FROM (SELECT pgid.raise_shard(4, (pgid.now_ms() + 5000) << 10)) AS raised")
	pgtest.RequireNoLocks(t, db.URL)
	exec("", "ROLLBACK TO s")
	pgtest.RequireNoLocks(t, db.URL)

	// In the wait for the clock: up to a second, and the lock is free meanwhile, so that others are served or wait as long.
	exec("", "COMMIT; SELECT pgid.raise_shard(5, (pgid.now_ms() + 1050) << 10); BEGIN; SAVEPOINT s; SET LOCAL statement_timeout = 200")
	exec("57014", "SELECT pgid.next_ids(5, 10)")
	pgtest.RequireNoLocks(t, db.URL)
	exec("", "ROLLBACK; BEGIN; SAVEPOINT s; SET LOCAL statement_timeout = 200")

	waiting := db.Connect(t)
	done := make(chan error, 1)
	go func() {
		_, err := waiting.Exec(context.Background(), "SELECT pgid.reserve(5, 10)")
		done <- err
	}()
	time.Sleep(250 * time.Millisecond)
	pgtest.RequireNoLocks(t, db.URL)
	if err := <-done; err != nil {
		t.Error(err)
	}

	// In the wait for the lock, which another session has.
	if _, err := sitter.Exec(t.Context(), "SELECT pg_advisory_lock(pgid.lock_class(), 1)"); err != nil {
		t.Fatal(err)
	}
	exec("57014", "SELECT pgid.reserve(1, 10)")
	exec("", "ROLLBACK")
	if _, err := sitter.Exec(t.Context(), "SELECT pg_advisory_unlock(pgid.lock_class(), 1)"); err != nil {
		t.Fatal(err)
	}
	pgtest.RequireNoLocks(t, db.URL)
	exec("", "SELECT pgid.reserve(1, 10), pgid.next_ids(2, 10)")

	// A caller's own handler may catch what a batch was refused with, and go on.
	exec("", `DO $$ BEGIN
		FOR i IN 1 .. 3 LOOP
			BEGIN PERFORM pgid.reserve(4, 1); RAISE 'not refused'; EXCEPTION WHEN SQLSTATE 'ID001' THEN NULL; END;
			PERFORM pgid.reserve(1, 5);
			IF EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) THEN RAISE 'a lock is left'; END IF;
		END LOOP;
	END $$`)
}

// Another session may sit on a shard's lock: a batch is refused within a bound.
func TestBatchOfBusyShard(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(0, 1)")
	sitter := db.Connect(t)
	if _, err := sitter.Exec(t.Context(), "SELECT pg_advisory_lock(1885825380, 1)"); err != nil {
		t.Fatal(err)
	}
	before := pgtest.Query[*int64](t, db, "SELECT pgid.last_tick(1)")
	for _, sql := range []string{"SELECT pgid.next_ids(1, 10)", "SELECT pgid.reserve(1, 10)"} {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			_, err := db.Pool.Exec(t.Context(), sql)
			if took := time.Since(start); pgtest.SQLState(err) != "ID005" || took > 30*time.Second || !errors.Is(pgid.Error(err), pgid.ErrShardBusy) {
				t.Errorf("after %s: %v, want ID005", took, err)
			}
			if after := pgtest.Query[*int64](t, db, "SELECT pgid.last_tick(1)"); deref(after) != deref(before) {
				t.Errorf("a refused batch drew: %s after %s", deref(after), deref(before))
			}
			db.Exec(t, "SELECT pgid.reserve(0, 10)") // another shard does not notice
		})
	}
}
