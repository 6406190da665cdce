package doctor

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

func TestInstalled(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	if f := pick(t, look(t, db.URL), Error, "installed", "not installed"); f.Fix != "pgid migrate up" {
		t.Errorf("fix %q", f.Fix)
	}
	db.Exec(t, "CREATE SCHEMA pgid")
	f := pick(t, look(t, db.URL), Error, "installed", "another program's, or broken")
	script(t, db.URL, f.Fix)
	pick(t, look(t, db.URL), Error, "installed", "not installed")
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[int]string{pgid.SchemaVersion - 1: "pgid migrate up", pgid.SchemaVersion + 1: fmt.Sprintf("use a pgid of schema version %d", pgid.SchemaVersion+1)} {
		db := pgtest.New(t)
		script(t, db.URL, fmt.Sprintf("CREATE OR REPLACE FUNCTION pgid.version() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN %d", version))
		if f := pick(t, look(t, db.URL), Error, "installed", fmt.Sprintf("version %d", version)); !strings.Contains(f.Fix, want) {
			t.Errorf("version %d: fix %q", version, f.Fix)
		}
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]Severity{
		"UPDATE pgid_schema_migrations SET dirty = true":                        Error,
		"UPDATE pgid_schema_migrations SET version = 1":                         Warning,
		"UPDATE pgid_schema_migrations SET version = version - 1, dirty = true": Error,
	} {
		db := pgtest.New(t)
		script(t, db.URL, sql)
		f := pick(t, look(t, db.URL), want, "record", "pgid_schema_migrations")
		if f.Fix != fmt.Sprintf("pgid migrate force %d", pgid.SchemaVersion) {
			t.Errorf("%s: fix %q", sql, f.Fix)
		}
	}

	db := pgtest.New(t)
	db.Exec(t, "UPDATE pgid_schema_migrations SET dirty = true")
	conn := db.Connect(t)
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_lock(pgid.lock_class(), -1)"); err != nil {
		// The function is the owner's, as this session is.
		t.Fatal(err)
	}
	pick(t, look(t, db.URL), Info, "record", "under way")

	db.Exec(t, "DROP TABLE pgid_schema_migrations")
	pick(t, Examine(t.Context(), []string{db.URL}, Options{}), OK, "record", "no migration record")
}

func TestStats(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{
		{name: "refusals", make: "SELECT nextval('pgid.count_refusals')", severity: Warning, check: "stats", says: []string{"1 calls were refused"}, fix: "SELECT setval('pgid.count_refusals', 1, false);"},
		{name: "busy", make: "SELECT nextval('pgid.count_busy')", severity: Warning, check: "stats", says: []string{"1 calls gave up"}, fix: "count_busy"},
		{name: "steps", make: "SELECT nextval('pgid.count_steps'), nextval('pgid.count_steps')", severity: Warning, check: "stats", says: []string{"2 times the clock"}, fix: "count_steps"},
	} {
		f.run(t)
	}
}

func TestPools(t *testing.T) {
	t.Parallel()
	fault{name: "exhausted", make: "SELECT pgid.acquire_lease('workers', 'web-' || n, 60000) FROM generate_series(1, 3) AS n",
		severity: Warning, check: "leases", says: []string{"pool workers", "none of its 4 shards", "4 held"}, fix: "SELECT pgid.create_pool('workers', 14, 17);"}.run(t)

	t.Run("expired", func(t *testing.T) {
		t.Parallel()
		db := healthy(t)
		script(t, db.URL, "SELECT pgid.acquire_lease('workers', 'web 4711', 100); SELECT pg_sleep(0.3)")
		pick(t, look(t, db.URL), Info, "leases", "pool workers", "web 4711", "expire")
	})
	t.Run("behind its window", func(t *testing.T) {
		t.Parallel()
		db := healthy(t)
		script(t, db.URL, "SELECT pgid.acquire_lease('workers', 'web 4711', 60000); SELECT setval('pgid.base_' || shard, -1) FROM pgid.lease WHERE holder = 'web 4711'")
		f := pick(t, look(t, db.URL), Error, "leases", "is behind the window that was granted of it")
		script(t, db.URL, f.Fix)
		for _, f := range look(t, db.URL) {
			if f.Severity == Error {
				t.Errorf("after the fix: %v", f)
			}
		}
	})
	t.Run("from the future", func(t *testing.T) {
		t.Parallel()
		db := healthy(t)
		script(t, db.URL, `SELECT pgid.acquire_lease('workers', 'late', 3600000);
			UPDATE pgid.lease SET granted = granted + interval '1 hour' WHERE holder = 'late'`)
		pick(t, look(t, db.URL), Warning, "leases", "which is ", " from now: the clock went back")
		script(t, db.URL, `UPDATE pgid.lease SET granted = now(), until_tick = until_tick + (3600000::bigint << 10) WHERE holder = 'late'`)
		pick(t, look(t, db.URL), Warning, "leases", "the window of shard", " from now: nobody is granted it until then")
	})
}

func TestLocks(t *testing.T) {
	t.Parallel()
	db := healthy(t)
	keeper := db.Connect(t)
	if _, err := keeper.Exec(t.Context(), "SELECT pg_advisory_lock(pgid.lock_class(), 2)"); err != nil {
		t.Fatal(err)
	}
	f := pick(t, look(t, db.URL), Error, "locks", "shard 2 is locked by process")
	script(t, db.URL, f.Fix)
	var wrong []Finding
	for range 10 { // the process takes a moment to end
		if wrong = look(t, db.URL); len(wrong) == 0 {
			return
		}
	}
	t.Errorf("it is left:\n%s", text(wrong))
}

