package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/migrations"
)

// The latest version. A new migration moves it, and adds a test of its own upgrade.
const latest = 3

// step is an embedded file.
func step(t *testing.T, name string) string {
	t.Helper()
	data, err := fs.ReadFile(migrations.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// stepNames are the steps in order, without what follows the version's name.
var stepNames = [latest]string{"000001_core", "000002_batches", "000003_operations"}

// newVersion is a database that a version has set up, its record included.
func newVersion(t *testing.T, version int) *pgtest.Database {
	t.Helper()
	db := pgtest.NewEmpty(t)
	for _, name := range stepNames[:version] {
		db.Exec(t, step(t, name+".up.sql"))
	}
	record(t, db, version)
	return db
}

// downTo takes a database from the latest version to an earlier one.
func downTo(t *testing.T, db *pgtest.Database, version int) {
	t.Helper()
	for i := latest - 1; i >= version; i-- {
		db.Exec(t, step(t, stepNames[i]+".down.sql"))
	}
	record(t, db, version)
}

func record(t *testing.T, db *pgtest.Database, version int) {
	t.Helper()
	db.Exec(t, fmt.Sprintf("CREATE TABLE IF NOT EXISTS %[1]s (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL); TRUNCATE %[1]s;"+
		"INSERT INTO %[1]s VALUES (%[2]d, false)", migrations.Table, version))
}

// recorded is what the record says.
func recorded(t *testing.T, db *pgtest.Database) string {
	t.Helper()
	return pgtest.Query[string](t, db, "SELECT coalesce(string_agg(version || CASE WHEN dirty THEN ' dirty' ELSE '' END, ', '), 'nothing') FROM "+migrations.Table)
}

// difference is what one catalog has and another has not.
func difference(a, b []string) (lines []string) {
	for _, line := range a {
		if !slices.Contains(b, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

func sameCatalog(t *testing.T, what string, got, want []string) {
	t.Helper()
	if more, less := difference(got, want), difference(want, got); len(more)+len(less) > 0 || len(want) < 30 {
		t.Errorf("%s: of %d objects too many %d, too few %d:\n%s\n---\n%s", what, len(want), len(more), len(less),
			strings.Join(more, "\n"), strings.Join(less, "\n"))
	}
}

func up(t *testing.T, db *pgtest.Database) {
	t.Helper()
	if err := migrations.Up(t.Context(), db.URL); err != nil {
		t.Fatal(err)
	}
	if v, r := version(t, db), recorded(t, db); v != latest || r != fmt.Sprint(latest) {
		t.Fatalf("version %d, recorded %s", v, r)
	}
}

// From every earlier version, with shards and IDs, an upgrade comes to what a fresh
// installation has; IDs go on increasing; back down, all is as that version had it.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for from := 1; from < latest; from++ {
		for name, forget := range map[string]string{"recorded": "SELECT", "by psql": "DROP TABLE " + migrations.Table} {
			t.Run(fmt.Sprintf("from %d %s", from, name), func(t *testing.T) {
				t.Parallel()
				db := newVersion(t, from)
				db.Exec(t, forget)
				testUpgrade(t, db, from)
			})
		}
	}
}

func testUpgrade(t *testing.T, db *pgtest.Database, from int) {
	t.Helper()
	fresh := pgtest.New(t)
	const shards = "SELECT pgid.create_shards(3, 6), pgid.create_shard(700)"
	db.Exec(t, shards)
	fresh.Exec(t, shards)
	db.Exec(t, "CREATE TABLE photo (id bigint PRIMARY KEY DEFAULT pgid.next_id(5), n bigint GENERATED ALWAYS AS IDENTITY, seq integer GENERATED ALWAYS AS (pgid.id_seq(id)) STORED)")
	ids := func() {
		t.Helper()
		db.Exec(t, "INSERT INTO photo SELECT FROM generate_series(1, 3000)")
		if n := pgtest.Query[int](t, db, "SELECT count(*) FROM (SELECT id, lag(id) OVER (ORDER BY n) AS before FROM photo) AS p WHERE before >= id"); n > 0 {
			t.Fatalf("%d IDs are not above the one before", n)
		}
	}
	ids()
	old := pgtest.Catalog(t, db)
	for range 2 {
		up(t, db)
		sameCatalog(t, "after the upgrade", pgtest.Catalog(t, db), pgtest.Catalog(t, fresh))
		ids()
		db.Exec(t, "INSERT INTO photo SELECT pgid.next_ids(5, 1000)")
		ids()
		downTo(t, db, from)
		sameCatalog(t, "back down", pgtest.Catalog(t, db), old)
		if v := version(t, db); v != uint(from) {
			t.Errorf("back down: version %d, want %d", v, from)
		}
		ids()
	}
}

// Settings that somebody has changed outlive a step up and a step down.
func TestUpgradeKeepsSettings(t *testing.T) {
	t.Parallel()
	db := newVersion(t, 1)
	const epoch = 1288834974657
	for name, value := range map[string]string{"max_lead_ms() RETURNS integer": "70", "max_wait_ms() RETURNS integer": "700", "epoch_ms() RETURNS bigint": fmt.Sprint(epoch)} {
		db.Exec(t, "CREATE OR REPLACE FUNCTION pgid."+name+" LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN "+value)
	}
	want := fmt.Sprintf("70 700 %d", epoch)
	const settings = "SELECT max_lead_ms || ' ' || max_wait_ms || ' ' || epoch_ms FROM pgid.settings()"
	for round := range 2 {
		up(t, db)
		if got := pgtest.Query[string](t, db, settings); got != want {
			t.Errorf("after the upgrade: %s, want %s", got, want)
		}
		want = fmt.Sprintf("%d 800 %d", 80+round, epoch+1)
		db.Exec(t, "SELECT pgid.configure($1, 800, $2)", 80+round, epoch+1)
		downTo(t, db, 1)
		if got := pgtest.Query[string](t, db, settings); got != want {
			t.Errorf("back down: %s, want %s", got, want)
		}
	}
}

// A step that fails leaves the version before it, and a record that says so.
func TestFailedUpgrade(t *testing.T) {
	t.Parallel()
	db := newVersion(t, 1)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	db.Exec(t, "CREATE FUNCTION pgid.next_ids(shard integer, count integer) RETURNS bigint LANGUAGE sql RETURN 1")
	before := pgtest.Catalog(t, db)
	for range 2 {
		err := migrations.Up(t.Context(), db.URL)
		if err == nil || !strings.Contains(err.Error(), "next_ids") || strings.Contains(err.Error(), "\n") {
			t.Fatalf("%v, want one line that names the function", err)
		}
		sameCatalog(t, "after a step that failed", pgtest.Catalog(t, db), before)
		if v, r := version(t, db), recorded(t, db); v != 1 || r != "1" {
			t.Errorf("version %d, recorded %s, want 1 and 1", v, r)
		}
		db.Exec(t, "SELECT pgid.next_id(5)")
	}
	db.Exec(t, "DROP FUNCTION pgid.next_ids(integer, integer)")
	up(t, db)
	db.Exec(t, "SELECT pgid.next_ids(5, 10)")
}

// A Down that is refused changes nothing, whichever step would have refused.
func TestRefusedDownChangesNothing(t *testing.T) {
	t.Parallel()
	for name, object := range map[string]string{
		"of version 1": "CREATE TABLE photo (id bigint PRIMARY KEY DEFAULT pgid.next_id(5))",
		"of version 3": "CREATE VIEW late AS SELECT * FROM pgid.lease_status",
		"of version 2": "CREATE FUNCTION five() RETURNS SETOF bigint LANGUAGE sql BEGIN ATOMIC SELECT pgid.next_ids(5, 5); END",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			db.Exec(t, "SELECT pgid.create_shard(5)")
			db.Exec(t, object)
			before := pgtest.Catalog(t, db)
			for range 2 {
				if err := migrations.Down(t.Context(), db.URL); !errors.Is(err, migrations.ErrInUse) {
					t.Errorf("%v, want ErrInUse", err)
				}
				sameCatalog(t, "after a down that was refused", pgtest.Catalog(t, db), before)
				if v, r := version(t, db), recorded(t, db); v != latest || r != fmt.Sprint(latest) {
					t.Errorf("version %d, recorded %s", v, r)
				}
				db.Exec(t, "SELECT pgid.next_ids(5, 10), pgid.next_id(5)")
			}
		})
	}
}

// Sessions that draw IDs while the step runs get no error and no wrong ID, and what
// they have planned before goes on as the new version.
func TestUpgradeUnderLoad(t *testing.T) {
	t.Parallel()
	for round := range 4 {
		db := newVersion(t, 1+round%(latest-1))
		db.Exec(t, "SELECT pgid.create_shards(0, 1)")
		var stop atomic.Bool
		const sessions = 6
		var drawn [sessions]atomic.Int64
		var group errgroup.Group
		for i := range sessions {
			conn := db.Connect(t)
			group.Go(func() error {
				last := map[int]int64{}
				for n := 0; !stop.Load(); n++ {
					shard := (i + n) % 2
					sql := "SELECT pgid.next_id($1::integer)"
					if i%2 == 1 { // many calls in a statement, that the step falls amid
						sql = "SELECT pgid.next_id($1::integer) FROM generate_series(1, 500)"
					}
					rows, err := conn.Query(context.Background(), sql, shard)
					if err != nil {
						return err
					}
					var id int64
					_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
						if id <= last[shard] || id>>10&8191 != int64(shard) {
							return fmt.Errorf("%d after %d", id, last[shard])
						}
						last[shard] = id
						drawn[i].Add(1)
						return nil
					})
					if err != nil {
						return fmt.Errorf("session %d: %w", i, err)
					}
				}
				return nil
			})
		}
		total := func() (n int64) {
			for i := range drawn {
				n += drawn[i].Load()
			}
			return n
		}
		time.Sleep(200 * time.Millisecond)
		before := total()
		start := time.Now()
		err := migrations.Up(t.Context(), db.URL)
		took, during := time.Since(start), total()-before
		time.Sleep(200 * time.Millisecond)
		stop.Store(true)
		if sessionErr := group.Wait(); err != nil || sessionErr != nil {
			t.Fatalf("round %d: up: %v; sessions: %v", round, err, sessionErr)
		}
		if after := total() - before - during; before == 0 || during == 0 || after == 0 {
			t.Errorf("round %d: %d IDs before, %d during, %d after", round, before, during, after)
		}
		t.Logf("%d IDs before the step, %d in its %s, %d in all", before, during, took, total())
	}
}
