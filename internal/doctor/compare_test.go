package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
)

func pair(t *testing.T, sql string) (a, b *pgtest.Database) {
	t.Helper()
	a, b = pgtest.New(t), pgtest.New(t)
	script(t, a.URL, sql)
	script(t, b.URL, sql)
	return a, b
}

func TestSharedShards(t *testing.T) {
	t.Parallel()
	a, b := pair(t, "SELECT pgid.create_shards(0, 9)")
	if wrong := look(t, a.URL, b.URL); len(wrong) > 0 {
		t.Errorf("shards that have drawn nothing:\n%s", text(wrong))
	}
	script(t, a.URL, "SELECT pgid.next_id(5)")
	f := pick(t, look(t, a.URL, b.URL), Warning, "others", "shard 5 issues IDs in", a.Name, "may here")
	if !strings.HasSuffix(f.Database, "/"+b.Name) || !strings.HasPrefix(f.Fix, "SELECT pgid.retire_shard(5);") {
		t.Errorf("a shard that one has drawn from is to be retired in the other: %v", f)
	}
	script(t, b.URL, "SELECT pgid.next_id(5)")

	// To be given up where the older IDs are, whatever the order of the two.
	for _, urls := range [][]string{{a.URL, b.URL}, {b.URL, a.URL}} {
		f := pick(t, look(t, urls...), Error, "others", "shard 5 issues IDs here and in")
		if !strings.HasSuffix(f.Database, "/"+a.Name) {
			t.Errorf("it is noted of %s, not of %s", f.Database, a.Name)
		}
	}
	script(t, a.URL, "SELECT pgid.next_id(n) FROM generate_series(6, 8) AS n")
	script(t, b.URL, "SELECT pgid.next_id(n) FROM generate_series(6, 8) AS n")
	f = pick(t, look(t, b.URL, a.URL), Error, "others", "shards 5-8 issue IDs here and in")
	script(t, a.URL, f.Fix)
	if wrong := look(t, a.URL, b.URL); len(wrong) > 0 {
		t.Errorf("after %s:\n%s", f.Fix, text(wrong))
	}
}

// What was reserved counts as what was drawn.
func TestSharedShardOfRanges(t *testing.T) {
	t.Parallel()
	a, b := pair(t, "SELECT pgid.create_shard(5); SELECT pgid.reserve(5, 3)")
	pick(t, look(t, a.URL, b.URL), Error, "others", "shard 5 issues IDs here and in")
}

func TestSettingsCompared(t *testing.T) {
	t.Parallel()
	a, b := pgtest.New(t), pgtest.New(t)
	script(t, b.URL, "SELECT pgid.configure(max_lead_ms => 50, max_wait_ms => 2000)")
	f := pick(t, look(t, a.URL, b.URL), Warning, "others", "max_lead is 50ms and max_wait 2s, and")
	script(t, b.URL, f.Fix)
	if wrong := look(t, a.URL, b.URL); len(wrong) > 0 {
		t.Errorf("after %s:\n%s", f.Fix, text(wrong))
	}
	script(t, b.URL, "SELECT pgid.configure(epoch_ms => 1760000000000)")
	f = pick(t, look(t, a.URL, b.URL), Error, "others", "the epoch is 2025-10-09")
	script(t, b.URL, f.Fix)
	if wrong := look(t, a.URL, b.URL); len(wrong) > 0 {
		t.Errorf("after %s:\n%s", f.Fix, text(wrong))
	}
}

func TestSameDatabaseTwice(t *testing.T) {
	t.Parallel()
	db := healthy(t)
	wrong := look(t, db.URL, db.SuperURL)
	pick(t, wrong, Info, "others", "the same database")
	if len(wrong) != 1 {
		t.Errorf("twice the same:\n%s", text(wrong))
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	db, empty := healthy(t), pgtest.NewEmpty(t)
	wrong := look(t, "postgres://u:hunter2@127.0.0.1:1/gone", "hunter2", empty.URL, db.URL, db.URL)
	if f := pick(t, wrong, Error, "connection", "cannot connect"); f.Database != "127.0.0.1:1/gone" {
		t.Errorf("it is called %s", f.Database)
	}
	pick(t, wrong, Error, "connection", "not the URL of a database")
	pick(t, wrong, Error, "installed", "not installed")
	pick(t, wrong, Info, "others", "the same database") // the others were examined
	if strings.Contains(text(wrong), "hunter2") {
		t.Errorf("it tells a password:\n%s", text(wrong))
	}
}

// A role with less rights is told what was left out, check by check.
func TestRights(t *testing.T) {
	t.Parallel()
	db, other := healthy(t), pgtest.New(t)
	role := db.Role(t)
	findings := Examine(t.Context(), []string{db.As(role), other.URL}, Options{})
	f := pick(t, findings, Warning, "rights", "the role "+role)
	for _, c := range checks {
		examined := slices.ContainsFunc(findings, func(f Finding) bool { return f.Check == c.name && strings.HasSuffix(f.Database, db.Name) })
		if said := strings.Contains(f.What, c.name); said != c.owner || examined == c.owner {
			t.Errorf("%s: examined %t, said to be left out %t, needs the owner %t", c.name, examined, said, c.owner)
		}
	}
	pick(t, findings, Warning, "record", "not examined: permission denied")
	pick(t, findings, Warning, "others", "not compared with")
	_, grant, _ := strings.Cut(f.Fix, "or: ")
	script(t, db.SuperURL, grant)
	script(t, db.SuperURL, "GRANT SELECT ON pgid_schema_migrations TO "+role)
	if left := look(t, db.As(role)); len(left) > 0 {
		t.Errorf("after %s:\n%s", grant, text(left))
	}
}

func TestShorten(t *testing.T) {
	t.Parallel()
	e := &exam{name: "d", check: "tables"}
	for n := range maxAlike + 5 {
		e.add(Error, "", "%d", n)
		e.add(Warning, "", "%d", n)
	}
	short := shorten(e.findings)
	pick(t, short, Error, "tables", "and 5 more of this kind")
	pick(t, short, Warning, "tables", "and 5 more of this kind")
	if len(short) != 2*maxAlike+2 {
		t.Errorf("%d findings", len(short))
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	if got := ranges([]int{0, 1, 2, 5, 7, 8}); got != "0-2,5,7-8" {
		t.Errorf("ranges %s", got)
	}
}

func TestWorst(t *testing.T) {
	t.Parallel()
	if got := Worst([]Finding{{Severity: Info}, {Severity: Error}, {Severity: Warning}}); got != Error {
		t.Errorf("worst %s", got)
	}
	if got := Worst(nil); got != OK {
		t.Errorf("worst of none %s", got)
	}
}
