package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// A planned switch: the primary is stopped cleanly, which sends its standby everything,
// IDs of bare SELECTs included. The standby's clock may even be behind.
func TestReplicaSwitchover(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	s := serve(t, p.ledger, p.app, 4, Strict)
	stopped := time.Now()
	p.primary.Stop(t)
	p.standby.Promote(t)
	setBack(t, p.standby, stopped)
	app := p.standby.Open(t, "app")
	s.move(t, app)
	s.stop()
	kept(t, p.ledger, app)

	// The old primary comes back as a standby of the new one, and draws nothing.
	follow(t, p.primary, p.standby)
	old := p.primary.Open(t, "app")
	if _, err := pgid.NewClient(old.Pool).NextID(t.Context(), 5); pgtest.SQLState(err) != "25006" {
		t.Errorf("a standby issued an ID: %v, want SQLSTATE 25006", err)
	}
	if n := pgtest.Query[int](t, old, "SELECT count(*) FROM pgid.shard_status WHERE last_id IS NOT NULL OR shard = 6"); n != 2 {
		t.Errorf("the status on a standby has %d shards", n)
	}
	p.standby.Await(t, "SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'")
}

// A synchronous standby has every committed ID, wherever the primary was when it was
// killed, and whatever the standby's clock says.
func TestReplicaSynchronous(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.primary.Exec(t, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
	p.primary.Await(t, "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
	s := serve(t, p.ledger, p.app, 8, Loose)
	killed := time.Now()
	p.primary.Kill(t)
	p.standby.Promote(t)
	setBack(t, p.standby, killed)
	app := p.standby.Open(t, "app")
	s.move(t, app)
	s.stop()
	kept(t, p.ledger, app)
}

// An asynchronous standby lacks the last IDs. The clock alone protects these: they
// come again if it reads earlier than their time, and not any more once the shard was
// advanced past the largest that anybody knows.
func TestReplicaAsynchronous(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.app.Exec(t, "SELECT pgid.create_pool('workers', 100, 101)")
	book := p.ledger.Book("before")
	draw(t, book, p.app, 5, 100)
	draw(t, book, p.app, 6, 100)
	p.caughtUp(t)
	cut(t, p.standby)
	drawDense(t, book, p.app, 6)
	lost := drawDense(t, book, p.app, 5) // each comes to a client, none to the standby
	leases := []lease{acquire(t, p.app), acquire(t, p.app)}
	p.primary.Kill(t)
	p.standby.Promote(t)
	app := p.standby.Open(t, "app")
	recovered(t, p.standby, app, p.ledger, lost)
	lostLeases(t, app, leases)
}

// cut parts a standby from its primary.
func cut(t *testing.T, standby *pgtest.Node) {
	t.Helper()
	standby.Exec(t, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
	standby.Await(t, "SELECT count(*) = 0 FROM pg_stat_wal_receiver")
}

// follow starts a stopped server as a standby of another.
func follow(t *testing.T, node, primary *pgtest.Node) {
	t.Helper()
	node.Shell(t, fmt.Sprintf(`touch %[1]s/standby.signal
echo "primary_conninfo = 'host=127.0.0.1 port=%[2]d user=postgres'" >>%[1]s/postgresql.auto.conf`, node.Data, primary.Port))
	node.Start(t)
}
