package postgresids_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/migrations"
	"github.com/nextid/postgres-ids/pgid"
)

// A role with INSERT on a table and nothing else gets IDs, and gets at nothing else.
func TestCallerWithInsertAlone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	role := db.Role(t)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	db.Exec(t, "CREATE TABLE photo (id bigint PRIMARY KEY DEFAULT pgid.next_id(5), n integer)")
	db.Exec(t, "GRANT INSERT ON photo TO "+role)
	conn := pgtest.Connect(t, db.As(role))
	if _, err := conn.Exec(t.Context(), "INSERT INTO photo (n) SELECT n FROM generate_series(1, 2000) AS n"); err != nil {
		t.Errorf("INSERT: %v", err)
	}
	id, err := pgid.NewClient(conn).NextID(t.Context(), 5)
	if err != nil {
		t.Errorf("next_id: %v", err)
	}
	if _, err := pgid.NewClient(conn).Reserve(t.Context(), 5, 100); err != nil {
		t.Errorf("reserve: %v", err)
	}
	if _, err := conn.Exec(t.Context(), "INSERT INTO photo (id, n) SELECT pgid.next_ids(5, 100), 1"); err != nil {
		t.Errorf("INSERT of next_ids: %v", err)
	}
	for _, sql := range []string{
		"SELECT * FROM pgid.decode($1)", "SELECT pgid.make_id(pgid.id_time($1), pgid.id_shard($1), pgid.id_seq($1))",
		"SELECT pgid.min_id(pgid.id_time($1)), pgid.max_id(pgid.id_time($1))",
	} {
		if _, err := conn.Exec(t.Context(), sql, id); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if _, err := conn.Exec(t.Context(), "SELECT pgid.make_id(now(), 8192, 0)"); pgtest.SQLState(err) != "22023" {
		t.Errorf("a refusal as this role: %v", err)
	}
	for _, sql := range []string{
		"SELECT nextval('pgid.counter_5')", "SELECT setval('pgid.counter_5', 1)", "SELECT setval('pgid.base_5', 1)",
		"SELECT last_value FROM pgid.base_5", "SELECT nextval('pgid.counter_none')", "ALTER SEQUENCE pgid.counter_5 CACHE 100",
		"DROP SEQUENCE pgid.counter_5", "SELECT pgid.create_shard(6)", "SELECT pgid.create_shards(6, 7)",
		"SELECT pgid.next_id_slow(5, 0, 0)", "SELECT pgid.raise_shard(5, 1 << 49)", "SELECT pgid.add_shard(9, NULL)",
		"SELECT pgid.reserve_ticks(5, 1)", "SELECT pgid.wait_or_refuse(5, 0, 0)", "SELECT pgid.refuse_count(0)", "SELECT pgid.configure()",
		"SELECT pgid.configure(max_lead_ms => 5)", "SELECT pgid.clock()", "SELECT pgid.is_refused(0, 0)", "SELECT pgid.last_ms()",
		"SELECT pgid.retire_shard(5)", "SELECT pgid.advance_shard(5, 1)", "SELECT pgid.raise_past(5, 1)", "SELECT pgid.lock_shard(5)", "SELECT pgid.drawn(5)", "SELECT pgid.is_retired(5)",
		"SELECT pgid.create_pool('p', 5, 5)", "SELECT pgid.acquire_lease('p', 'h')", "SELECT pgid.renew_lease(5, 1)", "SELECT pgid.release_lease(5, 1)",
		"SELECT pgid.take_ticks(5, 1, 1)", "SELECT pgid.take_window(5, 1, 1)", "SELECT pgid.note_step()", "SELECT pgid.keep_high(0)", "SELECT pgid.refuse_tick(5, 0, 0)", "SELECT * FROM pgid.lease_status",
		"SELECT * FROM pgid.lease", "SELECT * FROM pgid.stats", "SELECT nextval('pgid.lease_fence')", "SELECT setval('pgid.clock_high', 1)",
		"SELECT pgid.refresh_lookup()", "SELECT pgid.draw(0, 5)", "SELECT pgid.read_base(5)", "SELECT * FROM pgid.shard_status",
		"SELECT * FROM pgid.shard", "INSERT INTO pgid.shard (shard) VALUES (9)", "CREATE TABLE pgid.mine ()",
		"CREATE FUNCTION pgid.next_id(bigint) RETURNS bigint LANGUAGE sql RETURN 1",
	} {
		if _, err := conn.Exec(t.Context(), sql); pgtest.SQLState(err) != "42501" {
			t.Errorf("%s: %v, want 42501", sql, err)
		}
	}
	// Exactly these may be called by anyone: a function added later must be thought about.
	open := pgtest.Query[[]string](t, db, `SELECT array_agg(DISTINCT proname::text ORDER BY proname::text) FROM pg_proc
		WHERE pronamespace = 'pgid'::regnamespace AND has_function_privilege('`+role+`', oid, 'EXECUTE')`)
	want := []string{
		"decode", "epoch_ms", "id_seq", "id_shard", "id_time", "make_id", "max_id", "max_lead_ms", "max_wait_ms", "min_id",
		"next_id", "next_ids", "refuse_seq", "refuse_shard", "refuse_time", "reserve", "settings", "time_ms", "version",
	}
	if !slices.Equal(open, want) {
		t.Errorf("open to anyone: %v\nwant %v", open, want)
	}
}

