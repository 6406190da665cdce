package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

func TestLifeArgumentErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, args string
		says       []string
	}{
		{"retire nothing", "shard retire --yes", []string{"«pgid shard retire 5»"}},
		{"retire unsure", "shard retire 0-3,7 5", []string{"shards 0-3, 5, 7 would never issue an ID", "add --yes"}},
		{"retire a negative", "shard retire -1 --yes", []string{`"-1"`, "0 to 8191"}},
		{"advance two", "shard advance 5 6 --past 7", []string{"one shard"}},
		{"advance past nothing", "shard advance 5", []string{"--past 2429"}},
		{"advance past no ID", "shard advance 5 --past x", []string{`"x"`, "--past"}},
		{"advance past more than an ID", "shard advance 5 --past 9223372036854775808", []string{"9223372036854775808"}},
		{"advance beyond", "shard advance 8192 --past 7", []string{`"8192"`, "0 to 8191"}},
		{"move a range", "shard move 5-6 --to postgres://h/d", []string{`"5-6" is not a shard`}},
		{"move to nowhere", "shard move 5 --from postgres://h/d", []string{"name the target", "--to"}},
		{"move from nowhere", "shard move 5 --to postgres://h/d", []string{"no database is named"}},
		{"move, wait backwards", "shard move 5 --to postgres://h/d --wait -1s", []string{`--wait "-1s"`, "90s"}},
		{"move, wait for what", "shard move 5 --to postgres://h/d --wait 5", []string{`--wait "5"`}},
		{"move from garbage", "shard move 5 --from mysql://h/d --to postgres://h/d", []string{"--from is not a database URL"}},
		{"move to a password", "shard move 5 --from postgres://h/d --to postgres://u:hun/hunter2@h/d", []string{"--to is not a URL"}},
		{"pool without shards", "pool create workers", []string{"«pgid pool create workers 100-115»"}},
		{"pool of nothing", "pool create workers 5-3", []string{`"5-3"`, "3-5"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			run(t, nil, "", strings.Fields(test.args)...).fails(t, test.says...)
		})
	}
}

func TestShardRetire(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	env := map[string]string{"PGID_DATABASE_URL": db.URL}
	run(t, env, "", "shard", "create", "0-5").prints(t)
	last := pgtest.Query[pgid.ID](t, db, "SELECT max(pgid.next_id(3)) FROM generate_series(1, 100)")

	// What is refused has touched nothing, also where a part would have been possible.
	run(t, env, "", "shard", "retire", "3").fails(t, "--yes")
	run(t, env, "", "shard", "retire", "3-6", "--yes").fails(t, "shard 6 does not exist", "nothing was retired")
	if n := pgtest.Query[int](t, db, "SELECT count(*) FROM pgid.shard WHERE retired IS NOT NULL"); n > 0 {
		t.Fatalf("%d shards were retired by what was refused", n)
	}

	for range 2 { // idempotent
		got := run(t, env, "", "shard", "retire", "3-4", "--yes").prints(t)
		want := fmt.Sprintf("shard 3 is retired: its last ID is %d, of %s\nshard 4 is retired: it has issued no ID\n",
			last, last.Time().UTC().Format("2006-01-02T15:04:05.000Z07:00"))
		if got != want {
			t.Errorf("retire: %q, want %q", got, want)
		}
	}
	if got, want := run(t, env, "", "shard", "retire", "3", "4", "--yes", "--json").prints(t),
		fmt.Sprintf("{\"shard\":3,\"last_id\":\"%d\"}\n{\"shard\":4,\"last_id\":null}\n", last); got != want {
		t.Errorf("JSON: %q, want %q", got, want)
	}
	run(t, env, "", "next", "--shard", "3").fails(t, "shard 3 is retired", "ID003")
	run(t, env, "", "next", "--shard", "5").prints(t)
	run(t, env, "", "shard", "advance", "3", "--past", "1").fails(t, "shard 3 is retired", "ID003")

	stranger := map[string]string{"PGID_DATABASE_URL": db.As(db.Role(t))}
	run(t, stranger, "", "shard", "retire", "5", "--yes").fails(t, "permission denied", "owner of the schema pgid")
	run(t, stranger, "", "shard", "advance", "5", "--past", "1").fails(t, "permission denied", "owner of the schema pgid")

	// The list knows, also of a retirement that was rolled back.
	db.Exec(t, "BEGIN; SELECT pgid.retire_shard(2); ROLLBACK")
	states := map[pgid.Shard]string{}
	for line := range strings.Lines(run(t, env, "", "shard", "list", "--json").prints(t)) {
		var s shardStatus
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		states[s.Shard] = s.State
		if hasTime := s.Retired != nil; hasTime != (s.Shard == 3 || s.Shard == 4) {
			t.Errorf("shard %d: retired %v", s.Shard, s.Retired)
		}
	}
	for shard := range pgid.Shard(6) {
		want := "active"
		if shard >= 2 && shard <= 4 {
			want = "retired"
		}
		if states[shard] != want {
			t.Errorf("shard %d is %q, want %q", shard, states[shard], want)
		}
	}
	if table := run(t, env, "", "shard", "list").prints(t); strings.Count(table, "│ retired │") != 3 {
		t.Errorf("list:\n%s", table)
	}
}

