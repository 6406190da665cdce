package doctor

import (
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
)

var update = flag.Bool("update", false, "write definitions.json anew, from what the migrations install")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(pgtest.Run(m))
}

// The servers of the tests run without these, as nothing that they hold is to survive.
func ofTestServer(f Finding) bool {
	return f.Check == "durability" && (strings.HasPrefix(f.What, "fsync is off") || strings.HasPrefix(f.What, "full_page_writes is off"))
}

// look examines databases, and returns what is wrong: what is not ok, and not owed to
// the test's server.
func look(t *testing.T, urls ...string) (wrong []Finding) {
	t.Helper()
	for _, f := range Examine(t.Context(), urls, Options{}) {
		if f.Severity != OK && !ofTestServer(f) {
			wrong = append(wrong, f)
		}
	}
	return wrong
}

// pick returns the one finding that has these, and fails the test if there is none.
func pick(t *testing.T, findings []Finding, severity Severity, check string, says ...string) Finding {
	t.Helper()
	for _, f := range findings {
		if f.Severity == severity && f.Check == check && containsAll(f.What, says) {
			return f
		}
	}
	t.Fatalf("no finding %s of %s that says %q among:\n%s", severity, check, says, text(findings))
	return Finding{}
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

func text(findings []Finding) string {
	var lines strings.Builder
	for _, f := range findings {
		line, _ := json.Marshal(f)
		lines.Write(append(line, '\n'))
	}
	return lines.String()
}

// script runs statements as psql would, given a URL.
func script(t *testing.T, url, sql string) {
	t.Helper()
	conn := pgtest.Connect(t, url)
	if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// healthy is a database in which everything is in use, and nothing wrong.
func healthy(t *testing.T) *pgtest.Database {
	t.Helper()
	db := pgtest.New(t)
	script(t, db.URL, `
		SELECT pgid.create_shards(0, 3);
		SELECT pgid.create_shard(5);
		SELECT pgid.create_pool('workers', 10, 13);
		SELECT pgid.acquire_lease('workers', 'somebody', 60000);
		SELECT pgid.next_id(n) FROM generate_series(0, 3) AS n;
		SELECT pgid.create_shard(7); SELECT pgid.next_id(7); SELECT pgid.retire_shard(7);
		CREATE TABLE photo (id bigint PRIMARY KEY DEFAULT pgid.next_id(5), title text);
		INSERT INTO photo SELECT FROM generate_series(1, 100);`)
	return db
}

func TestHealthy(t *testing.T) {
	t.Parallel()
	db := healthy(t)
	for _, f := range look(t, db.URL) {
		t.Errorf("%s", text([]Finding{f}))
	}
	findings := Examine(t.Context(), []string{db.URL}, Options{})
	seen := make(map[string]bool)
	for _, f := range findings {
		seen[f.Check] = true
		if !strings.HasSuffix(f.Database, "/"+db.Name) || strings.Contains(f.Database, "pgid@") {
			t.Errorf("the database is called %q", f.Database)
		}
	}
	for _, c := range checks {
		if !seen[c.name] {
			t.Errorf("the check %s says nothing", c.name)
		}
	}
	pick(t, findings, OK, "definitions", "functions and views")
	pick(t, findings, OK, "shards", "9 shards that issue IDs, 1 retired")
	pick(t, findings, OK, "tables", "1 columns")
}

// It changes nothing, and works where nothing may be changed.
func TestReadsOnly(t *testing.T) {
	t.Parallel()
	db := healthy(t)
	const state = `SELECT array_agg(to_jsonb(s)::text ORDER BY sequencename) FROM pg_sequences AS s WHERE schemaname = 'pgid'`
	before, catalog := pgtest.Query[[]string](t, db, state), pgtest.Catalog(t, db)
	look(t, db.URL)
	after := pgtest.Query[[]string](t, db, state)
	if strings.Join(before, "\n") != strings.Join(after, "\n") || strings.Join(catalog, "\n") != strings.Join(pgtest.Catalog(t, db), "\n") {
		t.Errorf("before and after:\n%v\n%v", before, after)
	}
}

// mend does what the findings say, round by round: some of it needs other things mended
// first.
func mend(t *testing.T, url string) {
	t.Helper()
	command := regexp.MustCompile(`^pgid doctor --definition '([^']+)' \| psql `)
	conn := pgtest.Connect(t, url)
	for range 8 {
		wrong := look(t, url)
		if len(wrong) == 0 {
			return
		}
		for _, f := range wrong {
			sql := f.Fix
			if name := command.FindStringSubmatch(f.Fix); name != nil {
				var err error
				if sql, err = Source(name[1]); err != nil {
					t.Fatal(err)
				}
			}
			_, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
			if conn.PgConn().TxStatus() != 'I' {
				_, _ = conn.Exec(t.Context(), "ROLLBACK")
			}
			t.Logf("%s: %s: %v", f.What, f.Fix, err)
		}
	}
	t.Errorf("it is left:\n%s", text(look(t, url)))
}

// Nothing can be changed, and nothing stays in the session.
func TestBegin(t *testing.T) {
	t.Parallel()
	db := healthy(t)
	e := &exam{conn: db.Connect(t), timeout: defaultTimeout}
	const settings = "SELECT concat_ws(' ', current_setting('transaction_read_only'), current_setting('search_path'), current_setting('statement_timeout'))"
	in, err := one[struct{ Settings string }](t.Context(), e, settings)
	if err != nil || in.Settings != "on pg_catalog 10s" {
		t.Errorf("within: %q, %v", in.Settings, err)
	}
	var after string
	if err := e.conn.QueryRow(t.Context(), settings).Scan(&after); err != nil || after != `off "$user", public 0` {
		t.Errorf("after: %q, %v", after, err)
	}
}

// A fault is made, found with its fix, mended by it as printed, and gone.
type fault struct {
	name     string
	make     string // SQL, as the owner
	super    bool   // as a superuser, both this and the fix
	severity Severity
	check    string
	says     []string
	fix      string // a part of it
}

func (f fault) run(t *testing.T) {
	t.Run(f.name, func(t *testing.T) {
		t.Parallel()
		db := healthy(t)
		as := db.URL
		if f.super {
			as = db.SuperURL
		}
		names := strings.NewReplacer("{owner}", pgtest.Query[string](t, db, "SELECT current_user::text"), "{db}", db.Name, "{role}", db.Role(t))
		script(t, as, names.Replace(f.make))
		for i := range f.says {
			f.says[i] = names.Replace(f.says[i])
		}
		found := pick(t, look(t, db.URL), f.severity, f.check, f.says...)
		if strings.Contains(found.What+found.Fix, "\n") || !strings.Contains(found.Fix, names.Replace(f.fix)) {
			t.Errorf("fix %q, want %q in one line", found.Fix, names.Replace(f.fix))
		}
		script(t, as, found.Fix)
		for _, left := range look(t, db.URL) {
			if left.Severity != Info {
				t.Errorf("after %s:\n%s", found.Fix, text([]Finding{left}))
			}
		}
	})
}

func TestIdent(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"photo": "photo", "public": "public", "user": `"user"`, "order": `"order"`, "Photo": `"Photo"`, "a b": `"a b"`, `a"b`: `"a""b"`,
		"5": `"5"`, "": `""`, "é": `"é"`, "a\nb": `U&"a\000ab"`, "\x1b[2J\"\\": `U&"\001b[2J""\\"`,
	} {
		if got := ident(name); got != want {
			t.Errorf("ident(%q) = %s, want %s", name, got, want)
		}
	}
}