// Types are looked up in a session's temporary schema before any other, whatever its
// search_path: a domain there, with a check of the caller's, would run it with the rights
// of pgid's owner.
func TestHostileTypes(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	role := db.Role(t)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	db.Exec(t, fmt.Sprintf("GRANT TEMPORARY ON DATABASE %s TO %s", db.Name, role))
	conn := pgtest.Connect(t, db.As(role))
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	exec(`CREATE FUNCTION pg_temp.trap() RETURNS boolean LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'trapped as %', current_user USING ERRCODE = 'EVIL1'; END $$`)
	for _, name := range pgtest.Query[[]string](t, db, `SELECT array_agg(typname::text) FROM pg_type
		WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype IN ('b', 'r') AND typelem = 0`) {
		exec(fmt.Sprintf(`CREATE DOMAIN pg_temp.%[1]q AS pg_catalog.%[1]q CHECK (pg_temp.trap())`, name))
	}
	if _, err := conn.Exec(t.Context(), "SELECT 1::regclass"); pgtest.SQLState(err) != "EVIL1" {
		t.Fatalf("%v: this test shows nothing", err)
	}
	exec("SET pgid.shard = 5")
	for _, sql := range []string{
		"SELECT pgid.next_id(5)", "SELECT pgid.next_id()", "SELECT pgid.next_id(5) FROM pg_sleep(0.01)", "SELECT pgid.next_ids(5, 10)",
		"SELECT pgid.reserve(5, 10)", "SELECT pgid.decode(1)", "SELECT pgid.make_id(now(), 5, 1)", "SELECT pgid.min_id(now()), pgid.max_id(now())",
		"SELECT pgid.settings()", "SELECT pgid.version()",
	} {
		exec(sql)
	}
	for sql, want := range map[string]string{
		"SELECT pgid.next_id(77)": "ID002", "SELECT pgid.next_id(9999)": "22023", "SELECT pgid.reserve(5, 0)": "22023",
		"SELECT pgid.make_id(now(), -1, 0)": "22023", "SET pgid.shard = 'x'; SELECT pgid.next_id()": "22023",
	} {
		if _, err := conn.Exec(t.Context(), sql); pgtest.SQLState(err) != want {
			t.Errorf("%s: %v, want %s", sql, err, want)
		}
	}
}