// A lock that is always taken, but by one session after another, is no finding.
func TestLocksInUse(t *testing.T) {
	t.Parallel()
	db := healthy(t)
	done := make(chan struct{})
	var callers sync.WaitGroup
	for range 2 {
		conn := db.Connect(t)
		callers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_, _ = conn.Exec(t.Context(), "SELECT pg_advisory_xact_lock(1885825380, 2), pg_sleep(0.2)")
				}
			}
		})
	}
	wrong := look(t, db.URL)
	close(done)
	callers.Wait()
	for _, f := range wrong {
		if f.Check == "locks" {
			t.Error(f.What)
		}
	}
}

func TestSetting(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{
		{name: "not a shard", super: true, make: "ALTER DATABASE {db} SET pgid.shard = 'five'", severity: Error, check: "setting", says: []string{`"five"`, "{db}"}, fix: "ALTER DATABASE {db} RESET pgid.shard;"},
		{name: "no such shard", super: true, make: "ALTER DATABASE {db} SET pgid.shard = 9", severity: Error, check: "setting", says: []string{"shard 9 does not exist"}, fix: "SELECT pgid.create_shard(9);"},
		{name: "retired, for a role", super: true, make: "ALTER ROLE {role} IN DATABASE {db} SET pgid.shard = 7", severity: Error, check: "setting", says: []string{"shard 7 is retired", "{role}"}, fix: "ALTER ROLE {role} IN DATABASE {db} RESET pgid.shard;"},
		{name: "leased", super: true, make: "ALTER DATABASE {db} SET pgid.shard = 10", severity: Warning, check: "setting", says: []string{"shard 10", "pool workers"}, fix: "ALTER DATABASE {db} RESET pgid.shard;"},
	} {
		f.run(t)
	}
}

// A value that nobody has given to this session was left by somebody else.
func TestSettingLeft(t *testing.T) {
	t.Parallel()
	db := healthy(t)
	conn := db.Connect(t)
	if _, err := conn.Exec(t.Context(), "SET pgid.shard = 3"); err != nil {
		t.Fatal(err)
	}
	setting := func() []Finding {
		e := &exam{conn: conn, timeout: defaultTimeout, check: "setting"}
		if err := e.checkSetting(t.Context()); err != nil {
			t.Fatal(err)
		}
		return e.findings
	}
	f := pick(t, setting(), Warning, "setting", `pgid.shard = "3"`)
	if _, err := conn.PgConn().Exec(t.Context(), f.Fix).ReadAll(); err != nil {
		t.Fatal(err)
	}
	pick(t, setting(), OK, "setting")

	if wrong := look(t, db.URL+"&options=-c%20pgid.shard%3D3"); len(wrong) > 0 {
		t.Errorf("it minds what its own URL says:\n%s", text(wrong))
	}
	script(t, db.SuperURL, "ALTER DATABASE "+db.Name+" SET pgid.shard = 2")
	if wrong := look(t, db.URL); len(wrong) > 0 {
		t.Errorf("it minds what the database says:\n%s", text(wrong))
	}
}

func TestBehindPooler(t *testing.T) {
	t.Parallel()
	if behindPooler(5, 5) || !behindPooler(5, 6) {
		t.Error("the process that serves tells nothing")
	}
}

func TestDurability(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{
		{name: "of a database", make: "ALTER DATABASE {db} SET synchronous_commit = off", severity: Warning, check: "durability", says: []string{"synchronous_commit is off for the database {db}"}, fix: "ALTER DATABASE {db} RESET synchronous_commit;"},
		{name: "of a role", super: true, make: "ALTER ROLE {role} IN DATABASE {db} SET synchronous_commit = off", severity: Warning, check: "durability", says: []string{"the role {role} in the database {db}"}, fix: "ALTER ROLE {role} IN DATABASE {db} RESET synchronous_commit;"},
	} {
		f.run(t)
	}
	// The servers of the tests run without fsync and full_page_writes.
	db := pgtest.New(t)
	if pgtest.Query[string](t, db, "SELECT current_setting('fsync') || current_setting('full_page_writes')") == "offoff" {
		findings := Examine(t.Context(), []string{db.URL}, Options{})
		for _, name := range []string{"fsync", "full_page_writes"} {
			if f := pick(t, findings, Warning, "durability", name+" is off", "crash"); !strings.Contains(f.Fix, name) {
				t.Errorf("fix %q", f.Fix)
			}
		}
	}
	e := &exam{check: "durability"}
	e.addDurability([]parameter{{"fsync", "on", "default"}, {"full_page_writes", "on", "default"}, {"synchronous_commit", "local", "default"}}, nil)
	if Worst(e.findings) != OK {
		t.Errorf("with all of it on:\n%s", text(e.findings))
	}
	e.addDurability([]parameter{{"fsync", "off", "configuration file"}}, nil)
	if f := pick(t, e.findings, Warning, "durability", "fsync is off"); f.Fix != "ALTER SYSTEM SET fsync = on; -- then SELECT pg_reload_conf();" {
		t.Errorf("fix %q", f.Fix)
	}
}

func TestYears(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	long := time.Now().Add(-33 * year).UnixMilli()
	db.Exec(t, "SELECT pgid.configure(epoch_ms => $1)", long)
	pick(t, look(t, db.URL), Warning, "years", "1.8 years")
	db.Exec(t, "SELECT pgid.configure(epoch_ms => $1)", time.Now().Add(-year).UnixMilli())
	pick(t, Examine(t.Context(), []string{db.URL}, Options{}), OK, "years", "33.8 years")
}
