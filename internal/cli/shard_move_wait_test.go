package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

func isRetired(t *testing.T, db *pgtest.Database) bool {
	t.Helper()
	return pgtest.Query[bool](t, db, "SELECT coalesce(bool_or(retired IS NOT NULL), false) FROM pgid.shard WHERE shard = 5")
}

func stands(t *testing.T, db *pgtest.Database) bool {
	t.Helper()
	return pgtest.Query[bool](t, db, "SELECT EXISTS (SELECT FROM pgid.shard WHERE shard = 5)")
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 600 {
		if is() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("30 s passed: %s", what)
}

// A transaction in flight at the source delays the move; when time is up its process is
// named, and the move goes on from there.
func TestMoveWaitsForTransactions(t *testing.T) {
	t.Parallel()
	source, target := databases(t)
	draw(t, source)
	tx := openTransaction(t, source)
	// By another role, that the owner knows little of; and in another database.
	stranger := pgtest.Connect(t, source.As(source.Role(t)))
	theirs, err := stranger.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := openElsewhere(t)

	r := run(t, nil, "", moveArgs(source, target, "--wait", "500ms")...)
	r.fails(t, "shard 5 is retired at the source, and not yet at the target", "run it again", "after 500ms",
		fmt.Sprint(tx.Conn().PgConn().PID()), fmt.Sprint(stranger.PgConn().PID()))
	if strings.Contains(r.errOut, fmt.Sprint(elsewhere)) {
		t.Errorf("waits for a transaction of another database: %s", r.errOut)
	}
	if !isRetired(t, source) || stands(t, target) {
		t.Fatal("want the shard retired at the source, and not yet at the target")
	}

	done := start(t.Context(), moveArgs(source, target)...)
	for i, end := range []func(context.Context) error{theirs.Rollback, tx.Commit} {
		select {
		case r := <-done:
			t.Fatalf("with %d transactions in flight: %+v", 2-i, r)
		case <-time.After(700 * time.Millisecond):
		}
		if stands(t, target) {
			t.Fatalf("with %d transactions in flight, the shard stands at the target", 2-i)
		}
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	(<-done).prints(t)
	last := pgtest.Query[pgid.ID](t, source, "SELECT max(id) FROM photo")
	if first := draw(t, target); first <= last {
		t.Errorf("the target issued %d, the source %d", first, last)
	}
}

// openElsewhere leaves a transaction open in a database of its own.
func openElsewhere(t *testing.T) (pid uint32) {
	t.Helper()
	conn := pgtest.NewEmpty(t).Connect(t)
	if _, err := conn.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	return conn.PgConn().PID()
}

// What begins after the retirement is not waited for; not waiting at all is a choice.
func TestMoveDoesNotWaitForLaterTransactions(t *testing.T) {
	t.Parallel()
	source, target := databases(t)
	last := draw(t, source)
	tx := openTransaction(t, source)
	done := start(t.Context(), moveArgs(source, target)...)
	eventually(t, "the source is not retired", func() bool { return isRetired(t, source) })
	time.Sleep(300 * time.Millisecond) // until it has looked who is there
	openTransaction(t, source)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	(<-done).prints(t)

	source, target = databases(t)
	draw(t, source)
	openTransaction(t, source)
	run(t, nil, "", moveArgs(source, target, "--wait", "0")...).prints(t)
	if first := draw(t, target); first <= last {
		t.Errorf("the target issued %d, the source %d", first, last)
	}
}

// A shard that was created ahead at the target issues nothing there before it is past
// the last ID.
func TestMoveKeepsTheTargetClosed(t *testing.T) {
	t.Parallel()
	source, target := databases(t)
	target.Exec(t, "SELECT pgid.create_shard(5)")
	tx := openTransaction(t, source)
	done := start(t.Context(), moveArgs(source, target)...)
	eventually(t, "the source is not retired", func() bool { return isRetired(t, source) })
	_, err := target.Pool.Exec(t.Context(), "SET statement_timeout = 500; SELECT pgid.next_id(5)")
	if err == nil {
		t.Error("the target issued an ID before the move was over")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	(<-done).prints(t)
	draw(t, target)
}

// Interrupted before and after each step, and run again: the end is the same.
func TestMoveInterrupted(t *testing.T) {
	t.Parallel()
	steps := []struct {
		name string
		do   func(t *testing.T, source, target *pgtest.Database) // what was done before
	}{
		{"before it began", func(t *testing.T, source, target *pgtest.Database) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if r := <-start(ctx, moveArgs(source, target)...); r.code != exitInterrupted || r.errOut != "pgid: interrupted\n" {
				t.Errorf("%+v", r)
			}
			untouched(t, source, target)
		}},
		{"while retiring", func(t *testing.T, source, target *pgtest.Database) {
			tx, err := source.Connect(t).Begin(t.Context())
			if err == nil {
				_, err = tx.Exec(t.Context(), "LOCK TABLE pgid.shard")
			}
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if r := <-start(ctx, moveArgs(source, target)...); r.code != exitInterrupted || r.errOut != "pgid: interrupted\n" {
				t.Errorf("%+v", r)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			untouched(t, source, target)
		}},
		{"retired, not committed", func(t *testing.T, source, _ *pgtest.Database) {
			source.Exec(t, "BEGIN; SELECT pgid.retire_shard(5); ROLLBACK")
		}},
		{"amid the retirement", func(t *testing.T, source, _ *pgtest.Database) {
			source.Exec(t, "SELECT setval('pgid.base_5', pgid.retiring_base() + 1 + pgid.base(5))")
		}},
		{"retired", func(t *testing.T, source, _ *pgtest.Database) { source.Exec(t, "SELECT pgid.retire_shard(5)") }},
		{"while waiting", func(t *testing.T, source, target *pgtest.Database) {
			tx := openTransaction(t, source)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := start(ctx, moveArgs(source, target)...)
			eventually(t, "the source is not retired", func() bool { return isRetired(t, source) })
			time.Sleep(200 * time.Millisecond)
			cancel()
			r := <-done
			if want := "pgid: shard 5 is retired at the source, and not yet at the target: run it again to finish the move\npgid: interrupted\n"; r.code != exitInterrupted || r.errOut != want {
				t.Errorf("%+v, want %q", r, want)
			}
			if stands(t, target) {
				t.Error("the shard stands at the target")
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
		{"while creating", func(t *testing.T, source, target *pgtest.Database) {
			tx, err := target.Connect(t).Begin(t.Context())
			if err == nil {
				_, err = tx.Exec(t.Context(), "LOCK TABLE pgid.shard IN SHARE MODE")
			}
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if r := <-start(ctx, moveArgs(source, target)...); r.code != exitInterrupted || !strings.Contains(r.errOut, "not yet at the target") {
				t.Errorf("%+v", r)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if stands(t, target) || !isRetired(t, source) {
				t.Error("want the shard retired at the source, and not at the target")
			}
		}},
		{"created ahead, and retired", func(t *testing.T, source, target *pgtest.Database) {
			target.Exec(t, "SELECT pgid.create_shard(5)")
			source.Exec(t, "SELECT pgid.retire_shard(5)")
		}},
		{"finished", func(t *testing.T, source, target *pgtest.Database) {
			run(t, nil, "", moveArgs(source, target)...).prints(t)
		}},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			source, target := databases(t)
			last := draw(t, source)
			step.do(t, source, target)
			run(t, nil, "", moveArgs(source, target)...).prints(t)
			if retired := pgtest.Query[pgid.ID](t, source, "SELECT pgid.retire_shard(5)"); retired < last {
				t.Errorf("the last ID is %d, and %d was issued", retired, last)
			} else {
				last = retired
			}
			if first := draw(t, target); first <= last {
				t.Errorf("the target issued %d, the source %d", first, last)
			}
			run(t, nil, "", moveArgs(source, target)...).prints(t)
			draw(t, target)
		})
	}
}

// A transaction that is prepared while it is waited for is waited for on.
func TestInFlight(t *testing.T) {
	t.Parallel()
	a, b, late := running{"3/7", 30}, running{"4/9", 40}, running{"5/1", 30}
	f := newInFlight([]running{a, b}, []string{"'old'"})
	steps := []struct {
		now      []running
		prepared []string
		want     string
	}{
		{[]running{a, b, late}, []string{"'old'"}, "pid 30, 40; prepared 'old'"},
		{[]running{a, b, late}, []string{"'old'", "'other'"}, "pid 30, 40; prepared 'old'"}, // nobody is missing: not of ours
		{[]running{a, b, late}, []string{"'old'", "'other'", "'a'"}, "pid 30, 40; prepared 'old'"},
		{[]running{b, late}, []string{"'old'", "'other'", "'a'"}, "pid 40; prepared 'old', 'a'"},
		{[]running{b, late}, []string{"'other'", "'a'", "'newer'"}, "pid 40; prepared 'a'"},
		{[]running{b, late}, []string{"'other'", "'a'", "'newer'"}, "pid 40; prepared 'a'"},
		{[]running{late}, []string{"'other'", "'a'", "'newer'", "'b'"}, "prepared 'a', 'b'"},
		{[]running{late}, []string{"'other'", "'b'"}, "prepared 'b'"},
		{[]running{late}, []string{"'other'"}, ""},
	}
	for i, step := range steps {
		f.update(step.now, step.prepared)
		if f.String() != step.want || (f.count() == 0) != (step.want == "") {
			t.Errorf("step %d: %q, want %q", i, f, step.want)
		}
	}
	many := make([]running, 30)
	for i := range many {
		many[i].PID = int32(i)
	}
	if got, want := newInFlight(many, nil).String(), "pid 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 20 more"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