// A caller that shadows every operator, function, type and object that the functions
// use, ahead of pg_catalog, changes nothing that they do.
func TestHostileSearchPath(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	role := db.Role(t)
	db.Exec(t, "SELECT pgid.create_shards(0, 5)")
	db.Exec(t, "CREATE TABLE photo (id bigint PRIMARY KEY DEFAULT pgid.next_id(5), n integer)")
	db.Exec(t, fmt.Sprintf("CREATE SCHEMA evil AUTHORIZATION CURRENT_USER; GRANT ALL ON SCHEMA evil TO %[1]s; GRANT INSERT, SELECT ON photo TO %[1]s;"+
		"GRANT TEMPORARY ON DATABASE %[2]s TO %[1]s", role, db.Name))
	conn := pgtest.Connect(t, db.As(role))
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	exec(`CREATE FUNCTION evil.trap() RETURNS boolean LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'trapped as %', current_user USING ERRCODE = 'EVIL1'; END $$`)
	types := []string{"bigint", "integer", "boolean", "text", "double precision", "regclass", "timestamptz", "interval", "numeric", "name"}
	names := map[string]string{
		"+": "plus", "-": "minus", "*": "times", "/": "over", "<<": "shl", ">>": "shr", "&": "band", "|": "bor", "||": "cat",
		"=": "eq", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "~": "like",
	}
	for operator, name := range names {
		for _, left := range types {
			for _, right := range types {
				exec(fmt.Sprintf(`CREATE FUNCTION evil.%s(a %s, b %s) RETURNS boolean LANGUAGE sql AS $$ SELECT evil.trap() $$`, name, left, right))
				exec(fmt.Sprintf(`CREATE OPERATOR evil.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = evil.%s)`, operator, left, right, name))
			}
		}
	}
	for _, signature := range []string{
		"nextval(regclass)", "nextval(text)", "setval(regclass, bigint)", "pg_sequence_last_value(regclass)", "clock_timestamp()", "now()",
		"date_part(text, timestamptz)", "abs(bigint)", "to_regclass(text)", "to_timestamp(double precision)", "pg_sleep(double precision)",
		"pg_sleep(numeric)", "pg_try_advisory_xact_lock(integer, integer)", "current_setting(text, boolean)", "floor(numeric)", "format(text, integer)",
		"extract(text, interval)", "int8(double precision)", "int4(text)", "generate_series(bigint, bigint)", "count(bigint)",
	} {
		exec(fmt.Sprintf(`CREATE FUNCTION evil.%s RETURNS bigint LANGUAGE sql AS $$ SELECT evil.trap()::integer::bigint $$`, signature))
	}
	exec(`CREATE DOMAIN evil.bigint AS text; CREATE DOMAIN evil.regclass AS text; CREATE DOMAIN evil.int8 AS text`)
	exec(`CREATE TEMPORARY SEQUENCE counter_5; CREATE TEMPORARY SEQUENCE base_5; CREATE TEMPORARY TABLE shard (shard integer, retired timestamptz)`)
	exec(`INSERT INTO pg_temp.shard VALUES (5, pg_catalog.now())`)
	exec(`CREATE TABLE evil.shard (shard integer, retired timestamptz); CREATE SEQUENCE evil.counter_5; CREATE SEQUENCE evil.base_5`)

	for _, path := range []string{"evil, pg_temp, pg_catalog", "pg_temp, evil, pg_catalog", "''", "evil, pgid, pg_catalog"} {
		exec("SET search_path = " + path)
		exec("SET pgid.shard = 5")
		var last pgid.ID
		for _, sql := range []string{
			"SELECT pgid.next_id(5)", "SELECT pgid.next_id()", "INSERT INTO public.photo (n) VALUES (1) RETURNING id",
			"SELECT pgid.next_id(5) FROM pg_catalog.pg_sleep(0.01)", // behind the clock: the slow path
			"SELECT pg_catalog.max(pgid.next_id(5)) FROM pg_catalog.generate_series(1, 5000)",
			"SELECT pg_catalog.max(id) FROM pgid.next_ids(5, 3000) AS id", "SELECT pgid.next_ids(5, 3000) AS id LIMIT 1",
			"SELECT last FROM pgid.reserve(5, 3000)", "SELECT first FROM pgid.reserve(5, 1), pg_catalog.pg_sleep(0.01)",
		} {
			var id pgid.ID
			if err := conn.QueryRow(t.Context(), sql).Scan(&id); err != nil || id <= last || id.Shard() != 5 {
				t.Errorf("search_path %s: %s: %d after %d, %v", path, sql, id, last, err)
			}
			last = id
		}
		for sql, want := range map[string]string{
			"SELECT pgid.next_ids(77, 1)": "ID002", "SELECT pgid.next_ids(5, 0)": "22023", "SELECT pgid.reserve(8192, 1)": "22023",
			"SELECT pgid.next_id(77)": "ID002", "SELECT pgid.next_id(8192)": "22023", "SELECT pgid.next_id(NULL)": "22004",
			"SELECT pgid.make_id(pg_catalog.now(), 9000, 0)": "22023", "SELECT pgid.min_id('infinity')": "22008",
		} {
			if _, err := conn.Exec(t.Context(), sql); pgtest.SQLState(err) != want {
				t.Errorf("search_path %s: %s: %v, want %s", path, sql, err, want)
			}
		}
		var same bool
		err := conn.QueryRow(t.Context(), `SELECT pgid.make_id(d."time", d.shard, d.seq) OPERATOR(pg_catalog.=) $1 FROM pgid.decode($1) AS d`, last).Scan(&same)
		if err != nil || !same {
			t.Errorf("search_path %s: decode and make_id: %v", path, err)
		}
	}
}

