package faults

import (
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// An old backup is restored, and what it lacks is known elsewhere: by clients, and by a
// table that outlived the database.
func TestRestoreOldBackup(t *testing.T) {
	t.Parallel()
	host := pgtest.NewHost(t)
	node := host.NewNode(t, "only")
	file := node.Data + ".dump"
	app := node.Create(t, "app")
	app.Exec(t, "SELECT pgid.create_shards(5, 6), pgid.create_pool('workers', 100, 101)")
	ledger := NewLedger()
	book := ledger.Book("before")
	draw(t, book, app, 5, 100)
	draw(t, book, app, 6, 100)
	node.Shell(t, "pg_dump -Fc -f "+file+" app")

	drawDense(t, book, app, 6)
	lost := drawDense(t, book, app, 5)
	elsewhere := node.Create(t, "elsewhere")
	elsewhere.Exec(t, "CREATE TABLE photo (id bigint PRIMARY KEY)")
	elsewhere.Exec(t, "INSERT INTO photo VALUES ($1), ($2)", lost.First, lost.Last)
	leases := []lease{acquire(t, app), acquire(t, app)}

	app.Pool.Close()
	node.Exec(t, "DROP DATABASE app WITH (FORCE)", "CREATE DATABASE app OWNER "+pgtest.Query[string](t, elsewhere, "SELECT current_user"))
	node.Shell(t, "pg_restore --exit-on-error -d app "+file)
	app = node.Open(t, "app")

	lost.Last = pgtest.Query[pgid.ID](t, elsewhere, "SELECT max(id) FROM photo")
	recovered(t, node, app, ledger, lost)
	lostLeases(t, app, leases)
}
