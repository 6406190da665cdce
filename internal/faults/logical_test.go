package faults

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// newSubscription connects two databases of a server by logical replication of what is
// named, as in «FOR TABLE photo».
func newSubscription(t *testing.T, node *pgtest.Node, what string) (source, target *pgtest.Database) {
	t.Helper()
	source, target = node.Create(t, "source"), node.Create(t, "target")
	source.Exec(t, "SELECT pgid.create_shard(5)")
	for _, db := range []*pgtest.Database{source, target} {
		db.Exec(t, "CREATE TABLE photo (id bigint PRIMARY KEY DEFAULT pgid.next_id(5))")
	}
	super(t, source, "CREATE PUBLICATION app "+what)
	// Within one server, the subscription cannot make its slot by itself.
	super(t, source, "SELECT pg_create_logical_replication_slot('app', 'pgoutput')")
	return source, target
}

func subscribe(t *testing.T, node *pgtest.Node, target *pgtest.Database) {
	t.Helper()
	super(t, target, fmt.Sprintf("CREATE SUBSCRIPTION app CONNECTION 'host=127.0.0.1 port=%d dbname=source user=postgres' PUBLICATION app WITH (create_slot = false)", node.Port))
	super(t, target, synced)
}

// synced waits until the first copies are made.
const synced = `DO $$ BEGIN
  FOR i IN 1 .. 600 LOOP
    IF NOT EXISTS (SELECT FROM pg_subscription_rel WHERE srsubstate <> 'r') THEN RETURN; END IF;
    PERFORM pg_sleep(0.05);
  END LOOP;
  RAISE EXCEPTION 'not synchronised within 30 s';
END $$`

func super(t *testing.T, db *pgtest.Database, sql string) {
	t.Helper()
	conn := pgtest.Connect(t, db.SuperURL)
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	_ = conn.Close(t.Context())
}

// A logical subscriber has the rows, but not the sequences. It takes a shard over when
// the source has retired it: past the last ID, whatever the clock says.
func TestLogicalTakeover(t *testing.T) {
	t.Parallel()
	node := pgtest.NewHost(t).NewNode(t, "both")
	source, target := newSubscription(t, node, "FOR TABLE photo")
	subscribe(t, node, target)
	ledger := NewLedger()
	s := serve(t, ledger, source, 4, Strict)
	if _, err := pgid.NewClient(target.Pool).NextID(t.Context(), 5); pgtest.SQLState(err) != "ID002" {
		t.Errorf("the target before the takeover: %v, want ID002", err)
	}

	retired := time.Now()
	last := pgtest.Query[pgid.ID](t, source, "SELECT pgid.retire_shard(5)")
	// Rows of the shard that were in flight have committed; then, all have arrived.
	node.Await(t, "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'source' AND backend_type = 'client backend' AND xact_start IS NOT NULL")
	source.Exec(t, "CREATE TABLE mark ()") // flushes what went before
	lsn := pgtest.Query[string](t, source, "SELECT pg_current_wal_flush_lsn()::text")
	node.Await(t, fmt.Sprintf("SELECT confirmed_flush_lsn >= '%s' FROM pg_replication_slots WHERE slot_name = 'app'", lsn))
	setBack(t, node, retired)
	target.Exec(t, "SELECT pgid.create_shard(5, past => $1)", last)
	s.move(t, target)
	s.stop()
	kept(t, ledger, target)

	const all = "SELECT array_agg(id ORDER BY id) FROM photo"
	rows, copied := pgtest.Query[[]int64](t, source, all), pgtest.Query[[]int64](t, target, all)
	if len(copied) <= len(rows) || !slices.Equal(rows, copied[:len(rows)]) {
		t.Errorf("the source has %d rows, and the target, of %d, not the same as its first", len(rows), len(copied))
	}
	super(t, target, "DROP SUBSCRIPTION app")
}

// From 19 on, a subscription can bring sequences, when told to, each as it is at that
// moment: so when nobody draws at either end. It lowers them as readily, so it goes
// before the target is used.
func TestLogicalSequences(t *testing.T) {
	t.Parallel()
	if pgtest.Query[int](t, pgtest.NewEmpty(t), "SELECT current_setting('server_version_num')::integer / 10000") < 19 {
		t.Skip("before PostgreSQL 19, logical replication has no sequences")
	}
	node := pgtest.NewHost(t).NewNode(t, "both")
	source, target := newSubscription(t, node, "FOR ALL SEQUENCES")
	target.Exec(t, "SELECT pgid.create_shard(5)")
	ledger := NewLedger()
	draw(t, ledger.Book("before"), source, 5, 100)
	subscribe(t, node, target)

	dense := drawDense(t, ledger.Book("after the first copy"), source, 5)
	super(t, target, "ALTER SUBSCRIPTION app REFRESH SEQUENCES")
	super(t, target, synced)
	node.SetClock(t, time.Until(dense.Last.Time())-700*time.Millisecond)
	draw(t, ledger.Book("target"), target, 5, 100)
	kept(t, ledger, target)

	taken := pgtest.Query[pgid.ID](t, target, "SELECT last_id FROM pgid.shard_status")
	super(t, target, "ALTER SUBSCRIPTION app REFRESH SEQUENCES")
	super(t, target, synced)
	if now := pgtest.Query[pgid.ID](t, target, "SELECT last_id FROM pgid.shard_status"); now >= taken {
		t.Errorf("a later refresh left the shard at %d, which had come to %d: it is harmless, say so", now, taken)
	}
	target.Exec(t, "SELECT pgid.advance_shard(5, $1)", taken)
	super(t, target, "DROP SUBSCRIPTION app")
	draw(t, ledger.Book("target, put right"), target, 5, 100)
	kept(t, ledger, target)
}
