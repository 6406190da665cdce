package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
)

func TestPools(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	env := map[string]string{"PGID_DATABASE_URL": db.URL}
	if got := run(t, env, "", "pool", "list").prints(t); !strings.Contains(got, "no pools yet") {
		t.Errorf("list of none: %q", got)
	}
	if got := run(t, env, "", "pool", "list", "--json").prints(t); got != "" {
		t.Errorf("JSON list of none: %q", got)
	}
	run(t, env, "", "shard", "create", "100").prints(t)
	for _, step := range []struct{ args, want string }{
		{"pool create workers 100-102,105", "pool workers: added 4, in it already 0\n"},
		{"pool create workers 100-103", "pool workers: added 1, in it already 3\n"},
		{"pool create batch 200", "pool batch: added 1, in it already 0\n"},
	} {
		if got := run(t, env, "", strings.Fields(step.args)...).prints(t); got != step.want {
			t.Errorf("%s: %q, want %q", step.args, got, step.want)
		}
	}

	// What is refused has touched nothing, also in ranges before it.
	run(t, env, "", "shard", "retire", "103", "--yes").prints(t)
	run(t, env, "", "pool", "create", "workers", "90", "199-201").fails(t, "shard 200 belongs to the pool batch", "nothing was added")
	run(t, env, "", "pool", "create", "workers", "90", "103").fails(t, "shard 103 is retired", "nothing was added")
	run(t, map[string]string{"PGID_DATABASE_URL": db.As(db.Role(t))}, "", "pool", "create", "workers", "90").
		fails(t, "permission denied", "owner of the schema pgid")

	db.Exec(t, "SELECT pgid.acquire_lease('workers', 'web-3 (pid 4711)', 60000)")
	var leases []leaseStatus
	for line := range strings.Lines(run(t, env, "", "pool", "list", "--json").prints(t)) {
		var l leaseStatus
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		leases = append(leases, l)
	}
	var got []string
	held := leaseStatus{}
	for _, l := range leases {
		got = append(got, fmt.Sprintf("%s %d %s", l.Pool, l.Shard, l.State))
		if l.State == "held" {
			held = l
		}
	}
	want := "batch 200 free, workers 100 held, workers 101 free, workers 102 free, workers 103 retired, workers 105 free"
	if strings.Join(got, ", ") != want {
		t.Errorf("list: %s, want %s", strings.Join(got, ", "), want)
	}
	if held.Holder == nil || *held.Holder != "web-3 (pid 4711)" || held.Fence == nil || held.LeaseUntil == nil || held.Granted == nil {
		t.Errorf("held: %+v", held)
	}
	table := run(t, env, "", "pool", "list").prints(t)
	if !strings.Contains(table, "web-3 (pid 4711)") || strings.Count(table, "\n") != 6+4 {
		t.Errorf("list:\n%s", table)
	}
	if shards := run(t, env, "", "shard", "list").prints(t); strings.Count(shards, "│ workers │") != 5 {
		t.Errorf("shards:\n%s", shards)
	}
}

// next_id and leases on one shard: only if it is wanted.
func TestPoolOfDrawnShards(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	env := map[string]string{"PGID_DATABASE_URL": db.URL}
	db.Exec(t, "SELECT pgid.create_shard(300)")
	db.Exec(t, "SELECT pgid.next_id(300)")
	run(t, env, "", "pool", "create", "workers", "299-301").fails(t, "shard 300 has issued IDs by next_id", "--yes")
	if n := pgtest.Query[int](t, db, "SELECT count(*) FROM pgid.shard WHERE shard IN (299, 301)"); n != 0 {
		t.Errorf("refused, it has created %d shards", n)
	}
	run(t, env, "", "pool", "create", "mixed", "300", "--yes").prints(t)
}
