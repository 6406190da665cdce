package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/bench"
	"github.com/nextid/postgres-ids/internal/pgtest"
)

// benchRun is what a benchmark's JSON must hold: each series of each group.
type benchRun struct {
	args   string
	groups map[string][]string
}

var (
	bigints   = []string{"nextval", "instagram", "next_id"}
	benchRuns = []benchRun{
		{"bench --rounds 1 --ids 500 --sessions 3 --json", map[string][]string{
			"one_session":   {"the query alone", "nextval", "instagram", "next_id", "next_ids", "gen_random_uuid"},
			"many_sessions": {"nextval", "instagram", "next_id", "next_ids", "gen_random_uuid"},
			"insert_select": {"nextval", "instagram", "next_id", "next_ids"},
			"first_call":    bigints,
			"ranges":        {"next_id", "reserve(1)", "reserve(102400)"},
			"go_cost":       {"Client.NextID", "Allocator.Next"},
			"go_sustained":  {"Allocator.Next"},
		}},
		{"bench insert --rounds 1 --rows 700 --json", map[string][]string{
			"insert_time":  {"identity", "next_id", "next_ids", "gen_random_uuid"},
			"insert_index": {"identity", "next_id", "next_ids", "gen_random_uuid"},
			"insert_table": {"identity", "next_id", "next_ids", "gen_random_uuid"},
		}},
		{"bench growth --rounds 1 --ids 300 --sessions 2 --shards 20 --json", map[string][]string{
			"by_sessions":     {"nextval", "instagram", "next_id", "next_id, a shard each"},
			"by_batch":        {"nextval", "next_id", "next_ids"},
			"shards_cost":     bigints,
			"first_call":      bigints,
			"shards_creation": {"create_shards"},
			"shards_size":     {"database", "its catalog"},
		}},
	}
	// Where the server has uuidv7().
	uuidV7Groups = []string{"one_session", "many_sessions", "insert_time", "insert_index", "insert_table"}
)

// Not parallel: it looks for databases left behind, by any run of it.
func TestBench(t *testing.T) {
	db := pgtest.NewEmpty(t)
	env := map[string]string{"PGID_DATABASE_URL": db.SuperURL}
	for _, test := range benchRuns {
		out := run(t, env, "", strings.Fields(test.args)...).prints(t)
		var report bench.Report
		decoder := json.NewDecoder(strings.NewReader(out))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&report); err != nil {
			t.Fatalf("%s: %v\n%s", test.args, err, out)
		}
		if report.Server.Version == "" || report.Server.Number < 150000 || report.Client.CPUs < 1 || report.Parameters.Rounds < 1 {
			t.Errorf("%s: the head says too little: %+v %+v", test.args, report.Server, report.Client)
		}
		if len(report.Groups) != len(test.groups) {
			t.Errorf("%s: %d groups, want %d", test.args, len(report.Groups), len(test.groups))
		}
		for _, g := range report.Groups {
			want := slices.Clone(test.groups[g.Name])
			if report.Server.Number >= 180000 && slices.Contains(uuidV7Groups, g.Name) {
				want = append(want, "uuidv7")
			}
			checkGroup(t, g, want)
		}
	}

	// The text names them all, too.
	text := run(t, env, "", "bench", "insert", "--rounds", "1", "--rows", "50").prints(t)
	for _, part := range []string{"INSERT of 50 rows", "identity", "over gen_random_uuid", "one round"} {
		if !strings.Contains(text, part) {
			t.Errorf("the text lacks %q:\n%s", part, text)
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	start := time.Now()
	r := runIn(ctx, env, "", "bench", "--ids", "50000000")
	if r.code != exitInterrupted || r.out != "" || r.errOut != "pgid: interrupted\n" || time.Since(start) > 15*time.Second {
		t.Errorf("interrupted: exit %d after %s, %q, %q", r.code, time.Since(start), r.out, r.errOut)
	}
	if n := pgtest.Query[int](t, db, "SELECT count(*) FROM pg_database WHERE datname LIKE 'pgid\\_bench\\_%'"); n != 0 {
		t.Errorf("%d databases are left behind", n)
	}
}

func checkGroup(t *testing.T, g bench.Group, want []string) {
	t.Helper()
	var names []string
	for _, s := range g.Series {
		if !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
		if !(0 < s.Min && s.Min <= s.Median && s.Median <= s.Max) && g.Name != "shards_size" {
			t.Errorf("%s, %s: spread %+v", g.Name, s.Name, s.Spread)
		}
		for base, ratio := range s.Ratios {
			if !(0 < ratio.Min && ratio.Min <= ratio.Median && ratio.Median <= ratio.Max) || base == s.Name {
				t.Errorf("%s, %s over %s: %+v", g.Name, s.Name, base, ratio)
			}
		}
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("%s: series %q, want %q", g.Name, names, want)
	}
	if g.Title == "" || g.Unit == "" || (g.Better != "less" && g.Better != "more") {
		t.Errorf("%s: title %q, unit %q, better %q", g.Name, g.Title, g.Unit, g.Better)
	}
}

func TestBenchErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args string
		says []string
	}{
		{"bench --rounds 0", []string{"--rounds 0", "1 to 1000"}},
		{"bench --sessions -1", []string{"--sessions -1", "1 to 1000"}},
		{"bench --ids x", []string{`--ids "x" is not of type int`}},
		{"bench --rows 5", []string{"--rows", "«pgid bench --help»"}},
		{"bench insrt", []string{`"insrt"`, "did you mean insert?", "«pgid bench --help»"}},
		{"bench insert --rows 0", []string{"--rows 0", "1 to"}},
		{"bench insert 5", []string{`"5"`, "«pgid bench insert --help»"}},
		{"bench growth --shards 8193", []string{"--shards 8193", "1 to 8192"}},
		{"bench --database-url postgres://u:p@127.0.0.1:1/db", []string{"127.0.0.1:1", "refused"}},
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			run(t, nil, "", strings.Fields(test.args)...).fails(t, test.says...)
		})
	}
	t.Run("a role without CREATEDB", func(t *testing.T) {
		t.Parallel()
		url := pgtest.NewEmpty(t).URL
		run(t, nil, "", "bench", "--database-url", url).fails(t, "the bench works in a temporary database", "CREATEDB")
	})
	t.Run("too many sessions", func(t *testing.T) {
		t.Parallel()
		db := pgtest.NewEmpty(t)
		role := db.Role(t)
		if _, err := pgtest.Connect(t, db.SuperURL).Exec(t.Context(), "ALTER ROLE "+role+" CREATEDB CONNECTION LIMIT 4"); err != nil {
			t.Fatal(err)
		}
		run(t, nil, "", "bench", "--ids", "10", "--rounds", "1", "--sessions", "9", "--database-url", db.As(role)).
			fails(t, "of 9 could not be opened", "lower --sessions")
	})
}
