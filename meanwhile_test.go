package postgresids_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/pgtest"
)

// A call that has begun when its shard is created either refuses it or serves it in
// full: it does not go on with the half that it saw before. Each call is held at the
// point where it asks for pgid.shard.
func TestShardCreatedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ call, want string }{
		{"SELECT pgid.next_id(7) > 0", "true"},
		{"SELECT count(*) = 5 FROM pgid.next_ids(7, 5) AS id WHERE id > 0", "true"},
		{"SELECT last > first AND first > 0 FROM pgid.reserve(7, 5)", "true"},
		{"SELECT pgid.create_shard(7)", "false"},
		{"SELECT pgid.create_shards(6, 8)", "2"},
		{"SELECT pgid.advance_shard(7, pgid.make_id(clock_timestamp(), 7, 0))", "true"},
		{"SELECT pgid.retire_shard(7) IS NULL AND pgid.base(7) >= pgid.retired_base()", "true"},
		{"SELECT pgid.create_pool('workers', 6, 8)", "3"},
	} {
		name, _, _ := strings.Cut(strings.TrimPrefix(c.call, "SELECT "), "(")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			creator := db.Connect(t)
			exec := func(sql string) {
				t.Helper()
				if _, err := creator.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			exec("BEGIN; LOCK TABLE pgid.shard IN ACCESS EXCLUSIVE MODE")
			conn := db.Connect(t)
			got, done := "", make(chan error, 1)
			go func() {
				done <- conn.QueryRow(context.Background(), "SELECT coalesce(("+c.call+")::text, 'null')").Scan(&got)
			}()
			for start := time.Now(); pgtest.Query[int](t, db, "SELECT count(*) FROM pg_locks WHERE relation = 'pgid.shard'::regclass AND NOT granted") == 0; {
				if time.Since(start) > 10*time.Second {
					t.Fatal("the call does not ask for pgid.shard: this test shows nothing")
				}
				time.Sleep(5 * time.Millisecond)
			}
			exec("SELECT pgid.create_shard(7)")
			exec("COMMIT")
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("%s, while it is created: %s, want %s", c.call, got, c.want)
			}
		})
	}
}
