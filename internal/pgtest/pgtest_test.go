package pgtest_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }

// TestBackend says which server the tests run on.
func TestBackend(t *testing.T) {
	db := pgtest.New(t)
	fmt.Printf("pgtest: the tests run on PostgreSQL %s\n", pgtest.Query[string](t, db, "SHOW server_version"))
}

// Each test has its own database, with pgid, and its owner is a plain role.
func TestDatabasesAreApart(t *testing.T) {
	t.Parallel()
	one, two := pgtest.New(t), pgtest.New(t)
	one.Exec(t, "SELECT pgid.create_shard(5)")
	if n := pgtest.Query[int](t, two, "SELECT count(*) FROM pgid.shard_status"); n != 0 {
		t.Errorf("the second database has %d shards", n)
	}
	if pgtest.Query[bool](t, one, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") {
		t.Error("the owner is a superuser")
	}
	if v := pgtest.Query[bool](t, pgtest.NewEmpty(t), "SELECT to_regnamespace('pgid') IS NOT NULL"); v {
		t.Error("an empty database has pgid")
	}
}
