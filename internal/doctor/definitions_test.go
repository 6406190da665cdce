package doctor

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
)

// definitions.json is what the migrations install, on whichever version of PostgreSQL.
func TestDefinitionsAreCurrent(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	e := &exam{conn: db.Connect(t), timeout: defaultTimeout}
	standing, err := collect[definition](t.Context(), e, readDefinitions)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(standing, func(a, b definition) int { return strings.Compare(a.Name, b.Name) })
	if *update {
		var lines []string
		for _, d := range standing {
			line, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, string(line))
		}
		text := "[\n" + strings.Join(lines, ",\n") + "\n]\n"
		if err := os.WriteFile("definitions.json", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := installed()
	if err != nil || len(want) != len(standing) || len(want) < 60 {
		t.Errorf("%d definitions, the file has %d: %v", len(standing), len(want), err)
	}
	for _, d := range standing {
		if want[d.Name] != d {
			t.Errorf("%s: the file has %v, the database %v: run «go test ./internal/doctor -run Current -update»", d.Name, want[d.Name], d)
		}
	}
}

// grants.sql is a copy, for what is embedded cannot lie outside.
func TestGrantsAreCurrent(t *testing.T) {
	t.Parallel()
	const original = "../../sql/grants.sql"
	want, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("grants.sql", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(want) != grantsSQL {
		t.Errorf("grants.sql differs from %s: run «go test ./internal/doctor -run Current -update»", original)
	}
}

// Each definition's source brings it back: over what stands, and where it is missing.
func TestSourceRestoresEachDefinition(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	want, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	e := &exam{conn: db.Connect(t), timeout: defaultTimeout}
	for name := range want {
		if slices.Contains(data, name) {
			continue
		}
		source, err := Source(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		script(t, db.URL, source)
	}
	standing, err := collect[definition](t.Context(), e, readDefinitions)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range standing {
		if want[d.Name] != d {
			t.Errorf("%s is not what it was: %v, want %v", d.Name, d, want[d.Name])
		}
	}
	if _, err := Source("pgid.none()"); err == nil {
		t.Error("a function that is none has a source")
	}
}

func TestChangedDefinitions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, make, of string
		severity       Severity
		says           []string
	}{
		{"a body in PL/pgSQL", `DO $$ BEGIN EXECUTE replace(pg_get_functiondef('pgid.next_id_slow(integer,bigint,bigint)'::regprocedure), 'tries > 3', 'tries > 4'); END $$`,
			"pgid.next_id_slow(integer,bigint,bigint)", Error, []string{"not as version"}},
		{"a body in SQL", `CREATE OR REPLACE FUNCTION pgid.is_issuable(tick bigint, base bigint, shard integer) RETURNS boolean LANGUAGE sql VOLATILE
			RETURN tick < 1125899906842624`, "pgid.is_issuable(bigint,bigint,integer)", Error, []string{"not as version"}},
		{"volatility", `ALTER FUNCTION pgid.next_id(integer) STABLE`, "pgid.next_id(integer)", Error, nil},
		{"rights of the caller", `ALTER FUNCTION pgid.next_id(integer) SECURITY INVOKER`, "pgid.next_id(integer)", Error, nil},
		{"a search_path", `ALTER FUNCTION pgid.lock_shard(integer) RESET search_path`, "pgid.lock_shard(integer)", Error, nil},
		{"parallel", `ALTER FUNCTION pgid.next_id(integer) PARALLEL SAFE`, "pgid.next_id(integer)", Error, nil},
		{"a view", `CREATE OR REPLACE VIEW pgid.stats AS SELECT 0::bigint AS waits, 0::bigint AS refusals, 0::bigint AS busy, 0::bigint AS clock_steps, now() AS clock_high`,
			"pgid.stats", Error, nil},
		{"missing", `DROP FUNCTION pgid.retire_shard(integer)`, "pgid.retire_shard(integer)", Error, []string{"is missing"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db := healthy(t)
			script(t, db.URL, test.make)
			found := pick(t, look(t, db.URL), test.severity, "definitions", append(test.says, test.of)...)
			if !strings.HasPrefix(found.Fix, "pgid doctor --definition '"+test.of+"' | psql ") {
				t.Errorf("fix %q", found.Fix)
			}
			source, err := Source(test.of) // what that command prints
			if err != nil {
				t.Fatal(err)
			}
			script(t, db.URL, source)
			if left := look(t, db.URL); len(left) > 0 {
				t.Errorf("it is left:\n%s", text(left))
			}
		})
	}
}

func TestExtraDefinitions(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{
		{name: "a function", make: "CREATE FUNCTION pgid.mine() RETURNS integer LANGUAGE sql RETURN 1; REVOKE ALL ON FUNCTION pgid.mine() FROM PUBLIC",
			severity: Warning, check: "definitions", says: []string{"pgid.mine()"}, fix: "DROP FUNCTION pgid.mine();"},
		{name: "an overload", make: "CREATE FUNCTION pgid.next_id(bigint) RETURNS bigint LANGUAGE sql RETURN 1::bigint",
			severity: Error, check: "definitions", says: []string{"pgid.next_id(bigint)", "in place of"}, fix: "DROP FUNCTION pgid.next_id(bigint);"},
		{name: "a view", make: "CREATE VIEW pgid.mine AS SELECT 1 AS n",
			severity: Warning, check: "definitions", says: []string{"pgid.mine"}, fix: "DROP VIEW pgid.mine;"},
	} {
		f.run(t)
	}
}
