package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/migrations"
)

// childURL names the database that this test binary, run as a child process by
// TestUpFromSeveralProcesses, is to migrate.
const childURL = "PGID_TEST_MIGRATE_URL"

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		if err := migrations.Up(context.Background(), url); err != nil {
			_, _ = os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(pgtest.Run(m))
}

const objects = `SELECT (SELECT count(*) FROM pg_namespace WHERE nspname = 'pgid')
	+ (SELECT count(*) FROM pg_class WHERE relname LIKE 'pgid%')`

func version(t *testing.T, db *pgtest.Database) uint {
	t.Helper()
	v, err := migrations.Version(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The embedded steps come in pairs, from 1, without a gap, and none turns golang-migrate's
// one transaction a file into several.
func TestBundle(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	if last, err := migrations.Latest(); err != nil || last != latest || len(names) != 2*latest {
		t.Fatalf("%d files for %d steps: %v", len(names), last, err)
	}
	transaction := regexp.MustCompile(`(?im)^\s*(begin|commit|rollback|start transaction)\s*;`)
	for _, name := range names {
		data, err := fs.ReadFile(migrations.FS, name)
		if err != nil || transaction.Match(data) {
			t.Errorf("%s: holds transaction control, or %v", name, err)
		}
	}
}

func TestUpDownUp(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	if v := version(t, db); v != 0 {
		t.Fatalf("version %d before anything", v)
	}
	if n := pgtest.Query[int](t, db, objects); n != 0 {
		t.Fatalf("reading the version left %d objects", n)
	}
	for range 3 {
		for range 2 { // the second time there is nothing to do
			if err := migrations.Up(t.Context(), db.URL); err != nil {
				t.Fatal(err)
			}
		}
		if v := version(t, db); v != latest {
			t.Fatalf("version %d after up, want %d", v, latest)
		}
		db.Exec(t, "SELECT pgid.create_shards(0, 20), pgid.next_id(7)")
		for range 2 {
			if err := migrations.Down(t.Context(), db.URL); err != nil {
				t.Fatal(err)
			}
		}
		if n := pgtest.Query[int](t, db, objects); n != 0 {
			t.Fatalf("down left %d objects", n)
		}
		if v := version(t, db); v != 0 {
			t.Fatalf("version %d after down", v)
		}
	}
}

// Goroutines and processes that all migrate one database at once: all succeed.
func TestUpFromSeveralProcesses(t *testing.T) {
	t.Parallel()
	for round := range 3 {
		db := pgtest.NewEmpty(t)
		var group errgroup.Group
		for range 8 {
			group.Go(func() error { return migrations.Up(t.Context(), db.URL) })
		}
		for range 4 {
			group.Go(func() error {
				child := exec.CommandContext(t.Context(), os.Args[0])
				child.Env = append(os.Environ(), childURL+"="+db.URL)
				out, err := child.CombinedOutput()
				if err != nil {
					return errors.New(string(out))
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if v := version(t, db); v != latest {
			t.Errorf("round %d: version %d, want %d", round, v, latest)
		}
	}
}

// Down refuses to take a function from under a column default, and says which.
func TestDownWhileInUse(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	db.Exec(t, "CREATE TABLE photo (id bigint PRIMARY KEY DEFAULT pgid.next_id(5))")
	err := migrations.Down(t.Context(), db.URL)
	if !errors.Is(err, migrations.ErrInUse) || !strings.Contains(err.Error(), "photo") || strings.Contains(err.Error(), "\n") {
		t.Fatalf("%v, want ErrInUse in one line that names the table", err)
	}
	db.Exec(t, "INSERT INTO photo DEFAULT VALUES")
	if err := migrations.Up(t.Context(), db.URL); err != nil { // not dirty
		t.Error(err)
	}
	db.Exec(t, "ALTER TABLE photo ALTER id DROP DEFAULT")
	if err := migrations.Down(t.Context(), db.URL); err != nil {
		t.Error(err)
	}
	if n := pgtest.Query[int](t, db, "SELECT count(*) FROM photo"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

// A step that fails leaves neither objects nor a dirty record.
func TestFailedStep(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	super := pgtest.Connect(t, db.SuperURL)
	exec := func(sql string) {
		t.Helper()
		if _, err := super.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE FUNCTION public.refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no views here'; END $$")
	exec("CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('CREATE VIEW') EXECUTE FUNCTION public.refuse()")
	err := migrations.Up(t.Context(), db.URL)
	if err == nil || !strings.Contains(err.Error(), "no views here") || strings.Contains(err.Error(), "CREATE SCHEMA") || strings.Contains(err.Error(), "\n") {
		t.Fatalf("%v, want one line without the whole step", err)
	}
	if pgtest.Query[bool](t, db, "SELECT to_regnamespace('pgid') IS NOT NULL") {
		t.Error("half a step stays")
	}
	exec("DROP EVENT TRIGGER refuse")
	if err := migrations.Up(t.Context(), db.URL); err != nil {
		t.Errorf("once the cause is gone: %v", err)
	}
}

// What stands in the way is said, and how to get it out of there; nothing is touched.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	err := migrations.Up(t.Context(), db.URL+"&search_path=nowhere")
	if err == nil || !strings.Contains(err.Error(), "no schema of the search_path, nowhere, exists") {
		t.Errorf("a search_path that leads nowhere: %v", err)
	}
	db.Exec(t, "CREATE SCHEMA pgid")
	db.Exec(t, "CREATE TABLE pgid.mine (n integer)")
	err = migrations.Up(t.Context(), db.URL)
	if err == nil || !strings.Contains(err.Error(), "another program's") || !strings.Contains(err.Error(), "ALTER SCHEMA pgid RENAME TO") {
		t.Errorf("somebody else's schema pgid: %v", err)
	}
	db.Exec(t, "ALTER SCHEMA pgid RENAME TO other")
	if err := migrations.Up(t.Context(), db.URL); err != nil {
		t.Errorf("once it has another name: %v", err)
	}
}

// A record that a killed process left dirty is explained, and Force is the way out,
// whether the step had been committed or not.
func TestDirty(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T) *pgtest.Database{
		"step committed": func(t *testing.T) *pgtest.Database {
			t.Helper()
			db := pgtest.New(t)
			db.Exec(t, "UPDATE "+migrations.Table+" SET dirty = true")
			return db
		},
		"step lost": func(t *testing.T) *pgtest.Database {
			t.Helper()
			db := pgtest.NewEmpty(t)
			db.Exec(t, "CREATE TABLE "+migrations.Table+" (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL)")
			db.Exec(t, "INSERT INTO "+migrations.Table+" VALUES (1, true)")
			return db
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := prepare(t)
			stands := uint(0)
			if name == "step committed" {
				stands = latest
			}
			err := migrations.Up(t.Context(), db.URL)
			want := fmt.Sprintf("migrate force %d", stands)
			if !errors.Is(err, migrations.ErrDirty) || !strings.Contains(err.Error(), want) {
				t.Fatalf("up: %v, want ErrDirty with «%s»", err, want)
			}
			if _, err := migrations.Version(t.Context(), db.URL); !errors.Is(err, migrations.ErrDirty) {
				t.Fatalf("version: %v, want ErrDirty", err)
			}
			if err := migrations.Force(t.Context(), db.URL, stands); err != nil {
				t.Fatal(err)
			}
			if err := migrations.Up(t.Context(), db.URL); err != nil {
				t.Fatal(err)
			}
			if v := version(t, db); v != latest {
				t.Errorf("version %d", v)
			}
		})
	}
	if err := migrations.Force(t.Context(), "", 99); err == nil {
		t.Error("a version that does not exist was forced")
	}
}

// A database that psql has set up is taken over, not broken.
func TestAdoptsAnInstallationWithoutRecord(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "DROP TABLE "+migrations.Table)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	if v := version(t, db); v != latest {
		t.Errorf("version %d before", v)
	}
	if err := migrations.Up(t.Context(), db.URL); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "SELECT pgid.next_id(5)") // the shard is still there
	if err := migrations.Down(t.Context(), db.URL); err != nil {
		t.Fatal(err)
	}
}

// What the schema says goes before the record: dropped by hand, it is set up anew.
func TestSchemaDroppedByHand(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "DROP SCHEMA pgid CASCADE")
	if err := migrations.Up(t.Context(), db.URL); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "SELECT pgid.create_shard(5), pgid.next_id(5)")
}

// Up and down at once, in any order, end in one state or the other, never between.
func TestUpAndDownAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	for round := range 6 {
		var group errgroup.Group
		for i := range 6 {
			group.Go(func() error {
				time.Sleep(time.Duration(i*round) * time.Millisecond)
				if i%3 == 0 {
					return migrations.Down(t.Context(), db.URL)
				}
				return migrations.Up(t.Context(), db.URL)
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		n := pgtest.Query[int](t, db, objects)
		if v := version(t, db); (v == 0) != (n == 0) {
			t.Fatalf("round %d: version %d with %d objects", round, v, n)
		}
	}
}

// A database that a newer program has migrated is left alone.
func TestNewerDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "CREATE OR REPLACE FUNCTION pgid.version() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 99")
	for name, migrate := range map[string]func(context.Context, string) error{"up": migrations.Up, "down": migrations.Down} {
		if err := migrate(t.Context(), db.URL); !errors.Is(err, migrations.ErrNewer) {
			t.Errorf("%s: %v, want ErrNewer", name, err)
		}
	}
}

// Whatever a user's object needs of the schema, down refuses, and takes nothing.
func TestDownTakesNothingOfOthers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	for _, object := range []struct{ create, drop string }{
		{"CREATE TABLE x (id bigint, n integer) PARTITION BY LIST (pgid.id_shard(id))", "DROP TABLE x"},
		{"CREATE TABLE x (id bigint, s integer GENERATED ALWAYS AS (pgid.id_seq(id)) STORED)", "DROP TABLE x"},
		{"CREATE TABLE x (id bigint CHECK (pgid.id_time(id) > '2026-01-01'))", "DROP TABLE x"},
		{"CREATE TABLE x (shard integer REFERENCES pgid.shard)", "DROP TABLE x"},
		{"CREATE TABLE x (n bigint DEFAULT nextval('pgid.counter_5'))", "DROP TABLE x"},
		{"CREATE TABLE x (n bigint DEFAULT pgid.epoch_ms())", "DROP TABLE x"},
		{"CREATE VIEW x AS SELECT * FROM pgid.shard_status", "DROP VIEW x"},
		{"CREATE MATERIALIZED VIEW x AS SELECT pgid.id_seq(5)", "DROP MATERIALIZED VIEW x"},
		{"CREATE FUNCTION x() RETURNS bigint LANGUAGE sql RETURN pgid.next_id(5)", "DROP FUNCTION x()"},
		{"CREATE TABLE x (s pgid.shard)", "DROP TABLE x"},
		{"CREATE TABLE pgid.mine (n integer)", "DROP TABLE pgid.mine"},
	} {
		db.Exec(t, object.create)
		if err := migrations.Down(t.Context(), db.URL); !errors.Is(err, migrations.ErrInUse) {
			t.Errorf("%s: %v, want ErrInUse", object.create, err)
		}
		db.Exec(t, object.drop) // it is still there
	}
	db.Exec(t, "SELECT pgid.next_id(5)")
	if err := migrations.Down(t.Context(), db.URL); err != nil {
		t.Error(err)
	}
}

// A tool that keeps its own record, unqualified and in the same transaction, can run
// the files.
func TestFilesGiveTheSearchPathBack(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	db.Exec(t, "CREATE TABLE bookkeeping (version text)")
	var files []string
	for i, name := range stepNames {
		files = slices.Insert(files, i, name+".up.sql", name+".down.sql")
	}
	for _, name := range files {
		db.Exec(t, "BEGIN; "+step(t, name)+"; INSERT INTO bookkeeping VALUES ('"+name+"'); COMMIT")
	}
	if n := pgtest.Query[int](t, db, "SELECT count(*) FROM bookkeeping"); n != 2*latest {
		t.Errorf("%d steps, want %d", n, 2*latest)
	}
}

// When the context ends while the step runs, it is rolled back, and can be run again.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	holder, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := holder.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE pgid.shard_status IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer stop()
	start := time.Now()
	err = migrations.Down(ctx, db.URL) // waits for the lock
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 8*time.Second {
		t.Errorf("after %s: %v, want the context's end", time.Since(start), err)
	}
	_ = holder.Close(t.Context())
	db.Exec(t, "SELECT pgid.next_id(5)") // still there
	if v := version(t, db); v != latest {
		t.Errorf("version %d", v)
	}
	if err := migrations.Down(t.Context(), db.URL); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

// A wrong URL, or a server that is not there, is one line, without the password.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://u:secret@127.0.0.1:1/db?connect_timeout=2", "postgres://u:secret@127.0.0.1:notaport/db"} {
		err := migrations.Up(t.Context(), url)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
