package postgresids_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// Acquirers at once get a shard each, and as many as there are.
func TestLeaseConcurrentAcquirers(t *testing.T) {
	t.Parallel()
	const shards, acquirers = 8, 24
	db := pool(t, 0, shards-1)
	const window = 3 * time.Second
	for round, slow := 0, 0; round < 3; {
		grants := make([]grant, acquirers)
		start := time.Now()
		var group errgroup.Group
		for i := range grants {
			group.Go(func() (err error) {
				// Whoever finds all free shards locked by others finds none.
				if grants[i], err = acquireLease(t.Context(), db.Pool, int(window.Milliseconds())); pgtest.SQLState(err) == "ID006" {
					err = nil
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		if time.Since(start) >= window { // the first may have ended before the last asked
			if slow++; slow == 10 {
				t.Fatalf("too slow a machine: in %s, %d acquirers have not all been served", window, acquirers)
			}
			time.Sleep(window)
			continue
		}
		round++
		grants = slices.DeleteFunc(grants, func(g grant) bool { return g.Fence == 0 })
		seen, fences := map[int]bool{}, map[int64]bool{}
		var last grant
		for _, g := range grants {
			if seen[g.Shard] || fences[g.Fence] {
				t.Errorf("round %d: granted twice: %+v", round, g)
			}
			seen[g.Shard], fences[g.Fence] = true, true
			if g.Until > last.Until {
				last = g
			}
		}
		if len(grants) != shards {
			t.Errorf("round %d: %d grants of %d shards", round, len(grants), shards)
		}
		awaitWindow(t, db, last)
	}
}

// While a grant is not committed, others pass it by, and do not wait.
func TestLeaseSkipsLocked(t *testing.T) {
	t.Parallel()
	db := pool(t, 0, 1)
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	first, err := acquireLease(t.Context(), tx, 60_000)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	second, err := acquireLease(ctx, db.Pool, 60_000)
	if err != nil || second.Shard == first.Shard {
		t.Fatalf("%+v and %+v, %v", first, second, err)
	}
	if _, err := acquireLease(ctx, db.Pool, 60_000); pgtest.SQLState(err) != "ID006" {
		t.Errorf("a third of two: %v", err)
	}
}

// A grant that was rolled back was none, but its window is nobody's any more.
func TestLeaseRolledBack(t *testing.T) {
	t.Parallel()
	db := pool(t, 0, 0)
	rollBack := func(windowMS int) grant {
		t.Helper()
		tx, err := db.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		g, err := acquireLease(t.Context(), tx, windowMS)
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		return g
	}
	// A window that the lead and the wait make up for.
	none := rollBack(500)
	g := mustAcquire(t, db, 500)
	if g.From < none.Until {
		t.Fatalf("%+v starts within the window of %+v", g, none)
	}
	awaitWindow(t, db, g)
	// A larger one: the pool's only shard is not free until it is over.
	none = rollBack(3000)
	if g, err := acquireLease(t.Context(), db.Pool, 500); err == nil {
		t.Errorf("%+v after %+v", g, none)
	}
	lease, err := pgid.NewClient(db.Pool).AcquireLease(t.Context(), "p", pgid.LeaseConfig{Window: 500 * time.Millisecond, Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lease.Release(context.Background()) }()
	id, err := lease.Next(t.Context())
	if errors.Is(err, pgid.ErrClockBehind) { // granted as far ahead as may be
		time.Sleep(time.Second)
		id, err = lease.Next(t.Context())
	}
	if err != nil || int64(id.Tick()) < none.Until {
		t.Errorf("%d (tick %d), %v, after %+v", id, id.Tick(), err, none)
	}
}

// Set apart anew, a shard neither repeats a window nor a fence.
func TestLeasePoolAnew(t *testing.T) {
	t.Parallel()
	db := pool(t, 0, 3)
	high := map[int]int64{}
	fence := int64(0)
	for round := range 4 {
		for range 4 {
			g := mustAcquire(t, db, 300)
			if g.From < high[g.Shard] || g.Fence <= fence {
				t.Fatalf("round %d: %+v, after fence %d and tick %d", round, g, fence, high[g.Shard])
			}
			fence, high[g.Shard] = g.Fence, g.Until
		}
		held := grant{Shard: 0, Fence: fence - 3}
		db.Exec(t, "DELETE FROM pgid.lease")
		if _, err := renewLease(t.Context(), db.Pool, held, 300); pgtest.SQLState(err) != "ID007" {
			t.Errorf("renewed out of the pool: %v", err)
		}
		db.Exec(t, "SELECT pgid.create_pool('p', 0, 3)")
		if _, err := renewLease(t.Context(), db.Pool, held, 300); pgtest.SQLState(err) != "ID007" {
			t.Errorf("renewed in the new pool: %v", err)
		}
	}
}

// Who draws of a leased shard by mistake is refused while the lease is ahead of the
// clock, and told why; the shard's IDs stay apart.
func TestLeasedShardRefusesOthers(t *testing.T) {
	t.Parallel()
	db := pool(t, 5, 5)
	g := mustAcquire(t, db, 10_000)
	for _, sql := range []string{"SELECT pgid.next_id(5)", "SELECT pgid.next_ids(5, 10)", "SELECT pgid.reserve(5, 10)"} {
		_, err := db.Pool.Exec(t.Context(), sql)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "ID001" || !strings.Contains(pg.Hint, "set apart for leases") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	// The draws that were burnt are a gap between two windows.
	time.Sleep(50 * time.Millisecond)
	r, err := renewLease(t.Context(), db.Pool, g, 10_000)
	if err != nil || r.From <= g.Until || r.From > g.Until+100 {
		t.Errorf("renewed to %+v after %+v, %v", r, g, err)
	}
	// One that is almost over may be drawn from, past its end.
	db2 := pool(t, 5, 5)
	short := mustAcquire(t, db2, 200)
	for range 20 {
		if id := pgtest.Query[pgid.ID](t, db2, "SELECT pgid.next_id(5)"); int64(id.Tick()) < short.Until {
			t.Fatalf("tick %d was drawn of the window %+v", id.Tick(), short)
		}
	}
}

// A retired shard is leased no more, and its last ID is past the windows granted.
func TestLeaseOfRetiredShard(t *testing.T) {
	t.Parallel()
	db := pool(t, 0, 1)
	g := mustAcquire(t, db, 1000)
	last := pgtest.Query[pgid.ID](t, db, "SELECT pgid.retire_shard($1)", g.Shard)
	if int64(last.Tick()) < g.Until-1 {
		t.Errorf("retired at tick %d, within the window %+v", last.Tick(), g)
	}
	time.Sleep(50 * time.Millisecond)
	if _, err := renewLease(t.Context(), db.Pool, g, 1000); pgtest.SQLState(err) != "ID003" {
		t.Errorf("renewed: %v", err)
	}
	awaitWindow(t, db, g)
	other := mustAcquire(t, db, 60_000)
	if other.Shard == g.Shard {
		t.Errorf("a retired shard was granted: %+v", other)
	}
	if _, err := acquireLease(t.Context(), db.Pool, 60_000); pgtest.SQLState(err) != "ID006" {
		t.Errorf("with one held and one retired: %v", err)
	}
	if s := pgtest.Query[string](t, db, "SELECT state FROM pgid.lease_status WHERE shard = $1", g.Shard); s != "retired" {
		t.Errorf("state %s", s)
	}
}

// A shard whose lock somebody sits on, or which is far ahead of the clock, is passed over
// while another is free; and a window starts where the last one ended, also if the
// sequences were set back meanwhile.
func TestLeasePassesOver(t *testing.T) {
	t.Parallel()
	db := pool(t, 0, 2)
	sitter := db.Connect(t)
	if _, err := sitter.Exec(t.Context(), "SELECT pg_advisory_lock(pgid.lock_class(), 0)"); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "SELECT pgid.raise_shard(1, (pgid.now_ms() + 60000) << 10)")
	if g := mustAcquire(t, db, 500); g.Shard != 2 {
		t.Errorf("granted shard %d, want 2", g.Shard)
	}
	_ = sitter.Close(t.Context())

	one := pool(t, 7, 7)
	first := mustAcquire(t, one, 500)
	one.Exec(t, "SELECT setval('pgid.base_7', -1)")
	awaitWindow(t, one, first)
	one.Exec(t, "UPDATE pgid.lease SET until_tick = until_tick + 200 * 1024") // as if it had ended now
	one.Exec(t, "SELECT pg_sleep(0.25)")
	one.Exec(t, "SELECT setval('pgid.base_7', -1)")
	if second := mustAcquire(t, one, 500); second.From < first.Until+200*1024 {
		t.Errorf("a window from %d, the last one ended at %d", second.From, first.Until+200*1024)
	}
}

// A grant is not one before it is flushed, whatever the session has set.
func TestLeaseIsFlushed(t *testing.T) {
	t.Parallel()
	db := pool(t, 0, 0)
	conn := db.Connect(t)
	if _, err := conn.Exec(t.Context(), "SET synchronous_commit = off; BEGIN; SELECT pgid.acquire_lease('p', 'me')"); err != nil {
		t.Fatal(err)
	}
	var setting string
	if err := conn.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&setting); err != nil || setting == "off" {
		t.Errorf("the grant commits with synchronous_commit = %s, %v", setting, err)
	}
}

// A shard that is retired by its row alone, all that replication brings along, is leased
// no more either, and nothing revives it.
func TestLeaseOfShardRetiredByItsRow(t *testing.T) {
	t.Parallel()
	db := pool(t, 0, 1)
	g := mustAcquire(t, db, 500)
	const base = "SELECT coalesce(pg_sequence_last_value(format('pgid.base_%s', $1::int)::regclass), -1)"
	before := pgtest.Query[int64](t, db, base, g.Shard)
	db.Exec(t, "UPDATE pgid.shard SET retired = now() WHERE shard = $1", g.Shard)
	if _, err := renewLease(t.Context(), db.Pool, g, 60_000); pgtest.SQLState(err) != "ID003" {
		t.Errorf("renewed: %v", err)
	}
	awaitWindow(t, db, g)
	if other := mustAcquire(t, db, 60_000); other.Shard == g.Shard {
		t.Errorf("a retired shard was granted: %+v", other)
	}
	if _, err := acquireLease(t.Context(), db.Pool, 60_000); pgtest.SQLState(err) != "ID006" {
		t.Errorf("with one held and one retired: %v", err)
	}
	if s := pgtest.Query[string](t, db, "SELECT state FROM pgid.lease_status WHERE shard = $1", g.Shard); s != "retired" {
		t.Errorf("state %s", s)
	}
	if after := pgtest.Query[int64](t, db, base, g.Shard); after != before {
		t.Errorf("base went from %d to %d", before, after)
	}
}

// Whoever sits on the lock of a shard of the same number in another database is nobody
// here: the shard is not passed over, and a refusal does not name the session.
func TestLeaseMindsItsOwnDatabase(t *testing.T) {
	t.Parallel()
	db, other := pool(t, 0, 1), pgtest.New(t)
	if _, err := other.Connect(t).Exec(t.Context(), "SELECT pg_advisory_lock(pgid.lock_class(), 0)"); err != nil {
		t.Fatal(err)
	}
	if g := mustAcquire(t, db, 500); g.Shard != 0 {
		t.Errorf("granted shard %d, want 0", g.Shard)
	}
	sitter := db.Connect(t)
	if _, err := sitter.Exec(t.Context(), "SELECT pg_advisory_lock(pgid.lock_class(), 1)"); err != nil {
		t.Fatal(err)
	}
	_, err := db.Pool.Exec(t.Context(), "SELECT pgid.refuse_if_busy(1, 5001)")
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "ID005" {
		t.Fatalf("%v, want ID005", err)
	}
	_, query, _ := strings.Cut(pg.Hint, ": ")
	for shard, want := range []uint32{0, sitter.PgConn().PID()} {
		asked := strings.Replace(query, "objid = 1 ", fmt.Sprintf("objid = %d ", shard), 1)
		if pid := pgtest.Query[uint32](t, db, "SELECT coalesce(("+strings.TrimSuffix(asked, ";")+"), 0)"); pid != want {
			t.Errorf("shard %d: %s: %d, want %d", shard, asked, pid, want)
		}
	}
}
