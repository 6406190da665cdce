package faults

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/nextid/postgres-ids/internal/pgtest"
)

// dumps are ways to copy a database, as scripts: FROM and TO are databases, FILE is a
// temporary name.
var dumps = map[string]string{
	"plain":                       `pg_dump FROM | PSQL -d TO`,
	"custom":                      `pg_dump -Fc -f FILE FROM && pg_restore --exit-on-error -d TO FILE`,
	"directory, in parallel":      `pg_dump -Fd -j 2 -f FILE FROM && pg_restore --exit-on-error -j 2 -d TO FILE`,
	"schema, then data":           `pg_dump -s FROM | PSQL -d TO && pg_dump -a FROM | PSQL -d TO`,
	"by the owner, not superuser": `pg_dump -Fc -f FILE FROM && PGUSER=OWNER PGPASSWORD=pgid pg_restore --exit-on-error -d TO FILE`,
}

// copyDatabase runs one of dumps.
func copyDatabase(t *testing.T, script string, from, to *pgtest.Database) {
	t.Helper()
	owner := pgtest.Query[string](t, from, "SELECT current_user")
	file := "/tmp/" + to.Name + ".dump"
	script = strings.NewReplacer("FROM", from.Name, "TO", to.Name, "FILE", file, "OWNER", owner,
		"PSQL", "psql -X -q -v ON_ERROR_STOP=1").Replace(script)
	if out, err := from.Shell(t, script+"; status=$?; rm -rf "+file+"; exit $status"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// What a dump carries: shards, retired ones and leased ones, settings, grants. IDs go
// on above those from before.
func TestRestoreGoesOn(t *testing.T) {
	t.Parallel()
	for name, script := range dumps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			guest := pgtest.NewEmpty(t).Role(t) // ends after the databases where it has privileges
			from, to := pgtest.New(t), pgtest.NewEmpty(t)
			state := furnish(t, from, guest)
			copyDatabase(t, script, from, to)
			state.goesOn(t, to)
		})
	}
}

// A restore without privileges closes pgid to all but its owner, apart from defaults;
// and granting the schema alone would then open too much. grants.sql puts it right.
func TestRestoreWithoutPrivileges(t *testing.T) {
	t.Parallel()
	guest := pgtest.NewEmpty(t).Role(t) // ends after the databases where it has privileges
	from, to := pgtest.New(t), pgtest.NewEmpty(t)
	from.Exec(t, "SELECT pgid.create_shard(5)")
	from.Exec(t, "CREATE TABLE photo (id bigint PRIMARY KEY DEFAULT pgid.next_id(5))")
	copyDatabase(t, `pg_dump -Fc -f FILE FROM && pg_restore --exit-on-error --no-acl -d TO FILE`, from, to)
	to.Exec(t, "GRANT INSERT, SELECT ON photo TO "+guest)
	conn := pgtest.Connect(t, to.As(guest))
	try := func(what, sql, want string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); pgtest.SQLState(err) != want {
			t.Errorf("%s: %s: %v, want SQLSTATE %q", what, sql, err, want)
		}
	}
	const retire = "SELECT pgid.retire_shard(9)"
	try("restored", "INSERT INTO photo DEFAULT VALUES", "")
	try("restored", "SELECT pgid.next_id(5)", "42501")
	try("restored", retire, "42501")

	to.Exec(t, "GRANT USAGE ON SCHEMA pgid TO PUBLIC")
	try("USAGE granted", "SELECT pgid.next_id(5)", "")
	try("USAGE granted", retire, "ID002") // it was executed: the trap

	grants, err := os.ReadFile(filepath.Join("..", "..", "sql", "grants.sql"))
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), to.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SELECT set_config('pgid.caller_path', current_setting('search_path'), true)"); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), string(grants))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	try("grants.sql", "SELECT pgid.next_id(5)", "")
	try("grants.sql", "INSERT INTO photo DEFAULT VALUES", "")
	try("grants.sql", retire, "42501")
	if a, b := catalog(t, from), catalog(t, to); !slices.Equal(a, b) {
		t.Errorf("not as it was:\n%s", difference(a, b))
	}
}
