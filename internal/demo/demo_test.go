package demo

import (
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/internal/tempdb"
	"github.com/nextid/postgres-ids/pgid"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }

// cancelOn is a writer that ends a run once it has said a word.
type cancelOn struct {
	strings.Builder
	word   string
	cancel func()
}

func (w *cancelOn) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.word) {
		w.cancel()
	}
	return w.Builder.Write(p)
}

// serverDirectory lets throwaway servers of this test stand in a directory that
// nobody else uses. The test cannot run beside others.
func serverDirectory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgid-demo-test-") // not t.TempDir: the server's user must enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	return dir
}

func assertEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, entry := range left {
		t.Errorf("left behind: %s", entry.Name())
	}
}

func TestThrowawayServer(t *testing.T) {
	dir := serverDirectory(t)
	var out, progress strings.Builder
	if err := Run(t.Context(), Options{Rows: 5003, Out: &out, Progress: &progress}); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, part := range []string{"(a throwaway server)", "5,003 rows in 4 tables, 5,003 distinct IDs", "drew 0 other IDs", "stopped and removed"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the story lacks %q", part)
		}
	}
	if got := strings.Count(out.String(), "\n  ok "); got != 8 {
		t.Errorf("%d checks are ok, want 8", got)
	}
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 100 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	if !strings.HasSuffix(progress.String(), "\r\x1b[K") {
		t.Errorf("progress stays on the terminal: %q", progress.String())
	}
	assertEmpty(t, dir)
	if t.Failed() {
		t.Log(out.String())
	}
}

func TestThrowawayServerInterrupted(t *testing.T) {
	for _, word := range []string{"Server", "Tables", "Write"} {
		t.Run(word, func(t *testing.T) {
			dir := serverDirectory(t)
			ctx, cancel := context.WithCancel(t.Context())
			out := &cancelOn{word: word, cancel: cancel}
			err := Run(ctx, Options{Out: out})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want that of the context", err)
			}
			if left := new(tempdb.CleanupError); errors.As(err, &left) {
				t.Error(left)
			}
			assertEmpty(t, dir)
		})
	}
}

// superuser is a URL of the tests' server whose role may create databases.
func superuser(t *testing.T) string {
	t.Helper()
	return pgtest.NewEmpty(t).SuperURL
}

func assertNoDatabase(t *testing.T, url, story string) {
	t.Helper()
	name := regexp.MustCompile(`pgid_demo_[0-9a-f]{12}`).FindString(story)
	if name == "" {
		t.Fatalf("the story names no temporary database:\n%s", story)
	}
	var stands bool
	err := pgtest.Connect(t, url).QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&stands)
	if err != nil || stands {
		t.Errorf("database %s is left behind (%v)", name, err)
	}
}

func TestGivenServer(t *testing.T) {
	t.Parallel()
	url := superuser(t)
	var out strings.Builder
	if err := Run(t.Context(), Options{URL: url, Rows: 3000, Out: &out}); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	assertNoDatabase(t, url, out.String())
}

func TestGivenServerInterrupted(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"Server", "Migrate", "Tables"} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			url := superuser(t)
			ctx, cancel := context.WithCancel(t.Context())
			wait := cancel
			if word == "Tables" { // in the midst of the writing
				wait = func() { time.AfterFunc(300*time.Millisecond, cancel) }
			}
			out := &cancelOn{word: word, cancel: wait}
			start := time.Now()
			err := Run(ctx, Options{URL: url, Rows: 10_000_000, Out: out})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want that of the context", err)
			}
			if took := time.Since(start); took > 15*time.Second {
				t.Errorf("it took %s to end", took)
			}
			assertNoDatabase(t, url, out.String())
		})
	}
}

func TestRoleWithoutCreateDB(t *testing.T) {
	t.Parallel()
	err := Run(t.Context(), Options{URL: pgtest.NewEmpty(t).URL, Out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "CREATEDB") {
		t.Errorf("error %v, want one that names CREATEDB", err)
	}
}

// Each check is broken once, to see it fail.
func TestChecksCanFail(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		sql    string         // breaks what the tables hold
		memory func(*written) // breaks what the sessions remember
		fails  []string
	}{
		{"nothing", "", nil, nil},
		{"a lost row", "DELETE FROM pgid_demo.photo_0 WHERE id = (SELECT min(id) FROM pgid_demo.photo_0)", nil,
			[]string{"no ID twice", "nothing lost"}},
		{"an ID twice", `ALTER TABLE pgid_demo.photo_0 DROP CONSTRAINT photo_0_pkey;
			UPDATE pgid_demo.photo_0 SET id = (SELECT max(id) FROM pgid_demo.photo_0) WHERE id = (SELECT min(id) FROM pgid_demo.photo_0)`, nil,
			[]string{"no ID twice", "nothing lost"}},
		{"another shard", "UPDATE pgid_demo.photo_0 SET id = id | (7 << 10) WHERE id = (SELECT min(id) FROM pgid_demo.photo_0)", nil,
			[]string{"nothing lost", "shard in the ID"}},
		{"a decode that differs", `CREATE OR REPLACE FUNCTION pgid.id_seq(id bigint) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
			RETURN (id & 1022)::integer`, nil,
			[]string{"decode", "encode"}},
		{"another law", `CREATE OR REPLACE FUNCTION pgid.next_id(shard integer) RETURNS bigint LANGUAGE sql VOLATILE
			RETURN pgid.make_id(clock_timestamp(), shard, 500)`, nil,
			[]string{"one law"}},
		{"disorder", "", func(w *written) {
			r := w.sessions[0].received
			r[0], r[4] = r[4], r[0]
		}, []string{"nothing lost", "order"}},
		{"before the writing", "", func(w *written) { w.begin = w.begin.Add(time.Hour) }, []string{"time"}},
		{"after the writing", "", func(w *written) { w.end = w.end.Add(-time.Hour) }, []string{"time"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			conn, err := pgx.Connect(t.Context(), db.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(context.Background()) }()
			d := &demo{Options: Options{Rows: 4200, Out: io.Discard}, url: db.URL}
			if d.settings, err = pgid.NewClient(conn).Settings(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := d.createTables(t.Context(), conn); err != nil {
				t.Fatal(err)
			}
			w, err := d.write(t.Context(), conn)
			if err != nil {
				t.Fatal(err)
			}
			if test.sql != "" {
				db.Exec(t, test.sql)
			}
			if test.memory != nil {
				test.memory(w)
			}
			checks, _, err := d.check(t.Context(), conn, w)
			if err != nil {
				t.Fatal(err)
			}
			var failed []string
			for _, c := range checks {
				if !c.ok {
					failed = append(failed, c.what)
				}
			}
			if got, want := strings.Join(failed, ", "), strings.Join(test.fails, ", "); got != want {
				t.Errorf("failed: %q, want %q", got, want)
			}
		})
	}
}
