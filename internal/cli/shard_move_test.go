package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// databases are the two of a move, with shard 5 at the source.
func databases(t *testing.T) (source, target *pgtest.Database) {
	t.Helper()
	source, target = pgtest.New(t), pgtest.New(t)
	source.Exec(t, "SELECT pgid.create_shard(5)")
	return source, target
}

func moveArgs(source, target *pgtest.Database, more ...string) []string {
	return append([]string{"shard", "move", "5", "--from", source.URL, "--to", target.URL, "--wait", "30s"}, more...)
}

func draw(t *testing.T, db *pgtest.Database) pgid.ID {
	t.Helper()
	return pgtest.Query[pgid.ID](t, db, "SELECT pgid.next_id(5)")
}

// untouched fails the test if the shard was retired at the source, or has come to the
// target.
func untouched(t *testing.T, source, target *pgtest.Database) {
	t.Helper()
	if pgtest.Query[bool](t, source, "SELECT pgid.base(5) >= pgid.retiring_base() OR EXISTS (SELECT FROM pgid.shard WHERE retired IS NOT NULL)") {
		t.Error("the shard was retired at the source")
	}
	if pgtest.Query[bool](t, target, "SELECT EXISTS (SELECT FROM pgid.shard WHERE retired IS NULL)") {
		t.Error("the shard was created at the target")
	}
}

func TestMove(t *testing.T) {
	t.Parallel()
	source, target := databases(t)
	last := draw(t, source)
	got := run(t, nil, "", moveArgs(source, target)...).prints(t)
	if want := fmt.Sprintf("shard 5 has moved: its last ID at the source is %d, of ", last); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "from now on\n") {
		t.Errorf("%q, want %q", got, want)
	}
	run(t, map[string]string{"DATABASE_URL": source.URL}, "", "next", "--shard", "5").fails(t, "ID003")
	first := draw(t, target)
	if first <= last {
		t.Errorf("the target issued %d, the source %d", first, last)
	}
	// Once more, and it changes nothing: also where it would be refused if it did, and
	// while a transaction is in flight.
	openTransaction(t, source)
	got = run(t, nil, "", moveArgs(source, target)...).prints(t)
	if want := fmt.Sprintf("shard 5 has moved before: its last ID at the source is %d, of ", last); !strings.HasPrefix(got, want) {
		t.Errorf("once more: %q, want %q", got, want)
	}
	if now := pgtest.Query[pgid.ID](t, target, "SELECT last_id FROM pgid.shard_status WHERE shard = 5"); now != first {
		t.Errorf("a finished move, repeated, went from %d to %d", first, now)
	}
	// And back: refused, for the source has retired it for good.
	run(t, nil, "", moveArgs(target, source)...).fails(t, "shard 5 was retired there", "ID003", "nothing was touched")
	draw(t, target)
	for _, db := range []*pgtest.Database{source, target} {
		pgtest.RequireNoLocks(t, db.URL)
	}
}

// A shard that has issued nothing moves, too; so does one that drew batches alone, and
// to a shard that was created ahead.
func TestMoveUnusedAndBatches(t *testing.T) {
	t.Parallel()
	source, target := databases(t)
	got := run(t, map[string]string{"PGID_DATABASE_URL": source.URL}, "", "shard", "move", "5", "--to", target.URL).prints(t)
	if want := "shard 5 has moved: it has issued no ID at the source; the target issues IDs from now on\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	draw(t, target)

	source, target = databases(t)
	target.Exec(t, "SELECT pgid.create_shards(0, 9)")
	last := pgtest.Query[pgid.ID](t, source, "SELECT last FROM pgid.reserve(5, 102400)") // some 100 ms ahead of the clock
	got = run(t, nil, "", moveArgs(source, target)...).prints(t)
	if !strings.Contains(got, last.String()) {
		t.Errorf("%q, want last ID %d", got, last)
	}
	if first := draw(t, target); first <= last {
		t.Errorf("the target issued %d, the source %d", first, last)
	}
}

