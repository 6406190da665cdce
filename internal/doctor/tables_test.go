package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/pgtest"
)

// ahead is an ID of shard 5, a second past what the shard remembers: clear of what is
// drawn meanwhile, and not so far ahead that the clock has to be waited for.
const ahead = `((SELECT last_id FROM pgid.shard_status WHERE shard = 5) + (500::bigint << 23))`

func TestTables(t *testing.T) {
	t.Parallel()
	const fix = "SELECT pgid.advance_shard(5, "
	says := func(column string) []string {
		return []string{column + " holds the ID ", "newer than all that shard 5 remembers"}
	}
	for _, f := range []fault{
		{name: "newer than the shard", make: "INSERT INTO photo (id) SELECT " + ahead, severity: Error, check: "tables", says: says("public.photo.id"), fix: fix},
		{name: "by one tick", make: "INSERT INTO photo (id) SELECT pgid.compose(pgid.last_tick(5) + 1, 5)", severity: Error, check: "tables", says: says("public.photo.id"), fix: fix},
		{name: "a named argument", make: "ALTER TABLE photo ALTER id SET DEFAULT pgid.next_id(shard => 5::smallint); INSERT INTO photo (id) SELECT " + ahead,
			severity: Error, check: "tables", says: says("public.photo.id"), fix: fix},
		{name: "among IDs of others", make: "INSERT INTO photo (id) SELECT " + ahead + "; INSERT INTO photo (id) SELECT pgid.make_id(now() + n * interval '1 day', 6, 3) FROM generate_series(1, 1000) AS n",
			severity: Error, check: "tables", says: says("public.photo.id"), fix: fix},
		{name: "quoted names", make: `CREATE SCHEMA "My Schema"; CREATE TABLE "My Schema"."a ""b""" (gone integer, "The ID" bigint DEFAULT pgid.next_id(5));
			ALTER TABLE "My Schema"."a ""b""" DROP COLUMN gone; INSERT INTO "My Schema"."a ""b""" SELECT ` + ahead,
			severity: Error, check: "tables", says: says(`"My Schema"."a ""b"""."The ID"`), fix: fix},
		{name: "a newline in a name", make: "CREATE TABLE public.\"a\nb\" (id bigint DEFAULT pgid.next_id(5)); INSERT INTO public.\"a\nb\" SELECT " + ahead,
			severity: Error, check: "tables", says: says(`public.U&"a\000ab".id`), fix: fix},
		{name: "partitions", make: `CREATE TABLE p (id bigint DEFAULT pgid.next_id(5), k integer) PARTITION BY LIST (k);
			CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2); INSERT INTO p SELECT ` + ahead + `, 2`,
			severity: Error, check: "tables", says: says("public.p.id"), fix: fix},
		{name: "a partition with a default of its own", make: `CREATE TABLE p (id bigint, k integer) PARTITION BY LIST (k);
			CREATE TABLE p1 PARTITION OF p (id DEFAULT pgid.next_id(5)) FOR VALUES IN (1); INSERT INTO p SELECT ` + ahead + `, 1`,
			severity: Error, check: "tables", says: says("public.p1.id"), fix: fix},
		{name: "an expression", make: "CREATE TABLE e (id bigint DEFAULT coalesce(NULL, pgid.next_id(5))); INSERT INTO e SELECT " + ahead, severity: Error, check: "tables", says: says("public.e.id"), fix: fix},
		{name: "a domain", make: "CREATE DOMAIN photo_id AS bigint; CREATE TABLE d (id photo_id DEFAULT pgid.next_id(5)); INSERT INTO d SELECT " + ahead, severity: Error, check: "tables", says: says("public.d.id"), fix: fix},
		{name: "a domain's default", make: "CREATE DOMAIN photo_id AS bigint DEFAULT pgid.next_id(5); CREATE TABLE d (id photo_id); INSERT INTO d SELECT " + ahead, severity: Error, check: "tables", says: says("public.d.id"), fix: fix},
		{name: "the setting", super: true, make: "ALTER DATABASE {db} SET pgid.shard = 5; CREATE TABLE s (id bigint DEFAULT pgid.next_id()); ALTER TABLE s OWNER TO {owner}; INSERT INTO s SELECT " + ahead,
			severity: Error, check: "tables", says: says("public.s.id"), fix: fix},
		{name: "a shard that never drew", make: "SELECT pgid.create_shard(6); CREATE TABLE n (id bigint DEFAULT pgid.next_id(6)); INSERT INTO n SELECT pgid.make_id(now(), 6, 1)",
			severity: Error, check: "tables", says: []string{"public.n.id holds the ID", "shard 6"}, fix: "SELECT pgid.advance_shard(6, "},
		{name: "no such shard", make: "CREATE TABLE n (id bigint DEFAULT pgid.next_id(6))", severity: Error, check: "tables", says: []string{"shard 6 does not exist", "public.n.id"}, fix: "SELECT pgid.create_shard(6);"},
		{name: "no such shard any more", make: "CREATE TABLE n (id bigint DEFAULT pgid.next_id(6)); INSERT INTO n SELECT pgid.make_id('2026-01-02 00:00:00+00', 6, 1)",
			severity: Error, check: "tables", says: []string{"shard 6 does not exist", "public.n.id"}, fix: "SELECT pgid.create_shard(6, 724775731206145"},
		{name: "out of range", make: "CREATE TABLE n (id bigint DEFAULT pgid.next_id(-1))", severity: Error, check: "tables", says: []string{"shard -1 is out of range"}, fix: "ALTER TABLE public.n ALTER COLUMN id DROP DEFAULT;"},
		{name: "retired", make: "CREATE TABLE n (id bigint DEFAULT pgid.next_id(7))", severity: Error, check: "tables", says: []string{"shard 7 is retired", "public.n.id"}, fix: "ALTER TABLE public.n ALTER COLUMN id DROP DEFAULT;"},
		{name: "leased", make: "CREATE TABLE n (id bigint DEFAULT pgid.next_id(10))", severity: Warning, check: "tables", says: []string{"shard 10 is set apart", "public.n.id"}, fix: "ALTER TABLE public.n ALTER COLUMN id DROP DEFAULT;"},
		{name: "integer", make: "CREATE TABLE n (id integer DEFAULT pgid.next_id(5)); INSERT INTO n VALUES (7)", severity: Error, check: "tables", says: []string{"public.n.id is of type integer"}, fix: "TYPE bigint"},
		{name: "text", make: "CREATE TABLE n (id varchar(20) DEFAULT pgid.next_id(5)); INSERT INTO n DEFAULT VALUES", severity: Error, check: "tables", says: []string{"public.n.id is of type character varying(20)"}, fix: "TYPE bigint"},
		{name: "a shard that is no constant", make: "CREATE FUNCTION pick() RETURNS integer LANGUAGE sql RETURN 5; CREATE TABLE n (id bigint DEFAULT pgid.next_id(pick()))",
			severity: Info, check: "tables", says: []string{"public.n.id", "not a constant"}, fix: ""},
	} {
		f.run(t)
	}
}

