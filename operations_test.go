package postgresids_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// block is a fenced block of a document.
var block = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// Every command of the runbook runs, in the order in which it stands there.
func TestOperations(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	db, target := pgtest.NewEmpty(t), pgtest.NewEmpty(t)
	bin := filepath.Join(t.TempDir(), "pgid")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/pgid").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	app, monitor := db.Role(t), db.Role(t)
	roles := strings.NewReplacer("TO app;", "TO "+app+";", "TO monitor;", "TO "+monitor+";")

	_, err = exec.LookPath("psql")
	hasPsql := err == nil || os.Getenv("CI") != ""
	ran := map[string]int{}
	for _, match := range block.FindAllStringSubmatch(string(text), -1) {
		kind, script := match[1], roles.Replace(match[2])
		ran[kind]++
		switch {
		case kind == "sql":
			conn := db.Connect(t)
			if _, err := conn.Exec(t.Context(), script); err != nil {
				t.Errorf("%s\n%v", script, err)
			}
		case kind == "sh" && strings.HasPrefix(script, "pg_dump"): // with the server's own programs, which know it by name
			out, err := db.Shell(t, "set -e; cd \"$(mktemp -d)\"; DATABASE_URL="+db.Name+"\n"+script)
			if err != nil {
				t.Errorf("%s\n%v: %s", script, err, out)
			}
		case strings.HasPrefix(script, "psql") && !hasPsql:
			defer t.Skipf("psql is not installed: this was not run:\n%s", script)
		case kind == "sh":
			cmd := exec.CommandContext(t.Context(), "bash", "-e", "-c", script)
			cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(bin)+string(os.PathListSeparator)+os.Getenv("PATH"),
				"DATABASE_URL="+db.URL, "TARGET_URL="+target.URL)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.ExitCode() == 3 && strings.Contains(script, "pgid doctor") {
				err = nil // warnings: servers for tests run with fsync off
			}
			if err != nil {
				t.Errorf("%s\n%v: %s", script, err, out)
			}
		case kind != "text":
			t.Errorf("a block of kind %q: sql and sh are run, text is not", kind)
		}
	}
	if ran["sql"] < 8 || ran["sh"] < 6 {
		t.Errorf("blocks run: %v", ran)
	}

	// Those who were let in are.
	for role, sql := range map[string]string{
		app:     "SELECT shard FROM pgid.acquire_lease('workers', 'me')",
		monitor: "SELECT count(*)::integer FROM monitoring.pgid_shards(), monitoring.pgid_stats()",
	} {
		var n int
		if err := pgtest.Connect(t, db.As(role)).QueryRow(t.Context(), sql).Scan(&n); err != nil || n < 16 {
			t.Errorf("%s: %d, %v", sql, n, err)
		}
	}

	// What the runbook has done, it has done to these.
	shard := func(db *pgtest.Database, n int) string {
		return pgtest.Query[string](t, db, "SELECT CASE WHEN retired IS NULL THEN 'stands' ELSE 'retired' END FROM pgid.shard_status WHERE shard = $1", n)
	}
	if got := shard(db, 7) + " " + shard(target, 7) + " " + shard(db, 8) + " " + shard(db, 9); got != "retired stands retired stands" {
		t.Errorf("shards 7 here, 7 there, 8 and 9: %s", got)
	}
	if id, err := pgid.NewClient(target.Pool).NextID(t.Context(), 7); err != nil || id.Shard() != 7 {
		t.Errorf("of the moved shard: %d, %v", id, err)
	}
}

// The table of errors in the runbook is complete, and names the sentinels rightly.
func TestOperationsNamesEveryError(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("pgid/errors.go")
	if err != nil {
		t.Fatal(err)
	}
	states := regexp.MustCompile(`"(\w{5})":\s+(Err\w+),`).FindAllStringSubmatch(string(source), -1)
	if len(states) < 10 {
		t.Fatalf("only %d states found in pgid/errors.go", len(states))
	}
	for _, state := range states {
		if row := "| " + state[1] + " | `" + state[2] + "` |"; !strings.Contains(string(text), row) {
			t.Errorf("docs/operations.md has no row «%s»", row)
		}
	}
}
