package postgresids_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// A grant is what acquire_lease answers, or renew_lease, which names no shard.
type grant struct {
	Shard       int
	Fence       int64
	From, Until int64
	Now         int64
}

type queryRower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func acquireLease(ctx context.Context, db queryRower, windowMS int) (g grant, err error) {
	err = db.QueryRow(ctx, "SELECT * FROM pgid.acquire_lease('p', 'tester', $1)", windowMS).
		Scan(&g.Shard, &g.Fence, &g.From, &g.Until, &g.Now)
	return g, err
}

func renewLease(ctx context.Context, db queryRower, of grant, windowMS int) (grant, error) {
	g := grant{Shard: of.Shard, Fence: of.Fence}
	err := db.QueryRow(ctx, "SELECT * FROM pgid.renew_lease($1, $2, $3)", of.Shard, of.Fence, windowMS).
		Scan(&g.From, &g.Until, &g.Now)
	return g, err
}

// pool returns a database with the pool «p» of the shards first to last.
func pool(t testing.TB, first, last int) *pgtest.Database {
	t.Helper()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_pool('p', $1, $2)", first, last)
	return db
}

// mustAcquire acquires a lease of the pool «p».
func mustAcquire(t testing.TB, db *pgtest.Database, windowMS int) grant {
	t.Helper()
	g, err := acquireLease(t.Context(), db.Pool, windowMS)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// awaitWindow waits until a grant's window is over by the server's clock.
func awaitWindow(t testing.TB, db *pgtest.Database, g grant) {
	t.Helper()
	db.Exec(t, "SELECT pg_sleep(greatest(0, $1::bigint - pgid.now_ms()) / 1000.0)", g.Until>>10+1)
}

func TestLeaseErrors(t *testing.T) {
	t.Parallel()
	db := pool(t, 100, 100)
	held := mustAcquire(t, db, 60_000)
	db.Exec(t, "SELECT pgid.create_shards(0, 2), pgid.retire_shard(1)")
	for _, c := range []struct {
		sql, state, message, hint string
	}{
		{"SELECT pgid.create_pool(NULL, 0, 0)", "22004", "no name", "create_pool"},
		{"SELECT pgid.create_pool('', 0, 0)", "22023", "no name", "create_pool"},
		{"SELECT pgid.create_pool('q', NULL, 0)", "22004", "null", ""},
		{"SELECT pgid.create_pool('q', 0, NULL)", "22004", "null", ""},
		{"SELECT pgid.create_pool('q', 0, 8192)", "22023", "8192", ""},
		{"SELECT pgid.create_pool('q', 3, 2)", "22023", "after", "create_shards(2, 3)"},
		{"SELECT pgid.create_pool('q', 0, 2)", "ID003", "shard 1 is retired", ""},
		{"SELECT pgid.create_pool('q', 99, 101)", "55000", "shard 100 belongs to the pool p", "DELETE FROM pgid.lease WHERE shard = 100"},
		{"SELECT pgid.acquire_lease(NULL, 'h')", "22004", "no name", ""},
		{"SELECT pgid.acquire_lease('', 'h')", "22023", "no name", ""},
		{"SELECT pgid.acquire_lease('p', NULL)", "22004", "holder", ""},
		{"SELECT pgid.acquire_lease('p', '')", "22023", "holder", ""},
		{"SELECT pgid.acquire_lease('p', 'h', NULL)", "22004", "window_ms null", ""},
		{"SELECT pgid.acquire_lease('p', 'h', 99)", "22023", "window_ms 99", ""},
		{"SELECT pgid.acquire_lease('p', 'h', 3600001)", "22023", "window_ms 3600001", ""},
		{"SELECT pgid.acquire_lease('q', 'h')", "22023", "no pool q", "create_pool('q'"},
		{"SELECT pgid.acquire_lease('p', 'h')", "ID006", "none of the 1 shards of pool p", "lease_status"},
		{"SELECT pgid.renew_lease(NULL, 1)", "22004", "null", ""},
		{"SELECT pgid.renew_lease(8192, 1)", "22023", "8192", ""},
		{"SELECT pgid.renew_lease(100, 1, 99)", "22023", "window_ms 99", ""},
		{"SELECT pgid.renew_lease(0, 1)", "ID007", "in no pool", "Acquire another"},
		{"SELECT pgid.renew_lease(7, 1)", "ID007", "in no pool", "Acquire another"},
		{"SELECT pgid.renew_lease(100, NULL)", "ID007", "no number", ""},
		{"SELECT pgid.renew_lease(100, 999)", "ID007", "tester has lease", ""},
		{"SELECT pgid.release_lease(NULL, 1)", "22004", "null", ""},
		{"SELECT pgid.release_lease(-1, 1)", "22023", "-1", ""},
	} {
		_, err := db.Pool.Exec(t.Context(), c.sql)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != c.state || !strings.Contains(pg.Message, c.message) ||
			!strings.Contains(pg.Hint, c.hint) || pg.Hint == "" {
			t.Errorf("%s: %v, want %s, a message with %q and a hint with %q", c.sql, err, c.state, c.message, c.hint)
		}
		// 55000 is PostgreSQL's own, for an owner to read.
		if pg != nil && c.state != "55000" && pgid.Error(err).Error() == err.Error() {
			t.Errorf("%s: the client knows no sentinel for %s", c.sql, pg.Code)
		}
	}
	// None of these did anything.
	if n := pgtest.Query[int](t, db, "SELECT count(*) FROM pgid.lease"); n != 1 {
		t.Errorf("%d shards are in pools", n)
	}
	if pgtest.Query[bool](t, db, "SELECT pgid.release_lease(100, $1)", held.Fence+1) ||
		pgtest.Query[bool](t, db, "SELECT pgid.release_lease(100, NULL)") ||
		!pgtest.Query[bool](t, db, "SELECT pgid.release_lease(100, $1)", held.Fence) ||
		pgtest.Query[bool](t, db, "SELECT pgid.release_lease(100, $1)", held.Fence) {
		t.Error("release_lease does not tell whether the lease was held")
	}
	if _, err := renewLease(t.Context(), db.Pool, held, 60_000); pgtest.SQLState(err) != "ID007" {
		t.Errorf("renewed after it was given back: %v", err)
	}
}

// create_pool creates what is not there, and may be called again.
func TestCreatePool(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(11)")
	for _, c := range []struct {
		sql   string
		added int
	}{
		{"SELECT pgid.create_pool('p', 10, 12)", 3},
		{"SELECT pgid.create_pool('p', 10, 12)", 0},
		{"SELECT pgid.create_pool('p', 12, 13)", 1},
		{"SELECT pgid.create_pool('q', 14, 14)", 1},
	} {
		if n := pgtest.Query[int](t, db, c.sql); n != c.added {
			t.Errorf("%s = %d, want %d", c.sql, n, c.added)
		}
	}
	pools := pgtest.Query[string](t, db, "SELECT string_agg(shard || coalesce(pool, '-'), ' ' ORDER BY shard) FROM pgid.shard_status")
	if pools != "10p 11p 12p 13p 14q" {
		t.Errorf("pools: %s", pools)
	}
}

// A lease's windows are apart from all before them, reach as far past the clock as was
// asked for, and its states are shown.
func TestLeaseWindows(t *testing.T) {
	t.Parallel()
	db := pool(t, 100, 100)
	status := func() string {
		t.Helper()
		return pgtest.Query[string](t, db, "SELECT concat_ws(' ', state, holder, fence) FROM pgid.lease_status")
	}
	if s := status(); s != "free" {
		t.Errorf("at first: %s", s)
	}
	g := mustAcquire(t, db, 2000)
	if g.Shard != 100 || g.Fence != 1 || g.From < g.Now<<10 || g.Until != g.From+2000<<10 || g.From>>10 > g.Now+1 {
		t.Errorf("acquired %+v", g)
	}
	if s := status(); s != "held tester 1" {
		t.Errorf("acquired: %s", s)
	}
	end := g.Until
	for range 5 {
		time.Sleep(30 * time.Millisecond)
		r, err := renewLease(t.Context(), db.Pool, g, 2000)
		if err != nil {
			t.Fatal(err)
		}
		if r.From != end || r.Until != (r.Now+2000)<<10 && r.Until-(r.Now+2000)<<10 > 2<<10 || r.Until <= r.From {
			t.Errorf("renewed to %+v, after %d", r, end)
		}
		end = r.Until
	}
	g.Until = end
	awaitWindow(t, db, g)
	if s := status(); s != "expired tester 1" {
		t.Errorf("over: %s", s)
	}
	// Expired, and nobody else has it.
	r, err := renewLease(t.Context(), db.Pool, g, 3000)
	if err != nil || r.From < r.Now<<10 || r.From < end || r.Until-r.From != 3000<<10 {
		t.Fatalf("renewed after it expired: %+v, %v", r, err)
	}
	// A smaller window does not reach past what is granted: empty.
	if e, err := renewLease(t.Context(), db.Pool, g, 100); err != nil || e.From != r.Until || e.Until != r.Until {
		t.Errorf("renewed to the past: %+v, %v, want from %d", e, err, r.Until)
	}
	if !pgtest.Query[bool](t, db, "SELECT pgid.release_lease(100, 1)") {
		t.Error("it was not held")
	}
	if s := status(); s != "released 1" {
		t.Errorf("given back: %s", s)
	}
	// Nobody gets the rest of the window.
	if _, err := acquireLease(t.Context(), db.Pool, 500); pgtest.SQLState(err) != "ID006" {
		t.Errorf("acquired the rest of a window: %v", err)
	}
	awaitWindow(t, db, r)
	if s := status(); s != "free 1" {
		t.Errorf("free: %s", s)
	}
	next := mustAcquire(t, db, 60_000)
	if next.Fence != 2 || next.From < r.Until {
		t.Errorf("acquired %+v, after %+v", next, r)
	}
	if _, err := renewLease(t.Context(), db.Pool, g, 500); pgtest.SQLState(err) != "ID007" {
		t.Errorf("the old holder renewed: %v", err)
	}
	if pgtest.Query[bool](t, db, "SELECT pgid.release_lease(100, 1)") {
		t.Error("the old holder gave it back")
	}
}

// Other limits hold from the next grant on.
func TestLeaseAfterConfigure(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.configure(max_lead_ms => 5, max_wait_ms => 0)")
	db.Exec(t, "SELECT pgid.create_pool('p', 0, 0)")
	lease, err := pgid.NewClient(db.Pool).AcquireLease(t.Context(), "p", pgid.LeaseConfig{Window: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lease.Release(context.Background()) }()
	for n := range 1 << 20 {
		if _, err = lease.Next(t.Context()); err != nil {
			if n < 5*1024 {
				t.Errorf("refused after %d IDs, which are not 5 ms: %v", n, err)
			}
			break
		}
	}
	if !errors.Is(err, pgid.ErrClockBehind) {
		t.Errorf("a burst: %v, want ErrClockBehind without a wait", err)
	}
}

// A lease by the client: renewed from the database, lost when another has it.
func TestLeaseClient(t *testing.T) {
	t.Parallel()
	db := pool(t, 7, 7)
	client := pgid.NewClient(db.Pool)
	lease, err := client.AcquireLease(t.Context(), "p", pgid.LeaseConfig{Window: 300 * time.Millisecond, Holder: "web-1"})
	if err != nil {
		t.Fatal(err)
	}
	if holder := pgtest.Query[string](t, db, "SELECT holder FROM pgid.lease"); holder != "web-1" || lease.Shard() != 7 {
		t.Errorf("holder %q, shard %d", holder, lease.Shard())
	}
	last := pgid.ID(-1)
	for start := time.Now(); time.Since(start) < 1500*time.Millisecond; time.Sleep(time.Millisecond) {
		id, err := lease.Next(t.Context())
		if errors.Is(err, pgid.ErrLeaseExpired) {
			continue // a busy machine
		}
		if err != nil {
			t.Fatal(err)
		}
		if id <= last {
			t.Fatalf("%d after %d", id, last)
		}
		last = id
	}
	// Its label is the server's time: not ahead, and little behind.
	lead := pgtest.Query[int64](t, db, "SELECT ($1::bigint >> 23) - pgid.now_ms()", last)
	if lead > 100 || lead < -1000 {
		t.Errorf("the last ID leads the clock by %d ms", lead)
	}
	if s := lease.Stats(); s.Renewals < 5 || s.Issued < 100 {
		t.Errorf("%+v", s)
	}

	db.Exec(t, "UPDATE pgid.lease SET fence = nextval('pgid.lease_fence'), holder = 'web-2'")
	select {
	case <-lease.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("it never found out")
	}
	if _, err := lease.Next(t.Context()); !errors.Is(err, pgid.ErrLeaseLost) || !strings.Contains(err.Error(), "web-2") {
		t.Errorf("Next: %v", err)
	}
	if err := lease.Release(t.Context()); !errors.Is(err, pgid.ErrLeaseLost) {
		t.Errorf("Release: %v", err)
	}
	if _, err := client.AcquireLease(t.Context(), "q", pgid.LeaseConfig{Wait: true}); !errors.Is(err, pgid.ErrOutOfRange) {
		t.Errorf("no such pool: %v", err)
	}
}
