package pgid_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nextid/postgres-ids/pgid"
)

// fakeDB answers the two queries of a Client.
type fakeDB struct {
	settings    []any // the row of pgid.settings()
	settingsErr error
	id          int64
	idErr       error
	queries     []string
	args        []any // of the last query
}

// standing is a database with the present schema and limits of its own.
func standing() *fakeDB {
	return &fakeDB{settings: []any{pgid.SchemaVersion, 41, 13, 10, epoch.UnixMilli() - 5, int64(50), int64(700)}, id: 77}
}

func (db *fakeDB) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	db.queries = append(db.queries, sql)
	db.args = args
	if strings.Contains(sql, "pgid.settings()") {
		return fakeRow{db.settings, db.settingsErr}
	}
	return fakeRow{[]any{db.id}, db.idErr}
}

type fakeRow struct {
	values []any
	err    error
}

func (r fakeRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	if len(dest) != len(r.values) {
		return fmt.Errorf("%d columns into %d variables", len(r.values), len(dest))
	}
	for i, value := range r.values {
		target := reflect.ValueOf(dest[i]).Elem()
		target.Set(reflect.ValueOf(value).Convert(target.Type()))
	}
	return nil
}

func TestClientReadsSettingsOnce(t *testing.T) {
	t.Parallel()
	db := standing()
	client := pgid.NewClient(db)
	if len(db.queries) != 0 {
		t.Errorf("NewClient asked %q", db.queries)
	}
	for range 3 {
		if id, err := client.NextID(t.Context(), 5); err != nil || id != 77 {
			t.Fatalf("NextID = %d, %v", id, err)
		}
		if got := fmt.Sprint(db.args); got != "[5]" {
			t.Errorf("asked with %s", got)
		}
	}
	settings, err := client.Settings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	layout, err := pgid.NewLayout(epoch.Add(-5 * time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	want := pgid.Settings{Version: pgid.SchemaVersion, Layout: layout, Limits: pgid.Limits{MaxLead: 50 * ms, MaxWait: 700 * ms}}
	if settings != want {
		t.Errorf("settings %+v, want %+v", settings, want)
	}
	if len(db.queries) != 4 { // settings, and three IDs
		t.Errorf("queries %q", db.queries)
	}
}

// TestClientWith: a transaction's client knows what the pool's has read, and the
// other way round.
func TestClientWith(t *testing.T) {
	t.Parallel()
	pool, tx := standing(), &fakeDB{id: 88}
	client := pgid.NewClient(pool)
	inTx := client.With(tx)
	if _, err := client.NextID(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	if id, err := inTx.NextID(t.Context(), 5); err != nil || id != 88 {
		t.Errorf("NextID in the transaction = %d, %v", id, err)
	}
	if len(pool.queries) != 2 || len(tx.queries) != 1 {
		t.Errorf("queries of the pool %q, of the transaction %q", pool.queries, tx.queries)
	}

	first, then := standing(), &fakeDB{id: 99}
	client = pgid.NewClient(then)
	if _, err := client.With(first).Settings(t.Context()); err != nil {
		t.Fatal(err)
	}
	if id, err := client.NextID(t.Context(), 5); err != nil || id != 99 || len(then.queries) != 1 {
		t.Errorf("NextID = %d, %v, queries %q", id, err, then.queries)
	}
}

func TestClientChecksShardFirst(t *testing.T) {
	t.Parallel()
	for _, shard := range []pgid.Shard{-1, maxShard + 1, 1<<31 - 1, -1 << 31} {
		db := standing()
		if id, err := pgid.NewClient(db).NextID(t.Context(), shard); id != 0 || !errors.Is(err, pgid.ErrOutOfRange) {
			t.Errorf("shard %d: %d, %v, want ErrOutOfRange", shard, id, err)
		}
		if len(db.queries) != 0 {
			t.Errorf("shard %d: asked %q", shard, db.queries)
		}
	}
	for _, shard := range []pgid.Shard{0, maxShard} {
		if _, err := pgid.NewClient(standing()).NextID(t.Context(), shard); err != nil {
			t.Errorf("shard %d: %v", shard, err)
		}
	}
}

// TestClientRefuses: with settings that it does not understand, a client draws no
// ID, and asks again the next time.
func TestClientRefuses(t *testing.T) {
	t.Parallel()
	change := func(column int, value any) *fakeDB {
		db := standing()
		db.settings[column] = value
		return db
	}
	failing := func(err error) *fakeDB {
		db := standing()
		db.settingsErr = err
		return db
	}
	other := errors.New("connection reset")
	tests := []struct {
		name string
		db   *fakeDB
		want error
	}{
		{"version 0", change(0, 0), pgid.ErrUnknownVersion},
		{"a later version", change(0, pgid.SchemaVersion+1), pgid.ErrUnknownVersion},
		{"time bits", change(1, 42), pgid.ErrUnknownVersion},
		{"shard bits", change(2, 12), pgid.ErrUnknownVersion},
		{"seq bits", change(3, 12), pgid.ErrUnknownVersion},
		{"epoch too early", change(4, int64(-1)), pgid.ErrUnknownVersion},
		{"epoch too late", change(4, int64(1)<<60), pgid.ErrUnknownVersion},
		{"no schema", failing(&pgconn.PgError{Code: "3F000"}), pgid.ErrNotInstalled},
		{"no function", failing(&pgconn.PgError{Code: "42883"}), pgid.ErrNotInstalled},
		{"no network", failing(other), other},
		{"cancelled", failing(context.Canceled), context.Canceled},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client := pgid.NewClient(test.db)
			if id, err := client.NextID(t.Context(), 5); id != 0 || !errors.Is(err, test.want) {
				t.Errorf("NextID = %d, %v, want %v", id, err, test.want)
			}
			if settings, err := client.Settings(t.Context()); settings != (pgid.Settings{}) || !errors.Is(err, test.want) {
				t.Errorf("Settings = %+v, %v, want %v", settings, err, test.want)
			}
			if len(test.db.queries) != 2 {
				t.Errorf("queries %q, want the settings twice", test.db.queries)
			}

			test.db.settings, test.db.settingsErr = standing().settings, nil
			if id, err := client.NextID(t.Context(), 5); err != nil || id != 77 {
				t.Errorf("once it is put right: NextID = %d, %v", id, err)
			}
		})
	}
}

func TestClientKeepsPgError(t *testing.T) {
	t.Parallel()
	for code, sentinel := range sentinels {
		db := standing()
		pg := &pgconn.PgError{Code: code}
		db.idErr = pg
		id, err := pgid.NewClient(db).NextID(t.Context(), 5)
		var got *pgconn.PgError
		if id != 0 || !errors.Is(err, sentinel) || !errors.As(err, &got) || got != pg {
			t.Errorf("%s: NextID = %d, %v", code, id, err)
		}
	}
	db := standing()
	db.settingsErr = &pgconn.PgError{Code: "3F000", Message: `schema "pgid" does not exist`}
	_, err := pgid.NewClient(db).NextID(t.Context(), 5)
	var got *pgconn.PgError
	if !errors.As(err, &got) || !strings.Contains(err.Error(), "pgid migrate up") {
		t.Errorf("not installed: %v", err)
	}
}

// TestClientKnowsVersions: NextID needs no more than the first schema.
func TestClientKnowsVersions(t *testing.T) {
	t.Parallel()
	if pgid.SchemaVersion != 3 {
		t.Errorf("SchemaVersion = %d", pgid.SchemaVersion)
	}
	for version := 1; version <= pgid.SchemaVersion; version++ {
		db := standing()
		db.settings[0] = version
		if id, err := pgid.NewClient(db).NextID(t.Context(), 5); err != nil || id != 77 {
			t.Errorf("version %d: %d, %v", version, id, err)
		}
	}
}

func TestClientRefresh(t *testing.T) {
	t.Parallel()
	db := standing()
	client := pgid.NewClient(db)
	before, err := client.Settings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db.settings[5] = int64(51)
	if kept, err := client.Settings(t.Context()); err != nil || kept != before {
		t.Errorf("Settings = %+v, %v, want those that were read", kept, err)
	}
	want := before
	want.Limits.MaxLead = 51 * ms
	if fresh, err := client.Refresh(t.Context()); err != nil || fresh != want {
		t.Errorf("Refresh = %+v, %v, want %+v", fresh, err, want)
	}
	if fresh, err := client.With(nil).Settings(t.Context()); err != nil || fresh != want {
		t.Errorf("Settings after Refresh = %+v, %v, want %+v", fresh, err, want)
	}

	db.settingsErr = context.Canceled
	if none, err := client.Refresh(t.Context()); none != (pgid.Settings{}) || !errors.Is(err, context.Canceled) {
		t.Errorf("Refresh = %+v, %v", none, err)
	}
	if kept, err := client.Settings(t.Context()); err != nil || kept != want {
		t.Errorf("Settings after a Refresh that failed = %+v, %v, want %+v", kept, err, want)
	}
}