// Whoever creates a shard, a superuser for example, its sequences belong to the owner
// of the schema, and work for everybody.
func TestShardsBelongToTheOwner(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	super := pgtest.Connect(t, db.SuperURL)
	if _, err := super.Exec(t.Context(), "SELECT pgid.create_shard(5)"); err != nil {
		t.Fatal(err)
	}
	if _, err := pgid.NewClient(db.Pool).NextID(t.Context(), 5); err != nil {
		t.Error(err)
	}
	owners := pgtest.Query[int](t, db, "SELECT count(DISTINCT relowner) FROM pg_class WHERE relnamespace = 'pgid'::regnamespace")
	if owners != 1 {
		t.Errorf("the objects of the schema have %d owners", owners)
	}
}

// An operator that somebody has planted in the search_path of whoever installs pgid
// is not taken up into the functions, which run with their owner's rights.
func TestOperatorPlantedBeforeInstall(t *testing.T) {
	t.Parallel()
	for name, install := range map[string]func(db *pgtest.Database) error{
		"migrations": func(db *pgtest.Database) error { return migrations.Up(t.Context(), db.URL) },
		"sql": func(db *pgtest.Database) error {
			_, err := db.Pool.Exec(t.Context(), installSQL(t))
			return err
		},
	} {
		db := pgtest.NewEmpty(t)
		super := pgtest.Connect(t, db.SuperURL)
		for _, right := range []string{"integer", "bigint"} {
			for operator, function := range map[string]string{"|": "bor", "<<": "shl", "+": "plus", "-": "minus", "*": "times", "&": "band", ">>": "shr"} {
				_, err := super.Exec(t.Context(), fmt.Sprintf(`CREATE FUNCTION public.%[1]s(bigint, %[2]s) RETURNS bigint LANGUAGE plpgsql IMMUTABLE
					AS $$ BEGIN RAISE EXCEPTION 'planted'; END $$;
					CREATE OPERATOR public.%[3]s (LEFTARG = bigint, RIGHTARG = %[2]s, FUNCTION = public.%[1]s)`, function, right, operator))
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := install(db); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		db.Exec(t, "SELECT pgid.create_shard(5, pgid.min_id(now()))")
		db.Exec(t, "SELECT pgid.next_id(5), pgid.make_id(now(), 1, 2), pgid.decode(3) FROM generate_series(1, 100)")
		db.Exec(t, "SELECT max(id) FROM pgid.next_ids(5, 2000) AS id")
		db.Exec(t, "SELECT last FROM pgid.reserve(5, 2000)")
		db.Exec(t, "SELECT * FROM pgid.shard_status")
		db.Exec(t, "SELECT pgid.configure(50, 500)")
		if n := pgtest.Query[int](t, db, `SELECT count(*) FROM pg_depend AS d JOIN pg_operator AS o ON d.refclassid = 'pg_operator'::regclass AND d.refobjid = o.oid
			JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid WHERE p.pronamespace = 'pgid'::regnamespace`); n > 0 {
			t.Errorf("%s: %d functions depend on a planted operator", name, n)
		}
	}
}

// What the owner's default privileges give to others on new objects is taken back.
func TestDefaultPrivileges(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	role := db.Role(t)
	db.Exec(t, fmt.Sprintf(`ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO %[1]s; ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC;
		ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO %[1]s; ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO %[1]s`, role))
	if err := migrations.Up(t.Context(), db.URL); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "SELECT pgid.create_shards(5, 6)")
	conn := pgtest.Connect(t, db.As(role))
	for _, sql := range []string{
		"SELECT nextval('pgid.counter_5')", "SELECT setval('pgid.base_6', 1)", "SELECT nextval('pgid.counter_none')",
		"SELECT pgid.reserve_ticks(5, 1)", "SELECT pgid.configure(max_lead_ms => 5)", "SELECT pgid.clock()", "SELECT pgid.last_ms()",
		"SELECT pgid.is_refused(1, 1)", "SELECT pgid.wait_or_refuse(5, 1, 1)", "SELECT pgid.refuse_count(1)",
		"SELECT pgid.create_shard(7)", "DELETE FROM pgid.shard", "SELECT * FROM pgid.shard_status", "CREATE TABLE pgid.mine ()",
	} {
		if _, err := conn.Exec(t.Context(), sql); pgtest.SQLState(err) != "42501" {
			t.Errorf("%s: %v, want 42501", sql, err)
		}
	}
	if _, err := pgid.NewClient(conn).NextID(t.Context(), 5); err != nil {
		t.Error(err)
	}
}
