package postgresids_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/migrations"
	"github.com/nextid/postgres-ids/pgid"
)

var include = regexp.MustCompile(`(?m)^\\ir (\S+)$`)

// installSQL is sql/install.sql with its files in their places, as psql reads it.
func installSQL(t *testing.T) string {
	t.Helper()
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join("sql", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	script := include.ReplaceAllStringFunc(read("install.sql"), func(line string) string {
		return read(strings.TrimPrefix(line, `\ir `))
	})
	return strings.ReplaceAll(script, `\set ON_ERROR_STOP on`, "")
}

// sql/ and migrations/ bring the same objects, and everything in sql/ is installed.
func TestCatalogsOfSQLAndMigrationsAreEqual(t *testing.T) {
	t.Parallel()
	installed, migrated := pgtest.NewEmpty(t), pgtest.New(t)
	installed.Exec(t, installSQL(t))
	a, b := pgtest.Catalog(t, installed), pgtest.Catalog(t, migrated)
	for _, line := range a {
		if !slices.Contains(b, line) {
			t.Errorf("in sql/ only: %s", line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			t.Errorf("in migrations/ only: %s", line)
		}
	}
	if len(a) < 40 {
		t.Errorf("only %d objects: the comparison is blind", len(a))
	}
	files, _ := filepath.Glob("sql/*.sql")
	for _, file := range files {
		name := filepath.Base(file)
		if data, err := os.ReadFile("sql/install.sql"); err != nil || name != "install.sql" && !strings.Contains(string(data), `\ir `+name+"\n") {
			t.Errorf("%s is not installed: %v", file, err)
		}
	}
	if v := pgtest.Query[int](t, migrated, "SELECT pgid.version()"); v != pgid.SchemaVersion {
		t.Errorf("the migrations bring version %d, package pgid knows %d", v, pgid.SchemaVersion)
	}
	if latest, err := migrations.Latest(); err != nil || latest != pgid.SchemaVersion {
		t.Errorf("the last migration is %d (%v), package pgid knows %d", latest, err, pgid.SchemaVersion)
	}
}

// The plain owner of a database installs everything, and nothing outside the schema.
func TestNothingOutsideTheSchema(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	// Also what depends on no schema: roles, casts, extensions, event triggers, default privileges.
	const outside = `
		SELECT array_agg(line ORDER BY line) FROM (
		  SELECT 'function ' || oid::regprocedure FROM pg_proc WHERE pronamespace <> all (ARRAY(SELECT oid FROM pg_namespace WHERE nspname = 'pgid'))
		  UNION ALL SELECT 'relation ' || oid::regclass FROM pg_class
		   WHERE relnamespace <> all (ARRAY(SELECT oid FROM pg_namespace WHERE nspname IN ('pgid', 'pg_toast'))) AND relnamespace::regnamespace::text !~ '^pg_(toast_)?temp'
		  UNION ALL SELECT 'operator ' || oid::text FROM pg_operator UNION ALL SELECT 'cast ' || oid::text FROM pg_cast
		  UNION ALL SELECT 'extension ' || extname FROM pg_extension UNION ALL SELECT 'trigger ' || evtname FROM pg_event_trigger
		  UNION ALL SELECT 'privileges ' || oid::text FROM pg_default_acl UNION ALL SELECT 'schema ' || nspname FROM pg_namespace
		   WHERE nspname <> 'pgid' AND nspname !~ '^pg_(toast_)?temp'
		) AS objects(line)`
	before := pgtest.Query[[]string](t, db, outside)
	db.Exec(t, installSQL(t))
	db.Exec(t, "SELECT pgid.create_shards(0, 3), pgid.next_id(2)")
	if after := pgtest.Query[[]string](t, db, outside); !slices.Equal(before, after) {
		t.Errorf("outside the schema, before and after:\n%v\n%v", len(before), len(after))
	}
	if super := pgtest.Query[bool](t, db, "SELECT rolsuper OR rolcreaterole OR rolbypassrls FROM pg_roles WHERE rolname = current_user"); super {
		t.Error("the installing role is not a plain one")
	}
}

// psql installs it too, in one command.
func TestInstallWithPsql(t *testing.T) {
	t.Parallel()
	psql, err := exec.LookPath("psql")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("psql is not installed")
		}
		t.Skip("psql is not installed: sql/install.sql was read by the other tests only")
	}
	db := pgtest.NewEmpty(t)
	install := func() (string, error) {
		out, err := exec.CommandContext(t.Context(), psql, "-X", "-q", "-f", "sql/install.sql", db.URL).CombinedOutput()
		return string(out), err
	}
	if out, err := install(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	db.Exec(t, "SELECT pgid.create_shard(5), pgid.next_id(5)")
	last := pgtest.Query[pgid.ID](t, db, "SELECT last_id FROM pgid.shard_status")
	if out, err := install(); err == nil || !strings.Contains(out, "already exists") {
		t.Errorf("a second time: %v: %s", err, out)
	}
	if id := pgtest.Query[pgid.ID](t, db, "SELECT pgid.next_id(5)"); id <= last {
		t.Errorf("after a second install: %d after %d", id, last)
	}
}

// plpgsql_check finds nothing in any PL/pgSQL function.
func TestPlpgsqlCheck(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if !pgtest.Query[bool](t, db, "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'plpgsql_check')") {
		if os.Getenv("PGID_TEST_PLPGSQL_CHECK") == "required" {
			t.Fatal("this server has no plpgsql_check")
		}
		t.Skip("this server has no plpgsql_check: install your system's package postgresql-NN-plpgsql-check")
	}
	super := pgtest.Connect(t, db.SuperURL)
	if _, err := super.Exec(t.Context(), "CREATE EXTENSION plpgsql_check"); err != nil {
		t.Fatal(err)
	}
	checked := pgtest.Query[int](t, db, `SELECT count(*) FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
		WHERE p.pronamespace = 'pgid'::regnamespace AND l.lanname = 'plpgsql'`)
	var found []string
	err := super.QueryRow(t.Context(), `
		SELECT array_agg(p.oid::regprocedure || ' line ' || coalesce(c.lineno, 0) || ': ' || c.level || ': ' || c.message)
		  FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
		 CROSS JOIN LATERAL plpgsql_check_function_tb(p.oid, other_warnings => true, extra_warnings => true,
		            security_warnings => true, performance_warnings => false) AS c
		 WHERE p.pronamespace = 'pgid'::regnamespace AND l.lanname = 'plpgsql'`).Scan(&found)
	if err != nil || checked < 10 {
		t.Fatalf("%d functions: %v", checked, err)
	}
	for _, line := range found {
		// A function that never returns may well call itself immutable: see sql/layout.sql.
		if !strings.Contains(line, "refuse_time") || !strings.HasSuffix(line, "routine is marked as IMMUTABLE, but expression is STABLE") {
			t.Error(line)
		}
	}
}

// pg_dump writes the lookup after the sequences that it names, and what it restores
// goes on where the original was.
func TestDumpAndRestore(t *testing.T) {
	t.Parallel()
	db, copied := pgtest.New(t), pgtest.NewEmpty(t)
	db.Exec(t, "SELECT pgid.create_shards(2, 4)")
	db.Exec(t, "SELECT pgid.create_shard(40)")
	db.Exec(t, "CREATE TABLE photo (id bigint PRIMARY KEY DEFAULT pgid.next_id(40))")
	db.Exec(t, "INSERT INTO photo SELECT FROM generate_series(1, 3000)")
	last := pgtest.Query[pgid.ID](t, db, "SELECT max(id) FROM photo")
	out, err := db.Shell(t, `pg_dump --no-owner "`+db.Name+`" | psql -X -q -v ON_ERROR_STOP=1 -d "`+copied.Name+`"`)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	super := pgtest.Connect(t, copied.SuperURL)
	var id pgid.ID
	if err := super.QueryRow(t.Context(), "INSERT INTO photo DEFAULT VALUES RETURNING id").Scan(&id); err != nil || id <= last {
		t.Errorf("the copy issued %d after %d: %v", id, last, err)
	}
	var status int
	err = super.QueryRow(t.Context(), "SELECT count(*) FROM pgid.shard_status WHERE pgid.next_id(shard) > 0").Scan(&status)
	if err != nil || status != 4 {
		t.Errorf("the copy has %d shards: %v", status, err)
	}
	if _, err := super.Exec(t.Context(), "DROP SEQUENCE pgid.counter_3"); pgtest.SQLState(err) != "2BP01" {
		t.Errorf("a shard's sequence can be dropped under it: %v", err)
	}
}
