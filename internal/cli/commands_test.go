package cli

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	env := map[string]string{"DATABASE_URL": db.URL}
	latest := strconv.Itoa(pgid.SchemaVersion)
	steps := []struct{ args, want string }{
		{"migrate version", "0\n"},
		{"migrate up", "the schema pgid has version " + latest + "\n"},
		{"migrate up", "the schema pgid has version " + latest + "\n"},
		{"migrate version", latest + "\n"},
		{"migrate force " + latest, "the migration record says version " + latest + "\n"},
		{"migrate down", "the schema pgid is removed\n"},
		{"migrate version", "0\n"},
	}
	for _, step := range steps {
		if got := run(t, env, "", strings.Fields(step.args)...).prints(t); got != step.want {
			t.Errorf("%s: %q, want %q", step.args, got, step.want)
		}
	}
}

func TestMigrateDownInUse(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	db.Exec(t, "CREATE TABLE photo (id bigint DEFAULT pgid.next_id(5))")
	run(t, nil, "", "migrate", "down", "--database-url", db.URL).fails(t, "1 shard would be removed", "--yes")
	r := run(t, nil, "", "migrate", "down", "--yes", "--database-url", db.URL)
	r.fails(t, "in use", "photo")
	if strings.Contains(r.errOut, "CASCADE") {
		t.Errorf("the error proposes to drop the user's objects: %s", r.errOut)
	}
}

func TestShards(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	env := map[string]string{"PGID_DATABASE_URL": db.URL}
	if got := run(t, env, "", "shard", "list").prints(t); !strings.Contains(got, "no shards yet") {
		t.Errorf("list of none: %q", got)
	}
	if got := run(t, env, "", "shard", "list", "--json").prints(t); got != "" {
		t.Errorf("JSON list of none: %q", got)
	}
	if got, want := run(t, env, "", "shard", "create", "0-3,7", "5").prints(t), "created 6, stood already 0\n"; got != want {
		t.Errorf("create: %q, want %q", got, want)
	}
	if got, want := run(t, env, "", "shard", "create", "0-5").prints(t), "created 1, stood already 5\n"; got != want {
		t.Errorf("create more: %q, want %q", got, want)
	}
	id := strings.TrimSpace(run(t, env, "", "next", "--shard", "7").prints(t))

	var shards []shardStatus
	for line := range strings.Lines(run(t, env, "", "shard", "list", "--json").prints(t)) {
		var s shardStatus
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		shards = append(shards, s)
	}
	if len(shards) != 7 || shards[6].Shard != 7 || shards[6].LastID == nil || shards[6].LastID.String() != id || shards[0].LastID != nil {
		t.Errorf("list: %+v, want 7 shards, the last with ID %s", shards, id)
	}
	table := run(t, env, "", "shard", "list").prints(t)
	if !strings.Contains(table, "last ID") || !strings.Contains(table, id) || strings.Count(table, "\n") != 7+4 {
		t.Errorf("list:\n%s", table)
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	lines := strings.Fields(run(t, nil, "", "next", "--shard", "5", "--count", "2000", "--database-url", db.URL).prints(t))
	if len(lines) != 2000 {
		t.Fatalf("%d lines, want 2000", len(lines))
	}
	last := pgid.ID(0)
	for _, line := range lines {
		id, err := pgid.Parse(line)
		if err != nil || id <= last || id.Shard() != 5 {
			t.Fatalf("%q after %d: %v", line, last, err)
		}
		last = id
	}
}

// What was drawn before an error is printed all the same.
func TestNextPrintsBeforeItFails(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	// A query that ends on its own after 50 IDs: the session may draw no more.
	db.Exec(t, `CREATE SEQUENCE public.calls;
		CREATE OR REPLACE FUNCTION pgid.next_id(shard integer) RETURNS bigint LANGUAGE plpgsql VOLATILE AS
		$$ BEGIN IF nextval('public.calls') > 50 THEN RAISE EXCEPTION 'enough'; END IF; RETURN currval('public.calls'); END $$`)
	r := run(t, nil, "", "next", "--shard", "5", "--count", "100", "--database-url", db.URL)
	if got := len(strings.Fields(r.out)); got != 50 {
		t.Errorf("%d IDs printed, want 50", got)
	}
	r.out = ""
	r.fails(t, "enough")
}

func TestDecodeWithTheDatabasesEpoch(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "CREATE OR REPLACE FUNCTION pgid.epoch_ms() RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 1577836800000")
	got := run(t, nil, "", "decode", "--json", "0", "--database-url", db.URL).prints(t)
	if !strings.Contains(got, "2020-01-01T00:00:00.000Z") {
		t.Errorf("%s, want the epoch of 2020", got)
	}
}

func TestDatabaseErrors(t *testing.T) {
	t.Parallel()
	db, empty := pgtest.New(t), pgtest.NewEmpty(t)
	owner, role := pgtest.Query[string](t, db, "SELECT current_user"), db.Role(t)
	stranger := db.As(role)
	missing := strings.Replace(db.URL, "/"+db.Name, "/pgid_no_such_database", 1)
	tests := []struct {
		name, url, args string
		says            []string
	}{
		{"unknown shard", db.URL, "next --shard 5", []string{"shard 5 does not exist", "ID002", "SELECT pgid.create_shard(5)"}},
		{"next without pgid", empty.URL, "next --shard 5", []string{"not installed", "«pgid migrate up»"}},
		{"list without pgid", empty.URL, "shard list", []string{"not installed", "«pgid migrate up»"}},
		{"create without pgid", empty.URL, "shard create 0-3", []string{"not installed", "«pgid migrate up»"}},
		{"create by a stranger", stranger, "shard create 5", []string{"permission denied", "owner of the schema pgid"}},
		{"list by a stranger", stranger, "shard list", []string{"permission denied", "owner of the schema pgid"}},
		{"migrate by a stranger", stranger, "migrate down", []string{"belongs to " + owner + ", not to " + role, "role=" + owner}},
		{"install by a stranger", empty.As(role), "migrate up", []string{"the role needs CREATE"}},
		{"no such database", missing, "next --shard 5", []string{"pgid_no_such_database", "does not exist"}},
		{"stopped server", "postgres://u:p@127.0.0.1:1/db", "migrate up", []string{"127.0.0.1:1", "refused"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			run(t, map[string]string{"PGID_DATABASE_URL": test.url}, "", strings.Fields(test.args)...).fails(t, test.says...)
		})
	}
}