// A partition's rows are found once, at the root.
func TestPartitionsOnce(t *testing.T) {
	t.Parallel()
	db := healthy(t)
	script(t, db.URL, `CREATE TABLE p (id bigint DEFAULT pgid.next_id(5), k integer) PARTITION BY LIST (k);
		CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); INSERT INTO p SELECT `+ahead+`, 1`)
	if wrong := look(t, db.URL); len(wrong) != 1 {
		t.Errorf("it is found %d times:\n%s", len(wrong), text(wrong))
	}
}

// A healthy table whose shard draws while it is looked at is no finding.
func TestTableInUse(t *testing.T) {
	t.Parallel()
	db := healthy(t)
	done := make(chan struct{})
	ended := make(chan struct{})
	conn := db.Connect(t)
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			default:
				_, _ = conn.Exec(t.Context(), "INSERT INTO photo SELECT FROM generate_series(1, 20)")
			}
		}
	}()
	for range 5 {
		for _, f := range look(t, db.URL) {
			if f.Check == "tables" {
				t.Error(f.What)
			}
		}
	}
	close(done)
	<-ended
}

func TestTableNotRead(t *testing.T) {
	t.Parallel()
	t.Run("locked", func(t *testing.T) {
		t.Parallel()
		db := healthy(t)
		conn := db.Connect(t)
		if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE photo IN ACCESS EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
		findings := Examine(t.Context(), []string{db.URL}, Options{Timeout: 2 * time.Second})
		pick(t, findings, Warning, "tables", "public.photo.id could not be read within 2s")
		if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
		if left := look(t, db.URL); len(left) > 0 {
			t.Errorf("it is left:\n%s", text(left))
		}
	})
	t.Run("another's", func(t *testing.T) {
		t.Parallel()
		db := healthy(t)
		role := db.Role(t)
		script(t, db.SuperURL, "GRANT CREATE, USAGE ON SCHEMA public TO "+role+"; CREATE TABLE theirs (id bigint DEFAULT pgid.next_id(5)); ALTER TABLE theirs OWNER TO "+role)
		f := pick(t, look(t, db.URL), Info, "tables", "public.theirs.id may not be read by the role")
		script(t, db.SuperURL, f.Fix)
		if left := look(t, db.URL); len(left) > 0 {
			t.Errorf("it is left:\n%s", text(left))
		}
		script(t, db.SuperURL, "ALTER TABLE theirs ENABLE ROW LEVEL SECURITY")
		pick(t, look(t, db.URL), Info, "tables", "public.theirs.id has row-level security")
	})
	t.Run("a view", func(t *testing.T) {
		t.Parallel()
		db := healthy(t)
		script(t, db.URL, "CREATE VIEW v AS SELECT id FROM photo; ALTER VIEW v ALTER COLUMN id SET DEFAULT pgid.next_id(5)")
		pick(t, look(t, db.URL), Info, "tables", "public.v.id", "view or foreign table")
	})
}

