package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// RequireNoLocks fails the test if an advisory lock stays in the database at url. Sessions
// whose client is gone may take a moment to end; other databases' locks do not count.
func RequireNoLocks(t testing.TB, url string) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	held := 0
	for range 50 {
		err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
			WHERE d.datname = current_database() AND l.locktype = 'advisory'`).Scan(&held)
		if err != nil {
			t.Fatal(err)
		}
		if held == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("%d advisory locks are left", held)
}
