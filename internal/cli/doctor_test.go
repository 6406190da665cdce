package cli

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/nextid/postgres-ids/internal/doctor"
	"github.com/nextid/postgres-ids/internal/pgtest"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(0, 3), pgid.next_id(2)")
	env := map[string]string{"PGID_DATABASE_URL": db.URL}

	// The servers of the tests run with fsync off, which is a warning.
	healthy := run(t, env, "", "doctor")
	for _, part := range []string{"/" + db.Name + "\n  ✓ server", "\n  ✓ sequences    16 sequences", "\n  ✓ clock", "\n0 errors, "} {
		if !strings.Contains(healthy.out, part) {
			t.Errorf("it does not say %q:\n%s%s", part, healthy.out, healthy.errOut)
		}
	}
	want := 3
	if pgtest.Query[string](t, db, "SELECT current_setting('fsync') || current_setting('full_page_writes')") == "onon" {
		want = 0
	}
	if healthy.code != want || healthy.errOut != "" {
		t.Errorf("exit %d, %q, want %d", healthy.code, healthy.errOut, want)
	}

	db.Exec(t, "ALTER SEQUENCE pgid.counter_2 CACHE 50")
	sick := run(t, env, "", "doctor")
	if sick.code != 4 || sick.errOut != "" || !strings.Contains(sick.out, "  ✗ sequences    somebody has altered the sequence counter_2") ||
		!strings.Contains(sick.out, "\n                 fix: ALTER SEQUENCE pgid.counter_2 ") || !strings.Contains(sick.out, "\n1 error, ") {
		t.Errorf("exit %d: %s%s", sick.code, sick.out, sick.errOut)
	}
}

func TestDoctorOfSeveral(t *testing.T) {
	t.Parallel()
	one, other := pgtest.New(t), pgtest.New(t)
	for _, db := range []*pgtest.Database{one, other} {
		db.Exec(t, "SELECT pgid.create_shard(2)")
		db.Exec(t, "SELECT pgid.next_id(2)")
	}
	const unreachable = "postgres://u:hunter2@127.0.0.1:1/db"
	for _, args := range [][]string{
		{"doctor", "--json", "--database-url", one.URL, "--database-url", unreachable, "--database-url", other.URL},
		{"--database-url", one.URL, "doctor", "--json", "--database-url", unreachable, "--database-url=" + other.URL},
	} {
		r := run(t, nil, "", args...)
		if r.code != 4 || strings.Contains(r.out+r.errOut, "hunter2") {
			t.Fatalf("exit %d: %s%s", r.code, r.out, r.errOut)
		}
		said := make(map[string]doctor.Finding)
		for line := range strings.Lines(r.out) {
			var f doctor.Finding
			if err := json.Unmarshal([]byte(line), &f); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if f.Severity == doctor.Error {
				said[f.Check] = f
			}
		}
		if f := said["connection"]; f.Database != "127.0.0.1:1/db" || !strings.HasPrefix(f.What, "cannot connect: ") {
			t.Errorf("of the one that cannot be reached: %v", f)
		}
		if f := said["others"]; !strings.HasSuffix(f.Database, "/"+one.Name) || !strings.HasPrefix(f.Fix, "SELECT pgid.retire_shard(2);") {
			t.Errorf("of the shared shard: %v", f)
		}
	}
}

func TestDoctorDefinition(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	source := run(t, nil, "", "doctor", "--definition", "pgid.next_id(integer)").prints(t)
	if !strings.Contains(source, "CREATE OR REPLACE FUNCTION pgid.next_id(shard integer)") {
		t.Errorf("it prints %s", source)
	}
	run(t, nil, "", "doctor", "--definition", "next_id").fails(t, `"next_id"`, "pgid.next_id(integer)")
	psql, err := exec.LookPath("psql")
	if err != nil {
		t.Skip("psql is not installed")
	}
	db.Exec(t, "ALTER FUNCTION pgid.next_id(integer) STABLE")
	cmd := exec.CommandContext(t.Context(), psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", db.URL)
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r := run(t, map[string]string{"DATABASE_URL": db.URL}, "", "doctor")
	if !strings.Contains(r.out, "✓ definitions") {
		t.Errorf("after it is put back: %s", r.out)
	}
}

func TestDoctorArguments(t *testing.T) {
	t.Parallel()
	run(t, nil, "", "doctor").fails(t, "--database-url", "PGID_DATABASE_URL")
	run(t, nil, "", "doctor", "--database-url", "mysql://u:hunter2@h/db").fails(t, "--database-url is not a database URL")
	run(t, nil, "", "doctor", "--timeout", "0s", "--database-url", "postgres://127.0.0.1:1/db").fails(t, "--timeout 0s")
	help := run(t, nil, "", "doctor", "--help").prints(t)
	for _, code := range []int{0, int(exitWarnings), int(exitErrors), exitError} {
		if !strings.Contains(help, fmt.Sprint(code)) {
			t.Errorf("the help does not tell of exit code %d", code)
		}
	}
}
