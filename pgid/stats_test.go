package pgid_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

func TestServerStats(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	client := pgid.NewClient(db.Pool)
	before, err := client.ServerStats(t.Context())
	if err != nil || before.Waits+before.Refusals+before.Busy+before.ClockSteps != 0 {
		t.Errorf("a new database has %+v: %v", before, err)
	}
	db.Exec(t, "SELECT pgid.create_shard(2)")
	db.Exec(t, "SELECT pgid.advance_shard(2, pgid.make_id(clock_timestamp() + interval '1 hour', 2, 0))")
	if _, err := client.NextID(t.Context(), 2); !errors.Is(err, pgid.ErrClockBehind) {
		t.Fatal(err)
	}
	db.Exec(t, "SELECT nextval('pgid.count_waits'), nextval('pgid.count_waits'), nextval('pgid.count_waits'), nextval('pgid.count_busy'), nextval('pgid.count_busy')")
	s, err := client.ServerStats(t.Context())
	if err != nil || s.Waits != 3 || s.Refusals != 1 || s.Busy != 2 || s.ClockSteps != 0 || s.ClockHigh == nil || time.Since(*s.ClockHigh).Abs() > time.Minute {
		t.Errorf("%+v: %v", s, err)
	}
	text, err := json.Marshal(s)
	if err != nil || !strings.HasPrefix(string(text), `{"waits":3,"refusals":1,"busy":2,"clock_steps":0,"clock_high":"20`) {
		t.Errorf("as JSON: %s: %v", text, err)
	}
}

func TestShardStatus(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	client := pgid.NewClient(db.Pool)
	if shards, err := client.ShardStatus(t.Context()); err != nil || len(shards) != 0 {
		t.Errorf("of no shards: %v, %v", shards, err)
	}
	db.Exec(t, "SELECT pgid.create_shards(4, 6), pgid.create_pool('workers', 9, 9)")
	id, err := client.NextID(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	last, err := client.NextID(t.Context(), 6)
	if err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "SELECT pgid.retire_shard(6)")
	settings, err := client.Settings(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	shards, err := client.ShardStatus(t.Context())
	if err != nil || len(shards) != 4 {
		t.Fatalf("%v: %v", shards, err)
	}
	if s := shards[0]; s.Shard != 4 || s.LastID != nil || s.LastTime != nil || s.LeadMS != nil || s.IDsLeft < 1<<49 || s.Retired != nil || s.Pool != nil || time.Since(s.Created).Abs() > time.Minute {
		t.Errorf("a new shard: %+v", s)
	}
	if s := shards[1]; s.Shard != 5 || *s.LastID != id || !s.LastTime.Equal(settings.Layout.Time(id)) || *s.LeadMS > 0 {
		t.Errorf("a shard that drew %d: %+v", id, s)
	}
	if s := shards[2]; s.Shard != 6 || *s.LastID != last || s.IDsLeft != 0 || s.Retired == nil || time.Since(*s.Retired).Abs() > time.Minute {
		t.Errorf("a retired shard: %+v", s)
	}
	if s := shards[3]; s.Shard != 9 || s.Pool == nil || *s.Pool != "workers" {
		t.Errorf("a shard of a pool: %+v", s)
	}
	text, err := json.Marshal(shards[1])
	if err != nil || !strings.HasPrefix(string(text), `{"shard":5,"last_id":"`+id.String()+`","last_time":"20`) {
		t.Errorf("as JSON: %s: %v", text, err)
	}
}

func TestStatsErrors(t *testing.T) {
	t.Parallel()
	ask := map[string]func(*pgid.Client) error{
		"ServerStats": func(c *pgid.Client) error { _, err := c.ServerStats(t.Context()); return err },
		"ShardStatus": func(c *pgid.Client) error { _, err := c.ShardStatus(t.Context()); return err },
	}
	db, empty, old := pgtest.New(t), pgtest.NewEmpty(t), pgtest.New(t)
	other, err := pgx.Connect(t.Context(), db.As(db.Role(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close(t.Context()) })
	for name, call := range ask {
		var pg *pgconn.PgError
		if err := call(pgid.NewClient(other)); !errors.As(err, &pg) || pg.Code != "42501" || !strings.HasPrefix(err.Error(), "pgid: ") {
			t.Errorf("%s of a role without the right: %v", name, err)
		}
		if err := call(pgid.NewClient(empty.Pool)); !errors.Is(err, pgid.ErrNotInstalled) {
			t.Errorf("%s without pgid: %v", name, err)
		}
		old.Exec(t, "CREATE OR REPLACE FUNCTION pgid.version() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 2")
		client := pgid.NewClient(old.Pool)
		if err := call(client); !errors.Is(err, pgid.ErrUnknownVersion) || !strings.Contains(err.Error(), "version 2") {
			t.Errorf("%s of an old version: %v", name, err)
		}
		old.Exec(t, "CREATE OR REPLACE FUNCTION pgid.version() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 3")
		if err := call(client); err != nil { // migrated meanwhile
			t.Errorf("%s after an upgrade: %v", name, err)
		}
	}
}

// The modes that work behind a pooler read the same.
func TestStatsInEveryExecMode(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(5)")
	db.Exec(t, "SELECT pgid.next_id(5)")
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		conn := pgtest.ConnectMode(t, db.URL, mode)
		client := pgid.NewClient(conn)
		if s, err := client.ServerStats(t.Context()); err != nil || s.ClockHigh == nil {
			t.Errorf("%s: %+v, %v", mode, s, err)
		}
		if s, err := client.ShardStatus(t.Context()); err != nil || len(s) != 1 || s[0].LastID == nil {
			t.Errorf("%s: %+v, %v", mode, s, err)
		}
		_ = conn.Close(t.Context())
	}
}

// What a service exports has names, whichever way it is exported.
func TestStatsHaveNames(t *testing.T) {
	t.Parallel()
	for _, v := range []any{pgid.AllocatorStats{}, pgid.ServerStats{}, pgid.ShardStatus{}} {
		text, err := json.Marshal(v)
		if err != nil || regexp.MustCompile(`"[A-Z]`).Match(text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