// The condition on the newest ID is one that an index serves.
func TestNewestUsesTheIndex(t *testing.T) {
	t.Parallel()
	db := healthy(t)
	db.Exec(t, "INSERT INTO photo SELECT FROM generate_series(1, 20000)")
	db.Exec(t, "ANALYZE photo")
	last := pgtest.Query[int64](t, db, "SELECT last_id FROM pgid.shard_status WHERE shard = 5")
	plan := pgtest.Query[string](t, db, "EXPLAIN (FORMAT JSON) "+newestQuery("public.photo", "id"), last, int64(5))
	if !containsAll(plan, []string{`"Index Only Scan"`, `"photo_pkey"`, "Index Cond"}) {
		t.Errorf("the plan is %s", plan)
	}
}

// A default that does not name its shard, and rows of other shards than the default's: the
// largest ID is held against the shard that it is of.
func TestLargestOfAnyShard(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, column, says string }{
		{"no shard is named", "bigint PRIMARY KEY DEFAULT pgid.next_id()", "only its newest ID was compared"},
		{"not a constant", "bigint PRIMARY KEY DEFAULT pgid.next_id(extract(day FROM now())::integer)", "only its newest ID was compared"},
		{"another shard", "bigint PRIMARY KEY DEFAULT pgid.next_id(5)", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := healthy(t)
			script(t, db.URL, "CREATE TABLE later (id "+c.column+"); INSERT INTO later VALUES (pgid.make_id(now() - interval '1 hour', 2, 7))")
			script(t, db.URL, "SELECT pgid.next_id(2)")
			if wrong := look(t, db.URL); len(wrong) > 0 && c.says == "" {
				t.Errorf("all is well:\n%s", text(wrong))
			}
			script(t, db.URL, "INSERT INTO later VALUES (pgid.make_id(now() + interval '800 ms', 2, 7))")
			if c.says != "" {
				pick(t, look(t, db.URL), Info, "tables", "public.later.id", c.says)
			}
			f := pick(t, look(t, db.URL), Error, "tables", "public.later.id holds the ID", "all that shard 2 remembers")
			script(t, db.URL, f.Fix)
			for _, f := range look(t, db.URL) {
				if f.Severity == Error {
					t.Errorf("after the fix: %v", f)
				}
			}
		})
	}
}

// Where the shards cannot be read, nothing is made up about them.
func TestShardsUnread(t *testing.T) {
	t.Parallel()
	db := healthy(t)
	script(t, db.URL, "CREATE TABLE later (id bigint PRIMARY KEY DEFAULT pgid.next_id(5)); SELECT pgid.next_id(5)")
	role := db.Role(t)
	super := pgtest.Connect(t, db.SuperURL)
	if _, err := super.Exec(t.Context(), "ALTER SEQUENCE pgid.base_3 OWNER TO "+role); err != nil {
		t.Fatal(err)
	}
	wrong := look(t, db.URL)
	pick(t, wrong, Warning, "shards", "not examined", "base_3")
	pick(t, wrong, Warning, "tables", "not examined: the shards could not be read")
	for _, f := range wrong {
		if strings.Contains(f.Fix, "create_shard") {
			t.Errorf("a shard that stands is to be created: %v", f)
		}
	}
}
