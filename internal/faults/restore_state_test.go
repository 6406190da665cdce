package faults

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// An installation is all that a copy of a database must have to go on: see furnish.
type installation struct {
	ledger   *Ledger
	guest    string // a role with nothing but INSERT and SELECT on the table photo
	catalog  []string
	shards   string
	settings string
	lease    lease
}

// furnish fills a database that has pgid: settings, shards of every kind, a lease, a
// table with a default; and remembers all of it.
func furnish(t *testing.T, db *pgtest.Database, guest string) *installation {
	t.Helper()
	s := &installation{ledger: NewLedger(), guest: guest}
	db.Exec(t, "SELECT pgid.configure(max_lead_ms => 250, epoch_ms => 1704067200000)")
	db.Exec(t, "SELECT pgid.create_shards(2, 6), pgid.create_pool('workers', 100, 101)")
	db.Exec(t, "CREATE TABLE photo (id bigint PRIMARY KEY DEFAULT pgid.next_id(5), title text)")
	db.Exec(t, "GRANT INSERT, SELECT ON photo TO "+guest)
	book := s.ledger.Book("before")
	draw(t, book, db, 5, 500)
	draw(t, book, db, 3, 5)
	if err := book.DrawRange(Strict, func() (pgid.Range, error) {
		return pgid.NewClient(db.Pool).Reserve(t.Context(), 2, 100000)
	}); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "SELECT pgid.retire_shard(3)")
	s.lease = acquire(t, db)
	s.catalog, s.shards, s.settings = catalog(t, db), shards(t, db), settings(t, db)
	return s
}

// goesOn checks that a copy is what was furnished, and that its IDs go on above those
// from before.
func (s *installation) goesOn(t *testing.T, db *pgtest.Database) {
	t.Helper()
	if c := catalog(t, db); !slices.Equal(s.catalog, c) {
		t.Errorf("the copy consists of something else:\n%s", difference(s.catalog, c))
	}
	if c := shards(t, db); c != s.shards {
		t.Errorf("shards:\n%s\nthe copy's:\n%s", s.shards, c)
	}
	if c := settings(t, db); c != s.settings {
		t.Errorf("settings %s, the copy's %s", s.settings, c)
	}
	after := s.ledger.Book("after")
	draw(t, after, db, 5, 500)
	draw(t, after, db, 2, 500)
	if _, err := pgid.NewClient(db.Pool).NextID(t.Context(), 3); pgtest.SQLState(err) != "ID003" {
		t.Errorf("the retired shard: %v, want ID003", err)
	}
	var from int64
	err := db.Pool.QueryRow(t.Context(), "SELECT from_tick FROM pgid.renew_lease($1, $2, 70000)", s.lease.shard, s.lease.fence).Scan(&from)
	if err != nil || from < s.lease.till {
		t.Errorf("the lease of shard %d to tick %d: renewed from %d, %v", s.lease.shard, s.lease.till, from, err)
	}
	if other := acquire(t, db); other.shard == s.lease.shard || other.fence <= s.lease.fence {
		t.Errorf("beside the lease %+v, %+v was granted", s.lease, other)
	}
	conn := pgtest.Connect(t, db.As(s.guest))
	if _, err := conn.Exec(t.Context(), "INSERT INTO photo DEFAULT VALUES"); err != nil {
		t.Errorf("a role with INSERT: %v", err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT pgid.advance_shard(5, 1)"); pgtest.SQLState(err) != "42501" {
		t.Errorf("a role with INSERT calls advance_shard: %v, want SQLSTATE 42501", err)
	}
	kept(t, s.ledger, db)
}

func shards(t *testing.T, db *pgtest.Database) string {
	t.Helper()
	return pgtest.Query[string](t, db, "SELECT jsonb_agg(to_jsonb(s) - 'lead_ms' - 'ids_left' ORDER BY shard) #>> '{}' FROM pgid.shard_status AS s")
}

// Privileges as they stand in a catalog, and a function's when nobody has changed them:
// after a restore these need not be written out.
var (
	privileges = regexp.MustCompile(`\{[^{}]*=[a-zA-Z]*/[^{}]*\}`)
	byDefault  = regexp.MustCompile(`^=X/(\w+),(\w+)=X/(\w+)$`)
)

// catalog is pgtest.Catalog without regard to how privileges are written.
func catalog(t *testing.T, db *pgtest.Database) []string {
	t.Helper()
	lines := slices.DeleteFunc(pgtest.Catalog(t, db), func(line string) bool {
		return strings.HasPrefix(line, "constraint ") && strings.Contains(line, "_not_null NOT NULL") // listed since 18
	})
	for i, line := range lines {
		lines[i] = privileges.ReplaceAllStringFunc(line, func(acl string) string {
			items := strings.Split(strings.Trim(acl, "{}"), ",")
			slices.Sort(items)
			return byDefault.ReplaceAllString(strings.Join(items, ","), "")
		})
	}
	slices.Sort(lines)
	return lines
}

func settings(t *testing.T, db *pgtest.Database) string {
	t.Helper()
	return pgtest.Query[string](t, db, "SELECT s::text FROM pgid.settings() AS s")
}

// difference shows what is in one of two lists only.
func difference(a, b []string) (text string) {
	for _, line := range a {
		if !slices.Contains(b, line) {
			text += fmt.Sprintf("- %s\n", line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			text += fmt.Sprintf("+ %s\n", line)
		}
	}
	return text
}