// What is refused has touched nothing.
func TestMoveRefusals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		prepare func(t *testing.T, source, target *pgtest.Database) []string // the arguments, nil for the usual ones
		says    []string
	}{
		{"to itself", func(_ *testing.T, source, _ *pgtest.Database) []string {
			return moveArgs(source, &pgtest.Database{URL: source.URL + "&application_name=other"})
		}, []string{"the same database", "shard 5"}},
		{"no such shard", func(_ *testing.T, source, target *pgtest.Database) []string {
			return []string{"shard", "move", "6", "--from", source.URL, "--to", target.URL}
		}, []string{"source: shard 6 does not exist"}},
		{"a target without pgid", func(t *testing.T, source, _ *pgtest.Database) []string {
			return moveArgs(source, pgtest.NewEmpty(t))
		}, []string{"target: ", "not installed"}},
		{"a target that is not there", func(_ *testing.T, source, _ *pgtest.Database) []string {
			return moveArgs(source, &pgtest.Database{URL: "postgres://u:p@127.0.0.1:1/db"})
		}, []string{"target: ", "refused"}},
		{"a stranger at the target", func(t *testing.T, source, target *pgtest.Database) []string {
			return moveArgs(source, &pgtest.Database{URL: target.As(target.Role(t))})
		}, []string{"target: ", "permission denied", "owner of the schema pgid"}},
		{"a stranger at the source", func(t *testing.T, source, target *pgtest.Database) []string {
			return moveArgs(&pgtest.Database{URL: source.As(source.Role(t))}, target)
		}, []string{"source: ", "permission denied", "owner of the schema pgid"}},
		{"a read-only target", func(t *testing.T, _, target *pgtest.Database) []string {
			super := pgtest.Connect(t, target.SuperURL)
			_, err := super.Exec(t.Context(), "ALTER DATABASE "+target.Name+" SET default_transaction_read_only = on")
			if err != nil {
				t.Error(err)
			}
			return nil
		}, []string{"target: the database is read-only", "primary"}},
		{"another version", func(t *testing.T, _, target *pgtest.Database) []string {
			target.Exec(t, "CREATE OR REPLACE FUNCTION pgid.version() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 4")
			return nil
		}, []string{"target: ", "version 4"}},
		{"another epoch", func(t *testing.T, _, target *pgtest.Database) []string {
			target.Exec(t, "SELECT pgid.configure(epoch_ms => 1700000000000)")
			return nil
		}, []string{"2026-01-01T00:00:00Z", "2023-11-14T22:13:20Z", "epochs"}},
		{"retired at the target", func(t *testing.T, _, target *pgtest.Database) []string {
			target.Exec(t, "SELECT pgid.create_shard(5)")
			target.Exec(t, "SELECT pgid.retire_shard(5)")
			return nil
		}, []string{"target: shard 5 was retired there", "ID003"}},
		{"a held lease", func(t *testing.T, source, _ *pgtest.Database) []string {
			source.Exec(t, "SELECT pgid.create_pool('workers', 5, 5)")
			source.Exec(t, "SELECT pgid.acquire_lease('workers', 'web-3', 60000)")
			return nil
		}, []string{"source: web-3 holds a lease of shard 5 until 20"}},
		{"a last ID of the future", func(t *testing.T, source, target *pgtest.Database) []string {
			source.Exec(t, "SELECT pgid.configure(max_lead_ms => 10000); SELECT pgid.advance_shard(5, pgid.make_id(clock_timestamp() + interval '9 s', 5, 0))")
			return moveArgs(source, target, "--wait", "500ms")
		}, []string{"the clock of the target is ", "behind the last ID of shard 5", "may be 1.1s"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			source, target := databases(t)
			draw(t, source)
			args := test.prepare(t, source, target)
			if args == nil {
				args = moveArgs(source, target)
			}
			run(t, nil, "", args...).fails(t, test.says...)
			untouched(t, source, target)
		})
	}
}

// A last ID that the clock comes up to within the time to wait is waited for.
func TestMoveWaitsForTheClock(t *testing.T) {
	t.Parallel()
	source, target := databases(t)
	source.Exec(t, "SELECT pgid.advance_shard(5, pgid.make_id(clock_timestamp() + interval '2 s', 5, 0))")
	run(t, nil, "", moveArgs(source, target, "--wait", "0")...).fails(t, "behind the last ID of shard 5", "--wait", "nothing was touched")
	run(t, nil, "", moveArgs(source, target)...).prints(t)
	draw(t, target) // at once, or in a second: not refused
}