// A holder of a lease goes on to the end of its window: the user is told.
func TestRetireLeasedShard(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	env := map[string]string{"PGID_DATABASE_URL": db.URL}
	db.Exec(t, "SELECT pgid.create_pool('workers', 5, 5)")
	db.Exec(t, "SELECT pgid.acquire_lease('workers', 'web-3', 60000)")
	r := run(t, env, "", "shard", "retire", "5", "--yes")
	if r.code != 0 || !strings.Contains(r.out, "shard 5 is retired") || !strings.HasPrefix(r.errOut, "pgid: warning: web-3 holds a lease of shard 5") {
		t.Errorf("%+v", r)
	}
	until := pgtest.Query[int64](t, db, "SELECT until_tick FROM pgid.lease WHERE shard = 5")
	if last := pgtest.Query[pgid.ID](t, db, "SELECT pgid.retire_shard(5)"); int64(last.Tick()) < until-1 {
		t.Errorf("the last ID is %d, before the end of the window, tick %d", last, until)
	}
}

func TestShardAdvance(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	env := map[string]string{"PGID_DATABASE_URL": db.URL}
	run(t, env, "", "shard", "create", "5").prints(t)
	run(t, env, "", "next", "--shard", "5").prints(t)
	past := pgtest.Query[pgid.ID](t, db, "SELECT pgid.make_id(clock_timestamp() + interval '50 ms', 7, 3)")
	for _, want := range []string{"shard 5 is advanced past it\n", "shard 5 is past it already\n"} {
		got := run(t, env, "", "shard", "advance", "5", "--past", past.String()).prints(t)
		if !strings.HasPrefix(got, "ID "+past.String()+", of ") || !strings.HasSuffix(got, want) {
			t.Errorf("advance: %q, want %q", got, want)
		}
	}
	if id := pgtest.Query[pgid.ID](t, db, "SELECT pgid.next_id(5)"); id <= past {
		t.Errorf("%d after advance past %d", id, past)
	}
	for _, negative := range [][]string{{"--past", "-5"}, {"--past=-5"}} {
		if got := run(t, env, "", append([]string{"shard", "advance", "5"}, negative...)...).prints(t); !strings.HasSuffix(got, "already\n") {
			t.Errorf("past a negative ID: %q", got)
		}
	}
	run(t, env, "", "shard", "advance", "6", "--past", "1").fails(t, "shard 6 does not exist", "ID002")

	future := pgtest.Query[pgid.ID](t, db, "SELECT pgid.make_id(now() + interval '1 hour', 5, 0)")
	run(t, env, "", "shard", "advance", "5", "--past", future.String()).fails(t, "shard 5 would issue no ID until", "--yes")
	if got := pgtest.Query[pgid.ID](t, db, "SELECT last_id FROM pgid.shard_status WHERE shard = 5"); got >= future {
		t.Errorf("without --yes, it was advanced to %d", got)
	}
	r := run(t, env, "", "shard", "advance", "5", "--yes", "--past", future.String())
	if r.code != 0 || !strings.HasPrefix(r.errOut, "pgid: warning: shard 5 issues no ID until ") || strings.Count(r.errOut, "\n") != 1 {
		t.Errorf("past an ID of the future: %+v", r)
	}
}

// What an older schema does not have is said, with what to do.
func TestLifeNeedsVersion3(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "CREATE OR REPLACE FUNCTION pgid.version() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 2")
	for _, args := range []string{
		"shard list", "shard retire 5 --yes", "shard advance 5 --past 1", "shard move 5 --to " + db.URL, "pool create workers 5", "pool list",
	} {
		run(t, map[string]string{"PGID_DATABASE_URL": db.URL}, "", strings.Fields(args)...).fails(t, "version 2", "needs 3", "«pgid migrate up»")
	}
}