// The same shard in two databases: refused while both issue IDs, by next_id or in
// batches; a copy that nobody drew from is carried on, once the source is retired.
func TestMoveToWhereItStands(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{"SELECT pgid.next_id(5)", "SELECT pgid.reserve(5, 10)"} {
		source, target := databases(t)
		draw(t, source)
		target.Exec(t, "SELECT pgid.create_shard(5)")
		target.Exec(t, sql)
		last := draw(t, source)
		run(t, nil, "", moveArgs(source, target)...).fails(t, "stands past an ID at the target already", "one shard in two databases", "pgid shard retire 5")
		draw(t, source)
		last = max(last, draw(t, source))
		run(t, map[string]string{"DATABASE_URL": source.URL}, "", "shard", "retire", "5", "--yes").prints(t)
		run(t, nil, "", moveArgs(source, target)...).prints(t)
		if first := draw(t, target); first <= last {
			t.Errorf("%s: the target issued %d, the source %d", sql, first, last)
		}
	}
}

// A dump that left the sequences out knows that the shard is retired, and not where it
// ended: that is no place to go on from.
func TestMoveFromLostState(t *testing.T) {
	t.Parallel()
	source, target := databases(t)
	source.Exec(t, "UPDATE pgid.shard SET retired = now()")
	run(t, nil, "", moveArgs(source, target)...).fails(t, "lost its last ID", "pgid.create_shard(5, ID)", "nothing was touched")
}

// A target whose clock is behind is refused, by how much is said, and nothing is touched.
func TestMoveChecksTheClock(t *testing.T) {
	t.Parallel()
	server := pgtest.NewClockServer(t)
	target := pgtest.NewOn(t, server)
	source := pgtest.New(t)
	source.Exec(t, "SELECT pgid.create_shard(5)")
	server.SetClock(t, -10*time.Second)
	for _, draws := range []int{0, 1} { // whatever the shard has issued
		for range draws {
			draw(t, source)
		}
		r := run(t, nil, "", moveArgs(source, target)...)
		r.fails(t, "the clock of the target is ", " behind the clock of the source", "may be 1.1s", "nothing was touched")
		if !strings.Contains(r.errOut, "is 9.") && !strings.Contains(r.errOut, "is 10.") {
			t.Errorf("%s, want some 10 s", r.errOut)
		}
		if pgtest.Query[int](t, source, "SELECT count(*) FROM pgid.shard WHERE retired IS NOT NULL") > 0 {
			t.Fatal("the source was touched")
		}
	}
	untouched(t, source, target)

	// Within what the target waits for, it moves.
	server.SetClock(t, -500*time.Millisecond)
	last := draw(t, source)
	run(t, nil, "", moveArgs(source, target)...).prints(t)
	if first := draw(t, target); first <= last {
		t.Errorf("the target issued %d, the source %d", first, last)
	}
	server.SetClock(t, -time.Hour) // a finished move is finished
	run(t, nil, "", moveArgs(source, target)...).prints(t)
}

// openTransaction opens a transaction with an ID of shard 5 in an uncommitted row.
func openTransaction(t *testing.T, db *pgtest.Database) pgx.Tx {
	t.Helper()
	db.Exec(t, "CREATE TABLE IF NOT EXISTS photo (id bigint PRIMARY KEY)")
	tx, err := db.Connect(t).Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "INSERT INTO photo VALUES (CASE WHEN pgid.base(5) < pgid.retiring_base() THEN pgid.next_id(5) ELSE 1 END)")
	}
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// start runs pgid in the background.
func start(ctx context.Context, args ...string) <-chan result {
	done := make(chan result, 1)
	go func() {
		var out, errOut bytes.Buffer
		code := Run(ctx, args, Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errOut, Getenv: func(string) string { return "" }})
		done <- result{code, out.String(), errOut.String()}
	}()
	return done
}

// Carried to one database, a shard does not go to another as well, whether it had issued
// anything or not; unless the first is gone for good.
func TestMoveToTwo(t *testing.T) {
	t.Parallel()
	source, target := databases(t)
	other := pgtest.New(t)
	run(t, nil, "", moveArgs(source, target)...).prints(t)
	run(t, nil, "", moveArgs(source, other)...).fails(t, "shard 5 was moved to the database "+target.Name, "--elsewhere", "nothing was touched")
	if pgtest.Query[bool](t, other, "SELECT pgid.base(5) IS NOT NULL") {
		t.Error("it stands in a second database")
	}
	run(t, nil, "", moveArgs(source, target)...).prints(t) // once more is nothing new
	run(t, nil, "", moveArgs(source, other, "--elsewhere")...).prints(t)
}
